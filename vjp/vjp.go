package vjp

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/vjp/system"
)

// Problem is the convex program whose solution map is differentiated (see [solve.Problem]).
type Problem = solve.Problem

// Convergence records how a solve went (see [solve.Convergence]).
type Convergence = solve.Convergence

// Choice is one decision based on the structure of a problem (see [solve.Choice]).
type Choice = solve.Choice

type (
	From   = solve.From
	Effort = solve.Effort
	Path   = solve.Path
)

// Factors is a solution b that is a matrix of low rank, by its singular value decomposition (see
// [solve.Factors]).
type Factors = solve.Factors

// Solver computes b(y) and its derivative. It keeps what does not depend on y
// (the operator's norm, factorizations) and is safe for concurrent use.
type Solver interface {
	// Name is the algorithm's name, one of [Solvers] or that of a method from elsewhere.
	Name() string
	// Problem is the problem that it solves, in the user's units.
	Problem() Problem
	// Solve computes the solution at y, a batch of one vector of length d. A
	// solve that runs out of iterations is not an error: the Solution says that
	// it did not converge. The caller releases the Solution. It may refer to y, which must be neither
	// changed nor freed before.
	Solve(ctx context.Context, y array.Batch) (*Solution, error)
	// SolveFrom is Solve with a warm start, at the solution of a nearby problem. The solution is the
	// same up to the tolerance. A solver without iterations ignores where it starts, and so does the
	// unrolled derivative, whose iterations start at 0.
	SolveFrom(ctx context.Context, y array.Batch, from From) (*Solution, error)
	// Reweight returns what NewSolver returns for the regularizer r and the same operator, loss and
	// options, to the last bit. The two share memory: this solver must be released after the other.
	Reweight(ctx context.Context, r prox.Prox) (Solver, error)
	// Again returns a solver of another problem by the same method and options, or by the default method where that
	// does not serve, without a derivative.
	Again(ctx context.Context, p Problem) (Solver, error)
	// Release frees what the solver keeps on the device. Solutions, whose derivatives may refer to
	// that memory, and solvers returned by Reweight must be released before.
	Release()
}

// Solution is the outcome of one solve.
type Solution struct {
	// B is b(y), a batch of one vector of length p.
	B     array.Batch
	MuHat array.Batch
	// Implied stands for B and MuHat, which are then zero Batches, where Options.Compact is set and
	// the method offers it, and for every b of more than [solve.MostWritten] numbers; else it is nil.
	Implied *solve.Implied
	// Convergence records how the solve went.
	Convergence
	// Linearization is the derivative of y -> mu_hat(y) at this y; nil when the
	// solver was asked for none.
	Linearization Linearization
	// Choices lists what the solver chose for this problem, and why.
	Choices []Choice
}

// Release frees the solution and its linearization.
func (s *Solution) Release() {
	array.Free(s.B, s.MuHat)
	if s.Implied != nil {
		s.Implied.Release()
	}
	if s.Linearization != nil {
		s.Linearization.Release()
	}
}

// Expand writes down B and MuHat of a solution that is implied, on dev.
func (s *Solution) Expand(dev array.Device) {
	if s.Implied == nil {
		return
	}
	s.B, s.MuHat = s.Implied.Write(dev)
	s.Implied.Release()
	s.Implied = nil
}

// Linearization is the derivative of y -> mu_hat(y) at one y: a symmetric
// positive semidefinite matrix with eigenvalues in [0, 1]. It is immutable,
// shared by all goroutines and resident on the device until it is released.
//
// An iterative method computes quadratic forms, which are all that a trace estimate needs, at less
// cost than images, and bounds its error: left, unless it is nil, is set to one number per probe,
// with
//
//	0 <= <v_i, D mu_hat v_i - dst_i> <= left_i   and   ||D mu_hat v_i - dst_i||^2 <= left_i.
//
// A type that only has images embeds [Plain].
type Linearization interface {
	// VJP sets dst_i = (D mu_hat)* v_i for every probe of the batch in one sweep; both are k x d
	// and must not overlap. In batches of two or more the bits of dst_i depend on v_i alone; a
	// single probe may be computed differently by array.Device.Gemm (hutch.Oracle.Apply avoids
	// that).
	VJP(ctx context.Context, dst, v array.Batch) error
	// Apply is VJP with the bounds and as accurate as is wanted; the zero Accuracy is that of VJP. An iterative
	// method takes fewer steps for quadratic forms, and a few for the span of a sketch's images.
	Apply(ctx context.Context, dst, v array.Batch, want hutch.Accuracy, left []float64) error
	// Moments computes what trace estimates need of probes of random signs without vectors of length
	// d; it offers nothing where that is not cheaper.
	Moments() hutch.Moments
	// Closed returns what is known about the derivative without probes.
	Closed() Closed
	// Inner counts the iterations that images have taken.
	Inner() Inner
	// Kind says how the derivative is obtained: "implicit", "unrolled" or "direct".
	Kind() string
	// Bytes is the device memory that the linearization holds.
	Bytes() int64
	// ProbeBytes is the working memory that VJP takes for each probe of a batch.
	ProbeBytes() int64
	// Release frees the memory that the linearization holds.
	Release()
}

// Closed is what is known about a derivative without probes (see [system.Closed]).
type Closed = system.Closed

// Inner counts the inner iterations of a linearization.
type Inner struct {
	// Steps is the largest number that a probe has taken, 0 where images take none.
	Steps  int
	Failed int
	// Iterative reports whether images read A anew, as an iterative method does at every step: wide
	// batches serve it best, and there is no tape beside which their memory is small.
	Iterative bool
	// Together is how many probes its products take together: they take multiples of it fastest. It is 0
	// where that is not known.
	Together int
}

// Plain completes a [Linearization] from its images where these are exact and nothing else is
// known.
type Plain struct {
	// Images sets dst_i = D mu_hat v_i.
	Images func(ctx context.Context, dst, v array.Batch) error
}

// VJP is Images.
func (p Plain) VJP(ctx context.Context, dst, v array.Batch) error { return p.Images(ctx, dst, v) }

// Apply is Images; the bounds are 0.
func (p Plain) Apply(ctx context.Context, dst, v array.Batch, _ hutch.Accuracy, left []float64) error {
	clear(left)
	return p.Images(ctx, dst, v)
}

// Moments offers nothing.
func (Plain) Moments() hutch.Moments { return hutch.Moments{} }

// Closed returns the zero Closed: nothing is known.
func (Plain) Closed() Closed { return Closed{} }

// Inner is 0.
func (Plain) Inner() Inner { return Inner{} }

// Derivative selects how a solver differentiates.
type Derivative string

// The derivatives a solver offers.
const (
	// Auto is the best that the solver offers: "direct" for the direct solver, else "implicit"
	// where the solve has converged and "unrolled" where not.
	Auto Derivative = "auto"
	// Implicit differentiates the fixed point. It costs a few dozen products with A and the prox
	// derivative for all probes together and no tape, and is meaningful only at a solution.
	Implicit Derivative = "implicit"
	// Unrolled is the tape of the iterations differentiated in reverse: the
	// derivative of the iterate that the solver stopped at, converged or not.
	Unrolled Derivative = "unrolled"
	// None keeps no derivative: Solution.Linearization is nil.
	None Derivative = "none"
)

// Derivatives lists the kinds that keep a derivative.
func Derivatives() []Derivative { return []Derivative{Auto, Implicit, Unrolled} }

// Options are a solver's settings. The zero value of a field asks for the
// default.
type Options struct {
	// Tol is the optimality (see Convergence) at which the solver stops,
	// default 1e-8.
	Tol float64
	// MaxIter bounds the iterations, default 10000.
	MaxIter    int
	Derivative Derivative
	// Sigma2 is the variance of the noise in y where it is known: errors of mu_hat are then
	// measured against sigma sqrt(d), and otherwise against the residual.
	Sigma2 float64
	// Images says that images of the derivative, or its diagonal, will be asked for even where its trace
	// is known without them, as leave-one-out does. Completions with a short side are then factored, also
	// where conjugate gradients cost less, and factors that are computed only then keep what they can take
	// over from the solver, the Gram matrix of the active columns, unless the solver's own factors show
	// the images ([Closed].Images).
	Images bool
	// Compact asks for [Solution].Implied in place of B and MuHat, where the method has its solution
	// in a form that takes less memory.
	Compact bool
	// Memory is the number of bytes that a linearization may hold, default 1 GiB.
	// A longer tape is checkpointed: parts of it are computed again in the
	// reverse sweep, with the same result to rounding.
	Memory int64
	// Columns bounds the bytes of columns that a solve holds of an operator that is not in memory, default
	// 1 GiB.
	Columns int64
}

const (
	DefaultTol     = solve.DefaultTol
	DefaultMaxIter = solve.DefaultMaxIter
	DefaultMemory  = 1 << 30
)

func (o Options) withDefaults() Options {
	if o.Tol == 0 {
		o.Tol = DefaultTol
	}
	if o.MaxIter == 0 {
		o.MaxIter = DefaultMaxIter
	}
	if o.Derivative == "" {
		o.Derivative = Auto
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	return o
}

func (o Options) check() error {
	switch {
	case !(o.Tol > 0) || o.Tol >= 1:
		return fmt.Errorf("vjp: tolerance %g, expected a number between 0 and 1 (at 1, b = 0 would be accepted)", o.Tol)
	case o.MaxIter < 1:
		return fmt.Errorf("vjp: %d iterations at most, expected at least 1", o.MaxIter)
	case !(o.Sigma2 >= 0) || math.IsInf(o.Sigma2, 0):
		return fmt.Errorf("vjp: sigma2 is %g, expected a positive number, or 0 where it is not known", o.Sigma2)
	case o.Memory < 1:
		return fmt.Errorf("vjp: a memory budget of %d bytes, expected a positive number", o.Memory)
	case !slices.Contains(append(Derivatives(), None), o.Derivative):
		return fmt.Errorf("vjp: derivative %q, expected one of %v", o.Derivative, Derivatives())
	}
	return nil
}
