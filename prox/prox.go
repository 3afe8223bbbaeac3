package prox

import "surepipe/array"

// Prox is a convex regularizer r : R^p -> R ∪ {+inf}, known by its proximal
// operator
//
//	prox_{t r}(v) = argmin_b  t r(b) + 1/2 ||b - v||^2,   t > 0.
//
// A Prox is immutable after construction and safe for concurrent use. A shape
// mismatch panics; numerical failure (an SVD that does not converge, a NaN)
// is returned as an error.
type Prox interface {
	// Dim is the length p of the vectors it acts on; 0 means any length.
	Dim() int
	// Eval sets dst_i = prox_{t r}(v_i) for every vector of the batch. dst and v
	// may be the same batch.
	Eval(dst, v array.Batch, t float64) error
	// Linearize does what Eval does, to rounding, for a batch of one vector, and returns the
	// derivative J = D prox_{t r}(v) at that vector, which keeps what Eval
	// computed. Where prox_{t r} is not differentiable J is an element of its
	// generalized (Clarke) Jacobian. The derivative holds device memory until it
	// is released.
	Linearize(dst, v array.Batch, t float64) (Derivative, error)
}

// Derivative is the Jacobian J of a proximal operator at one point: symmetric,
// with eigenvalues in [0, 1], so that J z is both the Jacobian-vector and the
// vector-Jacobian product. It is immutable and safe for concurrent use until
// it is released.
type Derivative interface {
	// Apply sets dst_i = J z_i for every vector of the batch. dst and z may be
	// the same batch.
	Apply(dst, z array.Batch)
	// Bytes is the device memory the derivative holds.
	Bytes() int64
	// Release frees that memory. The derivative is dead afterwards.
	Release()
}

// Valuer is a Prox that can also say what r is.
type Valuer interface {
	Prox
	// Value returns r(b) for a batch of one vector; +Inf outside r's domain.
	Value(b array.Batch) float64
}

// Quadratic is a Prox whose regularizer is r(b) = c/2 ||b||^2, so that the
// estimator is linear in y.
type Quadratic interface {
	Prox
	// Curvature returns c >= 0.
	Curvature() float64
}

// Masked is a Derivative that is diagonal, as those of the separable
// penalties are.
type Masked interface {
	Derivative
	// Diagonal is the diagonal of J as a batch of one vector that the caller must
	// neither modify nor free.
	Diagonal() array.Batch
}

// Ranged is a Derivative that knows its range. Directions outside it are
// invisible to J, and an iteration in J's semi-inner product must keep them from
// growing unseen.
type Ranged interface {
	Derivative
	// ApplyRange sets jz_i = J z_i and pz_i to the orthogonal projection of z_i on
	// the range of J. pz may be z; jz must be neither.
	ApplyRange(jz, pz, z array.Batch)
}

// Tracer is a Derivative that knows its trace.
type Tracer interface {
	Derivative
	// Trace returns tr J and ||J||_F^2.
	Trace() (trace, frobenius2 float64)
}

// LowRank is a Derivative of matrices whose range is the tangent space of the rank-r
// matrices at some U S V*.
type LowRank interface {
	Derivative
	// Tangent returns the derivative in the coordinates of that space; false where
	// the rank is full and there is nothing to gain.
	Tangent() (Tangent, bool)
}

// Blocked is a Derivative of consecutive blocks of coordinates, J = diag(J_1, J_2, ...).
type Blocked interface {
	Derivative
	// Blocks returns J_1, J_2, ..., which are part of J and released with it.
	Blocks() []Derivative
}

// Tangent is a derivative J on m x n matrices in the coordinates (Q, P) of its
// range,
//
//	E (Q, P) = Q V* + U P*,   J = E J_T E*,   E* Z = (Z V, Z* U),
//
// Q being m x r and P n x r, row-major, one after the other. The coordinates are not
// unique, and J_T is 0 on those of 0.
type Tangent struct {
	Shape array.Shape // m x n
	Rank  int         // r
	// U is m x r and V n x r, row-major, with orthonormal columns: batches of one
	// vector that the caller must neither modify nor free.
	U, V array.Batch
	// J is J_T, which lives as long as the derivative that it is part of.
	J Derivative
}

// Len is the number of coordinates, (m + n) r.
func (t Tangent) Len() int { return (t.Shape.Rows + t.Shape.Cols) * t.Rank }

// ApplyRange calls j's own ApplyRange where it has one. Where it has none
// nothing is known of the range, and pz = z.
func ApplyRange(j Derivative, jz, pz, z array.Batch) {
	if r, ok := j.(Ranged); ok {
		r.ApplyRange(jz, pz, z)
		return
	}
	j.Apply(jz, z)
	pz.Device().Copy(pz, z)
}
