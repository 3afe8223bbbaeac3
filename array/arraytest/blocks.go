package arraytest

import (
	"fmt"
	"math/rand/v2"

	"surepipe/array"
)

// randomBlocks is some symmetric blocks with coordinates between them that are in none, and their values.
func randomBlocks(rng *rand.Rand, sizes ...int) (first, size []int, values []float64, end int) {
	for _, n := range sizes {
		end += rng.IntN(3)
		first, size = append(first, end), append(size, n)
		end += n
		block := make([]float64, n*n)
		for i := range n {
			for j := range i + 1 {
				block[i*n+j] = rng.NormFloat64()
				block[j*n+i] = block[i*n+j]
			}
		}
		values = append(values, block...)
	}
	return first, size, values, end
}

// mulBlocks is the product with x, in place of the coordinates that are in a block.
func mulBlocks(first, size []int, values, x, dst []float64) []float64 {
	out := append([]float64(nil), dst...)
	for b, n := range size {
		for i := range n {
			s := 0.0
			for j := range n {
				s += values[i*n+j] * x[first[b]+j]
			}
			out[first[b]+i] = s
		}
		values = values[n*n:]
	}
	return out
}

func blockProducts(dev array.Device) error {
	rng := rand.New(rand.NewPCG(19, 0))
	for _, sizes := range [][]int{nil, {0}, {1}, {3, 0, 2}, {5, 8, 1, 40, 7, 4, 129}} {
		first, size, values, end := randomBlocks(rng, sizes...)
		b := dev.NewBlocks(first, size)
		if b.Len() != len(values) || b.End() > end || len(values) > 0 && b.End() != end {
			return fmt.Errorf("blocks of %d values up to coordinate %d say %d and %d", len(values), end, b.Len(),
				b.End())
		}
		held := put(dev, table{1, len(values), values}, packed)
		for _, k := range []int{0, 1, 2, 6, 37} {
			for _, l := range layouts {
				x, c := newTable(rng, k, end+2), newTable(rng, k, end+2)
				bx, bc := put(dev, x, l), put(dev, c, l)
				dev.MulBlocks(bc.Batch, b, held.Batch, bx.Batch)
				want := table{k, c.n, nil}
				for i := range k {
					want.v = append(want.v, mulBlocks(first, size, values, x.v[i*x.n:][:x.n], c.v[i*c.n:][:c.n])...)
				}
				err := bc.check(want, sumTol, "MulBlocks of blocks of the sizes %v", sizes)
				bx.free()
				bc.free()
				if err != nil {
					return err
				}
			}
		}
		held.free()
		b.Free()
	}
	return nil
}

func blockMethods(dev array.Device, rng *rand.Rand,
	add func(name string, n, out int, do func(dst, x array.Batch))) (free func()) {
	first, size, values, end := randomBlocks(rng, 3, 50, 17, 1, 129)
	along, held := dev.NewBlocks(first, size), put(dev, table{1, len(values), values}, packed)
	add("MulBlocks", end, end, func(dst, x array.Batch) {
		dev.Fill(dst, 0.1)
		dev.MulBlocks(dst, along, held.Batch, x)
	})
	return func() { along.Free(); held.free() }
}
