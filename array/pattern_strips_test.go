package array

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// Strips change no bit of inner products, and the last bits of sums alone.
func TestStripsOfPatternsChangeNothingButRounding(t *testing.T) {
	const rows, cols, r = 40, 300, 19
	h := NewHost()
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(k, n int) Batch {
		b, host := h.Alloc(k, n), make([]float64, k*n)
		for i := range host {
			host[i] = rng.NormFloat64()
		}
		h.Upload(b, host)
		return b
	}
	var places []int
	for p := range rows * cols {
		if i, j := p/cols, p%cols; i%5 != 3 && rng.IntN(1+i+j/8) < 9 {
			places = append(places, p)
		}
	}
	for _, shuffled := range []bool{false, true} {
		if shuffled {
			rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		}
		for _, k := range []int{1, 2, 7} {
			left, right, z := random(k, rows*r), random(k, cols*r), random(k, len(places))
			one, few := random(1, len(places)), random(1, cols*r)
			products := func() (all [][]float64, strips int) {
				p := h.NewPattern(rows, cols, places)
				each := func(to, from Batch, f func(dst Batch)) {
					dst := h.Alloc(to.K(), to.N())
					h.Copy(dst, from)
					f(dst)
					all = append(all, dst.ToHost())
					h.Free(dst)
				}
				for _, scale := range [][2]float64{{1, 0}, {-0.7, 1}, {2, 0.3}} {
					a, b := scale[0], scale[1]
					each(z, z, func(dst Batch) { h.SampleProduct(dst, p, a, left, right, b) })
					each(z, z, func(dst Batch) { h.SampleProduct(dst, p, a, left, few, b) })
					each(left, left, func(dst Batch) { h.SpreadProduct(false, a, p, one, right, b, dst) })
					each(right, right, func(dst Batch) { h.SpreadProduct(true, a, p, z, left, b, dst) })
				}
				return all, len(p.(*hostPattern).cuts(&p.(*hostPattern).byRow, r)) - 1
			}
			want, single := products()
			before := stripBytes
			stripBytes = 8 * r * cols / 6
			got, several := products()
			stripBytes = before
			if single != 1 || several < 2 {
				t.Fatalf("%d strips and %d, expected 1 and several", single, several)
			}
			for i := range want {
				if sum := i%4 > 1; !sum && !slices.Equal(got[i], want[i]) || sum &&
					!floats.EqualApprox(got[i], want[i], 1e-12) {
					t.Errorf("%d vectors, product %d: strips change it", k, i)
				}
			}
		}
	}
}
