// Package doubledouble computes with sums of two float64, which hold about 32 digits, after Dekker (1971) and Knuth.
// It is for what doubles lose: long recurrences with cancellation, and references.
package doubledouble

import "math"

// Number is Hi + Lo, with |Lo| of at most half of the last place of Hi.
type Number struct{ Hi, Lo float64 }

// Of is x.
func Of(x float64) Number { return Number{Hi: x} }

// twoSum is a + b and its rounding error (Knuth).
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// renormal is s + e for |e| <= |s|.
func renormal(s, e float64) Number {
	h := s + e
	return Number{h, e - (h - s)}
}

// Add is a + b.
func (a Number) Add(b Number) Number {
	s, e := twoSum(a.Hi, b.Hi)
	t, f := twoSum(a.Lo, b.Lo)
	r := renormal(s, e+t)
	return renormal(r.Hi, r.Lo+f)
}

// Neg is -a.
func (a Number) Neg() Number { return Number{-a.Hi, -a.Lo} }

// Sub is a - b.
func (a Number) Sub(b Number) Number { return a.Add(b.Neg()) }

// Mul is a b.
func (a Number) Mul(b Number) Number {
	p := a.Hi * b.Hi
	e := math.FMA(a.Hi, b.Hi, -p)
	return renormal(p, e+(a.Hi*b.Lo+a.Lo*b.Hi))
}

// Div is a / b.
func (a Number) Div(b Number) Number {
	q1 := a.Hi / b.Hi
	r := a.Sub(b.Mul(Of(q1)))
	q2 := r.Hi / b.Hi
	r = r.Sub(b.Mul(Of(q2)))
	return renormal(q1, q2).Add(Of(r.Hi / b.Hi))
}

// Sqrt is the square root of a, 0 of a number that is not positive.
func (a Number) Sqrt() Number {
	if !(a.Hi > 0) {
		return Number{}
	}
	x := 1 / math.Sqrt(a.Hi)
	ax := Of(a.Hi * x)
	return ax.Add(Of(a.Sub(ax.Mul(ax)).Hi * x * 0.5))
}

// Pow2 is a times a power of two, exactly.
func (a Number) Pow2(f float64) Number { return Number{a.Hi * f, a.Lo * f} }

// Abs is |a|.
func (a Number) Abs() Number {
	if a.Hi < 0 || a.Hi == 0 && a.Lo < 0 {
		return a.Neg()
	}
	return a
}

// Less reports a < b.
func (a Number) Less(b Number) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }

// IsZero reports a = 0.
func (a Number) IsZero() bool { return a.Hi == 0 && a.Lo == 0 }

// IsInf reports that a has overflowed.
func (a Number) IsInf() bool { return math.IsInf(a.Hi, 0) }

// Sign is -1, 0 or 1.
func (a Number) Sign() Number {
	switch {
	case a.Hi > 0 || a.Hi == 0 && a.Lo > 0:
		return Of(1)
	case a.IsZero():
		return Number{}
	}
	return Of(-1)
}
