package faces

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/internal/parallel"
)

// factor is the upper triangular R with R*R = K for a list of columns that grows at its end. Any of
// them may be held at 0 (see hold), and set free again.
type factor struct {
	n, stride int
	r         []float64 // row-major, n rows

	held []int     // columns held at 0, in the order in which that happened
	y    []float64 // Y, one row of length n for each: Y R = E*, with the unit vectors of held in E
	gram []float64 // the upper triangle of Y Y*
	yy   []float64 // the upper triangle of its Cholesky factor
	mu   []float64
}

// block is the number of columns that join at a time.
const block = 64

func (f *factor) grow(n int) {
	if n <= f.stride {
		return
	}
	stride := max(n, f.stride+max(f.stride/4, min(f.stride, block)))
	r := make([]float64, stride*stride)
	f.copyTo(r, stride)
	f.r, f.stride = r, stride
}

// clone shares nothing that changes.
func (f *factor) clone() factor {
	c := factor{n: f.n, stride: f.stride, r: make([]float64, len(f.r)), held: slices.Clone(f.held),
		y: slices.Clone(f.y), gram: slices.Clone(f.gram), yy: slices.Clone(f.yy)}
	f.copyTo(c.r, c.stride)
	return c
}

// copyTo copies the triangle to r, of another stride.
func (f *factor) copyTo(r []float64, stride int) {
	parallel.Ranges(f.n, strip, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(r[i*stride+i:i*stride+f.n], f.r[i*f.stride+i:i*f.stride+f.n])
		}
	})
}

// append adds k columns: k_SN is n x k and k_NN is k x k, both row-major and overwritten. It returns
// which of them joined: those whose squared pivot, against a diagonal of ones, is above cut.
func (f *factor) append(k int, cross, corner []float64, cut float64) []bool {
	f.grow(f.n + k)
	n := f.n
	x := blas64.General{Rows: n, Cols: k, Stride: k, Data: cross}
	if n > 0 {
		f.transposedEach(x)
		multiplyEach(blas.Trans, blas.NoTrans, -1, x, x, 1, blas64.General{Rows: k, Cols: k, Stride: k, Data: corner})
	}
	joined := make([]bool, k)
	for c := range k {
		pivot := corner[c*k+c]
		if !(pivot > cut) {
			continue
		}
		joined[c] = true
		root := math.Sqrt(pivot)
		row := corner[c*k : c*k+k]
		for j := c; j < k; j++ {
			row[j] /= root
		}
		for i := c + 1; i < k; i++ {
			lin(corner[i*k+i:i*k+k], -row[i], row[i:])
		}
	}
	at := n
	for c := range k {
		if !joined[c] {
			continue
		}
		for i, row := 0, n; i <= c; i++ {
			if joined[i] {
				f.r[row*f.stride+at] = corner[i*k+c]
				row++
			}
		}
		at++
	}
	f.n = at
	parallel.Ranges(n, parallel.Rows(k), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			to := f.r[i*f.stride+n:]
			for c, v := range cross[i*k : (i+1)*k] {
				if joined[c] {
					to[0], to = v, to[1:]
				}
			}
		}
	})
	f.widen(n)
	return joined
}

// whole makes the factor that of n columns, with ones on the diagonal of K, of which row sets the upper triangle's
// rows: by a BLAS at once, which takes half of the time of as many appended ones. It reports false, and leaves no
// columns, where a squared pivot is at most cut.
func (f *factor) whole(n int, row func(i int, to []float64), cut float64) bool {
	f.truncate(0)
	f.grow(n)
	for i := range n {
		row(i, f.r[i*f.stride+i:i*f.stride+n])
	}
	_, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: f.stride, Data: f.r})
	for i := 0; i < n && ok; i++ {
		v := f.r[i*f.stride+i]
		ok = v*v > cut
	}
	if ok {
		f.n = n
	}
	return ok
}

func lin(y []float64, a float64, x []float64) {
	blas64.Axpy(a, vector(x), vector(y))
}

// truncate keeps the first n columns, of which none is held at 0 any more.
func (f *factor) truncate(n int) {
	f.n = n
	f.held, f.y, f.gram, f.yy = f.held[:0], f.y[:0], f.gram[:0], f.yy[:0]
}

func (f *factor) triangle() blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: f.n, Stride: f.stride, Data: f.r}
}

// strip is the number of rows of R that are used at a time, as a matrix.
const strip = 96

// transposed overwrites x with R^{-*} x.
func (f *factor) transposed(x []float64) {
	for i := 0; i < f.n; i += strip {
		end := min(i+strip, f.n)
		blas64.Trsv(blas.Trans, f.part(i, end), vector(x[i:end]))
		if end < f.n {
			multiply(true, -1, f.right(i, end), x[i:end], 1, x[end:f.n])
		}
	}
}

// transposedEach overwrites the columns of x, n x k, with R^{-*} x, strip by strip: for few columns a triangular solve
// of a BLAS takes several times as long. The processors share the products.
func (f *factor) transposedEach(x blas64.General) {
	rows := func(i, end int) blas64.General {
		return blas64.General{Rows: end - i, Cols: x.Cols, Stride: x.Stride, Data: x.Data[i*x.Stride:]}
	}
	for i := 0; i < f.n; i += strip {
		end := min(i+strip, f.n)
		parallel.RangesIf((end-i)*(end-i)*x.Cols >= sharedFlops, x.Cols, block/4, func(lo, hi int) {
			some := rows(i, end)
			some.Cols, some.Data = hi-lo, some.Data[lo:]
			blas64.Trsm(blas.Left, blas.Trans, 1, f.part(i, end), some)
		})
		if end < f.n {
			multiplyEach(blas.Trans, blas.NoTrans, -1, f.right(i, end), rows(i, end), 1, rows(end, f.n))
		}
	}
}

func (f *factor) direct(x []float64) {
	for end := f.n; end > 0; end = max(0, end-1) / strip * strip {
		i := (end - 1) / strip * strip
		if end < f.n {
			multiply(false, -1, f.right(i, end), x[end:f.n], 1, x[i:end])
		}
		blas64.Trsv(blas.NoTrans, f.part(i, end), vector(x[i:end]))
	}
}

func (f *factor) part(i, end int) blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: end - i, Stride: f.stride,
		Data: f.r[i*f.stride+i:]}
}

func (f *factor) right(i, end int) blas64.General {
	return blas64.General{Rows: end - i, Cols: f.n - end, Stride: f.stride, Data: f.r[i*f.stride+end:]}
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }
