package prox

import "surepipe/array"

// Prox is a convex regularizer r : R^p -> R ∪ {+Inf}, given by its proximal operator
//
//	prox_{t r}(v) = argmin_b  t r(b) + 1/2 ||b - v||^2,   t > 0.
//
// A Prox is immutable after construction and safe for concurrent use. A shape mismatch panics;
// numerical failure (an SVD that does not converge, a NaN) is returned as an error. What else is
// known about a regularizer is its [Structure].
type Prox interface {
	// Dim is the length p of the vectors it acts on; 0 means any length.
	Dim() int
	// Eval sets dst_i = prox_{t r}(v_i) for every vector of the batch. dst and v may be the same
	// batch.
	Eval(dst, v array.Batch, t float64) error
	// Linearize does what Eval does, up to rounding, for a batch of one vector, and returns the
	// derivative J = D prox_{t r}(v) at that vector, which keeps what Eval computed. Where prox_{t
	// r} is not differentiable J is an element of its generalized (Clarke) Jacobian. The derivative
	// holds device memory until it is released.
	Linearize(dst, v array.Batch, t float64) (Derivative, error)
}

// Derivative is the Jacobian J of a proximal operator at one point: symmetric, with eigenvalues in
// [0, 1], so that J z is both the Jacobian-vector and the vector-Jacobian product. It is immutable
// and safe for concurrent use until it is released.
type Derivative interface {
	// Apply sets dst_i = J z_i for every vector of the batch. dst and z may be the same batch.
	Apply(dst, z array.Batch)
	// Diagonal is J's diagonal, as a batch of one vector that the caller must neither modify nor
	// free, where J is known to be diagonal; the zero Batch for any other J.
	Diagonal() array.Batch
	// Model is the model of the regularizer at the point, nil where none is known. It is built when
	// it is first asked for, belongs to the derivative, and is released with it.
	Model() *Model
	// Bytes is the device memory that the derivative holds, its model included.
	Bytes() int64
	// Release frees that memory. The derivative is dead afterwards.
	Release()
}
