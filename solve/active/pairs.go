package active

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/solve/internal/faces"
	"surepipe/solve/restrict"
)

const (
	// pairedShare of the active columns is the mean number of entries of a row up to which their pairs take less than
	// rows of the root.
	pairedShare = 0.25
	// paired is the condition number up to which forms by the inverse are as good as by its root.
	paired = 1e8
	// inverseSide is the number of rows of the inverse, and of its columns, that are computed at a time.
	inverseSide = 128
)

// sparseParts are the columns where all are sparse and their rows short; nil for others.
func (w *workspace) sparseParts(entries float64, rows int) []*linops.Shifted {
	if entries > pairedShare*float64(rows)*float64(len(w.p.Active())) || w.p.Condition() > paired {
		return nil
	}
	var parts []*linops.Shifted
	for _, c := range *w.parts {
		if !linops.StructureOf(c.A).Stored.IsZero() {
			return nil
		}
		parts = append(parts, linops.ShiftedOf(c.A))
	}
	return parts
}

// byPairs is the diagonal for sparse columns, by the inverse M of the system: of a row s + u v with few entries in s
// it is s M s + 2 u s M v + u^2 v M v, which takes an operation for each pair of them.
func (w *workspace) byPairs(out []float64, parts []*linops.Shifted, root blas64.General) {
	n := len(w.p.Active())
	m, right, left := inverse(root), make([]float64, n), parts[0].Left
	order := w.order()
	at := lists.Map(*w.parts, func(c *restrict.Columns) []int { return lists.Pick(order, c.Set) })
	for k, part := range parts {
		for col, v := range part.Right {
			if s := at[k][col]; s >= 0 {
				right[s] = v
			}
		}
	}
	half, cross := make([]float64, root.Cols), make([]float64, n) // M v = W W* v
	blas64.Gemv(blas.Trans, 1, root, blas64.Vector{N: n, Inc: 1, Data: right}, 0,
		blas64.Vector{N: root.Cols, Inc: 1, Data: half})
	blas64.Gemv(blas.NoTrans, 1, root, blas64.Vector{N: root.Cols, Inc: 1, Data: half}, 0,
		blas64.Vector{N: n, Inc: 1, Data: cross})
	square := floats.Dot(half, half)
	type row struct {
		places []int
		values []float64
	}
	fresh := func() *row { return new(row) }
	_ = parallel.Each(parallel.Parts(len(out), parallel.Panel), fresh, func(p int, r *row) error {
		for i := p * parallel.Panel; i < min((p+1)*parallel.Panel, len(out)); i++ {
			r.places, r.values = r.places[:0], r.values[:0]
			for k, part := range parts {
				for u := part.Indptr[i]; u < part.Indptr[i+1]; u++ {
					if s := at[k][part.Indices[u]]; s >= 0 {
						r.places, r.values = append(r.places, s), append(r.values, part.Values[u])
					}
				}
			}
			sum, along := 0.0, 0.0
			for a, s := range r.places {
				with := r.values[a] * m[s*n+s] / 2
				for b, t := range r.places[:a] {
					with += r.values[b] * m[max(s, t)*n+min(s, t)]
				}
				sum, along = sum+2*r.values[a]*with, along+r.values[a]*cross[s]
			}
			if left != nil {
				sum += left[i] * (2*along + left[i]*square)
			}
			out[i] = math.Max(sum, 0)
		}
		return nil
	})
}

// inverse is the lower triangle of W W* for the rows of W, of which many begin with zeros.
func inverse(root blas64.General) []float64 {
	n, parts := root.Rows, parallel.Parts(root.Rows, inverseSide)
	out, first := make([]float64, n*n), make([]int, parts)
	block := func(p int) (from, to int) { return p * inverseSide, min((p+1)*inverseSide, n) }
	for p := range first {
		first[p] = root.Cols
		for i, to := block(p); i < to; i++ {
			first[p] = min(first[p], faces.Zeros(root.Data[i*root.Stride:][:root.Cols]))
		}
	}
	parallel.For(parts*parts, func(k int) {
		i, to := block(k / parts)
		j, end := block(k % parts)
		lo := max(first[k/parts], first[k%parts])
		if j > i || lo == root.Cols {
			return
		}
		rows := func(from, to int) blas64.General {
			return blas64.General{Rows: to - from, Cols: root.Cols - lo, Stride: root.Stride,
				Data: root.Data[from*root.Stride+lo:]}
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, rows(i, to), rows(j, end), 0,
			blas64.General{Rows: to - i, Cols: end - j, Stride: n, Data: out[i*n+j:]})
	})
	return out
}
