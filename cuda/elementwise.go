//go:build cuda

package cuda

import (
	"gorgonia.org/cu"

	"surepipe/array"
)

// grid is the shape of a launch.
type grid struct{ x, y, bx, by int }

const (
	// threads is THREADS in kernels/device.h.
	threads = 256
	// maxGrid bounds either side of a grid: the driver's limit for y. Kernels stride over the part
	// beyond it.
	maxGrid = 65535
)

// over is a grid for a k x n matrix: one thread an entry, up to the largest grid.
func over(k, n int64) grid {
	bx := 1
	for bx < threads && int64(bx) < n {
		bx *= 2
	}
	by := 1
	for bx*by < threads && int64(by) < k {
		by *= 2
	}
	blocks := func(n int64, size int) int { return int(min(max((n+int64(size)-1)/int64(size), 1), maxGrid)) }
	return grid{blocks(n, bx), blocks(k, by), bx, by}
}

// blocksFor is a grid of one block for each of n units of work, up to the largest grid.
func blocksFor(n int64) grid { return grid{int(min(max(n, 1), 1<<20)), 1, threads, 1} }

// operand is a batch as a kernel's parameters: its first value, and the distance between vectors, 0
// where one vector is broadcast.
type operand struct {
	at     cu.DevicePtr
	stride int64
}

func operandOf(b array.Batch) operand {
	o := operand{at: at(b)}
	if !b.IsZero() && b.K() > 1 {
		o.stride = int64(b.Stride())
	}
	return o
}

// entries runs a kernel with a thread for each entry of a k x n matrix, and does nothing where that is empty.
func (d *Device) entries(op string, dst array.Batch, k, n int, launch func(g grid, k, n int64) error) {
	if k == 0 || n == 0 {
		return
	}
	d.do(op, dst, func() error { return launch(over(int64(k), int64(n)), int64(k), int64(n)) })
}

// each runs an elementwise kernel on dst and its operands, which are one long vector where they are all one
// block of memory.
func (d *Device) each(op string, launch func(g grid, k, n int64) error, dst array.Batch, xs ...array.Batch) {
	k, n, flat := dst.K(), dst.N(), dst.Contiguous()
	for _, x := range xs {
		flat = flat && (x.IsZero() || x.K() == k && x.Contiguous())
	}
	if flat {
		k, n = min(k, 1), k*n
	}
	d.entries(op, dst, k, n, launch)
}

func (d *Device) Copy(dst, src array.Batch) {
	d = d.same("copy", dst, src)
	d.each("Copy", func(g grid, k, n int64) error {
		return d.launchCopy(g, operandOf(dst), operandOf(src), k, n)
	}, dst, src)
}

func (d *Device) Fill(dst array.Batch, a float64) {
	d = d.into(dst)
	d.each("Fill", func(g grid, k, n int64) error { return d.launchFill(g, operandOf(dst), a, k, n) }, dst)
}

func (d *Device) Lin(dst array.Batch, a float64, x array.Batch, c float64, y array.Batch) {
	d = d.same("Lin", dst, x, array.Given(y, x))
	d.each("Lin", func(g grid, k, n int64) error {
		if y.IsZero() {
			return d.launchScale(g, operandOf(dst), a, operandOf(x), k, n)
		}
		return d.launchLin(g, operandOf(dst), a, operandOf(x), c, operandOf(y), k, n)
	}, dst, x, y)
}

func (d *Device) LinEach(dst array.Batch, a []float64, x array.Batch, c []float64, y array.Batch) {
	array.CheckLinEach(dst, a, c, y)
	d = d.same("LinEach", dst, x, array.Given(y, x))
	if dst.K() == 0 || dst.N() == 0 {
		return
	}
	on := d.Alloc(2, dst.K())
	defer d.Free(on)
	first, second := on.Rows(0, 1), on.Rows(1, 2)
	d.Upload(first, a)
	if !y.IsZero() {
		d.Upload(second, c)
	}
	d.entries("LinEach", dst, dst.K(), dst.N(), func(g grid, k, n int64) error {
		if y.IsZero() {
			return d.launchScaleEach(g, operandOf(dst), at(first), operandOf(x), k, n)
		}
		return d.launchLinEach(g, operandOf(dst), at(first), operandOf(x), at(second), operandOf(y), k, n)
	})
}

func (d *Device) Mul(dst, x, y array.Batch) {
	d = d.same("Mul", dst, x, y)
	d.each("Mul", func(g grid, k, n int64) error {
		return d.launchMul(g, operandOf(dst), operandOf(x), operandOf(y), k, n)
	}, dst, x, y)
}

func (d *Device) weighted(op string, launch func(g grid, dst, v, w operand, t float64, k, n int64) error, dst, v,
	w array.Batch, t float64) {
	d = d.same(op, dst, v, array.Given(w, v))
	d.each(op, func(g grid, k, n int64) error {
		return launch(g, operandOf(dst), operandOf(v), operandOf(w), t, k, n)
	}, dst, v, w)
}

func (d *Device) Soft(dst, v, w array.Batch, t float64) {
	d.weighted("Soft", d.launchSoft, dst, v, w, t)
}

func (d *Device) SoftMask(dst, v, w array.Batch, t float64) {
	d.weighted("SoftMask", d.launchSoftMask, dst, v, w, t)
}

func (d *Device) Shrink(dst, q, w array.Batch, t float64) {
	d.weighted("Shrink", d.launchShrink, dst, q, w, t)
}

func (d *Device) ShrinkSlope(dst, q, w array.Batch, t float64) {
	d.weighted("ShrinkSlope", d.launchShrinkSlope, dst, q, w, t)
}

func (d *Device) clamped(op string, launch func(g grid, dst, v, lo, hi operand, k, n int64) error, dst, v, lo,
	hi array.Batch) {
	d = d.same(op, dst, v, lo, hi)
	d.each(op, func(g grid, k, n int64) error {
		return launch(g, operandOf(dst), operandOf(v), operandOf(lo), operandOf(hi), k, n)
	}, dst, v, lo, hi)
}

func (d *Device) Clamp(dst, v, lo, hi array.Batch) { d.clamped("Clamp", d.launchClamp, dst, v, lo, hi) }

func (d *Device) ClampMask(dst, v, lo, hi array.Batch) {
	d.clamped("ClampMask", d.launchClampMask, dst, v, lo, hi)
}
