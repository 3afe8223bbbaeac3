// Package space represents linear subspaces of R^p as values: the tangent spaces along which a
// regularizer is smooth at a solution.
//
// A [Space] is T = E R^n with an injective map E, or one that is injective up to coordinates
// that do not matter. Vectors are batches on a device, one a row; every method takes a whole batch.
package space

import "surepipe/array"

// Space is a linear subspace T of R^p with a linear map E of R^n onto it. It is immutable and
// safe for concurrent use until it is released. A shape mismatch panics.
type Space interface {
	// Dims is the size of E: p rows, n columns.
	Dims() (p, n int)
	// Dim is the dimension of T: n, or less where E is not injective.
	Dim() int
	// Embed sets dst_i = E c_i; dst is k x p, c is k x n. They must not overlap.
	Embed(dst, c array.Batch)
	// Coordinates sets dst_i = E* z_i; dst is k x n, z is k x p. They must not overlap.
	Coordinates(dst, z array.Batch)
	// Project sets dst_i to the orthogonal projection of z_i on T; both are k x p, and may be
	// the same batch.
	Project(dst, z array.Batch)
	// Form describes the space.
	Form() Form
	// Bytes is the device memory that it holds.
	Bytes() int64
	// Release frees that memory. The space is dead afterwards.
	Release()
}

// Kind is the kind of a space.
type Kind int

// The kinds of spaces. General is the zero value: nothing is known but the methods.
const (
	General    Kind = iota
	Whole           // all of R^p, E = I
	Subset          // vectors that are 0 outside a set of coordinates, E the columns of I there
	Cluster         // vectors that are constant up to sign on disjoint sets, and 0 elsewhere
	FixedRank       // the tangent space Q V* + U P* of the matrices of rank r at U S V*
	Product         // (T_1, T_2, ...) on consecutive blocks of coordinates
	Hyperplane      // the part of a set of coordinates that is orthogonal to one fixed vector
	Spanned         // the span of orthonormal vectors
	Complement      // the part of a set of coordinates that is orthogonal to vectors which may turn
	Symmetric       // the tangent space of the symmetric matrices of rank r
)

// Form describes a space, for operators that can be restricted to it. Slices and batches are the
// space's: they must not be modified and live as long as it does.
type Form struct {
	Kind Kind
	// Orthonormal reports that E*E = I.
	Orthonormal bool
	// Projection reports that E E* is the orthogonal projection on T, as E*E = I implies.
	Projection bool
	// Set are the coordinates of a Subset, in increasing order.
	Set []int
	// Average returns the n x p matrix E* of a Cluster, as rows: entry u of set i is Values[u] at coordinate
	// Indices[u], Indptr[i] <= u < Indptr[i+1]. The slices of indices and of values are new ones.
	Average func() Rows
	// Shape, Rank, U and V are those of FixedRank: E (Q, P) = Q V* + U P*, with Q m x r and P n x
	// r, row-major, one after the other; U is m x r and V n x r, row-major, batches of one vector.
	Shape array.Shape
	Rank  int
	U, V  array.Batch
	// Parts are the spaces of a Product.
	Parts []Space
}

// Rows is a sparse matrix by rows.
type Rows struct {
	Indptr, Indices []int
	Values          []float64
}
