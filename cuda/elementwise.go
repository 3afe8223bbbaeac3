//go:build cuda

package cuda

import (
	"fmt"

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

// each launches an elementwise kernel on dst and up to three operands. Operands that are all one
// block of memory are one long vector.
func (d *Device) each(op string, dst, x, y, z array.Batch, launch func(g grid, dst, x, y, z operand, k,
	n int64) error) {
	if dst.K() == 0 || dst.N() == 0 {
		return
	}
	k, n := int64(dst.K()), int64(dst.N())
	flat := func(b array.Batch) bool { return b.IsZero() || b.K() == dst.K() && b.Contiguous() }
	if flat(dst) && flat(x) && flat(y) && flat(z) {
		k, n = 1, k*n
	}
	d.do(op, dst, func() error {
		return launch(over(k, n), operandOf(dst), operandOf(x), operandOf(y), operandOf(z), k, n)
	})
}

// Copy sets dst = src.
func (d *Device) Copy(dst, src array.Batch) {
	d = d.same("copy", dst, src)
	d.each("Copy", dst, src, array.Batch{}, array.Batch{}, func(g grid, dst, x, _, _ operand, k, n int64) error {
		return d.kernels.launchCopy(g, d.stream, dst.at, dst.stride, x.at, x.stride, k, n)
	})
}

// Fill sets every value of dst to a.
func (d *Device) Fill(dst array.Batch, a float64) {
	d = d.into(dst)
	d.each("Fill", dst, array.Batch{}, array.Batch{}, array.Batch{},
		func(g grid, dst, _, _, _ operand, k, n int64) error {
			return d.kernels.launchFill(g, d.stream, dst.at, dst.stride, a, k, n)
		})
}

// Lin sets dst = a x + c y.
func (d *Device) Lin(dst array.Batch, a float64, x array.Batch, c float64, y array.Batch) {
	if y.IsZero() {
		d = d.same("Lin", dst, x)
		d.each("Lin", dst, x, array.Batch{}, array.Batch{}, func(g grid, dst, x, _, _ operand, k, n int64) error {
			return d.kernels.launchScale(g, d.stream, dst.at, dst.stride, a, x.at, x.stride, k, n)
		})
		return
	}
	d = d.same("Lin", dst, x, y)
	d.each("Lin", dst, x, y, array.Batch{}, func(g grid, dst, x, y, _ operand, k, n int64) error {
		return d.kernels.launchLin(g, d.stream, dst.at, dst.stride, a, x.at, x.stride, c, y.at, y.stride, k, n)
	})
}

// LinEach sets dst_i = a_i x_i + c_i y_i.
func (d *Device) LinEach(dst array.Batch, a []float64, x array.Batch, c []float64, y array.Batch) {
	if len(a) != dst.K() || (!y.IsZero() && len(c) != dst.K()) {
		panic(fmt.Sprintf("array: LinEach with %d and %d coefficients into %s", len(a), len(c), dst))
	}
	if y.IsZero() {
		d = d.same("LinEach", dst, x)
	} else {
		d = d.same("LinEach", dst, x, y)
	}
	if dst.K() == 0 || dst.N() == 0 {
		return
	}
	k, n := int64(dst.K()), int64(dst.N())
	on := d.Alloc(2, dst.K())
	defer d.Free(on)
	first, second := on.Rows(0, 1), on.Rows(1, 2)
	d.Upload(first, a)
	to, from := operandOf(dst), operandOf(x)
	if y.IsZero() {
		d.do("LinEach", dst, func() error {
			return d.kernels.launchScaleEach(over(k, n), d.stream, to.at, to.stride, at(first), from.at, from.stride,
				k, n)
		})
		return
	}
	d.Upload(second, c)
	other := operandOf(y)
	d.do("LinEach", dst, func() error {
		return d.kernels.launchLinEach(over(k, n), d.stream, to.at, to.stride, at(first), from.at, from.stride,
			at(second), other.at, other.stride, k, n)
	})
}

// Mul sets dst = x ∘ y.
func (d *Device) Mul(dst, x, y array.Batch) {
	d = d.same("Mul", dst, x, y)
	d.each("Mul", dst, x, y, array.Batch{}, func(g grid, dst, x, y, _ operand, k, n int64) error {
		return d.kernels.launchMul(g, d.stream, dst.at, dst.stride, x.at, x.stride, y.at, y.stride, k, n)
	})
}

type weightedLaunch func(g grid, s cu.Stream, dst cu.DevicePtr, ds int64, v cu.DevicePtr, vs int64, w cu.DevicePtr,
	ws int64, t float64, k, n int64) error

func (d *Device) weighted(op string, launch weightedLaunch, dst, v, w array.Batch, t float64) {
	if w.IsZero() {
		d = d.same(op, dst, v)
	} else {
		d = d.same(op, dst, v, w)
	}
	d.each(op, dst, v, w, array.Batch{}, func(g grid, dst, v, w, _ operand, k, n int64) error {
		return launch(g, d.stream, dst.at, dst.stride, v.at, v.stride, w.at, w.stride, t, k, n)
	})
}

// Soft sets dst = sign(v) max(|v| - t w, 0).
func (d *Device) Soft(dst, v, w array.Batch, t float64) {
	d.weighted("Soft", d.kernels.launchSoft, dst, v, w, t)
}

// SoftMask sets dst to 1 where |v| > t w or t w = 0, and to 0 elsewhere.
func (d *Device) SoftMask(dst, v, w array.Batch, t float64) {
	d.weighted("SoftMask", d.kernels.launchSoftMask, dst, v, w, t)
}

// Shrink sets dst = max(1 - t w / sqrt(q), 0).
func (d *Device) Shrink(dst, q, w array.Batch, t float64) {
	d.weighted("Shrink", d.kernels.launchShrink, dst, q, w, t)
}

// ShrinkSlope sets dst = t w / q^(3/2) where sqrt(q) > t w and 0 elsewhere.
func (d *Device) ShrinkSlope(dst, q, w array.Batch, t float64) {
	d.weighted("ShrinkSlope", d.kernels.launchShrinkSlope, dst, q, w, t)
}

// Clamp sets dst = min(max(v, lo), hi).
func (d *Device) Clamp(dst, v, lo, hi array.Batch) {
	d = d.same("Clamp", dst, v, lo, hi)
	d.each("Clamp", dst, v, lo, hi, func(g grid, dst, v, lo, hi operand, k, n int64) error {
		return d.kernels.launchClamp(g, d.stream, dst.at, dst.stride, v.at, v.stride, lo.at, lo.stride, hi.at,
			hi.stride, k, n)
	})
}

// ClampMask sets dst to 1 where lo < v < hi and to 0 elsewhere.
func (d *Device) ClampMask(dst, v, lo, hi array.Batch) {
	d = d.same("ClampMask", dst, v, lo, hi)
	d.each("ClampMask", dst, v, lo, hi, func(g grid, dst, v, lo, hi operand, k, n int64) error {
		return d.kernels.launchClampMask(g, d.stream, dst.at, dst.stride, v.at, v.stride, lo.at, lo.stride, hi.at,
			hi.stride, k, n)
	})
}
