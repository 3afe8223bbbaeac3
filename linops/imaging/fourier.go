package imaging

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops"
)

// Fourier takes samples of the two-dimensional discrete Fourier transform of images, as a scanner for
// magnetic resonance imaging does. With n = rows cols pixels and the frequencies (k, l) of a mask,
//
//	Forward: dst_(k,l) = n^{-1/2} sum_{r,c} b_{r,c} exp(-2 pi i (k r / rows + l c / cols))
//	Adjoint: dst_{r,c} = n^{-1/2} sum_{(k,l)} z_(k,l) exp(2 pi i (k r / rows + l c / cols)),
//
// for real images the real part of that. Complex numbers are pairs of real ones, real part and
// imaginary part side by side: m samples are a vector of length 2 m, a complex image is one of length
// 2 n. All inner products are those of the real vectors.
//
// For complex images A A* = I. For real ones A*A is the circular convolution whose transfer function
// is q_k = (M_k + M_{-k})/2, where M is 1 at the frequencies of the mask and 0 elsewhere, so that
// ||A||^2 = max q is 1 or 1/2. Either way (eta A*A + I)^{-1} takes two transforms.
//
// It takes O(n log n) on the host, on all of its processors. After [Fourier.Load] it computes on
// another device too; else the vectors of that device are copied to the host and back.
type Fourier struct {
	mapped
	rows, cols int
	layout     FourierLayout
	places     int
	// Sample index[i] of row k, first[k] <= i < first[k+1], has the column col[i].
	first, col, index []int
	gains             []float64 // q
	plans             sync.Pool // of *fourierPlan
	spectra           sync.Pool // of *[]complex128
}

// FourierLayout says what the vectors of a [Fourier] are.
type FourierLayout struct {
	// Complex images have 2 rows cols values. Real ones, of rows cols values, are images whose
	// imaginary part is known to be 0.
	Complex bool
	// Centered puts pixel (rows/2, cols/2), rounded down, at the origin, and frequency 0 there too. Else
	// both are at (0, 0).
	Centered bool
}

// NewFourier returns the operator of the samples at the given places of the row-major rows x cols
// array of all frequencies, in their order.
func NewFourier(rows, cols int, places []int, layout FourierLayout) (*Fourier, error) {
	if rows < 1 || cols < 1 || rows > mostPixels || cols > mostPixels {
		return nil, fmt.Errorf("linops: Fourier transform of an image of %d x %d pixels, expected sides of 1 to %d",
			rows, cols, mostPixels)
	}
	n := rows * cols
	a := &Fourier{rows: rows, cols: cols, layout: layout, places: len(places)}
	a.mapped = mapped{twin: imageTwin(rows, cols, a.vector), name: "Fourier", d: 2 * len(places), p: n}
	if layout.Complex {
		a.p = 2 * n
	}
	sampled, counts := make([]float64, n), make([]int, rows)
	at := make([]int, len(places))
	for i, place := range places {
		if place < 0 || place >= n {
			return nil, fmt.Errorf("linops: sample %d is at place %d, expected 0 to %d", i, place, n-1)
		}
		k, l := a.fromCentre(place/cols, rows), a.fromCentre(place%cols, cols)
		at[i] = k*cols + l
		if sampled[at[i]] != 0 {
			return nil, fmt.Errorf("linops: sample %d is at place %d, which occurs twice", i, place)
		}
		sampled[at[i]] = 1
		counts[k]++
	}
	a.first = make([]int, rows+1)
	for k, c := range counts {
		a.first[k+1] = a.first[k] + c
	}
	a.col, a.index = make([]int, len(places)), make([]int, len(places))
	next := append([]int(nil), a.first...)
	for i, place := range at {
		k := place / cols
		a.col[next[k]], a.index[next[k]] = place%cols, i
		next[k]++
	}
	a.plans.New = func() any { return &fourierPlan{row: newComplexDFT(cols), columns: newColumnPlan(rows)} }
	a.spectra.New = func() any { s := make([]complex128, n); return &s }
	a.gains = sampled
	if !layout.Complex {
		a.gains = a.symmetric(sampled)
	}
	a.structure = linops.Complete(a, a.describe())
	return a, nil
}

// fromCentre is the place of the transform's own order that stands for place i of n, from the centre
// or from the start.
func (a *Fourier) fromCentre(i, n int) int {
	if a.layout.Centered {
		return (i + n - n/2) % n
	}
	return i
}

func (a *Fourier) symmetric(sampled []float64) []float64 {
	q := make([]float64, len(sampled))
	for i, v := range sampled {
		k, l := i/a.cols, i%a.cols
		q[i] = (v + sampled[(a.rows-k)%a.rows*a.cols+(a.cols-l)%a.cols]) / 2
	}
	return q
}

func (a *Fourier) describe() linops.Structure {
	n := a.rows * a.cols
	lo, hi := math.Inf(1), 0.0
	for _, q := range a.gains {
		lo, hi = min(lo, q), max(hi, q)
	}
	s := linops.Structure{
		Norm2:        linops.Known(hi),
		ColumnNorms2: func() []float64 { return slices.Repeat([]float64{float64(a.places) / float64(n)}, a.p) },
		SolveNormal:  a.solveNormal,
	}
	if lo == hi {
		s.Columns = linops.Known(hi)
	}
	if !a.layout.Complex {
		s.Circulant = linops.Spectrum{Shape: array.Shape{Rows: a.rows, Cols: a.cols},
			Values: func() []float64 { return slices.Clone(a.gains) }}
	}
	switch {
	case a.layout.Complex && a.places > 0:
		s.Rows = linops.Known(1)
	case hi == 0.5:
		// No frequency is sampled together with its opposite, nor is one that is its own.
		s.Rows = linops.Known(0.5)
	}
	return s
}

// fourierPlan is the transforms and the memory of one goroutine.
type fourierPlan struct {
	row     *complexDFT
	columns *columnPlan
}

// vector transforms the columns and then the rows that have samples, or the other way.
func (a *Fourier) vector(dst, src []float64, do action, shared bool) {
	memory := a.spectra.Get().(*[]complex128)
	defer a.spectra.Put(memory)
	spectrum := *memory
	parts := func(n, size int, f func(p *fourierPlan, lo, hi int)) { pooled(&a.plans, shared, n, size, f) }
	if do.kind != doAdjoint {
		parts(a.cols, stripe, func(p *fourierPlan, lo, hi int) { a.load(p.columns, spectrum, src, lo, hi) })
	}
	parts(a.rows, parallel.Rows(a.cols), func(p *fourierPlan, lo, hi int) {
		for k := lo; k < hi; k++ {
			a.row(p.row, spectrum[k*a.cols:][:a.cols], dst, src, do, k)
		}
	})
	if do.kind != doForward {
		parts(a.cols, stripe, func(p *fourierPlan, lo, hi int) { a.store(p.columns, spectrum, dst, lo, hi) })
	}
}

// load transforms columns lo to hi-1 of the image.
func (a *Fourier) load(p *columnPlan, spectrum []complex128, src []float64, lo, hi int) {
	for j := lo; j < hi; j++ {
		x := p.columns[j-lo]
		for r := range a.rows {
			at := r*a.cols + j
			if a.layout.Complex {
				x[a.fromCentre(r, a.rows)] = complex(src[2*at], src[2*at+1])
			} else {
				x[a.fromCentre(r, a.rows)] = complex(src[at], 0)
			}
		}
		p.dft.forward(x)
	}
	for k := range a.rows {
		for j := lo; j < hi; j++ {
			spectrum[k*a.cols+a.fromCentre(j, a.cols)] = p.columns[j-lo][k]
		}
	}
}

func (a *Fourier) store(p *columnPlan, spectrum []complex128, dst []float64, lo, hi int) {
	for k := range a.rows {
		for j := lo; j < hi; j++ {
			p.columns[j-lo][k] = spectrum[k*a.cols+a.fromCentre(j, a.cols)]
		}
	}
	for j := lo; j < hi; j++ {
		x := p.columns[j-lo]
		p.dft.inverse(x)
		for r := range a.rows {
			at, v := r*a.cols+j, x[a.fromCentre(r, a.rows)]
			if a.layout.Complex {
				dst[2*at], dst[2*at+1] = real(v), imag(v)
			} else {
				dst[at] = real(v)
			}
		}
	}
}

// row takes samples from row k of the spectrum, or puts them there, or multiplies the row by 1/(1 +
// eta q).
func (a *Fourier) row(p *complexDFT, row []complex128, dst, src []float64, do action, k int) {
	from, to := a.first[k], a.first[k+1]
	scale := 1 / math.Sqrt(float64(a.rows)*float64(a.cols))
	switch do.kind {
	case doForward:
		if from == to {
			return
		}
		p.forward(row)
		for i := from; i < to; i++ {
			v, at := row[a.col[i]], 2*a.index[i]
			dst[at], dst[at+1] = scale*real(v), scale*imag(v)
		}
	case doAdjoint:
		clear(row)
		if from == to {
			return
		}
		for i := from; i < to; i++ {
			at := 2 * a.index[i]
			row[a.col[i]] = complex(scale*src[at], scale*src[at+1])
		}
		p.inverse(row)
	default:
		p.forward(row)
		for l, v := range row {
			f := scale * scale / (1 + do.eta*a.gains[k*a.cols+l])
			row[l] = complex(real(v)*f, imag(v)*f)
		}
		p.inverse(row)
	}
}
