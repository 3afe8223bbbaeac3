package vector

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
)

// Scalars are slices of one number a vector.
type Scalars struct{ A, C []float64 }

// ScalarsPool takes Scalars back.
var ScalarsPool = sync.Pool{New: func() any { return new(Scalars) }}

func GetScalars(k int) *Scalars {
	s := ScalarsPool.Get().(*Scalars)
	if cap(s.A) < k {
		s.A, s.C = make([]float64, k), make([]float64, k)
	}
	s.A, s.C = s.A[:k], s.C[:k]
	return s
}

// Norms sets out_i = ||v_i||_2. A vector whose square overflows or underflows is scaled first.
func Norms(out []float64, v array.Batch) {
	const tiny, huge = 0x1p-900, 0x1p900
	dev := v.Device()
	dev.Dot(out, v, v)
	for i, q := range out {
		if q > tiny && q < huge {
			out[i] = math.Sqrt(q)
			continue
		}
		vi := v.Rows(i, i+1)
		dev.MaxAbs(out[i:i+1], vi)
		if top := out[i]; top > 0 && top <= math.MaxFloat64 {
			w := dev.Alloc(1, v.N())
			// A power of two scales without rounding; its reciprocal is finite.
			_, e := math.Frexp(top)
			e = min(max(e, -1021), 1021)
			dev.Lin(w, math.Ldexp(1, -e), vi, 0, array.Batch{})
			dev.Dot(out[i:i+1], w, w)
			w.Free()
			out[i] = math.Ldexp(math.Sqrt(out[i]), e)
		}
	}
}

// Ratio is min(1, w/g) for w, g >= 0: the largest t <= 1 with t g <= w.
func Ratio(w, g float64) float64 {
	if g <= w {
		return 1
	}
	return w / g
}

// Surplus is the term a - c of a sum, which is at least 0 up to rounding.
func Surplus(a, c float64) float64 {
	if math.IsInf(a, 1) {
		return 0 // b is held at 0 there
	}
	if rest := a - c; !(rest <= 0) {
		return rest
	}
	return 0
}

// Inner is <a, b>.
func Inner(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// Total is the l1 norm.
func Total(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(v)
	}
	return sum
}

// Euclid is the Euclidean norm, also where squares are out of range.
func Euclid(x []float64) float64 {
	if square := floats.Dot(x, x); square > 0x1p-900 && square < math.MaxFloat64 {
		return math.Sqrt(square)
	}
	return floats.Norm(x, 2)
}

// Supported lets f move the numbers of g, on the host, and returns its result.
func Supported(g array.Batch, f func(g []float64) float64) float64 {
	host := g.ToHost()
	s := f(host)
	g.Device().Upload(g, host)
	return s
}

// denseCurvature is the largest number of coordinates for which Matrix returns Q.
const denseCurvature = 4096

// SquareMatrix returns the n x n matrix of zeros, nil where it is too large.
func SquareMatrix(n int) []float64 {
	if n > denseCurvature {
		return nil
	}
	return make([]float64, n*n)
}

// Rest sets image = z - dst, which is t Q dst where E*E = I and dst = (I + t Q)^{-1} z.
func Rest(image, z, dst array.Batch) { image.Device().Lin(image, 1, z, -1, dst) }
