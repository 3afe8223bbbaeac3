package problems

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/internal/stored"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve/rewrite"
	"surepipe/vjp"
)

// Data is the data of a problem, from a file or from memory. The arrays are not modified, and must
// not be modified while a Problem made of them is in use.
type Data struct {
	// X is the d x p design matrix of the regression problems. Sparse replaces it where most
	// entries are zero.
	X      *mat.Dense
	Sparse *dataio.Sparse
	// Mapped replaces it where it is not in memory as float64. It must have been scanned.
	Mapped *stored.Matrix
	// Y holds the observations, row-major where they form a matrix. YShape is their shape: (d)
	// for regression, completion and sequences, (m, n) for svt, robust PCA and sequences side
	// by side. A nil YShape stands for (len(Y)).
	Y      []float64
	YShape []int
	// Indices are the observed entries of matrix completion, as places in the row-major
	// matrix of shape Shape, or of a sequence with gaps of length Shape[0]. Y[i] is the value at
	// Indices[i].
	Indices []int
	Shape   []int
	// D is the q x p matrix behind which the penalty of generalized-lasso stands. SparseD replaces it
	// where most entries are zero.
	D       *mat.Dense
	SparseD *dataio.Sparse
	// Groups labels each column of X with its group, where the penalty is one of groups.
	Groups []int
	// Complex says that Y and Mu are complex numbers: the last axis of YShape is their real and
	// imaginary part. sigma2 is the variance of either part.
	Complex bool
	// Mu is the true mean, of the shape of Y, where it is known.
	Mu []float64
	// Sigma2, Lambda, Lambda2 and Gamma are the file's own settings, nil where it has none.
	Sigma2, Lambda, Lambda2, Gamma *float64
	// Intercept asks for an unpenalized intercept, in a regression or in a specification without a
	// synthesis. [Problem.Solve] passes it on: it is the only setting for the intercept.
	Intercept bool
	// Effects asks for unpenalized effects of the rows and columns of a matrix of which entries are
	// observed. [Problem.Solve] passes them on.
	Effects Effects
	// Weights are those of the observations in the squared loss 1/2 sum_i w_i (mu_i - y_i)^2, one for
	// each value of Y, where the specification has none of its own; nil for ones. The named problem
	// that has them is matrix-completion.
	Weights []float64
	// Loss is the loss in place of the specification's; the zero Loss is that of the specification,
	// or the squared one.
	Loss Loss
	// Standardize scales the columns of the operator's matrix to variance 1: see [Problem.Coefficients].
	Standardize bool
	// Anisotropic takes the sum of |K b|_i in place of that of norms across planes, joint-l2: total
	// variation along each axis for itself. Order is that of a trend, or how often differences are
	// taken, nil for its own.
	Anisotropic bool
	Order       *int
	// At are the places of the values of a sequence, increasing, where they are not evenly spaced; else nil.
	At []float64
	// Vectorial takes the norms of joint-l2 across the channels of an image too.
	Vectorial bool
	// Table is the table that X and y come from; nil where they come from arrays.
	Table *design.Data
	// Entries are the entries that y, Indices and Shape come from, with the names of the rows and
	// columns of the matrix; nil where they come from arrays.
	Entries *design.Entries
	// Depth is that of the image that Y was read from.
	Depth dataio.Depth
	// Ignored are the arrays of the file of data that nothing uses.
	Ignored []string
	// Labels name the rows and columns of y, or of the whole sequence, as its file does.
	Labels dataio.Labels
	// Frames is (f, h, w) where the f columns of Y are the frames of a video of h x w pixels; else
	// nil.
	Frames []int
	// Spec is the specification of the data, as set by [Spec.Load]; nil for the named problems.
	Spec *Spec
}

// Hyper holds the weights of the regularizer. The zero Weight stands for one that is not given.
type Hyper struct {
	Lambda, Lambda2, Gamma Weight
}

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
	// MuShape and BShape are the shapes in which to present mu_hat and b: b of robust PCA is two
	// matrices, (2, m, n).
	MuShape, BShape []int
	// Frames is that of the data.
	Frames []int
	// Signal maps b to the signal where that is neither b nor mu_hat: the synthesis of a
	// specification, the image before it is blurred or partly lost. SignalShape is the
	// signal's shape. Both are nil elsewhere.
	Signal      linops.Operator
	SignalShape []int
	// Measurement is the operator without the synthesis, from the signal to mu, whitened as y is.
	Measurement linops.Operator
	// Original maps the signal, or mu_hat where there is none, to the units of y, in place; nil where it
	// is in these.
	Original func(x []float64)
	// MuComplex and SignalComplex say that the last axis of these shapes is the real and imaginary part
	// of complex numbers.
	MuComplex, SignalComplex bool
	// Lambda, Lambda2 and Gamma are the weights as numbers, NaN where the problem has no such
	// weight.
	Lambda, Lambda2, Gamma float64
	// Relative says that a weight was a multiple of its maximum at Data.Y. The estimator then
	// depends on y through that weight, and SURE at the same y is only approximately unbiased.
	Relative bool
	// Thresholds is how many thresholds were chosen by SURE at Data.Y. They too make the estimator
	// depend on y: see [Problem.Relative].
	Thresholds int
	// Center is the axis of rotation of a scanner as it was found from Data.Y; nil where it was not. The
	// estimator takes it as given.
	Center *Center
	// NearlyConstant lists the columns of a matrix that are constant up to the last digits of their
	// entries. With Data.Intercept they count as constant, and as part of the intercept.
	NearlyConstant []int
	// Missing is the number of missing values of the operator's matrix, which count as the mean of
	// their column.
	Missing int64
	// Targets says what the estimates of risk are about.
	Targets Targets
	// DefaultSolver is the solver to use where the caller does not choose one.
	DefaultSolver string
	// DefaultTol is the tolerance to use likewise; 0 for that of package vjp.
	DefaultTol float64

	// Effects are those of the data.
	Effects Effects

	dev array.Device
	// effects is their projection, nil without them.
	effects *additive.Effects
	// loss is nil for the squared loss without weights.
	loss loss.Loss
	// Loss is the loss. With one that is not squared mu_hat is the linear predictor.
	Loss Loss
	// constant is the place of the intercept's coordinate in b, 0 where it has none.
	constant int
	// means are those of the original columns, where there is an intercept; else nil. scales are
	// the standard deviations by which the columns are divided; nil where they are not.
	means, scales []float64
	// rows says that the operator is a matrix of the data, and observed are the places that a
	// selection of a matrix picks.
	rows     bool
	observed []int
	// redundant are columns that depend on the others by their coding, and levels all those of
	// categorical columns without a reference.
	redundant, levels []int
	// reweigh returns the regularizer at other weights. Its device memory belongs to the problem.
	reweigh func(lambda, lambda2, gamma float64) (prox.Prox, error)

	mu    sync.Mutex
	owned []func()
}

// Solve returns the problem in the form of package vjp, with its loss. Where it has an intercept or effects, it is the
// problem from which these have been projected off.
func (p *Problem) Solve() vjp.Problem {
	q := vjp.Problem{A: p.Operator, Loss: p.loss, K: p.Behind, R: p.Regularizer, Device: p.dev}
	switch {
	case p.effects != nil:
		q, _ = rewrite.Project(q, p.effects) // specBuilder has checked that the loss is one for it
	case p.means != nil && p.constant == 0:
		q, _ = rewrite.Project(q, additive.Constant(p.D))
	}
	return q
}

// Release frees what the problem holds on the device.
func (p *Problem) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, release := range p.owned {
		release()
	}
	p.owned = nil
}

// own makes Release call release, which frees the device memory of a part of the problem.
func (p *Problem) own(release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned = append(p.owned, release)
}

// New builds a problem on a device from a specification: that of the data, whatever the name, or
// else that of the named problem. Weights that hyper does not set are taken from the specification
// or the data. The data may hold weights that the problem does not use; hyper may not. Errors name
// the array or the weight, what was found and what was expected.
func New(name string, dev array.Device, data Data, hyper Hyper) (*Problem, error) {
	spec, err := data.specification(name)
	if err != nil {
		return nil, err
	}
	if data.YShape == nil && data.Y != nil {
		data.YShape = []int{len(data.Y)}
	}
	p := &Problem{Name: spec.Name, dev: dev, Lambda: math.NaN(), Lambda2: math.NaN(), Gamma: math.NaN()}
	err = spec.build(p, data, hyper)
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

// checkUsed rejects a weight that was given to a problem without it.
func (p *Problem) checkUsed(hyper Hyper) error {
	for _, w := range []struct {
		name  string
		given bool
		value float64
	}{{"lambda", hyper.Lambda.given, p.Lambda}, {"lambda2", hyper.Lambda2.given, p.Lambda2},
		{"gamma", hyper.Gamma.given, p.Gamma}} {
		if w.given && math.IsNaN(w.value) {
			return weightErrorf(w.name, "is given, but %s has no such weight", p.Name)
		}
	}
	return nil
}

// Reweighted returns the problem's regularizer with other weights. Weights that the problem does
// not have are ignored. The problem owns the device memory that the regularizer holds.
func (p *Problem) Reweighted(lambda, lambda2, gamma float64) (prox.Prox, error) {
	some := false
	for _, w := range []struct {
		name     string
		has, new float64
	}{{"lambda", p.Lambda, lambda}, {"lambda2", p.Lambda2, lambda2}, {"gamma", p.Gamma, gamma}} {
		if math.IsNaN(w.has) {
			continue
		}
		some = true
		// An infinite weight removes its part of the regularizer, where the problem allows it.
		if zero := w.new == 0 && w.name == "lambda2"; !(w.new > 0) && !zero {
			return nil, weightErrorf(w.name, "is %g, expected a positive number", w.new)
		}
	}
	if !some {
		return nil, fmt.Errorf("%s has no weight to change", p.Name)
	}
	return p.reweigh(lambda, lambda2, gamma)
}
