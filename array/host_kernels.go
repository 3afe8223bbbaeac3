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

func softKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, v, w := t.dst.row(i)[p:q], t.x.row(i)[p:q], weights(t, &t.y, i, p, q)
		c := t.a
		for j, x := range v {
			if w != nil {
				c = t.a * w[j]
			}
			switch {
			case x > c:
				d[j] = x - c
			case x < -c:
				d[j] = x + c
			case x != x:
				d[j] = x
			default:
				d[j] = 0
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
		c := t.a
		for j, x := range v {
			if w != nil {
				c = t.a * w[j]
			}
			if c == 0 || math.Abs(x) > c {
				d[j] = 1
			} else {
				d[j] = 0
			}
		}
		lo += q - p
	}
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
		for j, x := range v {
			d[j] = min(max(x, l[j]), u[j])
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
		for j, x := range v {
			if l[j] < x && x < u[j] {
				d[j] = 1
			} else {
				d[j] = 0
			}
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
		c := t.a
		for j, x := range v {
			if w != nil {
				c = t.a * w[j]
			}
			switch norm := math.Sqrt(x); {
			case c == 0:
				d[j] = 1
			case norm <= c:
				d[j] = 0
			default:
				d[j] = 1 - c/norm
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
		c := t.a
		for j, x := range v {
			if w != nil {
				c = t.a * w[j]
			}
			if norm := math.Sqrt(x); norm > c && c > 0 {
				d[j] = c / (x * norm)
			} else {
				d[j] = 0
			}
		}
		lo += q - p
	}
}
