package engine

import (
	"context"

	"surepipe/array"
	"surepipe/prox"
)

// Iterates are b_k, b_{k-1} and the step from them, in one of the forms that the recurrence takes.
type Iterates interface {
	// Extrapolate sets x_k = b_k + c (b_k - b_{k-1}).
	Extrapolate(c float64)
	// Descend sets b_{k+1} = prox_{eta r}(x_k - eta A* l'(A x_k; y)).
	Descend(ctx context.Context, w *Work, record bool) (prox.Derivative, error)
	// Moved is ||x_k - b_{k+1}||, and Uphill is <x_k - b_{k+1}, b_{k+1} - b_k>.
	Moved() float64
	Uphill() float64
}

// FactoredForm makes iterates in factored form.
type FactoredForm interface {
	// Begin starts a solve at b0 with the bound of the second derivative and the step; the zero Batch stands for
	// 0. The iterates must be released even after an error.
	Begin(bound, eta float64, w *Work, b0 array.Batch) (FactoredIterates, error)
	// Internals are what [Traits].Own is with these iterates.
	Internals() *Internals
}

// FactoredIterates are iterates in factored form.
type FactoredIterates interface {
	Iterates
	// Release frees them.
	Release()
}
