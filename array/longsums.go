package array

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/parallel"
)

// longRows is the number of terms that a processor adds up at a time of sums that are long beside how many there are,
// as the products of a tall matrix with itself and with a vector. Fewer than longParts of them are not split.
const longRows, longParts = 1 << 11, 4

// long reports that so few sums of so many terms are split along their terms: one processor would do all.
func long(terms, sums, panels int) bool {
	return panels == 1 && terms >= longParts*longRows && terms*sums >= 2*gemmGrain
}

// sumParts sets c, one vector, to beta c and what a kernel adds of its parts of the terms, each in a row of dst.
func (h *Host) sumParts(t *task, terms int, beta float64, c Batch) {
	t.total, t.width = parallel.Parts(terms, longRows), terms
	parts := h.Alloc(t.total, c.n)
	defer h.Free(parts)
	t.dst = parts
	t.run()
	h.scale(c, beta)
	to := c.row(0)
	for i := range parts.k {
		blas64.Axpy(1, blas64.Vector{N: c.n, Inc: 1, Data: parts.row(i)}, blas64.Vector{N: c.n, Inc: 1, Data: to})
	}
}

// terms are those of part u, and where their sums go, cleared: a BLAS with beta = 0 may keep NaN.
func (t *task) terms(u int) (from, to int, sums []float64) {
	sums = t.dst.row(u)
	clear(sums)
	return u * longRows, min((u+1)*longRows, t.width), sums
}

// longGemvKernel is the product of a vector with a matrix.
func longGemvKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	for u := lo; u < hi; u++ {
		from, to, sums := t.terms(u)
		b := t.y.Rows(from, to)
		impl.Dgemv(blas.Trans, b.k, b.n, t.a, b.data(), b.ld(), t.x.data()[from:to], 1, 0, sums, 1)
	}
}

// longGemmKernel is A'B, of which half is computed where these are the same.
func longGemmKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	m, n := t.sa.Cols, t.sb.Cols
	for u := lo; u < hi; u++ {
		from, to, sums := t.terms(u)
		a, b := t.x.row(0)[from*m:to*m], t.y.row(0)[from*n:to*n]
		if t.x == t.y && t.sa == t.sb {
			impl.Dsyrk(blas.Lower, blas.Trans, m, to-from, t.a, a, m, 0, sums, m)
			mirror(sums, m)
			continue
		}
		impl.Dgemm(blas.Trans, blas.NoTrans, m, n, to-from, t.a, a, m, b, n, 0, sums, n)
	}
}
