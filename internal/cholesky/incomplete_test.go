package cholesky

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"surepipe/internal/lists"
)

// Without a tolerance an incomplete factor is the factor; with one it has fewer entries, and is near. The same with
// blocks.
func TestIncomplete(t *testing.T) {
	for width := range 4 {
		ptr, index, value := grid(rand.New(rand.NewPCG(3, 4)), 40, 30)
		if width++; width > 1 {
			ptr, index, value = channels(ptr, index, value, width)
		}
		exact, err := Analyze(ptr, index, math.MaxInt64).Factorize(value)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []*Analysis{Analyze(ptr, index, math.MaxInt64), InOrder(ptr, index)} {
			testIncomplete(t, a, exact, value, width)
		}
	}
}

func testIncomplete(t *testing.T, a *Analysis, exact *Factor, value []float64, width int) {
	n := len(a.order)
	if place := slices.Sorted(slices.Values(a.order)); !slices.Equal(place, lists.Make(n, func(i int) int32 {
		return int32(i)
	})) {
		t.Fatalf("the order is no permutation: %v", a.order)
	}
	rhs := make([]float64, n)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range rhs {
		rhs[i] = rng.NormFloat64()
	}
	solve := func(f *Factor) []float64 {
		x := make([]float64, n)
		f.Solve([][]float64{x}, [][]float64{rhs})
		return x
	}
	want := solve(exact)
	for _, c := range []struct{ drop, near float64 }{{0, 1e-6}, {1e-4, 0.03}} {
		f := a.Incomplete(value, c.drop)
		if f.block != width {
			t.Errorf("blocks of %d, want %d", f.block, width)
		}
		error2, size2 := 0.0, 0.0
		for i, v := range solve(f) {
			error2, size2 = error2+(v-want[i])*(v-want[i]), size2+want[i]*want[i]
		}
		if off := math.Sqrt(error2 / size2); !(off < c.near) {
			t.Errorf("blocks of %d, drop %g: the solution is off by %.2g of its size, want at most %g", width, c.drop,
				off, c.near)
		}
		procs := runtime.GOMAXPROCS(4)
		shared := solve(f)
		runtime.GOMAXPROCS(1)
		alone := solve(f)
		again := a.Incomplete(value, c.drop)
		runtime.GOMAXPROCS(procs)
		if !slices.Equal(shared, alone) {
			t.Errorf("blocks of %d, drop %g: a solution by one processor has other bits", width, c.drop)
		}
		if len(f.trees) < 2 {
			t.Errorf("blocks of %d, drop %g: %d trees", width, c.drop, len(f.trees))
		}
		if !slices.EqualFunc(f.segments, again.segments, func(p, q segment) bool {
			return p.first == q.first && slices.Equal(p.index, q.index) && slices.Equal(p.short, q.short)
		}) {
			t.Errorf("blocks of %d, drop %g: a factor by one processor has other bits", width, c.drop)
		}
		if c.drop > 0 && f.Bytes() > exact.Bytes()/2 {
			t.Errorf("blocks of %d, drop %g: %d bytes, of %d of the complete factor", width, c.drop, f.Bytes(),
				exact.Bytes())
		}
	}
}

// A pivot that is lost does not stop the factorization, and the result is positive definite.
func TestIncompleteKeepsPositive(t *testing.T) {
	// Not positive definite: the second pivot is 1 - 4, within a block and of two.
	for _, index := range [][]int32{{0, 1, 0, 1}, {0, 1, 0, 1, 2, 1, 2}} {
		ptr, value := []int64{0, 2, 4}, []float64{1, 2, 2, 1}
		if len(index) > 4 {
			ptr, value = []int64{0, 2, 5, 7}, []float64{1, 2, 2, 1, 0, 0, 1}
		}
		f := Analyze(ptr, index, math.MaxInt64).Incomplete(value, 0.1)
		for i := range f.n / f.block {
			in := slices.IndexFunc(f.segments, func(s segment) bool { return s.end() > i })
			_, l, _ := f.segments[in].numbers(i, nil)
			for p := range f.block {
				if v := l[p*f.block+p]; !(v > 0) {
					t.Errorf("pivot %d of block %d is %g", p, i, v)
				}
			}
		}
	}
}

// The vector instructions compute what the loops do.
func TestLanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for count := range 20 {
		from := lists.Make(count+1, func(int) float32 { return float32(rng.NormFloat64()) })
		to := make([]float64, count+1)
		widen(to, from[:count])
		for i, got := range to {
			if want := float64(from[i]); i < count && got != want || i == count && got != 0 {
				t.Fatalf("%d numbers: %g and %g at %d", count, got, want, i)
			}
		}
	}
	numbers := func(n int) []float64 { return lists.Make(n, func(int) float64 { return rng.NormFloat64() }) }
	for _, b := range []int{1, 2, 3} {
		for count := range 6 {
			index := lists.Make(count, func(u int) int32 { return int32(2 * u % 9) })
			value, x, v := numbers(count*b*b), numbers(10*b*together), numbers(b*together)
			y, w := slices.Clone(x), slices.Clone(v)
			gather(x, index, value, v, b)
			gatherEach(y, index, value, w, b)
			scatter(x, index, value, v, b)
			scatterEach(y, index, value, w, b)
			for i, got := range append(x, v...) {
				if want := append(y, w...)[i]; math.Abs(got-want) > 1e-13*(1+math.Abs(want)) {
					t.Fatalf("%d blocks of %d: %g and %g at %d", count, b, got, want, i)
				}
			}
		}
	}
}
