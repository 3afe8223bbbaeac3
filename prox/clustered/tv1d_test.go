package clustered_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/cones"
	"surepipe/prox/proxtest"
)

// jacobian returns prox_{t r}(v) and the dense derivative there, row by row.
func jacobian(t testing.TB, dev array.Device, p prox.Prox, v []float64, step float64) (b []float64, rows [][]float64) {
	t.Helper()
	n := len(v)
	x, z := dev.Alloc(1, n), dev.Alloc(n, n)
	defer x.Free()
	defer z.Free()
	dev.Upload(x, v)
	j, err := p.Linearize(x, x, step)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Release()
	identity := make([]float64, n*n)
	for i := range n {
		identity[i*n+i] = 1
	}
	dev.Upload(z, identity)
	j.Apply(z, z)
	flat := z.ToHost()
	for i := range n {
		rows = append(rows, flat[i*n:(i+1)*n])
	}
	return x.ToHost(), rows
}

func trace(rows [][]float64) float64 {
	s := 0.0
	for i, row := range rows {
		s += row[i]
	}
	return s
}

// runs counts the stretches of equal entries, to tol.
func runs(b []float64, tol float64) int {
	m := 1
	for i := 1; i < len(b); i++ {
		if math.Abs(b[i]-b[i-1]) > tol {
			m++
		}
	}
	return m
}

// bruteTV1D minimizes 1/2 ||b - v||^2 + tau TV(b) over every pattern of steps up,
// down and none: the optimum is the best b of its own pattern.
func bruteTV1D(v []float64, tau float64) []float64 {
	n := len(v)
	patterns := 1
	for range n - 1 {
		patterns *= 3
	}
	best, least := []float64(nil), math.Inf(1)
	b := make([]float64, n)
	for code := range patterns {
		start, in, rest := 0, 0, code
		for i := range n {
			out := 0
			if i < n-1 {
				out = rest%3 - 1
				rest /= 3
				if out == 0 {
					continue
				}
			}
			sum := tau * float64(out-in)
			for _, x := range v[start : i+1] {
				sum += x
			}
			for k := start; k <= i; k++ {
				b[k] = sum / float64(i+1-start)
			}
			start, in = i+1, out
		}
		f := 0.0
		for i, x := range b {
			f += (x - v[i]) * (x - v[i]) / 2
			if i > 0 {
				f += tau * math.Abs(x-b[i-1])
			}
		}
		if f < least-1e-13 {
			best, least = append([]float64(nil), b...), f
		}
	}
	return best
}

func TestTV1DAgreesWithEveryPatternOfSteps(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(3, 0))
		for trial := range 300 {
			n := 1 + trial%7
			v := make([]float64, n)
			for i := range v {
				v[i] = rng.NormFloat64()
				if trial%3 == 0 {
					v[i] = math.Round(2 * v[i])
				}
			}
			tau := []float64{0.05, 0.5, 1, 3}[trial%4]
			got, rows := jacobian(t, dev, clustered.NewTV1D(n, tau), v, 1)
			want := bruteTV1D(v, tau)
			for i := range got {
				if math.Abs(got[i]-want[i]) > 1e-7 {
					t.Fatalf("v = %v, tau = %v: got %v, want %v", v, tau, got, want)
				}
			}
			if tr, m := trace(rows), runs(want, 1e-6); math.Abs(tr-float64(m)) > 1e-12 {
				t.Fatalf("v = %v, tau = %v: divergence %v, want %d pieces of %v", v, tau, tr, m, want)
			}
		}
	})
}

func TestTV1DDecidesTiesOfIntegersExactly(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		// In every case the optimum has steps of at least 1/12 or none at all, and
		// duals lie on their bounds without a step in many of them.
		ties := 0
		for code := range 1024 {
			v, rest := make([]float64, 5), code
			for i := range v {
				v[i] = float64(rest % 4)
				rest /= 4
			}
			for _, tau := range []float64{0.5, 1, 2} {
				b, rows := jacobian(t, dev, clustered.NewTV1D(5, tau), v, 1)
				m := runs(b, 1.0/24)
				if tr := trace(rows); math.Abs(tr-float64(m)) > 1e-12 {
					t.Fatalf("v = %v, tau = %v: divergence %v, but %d pieces in %v", v, tau, tr, m, b)
				}
				u := 0.0
				for i := range 4 {
					u += b[i] - v[i]
					if b[i] == b[i+1] && math.Abs(math.Abs(u)-tau) < 1e-9 {
						ties++
					}
				}
			}
		}
		if ties < 100 {
			t.Errorf("%d duals on their bounds without a step, want a test with many", ties)
		}
	})
}

// sequences are data of many kinds for one-dimensional problems.
func sequences(n int) map[string][]float64 {
	rng := rand.New(rand.NewPCG(4, 0))
	made := map[string]func(i int, last float64) float64{
		"noise":          func(i int, last float64) float64 { return rng.NormFloat64() },
		"a random walk":  func(i int, last float64) float64 { return last + rng.NormFloat64() },
		"steps":          func(i int, last float64) float64 { return float64(i/200%5) + 0.3*rng.NormFloat64() },
		"a ramp":         func(i int, last float64) float64 { return float64(i) / 50 },
		"a falling ramp": func(i int, last float64) float64 { return -float64(i) / 50 },
		"a parabola":     func(i int, last float64) float64 { x := float64(2*i-n) / float64(n); return 100 * x * x },
		"a cap":          func(i int, last float64) float64 { x := float64(2*i-n) / float64(n); return -100 * x * x },
		"a sawtooth":     func(i int, last float64) float64 { return float64(i % 2) },
		"growing teeth":  func(i int, last float64) float64 { return float64(i%2*2-1) * float64(i) / 10 },
		"spikes":         func(i int, last float64) float64 { return 1e6 * float64(bit(i%97 == 0)) },
		"a constant":     func(i int, last float64) float64 { return 0.1 },
		"an offset":      func(i int, last float64) float64 { return 1e8 + rng.NormFloat64() },
		"integers":       func(i int, last float64) float64 { return float64(rng.IntN(7)) },
	}
	all := map[string][]float64{}
	for name, f := range made {
		v, last := make([]float64, n), 0.0
		for i := range v {
			last = f(i, last)
			v[i] = last
		}
		all[name] = v
	}
	return all
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestTV1DMeetsItsOptimalityConditions(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		// b is the optimum if and only if the dual u_k = sum_{i<=k} (b_i - v_i) ends at
		// 0, is within tau, and equals tau times the sign of every step.
		const n = 20000
		for name, v := range sequences(n) {
			size := 0.0
			for _, x := range v {
				size = max(size, math.Abs(x))
			}
			for _, tau := range []float64{1e-300, 1e-17, 1e-3, 0.5, 10, 300, 1e5, 1e12} {
				x := dev.Alloc(1, n)
				dev.Upload(x, v)
				j, err := clustered.NewTV1D(n, tau).Linearize(x, x, 1)
				if err != nil {
					t.Fatal(err)
				}
				b := x.ToHost()
				// The sum of n roundings of v and of b.
				slack := 4e-16 * size * n
				u, carry := 0.0, 0.0
				for k := range b {
					term := b[k] - v[k] - carry
					sum := u + term
					carry, u = sum-u-term, sum
					want := math.NaN()
					switch {
					case k == n-1:
						want = 0
					case b[k+1] > b[k]+1e-9*size:
						want = tau
					case b[k+1] < b[k]-1e-9*size:
						want = -tau
					}
					if math.Abs(u) > tau+slack || math.Abs(u-want) > slack {
						t.Errorf("%s, tau = %v: dual %v at %d with step %v", name, tau, u, k, b[min(k+1, n-1)]-b[k])
						break
					}
				}
				// The trace of the averages, by one application to every coordinate of a piece.
				z := dev.Alloc(1, n)
				dev.Upload(z, b)
				j.Apply(z, z)
				for i, a := range z.ToHost() {
					if math.Abs(a-b[i]) > 1e-12*size {
						t.Errorf("%s, tau = %v: the average of a constant piece is %v at %d, want %v", name, tau, a,
							i, b[i])
						break
					}
				}
				j.Release()
				x.Free()
				z.Free()
			}
		}
	})
}

func TestTV1DIgnoresACommonOffset(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		v := normal(8, 500)
		shifted := make([]float64, len(v))
		for i := range v {
			v[i] = math.Round(1024*v[i]) / 1024 // so that the offset does not round it
			shifted[i] = v[i] + 1<<30
		}
		p := clustered.NewTV1D(len(v), 1.3)
		b, c := evaluateOn(t, dev, p, v, 1), evaluateOn(t, dev, p, shifted, 1)
		for i := range b {
			if d := math.Abs(c[i] - 1<<30 - b[i]); d > 3e-7 {
				t.Fatalf("entry %d moves by %v", i, d)
			}
		}
		_, j := jacobian(t, dev, p, v, 1)
		_, k := jacobian(t, dev, p, shifted, 1)
		if trace(j) != trace(k) {
			t.Errorf("%v pieces, %v with an offset", trace(j), trace(k))
		}
	})
}

func TestTV1DOfTwoIsTheSoftThresholdOfTheDifference(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range []struct{ v, tau, want [2]float64 }{
			{v: [2]float64{0, 3}, tau: [2]float64{1}, want: [2]float64{1, 2}},
			{v: [2]float64{3, 0}, tau: [2]float64{1}, want: [2]float64{2, 1}},
			{v: [2]float64{0, 2}, tau: [2]float64{1}, want: [2]float64{1, 1}},
			{v: [2]float64{0, 2}, tau: [2]float64{math.Inf(1)}, want: [2]float64{1, 1}},
		} {
			got := evaluateOn(t, dev, clustered.NewTV1D(2, c.tau[0]), c.v[:], 1)
			if [2]float64(got) != c.want {
				t.Errorf("v = %v, tau = %v: got %v, want %v", c.v, c.tau[0], got, c.want)
			}
		}
	})
}

// hostProxes are those that compute on the host, in dimension 4.
func hostProxes(dev array.Device) map[string]prox.Prox {
	return map[string]prox.Prox{
		"total variation": clustered.NewTV1D(4, 1),
		"sorted l1":       must(clustered.NewSortedL1([]float64{2, 1, 1, 0})),
		"group linf":      must(prox.NewGroupLinf(dev, 4, 1, [][]int{{0, 2, 3}}, nil)),
		"simplex":         cones.NewSimplex(4, 1),
		"l1 ball":         cones.NewL1Ball(4, 1),
	}
}

func TestHostProxesNameTheEntryThatIsNoNumber(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		v := dev.Alloc(2, 4)
		for name, p := range hostProxes(dev) {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
				dev.Upload(v, []float64{1, 2, 3, 4, 1, 2, bad, 4})
				err := p.Eval(v, v, 1)
				if err == nil || !strings.Contains(err.Error(), name+": entry 2 of vector 1 is "+fmt.Sprint(bad)) {
					t.Errorf("%s of %v: got %v", name, bad, err)
				}
				w := v.Rows(1, 2)
				dev.Upload(w, []float64{1, 2, bad, 4})
				live := dev.Stats().Live
				j, err := p.Linearize(w, w, 1)
				if err == nil || j != nil {
					t.Errorf("%s linearized at %v: got %v, %v", name, bad, j, err)
				}
				if now := dev.Stats().Live; now != live {
					t.Errorf("%s: %d batches on loan after a refused Linearize, %d before", name, now, live)
				}
			}
		}
	})
}

func TestHostProxesSurviveTheLargestAndTheSmallestNumbers(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for name, p := range hostProxes(dev) {
			for _, size := range []float64{1e290, 1e-300, 5e-324} {
				v := dev.Alloc(1, 4)
				dev.Upload(v, []float64{size, -size, size, 0})
				for _, step := range []float64{1, 5e-324, 1e300} {
					b := dev.Alloc(1, 4)
					if err := p.Eval(b, v, step); err != nil {
						t.Fatal(err)
					}
					for i, x := range b.ToHost() {
						if !(math.Abs(x) <= max(size, 1)) {
							t.Errorf("%s of entries of size %v, t = %v: %v at %d", name, size, step, x, i)
						}
					}
					b.Free()
				}
				v.Free()
			}
		}
	})
}

func TestEmptyVectorsPassThrough(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		v := dev.Alloc(1, 0)
		for name, p := range map[string]prox.Prox{
			"total variation": clustered.NewTV1D(0, 1),
			"simplex":         cones.NewSimplex(0, 1),
			"l1 ball":         cones.NewL1Ball(0, 1),
			"linf ball":       prox.NewLinfBall(0, 1),
		} {
			j, err := p.Linearize(v, v, 1)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			j.Apply(v, v)
			j.Release()
		}
	})
}

// TestDerivativesAtKinksAreLimits checks that what a derivative is at a kink is
// what it is at points nearby, an element of the Clarke Jacobian: on grids of
// integers, where kinks abound.
func TestDerivativesAtKinksAreLimits(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		source := rand.NewPCG(5, 0)
		rng := rand.New(source)
		for name, c := range map[string]struct {
			p prox.Prox
			n int
		}{
			"TV1D":                  {clustered.NewTV1D(4, 1), 4},
			"TV1D, lambda 1/2":      {clustered.NewTV1D(4, 0.5), 4},
			"SortedL1":              {must(clustered.NewSortedL1([]float64{2, 1, 0})), 3},
			"SortedL1, constant":    {must(clustered.NewSortedL1([]float64{1, 1, 1})), 3},
			"SortedL1, linf":        {must(clustered.NewSortedL1([]float64{2, 0, 0})), 3},
			"SortedL1, two and one": {must(clustered.NewSortedL1([]float64{1, 1, 0.5})), 3},
			"GroupLinf":             {must(prox.NewGroupLinf(dev, 4, 1, [][]int{{0, 1, 3}}, nil)), 4},
			"Simplex":               {cones.NewSimplex(3, 2), 3},
			"L1Ball":                {cones.NewL1Ball(3, 2), 3},
			"LinfBall":              {prox.NewLinfBall(2, 1), 2},
		} {
			source.Seed(5, 0)
			v, near := make([]float64, c.n), make([]float64, c.n)
			points := 1
			for range c.n {
				points *= 5
			}
			for code := range points {
				rest := code
				for i := range v {
					v[i] = float64(rest%5 - 2)
					rest /= 5
				}
				_, at := jacobian(t, dev, c.p, v, 1)
				found := false
				for trial := 0; trial < 400 && !found; trial++ {
					for i := range near {
						near[i] = v[i] + 1e-7*rng.NormFloat64()
					}
					_, rows := jacobian(t, dev, c.p, near, 1)
					found = true
					for i := range rows {
						for k := range rows[i] {
							found = found && math.Abs(rows[i][k]-at[i][k]) < 1e-12
						}
					}
				}
				if !found {
					t.Errorf("%s at %v: J = %v is not among 400 derivatives nearby", name, v, at)
				}
			}
		}
	})
}

func TestSequenceProxesConformAtKinks(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		points := proxtest.Points(
			[]float64{0, 0, 0, 0, 0, 0}, []float64{1, 1, 1, 1, 1, 1}, []float64{0, 2, 0, 2, 0, 2},
			[]float64{3, 3, -3, 1, 1, 0}, []float64{1, 2, 3, 4, 5, 6}, []float64{-1e3, 1e3, 0, 0, 1, -1},
		)
		for name, p := range map[string]prox.Prox{
			"TV1D":      clustered.NewTV1D(6, 1),
			"SortedL1":  must(clustered.NewSortedL1([]float64{3, 2, 1, 1, 0.5, 0})),
			"GroupLinf": must(prox.NewGroupLinf(dev, 6, 1, [][]int{{0, 1, 2}, {3, 4, 5}}, nil)),
			"Simplex":   cones.NewSimplex(6, 3),
			"L1Ball":    cones.NewL1Ball(6, 3),
			"LinfBall":  prox.NewLinfBall(6, 1),
		} {
			if err := proxtest.Check(dev, p, 6, points, proxtest.Steps(0.5, 1, 2)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
