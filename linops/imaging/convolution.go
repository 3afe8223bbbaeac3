package imaging

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// Boundary is the value of a convolution's input outside of its range.
type Boundary int

const (
	// Circular continues the input periodically.
	Circular Boundary = iota
	// ZeroPadded continues it by zeros.
	ZeroPadded
)

// String is "circular" or "zero-padded".
func (b Boundary) String() string {
	switch b {
	case Circular:
		return "circular"
	case ZeroPadded:
		return "zero-padded"
	}
	return fmt.Sprintf("Boundary(%d)", int(b))
}

// Convolution is the convolution of a vector or of an image with a fixed kernel. The result has the
// size of the input, and the kernel is centred at m = ⌊k/2⌋ of its k entries:
//
//	Forward: dst_i = sum_t h_t b_{i-(t-m)}        Adjoint: dst_j = sum_t h_t z_{j+(t-m)}
//
// and likewise in two dimensions, with ⌊kr/2⌋ and ⌊kc/2⌋. The boundary gives the values outside of
// the input. The kernel may be longer than the input: a circular one wraps, and a zero-padded one
// has entries that do not matter.
//
// A kernel of up to 512 entries (128 on processors without AVX2) is summed entry by entry, and a
// separable one, h = u v*, first along the rows and then down the columns, if u and v together have
// so few; a larger one takes O(n log n) for any n, by Fourier transforms. Both run on the host. After
// [Convolution.Load] every kernel takes Fourier transforms on another device; else the vectors of
// that device are copied to the host and back. A coordinate that is NaN or infinite makes every
// coordinate that it reaches NaN or infinite, or, with Fourier transforms, the whole vector.
//
// A circular convolution is F* diag(K) F with the unitary Fourier transform F and the transform K
// of the kernel. So ||A||^2 = max |K|^2 is known, and
//
//	(eta A*A + I)^{-1} = F* diag(1/(1 + eta |K|^2)) F.
//
// A zero-padded one is a block of a circular one. Neither is known for it, unless its kernel is a
// single tap at the centre.
type Convolution struct {
	mapped
	rows, cols int
	taps       *mat.Dense
	boundary   Boundary

	r, c    int             // the size transformed: rows x cols, padded
	kernel  []complex128    // K, column by column: c/2+1 columns of r values
	direct  [2]*correlation // Forward and Adjoint of a small kernel; else nil
	forRows sync.Pool       // of *rowPlan
	forCols sync.Pool       // of *columnPlan
	spectra sync.Pool       // of *[]complex128, the transforms of the rows, each c/2+1 values
}

// NewConvolution1D returns the convolution of vectors of length n with a kernel. It returns an
// error where the kernel is empty or not finite, or the boundary is unknown. The slice is copied.
func NewConvolution1D(n int, kernel []float64, boundary Boundary) (*Convolution, error) {
	product.CheckSize("Convolution1D", n, n)
	if len(kernel) == 0 {
		return nil, fmt.Errorf("linops: convolution with an empty kernel")
	}
	return newConvolution("Convolution1D", min(n, 1), n, mat.NewDense(1, len(kernel), kernel), boundary)
}

// NewConvolution2D returns the convolution of row-major images of rows x cols pixels with a kernel.
// It returns an error where the kernel is empty or not finite, or the boundary is unknown. The
// matrix is copied.
func NewConvolution2D(rows, cols int, kernel *mat.Dense, boundary Boundary) (*Convolution, error) {
	product.CheckSize("Convolution2D", rows, cols)
	if kernel.IsEmpty() {
		return nil, fmt.Errorf("linops: convolution with an empty kernel")
	}
	return newConvolution("Convolution2D", rows, cols, kernel, boundary)
}

func newConvolution(name string, rows, cols int, kernel *mat.Dense, boundary Boundary) (*Convolution, error) {
	if boundary != Circular && boundary != ZeroPadded {
		return nil, fmt.Errorf("linops: convolution with boundary %d, want Circular or ZeroPadded", int(boundary))
	}
	kr, kc := kernel.Dims()
	sum := 0.0
	for s := range kr {
		for t, v := range kernel.RawRowView(s) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("linops: convolution kernel's entry (%d, %d) is %v", s, t, v)
			}
			sum += math.Abs(v)
		}
	}
	if math.IsInf(sum*sum, 1) {
		return nil, fmt.Errorf("linops: convolution kernel's entries add up to %.3g in absolute value; the "+
			"square overflows", sum)
	}
	a := &Convolution{rows: rows, cols: cols, taps: mat.DenseCopyOf(kernel), boundary: boundary, r: rows, c: cols}
	a.mapped = mapped{twin: imageTwin(rows, cols, a.vector), name: name, d: rows * cols, p: rows * cols}
	if rows*cols == 0 {
		a.structure = linops.Complete(a, linops.Structure{Storage: linops.Storage{Listed: a.entries}})
		return a, nil
	}
	if boundary == ZeroPadded {
		a.r, a.c = paddedLength(rows, kr), paddedLength(cols, kc)
	}
	grid := a.grid()
	width := a.c/2 + 1
	a.forRows.New = func() any { return &rowPlan{newRealDFT(a.c), make([]float64, a.c)} }
	a.forCols.New = func() any { return newColumnPlan(a.r) }
	a.spectra.New = func() any { s := make([]complex128, rows*width); return &s }
	a.direct[doForward] = newCorrelation(rows, cols, flipped(kernel), kr-1-kr/2, kc-1-kc/2, boundary)
	a.direct[doAdjoint] = newCorrelation(rows, cols, a.taps, kr/2, kc/2, boundary)
	if boundary == Circular || a.direct[doForward] == nil {
		a.kernel = a.transformKernel(grid)
	}
	a.structure = linops.Complete(a, a.know(grid))
	a.structure.Listed = a.entries
	return a, nil
}

// grid is the kernel in the size transformed, with its centre at the first entry.
func (a *Convolution) grid() []float64 {
	kr, kc := a.taps.Dims()
	grid := make([]float64, a.r*a.c)
	for s := range kr {
		for t, v := range a.taps.RawRowView(s) {
			i, j := s-kr/2, t-kc/2
			if a.boundary == ZeroPadded && (max(i, -i) >= a.rows || max(j, -j) >= a.cols) {
				continue // no two positions of the input are this far apart
			}
			grid[wrap(i, a.r)*a.c+wrap(j, a.c)] += v
		}
	}
	return grid
}

func wrap(i, n int) int { return (i%n + n) % n }

// paddedLength is a length of a circular convolution at which the kernel does not wrap around from
// one end of the n places in use to the other.
func paddedLength(n, kernel int) int {
	reach := max(kernel/2, kernel-1-kernel/2)
	return fastLength(n + min(reach, n-1))
}

// transformKernel returns the Fourier transform of the kernel as an r x c image, column by column.
func (a *Convolution) transformKernel(grid []float64) []complex128 {
	width := a.c/2 + 1
	half := make([]complex128, a.r*width)
	along := newRealDFT(a.c)
	for i := range a.r {
		along.forward(half[i*width:(i+1)*width], grid[i*a.c:(i+1)*a.c])
	}
	down := newComplexDFT(a.r)
	kernel := make([]complex128, a.r*width)
	for j := range width {
		col := kernel[j*a.r : (j+1)*a.r]
		for i := range col {
			col[i] = half[i*width+j]
		}
		down.forward(col)
	}
	return kernel
}

// know builds the structure: a single tap is a multiple of the identity or of a shift, which is
// orthogonal where the boundary is circular; a circular convolution has a spectrum.
func (a *Convolution) know(grid []float64) linops.Structure {
	s := linops.Structure{ColumnNorms2: a.columnNorms2}
	if a.boundary == Circular {
		s.Commutes = true
		s.Circulant = linops.Spectrum{Shape: array.Shape{Rows: a.rows, Cols: a.cols}, Values: a.gains}
		if a.direct[doForward] == nil {
			s.Normal = a.normal
		}
	}
	var values []float64
	for _, v := range grid {
		if v != 0 {
			values = append(values, v)
		}
	}
	switch {
	case len(values) == 0:
		s.Rows = linops.Known(0)
	case len(values) == 1:
		s.Norm2 = linops.Known(values[0] * values[0])
		if a.boundary == Circular || grid[0] != 0 {
			s.Rows = s.Norm2
		}
	case a.boundary == Circular:
		s.Norm2 = linops.Known(0)
		for _, v := range a.kernel {
			s.Norm2.Value = max(s.Norm2.Value, squared(v))
		}
		s.SolveNormal = a.solveNormal
	}
	return s
}

func (a *Convolution) gains() []float64 {
	out := make([]float64, a.rows*a.cols)
	for i := range out {
		k, l := i/a.cols, i%a.cols
		if 2*l > a.cols {
			k, l = (a.rows-k)%a.rows, a.cols-l
		}
		out[i] = squared(a.kernel[l*a.rows+k])
	}
	return out
}

func squared(v complex128) float64 { return real(v)*real(v) + imag(v)*imag(v) }

// columnNorms2 is, for each position of the input, the sum of the squares of the kernel's entries
// that reach a position of the output.
func (a *Convolution) columnNorms2() []float64 {
	norms := make([]float64, a.rows*a.cols)
	if len(norms) == 0 {
		return norms
	}
	kr, kc := a.taps.Dims()
	if a.boundary == Circular {
		// Parseval: the mean of |K|^2 over the whole spectrum. The columns between the first and
		// the middle one occur twice in it.
		sum := 0.0
		for j := range a.c/2 + 1 {
			weight := 2.0
			if j == 0 || 2*j == a.c {
				weight = 1
			}
			for _, v := range a.kernel[j*a.r : (j+1)*a.r] {
				sum += weight * squared(v)
			}
		}
		for i := range norms {
			norms[i] = sum / float64(len(norms))
		}
		return norms
	}
	squares := make([]float64, kc)
	for i := range a.rows {
		clear(squares)
		for s := max(0, kr/2-i); s < min(kr, kr/2+a.rows-i); s++ {
			for t, v := range a.taps.RawRowView(s) {
				squares[t] += v * v
			}
		}
		for j := range a.cols {
			for _, v := range squares[max(0, kc/2-j):min(kc, kc/2+a.cols-j)] {
				norms[i*a.cols+j] += v
			}
		}
	}
	return norms
}

// rowPlan and columnPlan are the transforms and the memory of one goroutine.
type rowPlan struct {
	dft    *realDFT
	padded []float64
}

type columnPlan struct {
	dft     *complexDFT
	columns [stripe][]complex128
}

func newColumnPlan(n int) *columnPlan {
	p := &columnPlan{dft: newComplexDFT(n)}
	for j := range p.columns {
		p.columns[j] = make([]complex128, n)
	}
	return p
}

// vector transforms the rows; then the columns, multiplies them by the kernel and transforms them
// back; then the rows back. Rows of padding are zero and are not stored.
func (a *Convolution) vector(dst, src []float64, do action, shared bool) {
	if do.kind <= doAdjoint && a.direct[do.kind] != nil {
		a.direct[do.kind].vector(dst, src, shared)
		return
	}
	memory := a.spectra.Get().(*[]complex128)
	defer a.spectra.Put(memory)
	spectrum, width := *memory, a.c/2+1
	eachRow := func(f func(p *rowPlan, row int, spectrum []complex128)) {
		pooled(&a.forRows, shared, a.rows, parallel.Rows(a.c), func(p *rowPlan, lo, hi int) {
			for r := lo; r < hi; r++ {
				f(p, r*a.cols, spectrum[r*width:(r+1)*width])
			}
		})
	}
	eachRow(func(p *rowPlan, at int, spectrum []complex128) {
		clear(p.padded[copy(p.padded, src[at:at+a.cols]):])
		p.dft.forward(spectrum, p.padded)
	})
	pooled(&a.forCols, shared, width, stripe, func(p *columnPlan, lo, hi int) { a.columns(p, spectrum, do, lo, hi) })
	eachRow(func(p *rowPlan, at int, spectrum []complex128) {
		p.dft.inverse(p.padded, spectrum)
		copy(dst[at:at+a.cols], p.padded)
	})
}

// columns transforms columns lo to hi-1 of the spectrum, multiplies them by the kernel and transforms them back.
func (a *Convolution) columns(p *columnPlan, spectrum []complex128, do action, lo, hi int) {
	width := a.c/2 + 1
	for i := range a.rows {
		for j, v := range spectrum[i*width+lo : i*width+hi] {
			p.columns[j][i] = v
		}
	}
	scale := 1 / float64(a.r*a.c)
	for j := range hi - lo {
		x := p.columns[j]
		clear(x[a.rows:])
		p.dft.forward(x)
		k := a.kernel[(lo+j)*a.r:][:len(x)]
		switch do.kind {
		case doForward:
			for i, v := range x {
				u, t := real(k[i])*scale, imag(k[i])*scale
				x[i] = complex(real(v)*u-imag(v)*t, real(v)*t+imag(v)*u)
			}
		case doAdjoint:
			for i, v := range x {
				u, t := real(k[i])*scale, -imag(k[i])*scale
				x[i] = complex(real(v)*u-imag(v)*t, real(v)*t+imag(v)*u)
			}
		case doSquare:
			for i, v := range x {
				f := scale * squared(k[i])
				x[i] = complex(real(v)*f, imag(v)*f)
			}
		case doNormal:
			for i, v := range x {
				f := scale / (1 + do.eta*squared(k[i]))
				x[i] = complex(real(v)*f, imag(v)*f)
			}
		}
		p.dft.inverse(x)
	}
	for i := range a.rows {
		row := spectrum[i*width+lo : i*width+hi]
		for j := range row {
			row[j] = p.columns[j][i]
		}
	}
}
