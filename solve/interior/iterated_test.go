package interior_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
)

// Images behind a scanner, with total variation, are solved to the tolerance from small weights to large ones, from
// nothing and from a neighbour, and ADMM comes near the same mu_hat.
func TestInteriorPointsBehindAScanner(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	angles := make([]float64, 20)
	for i := range angles {
		angles[i] = 9 * float64(i)
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rows, cols, wide := 34, 36, 50
		if arraytest.Emulated(t, dev) {
			rows, cols, wide = 12, 14, 20
		}
		n := rows * cols
		a, err := imaging.NewParallelBeam(rows, cols, angles, wide, 1, imaging.Axis{})
		if err != nil {
			t.Fatal(err)
		}
		image, y := dev.Put(steep(rng, rows, cols), 1, n), dev.Alloc(1, wide*len(angles))
		a.Forward(y, image)
		host := y.ToHost()
		for i := range host {
			host[i] += 0.3 * rng.NormFloat64()
		}
		dev.Upload(y, host)
		p := solve.Problem{A: a, K: imaging.NewGradient([]int{rows, cols}, nil, imaging.Reflecting), Device: dev}
		for name, r := range map[string]func(w float64) prox.Prox{
			"isotropic":   func(w float64) prox.Prox { return prox.NewVectorialL2(n, 2, 1, w) },
			"anisotropic": func(w float64) prox.Prox { return prox.NewL1(w) },
		} {
			path := new(solve.Path)
			for _, w := range []float64{10, 0.5} {
				p.R = r(w)
				b, off := behind(t, p, "interior-point", solve.Options{Tol: 1e-8, MaxIter: 20000}, y, solve.From{})
				along, also := behind(t, p, "interior-point", solve.Options{Tol: 1e-8, MaxIter: 20000}, y,
					solve.From{Path: path})
				far, most := behind(t, p, "admm", solve.Options{Tol: 1e-6, MaxIter: 500}, y, solve.From{})
				at := fmt.Sprintf("%s, weight %g", name, w)
				if d := floats.Distance(b, along, 2); !(d <= off+also) {
					t.Errorf("%s: %g from the solution along a path, with errors of at most %g and %g", at, d, off, also)
				}
				if d := floats.Distance(b, far, 2); !(d <= off+most) {
					t.Errorf("%s: %g from that of ADMM, with errors of at most %g and %g", at, d, off, most)
				}
			}
			path.Release()
		}
		array.Free(image, y)
	})
}

// Where most pixels of an image are missing, interior points end at the solution with a sparse factor and no conjugate
// gradients, from ADMM's first steps and along a path, and ADMM comes near the same mu_hat.
func TestInteriorPointsBetweenMissingPixels(t *testing.T) {
	const rows, cols, n = 34, 36, 34 * 36
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(7, 8))
	host, seen, at := steep(rng, rows, cols), []float64(nil), []int(nil)
	for i, v := range host {
		if rng.IntN(5) == 0 {
			seen, at = append(seen, v+0.1*rng.NormFloat64()), append(at, i)
		}
	}
	y := dev.Put(seen, 1, len(seen))
	defer y.Free()
	a, err := linops.NewSelection(dev, n, at)
	if err != nil {
		t.Fatal(err)
	}
	p := solve.Problem{A: a, K: imaging.NewGradient([]int{rows, cols}, nil, imaging.Reflecting), Device: dev}
	for name, r := range map[string]func(w float64) prox.Prox{
		"isotropic":   func(w float64) prox.Prox { return prox.NewVectorialL2(n, 2, 1, w) },
		"anisotropic": func(w float64) prox.Prox { return prox.NewL1(w) },
	} {
		path := new(solve.Path)
		for _, w := range []float64{1, 0.1, 0.02} {
			p.R = r(w)
			b, off := behind(t, p, "interior-point", solve.Options{Tol: 1e-9, MaxIter: 20000}, y, solve.From{})
			along, also := behind(t, p, "interior-point", solve.Options{Tol: 1e-9, MaxIter: 20000}, y,
				solve.From{Path: path})
			far, most := behind(t, p, "admm", solve.Options{Tol: 1e-7, MaxIter: 2000}, y, solve.From{})
			at := fmt.Sprintf("%s, weight %g", name, w)
			if d := floats.Distance(b, along, 2); !(d <= off+also) {
				t.Errorf("%s: %g from the solution along a path, with errors of at most %g and %g", at, d, off, also)
			}
			if d := floats.Distance(b, far, 2); !(d <= off+most) {
				t.Errorf("%s: %g from that of ADMM, with errors of at most %g and %g", at, d, off, most)
			}
		}
		path.Release()
	}
}

// behind is mu_hat and the bound of its error; interior points have to converge.
func behind(t *testing.T, p solve.Problem, name string, o solve.Options, y array.Batch, from solve.From) ([]float64,
	float64) {
	t.Helper()
	s, err := solve.New(context.Background(), name, p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	sol, err := s.Solve(context.Background(), y, from)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	if linops.StructureOf(p.A).Rows.Value > 0 && sol.Method == name && !slices.ContainsFunc(sol.Choices,
		func(c solve.Choice) bool { return strings.HasPrefix(c.Chosen, "a sparse matrix") }) {
		t.Errorf("%s: %+v", name, sol.Choices)
	}
	if !sol.Converged && name == "interior-point" {
		t.Errorf("%s: %+v", name, sol.Convergence)
	}
	return sol.MuHat.ToHost(), sol.Error
}

// Where a weight is so large that steps on the dual leave off early, interior points go on from there to the solution,
// also where one pixel is far brighter than the others.
func TestInteriorPointsGoOnFromTheDual(t *testing.T) {
	const rows, cols, n = 92, 96, 92 * 96
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(5, 6))
	host := steep(rng, rows, cols)
	for i := range host {
		host[i] += 0.1 * rng.NormFloat64()
	}
	k := imaging.NewGradient([]int{rows, cols}, nil, imaging.Reflecting)
	for _, bright := range []float64{0, 1e4} {
		host[n/3] += bright
		y := dev.Put(host, 1, n)
		for name, r := range map[string]prox.Prox{
			"isotropic":   prox.NewVectorialL2(n, 2, 1, 8+bright/8),
			"anisotropic": prox.NewL1(8 + bright/8),
		} {
			p := solve.Problem{A: linops.Identity(n), K: k, R: r, Device: dev}
			b, off := behind(t, p, "interior-point", solve.Options{Tol: 1e-6, Sigma2: 0.01}, y, solve.From{})
			close, also := behind(t, p, "interior-point", solve.Options{Tol: 1e-9, Sigma2: 0.01}, y, solve.From{})
			if d := floats.Distance(b, close, 2); !(d <= off+also) {
				t.Errorf("%s, a pixel of %g: %g from a closer solution, with errors of at most %g and %g", name, bright, d, off,
					also)
			}
		}
		y.Free()
	}
}
