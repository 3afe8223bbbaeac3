package arraytest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"surepipe/array"
)

// Tolerances. Elementwise results may differ by the rounding of a fused
// multiply-add or a device's own square root; sums of up to 70000 products of
// normal numbers by rounding's random walk over them.
const (
	roundingTol = 1e-14
	sumTol      = 1e-10
)

// shapes has empty and single vectors, odd sizes, many short vectors, few long ones, and vectors
// larger than any chunk or block.
var shapes = [][2]int{{0, 0}, {0, 5}, {5, 0}, {1, 1}, {1, 7}, {3, 1}, {3, 5}, {700, 3}, {2, 20001}, {25, 4099},
	{1, 70001}}

func transfers(dev array.Device) error {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, s := range shapes {
		for _, l := range layouts {
			t := newTable(rng, s[0], s[1])
			b := put(dev, t, l)
			if err := b.check(t, 0, "Upload and Download"); err != nil {
				return err
			}
			c := put(dev, newTable(rng, s[0], s[1]), l)
			dev.Copy(c.Batch, b.Batch)
			if err := c.check(t, 0, "Copy"); err != nil {
				return err
			}
			for i := range t.v {
				t.v[i] = 2.5
			}
			dev.Fill(b.Batch, 2.5)
			if err := b.check(t, 0, "Fill"); err != nil {
				return err
			}
			for i := range min(s[0], s[1]) {
				t.v[i*s[1]+i] = -1
			}
			dev.Fill(b.Diagonal(), -1)
			if err := b.check(t, 0, "Fill of the diagonal"); err != nil {
				return err
			}
			if s[0]*s[1] > 0 && l == packed {
				flat := b.Reshape(s[0]*s[1], 1)
				dev.Upload(flat.Rows(0, 1), []float64{7})
				if got := b.ToHost()[0]; got != 7 {
					return fmt.Errorf("a reshaped view of %s does not share its memory", b.Batch)
				}
			}
			b.free()
			c.free()
		}
	}
	return nil
}

// An operation is an elementwise method with its scalars fixed, and the formula
// for one entry.
type operation struct {
	name     string
	operands int
	do       func(dev array.Device, dst array.Batch, x [3]array.Batch)
	want     func(i int, x [3]float64) float64
}

var none array.Batch

func soft(v, c float64) float64 { return math.Copysign(max(math.Abs(v)-c, 0), v) + 0 }

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// coefficients is one number a vector, for LinEach.
func coefficients(k int, start float64) []float64 {
	c := make([]float64, k)
	for i := range c {
		c[i] = start + float64(i)/8
	}
	return c
}

type values = [3]float64

// operations lists the elementwise operations of a device.
func operations() []operation {
	return slices.Concat(linearOperations(), proximalOperations(), weightedOperations())
}

func linearOperations() []operation {
	type batches = [3]array.Batch
	var ops []operation
	for _, c := range [][2]float64{{1, 1}, {1, -1}, {0.5, -2}, {0, 1}, {-1, 0}} {
		ops = append(ops, operation{fmt.Sprintf("Lin %v %v", c[0], c[1]), 2,
			func(dev array.Device, dst array.Batch, x batches) { dev.Lin(dst, c[0], x[0], c[1], x[1]) },
			func(_ int, x values) float64 { return c[0]*x[0] + c[1]*x[1] }})
	}
	return append(ops,
		operation{"Lin without y", 1,
			func(dev array.Device, dst array.Batch, x batches) { dev.Lin(dst, -0.75, x[0], math.NaN(), none) },
			func(_ int, x values) float64 { return -0.75 * x[0] }},
		operation{"LinEach", 2,
			func(dev array.Device, dst array.Batch, x batches) {
				dev.LinEach(dst, coefficients(dst.K(), 1), x[0], coefficients(dst.K(), -3), x[1])
			},
			func(i int, x values) float64 { return (1+float64(i)/8)*x[0] + (-3+float64(i)/8)*x[1] }},
		operation{"LinEach without y", 1,
			func(dev array.Device, dst array.Batch, x batches) {
				dev.LinEach(dst, coefficients(dst.K(), 1), x[0], nil, none)
			},
			func(i int, x values) float64 { return (1 + float64(i)/8) * x[0] }},
		operation{"Copy", 1,
			func(dev array.Device, dst array.Batch, x batches) { dev.Copy(dst, x[0]) },
			func(_ int, x values) float64 { return x[0] }},
		operation{"Mul", 2,
			func(dev array.Device, dst array.Batch, x batches) { dev.Mul(dst, x[0], x[1]) },
			func(_ int, x values) float64 { return x[0] * x[1] }},
	)
}

// shrink and slope are the formulas of Shrink and ShrinkSlope for a squared norm q and a weight w.
func shrink(t, q, w float64) float64 {
	if t*w == 0 {
		return 1
	}
	return max(1-t*w/math.Sqrt(q), 0)
}

func slope(t, q, w float64) float64 {
	c, norm := t*w, math.Sqrt(q)
	if norm > c {
		return c / norm / q
	}
	return 0
}

// squared calls do with the squares of the operands, because they stand for squared norms and
// weights, which are not negative. Where there is no second operand the weights are the zero Batch.
func squared(dev array.Device, x [3]array.Batch, do func(q, w array.Batch)) {
	q := dev.Alloc(x[0].K(), x[0].N())
	dev.Mul(q, x[0], x[0])
	w := none
	if !x[1].IsZero() {
		w = dev.Alloc(x[1].K(), x[1].N())
		dev.Mul(w, x[1], x[1])
	}
	do(q, w)
	q.Free()
	w.Free()
}

func proximalOperations() []operation {
	type batches = [3]array.Batch
	return []operation{
		{"Soft", 1,
			func(dev array.Device, dst array.Batch, x batches) { dev.Soft(dst, x[0], none, 0.5) },
			func(_ int, x values) float64 { return soft(x[0], 0.5) }},
		{"Soft with t = 0", 1,
			func(dev array.Device, dst array.Batch, x batches) { dev.Soft(dst, x[0], none, 0) },
			func(_ int, x values) float64 { return x[0] }},
		{"SoftMask", 1,
			func(dev array.Device, dst array.Batch, x batches) { dev.SoftMask(dst, x[0], none, 0.5) },
			func(_ int, x values) float64 { return indicator(math.Abs(x[0]) > 0.5) }},
		{"SoftMask with t = 0", 1,
			func(dev array.Device, dst array.Batch, x batches) { dev.SoftMask(dst, x[0], none, 0) },
			func(int, values) float64 { return 1 }},
		{"Clamp", 3,
			func(dev array.Device, dst array.Batch, x batches) { dev.Clamp(dst, x[0], x[1], x[2]) },
			func(_ int, x values) float64 { return min(max(x[0], x[1]), x[2]) }},
		{"ClampMask", 3,
			func(dev array.Device, dst array.Batch, x batches) { dev.ClampMask(dst, x[0], x[1], x[2]) },
			func(_ int, x values) float64 { return indicator(x[1] < x[0] && x[0] < x[2]) }},
		{"Shrink", 1,
			func(dev array.Device, dst array.Batch, x batches) {
				squared(dev, x, func(q, _ array.Batch) { dev.Shrink(dst, q, none, 0.5) })
			},
			func(_ int, x values) float64 { return shrink(0.5, x[0]*x[0], 1) }},
		{"ShrinkSlope", 1,
			func(dev array.Device, dst array.Batch, x batches) {
				squared(dev, x, func(q, _ array.Batch) { dev.ShrinkSlope(dst, q, none, 0.5) })
			},
			func(_ int, x values) float64 { return slope(0.5, x[0]*x[0], 1) }},
	}
}

func weightedOperations() []operation {
	var ops []operation
	weighted := []struct {
		name string
		do   func(dev array.Device, dst, v, w array.Batch)
		want func(v, w float64) float64
	}{
		{"Soft", func(dev array.Device, dst, v, w array.Batch) { dev.Soft(dst, v, w, 0.5) },
			func(v, w float64) float64 { return soft(v, 0.5*w) }},
		{"SoftMask", func(dev array.Device, dst, v, w array.Batch) { dev.SoftMask(dst, v, w, 0.5) },
			func(v, w float64) float64 { return indicator(math.Abs(v) > 0.5*w || w == 0) }},
		{"Shrink", func(dev array.Device, dst, v, w array.Batch) { dev.Shrink(dst, v, w, 0.5) },
			func(v, w float64) float64 { return shrink(0.5, v, w) }},
		{"ShrinkSlope", func(dev array.Device, dst, v, w array.Batch) { dev.ShrinkSlope(dst, v, w, 0.5) },
			func(v, w float64) float64 { return slope(0.5, v, w) }},
	}
	for _, c := range weighted {
		ops = append(ops, operation{c.name + " with weights", 2,
			func(dev array.Device, dst array.Batch, x [3]array.Batch) {
				// Weights are not negative.
				squared(dev, x, func(q, w array.Batch) { c.do(dev, dst, q, w) })
			},
			func(_ int, x values) float64 { return c.want(x[0]*x[0], x[1]*x[1]) }})
	}
	return ops
}

func elementwise(dev array.Device) error {
	rng := rand.New(rand.NewPCG(2, 0))
	for _, s := range shapes {
		k, n := s[0], s[1]
		for _, op := range operations() {
			// broadcast is a set of operands that are one vector; alias is the operand
			// that dst is, if any.
			for broadcast := range 1 << op.operands {
				for alias := -1; alias < op.operands; alias++ {
					if alias >= 0 && broadcast>>alias&1 == 1 && k != 1 {
						continue
					}
					// Long vectors only test how work is divided, for which a few cases are enough.
					if k*n > 10000 && rng.IntN(5) > 0 {
						continue
					}
					l := layouts[rng.IntN(len(layouts))]
					var x [3]table
					var on [3]held
					var operands [3]array.Batch
					for o := range op.operands {
						kk := k
						if broadcast>>o&1 == 1 {
							kk = 1
						}
						x[o] = newTable(rng, kk, n)
						on[o] = put(dev, x[o], layouts[rng.IntN(len(layouts))])
						operands[o] = on[o].Batch
					}
					want := table{k, n, make([]float64, k*n)}
					for i := range k {
						for j := range n {
							var v [3]float64
							for o := range op.operands {
								v[o] = x[o].at(i, j)
							}
							want.v[i*n+j] = op.want(i, v)
						}
					}
					dst := held{}
					if alias >= 0 {
						dst = on[alias]
					} else {
						dst = put(dev, newTable(rng, k, n), l)
					}
					op.do(dev, dst.Batch, operands)
					err := dst.check(want, roundingTol, "%s (broadcast set %b, dst is operand %d)", op.name,
						broadcast, alias)
					for o := range op.operands {
						if err == nil && o != alias {
							err = on[o].check(x[o], 0, "operand %d of %s", o, op.name)
						}
						on[o].free()
					}
					if alias < 0 {
						dst.free()
					}
					if err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func reductions(dev array.Device) error {
	rng := rand.New(rand.NewPCG(3, 0))
	for _, s := range shapes {
		k, n := s[0], s[1]
		for _, l := range layouts {
			for _, ks := range [][2]int{{k, k}, {1, k}, {k, 1}} {
				x, y := newTable(rng, ks[0], n), newTable(rng, ks[1], n)
				bx, by := put(dev, x, l), put(dev, y, l)
				out := make([]float64, k)
				dev.Dot(out, bx.Batch, by.Batch)
				for i, got := range out {
					want, size := 0.0, 1.0
					for j := range n {
						want += x.at(i, j) * y.at(i, j)
						size += math.Abs(x.at(i, j) * y.at(i, j))
					}
					if !same(got/size, want/size, roundingTol) {
						return fmt.Errorf("Dot of %s and %s gives %v for vector %d, expected %v", bx.Batch, by.Batch,
							got, i, want)
					}
				}
				out = make([]float64, x.k)
				dev.MaxAbs(out, bx.Batch)
				for i, got := range out {
					want := 0.0
					for j := range n {
						want = max(want, math.Abs(x.at(i, j)))
					}
					if got != want {
						return fmt.Errorf("MaxAbs of %s gives %v for vector %d, expected %v", bx.Batch, got, i, want)
					}
				}
				bx.free()
				by.free()
			}
		}
	}
	return nil
}

func nonFinite(dev array.Device) error {
	nan, inf := math.NaN(), math.Inf(1)
	cases := []struct {
		name string
		in   []float64
		do   func(dst, x array.Batch)
		want []float64
	}{
		{"Soft", []float64{nan, inf, -inf, 0.25, 2}, func(dst, x array.Batch) { dev.Soft(dst, x, none, 0.5) },
			[]float64{nan, inf, -inf, 0, 1.5}},
		{"Lin", []float64{nan, inf, -inf}, func(dst, x array.Batch) { dev.Lin(dst, 1, x, 1, x) },
			[]float64{nan, inf, -inf}},
		{"Lin to zero", []float64{nan, inf, 1}, func(dst, x array.Batch) { dev.Lin(dst, 1, x, -1, x) },
			[]float64{nan, nan, 0}},
		{"Mul", []float64{nan, inf, -inf}, func(dst, x array.Batch) { dev.Mul(dst, x, x) }, []float64{nan, inf, inf}},
		{"Clamp", []float64{nan, inf, -inf}, func(dst, x array.Batch) {
			lo, hi := dev.Alloc(1, 3), dev.Alloc(1, 3)
			dev.Fill(lo, -1)
			dev.Fill(hi, 2)
			dev.Clamp(dst, x, lo, hi)
			lo.Free()
			hi.Free()
		}, []float64{nan, 2, -1}},
		{"Shrink", []float64{nan, inf, 0, 0.0625, 4}, func(dst, x array.Batch) { dev.Shrink(dst, x, none, 0.5) },
			[]float64{nan, 1, 0, 0, 0.75}},
		{"Shrink with t = 0", []float64{0, 4}, func(dst, x array.Batch) { dev.Shrink(dst, x, none, 0) },
			[]float64{1, 1}},
		{"ShrinkSlope", []float64{0, 1e-300, 1e300, 4},
			func(dst, x array.Batch) { dev.ShrinkSlope(dst, x, none, 1e-151) }, []float64{0, 1e299, 0, 1.25e-152}},
	}
	for _, c := range cases {
		t := table{1, len(c.in), c.in}
		x, dst := put(dev, t, packed), put(dev, t, packed)
		c.do(dst.Batch, x.Batch)
		// ShrinkSlope's 1e299 is the quotient of roundings.
		err := dst.check(table{1, len(c.want), c.want}, 1e-12, "%s of %v", c.name, c.in)
		x.free()
		dst.free()
		if err != nil {
			return err
		}
	}
	// A NaN anywhere in a long vector is found, and only in that vector.
	const n = 10000
	for _, place := range []int{0, 1, 4095, 4096, n - 1} {
		x := table{2, n, make([]float64, 2*n)}
		x.v[0], x.v[n+place] = -inf, nan
		b, out := put(dev, x, packed), make([]float64, 2)
		dev.MaxAbs(out, b.Batch)
		if out[0] != inf || !math.IsNaN(out[1]) {
			return fmt.Errorf("MaxAbs of vectors with -Inf and with NaN at %d gives %v", place, out)
		}
		dev.Dot(out, b.Batch, b.Batch)
		if out[0] != inf || !math.IsNaN(out[1]) {
			return fmt.Errorf("Dot of vectors with -Inf and with NaN at %d gives %v", place, out)
		}
		b.free()
	}
	return nil
}
