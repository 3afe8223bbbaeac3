package imaging

import (
	"math"
	"sync"

	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// DCT is the orthonormal discrete cosine transform (DCT-II) of a vector or of an image.
//
//	Forward: analysis    dst_k = s_k sum_j b_j cos(pi k (2 j + 1) / (2 n))
//	Adjoint: synthesis   dst_j = sum_k s_k z_k cos(pi k (2 j + 1) / (2 n))
//
// with s_0 = sqrt(1/n) and s_k = sqrt(2/n) otherwise; on a row-major image, along both directions.
// It is orthogonal, so that Adjoint(NewDCT(n)) is its inverse, the operator from coefficients to
// signals.
//
// It takes O(n log n) for any n, by a Fourier transform of the same length, on the host. After
// [DCT.Load] images with sides of up to 4096 are transformed on another device too, by products with
// matrices; else the vectors of that device are copied to the host and back.
//
// Makhoul, A fast cosine transform in one and two dimensions, IEEE Trans. Acoustics, Speech and
// Signal Processing 28 (1980).
type DCT struct {
	mapped
	rows, cols int
	rowTwiddle []complex128 // for vectors along a row
	colTwiddle []complex128
	plans      sync.Pool // of *cosinePlan
	// u and v are the eigenvalues of the rows and of the columns in C* diag(1/(1 + eta (u_k + v_l))) C, the action
	// doNormal; nil where nothing asks for it.
	u, v []float64
}

// NewDCT returns the transform of vectors of length n.
func NewDCT(n int) *DCT {
	product.CheckSize("DCT", n, n)
	return newDCT(1, n)
}

// NewDCT2D returns the transform of images of rows x cols pixels, row-major. The coefficient of
// frequency (k, l) is at k cols + l.
func NewDCT2D(rows, cols int) *DCT {
	product.CheckSize("DCT", rows, cols)
	return newDCT(rows, cols)
}

func newDCT(rows, cols int) *DCT {
	a := &DCT{rows: rows, cols: cols, rowTwiddle: cosineTwiddle(cols), colTwiddle: cosineTwiddle(rows)}
	a.mapped = mapped{twin: imageTwin(rows, cols, a.vector), name: "DCT", d: rows * cols, p: rows * cols}
	a.plans.New = func() any { return newCosinePlan(a) }
	a.structure = linops.Complete(a, linops.Structure{Rows: linops.Known(1)})
	return a
}

// DiagonalOf returns the diagonal of C* diag(h) C for the transform C of images, row-major. With
// c_p(i) = cos(pi p (2 i + 1)/(2 n)) the squares of the entries of row k are (1 + c_2k)/n, and c_2k =
// -c_(2n-2k): along each axis the diagonal is a sum of cosines whose coefficients are sums of h.
func (a *DCT) DiagonalOf(h []float64) []float64 {
	rows, cols := a.rows, a.cols
	along, both := make([]float64, len(h)), make([]float64, len(h))
	for r := range rows {
		foldSquares(along[r*cols:], h[r*cols:], cols, 1)
	}
	for c := range cols {
		foldSquares(both[c:], along[c:], rows, cols)
	}
	a.vector(along, both, action{kind: doAdjoint}, true)
	return along
}

// foldSquares sets dst to the coefficients, of an orthonormal cosine transform of n numbers, of sum_k
// h_k e_k(i)^2 for its rows e_k; entries are a stride apart.
func foldSquares(dst, h []float64, n, stride int) {
	for k := range n {
		v := h[k*stride] / float64(n)
		dst[0] += v
		switch p := 2 * k; {
		case k == 0 || p == n: // e_0^2 = 1/n, and c_n = 0
		case p < n:
			dst[p*stride] += v
		default:
			dst[(2*n-p)*stride] -= v
		}
	}
	root := math.Sqrt(float64(n))
	dst[0] *= root
	for k := 1; k < n; k++ {
		dst[k*stride] *= root / math.Sqrt2
	}
}

// cosineTwiddle is exp(-pi i k / (2 n)), k = 0 to n/2.
func cosineTwiddle(n int) []complex128 {
	w := make([]complex128, n/2+1)
	for k := range w {
		s, c := math.Sincos(-math.Pi * float64(k) / float64(2*n))
		w[k] = complex(c, s)
	}
	return w
}

func (a *DCT) vector(dst, src []float64, do action, shared bool) {
	alongRows := func(src []float64, back bool) {
		pooled(&a.plans, shared, a.rows, parallel.Rows(a.cols), func(p *cosinePlan, lo, hi int) {
			for at := lo * a.cols; at < hi*a.cols; at += a.cols {
				if back {
					p.row.synthesize(dst[at:at+a.cols], src[at:at+a.cols])
				} else {
					p.row.analyze(dst[at:at+a.cols], src[at:at+a.cols])
				}
			}
		})
	}
	alongRows(src, do.kind == doAdjoint)
	if a.rows > 1 || do.kind == doNormal {
		pooled(&a.plans, shared, a.cols, stripe, func(p *cosinePlan, lo, hi int) { a.columns(p, dst, do, lo, hi) })
	}
	if do.kind == doNormal {
		alongRows(dst, true)
	}
}

func (a *DCT) columns(p *cosinePlan, dst []float64, do action, lo, hi int) {
	for r := range a.rows {
		for j, v := range dst[r*a.cols+lo : r*a.cols+hi] {
			p.columns[j][r] = v
		}
	}
	for j := range hi - lo {
		x := p.columns[j]
		switch do.kind {
		case doForward:
			p.col.analyze(x, x)
		case doAdjoint:
			p.col.synthesize(x, x)
		case doNormal:
			p.col.analyze(x, x)
			v := a.v[lo+j]
			for r, u := range a.u {
				x[r] /= 1 + do.eta*(u+v)
			}
			p.col.synthesize(x, x)
		}
	}
	for r := range a.rows {
		row := dst[r*a.cols+lo : r*a.cols+hi]
		for j := range row {
			row[j] = p.columns[j][r]
		}
	}
}

// cosinePlan is the transforms and the memory of one goroutine.
type cosinePlan struct {
	row, col *cosine
	columns  [stripe][]float64
}

func newCosinePlan(a *DCT) *cosinePlan {
	p := &cosinePlan{row: newCosine(a.cols, a.rowTwiddle), col: newCosine(a.rows, a.colTwiddle)}
	for j := range p.columns {
		p.columns[j] = make([]float64, a.rows)
	}
	return p
}

// cosine is the transform of one vector. With v the even entries of x followed by the odd ones in
// reverse order, V its Fourier transform and w_k = exp(-pi i k/(2 n)), the sums over cosines are
// Re(w_k V_k) at k and -Im(w_k V_k) at n - k.
type cosine struct {
	twiddle []complex128
	dft     *realDFT
	v       []float64
	freq    []complex128
}

func newCosine(n int, twiddle []complex128) *cosine {
	return &cosine{twiddle, newRealDFT(n), make([]float64, n), make([]complex128, n/2+1)}
}

func (c *cosine) analyze(dst, x []float64) {
	n := len(x)
	if n == 1 {
		dst[0] = x[0]
		return
	}
	for j := 0; 2*j < n; j++ {
		c.v[j] = x[2*j]
	}
	for j := 0; 2*j+1 < n; j++ {
		c.v[n-1-j] = x[2*j+1]
	}
	c.dft.forward(c.freq, c.v)
	s := math.Sqrt(2 / float64(n))
	dst[0] = real(c.freq[0]) * math.Sqrt(1/float64(n))
	for k := 1; k <= n/2; k++ {
		z := c.freq[k] * c.twiddle[k]
		dst[n-k] = -s * imag(z)
		dst[k] = s * real(z)
	}
}

func (c *cosine) synthesize(dst, x []float64) {
	n := len(x)
	if n == 1 {
		dst[0] = x[0]
		return
	}
	s := math.Sqrt(1 / float64(2*n))
	c.freq[0] = complex(x[0]*math.Sqrt(1/float64(n)), 0)
	for k := 1; k <= n/2; k++ {
		w := c.twiddle[k]
		c.freq[k] = complex(s*x[k], -s*x[n-k]) * complex(real(w), -imag(w))
	}
	c.dft.inverse(c.v, c.freq)
	for j := 0; 2*j < n; j++ {
		dst[2*j] = c.v[j]
	}
	for j := 0; 2*j+1 < n; j++ {
		dst[2*j+1] = c.v[n-1-j]
	}
}
