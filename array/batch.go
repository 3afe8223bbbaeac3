package array

import (
	"fmt"
	"slices"
)

// Buffer is a device's own handle on a piece of its memory. Only the device that made it uses its
// contents.
type Buffer interface {
	// Len is the buffer's capacity in float64 values.
	Len() int
}

// Batch is a view of k vectors of length n on one device. Vector i occupies n consecutive values
// that start stride values after those of vector i-1. The zero Batch is empty and stands for "not
// given" where an operand is optional. Batches are small values: pass and copy them freely; copies
// share memory.
type Batch struct {
	dev    Device
	buf    Buffer
	off    int
	k, n   int
	stride int
}

// NewBatch makes a batch of k contiguous vectors of length n out of a device's buffer. It is for
// implementations of [Device]; other callers use Device.Alloc.
func NewBatch(dev Device, buf Buffer, k, n int) Batch {
	return Batch{dev: dev, buf: buf, k: k, n: n, stride: n}
}

// K is the number of vectors.
func (b Batch) K() int { return b.k }

// N is the length of each vector.
func (b Batch) N() int { return b.n }

// Stride is the distance between the starts of consecutive vectors.
func (b Batch) Stride() int { return b.stride }

// Offset is the position of the first value in the batch's buffer.
func (b Batch) Offset() int { return b.off }

// Device is the device, or the view of one, that the batch was allocated on; nil for the zero
// Batch.
func (b Batch) Device() Device { return b.dev }

// Buffer is the device's handle on the batch's memory.
func (b Batch) Buffer() Buffer { return b.buf }

// IsZero reports whether b is the zero Batch.
func (b Batch) IsZero() bool { return b.dev == nil }

// Contiguous reports whether the k vectors follow each other without gaps.
func (b Batch) Contiguous() bool { return b.k <= 1 || b.stride == b.n }

// Bytes is the size of the batch's values, without the gaps between vectors.
func (b Batch) Bytes() int64 { return 8 * int64(b.k) * int64(b.n) }

// Rows is the view of vectors i to j-1.
func (b Batch) Rows(i, j int) Batch {
	if i < 0 || j < i || j > b.k {
		panic(fmt.Sprintf("array: vectors [%d:%d) of a batch %s", i, j, b))
	}
	b.off += i * b.stride
	b.k = j - i
	return b
}

// Cols is the view of coordinates i to j-1 of every vector.
func (b Batch) Cols(i, j int) Batch {
	if i < 0 || j < i || j > b.n {
		panic(fmt.Sprintf("array: coordinates [%d:%d) of a batch %s", i, j, b))
	}
	b.off += i
	b.n = j - i
	return b
}

// Diagonal is the view of coordinate i of vector i, for every i below k and n, as vectors of length
// 1.
func (b Batch) Diagonal() Batch {
	b.k, b.n, b.stride = min(b.k, b.n), min(b.n, 1), b.stride+1
	return b
}

// Reshape views the k*n values of a contiguous batch as k2 vectors of length n2.
func (b Batch) Reshape(k2, n2 int) Batch {
	if k2*n2 != b.k*b.n || !b.Contiguous() {
		panic(fmt.Sprintf("array: a batch %s with stride %d seen as %d x %d", b, b.stride, k2, n2))
	}
	b.k, b.n, b.stride = k2, n2, n2
	return b
}

// Free returns b's memory to its device's pool; every view of it is invalid from then on. Only a
// batch that came from Alloc or Put may be freed, and once. Freeing the zero Batch does nothing.
func (b Batch) Free() {
	if b.dev != nil {
		b.dev.Free(b)
	}
}

// Free frees batches, in any order.
func Free(batches ...Batch) {
	for _, b := range batches {
		b.Free()
	}
}

// String gives the shape, "k x n".
func (b Batch) String() string { return fmt.Sprintf("%d x %d", b.k, b.n) }

// Read is the values of one vector, which must not be modified: the batch's own where they are in the host's memory,
// else a copy.
func (b Batch) Read() []float64 {
	if row, ok := b.HostRow(0); ok {
		return row
	}
	return b.ToHost()
}

// ToHost copies b into a new row-major k x n slice.
func (b Batch) ToHost() []float64 {
	if h, ok := b.dev.(*Host); ok && b.k == 1 { // without setting it to 0 before
		h.own(b)
		out := slices.Clone(b.row(0))
		h.unknown(out)
		return out
	}
	out := make([]float64, b.k*b.n)
	if len(out) > 0 {
		b.dev.Download(out, b)
	}
	return out
}

// Dot is <b, x> of batches of one vector.
func (b Batch) Dot(x Batch) float64 {
	var out [1]float64
	b.dev.Dot(out[:], b, x)
	return out[0]
}

// MaxAbs is the largest absolute value of a batch of one vector, NaN where it holds one.
func (b Batch) MaxAbs() float64 {
	var out [1]float64
	b.dev.MaxAbs(out[:], b)
	return out[0]
}
