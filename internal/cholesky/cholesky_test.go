package cholesky

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// grid is the Laplacian of a rows x cols grid with random weights, plus the identity.
func grid(rng *rand.Rand, rows, cols int) (ptr []int64, index []int32, value []float64) {
	n := rows * cols
	s := make([]map[int32]float64, n)
	for i := range s {
		s[i] = map[int32]float64{int32(i): 1}
	}
	tie := func(i, j int) {
		w := math.Exp(4 * rng.NormFloat64())
		s[i][int32(i)] += w
		s[j][int32(j)] += w
		s[i][int32(j)] -= w
		s[j][int32(i)] -= w
	}
	for i := range rows {
		for j := range cols {
			if i+1 < rows {
				tie(i*cols+j, (i+1)*cols+j)
			}
			if j+1 < cols && i%3 != 0 {
				tie(i*cols+j, i*cols+j+1)
			}
		}
	}
	ptr = make([]int64, 1, n+1)
	for j := range n {
		for i := range n {
			if v, ok := s[j][int32(i)]; ok {
				index, value = append(index, int32(i)), append(value, v)
			}
		}
		ptr = append(ptr, int64(len(value)))
	}
	return ptr, index, value
}

// S times the solution is the right-hand side, for any number of them.
func TestSolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][2]int{{1, 1}, {1, 7}, {5, 4}, {23, 31}, {40, 40}} {
		ptr, index, value := grid(rng, size[0], size[1])
		n := len(ptr) - 1
		a := Analyze(ptr, index, math.MaxInt64)
		f, err := a.Factorize(value)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []int{1, 2, 3, 8, 19} {
			x := make([][]float64, k)
			want := make([][]float64, k)
			for i := range x {
				x[i], want[i] = make([]float64, n), make([]float64, n)
				for j := range n {
					want[i][j] = rng.NormFloat64()
				}
				for j := range n {
					for u := ptr[j]; u < ptr[j+1]; u++ {
						x[i][index[u]] += value[u] * want[i][j]
					}
				}
			}
			alone := slices.Clone(x[0])
			f.Solve(x, x)
			a.Solve(f, alone)
			x, want = append(x, alone), append(want, want[0])
			for i := range x {
				for j := range n {
					if math.Abs(x[i][j]-want[i][j]) > 1e-6*(1+math.Abs(want[i][j])) {
						t.Fatalf("%v, solution %d of %d: entry %d is %g, want %g", size, i, k, j, x[i][j], want[i][j])
					}
				}
			}
		}
		seen := make([]bool, n)
		for _, v := range f.order {
			seen[v] = true
		}
		for v, ok := range seen {
			if !ok {
				t.Errorf("%v: node %d is missing in the order", size, v)
			}
		}
	}
}

// A grid's factor has O(n log n) entries.
func TestOrderKeepsFactorsSparse(t *testing.T) {
	ptr, index, _ := grid(rand.New(rand.NewPCG(3, 4)), 60, 60)
	n := float64(len(ptr) - 1)
	if got, most := float64(Analyze(ptr, index, math.MaxInt64).Nonzeros), 6*n*math.Log2(n); got > most {
		t.Errorf("%g entries, want at most %g", got, most)
	}
}

func TestFactorizeRejects(t *testing.T) {
	if _, err := Analyze([]int64{0, 2, 4}, []int32{0, 1, 0, 1}, math.MaxInt64).Factorize([]float64{1, 2, 2, 1}); err == nil {
		t.Error("no error for an indefinite matrix")
	}
}

func ExampleAnalysis() {
	// [4 1; 1 3] x = [1 2]*
	a := Analyze([]int64{0, 2, 4}, []int32{0, 1, 0, 1}, math.MaxInt64)
	f, err := a.Factorize([]float64{4, 1, 1, 3})
	if err != nil {
		panic(err)
	}
	x := [][]float64{{1, 2}}
	f.Solve(x, x)
	fmt.Printf("%.4f\n", x[0])
	// Output: [0.0909 0.6364]
}

// channels are a matrix's Kronecker product with one of width x width: node c n + v is channel c of node v.
func channels(ptr []int64, index []int32, value []float64, width int) (wide []int64, all []int32, values []float64) {
	n := len(ptr) - 1
	wide = make([]int64, 1)
	for v := range n * width {
		for c := range width {
			for u := ptr[v%n]; u < ptr[v%n+1]; u++ {
				all = append(all, int32(c*n)+index[u])
				values = append(values, value[u]/float64(1+max(c-v/n, v/n-c)))
			}
		}
		wide = append(wide, int64(len(all)))
	}
	return wide, all, values
}

// Nodes with the same neighbours are ordered together, and the factor has as few entries as the blocks of that of
// one node a group.
func TestOrderOfGroups(t *testing.T) {
	const width = 3
	ptr, index, value := grid(rand.New(rand.NewPCG(5, 6)), 40, 40)
	n := len(ptr) - 1
	wide, all, _ := channels(ptr, index, value, width)
	if _, _, groups := alike(wide, all); groups != n {
		t.Fatalf("%d groups, want %d", groups, n)
	}
	seen := make([]bool, n*width)
	order, block := orderBy(orderNodes, wide, all)
	if block != width {
		t.Errorf("blocks of %d, want %d", block, width)
	}
	for at, v := range order {
		if seen[v] || at%width > 0 && int(v)%n != int(order[at-1])%n {
			t.Fatalf("node %d at %d", v, at)
		}
		seen[v] = true
	}
	one, got := Analyze(ptr, index, math.MaxInt64).Nonzeros, Analyze(wide, all, math.MaxInt64).Nonzeros
	if most := width * width * one * 3 / 2; got > most {
		t.Errorf("%d entries, want at most %d", got, most)
	}
	if a := Analyze(wide, all, one); a.Nonzeros <= one || a.nodes != nil {
		t.Errorf("the analysis goes on beyond %d entries", one)
	}
}

// Flat regions of an image, whose pixels are one unknown, leave few entries in a factor.
func TestHubsComeLast(t *testing.T) {
	const side, region = 90, 30
	of := func(i, j int) int32 { // the middle of every square of 30 x 30 pixels is one node
		if a, b := i%region, j%region; a < 3 || a > 26 || b < 3 || b > 26 {
			return int32(i*side + j)
		}
		return int32((i/region*region+3)*side + j/region*region + 3)
	}
	entries := func(of func(i, j int) int32) int64 {
		number, near := map[int32]int32{}, []map[int32]bool{}
		add := func(v int32) int32 {
			if _, ok := number[v]; !ok {
				number[v], near = int32(len(near)), append(near, map[int32]bool{int32(len(near)): true})
			}
			return number[v]
		}
		for i := range side {
			for j := range side {
				v := add(of(i, j))
				for _, at := range [][2]int{{i + 1, j}, {i, j + 1}} {
					if at[0] < side && at[1] < side {
						w := add(of(at[0], at[1]))
						near[v][w], near[w][v] = true, true
					}
				}
			}
		}
		ptr, index := []int64{0}, []int32(nil)
		for _, of := range near {
			index = append(index, slices.Sorted(maps.Keys(of))...)
			ptr = append(ptr, int64(len(index)))
		}
		return Analyze(ptr, index, math.MaxInt64).Nonzeros
	}
	pixels, regions := entries(func(i, j int) int32 { return int32(i*side + j) }), entries(of)
	if t.Logf("%d entries for pixels, %d for regions", pixels, regions); regions > pixels/4 {
		t.Errorf("%d entries for regions, want at most a quarter of the %d for pixels", regions, pixels)
	}
}
