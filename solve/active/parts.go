package active

import (
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/solve/restrict"
)

// diagonalRows is the number of observations whose leverages, or maps, are computed at a time.
const diagonalRows = 256

// diagonal is that of A_S (A_S* A_S + Q)^{-1} A_S* for the active set S, the squared norms of the rows
// of A_S R^{-1} with the solver's own factor R; nil where the columns are not held as matrices any
// more.
func (w *workspace) diagonal() []float64 {
	if !w.stored() {
		return nil
	}
	columns, units, width := w.p.Layout()
	at := make(map[int]int)
	for s, i := range w.p.Active() {
		at[w.set[i]] = s
	}
	moves := make([][]move, len(*w.parts))
	for k, c := range *w.parts {
		for col, j := range c.Set {
			if s, ok := at[j]; ok {
				moves[k] = append(moves[k], move{col, columns[s], units[s]})
			}
		}
	}
	d, _ := (*w.parts)[0].A.Dims()
	out := make([]float64, d)
	fresh := func() *formed { return new(formed) }
	_ = parallel.Each(parallel.Parts(d, diagonalRows), fresh, func(i int, f *formed) error {
		from := i * diagonalRows
		dst := out[from:min(from+diagonalRows, d)]
		f.x = slices.Grow(f.x[:0], len(dst)*width)[:len(dst)*width]
		clear(f.x)
		for k, c := range *w.parts {
			m := len(c.Set)
			f.values = slices.Grow(f.values[:0], len(dst)*m)[:len(dst)*m]
			rows := linops.StructureOf(c.A).Stored.Rows(from, from+len(dst))
			rows.Device().Download(f.values, rows)
			for r := range dst {
				row, x := f.values[r*m:(r+1)*m], f.x[r*width:(r+1)*width]
				for _, v := range moves[k] {
					x[v.to] = row[v.from] * v.unit
				}
			}
		}
		w.p.FormEach(dst, f.x)
		return nil
	})
	return out
}

// move is where a column of a part goes in a row of the factor, in its units, and formed is memory for such rows.
type move struct {
	from, to int
	unit     float64
}

type formed struct{ x, values []float64 }

func (w *workspace) stored() bool {
	return len(*w.parts) > 0 && !slices.ContainsFunc(*w.parts,
		func(c *restrict.Columns) bool { return linops.StructureOf(c.A).Stored.IsZero() })
}

// correlations are A_S* v_i for the active set S, of k vectors v_i by their correlations with the columns of a
// part, and false where the columns are not held any more.
func (w *workspace) correlations(k int, of func(*restrict.Columns) []float64) (x []float64, ok bool) {
	active, n := w.p.Active(), len(w.set)
	if len(*w.parts) == 0 && len(active) > 0 {
		return nil, false
	}
	all := make([]float64, k*n)
	w.gather(all, k, of)
	x = make([]float64, 0, k*len(active))
	for i := range k {
		for _, s := range active {
			x = append(x, all[i*n+s])
		}
	}
	return x, true
}

// kept are the correlations of fixed vectors, those with a part's columns computed once.
func (w *workspace) kept(v *array.Fixed) (x []float64, ok bool) {
	return w.correlations(v.K(), func(c *restrict.Columns) []float64 {
		return v.Kept(c, func() []float64 { return adjoint(c, v.Batch) })
	})
}

// mapped is the sum of S_i D mu_hat v_i, by the same factor; nil where it has gone, or the columns are not matrices.
func (w *workspace) mapped(v *array.Mapped) []float64 {
	x, ok := w.kept(&v.Fixed)
	if !ok || !w.stored() {
		return nil
	}
	k := v.K()
	w.p.SolveEach(x, k)
	all, sum := w.spread(x, k), make([]float64, v.Size)
	for _, c := range *w.parts {
		m := len(c.Set)
		maps, b := v.Maps(c, func() []float64 { return columnMaps(c, v) }), make([]float64, m)
		for i := range k {
			for col, j := range c.Set {
				if at := w.place[j]; at >= 0 {
					b[col] = all[i*len(w.set)+at]
				}
			}
			for s := range sum {
				sum[s] += floats.Dot(b, maps[(i*v.Size+s)*m:][:m])
			}
		}
	}
	return sum
}

func (w *workspace) spread(x []float64, k int) []float64 {
	active, n := w.p.Active(), len(w.set)
	all := make([]float64, k*n)
	for i := range k {
		for c, s := range active {
			all[i*n+s] = x[i*len(active)+c]
		}
	}
	return all
}

// columnMaps are S_i X for the columns X of a part.
func columnMaps(c *restrict.Columns, v *array.Mapped) []float64 {
	m := len(c.Set)
	sums, values := make([]float64, v.K()*v.Size*m), make([]float64, diagonalRows*m)
	for from := 0; from < v.N(); from += diagonalRows {
		n := min(diagonalRows, v.N()-from)
		rows := linops.StructureOf(c.A).Stored.Rows(from, from+n)
		rows.Device().Download(values[:n*m], rows)
		v.Add(sums, from, m, values[:n*m])
	}
	return sums
}

// products are <v_i, D mu_hat v_j>, k x k, by the same factor; nil where it has gone.
func (w *workspace) products(v *array.Fixed) []float64 {
	k, n := v.K(), len(w.p.Active())
	x, ok := w.kept(v)
	if !ok {
		return nil
	}
	square := make([]float64, k*k)
	if n == 0 {
		return square
	}
	solved := slices.Clone(x)
	w.p.SolveEach(solved, k)
	mat.NewDense(k, k, square).Mul(mat.NewDense(k, n, x), mat.NewDense(k, n, solved).T())
	return square
}

// images sets dst_i = A_S (A_S* A_S + Q)^{-1} A_S* v_i for the active set S, from the solver's own
// factor. It reports false, and does nothing, where the columns are not held any more.
func (w *workspace) images(dst, v array.Batch) bool {
	x, ok := w.correlations(v.K(), func(c *restrict.Columns) []float64 { return adjoint(c, v) })
	if !ok {
		return false
	}
	w.p.SolveEach(x, v.K())
	w.forward(dst, w.spread(x, v.K()))
	return true
}
