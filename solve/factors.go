package solve

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/array"
)

// Factors is the m x n matrix U diag(S) V* of rank r, on the host: a solution b of a completion, of
// which p = m n may be more numbers than memory holds. The zero matrix has rank 0.
type Factors struct {
	// Shape is m x n.
	Shape array.Shape
	// U is m x r and V is n x r, row-major, with orthonormal columns; S are the r singular values,
	// positive and in decreasing order.
	U, S, V []float64
}

// Rank is r.
func (f *Factors) Rank() int { return len(f.S) }

// Check returns an error where the lengths do not fit, or a number is not finite.
func (f *Factors) Check() error {
	m, n, r := f.Shape.Rows, f.Shape.Cols, len(f.S)
	if m < 0 || n < 0 || len(f.U) != m*r || len(f.V) != n*r {
		return fmt.Errorf("solve: factors U, S, V of %d, %d and %d values of a %d x %d matrix, expected %d, %d and %d", len(f.U), r, len(f.V), m, n, m*r, r, n*r)
	}
	for _, part := range [][]float64{f.U, f.S, f.V} {
		for _, v := range part {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("solve: factors hold %g, expected finite numbers", v)
			}
		}
	}
	return nil
}

// At is entry (i, j).
func (f *Factors) At(i, j int) float64 {
	r := len(f.S)
	u, v := f.U[i*r:][:r], f.V[j*r:][:r]
	sum := 0.0
	for l, s := range f.S {
		sum += u[l] * s * v[l]
	}
	return sum
}

// Places are the entries at places of the row-major matrix, in a new slice: O(r) for each.
func (f *Factors) Places(places []int) []float64 {
	out := make([]float64, len(places))
	for i, c := range places {
		out[i] = f.At(c/f.Shape.Cols, c%f.Shape.Cols)
	}
	return out
}

// Dense writes the matrix down, row-major: m n numbers.
func (f *Factors) Dense() []float64 {
	m, n, r := f.Shape.Rows, f.Shape.Cols, len(f.S)
	out := make([]float64, m*n)
	if r == 0 || m == 0 || n == 0 {
		return out
	}
	l := slices.Clone(f.U)
	for i := range l {
		l[i] *= f.S[i%r]
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, blas64.General{Rows: m, Cols: r, Stride: r, Data: l},
		blas64.General{Rows: n, Cols: r, Stride: r, Data: f.V}, 0, blas64.General{Rows: m, Cols: n, Stride: n, Data: out})
	return out
}

// on is the matrix on a device.
func (f *Factors) on(dev array.Device) factored {
	r := len(f.S)
	if r == 0 {
		return zeros(dev, f.Shape)
	}
	l := slices.Clone(f.U)
	for i := range l {
		l[i] *= f.S[i%r]
	}
	return hostFactored{l, f.V, r}.on(dev, f.Shape)
}

// factors is the matrix on the host. The columns of l are orthogonal, so that its singular values are
// their lengths.
func (f *factored) factors() *Factors {
	h := f.toHost()
	m, n := f.l.K(), f.v.K()
	length := make([]float64, h.r)
	for i, v := range h.l {
		length[i%h.r] = math.Hypot(length[i%h.r], v)
	}
	var order []int
	for j, s := range length {
		if s > 0 {
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(length[j], length[i]) })
	r := len(order)
	out := &Factors{Shape: array.Shape{Rows: m, Cols: n}, U: make([]float64, m*r), S: make([]float64, r), V: make([]float64, n*r)}
	for k, j := range order {
		out.S[k] = length[j]
		for i := range m {
			out.U[i*r+k] = h.l[i*h.r+j] / length[j]
		}
		for i := range n {
			out.V[i*r+k] = h.v[i*h.r+j]
		}
	}
	return out
}

// read sets dst to the entries from, from+1, ... of the row-major matrix, by panels of rows.
func (f *factored) read(dst []float64, from int) {
	if len(dst) == 0 {
		return
	}
	dev, m, n := f.l.Device(), f.l.K(), f.v.K()
	rows := panelRows(m, n)
	panel := dev.Alloc(rows, n)
	defer panel.Free()
	end := from + len(dst)
	for i := from / n; i*n < end; i += rows {
		j := min(i+rows, m)
		some := panel.Rows(0, j-i)
		dev.Gemm(false, true, 1, f.l.Rows(i, j), f.v, 0, some)
		a, b := max(from, i*n), min(end, j*n)
		dev.Download(dst[a-from:b-from], some.Reshape(1, (j-i)*n).Cols(a-i*n, b-i*n))
	}
}

// implied is the solution b_k by its factors.
func (w *matrices) implied() *Implied {
	w.accept()
	dev := w.dev
	low, mu := w.now.clone(), dev.Alloc(1, w.ab.N())
	w.inOrder(mu, w.ab)
	out := &Implied{
		d: mu.N(), p: w.shape.Len(), free: func() { mu.Free(); low.free() },
		MuHat:   func(dst []float64, from int) { dev.Download(dst, mu.Cols(from, from+len(dst))) },
		B:       low.read,
		Factors: low.factors,
	}
	z := dev.Alloc(1, mu.N())
	defer z.Free()
	dev.Lin(z, 1, w.y, -1, mu)
	out.Residual2 = dot(z, z)
	return out
}
