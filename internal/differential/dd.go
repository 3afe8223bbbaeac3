package differential

import "math"

// dd is a double-double number hi + lo, |lo| <= ulp(hi)/2: about 32 digits. The reference is
// computed in it.
type dd struct{ hi, lo float64 }

func num(x float64) dd { return dd{hi: x} }

// twoSum is a + b and its rounding error (Knuth).
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// renormal is s + e for |e| <= |s|.
func renormal(s, e float64) dd {
	h := s + e
	return dd{h, e - (h - s)}
}

func (a dd) add(b dd) dd {
	s, e := twoSum(a.hi, b.hi)
	t, f := twoSum(a.lo, b.lo)
	r := renormal(s, e+t)
	return renormal(r.hi, r.lo+f)
}

func (a dd) neg() dd     { return dd{-a.hi, -a.lo} }
func (a dd) sub(b dd) dd { return a.add(b.neg()) }

func (a dd) mul(b dd) dd {
	p := a.hi * b.hi
	e := math.FMA(a.hi, b.hi, -p)
	return renormal(p, e+(a.hi*b.lo+a.lo*b.hi))
}

func (a dd) div(b dd) dd {
	q1 := a.hi / b.hi
	r := a.sub(b.mul(num(q1)))
	q2 := r.hi / b.hi
	r = r.sub(b.mul(num(q2)))
	return renormal(q1, q2).add(num(r.hi / b.hi))
}

func (a dd) sqrt() dd {
	if !(a.hi > 0) {
		return dd{}
	}
	x := 1 / math.Sqrt(a.hi)
	ax := num(a.hi * x)
	return ax.add(num(a.sub(ax.mul(ax)).hi * x * 0.5))
}

// pow2 is a times a power of two, exactly.
func (a dd) pow2(f float64) dd { return dd{a.hi * f, a.lo * f} }

func (a dd) abs() dd {
	if a.hi < 0 || a.hi == 0 && a.lo < 0 {
		return a.neg()
	}
	return a
}

func (a dd) less(b dd) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }
func (a dd) isZero() bool   { return a.hi == 0 && a.lo == 0 }
func (a dd) isInf() bool    { return math.IsInf(a.hi, 0) }

// sign is -1, 0 or 1.
func (a dd) sign() dd {
	switch {
	case a.hi > 0 || a.hi == 0 && a.lo > 0:
		return num(1)
	case a.isZero():
		return dd{}
	}
	return num(-1)
}

func maxDD(a, b dd) dd {
	if a.less(b) {
		return b
	}
	return a
}

func minDD(a, b dd) dd {
	if b.less(a) {
		return b
	}
	return a
}

// clamp is min(max(a, lo), hi).
func clamp(a, lo, hi dd) dd {
	if a.less(lo) {
		return lo
	}
	if hi.less(a) {
		return hi
	}
	return a
}

// soft is sign(a) max(|a| - t, 0).
func soft(a, t dd) dd {
	r := a.abs().sub(t)
	if !(r.hi > 0) {
		return dd{}
	}
	return r.mul(a.sign())
}

func dot(a, b []dd) dd {
	var s dd
	for i := range a {
		s = s.add(a[i].mul(b[i]))
	}
	return s
}

func norm2(a []dd) dd { return dot(a, a) }

// length is ||a||_2 as a float64.
func length(a []dd) float64 { return norm2(a).sqrt().hi }

func floats64(a []dd) []float64 {
	out := make([]float64, len(a))
	for i, v := range a {
		out[i] = v.hi
	}
	return out
}

func numbers(a []float64) []dd {
	out := make([]dd, len(a))
	for i, v := range a {
		out[i] = num(v)
	}
	return out
}
