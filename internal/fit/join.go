package fit

import (
	"fmt"
	"slices"
)

// Join is one fit of several responses on the same columns of X, of each of which there is a fit. It predicts a column
// for each.
func Join(responses []string, fits []*Fit) (*Fit, error) {
	first := fits[0]
	joined := &Fit{Info: first.Info, Names: first.Names}
	joined.Responses, joined.Fits = responses, nil
	joined.Numbers = Numbers{Converged: first.Converged}
	m := len(fits)
	for k, f := range fits {
		switch {
		case f.Predicts != Rows || len(f.BShape) != 1 || f.Classes != nil:
			return nil, fmt.Errorf("response %q is not that of a regression with one column", responses[k])
		case f.BShape[0] != first.BShape[0] || !slices.Equal(f.Names, first.Names):
			return nil, fmt.Errorf("responses %q and %q have different columns of X, as some levels occur only in "+
				"rows that are left out: expected a run for each", responses[0], responses[k])
		}
		part := Part{responses[k], f.Numbers, f.Data, nil}
		if f.Design != nil {
			part.Levels = f.Design.Levels
		}
		joined.Fits = append(joined.Fits, part)
		joined.Converged = joined.Converged && f.Converged
		joined.Divergence += f.Divergence
	}
	p := first.BShape[0]
	joined.B, joined.BShape = make([]float64, p*m), []int{p, m}
	for k, f := range fits {
		for j, v := range f.B {
			joined.B[j*m+k] = v
		}
		if f.B0 != nil {
			joined.B0 = append(joined.B0, f.B0[0])
		}
	}
	same := func(of func(f *Fit) []float64) []float64 {
		if slices.ContainsFunc(fits, func(f *Fit) bool { return !slices.Equal(of(f), of(first)) }) {
			return nil
		}
		return of(first)
	}
	joined.Center, joined.Scale = same(func(f *Fit) []float64 { return f.Center }),
		same(func(f *Fit) []float64 { return f.Scale })
	if d := len(first.MuHat); !slices.ContainsFunc(fits, func(f *Fit) bool { return len(f.MuHat) != d }) {
		joined.MuHat, joined.MuShape = make([]float64, d*m), []int{d, m}
		for k, f := range fits {
			for i, v := range f.MuHat {
				joined.MuHat[i*m+k] = v
			}
		}
	}
	if first.Design != nil {
		design := *first.Design
		design.Response, design.Levels = "", nil
		joined.Design = &design
	}
	return joined, nil
}
