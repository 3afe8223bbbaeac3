package engine

import (
	"surepipe/array"
	"surepipe/linops"
)

// Reduced is the system of the derivative at a solution of low rank in the coordinates of one factor, the other one
// being eliminated: the operator is M, and
//
//	D mu_hat = apart + M S^{-1} M*.
type Reduced interface {
	linops.Restricted
	// Apart adds to dst_i what the eliminated factor contributes by itself to the image of w_i.
	Apart(dst, w array.Batch)
	// Square sets dst_i = S p_i; they are different batches.
	Square(dst, p array.Batch)
	// Precondition sets dst_i to about S^{-1} z_i, by a positive definite operator; they are different
	// batches. No dst_i has a part along the directions along which S is 0, which no image shows.
	Precondition(dst, z array.Batch)
	// Work is the memory in bytes that its products take for each vector, besides their results.
	Work() int64
}
