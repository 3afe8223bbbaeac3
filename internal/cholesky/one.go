package cholesky

import (
	"gonum.org/v1/gonum/floats"

	"surepipe/internal/parallel"
)

// Solve sets x = S^{-1} x with a complete factor, supernode by supernode, where [Factor.Solve] goes by columns for some
// right-hand sides: trees of [Analysis.Factorize] are solved at the same time. The bits do not depend on the number of
// processors.
func (a *Analysis) Solve(f *Factor, x []float64) {
	y := f.works.take(len(x))
	defer f.works.put(y)
	parallel.Ranges(len(x), parallel.Share, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			y[i] = x[a.order[i]]
		}
	})
	// What a tree adds to the columns of nodes above all trees.
	above := make([][]float64, len(a.tasks))
	fresh := func() *one { return &one{a: a, value: f.segments[0].value, x: y} }
	each := func(solve func(t int, w *one)) {
		_ = parallel.Each(len(a.tasks), fresh, func(t int, w *one) error {
			solve(int(a.begin[t]), w)
			return nil
		})
	}
	each(func(t int, w *one) {
		root := int(a.tasks[t])
		w.end, w.above = a.nodes[root].first+int32(a.width(root)), make([]float64, a.topColumns)
		for i := a.below(root); i <= root; i++ {
			w.forward(i)
		}
		above[t] = w.above
	})
	w := fresh()
	for _, i := range a.top {
		s := &a.nodes[i]
		for k := range a.width(int(i)) {
			for _, u := range above {
				y[int(s.first)+k] += u[a.topAt[int(s.first)+k]]
			}
		}
		w.end = int32(len(x))
		w.forward(int(i))
	}
	for k := len(a.top) - 1; k >= 0; k-- {
		w.backward(int(a.top[k]))
	}
	each(func(t int, w *one) {
		root := int(a.tasks[t])
		for i := root; i >= a.below(root); i-- {
			w.backward(i)
		}
	})
	parallel.Ranges(len(x), parallel.Share, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			x[a.order[i]] = y[i]
		}
	})
}

// one is the memory of one goroutine, and what it is told.
type one struct {
	a        *Analysis
	value, x []float64
	end      int32     // of the columns of the tree
	above    []float64 // for rows from end on
	w        []float64
}

func (w *one) node(i int) (s *supernode, m, n, stride int, local []float64) {
	if m, n, stride = w.a.shape(i); cap(w.w) < n {
		w.w = make([]float64, 2*n)
	}
	return &w.a.nodes[i], m, n, stride, w.w[:n]
}

func (w *one) forward(i int) {
	s, m, n, stride, local := w.node(i)
	clear(local[copy(local, w.x[s.first:int(s.first)+m]):])
	for k := range m {
		l := w.value[int(s.at)+k*stride:][k:n]
		local[k] /= l[0]
		floats.AddScaled(local[k+1:], -local[k], l[1:])
	}
	copy(w.x[s.first:], local[:m])
	for r, row := range s.rows[m:] {
		if row < w.end {
			w.x[row] += local[m+r]
		} else {
			w.above[w.a.topAt[row]] += local[m+r]
		}
	}
}

func (w *one) backward(i int) {
	s, m, n, stride, local := w.node(i)
	for r, row := range s.rows {
		local[r] = w.x[row]
	}
	for k := m - 1; k >= 0; k-- {
		l := w.value[int(s.at)+k*stride:][k:n]
		local[k] = (local[k] - floats.Dot(l[1:], local[k+1:])) / l[0]
	}
	copy(w.x[s.first:], local[:m])
}
