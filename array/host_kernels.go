package array

import "math"

// weights is w on coordinates [p, q) of vector i, or nil where none are given.
func weights(t *task, w *Batch, i, p, q int) []float64 {
	if w.IsZero() {
		return nil
	}
	return w.row(i)[p:q]
}

func (h *Host) weighted(op string, kernel func(*task, int, int), dst, v, w Batch, t float64) {
	h.same(op, dst, v)
	if !w.IsZero() {
		h.same(op, dst, w)
	}
	h.elementwise(kernel, dst, v, w, Batch{}, t, 0)
}

// Soft sets dst = sign(v) max(|v| - t w, 0).
func (h *Host) Soft(dst, v, w Batch, t float64) {
	h.weighted("Soft", softKernel, dst, v, w, t)
}

// softKernel subtracts from v its projection onto [-c, c]: no branch depends on the data, and NaN
// stays NaN.
func softKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, v, w := t.dst.row(i)[p:q], t.x.row(i)[p:q], weights(t, &t.y, i, p, q)
		v = v[:len(d)]
		if w == nil {
			c := t.a
			for j := range d {
				d[j] = v[j] - min(max(v[j], -c), c)
			}
		} else {
			w = w[:len(d)]
			for j := range d {
				c := t.a * w[j]
				d[j] = v[j] - min(max(v[j], -c), c)
			}
		}
		lo += q - p
	}
}

// SoftMask sets dst to 1 where |v| > t w or t w = 0, and to 0 elsewhere.
func (h *Host) SoftMask(dst, v, w Batch, t float64) {
	h.weighted("SoftMask", softMaskKernel, dst, v, w, t)
}

func softMaskKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, v, w := t.dst.row(i)[p:q], t.x.row(i)[p:q], weights(t, &t.y, i, p, q)
		v = v[:len(d)]
		if w == nil {
			c := t.a
			for j := range d {
				d[j] = indicator(bit(math.Abs(v[j]) > c) | bit(c == 0))
			}
		} else {
			w = w[:len(d)]
			for j := range d {
				c := t.a * w[j]
				d[j] = indicator(bit(math.Abs(v[j]) > c) | bit(c == 0))
			}
		}
		lo += q - p
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

// indicator is a bit as a number, 0 or 1.
func indicator(bit uint64) float64 {
	return math.Float64frombits(-bit & math.Float64bits(1))
}

// Clamp sets dst = min(max(v, lo), hi).
func (h *Host) Clamp(dst, v, lo, hi Batch) {
	h.same("Clamp", dst, v, lo, hi)
	h.elementwise(clampKernel, dst, v, lo, hi, 0, 0)
}

func clampKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, v, l, u := t.dst.row(i)[p:q], t.x.row(i)[p:q], t.y.row(i)[p:q], t.z.row(i)[p:q]
		v, l, u = v[:len(d)], l[:len(d)], u[:len(d)]
		for j := range d {
			d[j] = min(max(v[j], l[j]), u[j])
		}
		lo += q - p
	}
}

// ClampMask sets dst to 1 where lo < v < hi and to 0 elsewhere.
func (h *Host) ClampMask(dst, v, lo, hi Batch) {
	h.same("ClampMask", dst, v, lo, hi)
	h.elementwise(clampMaskKernel, dst, v, lo, hi, 0, 0)
}

func clampMaskKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, v, l, u := t.dst.row(i)[p:q], t.x.row(i)[p:q], t.y.row(i)[p:q], t.z.row(i)[p:q]
		v, l, u = v[:len(d)], l[:len(d)], u[:len(d)]
		for j := range d {
			d[j] = indicator(bit(l[j] < v[j]) & bit(v[j] < u[j]))
		}
		lo += q - p
	}
}

// Shrink sets dst = max(1 - t w / sqrt(q), 0).
func (h *Host) Shrink(dst, q, w Batch, t float64) {
	h.weighted("Shrink", shrinkKernel, dst, q, w, t)
}

func shrinkKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, v, w := t.dst.row(i)[p:q], t.x.row(i)[p:q], weights(t, &t.y, i, p, q)
		v = v[:len(d)]
		c := t.a
		for j := range d {
			if w != nil {
				c = t.a * w[j]
			}
			if c == 0 {
				d[j] = 1
			} else {
				d[j] = max(1-c/math.Sqrt(v[j]), 0)
			}
		}
		lo += q - p
	}
}

// ShrinkSlope sets dst = t w / q^(3/2) where sqrt(q) > t w and 0 elsewhere.
func (h *Host) ShrinkSlope(dst, q, w Batch, t float64) {
	h.weighted("ShrinkSlope", shrinkSlopeKernel, dst, q, w, t)
}

func shrinkSlopeKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, v, w := t.dst.row(i)[p:q], t.x.row(i)[p:q], weights(t, &t.y, i, p, q)
		v = v[:len(d)]
		c := t.a
		for j := range d {
			if w != nil {
				c = t.a * w[j]
			}
			// In this order nothing underflows: c/norm is between 0 and 1.
			if norm := math.Sqrt(v[j]); norm > c && c > 0 {
				d[j] = c / norm / v[j]
			} else {
				d[j] = 0
			}
		}
		lo += q - p
	}
}
