package rewrite

import "gonum.org/v1/gonum/blas/blas64"

// sparseFactor holds the entries of the factors of a [Synthesis] that are not 0: L by rows without the
// ones on the diagonal, and U by rows without its diagonal.
type sparseFactor struct {
	l, u     sparseRows
	diagonal []float64 // of U
	dim, q   int
}

type sparseRows struct {
	ptr   []int
	index []int32
	value []float64
}

func (s *sparseRows) add(row []float64, from, to int) {
	for j := from; j < to; j++ {
		if v := row[j]; v != 0 {
			s.index, s.value = append(s.index, int32(j)), append(s.value, v)
		}
	}
	s.ptr = append(s.ptr, len(s.index))
}

func (s *sparseRows) less(x []float64, i int) {
	sum := 0.0
	for t := s.ptr[i]; t < s.ptr[i+1]; t++ {
		sum += s.value[t] * x[s.index[t]]
	}
	x[i] -= sum
}

// sparseShare is the share of the entries up to which the factors are used as sparse matrices, which
// reads an entry ten times as slowly as a product of matrices does.
const sparseShare = 0.05

// sparseFactorOf returns the entries of the factors of K*, dim x q; nil where they are many.
func sparseFactorOf(lu blas64.General) *sparseFactor {
	dim, q := lu.Rows, lu.Cols
	f := &sparseFactor{dim: dim, q: q, l: sparseRows{ptr: make([]int, 1, dim+1)},
		u: sparseRows{ptr: make([]int, 1, q+1)}}
	for i := range dim {
		row := lu.Data[i*lu.Stride:][:q]
		f.l.add(row, 0, min(i, q))
		if i < q {
			f.diagonal = append(f.diagonal, row[i])
			f.u.add(row, i+1, q)
		}
		if float64(len(f.l.index)+len(f.u.index)) > sparseShare*float64(dim)*float64(q) {
			return nil
		}
	}
	return f
}

// turn replaces a row of A, in the order of the pivots, by that of A M^{-1}.
func (f *sparseFactor) turn(x []float64) {
	for i := range f.dim {
		// Rows of L2 take from b_J what L1^{-1} has made of b_I.
		f.l.less(x, i)
	}
	for i := f.q - 1; i >= 0; i-- {
		f.u.less(x, i)
		x[i] /= f.diagonal[i]
	}
}
