package lowrank

import (
	"cmp"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/solve/engine"
)

func onDevice(f *engine.Factors, dev array.Device) factored {
	r := len(f.S)
	if r == 0 {
		return zeros(dev, f.Shape)
	}
	out := factored{dev.Alloc(f.Shape.Rows, r), dev.Alloc(f.Shape.Cols, r)}
	dev.Upload(out.l, embedRows(f.Left(), r, f.Rows, f.Shape.Rows))
	dev.Upload(out.v, embedRows(f.V, r, f.Columns, f.Shape.Cols))
	return out
}

// embedRows puts rows of r values at their lines among n, zeros elsewhere; nil stands for all lines.
func embedRows(values []float64, r int, lines []int, n int) []float64 {
	if lines == nil {
		return values
	}
	out := make([]float64, n*r)
	for k, i := range lines {
		copy(out[i*r:][:r], values[k*r:])
	}
	return out
}

// factors is the matrix on the host. The columns of l are orthogonal, so that its singular values are
// their lengths.
func (f *factored) factors() *engine.Factors {
	l, v, all := f.l.ToHost(), f.v.ToHost(), f.l.N()
	m, n := f.l.K(), f.v.K()
	length := make([]float64, all)
	for i, x := range l {
		length[i%all] = math.Hypot(length[i%all], x)
	}
	var order []int
	for j, s := range length {
		if s > 0 {
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(length[j], length[i]) })
	r := len(order)
	out := &engine.Factors{Shape: array.Shape{Rows: m, Cols: n}, U: make([]float64, m*r), S: make([]float64, r),
		V: make([]float64, n*r)}
	for k, j := range order {
		out.S[k] = length[j]
		for i := range m {
			out.U[i*r+k] = l[i*all+j] / length[j]
		}
		for i := range n {
			out.V[i*r+k] = v[i*all+j]
		}
	}
	return out
}

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

func (w *sampled) implied() *engine.Implied {
	w.accept()
	dev := w.dev
	low, mu := w.now.clone(), dev.Alloc(1, w.ab.N())
	w.inOrder(mu, w.ab)
	out := &engine.Implied{
		D: mu.N(), P: w.shape.Len(), Free: func() { mu.Free(); low.free() },
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
