package lowrank

import (
	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
)

// factored is the matrix L V*; V's columns are orthonormal or 0.
type factored struct{ l, v array.Batch }

func (f *factored) free() {
	array.Free(f.l, f.v)
	*f = factored{}
}

func (f *factored) clone() factored {
	dev := f.l.Device()
	c := factored{dev.Alloc(f.l.K(), f.l.N()), dev.Alloc(f.v.K(), f.v.N())}
	dev.Copy(c.l, f.l)
	dev.Copy(c.v, f.v)
	return c
}

// add sets the m x n matrix dst to a L V* + dst.
func (f *factored) add(a float64, dst array.Batch) {
	dst.Device().Gemm(false, true, a, f.l, f.v, 1, dst)
}

// addRows adds rows i to j-1 of a L V* to dst.
func (f *factored) addRows(a float64, dst array.Batch, i, j int) {
	dst.Device().Gemm(false, true, a, f.l.Rows(i, j), f.v, 1, dst)
}

// times adds a L V* x to dst, or a (L V*)* x where trans is set.
func (f factored) times(a float64, trans bool, dst, x array.Batch) {
	if trans {
		f.l, f.v = f.v, f.l
	}
	dev := x.Device()
	t := dev.Alloc(f.l.N(), x.N())
	dev.Gemm(true, false, 1, f.v, x, 0, t)
	dev.Gemm(false, false, a, f.l, t, 1, dst)
	t.Free()
}

func (f *factored) inner(g factored) float64 {
	dev := f.l.Device()
	left, right := dev.Alloc(f.l.N(), g.l.N()), dev.Alloc(f.l.N(), g.l.N())
	defer array.Free(left, right)
	dev.Gemm(true, false, 1, f.l, g.l, 0, left)
	dev.Gemm(true, false, 1, f.v, g.v, 0, right)
	return dot(left, right)
}

// dot is the inner product of two matrices: one number from the device where they are contiguous,
// else one per row.
func dot(a, b array.Batch) float64 {
	if a.Contiguous() && b.Contiguous() {
		a, b = a.Reshape(1, a.K()*a.N()), b.Reshape(1, b.K()*b.N())
	}
	rows := make([]float64, a.K())
	a.Device().Dot(rows, a, b)
	sum := 0.0
	for _, v := range rows {
		sum += v
	}
	return sum
}

func zeros(dev array.Device, shape array.Shape) factored {
	f := factored{dev.Alloc(shape.Rows, 1), dev.Alloc(shape.Cols, 1)}
	dev.Fill(f.l, 0)
	dev.Fill(f.v, 0)
	return f
}

// decomposed is a dense matrix of low rank as a factored one. The block of space then spans it.
func decomposed(space *subspace.Iteration, b array.Batch) (factored, error) {
	dev := b.Device()
	for {
		k := space.Size()
		t, err := space.Advance(subspace.Dense(b), 0)
		if err != nil {
			return factored{}, err
		}
		if r := len(t.Sigma); r < k {
			f := factored{dev.Alloc(b.K(), t.U.N()), t.V}
			subspace.ScaleColumns(f.l, t.U, t.Sigma)
			t.U.Free()
			return f, nil
		}
		t.Free()
		if k >= space.Largest() {
			return factored{}, errHighRank
		}
	}
}

// shrunk is next = U diag(sigma - by) V* for the triplets top, and delta, its difference from now,
// with the squared norm of that:
//
//	delta = U T* - W V_0*,  T = V diag(f) - V_0 C*,  W = L_0 - U C,  C = U* L_0,  now = L_0 V_0*.
func shrunk(top subspace.Triplets, by float64, now factored) (next, delta factored, delta2 float64) {
	dev, m, n := top.U.Device(), top.U.K(), top.V.K()
	f := lists.Map(top.Sigma, func(s float64) float64 { return s - by })
	width, before := top.U.N(), now.l.N()
	next = factored{dev.Alloc(m, width), dev.Alloc(n, width)}
	subspace.ScaleColumns(next.l, top.U, f)
	dev.Copy(next.v, top.V)
	delta = factored{dev.Alloc(m, width+before), dev.Alloc(n, width+before)}
	c := dev.Alloc(width, before)
	defer c.Free()
	dev.Gemm(true, false, 1, top.U, now.l, 0, c)
	t, wl := dev.Alloc(n, width), dev.Alloc(m, before)
	defer array.Free(t, wl)
	subspace.ScaleColumns(t, top.V, f)
	dev.Gemm(false, true, -1, now.v, c, 1, t)
	dev.Copy(wl, now.l)
	dev.Gemm(false, false, -1, top.U, c, 1, wl)
	dev.Copy(delta.l.Cols(0, width), top.U)
	dev.Copy(delta.l.Cols(width, width+before), wl)
	dev.Copy(delta.v.Cols(0, width), t)
	dev.Lin(delta.v.Cols(width, width+before), -1, now.v, 0, array.Batch{})
	return next, delta, dot(t, t) + dot(wl, wl)
}

// squaresShare is how many times the length of a step exceeds the errors of singular values that come
// from squares, while they do not matter.
const squaresShare = 1000

// resolve makes space accurate to rounding once the errors eps sigma_1/tau ||X|| of singular values from
// squares are not small beside a step of the given length. The iterates would wander by as much, and no
// tolerance below would be reached.
func resolve(space *subspace.Iteration, sigma []float64, tau, moved float64) {
	if len(sigma) > 0 && moved < squaresShare*engine.Epsilon*sigma[0]*sigma[0]/tau {
		space.Resolve()
	}
}
