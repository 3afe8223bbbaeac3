package engine

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/internal/sublist"
)

// mostJoined is the largest number of values of joined factors, 2 GiB.
const mostJoined = 1 << 28

// Joined is the same matrix without Parts: one singular value decomposition, for the rows and columns of all
// parts. It is an error where that takes more than 2^28 numbers.
func (f *Factors) Joined() (*Factors, error) {
	if f.Parts == nil {
		return f, nil
	}
	out := &Factors{Shape: f.Shape, Rows: []int{}, Columns: []int{}}
	var triplets []triplet
	for _, p := range f.Parts {
		for k, s := range p.S {
			triplets = append(triplets, triplet{p, k, s})
		}
		out.Rows, out.Columns = append(out.Rows, p.Rows...), append(out.Columns, p.Columns...)
	}
	slices.Sort(out.Rows)
	slices.Sort(out.Columns)
	slices.SortStableFunc(triplets, func(a, b triplet) int { return cmp.Compare(b.value, a.value) })
	m, n, r := len(out.Rows), len(out.Columns), len(triplets)
	if float64(m+n)*float64(r) > mostJoined {
		return nil, fmt.Errorf("solve: the matrix falls into %d parts of rank %d together, with entries in %d "+
			"rows and %d columns: its singular vectors are too many numbers to be written down; choose a larger "+
			"weight lambda", len(f.Parts), r, m, n)
	}
	out.U, out.S, out.V = make([]float64, m*r), make([]float64, r), make([]float64, n*r)
	for j, t := range triplets {
		out.S[j] = t.value
		of := len(t.part.S)
		for _, side := range []struct {
			to, from []float64
			all, own []int
		}{{out.U, t.part.U, out.Rows, t.part.Rows}, {out.V, t.part.V, out.Columns, t.part.Columns}} {
			for k, i := range side.own {
				place, _ := slices.BinarySearch(side.all, i)
				side.to[place*r+j] = side.from[k*of+t.place]
			}
		}
	}
	out.Rows, out.Columns = sublist.Of(out.Rows, f.Shape.Rows), sublist.Of(out.Columns, f.Shape.Cols)
	return out, nil
}

// triplet is a singular value of a part.
type triplet struct {
	part  *Factors
	place int
	value float64
}

// Part is the k-th of n parts in the coordinates of its own lines, to start a solve from; nil where the
// factors have no such part.
func (f *Factors) Part(k, n int) *Factors {
	part := f
	if f == nil || n != max(len(f.Parts), 1) {
		return nil
	}
	if f.Parts != nil {
		part = f.Parts[k]
	}
	own := *part
	rows, columns := part.extent()
	own.Shape, own.Rows, own.Columns = array.Shape{Rows: rows, Cols: columns}, nil, nil
	return &own
}

// FactorsOf is the singular value decomposition of a row-major matrix, without values that are 0 up to
// rounding errors.
func FactorsOf(x []float64, shape array.Shape) (*Factors, error) {
	m, n := shape.Rows, shape.Cols
	u, all, v, err := numerics.SVD(mat.NewDense(m, n, x))
	if err != nil {
		return nil, fmt.Errorf("solve: %w", err)
	}
	r := 0
	for r < len(all) && all[r] > Epsilon*float64(max(m, n))*all[0] {
		r++
	}
	out := &Factors{Shape: shape, U: make([]float64, m*r), S: slices.Clone(all[:r]), V: make([]float64, n*r)}
	for k, side := range []*mat.Dense{u, v} {
		to := [][]float64{out.U, out.V}[k]
		for i := range len(to) / max(r, 1) {
			copy(to[i*r:][:r], side.RawRowView(i))
		}
	}
	return out, nil
}
