package array

import (
	"errors"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/parallel"
)

// A BLAS chooses its kernel by the number of rows, and the kernel may determine the last bits of a
// row. The host therefore passes it tiles of few numbers of rows, to which the last one is padded.
//
// OpenBLAS 0.3.21 gives a row the same bits in every tile of a multiple of 12 rows on Sandybridge, Haswell
// and Zen, and of 24 on Nehalem. On SkylakeX and Cooperlake it does for one number of rows alone, where that is
// 24, 36 or 48: 34 vectors, a third of Hutch++'s 102 queries, fit in a tile of 36 rows. So each library is tested
// when it is opened, and the first tiles that pass are used. With 72 rows OpenBLAS reaches its best speed, with 36
// three quarters of that, and with 12 half.
var tiles = []tile{{72, 12, true}, {72, 24, true}, {36, 36, true}, {24, 24, true}, {48, 48, true}}

// tile is the largest number of rows of a tile, of what the others are multiples, and whether the last tile is padded
// to that.
type tile struct {
	rows, step int
	padded     bool
}

// gemmTile is the tile in use. gonum's own product computes up to 64 rows one by one, and
// needs no padding.
var gemmTile = tile{rows: 36, step: 1}

// shareRows is the largest number of rows of a tile where columns are not split, and that of all tiles where a row of a
// panel has fewer than leastWork products: small products may have other bits.
const (
	shareRows = 36
	leastWork = 1 << 8
)

// of is the number of rows of the tiles of a product with n rows, of panels of some columns, and of what the last one
// is a multiple.
func (t tile) of(n, cols, width, inner int) (rows, step int) {
	most := min(parallel.Parts(shareRows, t.step)*t.step, t.rows)
	last := cols - (cols-1)/width*width
	if !t.padded || last*inner < leastWork {
		return most, most
	}
	if width >= cols {
		t.rows = most
	}
	each := parallel.Parts(n, parallel.Parts(n, t.rows))
	return parallel.Parts(each, t.step) * t.step, t.step
}

// chooseTile sets gemmTile for a native BLAS, or returns an error when equal rows of A have different bits in
// C for every number of rows.
func chooseTile(impl blas.Float64) error {
	i := slices.IndexFunc(tiles, func(t tile) bool { return rowsAgree(impl, t) })
	if i < 0 {
		return errors.New("its dgemm_ maps equal rows of A to different rows of C, which would make results " +
			"depend on the batch size")
	}
	gemmTile = tiles[i]
	return nil
}

// rowsAgree multiplies matrices of equal rows, in enough shapes to use a library's kernels for full
// tiles, edges and small matrices. It takes a few milliseconds.
func rowsAgree(impl blas.Float64, t tile) bool {
	const trials, maxCols, maxInner = 36, 300, 600
	rng := rand.New(rand.NewPCG(uint64(t.step), 0))
	random := make([]float64, 1021)
	for i := range random {
		random[i] = rng.Float64() - 0.5
	}
	a, b, c := make([]float64, t.rows*maxInner), make([]float64, maxInner*maxCols), make([]float64, (t.rows+1)*maxCols)
	for i := range b {
		b[i] = random[i%len(random)]
	}
	for trial := range trials {
		n, k := 1+rng.IntN(maxCols), 1+rng.IntN(maxInner)
		if n*k < leastWork {
			n, k = maxCols-n, maxInner-k
		}
		transA, transB := trial%3 == 2, trial%2 == 1
		first := c[t.rows*n:][:n] // the product of a row, by a tile of step rows
		for _, rows := range [2]int{t.step, t.step * (1 + rng.IntN(t.rows/t.step))} {
			lda, ldb := k, n
			if transA {
				lda = rows
			}
			if transB {
				ldb = k
			}
			for i := range rows {
				for l, v := range random[:k] {
					if transA {
						a[l*rows+i] = v
					} else {
						a[i*k+l] = v
					}
				}
			}
			impl.Dgemm(flag(transA), flag(transB), rows, n, k, 1.1, a, lda, b, ldb, 0, c, n)
			if rows == t.step {
				copy(first, c[:n])
			}
			for i := 0; i < rows*n; i += n {
				if !slices.Equal(c[i:i+n], first) {
					return false
				}
			}
		}
	}
	return true
}

func flag(trans bool) blas.Transpose {
	if trans {
		return blas.Trans
	}
	return blas.NoTrans
}

// gemmGrain is the least number of multiplications that is worth another goroutine, about 10
// microseconds of work.
const gemmGrain = 1 << 18

// panels is the width of the parts into which the n columns (or rows) of a product are split: where
// the work is large, an even number of equal parts of at most maxPanel columns, a multiple of 8. It
// depends on shapes alone.
func panels(n, work int) (width int) {
	const maxPanel, minPanel = 256, 32
	if work < 2*gemmGrain || n < 2*minPanel {
		return max(n, 1)
	}
	parts := 2 * ((n + 2*maxPanel - 1) / (2 * maxPanel))
	return ((n+parts-1)/parts + 7) &^ 7
}

func (b Batch) data() []float64 {
	if b.k == 0 || b.n == 0 {
		return nil
	}
	return b.buf.(*hostBuffer).data[b.off : b.off+(b.k-1)*b.stride+b.n]
}

func (b Batch) ld() int { return max(b.stride, b.n, 1) }

func opCols(b Batch, trans bool, p, q int) Batch {
	if trans {
		return b.Rows(p, q)
	}
	return b.Cols(p, q)
}

func (h *Host) Gemm(transA, transB bool, alpha float64, a, b Batch, beta float64, c Batch) {
	h.own(a)
	h.own(b)
	h.own(c)
	inner := CheckGemm(transA, transB, a, b, c)
	if inner == 0 {
		h.scale(c, beta)
		return
	}
	if c.k == 1 && !transA {
		width := panels(c.n, inner*c.n*8) // gemv is bound by memory: a multiplication takes longer
		if !transB && long(inner, 8*c.n, parallel.Parts(c.n, width)) {
			t := h.newTask(longGemvKernel, 0, 1)
			t.x, t.y, t.a = a, b, alpha
			h.sumParts(t, inner, beta, c)
			return
		}
		t := h.newTask(gemvKernel, parallel.Parts(c.n, width), 1)
		t.x, t.y, t.dst, t.a, t.b, t.tb = a, b, c, alpha, beta, transB
		t.sc.Cols = width
		t.run()
		return
	}
	for from := 0; from < inner; from += gemmInner {
		to := min(from+gemmInner, inner)
		h.addProduct(transA, transB, alpha, opCols(a, transA, from, to), opCols(b, !transB, from, to), beta, c)
		beta = 1
	}
}

// gemmInner is the number of terms of a sum that are added at a time, which bounds the padding of a tile.
const gemmInner = 1 << 16

// addProduct is Gemm of tiles.
func (h *Host) addProduct(transA, transB bool, alpha float64, a, b Batch, beta float64, c Batch) {
	inner := b.k
	if transB {
		inner = b.n
	}
	width := panels(c.n, min(gemmTile.rows, shareRows)*inner*c.n)
	height, step := gemmTile.of(max(c.k, 1), c.n, width, inner)
	tiles := parallel.Parts(c.k, height)
	t := h.newTask(gemmKernel, tiles*parallel.Parts(c.n, width), 1)
	t.x, t.y, t.dst, t.a, t.b, t.ta, t.tb = a, b, c, alpha, beta, transA, transB
	t.sc, t.width = Shape{tiles, width}, height
	short := c.k % height
	if short%step == 0 || !gemmTile.padded {
		t.run()
		return
	}
	last := h.padded(opCols(a, !transA, c.k-short, c.k), transA, parallel.Parts(short, step)*step)
	t.z = last
	t.run()
	h.Free(last)
}

// scale sets C = beta C, which is zero for beta = 0 whatever C held.
func (h *Host) scale(c Batch, beta float64) {
	if beta == 0 {
		h.Fill(c, 0)
	} else {
		h.Lin(c, beta, c, 0, Batch{})
	}
}

// padded is a copy of a short tile of op(A) with zero rows added, or columns where A is transposed.
func (h *Host) padded(a Batch, trans bool, rows int) Batch {
	k, n := rows, a.n
	if trans {
		k, n = a.k, rows
	}
	tile := h.Alloc(k, n)
	if trans {
		h.Fill(tile.Cols(a.n, n), 0)
	} else {
		h.Fill(tile.Rows(a.k, k), 0)
	}
	h.Copy(tile.Rows(0, a.k).Cols(0, a.n), a)
	return tile
}

func gemmKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	h := t.dst.dev.(*Host)
	for u := lo; u < hi; u++ {
		panel, tile := u/t.sc.Rows, u%t.sc.Rows
		p := panel * t.sc.Cols
		q := min(p+t.sc.Cols, t.dst.n)
		r := tile * t.width
		s := min(r+t.width, t.dst.k)
		b := opCols(t.y, t.tb, p, q)
		inner := b.k
		if t.tb {
			inner = b.n
		}
		c := t.dst.Rows(r, s).Cols(p, q)
		if t.z.IsZero() || s < t.dst.k {
			a := opCols(t.x, !t.ta, r, s)
			impl.Dgemm(flag(t.ta), flag(t.tb), s-r, q-p, inner, t.a, a.data(), a.ld(), b.data(), b.ld(), t.b,
				c.data(), c.ld())
			continue
		}
		rows := t.z.k
		if t.ta {
			rows = t.z.n
		}
		full := h.Alloc(rows, q-p)
		if t.b != 0 {
			for i := range c.k {
				copy(full.row(i), c.row(i))
			}
			clear(full.data()[c.k*full.stride:])
		}
		impl.Dgemm(flag(t.ta), flag(t.tb), rows, q-p, inner, t.a, t.z.data(), t.z.ld(), b.data(), b.ld(),
			t.b, full.data(), full.ld())
		for i := range c.k {
			copy(c.row(i), full.row(i))
		}
		h.Free(full)
	}
}

func gemvKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	for u := lo; u < hi; u++ {
		p := u * t.sc.Cols
		q := min(p+t.sc.Cols, t.dst.n)
		b := opCols(t.y, t.tb, p, q)
		impl.Dgemv(flag(!t.tb), b.k, b.n, t.a, b.data(), b.ld(), t.x.data(), 1, t.b, t.dst.data()[p:q], 1)
	}
}

func (h *Host) GemmEach(transA, transB bool, alpha float64, a Batch, sa Shape, b Batch, sb Shape, beta float64,
	c Batch) {
	h.own(a)
	h.own(b)
	h.own(c)
	m, n, inner := CheckGemmEach(transA, transB, a, sa, b, sb, c)
	if inner == 0 {
		h.scale(c, beta)
		return
	}
	if c.n == 0 {
		return
	}
	// The longer side of each C is split.
	work := m * inner * n
	width := panels(max(m, n), work)
	kernel := gemmEachKernel
	gram := transA && !transB && beta == 0 && a == b && sa == sb
	if c.k == 1 && transA && !transB && long(inner, m*n, parallel.Parts(max(m, n), width)) {
		t := h.newTask(longGemmKernel, 0, 1)
		t.x, t.y, t.a, t.sa, t.sb = a, b, alpha, sa, sb
		h.sumParts(t, inner, beta, c)
		return
	}
	if gram {
		kernel = gramEachKernel
	}
	t := h.newTask(kernel, c.k*parallel.Parts(max(m, n), width), max(1, gemmGrain/work))
	t.x, t.y, t.dst, t.a, t.b, t.ta, t.tb, t.sa, t.sb = a, b, c, alpha, beta, transA, transB, sa, sb
	t.sc, t.width = Shape{m, n}, width
	t.run()
	if gram {
		for i := range c.k {
			mirror(c.row(i), n)
		}
	}
}

// gramEachKernel computes the triangle below the diagonal of A'A.
func gramEachKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	n, inner := t.sc.Rows, t.sa.Rows
	each := parallel.Parts(n, t.width)
	for u := lo; u < hi; u++ {
		i, p := u/each, u%each*t.width
		a, c, rows := t.x.row(i), t.dst.row(i)[p*n:], min(t.width, n-p)
		clear(c[:rows*n]) // Dsyrk with beta = 0 keeps NaN
		impl.Dgemm(blas.Trans, blas.NoTrans, rows, p, inner, t.a, a[p:], n, a, n, 0, c, n)
		impl.Dsyrk(blas.Lower, blas.Trans, rows, inner, t.a, a[p:], n, 0, c[p:], n)
	}
}

// mirror copies the triangle below the diagonal of an n x n matrix to that above.
func mirror(c []float64, n int) {
	for i := range n {
		for j, v := range c[i*n : i*n+i] {
			c[j*n+i] = v
		}
	}
}

func gemmEachKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	inner := t.sa.op(t.ta).Cols
	byRows := t.sc.Rows >= t.sc.Cols
	each := parallel.Parts(max(t.sc.Rows, t.sc.Cols), t.width)
	for u := lo; u < hi; u++ {
		i, p := u/each, u%each*t.width
		a, b, c := t.x.row(i), t.y.row(i), t.dst.row(i)
		rows, cols := t.sc.Rows, t.sc.Cols
		if byRows {
			rows = min(t.width, rows-p)
			a, c = a[offset(p, !t.ta, t.sa):], c[p*t.sc.Cols:]
		} else {
			cols = min(t.width, cols-p)
			b, c = b[offset(p, t.tb, t.sb):], c[p:]
		}
		impl.Dgemm(flag(t.ta), flag(t.tb), rows, cols, inner, t.a, a, t.sa.Cols, b, t.sb.Cols, t.b, c, t.sc.Cols)
	}
}

func offset(p int, row bool, s Shape) int {
	if row {
		return p * s.Cols
	}
	return p
}
