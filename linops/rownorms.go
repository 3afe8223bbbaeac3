package linops

import "slices"

// RowNorms2 returns the squared lengths of the rows of A diag(s), or of A where s is nil, in a new slice: those of
// matrices, dense or sparse, by their entries, also on top of each other and multiplied by numbers. For other operators
// on top of each other it is one number for all rows of one, their mean square or, where that is not known, ||A_i||^2.
// It is nil where the lengths are not known, and does no products.
func RowNorms2(a Operator, s []float64) []float64 {
	if norms := StructureOf(a).RowNorms2; norms != nil {
		return norms(s)
	}
	return nil
}

// rowNorms2 is that of operators on top of each other.
func (a *stack) rowNorms2(s []float64) []float64 {
	out := make([]float64, 0, a.d)
	for i, part := range a.parts {
		n := RowNorms2(part.Operator, s)
		if n == nil {
			mean, known := meanRow2(&part.s, a.rows[i+1]-a.rows[i], s)
			if !known {
				return nil
			}
			n = slices.Repeat([]float64{mean}, a.rows[i+1]-a.rows[i])
		}
		out = append(out, n...)
	}
	return out
}

func (a *CSR) rowNorms2(s []float64) []float64 {
	out := make([]float64, a.d)
	for i := range out {
		for u := a.m.Indptr[i]; u < a.m.Indptr[i+1]; u++ {
			v := a.m.Values[u]
			if s != nil {
				v *= s[a.m.Indices[u]]
			}
			out[i] += v * v
		}
	}
	return out
}

func (a *Dense) rowNorms2(s []float64) []float64 {
	out := make([]float64, a.d)
	for i := range out {
		for j, v := range a.x.RawRowView(i) {
			if s != nil {
				v *= s[j]
			}
			out[i] += v * v
		}
	}
	return out
}

// meanRow2 is the mean of the squared lengths of d rows, or a bound of them.
func meanRow2(known *Structure, d int, s []float64) (mean float64, ok bool) {
	switch {
	case d == 0:
		return 0, true
	case known.ColumnNorms2 != nil:
		for j, v := range known.ColumnNorms2() {
			if s != nil {
				v *= s[j] * s[j]
			}
			mean += v / float64(d)
		}
		return mean, true
	case s != nil:
		return 0, false
	case known.Rows.Known:
		return known.Rows.Value, true
	}
	return known.Norm2.Value, known.Norm2.Known
}
