package hutch

import (
	"math"

	"surepipe/array"
)

// frameSize is the number of coordinates that a [Frame] keeps: all of them up to 44 directions. The relative
// error of a norm from a [Projection] of more is sqrt(1/(2 frameSize)), 2.2%.
const frameSize = 1024

// Frame compares symmetric matrices M whose ranges are all in one subspace of small dimension q, with the
// orthonormal basis b_1 ... b_q: their coordinates <b_i, M b_j> keep Frobenius norms and inner products,
// also of differences, without probes.
type Frame struct {
	basis      array.Fixed // q x d
	projection *Projection // of the coordinates, where there are more than frameSize
}

// NewFrame is the frame of the span of vectors, k x d, on their device. The caller keeps the vectors, and
// frees the frame.
func NewFrame(vectors array.Batch) (*Frame, error) {
	dev := vectors.Device()
	basis := dev.Alloc(vectors.K(), vectors.N())
	rank, err := Orthonormalize(basis, vectors)
	if err != nil {
		basis.Free()
		return nil, err
	}
	f := &Frame{basis: array.Fixed{Batch: basis.Rows(0, rank)}}
	if n := rank * (rank + 1) / 2; n > frameSize {
		f.projection = newProjection(dev, n, frameSize)
	}
	return f, nil
}

// Basis are b_1 ... b_q, which stay the frame's.
func (f *Frame) Basis() *array.Fixed { return &f.basis }

// Products are <b_i, M b_j> by the images M b_1 ... M b_q, q x q.
func (f *Frame) Products(images array.Batch) []float64 {
	square := images.Device().Alloc(f.basis.K(), f.basis.K())
	defer square.Free()
	images.Device().Gemm(false, true, 1, f.basis.Batch, images, 0, square)
	return square.ToHost()
}

// Coordinates are those of M by the products <b_i, M b_j>, q x q: those with i <= j, and those with i < j
// times sqrt(2), or their [Projection] where there are more than frameSize.
func (f *Frame) Coordinates(products []float64) []float64 {
	q := f.basis.K()
	out := make([]float64, 0, q*(q+1)/2)
	for i := range q {
		out = append(out, products[i*q+i])
		for j := i + 1; j < q; j++ {
			out = append(out, math.Sqrt2/2*(products[i*q+j]+products[j*q+i]))
		}
	}
	if f.projection == nil {
		return out
	}
	dev := f.basis.Device()
	at := dev.Alloc(1, len(out))
	defer at.Free()
	dev.Upload(at, out)
	return f.projection.Vector(at)
}

// Free gives the frame's memory back.
func (f *Frame) Free() {
	f.basis.Free()
	if f.projection != nil {
		f.projection.Free()
	}
}
