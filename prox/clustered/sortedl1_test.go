package clustered_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/prox/clustered"
)

// permutations calls f with every order of 0..n-1.
func permutations(n int, f func(order []int)) {
	order := make([]int, 0, n)
	var extend func()
	extend = func() {
		if len(order) == n {
			f(order)
			return
		}
		for j := range n {
			if !slices.Contains(order, j) {
				order = append(order, j)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
}

// bruteSortedL1 minimizes 1/2 ||b - v||^2 + sum lambda_i |b|_(i) over every order of
// the magnitudes, every partition of that order into ties, and every tail of
// zeros. The objective is the definition's.
func bruteSortedL1(v, lambda []float64) []float64 {
	n := len(v)
	best, least := make([]float64, n), math.Inf(1)
	b, size := make([]float64, n), make([]float64, n)
	permutations(n, func(order []int) {
		for cuts := range 1 << n {
			for active := range n + 1 {
				clear(b)
				start := 0
				for i := range active {
					if i < active-1 && cuts>>i&1 == 0 {
						continue
					}
					mean := 0.0
					for k := start; k <= i; k++ {
						mean += (math.Abs(v[order[k]]) - lambda[k]) / float64(i+1-start)
					}
					for k := start; k <= i; k++ {
						b[order[k]] = math.Copysign(max(mean, 0), v[order[k]])
					}
					start = i + 1
				}
				f := 0.0
				for i, x := range b {
					f += (x - v[i]) * (x - v[i]) / 2
					size[i] = math.Abs(x)
				}
				slices.Sort(size)
				for i, x := range size {
					f += lambda[n-1-i] * x
				}
				if f < least {
					least = f
					copy(best, b)
				}
			}
		}
	})
	return best
}

func TestSortedL1AgreesWithEveryOrderAndTie(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(6, 0))
		for trial := range 120 {
			n := 1 + trial%4
			v, lambda := make([]float64, n), make([]float64, n)
			for i := range v {
				v[i], lambda[i] = 2*rng.NormFloat64(), 1.5*rng.Float64()
				if trial%3 == 0 {
					v[i], lambda[i] = math.Round(v[i]), math.Round(lambda[i])
				}
			}
			slices.Sort(lambda)
			slices.Reverse(lambda)
			got, rows := jacobian(t, dev, must(clustered.NewSortedL1(lambda)), v, 1)
			want := bruteSortedL1(v, lambda)
			for i := range got {
				if math.Abs(got[i]-want[i]) > 1e-7 {
					t.Fatalf("v = %v, lambda = %v: got %v, want %v", v, lambda, got, want)
				}
			}
			if trial%3 == 0 {
				continue // integers: a tie need not be a pool
			}
			var levels []float64
			for _, x := range want {
				if x != 0 && !slices.ContainsFunc(levels,
					func(l float64) bool { return math.Abs(l-math.Abs(x)) < 1e-9 }) {
					levels = append(levels, math.Abs(x))
				}
			}
			if tr := trace(rows); math.Abs(tr-float64(len(levels))) > 1e-12 {
				t.Fatalf("v = %v, lambda = %v: divergence %v, want the %d magnitudes of %v", v, lambda, tr,
					len(levels), want)
			}
		}
	})
}

func TestSortedL1MeetsItsOptimalityConditions(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		// b is the optimum if and only if v - b is in the dual ball, whose sorted
		// magnitudes have partial sums of at most lambda's, and <v - b, b> = r(b).
		const n = 3000
		v := normal(10, n)
		for i := range 50 {
			v[i] += 6
		}
		for name, lambda := range map[string][]float64{
			"linear":   linear(n, 4, 0.01),
			"constant": linear(n, 1, 1),
			"to zero":  linear(n, 2, 0),
			"two":      slices.Concat(linear(n/2, 2, 2), linear(n/2, 0, 0)),
		} {
			p := must(clustered.NewSortedL1(lambda))
			b := evaluateOn(t, dev, p, v, 1)
			dual, inner := make([]float64, n), 0.0
			for i := range b {
				dual[i] = math.Abs(v[i] - b[i])
				inner += (v[i] - b[i]) * b[i]
			}
			slices.Sort(dual)
			slices.Reverse(dual)
			sum, bound := 0.0, 0.0
			for i := range dual {
				sum += dual[i]
				bound += lambda[i]
				if sum > bound+1e-9 {
					t.Errorf("%s: the %d largest dual entries sum to %v, want at most %v", name, i+1, sum, bound)
					break
				}
			}
			x := dev.Alloc(1, n)
			dev.Upload(x, b)
			if r := prox.StructureOf(p).Value(x); math.Abs(inner-r) > 1e-9*r {
				t.Errorf("%s: <v - b, b> = %v, r(b) = %v", name, inner, r)
			}
		}
	})
}

func TestConstantSortedL1IsL1(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		v := []float64{3, -3, 3, 0.5, -1, 1, 0, -2, 2, 2}
		for _, lambda := range []float64{0, 1, 0.3, math.Inf(1)} {
			b, rows := jacobian(t, dev, must(clustered.NewSortedL1(slices.Repeat([]float64{lambda}, len(v)))), v, 1)
			c, want := jacobian(t, dev, prox.NewL1(lambda), v, 1)
			if !slices.Equal(b, c) {
				t.Errorf("lambda = %v: got %v, want %v", lambda, b, c)
			}
			for i := range rows {
				if !slices.Equal(rows[i], want[i]) {
					t.Errorf("lambda = %v: row %d of J is %v, want %v", lambda, i, rows[i], want[i])
				}
			}
		}
	})
}

func TestSortedL1WithTheFirstWeightAloneIsLinf(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		// lambda = (2, 0, 0, 0) is 2 ||b||_inf, one group.
		linf := must(prox.NewGroupLinf(dev, 4, 2, [][]int{{0, 1, 2, 3}}, nil))
		sorted := must(clustered.NewSortedL1([]float64{2, 0, 0, 0}))
		for seed := range uint64(50) {
			v := normal(seed, 4)
			for i := range v {
				v[i] *= 2
			}
			b, j := jacobian(t, dev, sorted, v, 0.7)
			c, k := jacobian(t, dev, linf, v, 0.7)
			for i := range b {
				if math.Abs(b[i]-c[i]) > 1e-14 {
					t.Fatalf("v = %v: sorted l1 gives %v, linf %v", v, b, c)
				}
				for l := range j[i] {
					if math.Abs(j[i][l]-k[i][l]) > 1e-14 {
						t.Fatalf("v = %v: J is %v and %v", v, j, k)
					}
				}
			}
		}
	})
}

func TestSortedL1WithoutTiesIsMasked(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		p := must(clustered.NewSortedL1([]float64{2, 1.5, 1, 0.5}))
		for _, c := range []struct {
			v        []float64
			diagonal bool
		}{
			{[]float64{9, -7, 5, 0.1}, true},
			{[]float64{9, -8.9, 5, 0.1}, false},
			{[]float64{0, 0, 0, 0}, true},
		} {
			v := dev.Alloc(1, 4)
			dev.Upload(v, c.v)
			j, err := p.Linearize(v, v, 1)
			if err != nil {
				t.Fatal(err)
			}
			if ok := !j.Diagonal().IsZero(); ok != c.diagonal {
				t.Errorf("v = %v: derivative %T, want diagonal: %t", c.v, j, c.diagonal)
			}
			j.Release()
			v.Free()
		}
	})
}
