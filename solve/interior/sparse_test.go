package interior_test

import (
	"context"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/limits"
)

// steep is a smooth image with a slope and an edge, on which large weights leave wide regions, and little noise.
func steep(rng *rand.Rand, rows, cols int) []float64 {
	y := make([]float64, rows*cols)
	for i := range rows {
		for j := range cols {
			y[i*cols+j] = 2*math.Sin(float64(i)/7) + float64(j)/5 + 0.01*rng.NormFloat64()
			if i > rows/2 {
				y[i*cols+j] += 3
			}
		}
	}
	return y
}

// sparseCase is a problem with a sparse K and A*A = c I.
type sparseCase struct {
	name string
	p    solve.Problem
	y    []float64
}

func sparseCases(t *testing.T, dev array.Device) []sparseCase {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 9))
	const rows, cols = 14, 11
	image, n := steep(rng, rows, cols), rows*cols
	k := imaging.NewGradient([]int{rows, cols}, nil, imaging.Reflecting)
	// A graph with edges of three nodes in random groups of one to three rows.
	indptr, to := []int{0}, []int(nil)
	var entries []float64
	var members [][]int
	var weights []float64
	for i := range 90 {
		for range 3 {
			to, entries = append(to, rng.IntN(40)), append(entries, rng.NormFloat64())
		}
		indptr = append(indptr, len(to))
		if i%2 == 0 || rng.IntN(3) == 0 {
			members, weights = append(members, nil), append(weights, 0.2+rng.Float64())
		}
		members[len(members)-1] = append(members[len(members)-1], i)
	}
	graph, err := linops.NewCSR(dev, 90, 40, indptr, to, entries)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(graph.Release)
	groups, err := prox.NewGroupL2(dev, 90, 0.5, members, weights)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prox.Release(groups) })
	y := make([]float64, 40)
	for i := range y {
		y[i] = 3 * rng.NormFloat64()
	}
	var cases []sparseCase
	for _, lambda := range []float64{0.01, 0.5, 3, 20} {
		cases = append(cases,
			sparseCase{fmt.Sprintf("isotropic %g", lambda), solve.Problem{A: linops.Identity(n), K: k,
				R: prox.NewVectorialL2(n, 2, 1, lambda), Device: dev}, image},
			sparseCase{fmt.Sprintf("anisotropic %g", lambda), solve.Problem{A: linops.Identity(n), K: k,
				R: prox.NewL1(lambda), Device: dev}, image})
	}
	colours := imaging.NewGradient([]int{rows, cols, 3}, []int{0, 1}, imaging.Reflecting)
	return append(cases,
		sparseCase{"channels in one norm", solve.Problem{A: linops.Identity(3 * n), K: colours,
			R: prox.NewVectorialL2(n, 2, 3, 1), Device: dev}, slices.Concat(image, steep(rng, rows, cols), image)},
		sparseCase{"groups on a graph", solve.Problem{A: linops.Scale(2, linops.Identity(40)), K: graph, R: groups,
			Device: dev}, y},
		sparseCase{"a graph", solve.Problem{A: linops.Scale(2, linops.Identity(40)), K: graph, R: prox.NewL1(0.4),
			Device: dev}, y},
		sparseCase{"a constant image", solve.Problem{A: linops.Identity(n), K: k, R: prox.NewVectorialL2(n, 2, 1, 1),
			Device: dev}, slices.Repeat([]float64{3}, n)})
}

// Interior points find what alternating directions find, and the same zeros, with a gap that they report; but
// where these take thousands of iterations they take some ten.
func TestSparseInteriorPoints(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range sparseCases(t, dev) {
			arraytest.NoLeak(t, dev)
			y := dev.Put(c.y, 1, len(c.y))
			var b [2][]float64
			var off [2]float64
			for i, name := range []string{"interior-point", "admm"} {
				o := solve.Options{Tol: 1e-10, MaxIter: 20000}
				s, err := solve.New(context.Background(), name, c.p, o)
				if err != nil {
					t.Fatalf("%s: %s: %v", c.name, name, err)
				}
				sol, err := s.Solve(context.Background(), y, solve.From{})
				if err != nil {
					t.Fatalf("%s: %s: %v", c.name, name, err)
				}
				if i == 0 && (!sol.Converged || sol.Iterations > 40) {
					t.Errorf("%s: %+v", c.name, sol.Convergence)
				}
				b[i], off[i] = sol.MuHat.ToHost(), sol.Error
				sol.Release()
				s.Release()
			}
			if d := floats.Distance(b[0], b[1], 2); !(d <= off[0]+off[1]) || off[0] > 1e-3*(1+floats.Norm(c.y, 2)) {
				t.Errorf("%s: %g apart, with errors of at most %g and %g", c.name, d, off[0], off[1])
			}
			y.Free()
		}
	})
}

// A weight for a new solve shares the places of the factor, and gives the bits of a new solver.
func TestSparseInteriorPointsReweighted(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const rows, cols = 9, 8
		y := dev.Put(steep(rand.New(rand.NewPCG(1, 2)), rows, cols), 1, rows*cols)
		defer y.Free()
		p := solve.Problem{A: linops.Identity(rows * cols), K: imaging.NewGradient([]int{rows, cols}, nil,
			imaging.Reflecting), R: prox.NewVectorialL2(rows*cols, 2, 1, 1), Device: dev}
		other := prox.NewVectorialL2(rows*cols, 2, 1, 0.3)
		s, err := solve.New(context.Background(), "interior-point", p, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		again, err := s.Reweight(context.Background(), other)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Release()
		p.R = other
		anew, err := solve.New(context.Background(), "interior-point", p, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer anew.Release()
		var b [2][]float64
		for i, s := range []solve.Solver{again, anew} {
			sol, err := s.Solve(context.Background(), y, solve.From{})
			if err != nil {
				t.Fatal(err)
			}
			b[i] = sol.B.ToHost()
			sol.Release()
		}
		if !floats.Equal(b[0], b[1]) {
			t.Error("a solver with a new weight has other bits than a new solver")
		}
	})
}

// Of larger images the dual comes first, and is named where it suffices or the factor is too large.
func TestDualBeforeInteriorPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const rows, cols = 100, 90
		y := dev.Put(steep(rand.New(rand.NewPCG(1, 2)), rows, cols), 1, rows*cols)
		defer y.Free()
		for _, c := range []struct {
			lambda float64
			method string
			most   int64
		}{{1e-3, "dual", 1 << 26}, {30, "", 1 << 26}, {2, "dual", 100}} {
			defer func(most int64) { limits.Factorized = most }(limits.Factorized)
			limits.Factorized = c.most
			lambda, method := c.lambda, c.method
			p := solve.Problem{A: linops.Identity(rows * cols), K: imaging.NewGradient([]int{rows, cols}, nil,
				imaging.Reflecting), R: prox.NewVectorialL2(rows*cols, 2, 1, lambda), Device: dev}
			s, err := solve.New(context.Background(), solve.Default(p), p, solve.Options{MaxIter: 1500})
			if err != nil {
				t.Fatal(err)
			}
			sol, err := s.Solve(context.Background(), y, solve.From{})
			if err != nil {
				t.Fatal(err)
			}
			if tooLarge := c.most == 100; tooLarge != (sol.Iterations == 1500) || sol.Converged == tooLarge {
				t.Errorf("lambda %g, a factor of at most %d entries: %+v", lambda, c.most, sol.Convergence)
			}
			if sol.Method != method || s.Name() != "interior-point" {
				t.Errorf("lambda %g: solver %q, %+v, want the method %q", lambda, s.Name(), sol.Convergence, method)
			}
			sol.Release()
			s.Release()
		}
	})
}

// Between missing pixels of a photograph, where nothing but K holds b, some multipliers come so near to the edges of
// their balls that a step leads nowhere, unless each product stays in proportion to the mean.
func TestInteriorPointsStayAwayFromEdges(t *testing.T) {
	photograph := camera(t)
	const side, channels = 40, 3
	dev := array.NewHost()
	k := imaging.NewGradient([]int{side, side, channels}, []int{0, 1}, imaging.Reflecting)
	for _, seed := range []uint64{3, 9} {
		rng := rand.New(rand.NewPCG(seed, 5))
		var seen []int
		var values []float64
		left, top := rng.IntN(200), rng.IntN(200)
		for i := range side * side {
			if rng.Float64() < 0.3 {
				continue
			}
			for c := range channels {
				seen = append(seen, i*channels+c)
				values = append(values, photograph(left+i%side+5*c, top+i/side+5*c)+0.1*rng.NormFloat64())
			}
		}
		a, err := linops.NewSelection(dev, side*side*channels, seen)
		if err != nil {
			t.Fatal(err)
		}
		s, err := solve.New(context.Background(), "interior-point", solve.Problem{A: a, K: k,
			R: prox.NewVectorialL2(side*side, 2, channels, 0.2), Device: dev}, solve.Options{Sigma2: 0.01, Tol: 1e-6})
		if err != nil {
			t.Fatal(err)
		}
		sol, err := s.Solve(context.Background(), dev.Put(values, 1, len(values)), solve.From{})
		if err != nil {
			t.Fatal(err)
		}
		if !sol.Converged || sol.Method != "" {
			t.Errorf("seed %d: %q, %+v", seed, sol.Method, sol.Convergence)
		}
		sol.Release()
		s.Release()
	}
}

// Sums of absolute values of differences do not start near what the dual leaves, from where steps lead nowhere.
func TestInteriorPointsOfAbsoluteValuesStartFar(t *testing.T) {
	const side = 112
	dev, photograph := array.NewHost(), camera(t)
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 6))
		left, top := rng.IntN(256-side), rng.IntN(256-side)
		values := make([]float64, side*side)
		for i := range values {
			values[i] = photograph(left+i%side, top+i/side) + 0.1*rng.NormFloat64()
		}
		for _, lambda := range []float64{1, 3, 9} {
			p := solve.Problem{A: linops.Identity(side * side), K: imaging.NewGradient([]int{side, side}, nil,
				imaging.Reflecting), R: prox.NewL1(lambda), Device: dev}
			s, err := solve.New(context.Background(), "interior-point", p, solve.Options{Sigma2: 0.01, Tol: 1e-6})
			if err != nil {
				t.Fatal(err)
			}
			sol, err := s.Solve(context.Background(), dev.Put(values, 1, len(values)), solve.From{})
			if err != nil {
				t.Fatal(err)
			}
			if !sol.Converged || sol.Method != "" {
				t.Errorf("seed %d, lambda %g: %q, %+v", seed, lambda, sol.Method, sol.Convergence)
			}
			sol.Release()
			s.Release()
		}
	}
}

// camera is the brightness of a photograph, 256 x 256 pixels, from 0 to 1.
func camera(t *testing.T) func(x, y int) float64 {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "testdata", "camera.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	photograph, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return func(x, y int) float64 {
		return float64(color.Gray16Model.Convert(photograph.At(x, y)).(color.Gray16).Y) / math.MaxUint16
	}
}
