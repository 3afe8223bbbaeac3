package solve

import (
	"context"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// The contract between problems, methods and solvers is that of package engine.
// MostWritten is that of package engine.
const MostWritten = engine.MostWritten

type (
	Problem         = engine.Problem
	Options         = engine.Options
	Choice          = engine.Choice
	Convergence     = engine.Convergence
	Solution        = engine.Solution
	Solver          = engine.Solver
	From            = engine.From
	Compared        = engine.Compared
	Effort          = engine.Effort
	Path            = engine.Path
	Term            = engine.Term
	Implied         = engine.Implied
	Factors         = engine.Factors
	InfeasibleError = engine.InfeasibleError

	Rewriting = engine.Rewriting
	Unchanged = engine.Unchanged
	Closed    = engine.Closed

	Entry        = engine.Entry
	Constructor  = engine.Constructor
	Method       = engine.Method
	Named        = engine.Named
	Traits       = engine.Traits
	Coefficients = engine.Coefficients
	Work         = engine.Work
	Adjoint      = engine.Adjoint
	Tape         = engine.Tape
	NewTape      = engine.NewTape
	Start        = engine.Start
	Scales       = engine.Scales

	Point     = engine.Point
	Factored  = engine.Factored
	Tangent   = engine.Tangent
	Arrow     = engine.Arrow
	Reduced   = engine.Reduced
	Linear    = engine.Linear
	HatTraces = engine.HatTraces
)

const (
	DefaultTol     = engine.DefaultTol
	DefaultMaxIter = engine.DefaultMaxIter
)

// Roundings is the number of units in the last place of y and A b that a solve need not resolve.
const Roundings = engine.Roundings

// Run iterates the method at y until it is optimal or out of iterations: see [engine.Run].
func Run(ctx context.Context, m Method, y array.Batch, o Options, from Start) (*Solution, error) {
	return engine.Run(ctx, m, y, o, from)
}

// Begin allocates what a solve of the method at y needs and starts it at b0: see [engine.Begin].
func Begin(m Method, traits Traits, y, b0 array.Batch) (*Work, error) {
	return engine.Begin(m, traits, y, b0)
}

// Terms returns the one operator and regularizer of a sum of terms: see [engine.Terms].
func Terms(terms ...Term) (k linops.Operator, r prox.Prox) { return engine.Terms(terms...) }

// NewScales are those of a solve at y, with an upper bound of ||A||^2.
func NewScales(y array.Batch, norm2 float64, o Options) Scales {
	return engine.NewScales(y, norm2, o)
}

// Norm is the Euclidean norm of a batch of one vector, accurate also where squares underflow.
func Norm(x array.Batch) float64 { return engine.Norm(x) }

// FactorsOf is the singular value decomposition of a row-major matrix, without values that are 0 up to
// rounding errors.
func FactorsOf(x []float64, shape array.Shape) (*Factors, error) { return engine.FactorsOf(x, shape) }
