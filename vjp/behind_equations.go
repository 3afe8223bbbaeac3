package vjp

import (
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/pivoted"
	"surepipe/linops"
)

// equations are N K u = 0, which define the space {u : K u in T}, with the projection N on what is
// orthogonal to T. Vectors are on the host.
type equations interface {
	// along returns a u with N K u = m, of p numbers; m is changed.
	along(m []float64) []float64
	// multiplier returns an s = N s with K* s = h, of q numbers, for an h that is orthogonal to the space,
	// or that makes the difference small; h is changed.
	multiplier(h []float64) []float64
}

// noEquations are those of R^p.
type noEquations struct{ p, q int }

func (e noEquations) along([]float64) []float64      { return make([]float64, e.p) }
func (e noEquations) multiplier([]float64) []float64 { return make([]float64, e.q) }

// turned are those of an orthogonal K.
type turned struct {
	dev array.Device
	k   linops.Operator
}

func (e turned) along(m []float64) []float64      { return e.times(m, e.k.Adjoint) }
func (e turned) multiplier(h []float64) []float64 { return e.times(h, e.k.Forward) }

func (e turned) times(x []float64, by func(dst, z array.Batch)) []float64 {
	z := e.dev.Put(x, 1, len(x))
	defer z.Free()
	by(z, z)
	return z.ToHost()
}

// dense are those of a factorization (N K)* P = Q R of the rows that are not 0.
type dense struct {
	f    *pivoted.Factor
	q    int
	rows []int // of N K
}

func (e *dense) upper() blas64.Triangular {
	r := e.f.R.RawMatrix()
	return blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: e.f.Rank, Data: r.Data, Stride: r.Stride}
}

func (e *dense) along(m []float64) []float64 {
	w := mat.NewVecDense(e.f.Rank, nil)
	for i, j := range e.f.Pivot[:e.f.Rank] {
		w.SetVec(i, m[e.rows[j]])
	}
	blas64.Trsv(blas.Trans, e.upper(), w.RawVector())
	var u mat.VecDense
	u.MulVec(e.f.Q, w)
	return u.RawVector().Data
}

func (e *dense) multiplier(h []float64) []float64 {
	var w mat.VecDense
	w.MulVec(e.f.Q.T(), mat.NewVecDense(len(h), h))
	blas64.Trsv(blas.NoTrans, e.upper(), w.RawVector())
	s := make([]float64, e.q)
	for i, j := range e.f.Pivot[:e.f.Rank] {
		s[e.rows[j]] = w.AtVec(i)
	}
	return s
}

// forest are those of pairs whose coordinates are tied together: the edges of trees that span the
// components. The one more node stands for 0.
type forest struct {
	pairs  *linops.Pairs
	p      int
	joined []int32 // the edges that join components
	grown  sync.Once
	order  []int32 // nodes but for the roots, each after its parent
	edge   []int32 // of each node to its parent
}

// grow finds the trees, which a curvature alone does not need.
func (f *forest) grow() {
	p, joined := f.p, f.joined
	f.edge, f.joined = make([]int32, p+1), nil
	first := make([]int32, p+2)
	for _, i := range joined {
		a, b := f.ends(i)
		first[a+1]++
		first[b+1]++
	}
	for j := range p + 1 {
		first[j+1] += first[j]
	}
	next, at := append([]int32(nil), first...), make([]int32, 2*len(joined))
	for _, i := range joined {
		a, b := f.ends(i)
		at[next[a]], at[next[b]] = i, i
		next[a]++
		next[b]++
	}
	seen := make([]bool, p+1)
	visit := func(j int32) {
		for _, i := range at[first[j]:first[j+1]] {
			if other := f.other(i, j); !seen[other] {
				seen[other], f.edge[other] = true, i
				f.order = append(f.order, other)
			}
		}
	}
	done := 0
	for root := p; root >= 0; root-- { // 0 is a root
		if seen[root] {
			continue
		}
		seen[root] = true
		visit(int32(root))
		for ; done < len(f.order); done++ {
			visit(f.order[done])
		}
	}
}

func (f *forest) ends(i int32) (a, b int32) {
	if a, b = f.pairs.Plus[i], f.pairs.Minus[i]; a < 0 {
		a = int32(f.p)
	}
	if b < 0 {
		b = int32(f.p)
	}
	return a, b
}

func (f *forest) other(i, j int32) int32 {
	a, b := f.ends(i)
	return a + b - j
}

func (f *forest) entry(i, j int32) float64 {
	if f.pairs.Plus[i] == j {
		return f.pairs.Weight(int(i))
	}
	return -f.pairs.Weight(int(i))
}

func (f *forest) along(m []float64) []float64 {
	f.grown.Do(f.grow)
	u := make([]float64, f.p+1)
	for _, j := range f.order {
		i := f.edge[j]
		u[j] = u[f.other(i, j)] + m[i]/f.entry(i, j)
	}
	return u[:f.p]
}

func (f *forest) multiplier(h []float64) []float64 {
	f.grown.Do(f.grow)
	s, sum := make([]float64, len(f.pairs.Plus)), append(h, 0)
	for at := len(f.order) - 1; at >= 0; at-- {
		j := f.order[at]
		i := f.edge[j]
		s[i] = sum[j] / f.entry(i, j)
		sum[f.other(i, j)] += sum[j]
	}
	return s
}

func (s *sequenceSpace) along(m []float64) []float64 {
	u, left, work := make([]float64, s.p), make([]float64, s.q), make([]float64, s.p+s.q)
	for at, i := range s.zero {
		left[at] = m[i]
	}
	s.lu.Solve(u, left, work)
	return u
}

func (s *sequenceSpace) multiplier(h []float64) []float64 {
	left, work, out := make([]float64, s.q), make([]float64, s.p+s.q), make([]float64, s.rows)
	s.lu.Solve(h, left, work)
	for at, i := range s.zero {
		out[i] = left[at]
	}
	return out
}
