package imaging

import (
	"surepipe/array"
	"surepipe/internal/lists"
)

func inHostMemory(dev array.Device) bool {
	b := dev.Alloc(1, 1)
	defer b.Free()
	_, ok := b.HostRow(0)
	return ok
}

// elsewhere reports whether vectors are on a device other than the host. Those without any are
// nowhere.
func elsewhere(b array.Batch) bool {
	if b.K() == 0 {
		return false
	}
	_, ok := b.HostRow(0)
	return !ok
}

// groupValues is about the number of values that a group of vectors borrows on a device, where that
// much is available.
const groupValues = 1 << 22

// inGroups calls f for some vectors of dst and src at a time, whose work borrows the given number of
// values a vector.
func inGroups(dst, src array.Batch, values int, f func(dst, src array.Batch)) {
	most := groupValues
	if bytes, bounded := dst.Device().Available(); bounded {
		most = int(min(int64(most), bytes/8))
	}
	size := max(1, most/max(values, 1))
	for i := 0; i < dst.K(); i += size {
		j := min(i+size, dst.K())
		f(dst.Rows(i, j), src.Rows(i, j))
	}
}

// complexPairs multiplies complex numbers, which are pairs of real and imaginary part, on a device.
type complexPairs struct {
	swap array.Index // of the two parts of each number
}

// newComplexPairs is for vectors of n complex numbers, and t's.
func newComplexPairs(t *twin, dev array.Device, n int) complexPairs {
	idx := lists.Make(2*n, func(i int) int { return i ^ 1 })
	return complexPairs{t.listed(dev, idx)}
}

// factors are complex numbers as their products with pairs take them: each real part twice, and each
// imaginary part with a minus and with a plus sign.
type factors struct{ re, im array.Batch }

// newFactors puts k vectors of n complex numbers on a device, for t.
func newFactors(t *twin, dev array.Device, k int, pairs []float64) factors {
	n := len(pairs) / max(k, 1)
	re, im := make([]float64, len(pairs)), make([]float64, len(pairs))
	for i := 0; i+1 < len(pairs); i += 2 {
		re[i], re[i+1] = pairs[i], pairs[i]
		im[i], im[i+1] = -pairs[i+1], pairs[i+1]
	}
	return factors{t.put(dev, re).Reshape(k, n), t.put(dev, im).Reshape(k, n)}
}

// multiply sets dst = f ∘ x, or with conjugate the conjugate of f in its place. One vector of x, or of
// f, serves all of dst. dst and x must not overlap.
func (c complexPairs) multiply(dst array.Batch, f factors, conjugate bool, x array.Batch) {
	dev := dst.Device()
	swapped, product := dev.Alloc(x.K(), x.N()), dev.Alloc(dst.K(), dst.N())
	dev.Gather(swapped, x, c.swap)
	dev.Mul(dst, x, f.re)
	dev.Mul(product, swapped, f.im)
	sign := 1.0
	if conjugate {
		sign = -1
	}
	dev.Lin(dst, 1, dst, sign, product)
	array.Free(swapped, product)
}
