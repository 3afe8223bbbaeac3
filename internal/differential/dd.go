package differential

import "surepipe/internal/numerics/doubledouble"

// dd is a number of about 32 digits. The reference is computed in it.
type dd = doubledouble.Number

func num(x float64) dd { return doubledouble.Of(x) }

func maxDD(a, b dd) dd {
	if a.Less(b) {
		return b
	}
	return a
}

func minDD(a, b dd) dd {
	if b.Less(a) {
		return b
	}
	return a
}

// clamp is min(max(a, lo), hi).
func clamp(a, lo, hi dd) dd {
	if a.Less(lo) {
		return lo
	}
	if hi.Less(a) {
		return hi
	}
	return a
}

// soft is sign(a) max(|a| - t, 0).
func soft(a, t dd) dd {
	r := a.Abs().Sub(t)
	if !(r.Hi > 0) {
		return dd{}
	}
	return r.Mul(a.Sign())
}

func dot(a, b []dd) dd {
	var s dd
	for i := range a {
		s = s.Add(a[i].Mul(b[i]))
	}
	return s
}

func norm2(a []dd) dd { return dot(a, a) }

// length is ||a||_2 as a float64.
func length(a []dd) float64 { return norm2(a).Sqrt().Hi }

func floats64(a []dd) []float64 {
	out := make([]float64, len(a))
	for i, v := range a {
		out[i] = v.Hi
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
