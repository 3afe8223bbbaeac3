package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/noise"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/study"
)

// sigma2Value is the value of --sigma2: a number, or how to estimate it.
type sigma2Value struct {
	value  *float64
	method *string
}

// Set reads a number or the name of a method.
func (v sigma2Value) Set(text string) error {
	if slices.Contains(problems.Sigma2Methods(), text) {
		*v.value, *v.method = 0, text
		return nil
	}
	x, ok := dataio.ParseNumber(text)
	if !ok {
		return fmt.Errorf("expected a number or one of %s", strings.Join(problems.Sigma2Methods(), ", "))
	}
	*v.value, *v.method = x, ""
	return nil
}

func (v sigma2Value) String() string {
	switch {
	case v.value == nil:
		return ""
	case *v.method != "":
		return *v.method
	case *v.value == 0:
		return ""
	}
	return strconv.FormatFloat(*v.value, 'g', -1, 64)
}

// Type is its name in the help.
func (v sigma2Value) Type() string { return "float|auto" }

// The grids on which sigma2 is estimated from fits: below the weight's maximum where that is known,
// and else around a scale.
const (
	fitsPerDecade = 8
	fitsBelow     = 4 // decades
	scaledDecades = 4 // decades on each side of the scale
)

// varianceOfFits estimates sigma2 from fits along a path of lambda, and sets it in the data. The
// points and their probes do not depend on the weights of the flags, but for those that are not
// swept: run, sweep and montecarlo give the same sigma2.
func (f *estimatorFlags) varianceOfFits(cmd *cobra.Command, dev array.Device, data *problems.Data, bar *progress) error {
	refused := func(reason error) error {
		return usagef("%s: sigma2 cannot be estimated (%s): %w; give sigma2 (--sigma2), or choose by --criterion gcv without it", f.Name(), problems.MethodGCVResidual, reason)
	}
	problem, name, grid, err := f.pathOfFits(dev, *data)
	if err != nil {
		if fault := dev.Err(); fault != nil {
			return fault
		}
		return refused(err)
	}
	defer problem.Release()
	if err := f.checkScale(*data, 0, problem.D); err != nil {
		return err
	}
	family, options, err := f.fitsFamily(dev, problem, name)
	if err != nil {
		return err
	}
	options.Progress = bar.follower()
	v, err := pipeline.EstimateSigma2(bar.preparing(cmd.Context()), data.Y, family, [][]float64{grid}, options)
	switch {
	case errors.Is(err, pipeline.ErrNoResidual):
		return refused(pipeline.ErrNoResidual)
	case err != nil:
		return err
	case !(v.Sigma2 > 0) || math.IsInf(v.Sigma2, 0):
		return usagef("%s: sigma2 cannot be estimated (%s): it comes to %g; give sigma2 (--sigma2)", f.Name(), problems.MethodGCVResidual, v.Sigma2)
	}
	f.Estimate = &noise.Estimate{Sigma2: v.Sigma2, RelStdErr: v.RelStdErr, Method: problems.MethodGCVResidual}
	data.Sigma2 = &v.Sigma2
	end := ""
	if v.AtEnd {
		end = ", the end of what was tried, df up to d/2, so that it may be far too large"
	}
	f.note(cmd, study.NoteBiasedSigma2, "sigma2 is RSS/(d - df) of the fit with the least gcv of %d, at %s = %.6g (df %.6g of d = %d%s): it is biased up by the squared bias of that fit over d - df, which neither its error nor that of SURE includes",
		v.Points, name, v.Weight, v.DF, v.D, end)
	return nil
}

// pathOfFits opens the problem without sigma2, and returns the weight to sweep and its grid.
func (f *estimatorFlags) pathOfFits(dev array.Device, data problems.Data) (*problems.Problem, string, []float64, error) {
	data.Sigma2 = nil
	at := func(lambda string) (*problems.Problem, error) {
		g := *f
		g.lambda = lambda
		hyper, err := g.hyper()
		if err != nil {
			return nil, err
		}
		return problems.New(f.Problem, dev, data, hyper)
	}
	problem, err := at("max")
	if err == nil {
		most := problem.Lambda
		return problem, "lambda", logGrid(most*math.Pow(10, -fitsBelow), most, fitsBelow*fitsPerDecade+1), nil
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
	return scaled, "lambda", logGrid(scale/reach, scale*reach, 2*scaledDecades*fitsPerDecade+1), nil
}

// logGrid are n numbers, equally spaced on the logarithmic scale.
func logGrid(from, to float64, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = from * math.Pow(to/from, float64(i)/float64(n-1))
	}
	values[n-1] = to
	return values
}

// fitsFamily is the family of estimators of the path, and its options.
func (f *estimatorFlags) fitsFamily(dev array.Device, problem *problems.Problem, name string) (family pipeline.Family, o pipeline.SweepOptions, err error) {
	family = pipeline.Family{
		Problem: problem.Solve(), Solver: f.solver,
		Regularizer: func(swept []float64) (prox.Prox, error) {
			w := study.WeightsOf(problem)
			w[name] = swept[0]
			return problem.Reweighted(w["lambda"], w["lambda2"], w["gamma"])
		},
	}
	if f.solver == "auto" {
		family.Solver = problem.DefaultSolver
	}
	if family.Settings, err = f.solverOptions(dev, 0); err != nil {
		return family, o, err
	}
	o.Options = pipeline.Options{Parallel: f.parallel, Batch: f.probeBatch}
	f.traceFlags.options(&o.Options)
	o.ALO = false
	return family, o, nil
}

// relStdErr is the standard error of sigma2 over its value; nil where it was given.
func (f *estimatorFlags) relStdErr() *float64 {
	if f.Estimate == nil {
		return nil
	}
	return &f.Estimate.RelStdErr
}

// tooLargeText is the message for many results.
const tooLargeText = "SURE of %d of %d %s is more than three error bars below 0, although it estimates a squared error: sigma2 is too large (--sigma2)"
