package active

import (
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/solve/internal/faces"
	"surepipe/solve/restrict"
)

// diagonal is that of A_S (A_S* A_S + Q)^{-1} A_S* for the active set S, the squared norms of the rows
// of A_S W with the root W of the inverse; nil where the columns are not held as matrices any more.
func (w *workspace) diagonal() []float64 {
	entries, ok := w.entries()
	if !ok {
		return nil
	}
	d, _ := (*w.parts)[0].A.Dims()
	out, active := make([]float64, d), w.p.Active()
	whole := w.p.Half(faces.Identity(len(active)), len(active))
	if parts := w.sparseParts(entries, d); parts != nil {
		w.byPairs(out, parts, whole)
		return out
	}
	var add []func(memory *[]float64, image blas64.General, from int)
	cols := whole.Cols
	for k, root := range w.roots(whole) {
		add = append(add, rowsTimes((*w.parts)[k].A, root))
	}
	fresh := func() *[2][]float64 { return new([2][]float64) }
	_ = parallel.Each(parallel.Parts(d, parallel.Panel), fresh, func(i int, memory *[2][]float64) error {
		from := i * parallel.Panel
		dst := out[from:min(from+parallel.Panel, d)]
		image := matrix(&memory[0], len(dst), cols)
		clear(image.Data)
		for _, f := range add {
			f(&memory[1], image, from)
		}
		for i := range dst {
			row := image.Data[i*image.Stride:][:image.Cols]
			dst[i] = floats.Dot(row, row)
		}
		return nil
	})
	return out
}

// rowsTimes adds rows from, from+1, ... of a, a matrix or a sparse one, times a matrix, a triangle
// but for the order of its rows, to an image.
func rowsTimes(a linops.Operator, by blas64.General) func(memory *[]float64, image blas64.General, from int) {
	first := lists.Make(by.Rows, func(i int) int { // half of the entries are 0
		return faces.Zeros(by.Data[i*by.Stride:][:by.Cols])
	})
	stored := linops.StructureOf(a).Stored
	if stored.IsZero() {
		entries := linops.ShiftedOf(a)
		shift := make([]float64, by.Cols)
		for j, v := range entries.Right {
			floats.AddScaled(shift[first[j]:], v, by.Data[j*by.Stride:][first[j]:by.Cols])
		}
		return func(_ *[]float64, image blas64.General, from int) {
			for i := range image.Rows {
				row := image.Data[i*image.Stride:][:image.Cols]
				if entries.Left != nil {
					floats.AddScaled(row, entries.Left[from+i], shift)
				}
				for u := entries.Indptr[from+i]; u < entries.Indptr[from+i+1]; u++ {
					j := entries.Indices[u]
					floats.AddScaled(row[first[j]:], entries.Values[u], by.Data[j*by.Stride:][first[j]:by.Cols])
				}
			}
		}
	}
	lo := slices.Min(append(first, by.Cols))
	if lo == by.Cols {
		return func(*[]float64, blas64.General, int) {}
	}
	by.Data, by.Cols = by.Data[lo:], by.Cols-lo
	return func(memory *[]float64, image blas64.General, from int) {
		rows := stored.Rows(from, from+image.Rows)
		values := blas64.General{Rows: image.Rows, Cols: by.Rows, Stride: by.Rows}
		var host bool
		if values.Data, host = rows.Reshape(1, image.Rows*by.Rows).HostRow(0); !host {
			values = matrix(memory, image.Rows, by.Rows)
			rows.Device().Download(values.Data, rows)
		}
		image.Data, image.Cols = image.Data[lo:], by.Cols
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, values, by, 1, image)
	}
}

// order has the places of coordinates among the active ones, -1 for others.
func (w *workspace) order() []int {
	at := slices.Repeat([]int{-1}, len(w.place))
	for s, i := range w.p.Active() {
		at[w.set[i]] = s
	}
	return at
}

// roots has the rows of the root of the inverse at the columns of each part, 0 at those that are not active.
func (w *workspace) roots(root blas64.General) []blas64.General {
	at := w.order()
	return lists.Map(*w.parts, func(c *restrict.Columns) blas64.General {
		g := matrix(new([]float64), len(c.Set), root.Cols)
		for col, j := range c.Set {
			if s := at[j]; s >= 0 {
				copy(g.Data[col*g.Stride:], root.Data[s*root.Stride:][:root.Cols])
			}
		}
		return g
	})
}

// matrix is one in memory that grows.
func matrix(memory *[]float64, rows, cols int) blas64.General {
	*memory = slices.Grow((*memory)[:0], rows*cols)[:rows*cols]
	return blas64.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: *memory}
}

func (w *workspace) stored() bool {
	return len(*w.parts) > 0 && !slices.ContainsFunc(*w.parts,
		func(c *restrict.Columns) bool { return linops.StructureOf(c.A).Stored.IsZero() })
}

// entries is the number of entries of the columns, and false where they are not held as matrices, sparse or not.
func (w *workspace) entries() (n float64, ok bool) {
	for _, c := range *w.parts {
		if stored := linops.StructureOf(c.A).Stored; !stored.IsZero() {
			n += float64(stored.K() * stored.N())
		} else if s := linops.ShiftedOf(c.A); s != nil {
			n += float64(len(s.Values))
		} else {
			return 0, false
		}
	}
	return n, len(*w.parts) > 0
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
		return array.Kept(v, c, func() []float64 { return adjoint(c, v.Batch, linops.Operator.Adjoint) })
	})
}

// mapped is the sum of S_i D mu_hat v_i, by the same factor; nil where it has gone.
func (w *workspace) mapped(v *array.Mapped) []float64 {
	x, ok := w.kept(&v.Fixed)
	if !ok {
		return nil
	}
	k := v.K()
	w.p.SolveEach(x, k)
	if v.Add == nil || !w.stored() {
		images := v.Device().Alloc(k, v.N())
		defer images.Free()
		w.forward(images, w.spread(x, k), linops.Operator.Forward)
		return v.Sum(images)
	}
	all, sum := w.spread(x, k), make([]float64, v.Size)
	for _, c := range *w.parts {
		m := len(c.Set)
		maps, b := array.Maps(v, c, func() []float64 { return columnMaps(c, v) }), make([]float64, m)
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
	sums := make([]float64, v.K()*v.Size*m)
	for from, to := range parallel.Panels(v.N()) {
		v.Add(sums, from, m, linops.StructureOf(c.A).Stored.Rows(from, to).ToHost())
	}
	return sums
}

// products are <v_i, D mu_hat v_j>, k x k, by the same factor; nil where it has gone.
func (w *workspace) products(v *array.Fixed) []float64 {
	x, ok := w.kept(v)
	if !ok {
		return nil
	}
	k := v.K()
	square := mat.NewSymDense(k, nil).RawSymmetric()
	if len(x) > 0 {
		blas64.Syrk(blas.NoTrans, 1, w.p.Half(x, k), 0, square)
	}
	for i := range k {
		for j := range i {
			square.Data[i*k+j] = square.Data[j*k+i]
		}
	}
	return square.Data
}

// images sets dst_i = A_S (A_S* A_S + Q)^{-1} A_S* v_i for the active set S, from the solver's own
// factor. It reports false, and does nothing, where the columns are not held any more.
func (w *workspace) images(dst, v array.Batch) bool {
	x, ok := w.correlations(v.K(), func(c *restrict.Columns) []float64 {
		return adjoint(c, v, linops.Operator.Adjoint)
	})
	if !ok {
		return false
	}
	w.p.SolveEach(x, v.K())
	w.forward(dst, w.spread(x, v.K()), linops.Operator.Forward)
	return true
}
