//go:build cuda

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	"surepipe/array"
)

// chunk is CHUNK in kernels/device.h.
const chunk = 4096

// Dot sets out_i = <x_i, y_i>, in chunks of fixed length whose sums are added in a fixed
// order.
func (d *Device) Dot(out []float64, x, y array.Batch) {
	d = d.from(x, y)
	array.CheckDot(out, x, y)
	d.reduce("Dot", out, x, func(g grid, partial cu.DevicePtr, chunks, k, n int64) error {
		return d.launchDot(g, partial, operandOf(x), operandOf(y), chunks, k, n)
	}, d.launchSum)
}

func (d *Device) MaxAbs(out []float64, x array.Batch) {
	d = d.from(x)
	if len(out) != x.K() {
		panic(fmt.Sprintf("array: MaxAbs of %s into %d values", x, len(out)))
	}
	d.reduce("MaxAbs", out, x, func(g grid, partial cu.DevicePtr, chunks, k, n int64) error {
		return d.launchMaxAbs(g, partial, operandOf(x), chunks, k, n)
	}, d.launchMaxOf)
}

// reduce computes one number for each of len(out) vectors like x: by chunks, and then
// over the chunks.
func (d *Device) reduce(op string, out []float64, x array.Batch, first func(g grid, partial cu.DevicePtr, chunks, k,
	n int64) error, second func(g grid, to, partial cu.DevicePtr, k, chunks int64) error) {
	if len(out) == 0 {
		return
	}
	if x.N() == 0 {
		clear(out)
		return
	}
	k, n := int64(len(out)), int64(x.N())
	chunks := (n + chunk - 1) / chunk
	partial := d.Alloc(int(k), int(chunks))
	defer d.Free(partial)
	result := partial
	ok := d.do(op, x, func() error { return first(blocksFor(k*chunks), at(partial), chunks, k, n) })
	if ok && chunks > 1 {
		result = d.Alloc(int(k), 1)
		defer d.Free(result)
		ok = d.do(op, x, func() error { return second(blocksFor(k), at(result), at(partial), k, chunks) })
	}
	if !ok {
		unknown(out)
		return
	}
	d.fetch(op, x, out, at(result))
}
