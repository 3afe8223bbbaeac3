package array

import (
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"
)

// DFT is the discrete Fourier transform of complex arrays of one shape on a device. Complex numbers
// are pairs of real ones, real part and imaginary part side by side.
type DFT interface {
	// Shape is the shape of the arrays.
	Shape() Shape
	// Bytes is the device memory it holds.
	Bytes() int64
	// Free gives the memory back.
	Free()
}

// hostDFT is a transform that goes along the rows and then along the columns.
type hostDFT struct {
	held
	shape Shape
	plans [2]sync.Pool // of *dftPlan, along rows and along columns
}

// dftPlan is a transform of one length with the memory of one goroutine.
type dftPlan struct {
	fft  *fourier.CmplxFFT
	line []complex128
}

func (f *hostDFT) Shape() Shape { return f.shape }

func (h *Host) NewDFT(s Shape) DFT {
	CheckDFT(s)
	f := &hostDFT{shape: s}
	for i, n := range [...]int{s.Cols, s.Rows} {
		f.plans[i].New = func() any { return &dftPlan{fourier.NewCmplxFFT(n), make([]complex128, n)} }
	}
	f.held = h.hold(16 * int64(s.Rows+s.Cols))
	return f
}

func (h *Host) MulDFT(adjoint bool, alpha float64, dst Batch, f DFT, x Batch) {
	h.own(dst)
	h.own(x)
	on := onHost[*hostDFT]("MulDFT", f)
	CheckMulDFT(dst, f, x)
	run := func(kernel func(*task, int, int), x Batch, alpha float64, lines, length int) {
		t := h.newTask(kernel, dst.k*lines, max(1, elementGrain/length))
		t.dst, t.x, t.a, t.on, t.ta = dst, x, alpha, on, adjoint
		t.run()
	}
	run(dftRowKernel, x, 1, on.shape.Rows, on.shape.Cols)
	run(dftColumnKernel, dst, alpha, on.shape.Cols, on.shape.Rows)
}

func dftRowKernel(t *task, lo, hi int) {
	f := t.on.(*hostDFT)
	t.transform(&f.plans[0], lo, hi, f.shape.Rows, f.shape.Cols, 1)
}

func dftColumnKernel(t *task, lo, hi int) {
	f := t.on.(*hostDFT)
	t.transform(&f.plans[1], lo, hi, f.shape.Cols, 1, f.shape.Cols)
}

// transform sets lines lo to hi-1 of dst, of which each vector has so many, to the transforms of those
// of x, times a. Lines begin apart entries from each other, and consist of every step-th entry.
func (t *task) transform(plans *sync.Pool, lo, hi, lines, apart, step int) {
	p := plans.Get().(*dftPlan)
	for i := lo; i < hi; i++ {
		d, x := t.dst.row(i/lines), t.x.row(i/lines)
		start := i % lines * apart
		for j := range p.line {
			at := 2 * (start + j*step)
			p.line[j] = complex(x[at], x[at+1])
		}
		switch {
		case len(p.line) == 1:
		case t.ta:
			p.fft.Sequence(p.line, p.line)
		default:
			p.fft.Coefficients(p.line, p.line)
		}
		for j, v := range p.line {
			at := 2 * (start + j*step)
			d[at], d[at+1] = t.a*real(v), t.a*imag(v)
		}
	}
	plans.Put(p)
}
