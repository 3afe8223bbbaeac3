package imaging

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// largestPrime is the largest prime factor of a length for which the mixed-radix transform is used.
// A factor q costs that transform n q operations; for larger factors Bluestein's algorithm is
// faster.
const largestPrime = 100

func smooth(n int) bool {
	for q := 2; q <= largestPrime; q++ {
		for n%q == 0 {
			n /= q
		}
	}
	return n == 1
}

// fastLength is the least number that is n or more and has no prime factor above 5.
func fastLength(n int) int {
	for ; ; n++ {
		m := n
		for _, q := range [...]int{2, 3, 5} {
			for m%q == 0 {
				m /= q
			}
		}
		if m == 1 {
			return n
		}
	}
}

// complexDFT is the discrete Fourier transform of n complex values, in O(n log n) for any n. It
// holds scratch memory, for one goroutine at a time.
type complexDFT struct {
	plain *fourier.CmplxFFT // nil where chirp is used
	chirp *bluestein
}

func newComplexDFT(n int) *complexDFT {
	if smooth(n) {
		return &complexDFT{plain: fourier.NewCmplxFFT(n)}
	}
	return &complexDFT{chirp: newBluestein(n)}
}

func (f *complexDFT) forward(x []complex128) {
	switch {
	case len(x) == 1:
	case f.chirp != nil:
		f.chirp.transform(x)
	default:
		f.plain.Coefficients(x, x)
	}
}

func (f *complexDFT) inverse(x []complex128) {
	switch {
	case len(x) == 1:
	case f.chirp != nil:
		f.chirp.inverse(x)
	default:
		f.plain.Sequence(x, x)
	}
}

// realDFT is the discrete Fourier transform of n real values, of which it computes the coefficients
// 0 to n/2, in O(n log n) for any n. It holds scratch memory, for one goroutine at a time.
type realDFT struct {
	plain *fourier.FFT // nil where chirp is used
	chirp *bluestein
	full  []complex128 // of chirp
}

func newRealDFT(n int) *realDFT {
	if smooth(n) {
		return &realDFT{plain: fourier.NewFFT(n)}
	}
	return &realDFT{chirp: newBluestein(n), full: make([]complex128, n)}
}

func (f *realDFT) forward(dst []complex128, x []float64) {
	if f.chirp == nil {
		f.plain.Coefficients(dst, x)
		return
	}
	for j, v := range x {
		f.full[j] = complex(v, 0)
	}
	f.chirp.transform(f.full)
	copy(dst, f.full)
}

func (f *realDFT) inverse(dst []float64, x []complex128) {
	if f.chirp == nil {
		f.plain.Sequence(dst, x)
		return
	}
	n := len(dst)
	for k := n / 2; k > 0; k-- {
		f.full[n-k] = complex(real(x[k]), -imag(x[k]))
		f.full[k] = x[k]
	}
	f.full[0] = x[0]
	f.chirp.inverse(f.full)
	for j := range dst {
		dst[j] = real(f.full[j])
	}
}

// bluestein is the Fourier transform as a convolution with a chirp: with w_k = exp(-pi i k^2 / n),
// from 2 j k = j^2 + k^2 - (k - j)^2,
//
//	X_k = w_k sum_j (x_j w_j) conj(w_{k-j}).
//
// Bluestein, A linear filtering approach to the computation of the discrete Fourier transform, IEEE
// Trans. Audio Electroacoustics 18 (1970).
type bluestein struct {
	w      []complex128
	kernel []complex128 // the transform of conj(w), divided by its length
	fft    *fourier.CmplxFFT
	buf    []complex128
}

func newBluestein(n int) *bluestein {
	m := fastLength(2*n - 1)
	b := &bluestein{
		w:      make([]complex128, n),
		kernel: make([]complex128, m),
		fft:    fourier.NewCmplxFFT(m),
		buf:    make([]complex128, m),
	}
	for k := range b.w {
		// The angle has period 2 n in k^2. Reducing k^2 first keeps the angle's digits.
		s, c := math.Sincos(-math.Pi * float64(k*k%(2*n)) / float64(n))
		b.w[k] = complex(c, s)
		v := complex(c/float64(m), -s/float64(m))
		b.kernel[k] = v
		b.kernel[(m-k)%m] = v
	}
	b.fft.Coefficients(b.kernel, b.kernel)
	return b
}

func (b *bluestein) transform(x []complex128) {
	for j, w := range b.w {
		b.buf[j] = x[j] * w
	}
	clear(b.buf[len(b.w):])
	b.fft.Coefficients(b.buf, b.buf)
	for j, v := range b.kernel {
		b.buf[j] *= v
	}
	b.fft.Sequence(b.buf, b.buf)
	for k, w := range b.w {
		x[k] = b.buf[k] * w
	}
}

func (b *bluestein) inverse(x []complex128) {
	conjugate(x)
	b.transform(x)
	conjugate(x)
}

func conjugate(x []complex128) {
	for i, v := range x {
		x[i] = complex(real(v), -imag(v))
	}
}
