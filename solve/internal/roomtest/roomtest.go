// Package roomtest has what the tests of the rooms of package solve share.
package roomtest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/linops/outofcore"
	"surepipe/solve"
	"surepipe/solve/solvetest"
)

// Scaled multiplies x by a, in place.
func Scaled(a float64, x []float64) []float64 {
	floats.Scale(a, x)
	return x
}

// On is a vector on a device until the test ends.
func On(t testing.TB, dev array.Device, x []float64) array.Batch {
	t.Helper()
	b := dev.Alloc(1, len(x))
	dev.Upload(b, x)
	t.Cleanup(b.Free)
	return b
}

// Dense is a matrix on a device until the test ends.
func Dense(t testing.TB, dev array.Device, d, p int, x []float64) *linops.Dense {
	t.Helper()
	a := linops.NewDense(dev, mat.NewDense(d, p, x))
	t.Cleanup(a.Release)
	return a
}

// Stored is a matrix of rows that is read in blocks.
func Stored(x *mat.Dense) *outofcore.OutOfCore {
	d, p := x.Dims()
	norms := make([]float64, p)
	for j := range p {
		v := x.ColView(j)
		norms[j] = mat.Dot(v, v)
	}
	square := mat.NewDense(p, p, nil)
	square.Mul(x.T(), x)
	return outofcore.NewOutOfCore(context.Background(), outofcore.Lines{
		Rows: d, Cols: p, ByRows: true, Size: func(from, to int) int64 { return int64(8 * p * (to - from)) },
		Block: 7, Views: true,
		Read: func(_ []float64, from, to int) []float64 { return x.RawMatrix().Data[from*p : to*p] },
		Pass: func(ctx context.Context, _ func(int64), f func(from, to int)) error {
			for from := 0; from < d; from += 7 {
				f(from, min(from+7, d))
			}
			return ctx.Err()
		},
		Drop:  func(int, int) {},
		Means: make([]float64, p), Centered2: norms, Gram: square.RawMatrix().Data,
	}, false)
}

// NewSolver is the solver of a name until the test ends.
func NewSolver(t testing.TB, name string, p solve.Problem, o solve.Options) solve.Solver {
	t.Helper()
	s, err := solve.New(context.Background(), name, p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s
}

// At is the solution from 0 until the test ends.
func At(t testing.TB, s solve.Solver, y array.Batch) *solve.Solution {
	t.Helper()
	return From(t, s, y, array.Batch{})
}

// From is the solution from b0 until the test ends.
func From(t testing.TB, s solve.Solver, y, b0 array.Batch) *solve.Solution {
	t.Helper()
	sol, err := s.Solve(context.Background(), y, solve.From{B: b0})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sol.Release)
	return sol
}

// Near fails the test where got is not want, up to tol of its norm.
func Near(t testing.TB, what string, got, want []float64, tol float64) {
	t.Helper()
	if e := floats.Distance(got, want, 2); !(e <= tol*math.Max(floats.Norm(want, 2), 1e-12)) {
		t.Errorf("%s is off by %.3g, of size %.3g", what, e, floats.Norm(want, 2))
	}
}

// CheckChoice fails the test where a choice is not among those of the solution.
func CheckChoice(t testing.TB, s *solve.Solution, part, chosen string) {
	t.Helper()
	if !slices.ContainsFunc(s.Choices, func(c solve.Choice) bool {
		return c.Part == part && c.Chosen == chosen &&
			c.Reason != ""
	}) {
		t.Errorf("choices %v, expected %s: %s", s.Choices, part, chosen)
	}
}

// Designs are matrices that are hard in one way each.
func Designs(rng *rand.Rand, d, p int) map[string]*mat.Dense {
	plain := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
	copies := mat.DenseCopyOf(plain)
	for j := 1; j < p; j += 2 {
		copies.SetCol(j, mat.Col(nil, j-1, copies))
	}
	rank := max(1, min(d, p)/2)
	var low mat.Dense
	low.Mul(mat.NewDense(d, rank, solvetest.Gaussian(rng, d*rank)),
		mat.NewDense(rank, p, solvetest.Gaussian(rng, rank*p)))
	near := mat.DenseCopyOf(plain)
	for j := 1; j < p; j++ {
		for i := range d {
			near.Set(i, j, near.At(i, 0)+1e-3*near.At(i, j))
		}
	}
	units := mat.DenseCopyOf(plain)
	units.Apply(func(_, j int, v float64) float64 { return v * math.Pow(10, float64(j%17-8)) }, units)
	holes := mat.DenseCopyOf(plain)
	for j := 0; j < p; j += 3 {
		holes.SetCol(j, make([]float64, d))
	}
	return map[string]*mat.Dense{"plain": plain, "copies": copies, "low rank": &low, "correlated": near,
		"units": units, "zeros": holes}
}

// Plain hides everything but the two directions of an operator.
type Plain struct{ linops.Operator }

// Converged is the solution at y, which the caller releases.
func Converged(t *testing.T, s solve.Solver, dev array.Device, y []float64) *solve.Solution {
	t.Helper()
	b := dev.Alloc(1, len(y))
	defer b.Free()
	dev.Upload(b, y)
	sol, err := s.Solve(context.Background(), b, solve.From{})
	if err != nil {
		t.Fatal(err)
	}
	if !sol.Converged {
		t.Fatalf("not converged: %+v", sol.Convergence)
	}
	return sol
}

// CheckMapped compares the sum of S_1 D v_1 and S_2 D v_2 with the images, for drawn v and S. It reports false where
// there are no images.
func CheckMapped(t *testing.T, rng *rand.Rand, dev array.Device, d int, imagesOf func(dst, v array.Batch) bool,
	sumOf func(*array.Mapped) []float64) bool {
	t.Helper()
	const size = 3
	both, image, maps := dev.Put(solvetest.Gaussian(rng, 2*d), 2, d), dev.Alloc(2, d), solvetest.Gaussian(rng, 2*size*d)
	defer array.Free(both, image)
	add := func(sums []float64, first, m int, rows []float64) {
		for r := range len(rows) / m {
			for s := range 2 * size {
				floats.AddScaled(sums[s*m:][:m], maps[s*d+first+r], rows[r*m:][:m])
			}
		}
	}
	sum := func(x array.Batch) []float64 {
		v := x.ToHost()
		return lists.Make(size, func(s int) float64 {
			return floats.Dot(maps[s*d:][:d], v[:d]) + floats.Dot(maps[(size+s)*d:][:d], v[d:])
		})
	}
	if !imagesOf(image, both) {
		return false
	}
	want, scale := sum(image), floats.Norm(image.ToHost(), 2)*math.Sqrt(float64(d))
	for _, mapped := range []*array.Mapped{{Size: size, Add: add, Sum: sum}, {Size: size, Sum: sum}} {
		mapped.Batch = both
		for range 2 { // the second time with what is kept
			for s, got := range sumOf(mapped) {
				if math.Abs(got-want[s]) > 1e-10*scale {
					t.Fatalf("number %d of the maps is %g, by the images %g", s, got, want[s])
				}
			}
		}
	}
	return true
}
