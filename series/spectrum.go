package series

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/internal/lists"
)

// spectrum is the memory for a patch X, m x n and row-major, and its singular values, by the eigenvectors of the
// Gram matrix of its smaller side: X*X = V S^2 V* for n <= m, X X* = U S^2 U* otherwise. The complex patch A + iB is
// the real [A, -B; B, A], of twice the sides, whose singular values are those of A + iB, each twice.
//
// The patch has lost its part along a unit vector q of voxels, q q* X, which is kept as it is: there is one dimension
// of rows less.
type spectrum struct {
	m, n    int
	copies  int       // 2 for complex patches, else 1
	q, kept []float64 // q, and q* X
	x, out  []float64 // m x n
	gram    []float64 // of the smaller side of m x n, that many rows: the eigenvectors in columns
	values  []float64 // the eigenvalues
	s       []float64 // singular values, in increasing order: the roots of the last of the eigenvalues
	f, mean []float64 // f(s), and the weight of a vector's squared entries in the rows of the divergence
	slope   []float64
	rows    []float64 // divergence by rows
	left    []float64
	work    []float64
}

// reset takes a patch of m x n, whose values the caller then sets.
func (w *spectrum) reset(m, n, copies int) {
	w.m, w.n, w.copies = m, n, copies
	side, k := min(m, n), w.shorter()
	w.x, w.out, w.left = lists.Resize(w.x, m*n), lists.Resize(w.out, m*n), lists.Resize(w.left, max(m, n)*side)
	w.gram, w.work = lists.Resize(w.gram, side*side), lists.Resize(w.work, eigenWork(side))
	w.values, w.f = lists.Resize(w.values, side), lists.Resize(w.f, k)
	w.mean, w.slope = lists.Resize(w.mean, k), lists.Resize(w.slope, k)
	w.rows, w.q, w.kept = lists.Resize(w.rows, m), lists.Resize(w.q, m/copies), lists.Resize(w.kept, copies*n)
	w.s = w.values[side-k:]
}

// eigenWork is the length of the workspace of [lapack64.Syev] that takes no memory, at least side^2.
func eigenWork(side int) int {
	var size [1]float64
	lapack64.Syev(lapack.EVCompute, blas64.Symmetric{N: side, Stride: side, Uplo: blas.Upper}, nil, size[:], -1)
	return max(int(size[0]), side*side)
}

func (w *spectrum) shorter() int { return min(w.m-w.copies, w.n) }
func (w *spectrum) longer() int  { return max(w.m-w.copies, w.n) }

// center takes the part along q off x: of the doubled matrix, along (q, 0) and (0, q).
func (w *spectrum) center() {
	clear(w.kept)
	m := w.m / w.copies
	for c := range w.copies {
		kept := w.kept[c*w.n:][:w.n]
		for i, q := range w.q {
			for j, v := range w.x[(c*m+i)*w.n:][:w.n] {
				kept[j] += q * v
			}
		}
		for i, q := range w.q {
			row := w.x[(c*m+i)*w.n:][:w.n]
			for j, v := range kept {
				row[j] -= q * v
			}
		}
	}
}

// restore adds it to out, and to the divergence by rows.
func (w *spectrum) restore(outside float64) {
	m := w.m / w.copies
	for i, q := range w.q {
		for c := range w.copies {
			w.rows[c*m+i] += q * q * (float64(w.n) - outside)
			row := w.out[(c*m+i)*w.n:][:w.n]
			for j, v := range w.kept[c*w.n:][:w.n] {
				row[j] += q * v
			}
		}
	}
}

func general(x []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: x}
}

// decompose finds the singular values, and the vectors of the smaller side where vectors is set. Where all values are
// below edge, which a Cholesky factorization tells for a tenth of the time, each is set to their root mean square.
func (w *spectrum) decompose(vectors bool, edge float64) error {
	w.center()
	k := min(w.m, w.n)
	g := blas64.Symmetric{N: k, Stride: k, Data: w.gram, Uplo: blas.Upper}
	trans := blas.Trans
	if w.m < w.n {
		trans = blas.NoTrans
	}
	blas64.Syrk(trans, 1, general(w.x, w.m, w.n), 0, g)
	if edge > 0 && w.below(edge*edge) {
		sum := 0.0
		for i := range k {
			sum += w.gram[i*k+i]
		}
		for a := range w.s {
			w.s[a] = math.Sqrt(sum / float64(len(w.s)))
		}
		return nil
	}
	job := lapack.EVNone
	if vectors {
		job = lapack.EVCompute
	}
	if !lapack64.Syev(job, g, w.values, w.work, len(w.work)) {
		return fmt.Errorf("the eigenvalues of the Gram matrix of a patch, %d x %d, did not converge", w.m, w.n)
	}
	for a, v := range w.s {
		w.s[a] = math.Sqrt(max(v, 0))
	}
	return nil
}

// below reports whether all eigenvalues of the Gram matrix are less than c: c - G is positive definite.
func (w *spectrum) below(c float64) bool {
	k := min(w.m, w.n)
	for i := range k {
		if w.gram[i*k+i] >= c {
			return false
		}
	}
	rest := w.work[:k*k]
	for i := range k {
		for j := i; j < k; j++ {
			rest[i*k+j] = -w.gram[i*k+j]
		}
		rest[i*k+i] += c
	}
	_, ok := lapack64.Potrf(blas64.Symmetric{N: k, Stride: k, Data: rest, Uplo: blas.Upper})
	return ok
}

// beta and unit are the ratio of the sides, and sigma sqrt(L) at sigma = 1.
func (w *spectrum) beta() float64 { return float64(w.shorter()) / float64(w.longer()) }

// unit is the unit of a [Shrinkage], at noise of variance 1 in each real and each imaginary part. A complex patch of
// m x n has entries of variance 2, and the doubled matrix has sides twice as long.
func (w *spectrum) unit() float64 { return math.Sqrt(float64(w.longer())) }

// shrink sets f(s) and f'(s) at a threshold, and returns the number of values that are kept, a complex one as one.
func (w *spectrum) shrink(h Shrinkage, threshold float64) (kept int) {
	beta, unit := w.beta(), w.unit()
	for a, s := range w.s {
		if w.copies == 2 && a%2 == 1 { // the same value again, up to rounding errors
			w.s[a], w.f[a], w.slope[a] = w.s[a-1], w.f[a-1], w.slope[a-1]
		} else {
			f, slope := h.Value(s/unit, threshold, beta)
			w.f[a], w.slope[a] = f*unit, slope
		}
		if w.f[a] > 0 {
			kept++
		}
	}
	return kept / w.copies
}

// first is the first of the values that are kept: those before it are mapped to 0.
func (w *spectrum) first() int {
	for a, f := range w.f {
		if f > 0 {
			return a
		}
	}
	return len(w.f)
}

// null is the value below which a singular value is 0 to rounding errors.
func (w *spectrum) null() float64 { return 1e-7 * w.s[len(w.s)-1] }

// divergence returns the trace of the derivative of X -> q q* X + U f(S) V*: N, or 2 N of a complex patch, and
//
//	sum_a f'_a + (L - K) sum_a f_a/s_a + 2 sum_{a != b} s_a f_a / (s_a^2 - s_b^2)
//
// for a real patch with sides K <= L. Of a complex patch with sides K <= L it is
//
//	sum_a f'_a + (2 (L - K) + 1) sum_a f_a/s_a + 4 sum_{a != b} s_a f_a / (s_a^2 - s_b^2).
//
// Candes, Sing-Long, Trzasko, Unbiased risk estimates for singular value thresholding, IEEE Trans. Signal Process. 61
// (2013). It also sets mean: with the pairs of a kept and any other value weighed by
// g_ab = (s_a f_a - s_b f_b)/(s_a^2 - s_b^2), the divergence with respect to row i is
//
//	q_i^2 N + sum_a |U_ia|^2 mean_a + (1 - q_i^2 - sum_a |U_ia|^2) outside,
//
// where outside = sum_a f_a/s_a, twice that for a complex patch, belongs to left vectors of no singular value.
func (w *spectrum) divergence() (trace, outside float64) {
	k, c, first := len(w.s), w.copies, w.first()
	weight := float64(c)
	longer := float64(w.longer()-k) / weight
	wide := w.m-c < w.n
	trace = float64(w.n)
	clear(w.mean)
	for a := first; a < k; a += c {
		ratio := w.f[a] / w.s[a]
		outside += weight * ratio
		w.mean[a] += w.slope[a] + (weight-1)*ratio
		if wide {
			w.mean[a] += weight * longer * ratio
		}
		trace += w.slope[a] + (weight-1+weight*longer)*ratio
	}
	for a := first; a < k; a += c {
		sa := w.s[a]
		for b := 0; b < a; b += c {
			sb, g := w.s[b], 0.0
			if d := sa*sa - sb*sb; d > 1e-9*sa*sa {
				g = (sa*w.f[a] - sb*w.f[b]) / d
			} else { // the limit at equal values
				g = (w.slope[a] + w.f[a]/sa) / 2
			}
			g *= weight
			w.mean[a] += g
			w.mean[b] += g
			trace += 2 * g
		}
	}
	return trace, outside
}

// estimate sets out = U f(S) V*, and rows to the divergence by rows of the doubled matrix; the sum over all rows is
// copies times the trace.
func (w *spectrum) estimate() {
	k, first := len(w.s), w.first()
	_, outside := w.divergence()
	if c := w.copies; c == 2 {
		for a := 1; a < k; a += 2 {
			w.mean[a] = w.mean[a-1]
		}
	}
	for i := range w.rows {
		w.rows[i] = outside
	}
	switch {
	case first == k:
		clear(w.out)
	case w.m >= w.n:
		w.byColumns(first, outside)
	default:
		w.byRows(first, outside)
	}
	w.restore(outside)
}

// byColumns is estimate from the right vectors V: out = (X V) diag(f/s) V*, U_ia = (X V)_ia / s_a.
func (w *spectrum) byColumns(first int, outside float64) {
	side := w.n
	skip := side - len(w.s)
	xv := general(w.left[:w.m*side], w.m, side)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(w.x, w.m, w.n), general(w.gram, side, side), 0, xv)
	null := w.null()
	of, ratio := w.work[:side], w.work[side:2*side]
	clear(w.work[:2*side])
	for a, s := range w.s {
		if s > null {
			of[skip+a], ratio[skip+a] = (w.mean[a]-outside)/(s*s), w.f[a]/s
		}
	}
	for i := range w.m {
		row := xv.Data[i*side : (i+1)*side]
		sum := 0.0
		for a, v := range row {
			sum += of[a] * v * v
			row[a] = v * ratio[a]
		}
		w.rows[i] += sum
	}
	from := skip + first
	blas64.Gemm(blas.NoTrans, blas.Trans, 1,
		blas64.General{Rows: w.m, Cols: side - from, Stride: side, Data: xv.Data[from:]},
		blas64.General{Rows: side, Cols: side - from, Stride: side, Data: w.gram[from:]}, 0, general(w.out, w.m, w.n))
}

// byRows is estimate from the left vectors U: out = U diag(f/s) (U* X).
func (w *spectrum) byRows(first int, outside float64) {
	side := w.m
	skip := side - len(w.s)
	from := skip + first
	u := blas64.General{Rows: side, Cols: side - from, Stride: side, Data: w.gram[from:]}
	ux := general(w.left[:u.Cols*w.n], u.Cols, w.n)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, u, general(w.x, w.m, w.n), 0, ux)
	for a := range u.Cols {
		ratio := w.f[first+a] / w.s[first+a]
		row := ux.Data[a*w.n : (a+1)*w.n]
		for j := range row {
			row[j] *= ratio
		}
	}
	for i := range w.m {
		sum := 0.0
		for a, mean := range w.mean {
			v := w.gram[i*side+skip+a]
			sum += (mean - outside) * v * v
		}
		w.rows[i] += sum
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, u, ux, 0, general(w.out, w.m, w.n))
}

// sure is Stein's unbiased estimate of the squared error of a patch at noise of variance 1 for the current f,
//
//	-m n + sum_a (s_a - f_a)^2 + 2 div,
//
// of the real and imaginary parts of a complex patch.
func (w *spectrum) sure() float64 {
	residual := 0.0
	for a, s := range w.s {
		d := s - w.f[a]
		residual += d * d
	}
	trace, _ := w.divergence()
	c := float64(w.copies)
	// The doubled matrix holds every part twice.
	return -float64(w.m*w.n)/c + residual/c + 2*trace
}
