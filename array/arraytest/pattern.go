package arraytest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/array"
)

// randomPlaces is a pattern with some rows and columns empty, in random order.
func randomPlaces(rng *rand.Rand, rows, cols int, share float64) []int {
	var places []int
	for i := range rows {
		for j := range cols {
			if i%5 != 3 && j%7 != 2 && rng.Float64() < share {
				places = append(places, i*cols+j)
			}
		}
	}
	rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	return places
}

// sampled is alpha (A B*)_places + beta dst; spread is alpha Z B + beta c.
func sampled(places []int, cols, r int, alpha float64, a, b []float64, beta float64, dst []float64) []float64 {
	out := make([]float64, len(places))
	for e, p := range places {
		i, j := p/cols, p%cols
		for l := range r {
			out[e] += alpha * a[i*r+l] * b[j*r+l]
		}
		if beta != 0 {
			out[e] += beta * dst[e]
		}
	}
	return out
}

func spread(trans bool, places []int, cols, r int, alpha float64, z, b []float64, beta float64, c []float64) []float64 {
	out := make([]float64, len(c))
	if beta != 0 {
		for i, v := range c {
			out[i] = beta * v
		}
	}
	for e, p := range places {
		i, j := p/cols, p%cols
		if trans {
			i, j = j, i
		}
		for l := range r {
			out[i*r+l] += alpha * z[e] * b[j*r+l]
		}
	}
	return out
}

func patternProducts(dev array.Device) error {
	rng := rand.New(rand.NewPCG(17, 0))
	for _, s := range [][4]int{{0, 3, 2, 2}, {3, 4, 0, 2}, {3, 5, 2, 0}, {3, 5, 2, 1}, {3, 5, 2, 2}, {40, 30, 7, 3},
		{30, 40, 1, 34}, {11, 90, 16, 37}, {60, 11, 5, 75}} {
		rows, cols, r, k := s[0], s[1], s[2], s[3]
		places := randomPlaces(rng, rows, cols, 0.4)
		p := dev.NewPattern(rows, cols, places)
		if m, n := p.Dims(); m != rows || n != cols || p.Len() != len(places) {
			return fmt.Errorf("a %d x %d pattern of %d places says that it is %d x %d of %d", rows, cols, len(places),
				m, n, p.Len())
		}
		d := len(places)
		for _, shared := range []string{"", "first", "second"} {
			for _, scale := range scales {
				l := layouts[rng.IntN(len(layouts))]
				k1, k2 := k, k
				switch {
				case shared == "first":
					k1 = 1
				case shared == "second":
					k2 = 1
				}
				fresh := func(n int) table {
					t := newTable(rng, k, n)
					if scale[1] == 0 {
						for i := range t.v {
							t.v[i] = math.NaN()
						}
					}
					return t
				}
				check := func(name string, a, b, c table, do func(a, b, c array.Batch),
					loop func(a, b, c []float64) []float64) error {
					ba, bb, bc := put(dev, a, l), put(dev, b, l), put(dev, c, l)
					want := table{c.k, c.n, nil}
					for i := range c.k {
						one := func(t table) []float64 {
							i := min(i, t.k-1)
							return t.v[i*t.n : (i+1)*t.n]
						}
						want.v = append(want.v, loop(one(a), one(b), one(c))...)
					}
					do(ba.Batch, bb.Batch, bc.Batch)
					err := bc.check(want, sumTol,
						"%s of %s and %s in %d places of a %d x %d matrix, r = %d, alpha %v, beta %v", name, ba.Batch,
						bb.Batch, d, rows, cols, r, scale[0], scale[1])
					ba.free()
					bb.free()
					bc.free()
					return err
				}
				err := check("SampleProduct", newTable(rng, k1, rows*r), newTable(rng, k2, cols*r), fresh(d),
					func(a, b, c array.Batch) { dev.SampleProduct(c, p, scale[0], a, b, scale[1]) },
					func(a, b, c []float64) []float64 { return sampled(places, cols, r, scale[0], a, b, scale[1], c) })
				if err != nil {
					return err
				}
				for _, trans := range flags {
					from, to := maybeSwap(trans, cols, rows)
					err := check(fmt.Sprintf("SpreadProduct (trans %t)", trans), newTable(rng, k1, d),
						newTable(rng, k2, from*r), fresh(to*r),
						func(a, b, c array.Batch) { dev.SpreadProduct(trans, scale[0], p, a, b, scale[1], c) },
						func(a, b, c []float64) []float64 {
							return spread(trans, places, cols, r, scale[0], a, b, scale[1], c)
						})
					if err != nil {
						return err
					}
				}
			}
		}
		p.Free()
	}
	return nil
}
