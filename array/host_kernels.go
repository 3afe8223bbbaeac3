package array

import "math"

func (h *Host) weighted(op string, kernel segmentKernel, dst, v, w Batch, t float64) {
	h.same(op, dst, v, Given(w, v))
	h.elementwise(kernel, dst, v, w, Batch{}, t, 0)
}

func (h *Host) Soft(dst, v, w Batch, t float64) {
	h.weighted("Soft", softKernel, dst, v, w, t)
}

// softKernel subtracts from v its projection onto [-c, c]: no branch depends on the data, and NaN
// stays NaN.
func softKernel(t *task, _ int, d, v, w, _ []float64) {
	v, c := v[:len(d)], t.a
	if w == nil {
		for j := range d {
			d[j] = v[j] - min(max(v[j], -c), c)
		}
		return
	}
	w = w[:len(d)]
	for j := range d {
		c := t.a * w[j]
		d[j] = v[j] - min(max(v[j], -c), c)
	}
}

func (h *Host) SoftMask(dst, v, w Batch, t float64) {
	h.weighted("SoftMask", softMaskKernel, dst, v, w, t)
}

func softMaskKernel(t *task, _ int, d, v, w, _ []float64) {
	v, c := v[:len(d)], t.a
	if w == nil {
		for j := range d {
			d[j] = indicator(bit(math.Abs(v[j]) > c) | bit(c == 0))
		}
		return
	}
	w = w[:len(d)]
	for j := range d {
		c := t.a * w[j]
		d[j] = indicator(bit(math.Abs(v[j]) > c) | bit(c == 0))
	}
}

// bit is 1 for true. The compiler makes it a flag rather than a branch: a processor cannot predict
// on which side of a threshold a value lies.
func bit(b bool) uint64 {
	var u uint8
	if b {
		u = 1
	}
	return uint64(u)
}

func indicator(bit uint64) float64 {
	return math.Float64frombits(-bit & math.Float64bits(1))
}

func (h *Host) Clamp(dst, v, lo, hi Batch) {
	h.same("Clamp", dst, v, lo, hi)
	h.elementwise(clampKernel, dst, v, lo, hi, 0, 0)
}

func clampKernel(_ *task, _ int, d, v, lo, hi []float64) {
	v, lo, hi = v[:len(d)], lo[:len(d)], hi[:len(d)]
	for j := range d {
		d[j] = min(max(v[j], lo[j]), hi[j])
	}
}

func (h *Host) ClampMask(dst, v, lo, hi Batch) {
	h.same("ClampMask", dst, v, lo, hi)
	h.elementwise(clampMaskKernel, dst, v, lo, hi, 0, 0)
}

func clampMaskKernel(_ *task, _ int, d, v, lo, hi []float64) {
	v, lo, hi = v[:len(d)], lo[:len(d)], hi[:len(d)]
	for j := range d {
		d[j] = indicator(bit(lo[j] < v[j]) & bit(v[j] < hi[j]))
	}
}

func (h *Host) Shrink(dst, q, w Batch, t float64) {
	h.weighted("Shrink", shrinkKernel, dst, q, w, t)
}

func shrinkKernel(t *task, _ int, d, q, w, _ []float64) {
	c := t.a
	for j := range d {
		if w != nil {
			c = t.a * w[j]
		}
		if c == 0 {
			d[j] = 1
		} else {
			d[j] = max(1-c/math.Sqrt(q[j]), 0)
		}
	}
}

func (h *Host) ShrinkSlope(dst, q, w Batch, t float64) {
	h.weighted("ShrinkSlope", shrinkSlopeKernel, dst, q, w, t)
}

func shrinkSlopeKernel(t *task, _ int, d, q, w, _ []float64) {
	c := t.a
	for j := range d {
		if w != nil {
			c = t.a * w[j]
		}
		// In this order nothing underflows: c/norm is between 0 and 1.
		if norm := math.Sqrt(q[j]); norm > c && c > 0 {
			d[j] = c / norm / q[j]
		} else {
			d[j] = 0
		}
	}
}
