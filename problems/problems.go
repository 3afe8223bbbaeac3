package problems

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/vjp"
)

// Data is what a problem is made of, as it comes from a file or from memory.
// The arrays are not modified and must not be modified while a Problem made of
// them is in use.
type Data struct {
	// X is the d x p design matrix of the regression problems; Sparse stands in
	// its place where most entries are zero.
	X      *mat.Dense
	Sparse *dataio.Sparse
	// Y holds the observations, row-major where they form a matrix; YShape is
	// their shape: (d) for regression, completion and sequences, (m, n) for svt,
	// robust PCA and sequences side by side. A nil YShape stands for (len(Y)).
	Y      []float64
	YShape []int
	// Indices are the observed entries of matrix completion, as places in the
	// row-major matrix of shape Shape; Y[i] belongs to Indices[i].
	Indices []int
	Shape   []int
	// Mu is the true mean, shaped as Y, where it is known.
	Mu []float64
	// Sigma2, Lambda, Lambda2 and Gamma are the file's own settings; nil where it
	// has none.
	Sigma2, Lambda, Lambda2, Gamma *float64
	// Intercept asks for an intercept, which no penalty falls on, in a regression or a
	// specification without a synthesis. The pipeline's option of that name is its other
	// half: without it the mean of y stays in the residual. See [Problem.Intercept].
	Intercept bool
	// Spec is the specification that the data came with, by [Spec.Load]; nil for the
	// named problems.
	Spec *Spec
}

// Hyper are the weights of the regularizer. A zero Weight is one not given.
type Hyper struct {
	Lambda, Lambda2, Gamma Weight
}

// Problem is an estimator ready to be solved: an operator, a regularizer, and
// the solver that suits them.
type Problem struct {
	// Name is one of Names, or the name of a specification.
	Name string
	// Operator is A, D x P; Regularizer is r. With Data.Intercept A's columns have lost
	// their means.
	Operator    linops.Operator
	Regularizer prox.Prox
	D, P        int
	// MuShape and BShape are the shapes of mu_hat and of b for people: b of robust
	// PCA is two matrices, (2, m, n).
	MuShape, BShape []int
	// Signal maps b to what was sought, where that is neither b nor mu_hat: the
	// synthesis of a specification, b's image before it is blurred or lost in
	// part. SignalShape is its shape. Nil elsewhere.
	Signal      linops.Operator
	SignalShape []int
	// Lambda, Lambda2 and Gamma are the weights as numbers, NaN where the problem
	// has no such weight.
	Lambda, Lambda2, Gamma float64
	// Relative reports that a weight was a multiple of its maximum at Data.Y: an
	// estimator that looks at y, for whose risk SURE at the same y is only
	// approximately unbiased.
	Relative bool
	// NearlyConstant lists columns of a matrix that are constant but for the last digits of their
	// entries: with Data.Intercept they count as constant, and as part of the intercept.
	NearlyConstant []int
	// DefaultSolver is the solver to use where nobody chooses.
	DefaultSolver string

	dev array.Device
	// means are those of the columns, where there is an intercept; else nil.
	means []float64
	// reweigh is the regularizer at other weights, for sequences and specifications.
	// What it holds on the device is the problem's.
	reweigh func(lambda, lambda2, gamma float64) (prox.Prox, error)

	mu    sync.Mutex
	owned []interface{ Release() }
}

// Solve is the problem as package vjp takes it.
func (p *Problem) Solve() vjp.Problem {
	return vjp.Problem{A: p.Operator, R: p.Regularizer, Device: p.dev, Intercept: p.means != nil}
}

// Release frees what the problem holds on the device.
func (p *Problem) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.owned {
		r.Release()
	}
	p.owned = nil
}

// own hands a part that holds device memory over to Release.
func (p *Problem) own(part any) {
	if r, ok := part.(interface{ Release() }); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.owned = append(p.owned, r)
	}
}

// A kind is one named problem.
type kind struct {
	name string
	// build makes the problem from checked data. Weights are resolved with
	// p.weight.
	build func(p *Problem, data Data, hyper Hyper) error
}

var kinds = []kind{
	{"ols", buildOLS},
	{"ridge", buildRidge},
	{"lasso", buildLasso},
	{"elastic-net", buildElasticNet},
	{"svt", buildSVT},
	{"matrix-completion", buildMatrixCompletion},
	{"robust-pca", buildRobustPCA},
	{"tv1d", buildTV1D},
}

// Names lists the problems that New knows.
func Names() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// New builds the named problem on a device, or, where the data came with one, that
// of their specification, whatever the name. Weights that hyper does not give are
// the data's own; the data may hold weights that the problem has no use for, but
// hyper may not. Errors name the array or the weight at fault, what was found and
// what was expected.
func New(name string, dev array.Device, data Data, hyper Hyper) (*Problem, error) {
	all := kinds
	if data.Spec != nil {
		name = data.Spec.Name
		all = []kind{{name, data.Spec.build}}
	}
	for _, k := range all {
		if k.name != name {
			continue
		}
		if data.YShape == nil && data.Y != nil {
			data.YShape = []int{len(data.Y)}
		}
		p := &Problem{Name: name, dev: dev, Lambda: math.NaN(), Lambda2: math.NaN(), Gamma: math.NaN()}
		weights := hyper
		if data.Spec == nil {
			weights = Hyper{hyper.Lambda.or(data.Lambda), hyper.Lambda2.or(data.Lambda2), hyper.Gamma.or(data.Gamma)}
		}
		err := k.build(p, data, weights)
		if err == nil && data.Intercept && p.means == nil {
			err = fmt.Errorf("an intercept is asked for, but %s has no place for one: expected ols, ridge, lasso, elastic-net or a specification", p.Name)
		}
		if err == nil {
			err = p.checkUsed(hyper)
		}
		if err == nil {
			err = dev.Sync()
		}
		if err != nil {
			p.Release()
			return nil, err
		}
		return p, nil
	}
	return nil, fmt.Errorf("problem %q is unknown, expected one of %s", name, strings.Join(Names(), ", "))
}

// checkUsed refuses a weight that was given to a problem without it.
func (p *Problem) checkUsed(hyper Hyper) error {
	for _, w := range []struct {
		name  string
		given bool
		value float64
	}{{"lambda", hyper.Lambda.given, p.Lambda}, {"lambda2", hyper.Lambda2.given, p.Lambda2}, {"gamma", hyper.Gamma.given, p.Gamma}} {
		if w.given && math.IsNaN(w.value) {
			return weightErrorf(w.name, "is given, but %s has no such weight", p.Name)
		}
	}
	return nil
}

// checkVector refuses a missing, empty or non-finite vector of observations, and
// one whose values do not fill its shape.
func checkVector(name string, v []float64, shape []int, rank int, expected string) error {
	switch {
	case shape == nil:
		return fmt.Errorf("array %q is missing, expected %s", name, expected)
	case len(shape) != rank:
		return fmt.Errorf("array %q has shape %s, expected %s", name, formatShape(shape), expected)
	case len(v) == 0:
		return fmt.Errorf("array %q is empty (shape %s), expected %s", name, formatShape(shape), expected)
	}
	size := 1
	for _, n := range shape {
		size *= max(n, 0)
	}
	if len(v) != size {
		return fmt.Errorf("array %q has %d values, expected %d for its shape %s", name, len(v), size, formatShape(shape))
	}
	if err := checkFinite(name, v, shape); err != nil {
		return err
	}
	return checkScale(name, maxAbs(v))
}

// Numbers of such sizes have squares, and sums and differences of squares, that neither
// vanish nor overflow: the solvers tell by norms how far they are.
const (
	tooSmall = 1e-140
	tooLarge = 1e140
)

// checkScale refuses an array whose largest entry in size is far from 1, other than 0.
func checkScale(name string, largest float64) error {
	switch {
	case largest > 0 && largest < tooSmall:
		return fmt.Errorf("array %q has no entry above %.3g in size, expected some above %g, for squares vanish: multiply it by a constant", name, largest, float64(tooSmall))
	case largest > tooLarge:
		return fmt.Errorf("array %q has an entry of size %.3g, expected none above %g, for squares overflow: divide it by a constant", name, largest, float64(tooLarge))
	}
	return nil
}

// checkFinite refuses NaN and Inf.
func checkFinite(name string, v []float64, shape []int) error {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("array %q holds %g at %s, expected finite numbers", name, x, formatPlace(i, shape))
		}
	}
	return nil
}

// checkMu refuses a true mean of another size than y.
func checkMu(data Data) error {
	if data.Mu == nil {
		return nil
	}
	if len(data.Mu) != len(data.Y) {
		return fmt.Errorf("array \"mu\" has %d values, expected %d as \"y\" has", len(data.Mu), len(data.Y))
	}
	return checkFinite("mu", data.Mu, data.YShape)
}

func formatShape(shape []int) string {
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = fmt.Sprint(n)
	}
	if len(parts) == 1 {
		return "(" + parts[0] + ",)"
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// formatPlace is the place of flat index i in an array of the given shape.
func formatPlace(i int, shape []int) string {
	place := make([]int, len(shape))
	for a := len(shape) - 1; a >= 0; a-- {
		place[a] = i % shape[a]
		i /= shape[a]
	}
	parts := make([]string, len(place))
	for a, n := range place {
		parts[a] = fmt.Sprint(n)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
