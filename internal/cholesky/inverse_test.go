package cholesky

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// The entries of the inverse are those of dense algebra, on grids, in parts that fall apart, and for a
// matrix M*M.
func TestInverse(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	check := func(ptr []int64, index []int32, value []float64) {
		t.Helper()
		n := len(ptr) - 1
		a := Analyze(ptr, index, math.MaxInt64)
		f, err := a.Factorize(value)
		if err != nil {
			t.Fatal(err)
		}
		s := mat.NewDense(n, n, nil)
		for j := range n {
			for u := ptr[j]; u < ptr[j+1]; u++ {
				s.Set(int(index[u]), j, value[u])
			}
		}
		var want mat.Dense
		if err := want.Inverse(s); err != nil {
			t.Fatal(err)
		}
		got := a.Inverse(f)
		for j := range n {
			for u := ptr[j]; u < ptr[j+1]; u++ {
				if v := want.At(int(index[u]), j); math.Abs(got[u]-v) > 1e-10*want.At(j, j) {
					t.Fatalf("n = %d: entry (%d, %d) of the inverse is %g, expected %g", n, index[u], j, got[u], v)
				}
			}
		}
	}
	for _, size := range [][2]int{{1, 1}, {1, 30}, {2, 3}, {13, 17}, {24, 21}} {
		check(grid(rng, size[0], size[1]))
	}
	const n, q = 70, 190
	ptr, index, value, weight := []int{0}, []int(nil), []float64(nil), make([]float64, q)
	for i := range q {
		weight[i] = rng.Float64()
		for range 1 + i%3 {
			index, value = append(index, (i+rng.IntN(1+i%9))%n), append(value, rng.NormFloat64())
		}
		ptr = append(ptr, len(index))
	}
	x := mat.NewDense(q, n, nil)
	for i := range q {
		for u := ptr[i]; u < ptr[i+1]; u++ {
			x.Set(i, index[u], x.At(i, index[u])+math.Sqrt(weight[i])*value[u])
		}
	}
	columns, rows, entries := Normal(n, ptr, index, value, weight)
	var want mat.Dense
	want.Mul(x.T(), x)
	for j := range n {
		for u := columns[j]; u < columns[j+1]; u++ {
			if math.Abs(entries[u]-want.At(int(rows[u]), j)) > 1e-12 {
				t.Fatalf("entry (%d, %d) of M*M is %g, expected %g", rows[u], j, entries[u], want.At(int(rows[u]), j))
			}
		}
	}
	check(columns, rows, entries)
}
