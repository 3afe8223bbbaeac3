// Package engine is the contract between problems, methods and solvers, and the driver that runs every method: the
// loop with its tolerance, tape and starts ([Run]), the rule that ends a solve ([Acceptance], [Scales], the
// duality gap), the solution and the [Point] that a derivative needs, and the [Task] on its way through the tables of
// rules. It knows no method: what it asks of one is a field of its [Entry] or of its [Traits]. Package solve has its
// documentation, the tables and the front door; the rooms beside this one have the methods.
package engine

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
)

// Problem is the convex program
//
//	b(y) = argmin_b  l(A b; y) + r(K b),    mu_hat(y) = A b(y),
//
// where K is the identity unless it is given. A sum of several terms r_k(K_k b) is one: [Terms].
type Problem struct {
	// A is the operator, d x p.
	A linops.Operator
	// Loss is l, nil for the squared loss 1/2 ||A b - y||^2.
	Loss loss.Loss
	// K is the q x p operator behind which the regularizer stands, such as the differences of
	// neighbours; nil for the identity.
	K linops.Operator
	// R is the regularizer r on R^q, or on R^p where K is nil.
	R prox.Prox
	// Device holds the data of A, Loss and R, and does the work that is shared by all y. Memory for
	// a single solve is allocated on the device of its y, which may be a view of this one.
	Device array.Device
	// Origin is the rewriting by which this problem was made of the one that was asked for; nil where it is that one.
	// A solver computes b and A b at the y that it is given, y' of the rewriting; whoever reports results takes them
	// back, as package stages does. Keep of package rewrite must know each kind that stands here.
	Origin Rewriting
}

// Rewriting is the problem's Origin, or one that leaves all as it is.
func (p Problem) Rewriting() Rewriting {
	if p.Origin == nil {
		return asked{problem: p}
	}
	return p.Origin
}

// asked is the rewriting of a problem as itself.
type asked struct {
	Unchanged
	problem Problem
}

func (a asked) Problem() Problem { return a.problem }

// Options are the settings of a solve. The zero value of a field asks for its default.
type Options struct {
	// Tol is the optimality at which a solve stops (see [Convergence]), default 1e-8.
	Tol float64
	// MaxIter is the largest number of iterations, default 10000.
	MaxIter int
	// Sigma2 is the variance of the noise in y where it is known. Errors of mu_hat are then
	// measured against sigma sqrt(d), otherwise against the residual.
	Sigma2 float64
	// Point asks for [Solution].At, which a derivative at the solution needs.
	Point bool
	// Whole asks for iterations over all coordinates, without working sets and factored matrices,
	// because their derivative is wanted.
	Whole bool
	// Compact asks for [Solution].Implied in place of B and MuHat, where the method has its solution
	// in a form that takes less memory.
	Compact bool
	// Columns bounds the bytes of columns that a method holds at once of an A that is not in memory
	// ([linops.Passes]), default 1 GiB.
	Columns int64

	// Diagonal says that the diagonal of the derivative is wanted too.
	Diagonal bool

	// Effort says how far a solve goes.
	Effort Effort

	// What follows is for solvers.

	// InverseLengths are 1/||a_j|| for the columns a_j of A, where their lengths differ much and the
	// regularizer does not allow for other units; else nil.
	InverseLengths []float64
	// Fine says that a derivative at the solution is wanted, where Point does not ask for it.
	Fine bool
	// Multiplier asks for [Solution].Dual.
	Multiplier bool
	// Resolved asks for a duality gap that is within the tolerance with its rounding errors; where these are
	// larger, the solve ends without convergence, for another method.
	Resolved bool
	// Promising ends a solve of a problem with r(K b) whose duality gap is too large to come to the tolerance within
	// the iterations, for another method.
	Promising bool
	// Choices are those made on the way to the method.
	Choices []Choice

	endless bool // all iterations are to be done
}

const (
	DefaultTol     = 1e-8
	DefaultMaxIter = 10000
	DefaultColumns = 1 << 30
)

// WithDefaults are the options with the defaults in place of zeros.
func (o Options) WithDefaults() Options {
	if o.Tol == 0 {
		o.Tol = DefaultTol
	}
	if o.MaxIter == 0 {
		o.MaxIter = DefaultMaxIter
	}
	if o.Columns == 0 {
		o.Columns = DefaultColumns
	}
	return o
}

// Check reports settings that are out of range.
func (o Options) Check() error {
	switch {
	case !(o.Tol > 0) || o.Tol >= 1:
		return fmt.Errorf("solve: the tolerance is %g, expected a number between 0 and 1", o.Tol)
	case o.MaxIter < 1:
		return fmt.Errorf("solve: at most %d iterations, expected at least 1", o.MaxIter)
	case !(o.Sigma2 >= 0) || math.IsInf(o.Sigma2, 0):
		return fmt.Errorf("solve: sigma2 is %g, expected a positive number, or 0 where it is not known", o.Sigma2)
	}
	return nil
}

// With returns the options with one more choice recorded.
func (o Options) With(c Choice) Options {
	o.Choices = append(o.Choices[:len(o.Choices):len(o.Choices)], c)
	return o
}

// Choice is one decision that a solver based on the structure of a problem.
type Choice struct {
	// Part is what the choice is about: "method", "units", "loss", "space", "system" or
	// "derivative".
	Part string `json:"part"`
	// Chosen is what was chosen and Reason why, each in a few words.
	Chosen string `json:"chosen"`
	Reason string `json:"reason"`
}

// Convergence records how a solve went.
type Convergence struct {
	// Iterations is the number of iterations done.
	Iterations int
	// Method is the name of the method whose iterations these are, where it is not the solver's own but
	// one that it tries first; else it is empty.
	Method string
	// Optimality is an upper bound of dist(0, ∂F(b)), where F is the objective, divided by ||A||
	// sigma sqrt(d), or without sigma by ||A|| ||y - A b||. It is measured in units in which the
	// columns of A have length about 1, if r allows for other units. Where rounding errors of A b
	// and b are larger than Tol times the divisor's second factor, they replace that factor.
	Optimality float64
	// Error is an upper bound of ||mu_hat - mu_hat*||, the distance to the exact estimate: sqrt(2
	// gap), with the duality gap at b. It is NaN where no gap is known. With weights w of the
	// observations the norm is that of sqrt(w) (mu_hat - mu_hat*).
	Error float64
	// Change is 0 for a solution that is certified; else the solve ended by [Effort], and Change estimates by how
	// much SURE is still to change.
	Change float64
	// Converged reports whether Change is not 0, or whether Optimality is at most Options.Tol, and that Error,
	// where it is known, is at most a hundredth of sigma sqrt(d), or without sigma of ||y - A b|| or a
	// millionth of ||y||; less where Tol is below 1e-8.
	Converged bool
	// Closed reports that b was computed in closed form: there is nothing to iterate, and where a
	// solve starts does not matter.
	Closed bool
	// Lag estimates, for an unrolled derivative at a converged solution, the difference of its
	// trace, or of half its squared Frobenius norm, from that of the fixed point: the derivatives of the
	// iterates converge later than the iterates. It is 0 for other derivatives. Package vjp sets it.
	Lag float64
}

// MostWritten is the largest length of a b that is written down where the method can leave it implied: 512 MiB.
const MostWritten = 1 << 26

// Solution is the outcome of one solve.
type Solution struct {
	// B is b(y), a batch of one vector of length p.
	B array.Batch
	// MuHat is A b(y), a batch of one vector of length d.
	MuHat array.Batch
	// Implied stands for B and MuHat, which are then zero Batches, where Options.Compact is set and
	// the method offers it, and for every b of more than [MostWritten] numbers; else it is nil.
	Implied *Implied
	// Convergence records how the solve went.
	Convergence
	// Choices lists what the solver chose for this problem, and why.
	Choices []Choice
	// At is the solution in the form in which it was computed, nil unless Options.Point is set.
	At *Point

	Gram func(set []int) []float64 // of the method's columns, for At; or nil
	Dual array.Batch               // the multiplier of K b, where it was asked for; else zero
	Eta  float64                   // the step with it
}

func (s *Solution) Release() {
	array.Free(s.B, s.MuHat, s.Dual)
	if s.Implied != nil {
		s.Implied.Release()
		s.Implied = nil
	}
	if s.At != nil {
		s.At.Release()
		s.At = nil
	}
}

// Solver computes b(y). It keeps what does not depend on y, such as the operator's norm and
// factorizations, and is safe for concurrent use.
type Solver interface {
	// Name is the method's name.
	Name() string
	// Solve computes the solution at y, a batch of one vector of length d. A solve that runs out of
	// iterations is not an error: the Solution says that it did not converge. The caller releases
	// the Solution. It may refer to y, which must be neither changed nor freed before.
	Solve(ctx context.Context, y array.Batch, from From) (*Solution, error)
	// Record is Solve from 0 over all coordinates with a tape running. The function newTape is
	// called once, with the method that iterates and the y that the method is given. The caller
	// releases the tape, also after an error.
	Record(ctx context.Context, y array.Batch, newTape NewTape) (*Solution, error)
	// Reweight is what New returns for the regularizer r, all else being equal, to the last bit.
	// The two share memory: this solver must be released after the other.
	Reweight(ctx context.Context, r prox.Prox) (Solver, error)
	// Release frees what the solver keeps on the device.
	Release()
}

// CheckY panics for a y of the wrong shape and returns an error for one that is not finite.
func CheckY(p Problem, y array.Batch) error {
	if d, _ := p.A.Dims(); y.K() != 1 || y.N() != d {
		panic(fmt.Sprintf("solve: y of shape %s for an operator with d = %d", y, d))
	}
	largest := y.MaxAbs()
	if err := y.Device().Err(); err != nil {
		return err
	}
	if math.IsNaN(largest) || math.IsInf(largest, 0) {
		return fmt.Errorf("solve: y holds NaN or Inf")
	}
	return nil
}
