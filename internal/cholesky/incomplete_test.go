package cholesky

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Without a tolerance an incomplete factor is the factor; with one it has fewer entries, and is near.
func TestIncomplete(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	ptr, index, value := grid(rng, 40, 30)
	n := len(ptr) - 1
	a := Analyze(ptr, index, math.MaxInt64)
	exact, err := a.Factorize(value)
	if err != nil {
		t.Fatal(err)
	}
	rhs := make([]float64, n)
	for i := range rhs {
		rhs[i] = rng.NormFloat64()
	}
	solve := func(f *Factor) []float64 {
		x := make([]float64, n)
		f.Solve([][]float64{x}, [][]float64{rhs})
		return x
	}
	want := solve(exact)
	for _, c := range []struct{ drop, near float64 }{{0, 1e-12}, {1e-4, 0.02}} {
		f := a.Incomplete(value, c.drop)
		error2, size2 := 0.0, 0.0
		for i, v := range solve(f) {
			error2, size2 = error2+(v-want[i])*(v-want[i]), size2+want[i]*want[i]
		}
		if off := math.Sqrt(error2 / size2); !(off < c.near) {
			t.Errorf("drop %g: the solution is off by %.2g of its size, want at most %g", c.drop, off, c.near)
		}
		if c.drop > 0 && f.Bytes() > exact.Bytes()/2 {
			t.Errorf("drop %g: %d bytes, of %d of the complete factor", c.drop, f.Bytes(), exact.Bytes())
		}
	}
}

// A pivot that is lost does not stop the factorization, and the result is positive definite.
func TestIncompleteKeepsPositive(t *testing.T) {
	// Not positive definite: the second pivot is 1 - 4.
	f := Analyze([]int64{0, 2, 4}, []int32{0, 1, 0, 1}, math.MaxInt64).Incomplete([]float64{1, 2, 2, 1}, 0.1)
	for i := range f.n {
		if v := f.value[f.ptr[i]]; !(v > 0) {
			t.Errorf("pivot %d is %g", i, v)
		}
	}
}

// The vector instructions compute what the loops do.
func TestLanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for count := range 6 {
		index, value := make([]int32, count), make([]float64, count)
		x := make([]float64, 10*together)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		for u := range index {
			index[u], value[u] = int32(2*u%9), rng.NormFloat64()
		}
		y := append([]float64(nil), x...)
		var v, w [together]float64
		for j := range v {
			v[j] = rng.NormFloat64()
		}
		w = v
		gather(x, index, value, &v)
		gatherEach(y, index, value, &w)
		scatter(x, index, value, &v)
		scatterEach(y, index, value, &v)
		for i := range x {
			if math.Abs(x[i]-y[i]) > 1e-14*(1+math.Abs(y[i])) || math.Abs(v[i%together]-w[i%together]) > 1e-14 {
				t.Fatalf("%d entries: %v and %v, %v and %v", count, x[i], y[i], v, w)
			}
		}
	}
}
