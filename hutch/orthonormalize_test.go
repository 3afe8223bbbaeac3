package hutch

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
)

// orthonormality is the largest entry of |QQ* - I|.
func orthonormality(q array.Batch) float64 {
	dev, k := q.Device(), q.K()
	if k == 0 {
		return 0
	}
	gram := dev.Alloc(k, k)
	defer gram.Free()
	dev.Gemm(false, true, 1, q, q, 0, gram)
	worst := 0.0
	for i, v := range gram.ToHost() {
		if i%k == i/k {
			v--
		}
		worst = max(worst, math.Abs(v))
	}
	return worst
}

// missed is ||x_i - QQ* x_i|| / ||x_i|| of every vector of x, 0 where x_i = 0.
func missed(x, q array.Batch) []float64 {
	dev, k := x.Device(), x.K()
	unit, rest := dev.Alloc(k, x.N()), dev.Alloc(k, x.N())
	defer unit.Free()
	defer rest.Free()
	if err := normalize(unit, x); err != nil {
		panic(err)
	}
	Deflate(rest, unit, q)
	out := make([]float64, k)
	dev.Dot(out, rest, rest)
	for i := range out {
		out[i] = math.Sqrt(out[i])
	}
	return out
}

func TestOrthonormalizeFindsAnOrthonormalBasisOfTheSpan(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const k, d = 34, 1000
		rng := rand.New(rand.NewPCG(1, 1))
		scaled := func(f func(i int) float64) []float64 {
			y := gaussian(rng, k*d)
			for i := range y {
				y[i] *= f(i / d)
			}
			return y
		}
		// combinations of the given number of directions, the j-th of size f(j)
		low := func(rank int, f func(j int) float64) []float64 {
			u, c, y := gaussian(rng, rank*d), gaussian(rng, k*rank), make([]float64, k*d)
			for i := range k {
				for j := range rank {
					for l := range d {
						y[i*d+l] += c[i*rank+j] * f(j) * u[j*d+l]
					}
				}
			}
			return y
		}
		same := func(int) float64 { return 1 }
		cases := []struct {
			name    string
			k, d    int
			y       []float64
			rank    int
			atLeast bool // the rank to rounding may be larger
		}{
			{name: "generic", k: k, d: d, y: scaled(same), rank: k},
			{name: "zero", k: k, d: d, y: make([]float64, k*d), rank: 0},
			{name: "one vector", k: 1, d: d, y: gaussian(rng, d), rank: 1},
			{name: "one entry", k: 3, d: 1, y: []float64{0, -2, 5}, rank: 1},
			{name: "more vectors than dimensions", k: k, d: 10, y: gaussian(rng, k*10), rank: 10},
			{name: "duplicates", k: k, d: d, y: slices.Repeat(gaussian(rng, 2*d), k/2), rank: 2},
			{name: "rank 20", k: k, d: d, y: low(20, same), rank: 20},
			{name: "rank 1", k: k, d: d, y: low(1, same), rank: 1},
			{name: "zero vectors between others", k: k, d: d,
				y: scaled(func(i int) float64 { return float64(i % 2) }), rank: k / 2},
			{name: "graded vectors", k: k, d: d, y: scaled(func(i int) float64 { return math.Pow(10, -float64(i)) }),
				rank: k},
			{name: "vectors from 1e-300 to 1e300", k: k, d: d,
				y: scaled(func(i int) float64 { return math.Pow(10, -300+600*float64(i)/(k-1)) }), rank: k},
			{name: "graded directions", k: k, d: d,
				y: low(25, func(j int) float64 { return math.Pow(10, -float64(j)/2) }), rank: 25},
			{name: "directions into rounding", k: k, d: d,
				y: low(25, func(j int) float64 { return math.Pow(10, -float64(j)) }), rank: 13, atLeast: true},
			{name: "gap of 1e-12", k: k, d: d, y: low(2, func(j int) float64 { return math.Pow(1e-12, float64(j)) }),
				rank: 2},
		}
		noLeak(t, dev)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				y, q := upload(dev, c.k, c.d, c.y), dev.Alloc(c.k, c.d)
				defer y.Free()
				defer q.Free()
				rank, err := Orthonormalize(q, y)
				if err != nil {
					t.Fatal(err)
				}
				if rank != c.rank && !(c.atLeast && rank > c.rank) {
					t.Errorf("rank %d, want %d", rank, c.rank)
				}
				if !slices.Equal(y.ToHost(), c.y) {
					t.Error("y was changed")
				}
				q = q.Rows(0, rank)
				// Inner products of length 1000 are rounded by some 1e-15.
				if e := orthonormality(q); e > 1e-14 {
					t.Errorf("QQ* is %.1e off the identity", e)
				}
				if m := slices.Max(missed(y, q)); m > 1e-13 {
					t.Errorf("the basis misses %.1e of a vector", m)
				}
			})
		}
	})
}

// A direction of relative size s is determined by y to about eps/s, and that
// accurately the basis contains it.
func TestOrthonormalizeCapturesSmallDirectionsAsWellAsTheyAreDetermined(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const k, d, rank = 34, 500, 25
		rng := rand.New(rand.NewPCG(2, 1))
		g, u := upload(dev, rank, d, gaussian(rng, rank*d)), dev.Alloc(rank, d)
		if r, err := Orthonormalize(u, g); err != nil || r != rank {
			t.Fatal(r, err)
		}
		size := func(j int) float64 { return math.Pow(10, -float64(j)/2) } // 1 to 1e-12
		c := gaussian(rng, k*rank)
		for i := range c {
			c[i] *= size(i % rank)
		}
		y, q := dev.Alloc(k, d), dev.Alloc(k, d)
		dev.Gemm(false, false, 1, upload(dev, k, rank, c), u, 0, y)
		r, err := Orthonormalize(q, y)
		if err != nil || r != rank {
			t.Fatalf("rank %d, error %v", r, err)
		}
		for j, m := range missed(u, q.Rows(0, r)) {
			// 100: the smallest singular value of a Gaussian 34 x 25 matrix is about
			// 0.2 of its largest entries', and the noise of 34 vectors adds up.
			if limit := 100 * epsilon / size(j); m > limit {
				t.Errorf("direction of size %.0e: the basis misses %.1e of it, limit %.1e", size(j), m, limit)
			}
		}
	})
}

func TestOrthonormalizeRefusesWhatIsNotFinite(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		noLeak(t, dev)
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			values := gaussian(rand.New(rand.NewPCG(1, 1)), 4*50)
			values[2*50+7] = bad
			y, q := upload(dev, 4, 50, values), dev.Alloc(4, 50)
			if _, err := Orthonormalize(q, y); err == nil || !strings.Contains(err.Error(), "vector 2 of the 4 x 50") {
				t.Errorf("%v in y: error %v", bad, err)
			}
			y.Free()
			q.Free()
		}
	})
}

func TestDeflateRemovesTheBasisAndNothingElse(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const k, r, d = 40, 12, 700
		noLeak(t, dev)
		rng := rand.New(rand.NewPCG(3, 1))
		y, q, g, x := upload(dev, r, d, gaussian(rng, r*d)), dev.Alloc(r, d), upload(dev, k, d, gaussian(rng, k*d)),
			dev.Alloc(k, d)
		inner, want := dev.Alloc(k, r), dev.Alloc(k, d)
		defer func() {
			for _, b := range []array.Batch{y, q, g, x, inner, want} {
				b.Free()
			}
		}()
		if _, err := Orthonormalize(q, y); err != nil {
			t.Fatal(err)
		}
		Deflate(x, g, q)

		dev.Gemm(false, true, 1, x, q, 0, inner)
		for i, v := range inner.ToHost() {
			// ||g_i|| is about 26.
			if math.Abs(v) > 1e-14 {
				t.Errorf("<x_%d, q_%d> = %.1e", i/r, i%r, v)
			}
		}
		dev.Gemm(false, true, 1, g, q, 0, inner)
		dev.Copy(want, g)
		dev.Gemm(false, false, -1, inner, q, 1, want)
		got := x.ToHost()
		for i, v := range want.ToHost() {
			if math.Abs(v-got[i]) > 1e-13 {
				t.Fatalf("entry %d of x_%d is %v, want %v", i%d, i/d, got[i], v)
			}
		}

		for _, batch := range []int{1, 2, 7, 23, 24, 25} {
			part := dev.Alloc(batch, d)
			for first := 0; first < k; first += batch {
				n := min(batch, k-first)
				dev.Copy(part.Rows(0, n), g.Rows(first, first+n))
				Deflate(part.Rows(0, n), part.Rows(0, n), q) // in place
				if !slices.Equal(part.Rows(0, n).ToHost(), got[first*d:][:n*d]) {
					t.Errorf("vectors %d to %d: other bits in a batch of %d", first, first+n-1, n)
				}
			}
			part.Free()
		}

		Deflate(x, g, q.Rows(0, 0))
		if !slices.Equal(x.ToHost(), g.ToHost()) {
			t.Error("without a basis, x is not g")
		}
	})
}
