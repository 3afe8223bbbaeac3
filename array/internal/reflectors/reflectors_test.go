package reflectors_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"
	"gonum.org/v1/gonum/mat"

	"surepipe/array/internal/reflectors"
)

// Of matrices with many zeros Q is orthogonal, and Q R the matrix. The second result says so of gonum
// alone: once that is mended, this package may go.
func TestFactorsOfSparseMatrices(t *testing.T) {
	const n = 200
	mended := true
	for seed := range uint64(8) {
		m := sparse(n, seed)
		if off := qrOff(m, reflectors.Implementation{}); off > 1e-11 {
			t.Errorf("seed %d: QR is off by %g", seed, off)
		}
		mended = mended && qrOff(m, gonum.Implementation{}) < 1e-11
	}
	if mended {
		t.Error("gonum's own factors are right now: this package has become needless")
	}
}

// sparse has five entries a row and a diagonal below.
func sparse(n int, seed uint64) *mat.Dense {
	rng := rand.New(rand.NewPCG(7, seed))
	d := n * 5 / 3
	m := mat.NewDense(d+n, n, nil)
	for i := range d {
		for range 4 {
			j := rng.IntN(n)
			m.Set(i, j, m.At(i, j)+rng.NormFloat64())
		}
	}
	for i := range n {
		m.Set(d+i, i*7%n, 1.4)
	}
	return m
}

// qrOff is the larger norm of Q R - M and of Q*Q - I.
func qrOff(m *mat.Dense, l lapack.Float64) float64 {
	rows, n := m.Dims()
	a, tau, work, pivot := mat.DenseCopyOf(m), make([]float64, n), make([]float64, 64*n), make([]int, n)
	for i := range pivot {
		pivot[i] = -1
	}
	raw := a.RawMatrix()
	l.Dgeqp3(rows, n, raw.Data, raw.Stride, pivot, tau, work, len(work))
	r := mat.NewDense(n, n, nil)
	for i := range n {
		copy(r.RawRowView(i)[i:], a.RawRowView(i)[i:])
	}
	l.Dorgqr(rows, n, n, raw.Data, raw.Stride, tau, work, len(work))
	var back, square mat.Dense
	back.Mul(a, r)
	square.Mul(a.T(), a)
	for j, p := range pivot {
		square.Set(j, j, square.At(j, j)-1)
		for i := range rows {
			back.Set(i, j, back.At(i, j)-m.At(i, p))
		}
	}
	return max(mat.Norm(&back, 2), mat.Norm(&square, 2))
}
