package solve

import (
	"context"

	"surepipe/array"
	"surepipe/prox"
)

// iterates are b_k, b_{k-1} and the step from them, in one of the forms that the recurrence takes.
type iterates interface {
	// extrapolate sets x_k = b_k + c (b_k - b_{k-1}).
	extrapolate(c float64)
	// descend sets b_{k+1} = prox_{eta r}(x_k - eta A* l'(A x_k; y)).
	descend(ctx context.Context, w *Work, record bool) (prox.Derivative, error)
	// moved is ||x_k - b_{k+1}||, and uphill is <x_k - b_{k+1}, b_{k+1} - b_k>.
	moved() float64
	uphill() float64
}

// factoredForm makes iterates in factored form.
type factoredForm interface {
	// begin starts a solve at b0 with the bound of the second derivative and the step; the zero Batch stands for 0. The iterates must be released even
	// after an error.
	begin(bound, eta float64, w *Work, b0 array.Batch) (factoredIterates, error)
	internals() *internals
}

// factoredIterates are iterates in factored form.
type factoredIterates interface {
	iterates
	// firstMomentum is the momentum of the first step.
	firstMomentum() float64
	release()
}
