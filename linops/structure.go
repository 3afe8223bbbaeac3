package linops

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// Structure is what is known about an operator beyond its products. The zero value says nothing and
// is true of every operator. Structure makes an algorithm faster or lets it report more; no
// algorithm requires it.
//
// A function is nil where the operator does not offer it. Functions are safe for concurrent use,
// act on each vector of a batch alone, and panic on shapes that do not fit.
type Structure struct {
	// Rows is c where A A* = c I, Columns is c where A*A = c I, and Norm2 is ||A||_2^2, the largest
	// eigenvalue of A*A.
	Rows, Columns, Norm2 Number
	// Identity reports that A = I.
	Identity bool
	// Entries is the number of stored entries of a matrix: d p of a dense one, the stored nonzeros of a
	// sparse one, which may be 0, also where means are subtracted from the columns. Of matrices beside
	// each other it is the sum. It is not known for other operators.
	Entries Number
	// ColumnNorms2 returns the squared norms of the columns, the diagonal of A*A, in a new slice.
	ColumnNorms2 func() []float64
	// ColumnSpread returns the least and the largest squared norm of the columns that are not 0, +Inf and
	// 0 where all columns are 0. It needs no memory of length p.
	ColumnSpread func() (least, most float64)
	// Beside are A1, A2, ... where A = [A1 A2 ...].
	Beside []Operator
	// Pairs returns the pairs of coordinates whose differences A's rows are, nil where the entries turn
	// out to be others. It takes memory for every row.
	Pairs func() *Pairs
	Spectra
	Storage
	Sampling
	// SolveNormal sets dst = (eta A*A + I)^{-1} rhs for eta >= 0 without an iteration; both are k x
	// p and may be the same batch. What depends on eta alone, such as a factorization, is kept for
	// a few values of eta. It returns false and leaves dst unchanged where there is no numerical
	// solution, because A holds a NaN or eta ||A||^2 overflows.
	SolveNormal func(dst, rhs array.Batch, eta float64) bool
	// Passes is the cost of products where A is not in memory.
	Passes Passes
	// Normal sets dst_i = A*A b_i at a lower cost than A and A*. dst must not overlap b.
	Normal func(dst, b array.Batch)
	// BallStep takes a step on the dual of a problem with r(A b), in one pass over memory, where r is the
	// support function of balls. It returns ok = false and changes nothing where A has no such step for
	// these balls, or the vectors are not in host memory.
	BallStep func(s BallStep) (uphill float64, ok bool)
	// Panels computes A* z from parts of z.
	Panels Panels
	// Gram sets the p x p batch dst to the matrix A*A.
	Gram func(dst array.Batch)
	// Products sets dst to A*B at a lower cost than products with B; it returns false and does nothing where it
	// has nothing better for this B. Call [linops.Products] for an answer on every B.
	Products func(dst array.Batch, b Operator) bool
	// Blocks returns the diagonal blocks of A P A* of the given order, row-major, for a symmetric p x p matrix P,
	// row-major; nil where it has nothing better than products for this order.
	Blocks func(p []float64, order int) []float64
	// AddForward sets dst += alpha A x and AddAdjoint sets dst += alpha A* x without memory for the
	// product itself. dst must not overlap x.
	AddForward, AddAdjoint func(dst array.Batch, alpha float64, x array.Batch)
	// ScaleColumns returns A diag(s), all of it on dev, as an operator of the same kind, with the
	// structure of its kind. s has p finite numbers and is not kept.
	ScaleColumns func(dev array.Device, s []float64) Restricted
	// On returns A E on dev for a space T = E R^n of vectors of length p, at a lower cost than E
	// followed by A; nil where A has nothing better for this space. Whatever it allocates is on
	// dev, which may be a view for one request. A and the space must outlive the result. Call [On]
	// for an answer on every space.
	On func(dev array.Device, t space.Space) Restricted
}

// Spectra are the transforms that diagonalize A*A. The zero value says that none is known.
type Spectra struct {
	// Cosines are A*A's eigenvalues where a cosine transform diagonalizes it, and Circulant those
	// where a Fourier transform of real images does.
	Cosines, Circulant Spectrum
	// Commutes reports that A maps images of Circulant's shape to images and commutes with their circular shifts, as
	// a circular convolution does.
	Commutes bool
}

// Storage is how A's entries can be had. The zero value says nothing.
type Storage struct {
	// Stored is A as d vectors of length p on A's device, where A is stored so, else the zero Batch. It
	// belongs to the operator, and must not be modified.
	Stored array.Batch
	// WeighRows multiplies row i of A by w_i, in place; false says that it cannot by these, and did nothing. Only
	// results of [On], which own their entries, offer it. No other use of A may be under way.
	WeighRows func(w []float64) bool
	// KeepColumns keeps a second copy of a dense A, column by column, from which [Structure].On takes some columns of a
	// wide matrix sooner. No other use of A may be under way.
	KeepColumns func()
	// Shared is what the solvers of several problems with this A keep together, by a key: it is made when it is first
	// asked for. Nil for an A of one problem.
	Shared func(key any, make func() any) any
	// Dense returns A as a d x p matrix on the host, which the caller must not modify.
	Dense func() *mat.Dense
	// SparseRows returns the entries of a sparse matrix, which the caller must not modify.
	SparseRows func() space.Rows
	// Shifted is A as the sum of a sparse matrix and one of rank one, as of sparse columns without their means; or
	// nil. Call [ShiftedOf] for sparse matrices, too.
	Shifted *Shifted
	// Listed returns the entries by rows, which the caller must not modify, where A has few without being a sparse
	// matrix; ok is false where they are more than most. Call [Entries] for every A.
	Listed func(most int) (rows space.Rows, ok bool)
	// RowNorms2 returns the squared lengths of the rows of A diag(s), or of A where s is nil, in a new slice; nil where
	// they are not known for this s.
	RowNorms2 func(s []float64) []float64
	// PickRows returns R A for a list of rows, and what frees it; a nil operator stands for no better one than the
	// selection of products with A. Call [Pick] for every A.
	PickRows func(dev array.Device, rows []int) (Operator, func(), error)
	// kronecker is the operator itself, where it is one of [Kronecker].
	kronecker *kronecker
}

// Sampling says that A picks entries of matrices. The zero value says nothing.
type Sampling struct {
	// Sampled returns, where A picks entries of m x n matrices of the given shape, the places of these
	// entries in increasing order, and the row of A that belongs to each place; order is nil where places
	// and rows have the same order. Both results belong to the operator, which frees them. Both are nil
	// where A does not act on matrices of this shape, and where there is no memory for them, which is
	// then a fault of dev, the given device or view.
	Sampled func(dev array.Device, shape array.Shape) (places array.Pattern, order array.Index)
	// Parts returns the parts of an A that depends on some entries of m x n matrices of the given shape:
	// with split the parts that have no row and no column in common, else the one part of all rows and
	// columns with an entry. The result is nil where the only part is the whole matrix, and where A does
	// not act on such matrices or has no parts.
	Parts func(shape array.Shape, split bool) []Part
	// Picked describes all of an A that picks entries of matrices of the given shape, besides what may be done to
	// them; nil for other shapes. Where Sampled is not nil Picked is not, and the entries have no weights.
	Picked func(shape array.Shape) *Picked
}

// Picked is A = W^{1/2} (I - Pi) S for a selection S of entries of a matrix, weights W = diag(w), and a projection Pi
// onto unpenalized terms ([surepipe/linops/additive.Effects]).
type Picked struct {
	// Places are those of the entries in the row-major matrix, in the order of A's rows; they must not be modified.
	Places []int
	// Weights are w > 0, nil for ones.
	Weights []float64
	// RowEffects and ColEffects say whether the terms are effects of rows and columns; without both they are a
	// constant. Rank is that of Pi and Diagonal its diagonal, which must not be modified. Remove applies
	// W^{1/2} (I - Pi) W^{-1/2} to every vector; it is nil, and the others are 0, without terms. That is an
	// orthogonal projection where Pi is the projection in the norm of W, and Oblique is not set.
	RowEffects, ColEffects, Oblique bool
	Rank                            int
	Diagonal                        []float64
	Remove                          func(z array.Batch)
}

// Passes is the cost of products with an A that is read from a store slower than memory. The zero value
// says that A is in memory.
type Passes struct {
	// Bytes is what a product with A or A* reads from the store.
	Bytes int64
	// ColumnBytes is the memory that column j takes after [Structure].On has read it.
	ColumnBytes func(j int) int64
	// Adjoint is the operator's Adjoint, and Columns is On for a set of coordinates. Both return an error
	// when the context is done, and report their progress (package progress).
	Adjoint func(ctx context.Context, dst, z array.Batch) error
	Columns func(ctx context.Context, dev array.Device, t space.Space) (Restricted, error)
	// Count returns the number of passes so far, and the number of bytes read so far.
	Count func() (passes, bytes int64)
}

// BallStep is a projected gradient step with momentum, on the dual of a problem with r(A b),
//
//	x = U + Momentum (U - Before),   Dst = P(x + Step A (B - Back A* x)),
//
// where P projects each of the vectors (z_i, z_{n+i}, ..., z_{(Planes-1)n+i}), of as many neighbours i together
// as there are channels, on the ball of the given radius around 0. Besides Dst it gives, if Uphill is set,
// <x - Dst, Dst - U>, which is positive where the momentum points uphill. Batches have one vector, and Dst is none of
// the others. The entries of U and Before at rows of A that are 0 are set to 0.
type BallStep struct {
	Dst, U, Before, B            array.Batch
	Momentum, Back, Step, Radius float64
	Planes, Channels             int
	Uphill                       bool
}

// Panels compute A* z panel by panel of consecutive rows of A, for a z that need not exist as a
// whole:
//
//	A* z = sum over the panels of A_P* z_P.
type Panels struct {
	// Rows is the number of rows in a panel; the last has what is left.
	Rows int
	// Accumulate sets dst_i = dst_i + A_P* z_i for the panel P that begins at row from, whose number of
	// rows is the length of z's vectors. It overwrites z. It is nil where A does not offer it.
	Accumulate func(dst, z array.Batch, from int)
}

// Number is a number that may not be known.
type Number struct {
	Value float64
	Known bool
}

// Known returns a number that is known.
func Known(value float64) Number { return Number{value, true} }

func (n Number) times(m Number) Number {
	if !n.Known || !m.Known {
		return Number{}
	}
	return Known(n.Value * m.Value)
}

// Structured is an Operator that knows its structure.
//
// A type that embeds an Operator and changes its products passes on only what is still true of the
// result. Beware of embedding a concrete type such as *Dense: its Structure is promoted with its
// other methods and describes the matrix, not the new type.
type Structured interface {
	Operator
	// Structure returns the structure. It is called often and must not allocate: an operator makes
	// its functions once.
	Structure() Structure
}

// StructureOf returns the structure of a. The numbers that follow from others are filled in: an
// operator with no rows or no columns has norm 0, A A* = c I gives ||A||^2 = c, and for a square A
// it gives A*A = c I.
func StructureOf(a Operator) Structure {
	var s Structure
	if known, ok := a.(Structured); ok {
		s = known.Structure()
	}
	d, p := a.Dims()
	s.deduce(d, p)
	return s
}

func (s *Structure) deduce(d, p int) {
	switch {
	case d == 0 || p == 0:
		s.Rows, s.Columns, s.Norm2 = Known(0), Known(0), Known(0)
		return
	case s.Identity:
		s.Rows, s.Columns = Known(1), Known(1)
	case s.Rows.Known && !s.Columns.Known && (d == p || s.Rows.Value == 0):
		s.Columns = s.Rows
	case s.Columns.Known && !s.Rows.Known && (d == p || s.Columns.Value == 0):
		s.Rows = s.Columns
	}
	if s.Rows.Known {
		s.Norm2 = s.Rows
	} else if s.Columns.Known {
		s.Norm2 = s.Columns
	}
}

// known is an operator with its structure, including the functions that follow from the numbers.
type known struct {
	Operator
	s Structure
}

func know(a Operator) known { return known{a, Complete(a, StructureOf(a))} }

// Complete returns the structure s of a with the numbers that follow from others and the functions that
// follow from the numbers, such as the closed form of the normal equations where A A* = c I. An operator
// asks for it once, when it is made, and returns the result as its structure.
func Complete(a Operator, s Structure) Structure {
	d, p := a.Dims()
	s.deduce(d, p)
	if s.SolveNormal == nil {
		switch {
		case s.Columns.Known:
			s.SolveNormal = func(dst, rhs array.Batch, eta float64) bool {
				product.CheckSolve("operator", d, p, dst, rhs, eta)
				scaleSolve(dst, rhs, s.Columns.Value, eta)
				return true
			}
		case s.Rows.Known:
			k := known{a, s}
			s.SolveNormal = func(dst, rhs array.Batch, eta float64) bool {
				product.CheckSolve("operator", d, p, dst, rhs, eta)
				k.solveByRows(dst, rhs, eta)
				return true
			}
		}
	}
	if s.ColumnNorms2 == nil && s.Columns.Known {
		s.ColumnNorms2 = func() []float64 { return slices.Repeat([]float64{s.Columns.Value}, p) }
	}
	return s
}

// solveByRows is the closed form for A A* = c I,
//
//	(eta A*A + I)^{-1} = I - eta/(1 + eta c) A*A.
func (k *known) solveByRows(dst, rhs array.Batch, eta float64) {
	c := k.s.Rows.Value
	if c == 0 || eta == 0 {
		product.CopyTo(dst, rhs)
		return
	}
	d, _ := k.Dims()
	t := dst.Device().Alloc(rhs.K(), d)
	defer t.Free()
	k.Forward(t, rhs)
	product.CopyTo(dst, rhs)
	k.add(product.Adjoint, dst, -eta/(1+eta*c), t)
}

func scaleSolve(dst, rhs array.Batch, c, eta float64) {
	if c == 0 || eta == 0 {
		product.CopyTo(dst, rhs)
		return
	}
	dst.Device().Lin(dst, 1/(1+eta*c), rhs, 0, array.Batch{})
}

func (k *known) apply(w product.Direction, dst, x array.Batch) {
	if w == product.Forward {
		k.Forward(dst, x)
	} else {
		k.Adjoint(dst, x)
	}
}

func (k *known) add(w product.Direction, dst array.Batch, alpha float64, x array.Batch) {
	direct := k.s.AddForward
	if w == product.Adjoint {
		direct = k.s.AddAdjoint
	}
	if direct != nil {
		direct(dst, alpha, x)
		return
	}
	d, p := k.Dims()
	if w == product.Forward {
		product.CheckForward("operator", d, p, dst, x)
	} else {
		product.CheckAdjoint("operator", d, p, dst, x)
	}
	dev := dst.Device()
	t := dev.Alloc(dst.K(), dst.N())
	defer t.Free()
	k.apply(w, t, x)
	dev.Lin(dst, 1, dst, alpha, t)
}

// adding sets AddForward and AddAdjoint: add sets dst += alpha A x, or with product.Adjoint dst += alpha A* x.
func (s *Structure) adding(a *base, add func(w product.Direction, dst array.Batch, alpha float64, x array.Batch)) {
	s.AddForward = func(dst array.Batch, alpha float64, b array.Batch) {
		product.CheckForward(a.name, a.d, a.p, dst, b)
		add(product.Forward, dst, alpha, b)
	}
	s.AddAdjoint = func(dst array.Batch, alpha float64, z array.Batch) {
		product.CheckAdjoint(a.name, a.d, a.p, dst, z)
		add(product.Adjoint, dst, alpha, z)
	}
}

// base has what the operators of this package share: the two products, by one function of their direction, the
// structure, which is made when the operator is, and memory of their own.
type base struct {
	array.Held
	name      string
	d, p      int
	run       func(w product.Direction, dst, x array.Batch)
	structure Structure
}

func (a *base) Dims() (d, p int) { return a.d, a.p }

func (a *base) Forward(dst, b array.Batch) {
	product.CheckForward(a.name, a.d, a.p, dst, b)
	a.run(product.Forward, dst, b)
}

func (a *base) Adjoint(dst, z array.Batch) {
	product.CheckAdjoint(a.name, a.d, a.p, dst, z)
	a.run(product.Adjoint, dst, z)
}

func (a *base) Structure() Structure { return a.structure }

// WithStructure returns a with the structure s in place of its own, to add known structure to an
// operator without one, such as one made of closures by [NewFunc]. s must be true (package
// linopstest checks it).
func WithStructure(a Operator, s Structure) Operator { return withStructure{a, s} }

type withStructure struct {
	Operator
	s Structure
}

func (w withStructure) Structure() Structure { return w.s }
