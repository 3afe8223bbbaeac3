package fit

import (
	"fmt"
	"slices"

	"surepipe/internal/sublist"
)

func (f *Fit) entries() int { return f.BShape[0] * f.BShape[1] }

func (f *Fit) entry(i, j int) float64 {
	if f.B != nil {
		return f.B[i*f.BShape[1]+j]
	}
	i, inRow := sublist.At(f.RowsAt, i)
	j, inColumn := sublist.At(f.ColumnsAt, j)
	if !inRow || !inColumn {
		return 0
	}
	r, sum := len(f.S), 0.0
	u, v := f.U[i*r:][:r], f.V[j*r:][:r]
	for l, s := range f.S {
		sum += u[l] * s * v[l]
	}
	return sum
}

// Entry is a predicted entry of a matrix; rows and columns are counted from 0.
type Entry struct {
	Row, Column int
	Value       float64
}

// Missing calls yield with the entries that were not observed, row by row, until it returns false.
func (f *Fit) Missing(yield func(Entry) bool) {
	observed := f.distinct()
	n := f.BShape[1]
	for c := range f.entries() {
		if len(observed) > 0 && observed[0] == c {
			observed = observed[1:]
			continue
		}
		if !yield(Entry{c / n, c % n, f.meanAt(f.linear(c/n, c%n))}) {
			return
		}
	}
}

// distinct are the different observed places, in increasing order.
func (f *Fit) distinct() []int {
	observed := slices.Clone(f.Observed)
	slices.Sort(observed)
	return slices.Compact(observed)
}

// MissingCount is the number of entries that were not observed.
func (f *Fit) MissingCount() int { return f.entries() - len(f.distinct()) }

func (f *Fit) At(row, column int) (Entry, error) {
	m, n := f.BShape[0], f.BShape[1]
	if row < 0 || row >= m || column < 0 || column >= n {
		return Entry{}, fmt.Errorf("row %d, column %d lies outside the matrix of %d x %d, counted from 0", row,
			column, m, n)
	}
	return Entry{row, column, f.meanAt(f.linear(row, column))}, nil
}

func (f *Fit) Linear(e Entry) float64 { return f.linear(e.Row, e.Column) }

func (f *Fit) linear(row, column int) float64 {
	return f.Unit(column) * (f.entry(row, column) + f.effects(row, column))
}

// Unit is what the values of a column of a completed matrix were divided by.
func (f *Fit) Unit(column int) float64 {
	if f.Scale == nil {
		return 1
	}
	return f.Scale[column]
}

func (f *Fit) meanAt(z float64) float64 {
	if f.Mean == nil {
		return z
	}
	one := []float64{z}
	f.Mean(one, one)
	return one[0]
}
