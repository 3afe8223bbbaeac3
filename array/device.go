package array

import "context"

// Device is memory and the arithmetic done in it. Destinations come first. Unless a method says
// otherwise every operand is a batch of the same shape on this device or on one of its views, dst
// may be one of the operands, and a source of a single vector is broadcast over the vectors of
// dst. Methods are safe for concurrent use; writing one batch from two goroutines is not.
//
// Operations may run asynchronously; those that return numbers to the host (Download, Dot,
// MaxAbs) and Sync wait.
//
// # Requests and faults
//
// A program that does several pieces of work on one device at once gives each a view of its own
// ([Device.Request]). A view shares everything with its device except the record of its faults:
//
//   - A fault that concerns one piece of work, above all an Alloc that runs out of memory, sticks
//     to the view that met it. Other views and the device itself go on.
//   - A fault of the device itself, such as a failed launch, sticks to the device and shows in
//     all its views.
//   - The view that an operation belongs to is that of its destination. An operation that returns
//     numbers to the host belongs to the view that it is called on, or, called on a device, to
//     the view of its operands, if any has one.
//   - An operation that reads a batch of a view that has failed fails the view that the operation
//     belongs to, because the contents of such a batch are unknown.
//   - After a fault operations do nothing, Alloc returns a batch without memory, and numbers
//     for the host are NaN.
//
// So an algorithm allocates on the device of its data, y.Device(), and checks its Err.
type Device interface {
	// Name identifies the device, "cpu" or "cuda:0".
	Name() string

	// Request returns a view of the device for one piece of work, or the device itself where it
	// has no faults. It shares the device's memory, pool, accounts and order of operations, and
	// the batches that it allocates have it as their Device. The Request of a view is another
	// view of the same device. A view is not closed.
	Request() Device

	// Alloc returns k contiguous vectors of length n with undefined contents, from a pool: an
	// algorithm that frees what it takes allocates nothing in the long run.
	Alloc(k, n int) Batch
	// Put returns a batch of k vectors of length n with the values of the row-major slice: the
	// slice itself on a device that computes in the host's memory, a copy on any other. The slice
	// must not be modified while the batch is in use.
	Put(data []float64, k, n int) Batch
	// Free returns the memory of a batch that Alloc or Put made.
	Free(b Batch)
	// Stats counts the memory held.
	Stats() Stats
	// Available is how many bytes Alloc can still serve, not counting those reserved. Where bounded
	// is false the number means nothing: the host's memory is the only limit.
	Available() (bytes int64, bounded bool)
	// Reserve sets aside the bytes that are available, up to most, for the Allocs of one
	// computation, and returns their number. While fewer than least are available it waits for
	// other reservations to end; if there are none it grants least anyway, and a later Alloc
	// reports what is missing. The caller calls release once it has freed what it allocated, and
	// makes no other reservation before then. The error is ctx's. A device without a bound grants
	// most at once. A computation that can work in smaller parts makes a reservation first, because
	// an Alloc that finds no memory is a fault.
	Reserve(ctx context.Context, least, most int64) (granted int64, release func(), err error)
	// Err is the first fault of the device, or of the view and its device; nil where there is
	// none. It sticks.
	Err() error
	// Sync waits for all operations issued so far and returns Err.
	Sync() error
	// Stop is a fault of the device itself, err, at the caller's wish: for a program that is to end, as
	// after a signal, sooner than what is under way looks at its context. Operations that take long
	// end early.
	Stop(err error)
	// Close frees all that the device holds.
	Close() error

	// Upload copies the row-major K x N values of src into dst.
	Upload(dst Batch, src []float64)
	// Download copies src into the row-major K x N slice dst.
	Download(dst []float64, src Batch)
	// Copy sets dst = src.
	Copy(dst, src Batch)
	// Fill sets every value of dst to a.
	Fill(dst Batch, a float64)

	// Lin sets dst = a x + c y. A zero Batch y leaves its term out.
	Lin(dst Batch, a float64, x Batch, c float64, y Batch)
	// LinEach sets dst_i = a_i x_i + c_i y_i with one coefficient a vector.
	LinEach(dst Batch, a []float64, x Batch, c []float64, y Batch)
	// Mul sets dst = x ∘ y, the Hadamard product.
	Mul(dst, x, y Batch)
	// Dot sets out_i = <x_i, y_i>, summed in an order that depends on N alone.
	Dot(out []float64, x, y Batch)
	// MaxAbs sets out_i = ||x_i||_inf, NaN if x_i holds one.
	MaxAbs(out []float64, x Batch)

	// Gemm sets C = alpha op(A) op(B) + beta C where each batch is the matrix of
	// its vectors as rows and op transposes when the flag says so. C must not
	// overlap A or B. With beta = 0 the old contents of C do not matter.
	Gemm(transA, transB bool, alpha float64, a, b Batch, beta float64, c Batch)
	// GemmEach does one product for every vector: with each vector of a seen as
	// a row-major matrix of shape sa (b: sb, c: the shape that follows),
	// C_i = alpha op(A_i) op(B_i) + beta C_i. A batch a or b of one vector serves
	// every i. C must not overlap A or B.
	GemmEach(transA, transB bool, alpha float64, a Batch, sa Shape, b Batch, sb Shape, beta float64, c Batch)

	// NewIndex puts a list of coordinates on the device.
	NewIndex(idx []int) Index
	// Gather sets dst_ij = x_i[idx_j]. dst and x must not overlap.
	Gather(dst, x Batch, idx Index)
	// Scatter sets dst = 0, then dst_i[idx_j] = x_ij; the coordinates must be
	// distinct. dst and x must not overlap.
	Scatter(dst, x Batch, idx Index)
	// NewCSR puts a sparse matrix on the device. Its slices must not be modified afterwards.
	NewCSR(rows, cols int, indptr, indices []int, values []float64) CSR
	// MulCSR sets dst_i = A x_i. dst and x must not overlap.
	MulCSR(dst Batch, a CSR, x Batch)

	// NewPattern puts the places of a sparse rows x cols matrix's entries on the device: entry e is
	// at row places[e]/cols and column places[e]%cols. The places are distinct and may come in any
	// order.
	NewPattern(rows, cols int, places []int) Pattern
	// SampleProduct sets dst_i = alpha (the entries of A_i B_i* in the pattern) +
	// beta dst_i, where A_i is rows x r and B_i cols x r, row-major: the sampled
	// product SDDMM. A batch a or b of one vector serves every i. With beta = 0 the old
	// contents of dst do not matter. In batches of two or more the bits of dst_i do
	// not depend on the others.
	SampleProduct(dst Batch, p Pattern, alpha float64, a, b Batch, beta float64)
	// SpreadProduct sets C_i = alpha Z_i B_i + beta C_i, with Z_i* in Z_i's place when
	// trans is set: Z_i is the sparse matrix with the entries z_i, C_i and B_i are
	// row-major with r columns. A batch z or b of one vector serves every i. The rest
	// is as for SampleProduct. c must not overlap b.
	SpreadProduct(trans bool, alpha float64, p Pattern, z, b Batch, beta float64, c Batch)

	// NewBlocks puts the places of symmetric blocks along a matrix's diagonal on the device: block b has
	// the coordinates first[b] to first[b]+size[b]-1. The slices are copied. Blocks must not overlap.
	NewBlocks(first, size []int) Blocks
	// MulBlocks sets the coordinates of every block in dst_i to the block's product with those in x_i; other
	// coordinates of dst keep their values. values is one vector: the blocks one after the other,
	// row by row. dst must not overlap x.
	MulBlocks(dst Batch, b Blocks, values, x Batch)

	// NewRays puts a matrix of rays through images of a shape on the device. The slice is copied.
	NewRays(s Shape, rays []Ray) Rays
	// MulRays sets dst_i = A x_i, the sums along the rays of row-major images, or with trans dst_i = A* x_i.
	// The bits of dst_i do not depend on the other vectors. dst and x must not overlap.
	MulRays(trans bool, dst Batch, a Rays, x Batch)

	// NewDFT puts the discrete Fourier transform of complex arrays of a shape on the device.
	NewDFT(s Shape) DFT
	// MulDFT sets dst_i = alpha F x_i with (F x)_{k,l} = sum_{r,c} x_{r,c} exp(-2 pi i (k r / rows + l c /
	// cols)), or with adjoint dst_i = alpha F* x_i. The bits of dst_i do not depend on the other
	// vectors. dst and x must not overlap.
	MulDFT(adjoint bool, alpha float64, dst Batch, f DFT, x Batch)

	// Soft sets dst = sign(v) max(|v| - t w, 0), entry by entry, the soft
	// threshold. A zero Batch w stands for ones, here and below.
	Soft(dst, v, w Batch, t float64)
	// SoftMask sets dst to 1 where |v| > t w or t w = 0 and to 0 elsewhere,
	// the derivative of Soft.
	SoftMask(dst, v, w Batch, t float64)
	// Clamp sets dst = min(max(v, lo), hi).
	Clamp(dst, v, lo, hi Batch)
	// ClampMask sets dst to 1 where lo < v < hi and to 0 elsewhere, the
	// derivative of Clamp.
	ClampMask(dst, v, lo, hi Batch)
	// Shrink sets dst = max(1 - t w / sqrt(q), 0), the factor by which a
	// block soft threshold multiplies a block of squared norm q; 0 where q = 0
	// and t w > 0, 1 where t w = 0.
	Shrink(dst, q, w Batch, t float64)
	// ShrinkSlope sets dst = t w / q^(3/2) where sqrt(q) > t w and 0 elsewhere: the
	// coefficient of the rank-one part of the block soft threshold's derivative.
	ShrinkSlope(dst, q, w Batch, t float64)
}

// Shape is the size of a matrix that a vector stands for, row-major.
type Shape struct{ Rows, Cols int }

func (s Shape) Len() int { return s.Rows * s.Cols }

func (s Shape) T() Shape { return Shape{s.Cols, s.Rows} }

// Index is a list of coordinates on a device.
type Index interface {
	// Len is the number of coordinates.
	Len() int
	// Bytes is the device memory it holds.
	Bytes() int64
	// Free gives the memory back.
	Free()
}

// CSR is a sparse matrix on a device, compressed by rows.
type CSR interface {
	// Dims is the matrix's size.
	Dims() (rows, cols int)
	// Nonzeros is the number of stored entries.
	Nonzeros() int
	// Bytes is the device memory it holds.
	Bytes() int64
	// Free gives the memory back.
	Free()
}

// Blocks is the places of the blocks of block diagonal matrices, on a device. Their values are a vector.
type Blocks interface {
	// Len is the number of values of all blocks.
	Len() int
	// End is one more than the largest coordinate in a block, or 0.
	End() int
	// Bytes is the device memory it holds.
	Bytes() int64
	// Free gives the memory back.
	Free()
}

// Stats counts a device's memory: batches that have not been freed, the bytes of batches, indices
// and sparse matrices, the largest number of these bytes ever held at once, and the bytes kept in
// the pool for reuse.
type Stats struct {
	Live        int
	LiveBytes   int64
	PeakBytes   int64
	PooledBytes int64
}

// Add counts batches that are taken, and their bytes; negative numbers stand for what is freed. It is for
// implementations of [Device].
func (s *Stats) Add(batches int, bytes int64) {
	s.Live += batches
	s.LiveBytes += bytes
	s.PeakBytes = max(s.PeakBytes, s.LiveBytes)
}
