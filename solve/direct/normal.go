package direct

import (
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/internal/banded"
	"surepipe/internal/cholesky"
	"surepipe/internal/lists"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/space"
)

// normal is the closed form by solutions with N = A*A + Q.
type normal struct {
	p engine.Problem
	f normalFactor

	once sync.Once
	hat  hatOf
}

type normalFactor interface {
	// solve sets dst_i = N^{-1} g_i. dst and g are different batches.
	solve(dst, g array.Batch)
	// traces computes what is known of H.
	traces() hatOf
	lengths() []float64
	// reweight returns the factorization for other q; nil where it is to be made anew.
	reweight(q []float64) (normalFactor, error)
	Release()
}

// hatOf is what is known of a hat matrix: its traces and its diagonal; that is nil where it is not known.
type hatOf struct {
	engine.HatTraces
	diagonal []float64
}

// doubt records rounding errors of H of some eps times a condition number, unless they are below all
// digits that matter.
func (h *hatOf) doubt(condition float64) {
	if e := engine.Epsilon * condition; e > exactTo {
		h.Below, h.Above = e*h.Trace, e*h.Trace
	}
}

// exactTo is the relative error of a trace below which it counts as exact.
const exactTo = 1e-9

func newNormal(p engine.Problem, f normalFactor) closedForm {
	if f == nil {
		return nil
	}
	return &normal{p: p, f: f}
}

func (s *normal) Coefficients(dst, z array.Batch) {
	g := z.Device().Alloc(z.K(), dst.N())
	defer g.Free()
	s.p.A.Adjoint(g, z)
	s.f.solve(dst, g)
}

func (s *normal) Images(dst, z array.Batch) {
	_, dim := s.p.A.Dims()
	b := z.Device().Alloc(z.K(), dim)
	defer b.Free()
	s.Coefficients(b, z)
	s.p.A.Forward(dst, b)
}

func (s *normal) inverse(dst, g array.Batch) { s.f.solve(dst, g) }

func (s *normal) reverse(dst, seed array.Batch) {
	dev := dst.Device()
	b, mu := dev.Alloc(seed.K(), seed.N()), dev.Alloc(dst.K(), dst.N())
	defer array.Free(b, mu)
	s.f.solve(b, seed)
	s.p.A.Forward(mu, b)
	dev.Lin(dst, 1, dst, 1, mu)
}

func (s *normal) known() hatOf {
	s.once.Do(func() { s.hat = s.f.traces() })
	return s.hat
}

func (s *normal) Traces() engine.HatTraces       { return s.known().HatTraces }
func (s *normal) Diagonal() []float64            { return slices.Clone(s.known().diagonal) }
func (s *normal) DiagonalFlops() (float64, bool) { return 0, s.known().diagonal != nil }

func (s *normal) ProbeBytes() int64 {
	d, dim := s.p.A.Dims()
	return 8 * int64(d+4*dim)
}

func (s *normal) lengths() []float64 { return s.f.lengths() }
func (s *normal) Release()           { s.f.Release() }

func (s *normal) reweight(p engine.Problem, q []float64) (closedForm, error) {
	f, err := s.f.reweight(q)
	if f == nil || err != nil {
		return nil, err
	}
	return newNormal(p, f), nil
}

// onHost calls f with the vectors of dst in the host's memory, which hold those of g before and the
// result after.
func onHost(dst, g array.Batch, f func(x [][]float64)) {
	dev, n := dst.Device(), dst.N()
	x := make([][]float64, dst.K())
	if _, ok := dst.HostRow(0); ok {
		dev.Copy(dst, g)
		for i := range x {
			x[i], _ = dst.HostRow(i)
		}
		f(x)
		return
	}
	all := g.ToHost()
	for i := range x {
		x[i] = all[i*n : (i+1)*n]
	}
	f(x)
	dev.Upload(dst, all)
}

// sparseStack is A above K by their entries: M = [A; q^{1/2} K], N = M*M.
type sparseStack struct {
	d, dim int
	rows   space.Rows
	scale  []float64 // 1 for A's rows, the roots of q for those of K
	single bool      // A's rows have at most one entry
}

func (s *quadratic) stack() sparseStack {
	d, dim := s.p.A.Dims()
	all := space.Rows{Indptr: append(make([]int, 0, len(s.a.Indptr)+len(s.k.Indptr)-1), s.a.Indptr...)}
	for _, at := range s.k.Indptr[1:] {
		all.Indptr = append(all.Indptr, len(s.a.Indices)+at)
	}
	all.Indices, all.Values = slices.Concat(s.a.Indices, s.k.Indices), slices.Concat(s.a.Values, s.k.Values)
	st := sparseStack{d: d, dim: dim, rows: all, single: true}
	for i := range d {
		st.single = st.single && all.Indptr[i+1]-all.Indptr[i] <= 1
	}
	return st.with(s.q)
}

func (s sparseStack) with(q []float64) sparseStack {
	s.scale = make([]float64, s.d, s.d+len(q))
	for i := range s.scale {
		s.scale[i] = 1
	}
	s.scale = append(s.scale, lists.Map(q, math.Sqrt)...)
	return s
}

// leverages returns the diagonal of H and its sum, given the entries of N^{-1}: column sets those of
// column j in the rows that A reads together with it.
func (s sparseStack) leverages(factor float64, column func(j int, into []float64)) (diagonal []float64, trace float64) {
	diagonal = make([]float64, s.d)
	z := make([]float64, s.dim)
	for i := range diagonal {
		from, to := s.rows.Indptr[i], s.rows.Indptr[i+1]
		for u := from; u < to; u++ {
			column(s.rows.Indices[u], z)
			for v := from; v < to; v++ {
				diagonal[i] += factor * s.rows.Values[u] * s.rows.Values[v] * z[s.rows.Indices[v]]
			}
		}
		trace += diagonal[i]
	}
	return diagonal, trace
}

// The step of differences by the logarithm of the weight of A*A: the third derivative is at most half
// of the first, so that the relative error of tr H - ||H||_F^2 is below step^2/12.
const frobeniusStep = 0x1p-9

// frobenius2 is ||H||_F^2, given the trace t(s) with A*A multiplied by e^s: its eigenvalues h have the
// derivative h (1 - h),
//
//	t'(0) = tr H - ||H||_F^2.
func frobenius2(trace float64, at func(factor float64) float64) float64 {
	return trace - (at(math.Exp(frobeniusStep))-at(math.Exp(-frobeniusStep)))/(2*frobeniusStep)
}

func (s sparseStack) scaled(factor float64) []float64 {
	out := append([]float64(nil), s.scale...)
	for i := range s.d {
		out[i] *= math.Sqrt(factor)
	}
	return out
}

// bandedNormal is N = R*R with a banded R.
type bandedNormal struct {
	sparseStack
	order *banded.Stack
	r     *banded.Triangle
}

func newBandedNormal(s *quadratic) (closedForm, engine.Choice, error) {
	f := &bandedNormal{sparseStack: s.stack()}
	f.order = banded.NewStack(banded.Rows(f.rows), f.dim)
	var ok bool
	if f.r, ok = f.order.Triangle(f.scale); !ok {
		return nil, engine.Choice{}, nil
	}
	return newNormal(s.p, f), engine.Choice{}, nil
}

func (f *bandedNormal) reweight(q []float64) (normalFactor, error) {
	other := &bandedNormal{sparseStack: f.with(q), order: f.order}
	var ok bool
	if other.r, ok = f.order.Triangle(other.scale); !ok {
		return nil, nil
	}
	return other, nil
}

func (f *bandedNormal) Release()                 {}
func (f *bandedNormal) lengths() []float64       { return lists.Map(f.r.Columns, math.Sqrt) }
func (f *bandedNormal) solve(dst, g array.Batch) { onHost(dst, g, f.r.Solve) }

// traces come from the band of N^{-1}. Rounding errors change R by some eps of its columns' lengths,
// and so H by that times the root of the largest entry of N^{-1}.
func (f *bandedNormal) traces() hatOf {
	g := make([]float64, f.dim) // A*A, if it is diagonal
	for u, j := range f.rows.Indices[:f.rows.Indptr[f.d]] {
		g[j] += f.rows.Values[u] * f.rows.Values[u]
	}
	inverse := f.r.Inverse(g, !f.single)
	h := hatOf{HatTraces: engine.HatTraces{Margin: math.Inf(1), Frobenius2: inverse.Frobenius2}}
	h.diagonal, h.Trace = f.leverages(1, f.columns(inverse))
	largest, z := 0.0, 0.0
	for j, v := range f.r.Columns {
		largest, z = max(largest, v), max(z, inverse.At(j, j))
	}
	h.doubt(math.Sqrt(largest * z))
	if !f.single {
		h.Frobenius2 = frobenius2(h.Trace, func(factor float64) float64 {
			r, ok := f.order.Triangle(f.scaled(factor))
			if !ok {
				return math.NaN()
			}
			_, trace := f.leverages(factor, f.columns(r.Inverse(g, true)))
			return trace
		})
	}
	return h
}

func (f *bandedNormal) columns(inverse *banded.Inverse) func(j int, into []float64) {
	w := f.order.Width()
	return func(j int, into []float64) {
		if f.single {
			into[j] = inverse.At(j, j)
			return
		}
		for i := max(j-w, 0); i <= min(j+w, f.dim-1); i++ {
			into[i] = inverse.At(i, j)
		}
	}
}

// choleskyNormal is N by a sparse Cholesky factor.
type choleskyNormal struct {
	sparseStack
	ptr   []int64
	index []int32
	value []float64
	order *cholesky.Analysis
	l     *cholesky.Factor
	norms []float64
}

// mostFactorFlops is the largest number of operations of a sparse factor: beyond it iterations and probes are faster.
const mostFactorFlops = 2e10

func newCholeskyNormal(s *quadratic) (closedForm, engine.Choice, error) {
	f := &choleskyNormal{sparseStack: s.stack()}
	f.ptr, f.index, f.value = f.matrix(f.scale)
	f.order = cholesky.Analyze(f.ptr, f.index, limits.Factorized)
	if f.order.Nonzeros > limits.Factorized || f.order.Flops > mostFactorFlops {
		return nil, engine.Choice{}, nil
	}
	if !f.factorize() {
		return nil, engine.Choice{}, nil
	}
	return newNormal(s.p, f), engine.Choice{}, nil
}

func (f *choleskyNormal) matrix(scale []float64) ([]int64, []int32, []float64) {
	weights := lists.Map(scale, func(v float64) float64 { return v * v })
	return cholesky.Normal(f.dim, f.rows.Indptr, f.rows.Indices, f.rows.Values, weights)
}

// factorize returns false where N is not positive definite up to rounding errors.
func (f *choleskyNormal) factorize() bool {
	var err error
	if f.l, err = f.order.Factorize(f.value); err != nil {
		return false
	}
	diagonal := lists.Make(f.dim, func(j int) float64 { return f.value[f.ptr[j]] })
	f.norms = lists.Map(diagonal, math.Sqrt)
	return f.l.LeastPivot(diagonal) > leastNormalPivot
}

// leastNormalPivot is the least pivot relative to its diagonal entry; below it the factor has no
// correct digits.
const leastNormalPivot = 1e-14

func (f *choleskyNormal) reweight(q []float64) (normalFactor, error) {
	other := &choleskyNormal{sparseStack: f.with(q), ptr: f.ptr, index: f.index, order: f.order}
	_, _, other.value = f.matrix(other.scale)
	if !other.factorize() {
		return nil, nil
	}
	return other, nil
}

func (f *choleskyNormal) Release()           {}
func (f *choleskyNormal) lengths() []float64 { return f.norms }

// solve takes a step of refinement, by products with M: what K makes of smooth vectors is small, and
// loses fewer digits than N.
func (f *choleskyNormal) solve(dst, g array.Batch) {
	all := g.ToHost()
	onHost(dst, g, func(x [][]float64) {
		f.l.Solve(x, x)
		rest := make([][]float64, len(x))
		for i, b := range x {
			rest[i] = append([]float64(nil), all[i*f.dim:(i+1)*f.dim]...)
			f.less(rest[i], b)
		}
		f.l.Solve(rest, rest)
		for i, b := range x {
			for j, v := range rest[i] {
				b[j] += v
			}
		}
	})
}

func (f *choleskyNormal) less(g, b []float64) {
	for i, s := range f.scale {
		from, to := f.rows.Indptr[i], f.rows.Indptr[i+1]
		sum := 0.0
		for u := from; u < to; u++ {
			sum += f.rows.Values[u] * b[f.rows.Indices[u]]
		}
		sum *= s * s
		for u := from; u < to; u++ {
			g[f.rows.Indices[u]] -= sum * f.rows.Values[u]
		}
	}
}

// normalRoundings is how many eps of its diagonal rounding errors change N by.
const normalRoundings = 256

// traces come from the entries of N^{-1} at the places of N. Rounding errors change N by some eps of
// its diagonal, and so H by that times the largest entry of N^{-1}.
func (f *choleskyNormal) traces() hatOf {
	h := hatOf{HatTraces: engine.HatTraces{Margin: math.Inf(1)}}
	inverse := f.order.Inverse(f.l)
	h.diagonal, h.Trace = f.leverages(1, f.columns(inverse))
	largest, z := 0.0, 0.0
	for j, at := range f.ptr[:f.dim] {
		largest, z = max(largest, f.norms[j]), max(z, inverse[at])
	}
	h.doubt(normalRoundings * largest * largest * z)
	h.Frobenius2 = frobenius2(h.Trace, func(factor float64) float64 {
		_, _, value := f.matrix(f.scaled(factor))
		l, err := f.order.Factorize(value)
		if err != nil {
			return math.NaN()
		}
		_, trace := f.leverages(factor, f.columns(f.order.Inverse(l)))
		return trace
	})
	return h
}

func (f *choleskyNormal) columns(inverse []float64) func(j int, into []float64) {
	return func(j int, into []float64) {
		from, to := f.ptr[j], f.ptr[j+1]
		if f.single {
			to = from + 1
		}
		for u := from; u < to; u++ {
			into[f.index[u]] = inverse[u]
		}
	}
}
