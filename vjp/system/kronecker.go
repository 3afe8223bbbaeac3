package system

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/linops"
)

// kronecker is K^{-1} of K = G (x) I + Q with p x p and smaller matrices, for a Q with blocks c_g (I - u_g u_g*),
// |u_g| = 1 or 0: those of a ridge, and of norms of the k coefficients of a column. With C = diag(c), A = (G + C)^{-1},
// and U, whose columns are e_g (x) u_g,
//
//	K^{-1} = A (x) I + V T V*,   V = (A (x) I) U,   T = C^{1/2} (I - C^{1/2} U* V C^{1/2})^{-1} C^{1/2}.
type kronecker struct {
	k         int
	c         []float64
	a, t, e   *mat.Dense // A, T and E = U* V
	v, n      *mat.Dense // V* and U* U
	set       []int      // the groups with u != 0
	condition float64
}

// leastShare must be left of the ones on the diagonal of T's matrix; blockError of c_g is that of a block's entries.
const (
	leastShare = 1e-5
	blockError = 1e-11
)

// kronecker returns that of the equations, nil where they have no such form or it is ill-conditioned.
func (e *Equations) kronecker(dev array.Device) *kronecker {
	x, k := linops.KroneckerOf(e.M)
	if x == nil || e.Combined || e.Gram != nil {
		return nil
	}
	_, p := x.Dims()
	s := &kronecker{k: k, c: make([]float64, p)}
	u := make([][]float64, 0, p)
	for g := range p {
		direction, ok := e.block(g, k, &s.c[g])
		if !ok {
			return nil
		}
		if direction != nil {
			s.set, u = append(s.set, g), append(u, direction)
		}
	}
	sum := mat.NewSymDense(p, nil)
	gram := linops.GramOf(dev, x)
	unit := lists.Make(p, func(i int) float64 { return 1 / math.Sqrt(gram[i*p+i]+s.c[i]) })
	for i := range p {
		if !(gram[i*p+i] > 0) {
			return nil
		}
		for j := i; j < p; j++ {
			sum.SetSym(i, j, gram[i*p+j]*unit[i]*unit[j])
		}
		sum.SetSym(i, i, 1)
	}
	if s.condition = numerics.Invert(sum); !(s.condition <= WellConditioned) {
		return nil
	}
	s.a = mat.NewDense(p, p, nil)
	s.a.Apply(func(i, j int, v float64) float64 { return unit[i] * v * unit[j] }, sum)
	if len(s.set) > 0 && !s.correct(u) {
		return nil
	}
	return s
}

// block finds c and u of a group, nil for 0; ok is false where Q has a form of its own there.
func (e *Equations) block(g, k int, c *float64) (u []float64, ok bool) {
	if e.Q == nil {
		return nil, true
	}
	_, n := e.M.Dims()
	at, most, rows := g*k, 0, e.Q[g*k*n:(g+1)*k*n]
	trace, ridge := 0.0, true
	for i := range k {
		trace += rows[i*n+at+i]
		if rows[i*n+at+i] < rows[most*n+at+most] {
			most = i // where u is largest
		}
		ridge = ridge && rows[i*n+at+i] == rows[at] && (i == 0 || rows[at+i] == 0)
	}
	if *c = trace / float64(k); !ridge {
		*c = trace / float64(k-1)
		u = lists.Make(k, func(i int) float64 { return -rows[most*n+at+i] / *c })
		u[most]++
		floats.Scale(1/math.Sqrt(u[most]), u)
	}
	for i := range k {
		for j, v := range rows[i*n : (i+1)*n] {
			if j == at+i {
				v -= *c
			}
			if u != nil && j >= at && j < at+k {
				v += *c * u[i] * u[j-at]
			}
			if math.Abs(v) > blockError**c {
				return nil, false
			}
		}
	}
	return u, true
}

// correct makes T; false where it is ill-conditioned.
func (s *kronecker) correct(u [][]float64) bool {
	r, p := len(s.set), len(s.c)
	s.n, s.e, s.v = mat.NewDense(r, r, nil), mat.NewDense(r, r, nil), mat.NewDense(r, p*s.k, nil)
	w, root := mat.NewSymDense(r, nil), lists.Map(s.set, func(g int) float64 { return math.Sqrt(s.c[g]) })
	for i, g := range s.set {
		for j, h := range s.set {
			s.n.Set(i, j, floats.Dot(u[i], u[j]))
			s.e.Set(i, j, s.a.At(g, h)*s.n.At(i, j))
			if i <= j {
				w.SetSym(i, j, -root[i]*s.e.At(i, j)*root[j])
			}
		}
		if w.SetSym(i, i, 1+w.At(i, i)); w.At(i, i) < leastShare {
			return false
		}
		for h, v := range s.a.RawRowView(g) {
			floats.AddScaled(s.v.RawRowView(i)[h*s.k:(h+1)*s.k], v, u[i])
		}
	}
	condition := numerics.Invert(w)
	if s.condition *= condition; !(s.condition <= WellConditioned) {
		return false
	}
	s.t = mat.NewDense(r, r, nil)
	s.t.Apply(func(i, j int, v float64) float64 { return root[i] * v * root[j] }, w)
	return true
}

func (s *kronecker) traces() (trace, frobenius2 float64) {
	k, ac := float64(s.k), scaled(s.a, s.c)
	first, second := k*mat.Trace(ac), k*traceOf(ac, ac)
	if r := len(s.set); r > 0 {
		own, on := lists.Pick(s.c, s.set), mat.NewDense(r, len(s.c), nil) // the rows of A
		for i, g := range s.set {
			on.SetRow(i, s.a.RawRowView(g))
		}
		onC := scaled(on, s.c)
		var h, hh, th, te, b, f mat.Dense
		h.Mul(onC, on.T())
		h.MulElem(&h, s.n)
		hh.Product(onC, s.a, onC.T())
		hh.MulElem(&hh, s.n)
		th.Mul(s.t, &h)
		te.Mul(s.t, s.e)
		b.Mul(s.e, &te)
		b.Add(&b, s.e)
		bc := scaled(&b, own)
		for i := range r {
			te.Set(i, i, 1+te.At(i, i))
		}
		f.Mul(&h, &te)
		first += mat.Trace(&th) - mat.Trace(bc)
		second += 2*traceOf(s.t, &hh) - 2*traceOf(mat.DenseCopyOf(te.T()), scaled(&f, own)) +
			traceOf(&th, &th) + traceOf(bc, bc)
	}
	n := float64(len(s.c)) * k
	return n - first, n - 2*first + second
}

func scaled(x *mat.Dense, c []float64) *mat.Dense {
	y := mat.DenseCopyOf(x)
	n, _ := x.Dims()
	for i := range n {
		floats.Mul(y.RawRowView(i), c)
	}
	return y
}

func traceOf(x *mat.Dense, y *mat.Dense) (sum float64) {
	n, _ := x.Dims()
	for i := range n {
		for j, v := range x.RawRowView(i) {
			sum += v * y.At(j, i)
		}
	}
	return sum
}

// on returns the product with K^{-1} on the device, and what holds its memory.
func (s *kronecker) on(dev array.Device) (times func(dst, t array.Batch), held Held) {
	p := len(s.c)
	shape, block := array.Shape{Rows: p, Cols: p}, array.Shape{Rows: p, Cols: s.k}
	a := dev.Alloc(1, p*p)
	dev.Upload(a, s.a.RawMatrix().Data)
	held.Hold(Batch{a})
	if len(s.set) == 0 {
		return func(dst, t array.Batch) { dst.Device().GemmEach(false, false, 1, a, shape, t, block, 0, dst) }, held
	}
	var tv mat.Dense
	tv.Mul(s.t, s.v)
	v, w := dev.Alloc(s.v.Dims()), dev.Alloc(s.v.Dims())
	dev.Upload(v, s.v.RawMatrix().Data)
	dev.Upload(w, tv.RawMatrix().Data)
	held.Hold(Batch{v}, Batch{w})
	return func(dst, t array.Batch) {
		dev := dst.Device()
		dev.GemmEach(false, false, 1, a, shape, t, block, 0, dst)
		z := dev.Alloc(t.K(), v.K())
		defer z.Free()
		dev.Gemm(false, true, 1, t, v, 0, z)
		dev.Gemm(false, false, 1, z, w, 1, dst)
	}, held
}
