package cholesky

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// L is the factor of the matrix in the order of the analysis, for fronts of any size and for matrices that fall
// apart, and has no more entries than it should.
func TestFactorize(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, size := range [][3]int{{1, 1, 1}, {1, 30, 1}, {2, 3, 1}, {13, 17, 1}, {30, 30, 1}, {10, 5, 30}, {3, 1, 250}} {
		ptr, index, value := grid(rng, size[0], size[1])
		ptr, index, value = channels(ptr, index, value, size[2])
		n := len(ptr) - 1
		a := Analyze(ptr, index, math.MaxInt64)
		f, err := a.Factorize(value)
		if err != nil {
			t.Fatal(err)
		}
		turned := mat.NewSymDense(n, nil)
		for j := range n {
			for u := ptr[j]; u < ptr[j+1]; u++ {
				turned.SetSym(int(a.place[index[u]]), int(a.place[j]), value[u])
			}
		}
		var want mat.Cholesky
		if !want.Factorize(turned) {
			t.Fatal("the matrix has no factor")
		}
		var l mat.TriDense
		want.LTo(&l)
		entries := int64(0)
		for k := range n {
			column := make([]float64, n)
			index, value := f.segments[0].column(k)
			for u, i := range index {
				column[i] = value[u]
			}
			for i := k; i < n; i++ {
				if v := l.At(i, k); math.Abs(v-column[i]) > 1e-10*math.Sqrt(turned.At(i, i)) {
					t.Fatalf("%v: L has %g at (%d, %d), want %g", size, column[i], i, k, v)
				}
			}
			if index[0] != int32(k) {
				t.Fatalf("%v: column %d does not begin with its diagonal entry", size, k)
			}
			entries += int64(len(index))
		}
		if entries > a.stored || float64(a.Nonzeros) < (1-mostZeros)*float64(entries)-8 {
			t.Errorf("%v: %d entries are stored for %d", size, entries, a.Nonzeros)
		}
	}
}

// The bits depend neither on the number of processors nor on what the memory held before.
func TestFactorizeInto(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	ptr, index, value := grid(rng, 50, 40)
	a := Analyze(ptr, index, math.MaxInt64)
	one, err := a.Factorize(value)
	if err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(value)
	for i := range other {
		other[i] *= 3
	}
	again := new(Factor)
	if err := a.FactorizeInto(again, other); err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if err := a.FactorizeInto(again, value); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(one.segments[0].value, again.segments[0].value) {
		t.Error("a factor in memory that was used, by one processor, has other bits")
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1} {
		for _, at := range []int{0, len(value) / 2, len(value) - 1} {
			worse := slices.Clone(value)
			col, _ := slices.BinarySearch(ptr, int64(at)+1)
			for u := ptr[col-1]; u < ptr[col]; u++ {
				if int(index[u]) == col-1 {
					worse[u] = bad
				}
			}
			if err := a.FactorizeInto(again, worse); err == nil {
				t.Errorf("no error for a diagonal entry of %g", bad)
			}
		}
	}
}

// An incomplete factor of weights that differ by many orders stays finite, and its rows small.
func TestIncompleteStaysSmall(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	ptr, index, value := grid(rng, 30, 30)
	for j := range len(ptr) - 1 { // tie some pixels as strongly as zeros of a gradient do
		for u := ptr[j]; u < ptr[j+1]; u++ {
			if i := int(index[u]); i != j && (i+j)%3 == 0 {
				more := 1e9 * rng.Float64()
				for _, at := range [][2]int{{i, j}, {j, i}} {
					for v := ptr[at[0]]; v < ptr[at[0]+1]; v++ {
						switch int(index[v]) {
						case at[0]:
							value[v] += more
						case at[1]:
							value[v] -= more
						}
					}
				}
			}
		}
	}
	f := Analyze(ptr, index, math.MaxInt64).Incomplete(value, 1e-2)
	for i, v := range f.segments[0].value {
		if math.IsNaN(v) || math.Abs(v) > 1e7 {
			t.Fatalf("entry %d is %g", i, v)
		}
	}
}

// A factor counts what it keeps for the next factorization and the next solve.
func TestBytesCountWhatIsKept(t *testing.T) {
	ptr, index, value := grid(rand.New(rand.NewPCG(7, 8)), 40, 40)
	a := Analyze(ptr, index, math.MaxInt64)
	once, err := a.Factorize(value)
	if err != nil {
		t.Fatal(err)
	}
	var again Factor
	if err := a.FactorizeInto(&again, value); err != nil {
		t.Fatal(err)
	}
	n, front := len(ptr)-1, 0
	for _, s := range a.nodes {
		front = max(front, len(s.to))
	}
	if least := 8 * int64(front*front); again.Bytes() < once.Bytes()+least {
		t.Errorf("%d bytes with fronts, %d without, want %d more", again.Bytes(), once.Bytes(), least)
	}
	before, x := once.Bytes(), [][]float64{make([]float64, n)}
	once.Solve(x, x)
	once.Solve(x, x)
	if more := once.Bytes() - before; more != 8*together*int64(n) {
		t.Errorf("%d bytes after solves, want %d", more, 8*together*n)
	}
}
