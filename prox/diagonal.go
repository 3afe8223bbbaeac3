package prox

import (
	"math"
	"sync"

	"surepipe/array"
)

// diagonal is the derivative of a separable prox: J z = d ∘ z.
type diagonal struct{ d array.Batch }

// NewDiagonal returns the derivative J z = d ∘ z, which owns d, a batch of one vector.
func NewDiagonal(d array.Batch) Derivative { return diagonal{d} }

func (j diagonal) Apply(dst, z array.Batch) {
	checkApply("a separable prox", j.d.N(), dst, z)
	dst.Device().Mul(dst, j.d, z)
}

func (j diagonal) ApplyRange(jz, pz, z array.Batch) {
	j.Apply(jz, z)
	onto(pz, z, j.d)
}

// onto sets dst to z where d is not zero, and to 0 elsewhere.
func onto(dst, z, d array.Batch) {
	dev := dst.Device()
	support := dev.Alloc(1, d.N())
	dev.SoftMask(support, d, array.Batch{}, math.SmallestNonzeroFloat64)
	dev.Mul(dst, support, z)
	support.Free()
}

func (j diagonal) Diagonal() array.Batch { return j.d }
func (j diagonal) Bytes() int64          { return j.d.Bytes() }
func (j diagonal) Release()              { j.d.Free() }

// Trace sums the diagonal and its squares.
func (j diagonal) Trace() (trace, frobenius2 float64) {
	for _, v := range j.d.ToHost() {
		trace += v
		frobenius2 += v * v
	}
	return trace, frobenius2
}

// multiple is a multiple of the identity, J z = s z. It holds no memory until
// someone asks for its diagonal.
type multiple struct {
	s   float64
	dev array.Device
	n   int

	mu sync.Mutex
	d  array.Batch
}

func newMultiple(s float64, v array.Batch) *multiple {
	return &multiple{s: s, dev: v.Device(), n: v.N()}
}

// Trace is n s, and n s^2.
func (j *multiple) Trace() (trace, frobenius2 float64) {
	return float64(j.n) * j.s, float64(j.n) * j.s * j.s
}

func (j *multiple) Apply(dst, z array.Batch) {
	checkApply("a multiple of the identity", j.n, dst, z)
	switch j.s {
	case 0:
		j.dev.Fill(dst, 0)
	case 1:
		j.dev.Copy(dst, z)
	default:
		j.dev.Lin(dst, j.s, z, 0, array.Batch{})
	}
}

func (j *multiple) ApplyRange(jz, pz, z array.Batch) {
	j.Apply(jz, z)
	if j.s == 0 {
		j.dev.Fill(pz, 0)
	} else {
		j.dev.Copy(pz, z)
	}
}

func (j *multiple) Diagonal() array.Batch {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.d.IsZero() {
		j.d = j.dev.Alloc(1, j.n)
		j.dev.Fill(j.d, j.s)
	}
	return j.d
}

func (j *multiple) Bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.d.Bytes()
}

func (j *multiple) Release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.d.Free()
	j.d = array.Batch{}
}
