package problems

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/input"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/loss"
	"surepipe/problems/internal/check"
	"surepipe/problems/spec"
	"surepipe/prox"
	"surepipe/solve/rewrite"
	"surepipe/stages"
	"surepipe/vjp"
)

// Problem is an estimator ready to be solved: an operator, a regularizer, and the solver that
// suits them.
type Problem struct {
	// Name is one of [Names], or the name of a specification.
	Name string
	// Operator is A, D x P, and Regularizer is r. With Data.Intercept the columns of A are centered,
	// and with Data.Standardize scaled: see [Problem.Coefficients]. With a loss that is not squared an
	// intercept is one more column, of ones, which r leaves free.
	Operator    linops.Operator
	Regularizer prox.Prox
	D, P        int
	// Behind is the operator K where the regularizer penalizes K b; nil where it penalizes b. The
	// terms of a specification are one on top of the other.
	Behind linops.Operator
	View
	Values
	// Thresholds is how many thresholds were chosen by SURE at Data.Y. They too make the estimator
	// depend on y: see [Problem.Relative].
	Thresholds int
	// Center is the axis of rotation of a scanner as it was found from Data.Y; nil where it was not. The
	// estimator takes it as given.
	Center *spec.Center
	Columns
	// Targets says what the estimates of risk are about.
	Targets       spec.Targets
	DefaultSolver string

	// Effects are those of the data, and EffectsChoice how they were chosen.
	Effects       Effects
	EffectsChoice *EffectsChoice
	// Loss is the loss. With one that is not squared mu_hat is the linear predictor.
	Loss Loss

	dev array.Device
	// effects is the projection on the effects, nil without them.
	effects *additive.Effects
	// loss is nil for the squared loss without weights.
	loss loss.Loss
	// observed are the places that a selection of a matrix picks.
	observed []int
	// top is the weight lambda at which a default path begins, which is that of a sum of squares where squares is set.
	top     func(context.Context) (float64, error)
	squares bool
	// reweigh returns the regularizer at other weights. Its device memory belongs to the problem.
	reweigh func(lambda, lambda2, gamma float64) (prox.Prox, error)

	// parts hold what is on the device.
	parts *spec.Parts
}

// View is how to present a solution.
type View struct {
	// MuShape and BShape are the shapes in which to present mu_hat and b: b of robust PCA is two
	// matrices, (2, m, n). MuComplex says that the last axis of MuShape is the real and imaginary part of
	// complex numbers.
	MuShape, BShape []int
	MuComplex       bool
	// Frames and Units are those of the data.
	Frames []int
	Units  []float64
	spec.Picture
}

// Values are those of the weights.
type Values struct {
	// Lambda, Lambda2 and Gamma are the weights as numbers, NaN where the problem has no such
	// weight.
	Lambda, Lambda2, Gamma float64
	// Relative says that a weight was a multiple of its maximum at Data.Y. The estimator then
	// depends on y through that weight, and SURE at the same y is only approximately unbiased.
	Relative bool
}

// Columns is what is known of the columns of an operator that is a matrix.
type Columns struct {
	// NearlyConstant lists the columns of a matrix that are constant up to the last digits of their
	// entries. With Data.Intercept they count as constant, and as part of the intercept.
	NearlyConstant []int
	// Missing is the number of missing values of the operator's matrix, which count as the mean of
	// their column.
	Missing int64

	// rows says that the operator is a matrix of the data.
	rows bool
	// outcomes is the number of columns of y where it has several for a row of X, with as many coefficients of each
	// column of X, one after the other; 0 elsewhere.
	outcomes int
	// classes says that these are classes: a constant in all of them changes nothing.
	classes bool
	// constant is the place of the intercept's first coordinate in b, 0 where it has none.
	constant int
	// means are those of the original columns, where there is an intercept or they are centered without one; else nil.
	// scales are the standard deviations by which the columns are divided; nil where they are not.
	means, scales []float64
	centered      bool
	// redundant are columns that depend on the others by their coding, and levels all those of
	// categorical columns without a reference.
	redundant, levels []int
}

// Solve returns the problem in the form of package vjp, with its loss. Where it has an intercept or effects, it is the
// problem from which these have been projected off.
func (p *Problem) Solve() vjp.Problem {
	q := vjp.Problem{A: p.Operator, Loss: p.loss, K: p.Behind, R: p.Regularizer, Device: p.dev}
	if pi := p.projection(); pi != nil {
		q, _ = rewrite.Project(q, pi) // assembly has checked that the loss is one for it
	}
	return q
}

// projection is that on the effects, or on the constants of an intercept; nil where there are neither.
func (p *Problem) projection() additive.Projection {
	switch {
	case p.effects != nil:
		return p.effects
	case p.means != nil && p.constant == 0 && !p.centered:
		return additive.Constant(p.D)
	}
	return nil
}

// remaining is y without its projection. Where that is all of y the remaining rounding errors do not count.
func (p *Problem) remaining(y []float64) []float64 {
	pi := p.projection()
	if pi == nil {
		return y
	}
	z := p.dev.Alloc(1, len(y))
	defer z.Free()
	p.dev.Upload(z, y)
	pi.Remove(z)
	rest := z.ToHost()
	if size := floats.Norm(y, 2); floats.Norm(rest, 2) <= roundingOfRest*size || math.IsNaN(size) {
		clear(rest)
	}
	return rest
}

// roundingOfRest is how large what a projection leaves of y may be, relative to y, by rounding errors alone, and the
// correlation of a column with that.
const roundingOfRest = 1e-13

// Release frees what the problem holds on the device.
func (p *Problem) Release() { p.parts.Release() }

// New builds a problem on a device from a specification: that of the data, whatever the name, or
// else that of the named problem. Weights that hyper does not set are taken from the specification
// or the data. The data may hold weights that the problem does not use; hyper may not. Errors name
// the array or the weight, what was found and what was expected.
func New(name string, dev array.Device, data Data, hyper Hyper) (*Problem, error) {
	return NewContext(context.Background(), name, dev, data, hyper)
}

// patience is how long work may take to stop on its own once its context is done.
const patience = time.Second / 2

// NewContext is [New], which ends within a second of its context. A factorization that is then under way ends later, on
// its own, and the device is used until then. A panic, such as of a matrix of the data, is a [stages.PanicError].
func NewContext(ctx context.Context, name string, dev array.Device, data Data, hyper Hyper) (*Problem, error) {
	switch {
	case ctx == nil:
		return nil, input.Errorf("the context is nil, expected one, such as context.Background()")
	case dev == nil:
		return nil, input.Errorf("the device is nil, expected one, such as array.NewHost()")
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	p, err := stages.Within(ctx, patience, func() (*Problem, error) {
		return newProblem(ctx, name, dev, data, hyper)
	}, (*Problem).Release)
	var panicked *stages.PanicError
	var short *array.MemoryError
	if err != nil && dev.Err() == nil && ctx.Err() == nil && !errors.As(err, &panicked) && !errors.As(err, &short) {
		err = input.Bad(err)
	}
	return p, err
}

// unitsText is what risks are in where columns were divided by their standard deviations.
const unitsText = ", in units of the columns' standard deviations"

func newProblem(ctx context.Context, name string, dev array.Device, data Data, hyper Hyper) (*Problem, error) {
	s, named, err := checked(name, &data)
	if err != nil {
		return nil, err
	}
	parts, err := s.Build(dev, data)
	if err != nil {
		return nil, err
	}
	p := &Problem{
		Name: s.Name, Operator: parts.Operator, Behind: parts.Behind, Thresholds: parts.Thresholds,
		Center: parts.Center, Loss: s.LossOf(data), dev: dev, parts: parts,
		View: View{MuShape: data.YShape, BShape: parts.Shape, MuComplex: data.Complex, Frames: data.Frames,
			Units: data.Units, Picture: parts.Picture}, EffectsChoice: data.EffectsChoice,
		Values: Values{Lambda: math.NaN(), Lambda2: math.NaN(), Gamma: math.NaN()},
	}
	p.D, p.P = parts.Operator.Dims()
	p.Columns = Columns{Missing: parts.Missing, outcomes: outcomesOf(p.Loss, data), classes: p.Loss.Row().Classes,
		rows: s.Regression() && s.Line("synthesis") == 0, redundant: redundant(data), levels: levels(data)}
	if parts.Source != nil && len(parts.Shape) == 2 {
		p.observed = parts.Source.Places
	}
	p.Targets = parts.Targets.Of(p.Loss).OfNoise(s.Noise())
	if data.Units != nil {
		p.Targets.SURE += unitsText
		p.Targets.Prediction += unitsText
	}
	a := &assembly{ctx: ctx, Spec: s, p: p, parts: parts, data: data, named: named != nil}
	err = a.build(hyper)
	if err == nil {
		err = p.checkUsed(hyper)
	}
	if err == nil {
		err = cmp.Or(ctx.Err(), dev.Sync())
	}
	if err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// Check rejects data from which the problem cannot be built, before anything looks at them.
func Check(name string, data Data) error {
	if _, _, err := checked(name, &data); err != nil {
		return input.Bad(err)
	}
	return nil
}

// checked is the specification of data that have been checked.
func checked(name string, data *Data) (s *spec.Spec, named *Named, err error) {
	if s, named, err = specification(name, *data); err != nil {
		return nil, nil, err
	}
	if data.YShape == nil && data.Y != nil {
		data.YShape = []int{len(data.Y)}
	}
	if err = checkOutcomes(s.LossOf(*data), *data); err == nil {
		err = checkData(s, named, *data)
	}
	return s, named, err
}

func checkData(s *spec.Spec, named *Named, data Data) error {
	if named != nil {
		return named.check(data)
	}
	err := check.Vector("y", data.Y, data.YShape, len(data.YShape), "an array")
	if err == nil {
		err = checkMu(data)
	}
	return s.At(s.Line("data"), err)
}

func checkMu(data Data) error {
	if data.Mu == nil {
		return nil
	}
	if len(data.Mu) != len(data.Y) {
		return fmt.Errorf("array \"mu\" has %d values, expected %d, as many as \"y\"", len(data.Mu), len(data.Y))
	}
	return check.Finite("mu", data.Mu, data.YShape)
}
