package array

// elementGrain is how many values one goroutine takes at a time in an elementwise operation: 128
// KiB, enough to hide the cost of sharing. The bits of a result do not depend on it.
const elementGrain = 1 << 14

// elementwise runs a kernel over all values. Chunks are ranges of the flattened k x n matrix, which
// are cut at the ends of vectors. Operands that are all one block of memory are one long
// vector.
func (h *Host) elementwise(kernel segmentKernel, dst, x, y, z Batch, a, b float64) {
	t := h.newTask(segments, dst.k*dst.n, elementGrain)
	t.each, t.dst, t.x, t.y, t.z, t.a, t.b = kernel, dst, x, y, z, a, b
	if dst.k > 1 && t.dst.flat(dst.k) && t.x.flat(dst.k) && t.y.flat(dst.k) && t.z.flat(dst.k) {
		for _, v := range [...]*Batch{&t.dst, &t.x, &t.y, &t.z} {
			v.n, v.k, v.stride = v.n*v.k, 1, v.n*v.k
		}
	}
	t.run()
}

func (h *Host) Copy(dst, src Batch) {
	h.same("copy", dst, src)
	h.elementwise(copyKernel, dst, src, Batch{}, Batch{}, 0, 0)
}

func copyKernel(_ *task, _ int, d, x, _, _ []float64) { copy(d, x) }

func (h *Host) Fill(dst Batch, a float64) {
	h.own(dst)
	h.elementwise(fillKernel, dst, Batch{}, Batch{}, Batch{}, a, 0)
}

func fillKernel(t *task, _ int, d, _, _, _ []float64) {
	if t.a == 0 {
		clear(d)
		return
	}
	for j := range d {
		d[j] = t.a
	}
}

func (h *Host) Lin(dst Batch, a float64, x Batch, c float64, y Batch) {
	h.same("Lin", dst, x, Given(y, x))
	h.elementwise(linKernel(y), dst, x, y, Batch{}, a, c)
}

func (h *Host) LinEach(dst Batch, a []float64, x Batch, c []float64, y Batch) {
	CheckLinEach(dst, a, c, y)
	h.same("LinEach", dst, x, Given(y, x))
	t := h.newTask(segments, dst.k*dst.n, elementGrain)
	t.each, t.dst, t.x, t.y, t.as, t.bs = linKernel(y), dst, x, y, a, c
	t.run()
}

func linKernel(y Batch) segmentKernel {
	if y.IsZero() {
		return scaleKernel
	}
	return sumKernel
}

func scaleKernel(t *task, i int, d, x, _, _ []float64) {
	a := t.a
	if t.as != nil {
		a = t.as[i]
	}
	x = x[:len(d)]
	for j := range d {
		d[j] = a * x[j]
	}
}

func sumKernel(t *task, i int, d, x, y, _ []float64) {
	a, c := t.a, t.b
	if t.as != nil {
		a, c = t.as[i], t.bs[i]
	}
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

func (h *Host) Mul(dst, x, y Batch) {
	h.same("Mul", dst, x, y)
	h.elementwise(mulKernel, dst, x, y, Batch{}, 0, 0)
}

func mulKernel(_ *task, _ int, d, x, y, _ []float64) {
	x, y = x[:len(d)], y[:len(d)]
	for j := range d {
		d[j] = x[j] * y[j]
	}
}
