package array

import "fmt"

// elementGrain is how many values one goroutine takes at a time in an elementwise operation: 128
// KiB, enough to hide the cost of sharing. The bits of a result do not depend on it.
const elementGrain = 1 << 14

// elementwise runs a kernel over all values. Chunks are ranges of the flattened k x n matrix;
// segment cuts them at the ends of vectors. Operands that are all one block of memory are one long
// vector.
func (h *Host) elementwise(kernel func(*task, int, int), dst, x, y, z Batch, a, b float64) {
	t := h.newTask(kernel, dst.k*dst.n, elementGrain)
	t.dst, t.x, t.y, t.z, t.a, t.b = dst, x, y, z, a, b
	if dst.k > 1 && t.dst.flat(dst.k) && t.x.flat(dst.k) && t.y.flat(dst.k) && t.z.flat(dst.k) {
		for _, v := range [...]*Batch{&t.dst, &t.x, &t.y, &t.z} {
			v.n, v.k, v.stride = v.n*v.k, 1, v.n*v.k
		}
	}
	t.run()
}

// segment is the part of the flattened range [lo, hi) that lies in the vector of lo: vector i,
// coordinates [p, q).
func (t *task) segment(lo, hi int) (i, p, q int) {
	if t.dst.k == 1 {
		return 0, lo, hi
	}
	i = lo / t.dst.n
	p = lo - i*t.dst.n
	return i, p, min(t.dst.n, p+hi-lo)
}

// Copy sets dst = src.
func (h *Host) Copy(dst, src Batch) {
	h.same("copy", dst, src)
	h.elementwise(copyKernel, dst, src, Batch{}, Batch{}, 0, 0)
}

func copyKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		copy(t.dst.row(i)[p:q], t.x.row(i)[p:q])
		lo += q - p
	}
}

// Fill sets every value of dst to a.
func (h *Host) Fill(dst Batch, a float64) {
	h.own(dst)
	h.elementwise(fillKernel, dst, Batch{}, Batch{}, Batch{}, a, 0)
}

func fillKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d := t.dst.row(i)[p:q]
		if t.a == 0 {
			clear(d)
		} else {
			for j := range d {
				d[j] = t.a
			}
		}
		lo += q - p
	}
}

// Lin sets dst = a x + c y.
func (h *Host) Lin(dst Batch, a float64, x Batch, c float64, y Batch) {
	if y.IsZero() {
		h.same("Lin", dst, x)
		h.elementwise(scaleKernel, dst, x, Batch{}, Batch{}, a, 0)
		return
	}
	h.same("Lin", dst, x, y)
	h.elementwise(linKernel, dst, x, y, Batch{}, a, c)
}

func scaleKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		a := t.a
		if t.as != nil {
			a = t.as[i]
		}
		d, x := t.dst.row(i)[p:q], t.x.row(i)[p:q]
		x = x[:len(d)]
		for j := range d {
			d[j] = a * x[j]
		}
		lo += q - p
	}
}

func linKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		a, c := t.a, t.b
		if t.as != nil {
			a, c = t.as[i], t.bs[i]
		}
		lin(t.dst.row(i)[p:q], a, t.x.row(i)[p:q], c, t.y.row(i)[p:q])
		lo += q - p
	}
}

func lin(d []float64, a float64, x []float64, c float64, y []float64) {
	x, y = x[:len(d)], y[:len(d)]
	switch {
	case a == 1 && c == 1:
		for j := range d {
			d[j] = x[j] + y[j]
		}
	case a == 1 && c == -1:
		for j := range d {
			d[j] = x[j] - y[j]
		}
	default:
		for j := range d {
			d[j] = a*x[j] + c*y[j]
		}
	}
}

// LinEach sets dst_i = a_i x_i + c_i y_i.
func (h *Host) LinEach(dst Batch, a []float64, x Batch, c []float64, y Batch) {
	if len(a) != dst.k || (!y.IsZero() && len(c) != dst.k) {
		panic(fmt.Sprintf("array: LinEach with %d and %d coefficients into %s", len(a), len(c), dst))
	}
	kernel := linKernel
	if y.IsZero() {
		kernel = scaleKernel
		h.same("LinEach", dst, x)
	} else {
		h.same("LinEach", dst, x, y)
	}
	t := h.newTask(kernel, dst.k*dst.n, elementGrain)
	t.dst, t.x, t.y, t.as, t.bs = dst, x, y, a, c
	t.run()
}

// Mul sets dst = x ∘ y.
func (h *Host) Mul(dst, x, y Batch) {
	h.same("Mul", dst, x, y)
	h.elementwise(mulKernel, dst, x, y, Batch{}, 0, 0)
}

func mulKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, x, y := t.dst.row(i)[p:q], t.x.row(i)[p:q], t.y.row(i)[p:q]
		x, y = x[:len(d)], y[:len(d)]
		for j := range d {
			d[j] = x[j] * y[j]
		}
		lo += q - p
	}
}
