package rewrite_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/solve"
)

// unevenRows is a problem whose K has rows of length 1 times powers of two over seven decades, and the same
// problem with rows of length 1 and those powers in the weights.
func unevenRows(t *testing.T, dev array.Device, groups bool) (uneven, even solve.Problem, y array.Batch) {
	rng := rand.New(rand.NewPCG(5, 9))
	const d, p, q = 30, 12, 20
	gauss := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	x, k := linops.NewDense(dev, mat.NewDense(d, p, gauss(d*p))), mat.NewDense(q, p, gauss(q*p))
	t.Cleanup(x.Release)
	s, weights := make([]float64, q), make([]float64, q)
	var members [][]int
	var groupWeights, groupScaled []float64
	for i := range q {
		row := k.RawRowView(i)
		n := 0.0
		for _, v := range row {
			n = math.Hypot(n, v)
		}
		for j := range row {
			row[j] /= n
		}
		s[i], weights[i] = math.Ldexp(1, (i/2*7)%24-12), 3
		if i%2 == 0 {
			members = append(members, []int{i, i + 1})
			groupWeights, groupScaled = append(groupWeights, 3), append(groupScaled, 3*s[i])
		}
	}
	plain := linops.NewDense(dev, k)
	scaled := linops.ScaleRows(dev, plain, s)
	t.Cleanup(plain.Release)
	t.Cleanup(scaled.Release)
	penalty := func(w, gw []float64) prox.Prox {
		var r prox.Prox
		var err error
		if groups {
			r, err = prox.NewGroupL2(dev, q, 1, members, gw)
		} else {
			r, err = prox.NewWeightedL1(dev, 1, w)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { prox.Release(r) })
		return r
	}
	scaledWeights := slices.Clone(weights)
	for i := range scaledWeights {
		scaledWeights[i] *= s[i]
	}
	uneven = solve.Problem{A: x, K: scaled, R: penalty(weights, groupWeights), Device: dev}
	even = solve.Problem{A: x, K: plain, R: penalty(scaledWeights, groupScaled), Device: dev}
	y = dev.Alloc(1, d)
	t.Cleanup(y.Free)
	dev.Upload(y, gauss(d))
	return uneven, even, y
}

// The units of K's rows change no bit: the problem is solved as the one whose weights have them. So is that with
// another weight.
func TestUnevenRows(t *testing.T) {
	for _, c := range []struct {
		name   string
		groups bool
	}{{"admm", false}, {"admm", true}, {"interior-point", false}} {
		name, groups := c.name, c.groups
		t.Run(name, func(t *testing.T) {
			dev := array.NewHost()
			t.Cleanup(func() { dev.Close() })
			arraytest.NoLeak(t, dev)
			uneven, even, y := unevenRows(t, dev, groups)
			run := func(s solve.Solver) []float64 {
				sol, err := s.Solve(context.Background(), y, solve.From{})
				if err != nil {
					t.Fatal(err)
				}
				defer sol.Release()
				if !sol.Converged {
					t.Errorf("not converged: %d iterations, %g", sol.Iterations, sol.Optimality)
				}
				return sol.B.ToHost()
			}
			solver := func(p solve.Problem) solve.Solver {
				s, err := solve.New(context.Background(), name, p, solve.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			a, b := solver(uneven), solver(even)
			defer b.Release()
			defer a.Release()
			if got, want := run(a), run(b); !slices.Equal(got, want) {
				t.Errorf("b = %g, want %g", got, want)
			}
			other := uneven
			other.R = prox.NewL1(0.5)
			c, err := a.Reweight(context.Background(), other.R)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			e := solver(other)
			defer e.Release()
			if got, want := run(c), run(e); !slices.Equal(got, want) {
				t.Errorf("with another weight b = %g, want %g", got, want)
			}
		})
	}
}

// The table says what it did with K's rows.
func TestRowsChosen(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	uneven, even, y := unevenRows(t, dev, false)
	fixed := uneven
	sorted, err := clustered.NewSortedL1(descending(20))
	if err != nil {
		t.Fatal(err)
	}
	fixed.R = sorted
	for _, c := range []struct {
		p    solve.Problem
		want string
	}{{uneven, "rows of about unit length"}, {even, "the user's"}, {fixed, "the user's"}} {
		s, err := solve.New(context.Background(), "admm", c.p, solve.Options{MaxIter: 2})
		if err != nil {
			t.Fatal(err)
		}
		sol, err := s.Solve(context.Background(), y, solve.From{})
		if err != nil {
			t.Fatal(err)
		}
		if got := sol.Choices[0]; got.Part != "rows" || got.Chosen != c.want {
			t.Errorf("the first choice is %+v, want %q", got, c.want)
		}
		sol.Release()
		s.Release()
	}
}

// descending is n, n-1, ..., 1.
func descending(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = float64(n - i)
	}
	return w
}

// Columns of X of lengths from 1e-5 to 1e5 leave the linear systems of ADMM with rows of K in their units well
// conditioned, in units of b in which their diagonals are even; and where ADMM cannot go on interior points do.
func TestColumnsFarApartBehindK(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(11, 12))
		const d, p = 22, 22
		x := mat.NewDense(d, p, nil)
		y := make([]float64, d)
		for j := range p {
			unit := math.Pow(10, 10*rng.Float64()-5)
			for i := range d {
				x.Set(i, j, unit*rng.NormFloat64())
			}
		}
		for i := range y {
			y[i] = 4 * rng.NormFloat64()
		}
		a := linops.NewDense(dev, x)
		defer a.Release()
		at := dev.Put(y, 1, d)
		defer at.Free()
		problem := solve.Problem{A: a, K: imaging.NewDifference1D(p), R: prox.NewL1(3), Device: dev}
		var mu [2][]float64
		for i, name := range []string{"active-set", "interior-point"} {
			s, err := solve.New(context.Background(), name, problem, solve.Options{Sigma2: 1})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			sol, err := s.Solve(context.Background(), at, solve.From{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !sol.Converged {
				t.Errorf("%s: %+v", name, sol.Convergence)
			}
			mu[i] = sol.MuHat.ToHost()
			sol.Release()
			s.Release()
		}
		if off := floats.Distance(mu[0], mu[1], 2); !(off < 1e-2) {
			t.Errorf("the two are %g apart", off)
		}
	})
}
