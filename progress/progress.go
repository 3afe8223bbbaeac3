// Package progress carries reports from inside long computations to whoever waits for them.
//
// The caller puts a function into the context of a call, [With]; the loops that the call runs take
// it from there, [From], and call it after every step with a [Report], which is a plain value. It is
// the way of net/http/httptrace: nothing is global, the samples of a stream each have a context and
// so a function of their own, and without a function a report costs a call that does nothing. A
// report allocates nothing. Nobody counts seconds in a loop: the function that receives the reports
// decides how many of them to show.
package progress

import "context"

// Stage names a computation.
type Stage string

const (
	// Norm is the estimate of ||A|| by a Lanczos or power method, once for all samples.
	Norm Stage = "norm of A"
	// Pass is a pass over a matrix that is read from a disk; Step of Steps bytes have been read.
	Pass Stage = "pass over X"
	// Iterations are the iterations of a solver; Measure is the optimality and Goal the tolerance.
	Iterations Stage = "iterations"
	// WorkingSet are iterations on a part of the coordinates, one round of several.
	WorkingSet Stage = "iterations on a working set"
	// Newton are Newton steps on active sets; Measure is the optimality of the last round.
	Newton Stage = "Newton steps"
	// Gram is the computation of a Gram matrix; Step of Steps columns are done.
	Gram Stage = "Gram matrix"
	// Factorization is the factorization of a matrix with Steps rows, of which only the beginning is reported.
	Factorization Stage = "factorization"
	// Pilot are conjugate gradient steps that find the smallest eigenvalue that matters.
	Pilot Stage = "pilot probe"
	// ConjugateGradients are the steps of the implicit derivative for a batch of probes; Measure is
	// the largest relative residual among those of its Active probes that are not done.
	ConjugateGradients Stage = "conjugate gradients"
	// InnerSteps are conjugate gradient steps inside of one iteration of a solver.
	InnerSteps Stage = "inner conjugate gradients"
	// Reverse is the reverse sweep of an unrolled derivative; Step of Steps iterations are done.
	Reverse Stage = "reverse sweep"
	// Probes says that a batch of probes is done: Step of Steps.
	Probes Stage = "probes"
	// Patches says that the patches which begin at Step of Steps slices of a series are done.
	Patches Stage = "patches"
	// Verification is the check of a result. Its other fields are those of the computation that it
	// repeats.
	Verification Stage = "verification"
)

// Report says how far a computation has come.
type Report struct {
	Stage Stage
	// Step counts the steps that are done, and Steps is the number after which the stage ends; 0
	// where that is not known.
	Step, Steps int
	// Measure is what the steps reduce, and Goal is what it has to come down to. Both are 0 where
	// there is no such number.
	Measure, Goal float64
	// Active is the number of right-hand sides that are not done, 0 where there is one solution.
	Active int
}

type key struct{}

// With returns a context in which computations report to the function. It is called from the
// goroutines that compute, possibly several at once, and must return quickly.
func With(ctx context.Context, report func(Report)) context.Context {
	return context.WithValue(ctx, key{}, report)
}

// From is the function of [With], or one that does nothing where there is none. Loops ask for it
// once.
func From(ctx context.Context) func(Report) {
	if f, ok := ctx.Value(key{}).(func(Report)); ok && f != nil {
		return f
	}
	return nothing
}

func nothing(Report) {}
