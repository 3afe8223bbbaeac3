package load

import (
	"context"
	"errors"
	"math"
	"strconv"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/noise"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/risk/warning"
	"surepipe/study"
	"surepipe/vjp"
)

// The grids on which sigma2 is estimated from fits: below the weight's maximum where that is known,
// and else around a scale.
const (
	fitsPerDecade = 8
	fitsBelow     = 4 // decades
	scaledDecades = 4 // decades on each side of the scale
)

// Fits say how sigma2 is estimated from fits.
type Fits struct {
	Device array.Device
	// Hyper are the weights, of which lambda is not used.
	Hyper    problems.Hyper
	Solver   string
	Settings vjp.Options
	// Options are those of the sweep: its probes, and what is computed at once.
	Options pipeline.SweepOptions
	// Check, if not nil, rejects data of d observations before the fits.
	Check func(d int) error
}

// VarianceOfFits estimates sigma2 as RSS/(d - df) of the fit with the least gcv along a path of lambda.
// The points and their probes do not depend on lambda: all runs with the same data give the same
// sigma2. The note says by how much it is biased.
func (f *Source) VarianceOfFits(ctx context.Context, data problems.Data, o Fits) (e noise.Estimate, n study.Note,
	err error) {
	refused := func(reason error) error {
		return study.Errorf("%s: sigma2 cannot be estimated (%s): %w; give sigma2 (--sigma2), or choose by "+
			"--criterion gcv without it", f.Name(), problems.MethodGCVResidual, reason)
	}
	problem, name, grid, err := f.pathOfFits(data, o)
	if err != nil {
		if fault := o.Device.Err(); fault != nil {
			return e, n, fault
		}
		return e, n, refused(err)
	}
	defer problem.Release()
	if o.Check != nil {
		if err := o.Check(problem.D); err != nil {
			return e, n, err
		}
	}
	v, err := pipeline.EstimateSigma2(ctx, data.Y, fitsFamily(problem, name, o), [][]float64{grid}, o.Options)
	switch {
	case errors.Is(err, pipeline.ErrNoResidual):
		return e, n, refused(pipeline.ErrNoResidual)
	case err != nil:
		return e, n, err
	case !(v.Sigma2 > 0) || math.IsInf(v.Sigma2, 0):
		return e, n, study.Errorf("%s: sigma2 cannot be estimated (%s): it comes to %g; give sigma2 (--sigma2)",
			f.Name(), problems.MethodGCVResidual, v.Sigma2)
	}
	e = noise.Estimate{Sigma2: v.Sigma2, RelStdErr: v.RelStdErr, Method: problems.MethodGCVResidual}
	end := ""
	if v.AtEnd {
		end = ", the end of what was tried, df up to d/2, so that it may be far too large"
	}
	var all study.Notes
	all.Add(warning.Sigma2Biased, "sigma2 is RSS/(d - df) of the fit with the least gcv of %d, at %s = %.6g "+
		"(df %.6g of d = %d%s): it is biased up by the squared bias of that fit over d - df, and down where noise "+
		"that differs makes gcv follow it, which neither its error nor that of SURE includes",
		v.Points, name, v.Weight, v.DF, v.D, end)
	return e, all[0], nil
}

// pathOfFits opens the problem without sigma2, and returns the weight to sweep and its grid.
func (f *Source) pathOfFits(data problems.Data, o Fits) (*problems.Problem, string, []float64, error) {
	data.Sigma2 = nil
	at := func(lambda string) (*problems.Problem, error) {
		hyper := o.Hyper
		var err error
		if hyper.Lambda, err = problems.ParseWeight(lambda); err != nil {
			return nil, err
		}
		return problems.New(f.Problem, o.Device, data, hyper)
	}
	problem, err := at("max")
	if err == nil {
		// Of the pixels of an image the weights that suit the noise are known, and those beyond take long.
		grid, most, err := problem.DefaultGrid(context.Background(), func() float64 {
			rough, _ := noise.MADSignal(data.Y)
			return rough.Sigma2
		})
		if err == nil && !grid.Relative() {
			values, err := grid.Values(most)
			return problem, "lambda", values, err
		}
		most = problem.Lambda
		values := make([]float64, fitsBelow*fitsPerDecade+1)
		return problem, "lambda", floats.LogSpan(values, most*math.Pow(10, -fitsBelow), most), nil
	}
	// Without a maximum, as for ridge, the scale is the mean of the eigenvalues of A*A that are not 0.
	var weight *problems.WeightError
	if !errors.As(err, &weight) || weight.Weight != "lambda" {
		return nil, "", nil, err
	}
	scaled, again := at(strconv.Itoa(1))
	if again != nil {
		return nil, "", nil, err
	}
	norms := linops.StructureOf(scaled.Operator).ColumnNorms2
	if norms == nil {
		scaled.Release()
		return nil, "", nil, err
	}
	scale := 0.0
	for _, v := range norms() {
		scale += v / float64(min(scaled.D, scaled.P))
	}
	if !(scale > 0) || math.IsInf(scale, 0) {
		scaled.Release()
		return nil, "", nil, err
	}
	reach := math.Pow(10, scaledDecades)
	values := make([]float64, 2*scaledDecades*fitsPerDecade+1)
	return scaled, "lambda", floats.LogSpan(values, scale/reach, scale*reach), nil
}

func fitsFamily(problem *problems.Problem, name string, o Fits) pipeline.Family {
	family := pipeline.Family{
		Problem: problem.Solve(), Solver: o.Solver, Settings: o.Settings,
		Regularizer: func(swept []float64) (prox.Prox, error) {
			w := study.WeightsOf(problem)
			w[name] = swept[0]
			return problem.Reweighted(w["lambda"], w["lambda2"], w["gamma"])
		},
	}
	if o.Solver == "auto" {
		family.Solver = problem.DefaultSolver
	}
	return family
}
