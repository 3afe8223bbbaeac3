package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/engine"
	"surepipe/solve/solvetest"
)

// blurred is the deblurring of an n x n image in a wavelet basis: a Gaussian kernel, and no penalty
// on the averages of the last level.
func blurred(t *testing.T, dev array.Device, n, levels int, lambda float64) (p solve.Problem, y array.Batch,
	averages []int) {
	t.Helper()
	kernel := mat.NewDense(7, 7, nil)
	for i := range 7 {
		for j := range 7 {
			kernel.Set(i, j, math.Exp(-float64((i-3)*(i-3)+(j-3)*(j-3))/2)/(2*math.Pi))
		}
	}
	blur, err := imaging.NewConvolution2D(n, n, kernel, imaging.Circular)
	if err != nil {
		t.Fatal(err)
	}
	basis, err := imaging.NewWavelet2D(n, n, "db2", levels)
	if err != nil {
		t.Fatal(err)
	}
	averages = basis.Averages()
	weights := make([]float64, n*n)
	for i := range weights {
		weights[i] = 1
	}
	for _, i := range averages {
		weights[i] = 0
	}
	r, err := prox.NewWeightedL1(dev, lambda, weights)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prox.Release(r) })
	p = solve.Problem{A: linops.Compose(blur, linops.Adjoint(basis)), R: r, Device: dev}
	rng := rand.New(rand.NewPCG(3, 4))
	image := make([]float64, n*n)
	for i := range n {
		for j := range n {
			if i > n/3 && j < n/2 {
				image[i*n+j] = 1
			}
			image[i*n+j] += 0.05 * rng.NormFloat64()
		}
	}
	x := dev.Alloc(1, n*n)
	defer x.Free()
	y = dev.Alloc(1, n*n)
	t.Cleanup(y.Free)
	dev.Upload(x, image)
	blur.Forward(y, x)
	noisy := y.ToHost()
	for i := range noisy {
		noisy[i] += 0.05 * rng.NormFloat64()
	}
	dev.Upload(y, noisy)
	return p, y, averages
}

// The units are those of the subbands, ADMM keeps its closed form, and both agree within the errors
// that they report, also where the unpenalized columns are too many to be factorized.
func TestDeblurring(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range []struct{ n, levels int }{{32, 3}, {96, 2}} {
			if c.n > 50 && arraytest.Emulated(t, dev) {
				continue
			}
			p, y, _ := blurred(t, dev, c.n, c.levels, 0.02)
			var mu [2][]float64
			var off float64
			for i, name := range []string{"fista", "admm"} {
				s, err := solve.New(context.Background(), name, p, solve.Options{Tol: 1e-5, Sigma2: 0.0025})
				if err != nil {
					t.Fatal(err)
				}
				sol, err := s.Solve(context.Background(), y, solve.From{})
				if err != nil {
					t.Fatal(err)
				}
				if !sol.Converged || !(sol.Error > 0) {
					t.Errorf("%v %s: converged %t, error %v", c, name, sol.Converged, sol.Error)
				}
				mu[i] = sol.MuHat.ToHost()
				off += sol.Error
				want := []string{"columns of about unit length", "closed form"}[i]
				if got := fmt.Sprint(sol.Choices); !strings.Contains(got, want) {
					t.Errorf("%v %s: no %q in %s", c, name, want, got)
				}
				sol.Release()
				s.Release()
			}
			sum := 0.0
			for i, v := range mu[0] {
				sum += (v - mu[1][i]) * (v - mu[1][i])
			}
			if e := math.Sqrt(sum); !(e <= off) {
				t.Errorf("%v: the solutions differ by %g, their errors are %g together", c, e, off)
			}
		}
	})
}

// The projection on the unpenalized columns by products is that by a factorization.
func TestProjectionOnFreeColumns(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		p, y, averages := blurred(t, dev, 32, 3, 0.02)
		n := y.N()
		one, other := dev.Alloc(1, n), dev.Alloc(1, n)
		defer one.Free()
		defer other.Free()
		misfit, also := dev.Alloc(1, n), dev.Alloc(1, n)
		defer misfit.Free()
		defer also.Free()
		dev.Lin(misfit, -1, y, 0, array.Batch{})
		dev.Copy(also, misfit)
		p.A.Adjoint(one, y)
		dev.Copy(other, one)
		size := solve.Norm(one)
		a, ok := engine.ProjectFree(context.Background(), p, averages, one, misfit)
		b, found := engine.ProjectByProducts(context.Background(), p, averages, other, also)
		if !ok || !found || !(math.Abs(a-b) <= 1e-12*a) {
			t.Fatalf("squared norms of the projections %v (%t) and %v (%t)", a, ok, b, found)
		}
		dev.Lin(one, 1, one, -1, other)
		if e := solve.Norm(one); !(e <= 1e-12*size) {
			t.Errorf("the rests differ by %g of %g", e, size)
		}
		dev.Lin(misfit, 1, misfit, -1, also)
		if e := solve.Norm(misfit); !(e <= 1e-12*solve.Norm(y)) {
			t.Errorf("the residuals differ by %g of %g", e, solve.Norm(y))
		}
		rest := other.ToHost()
		for _, j := range averages {
			if rest[j] != 0 {
				t.Fatalf("the rest is %g at the free coordinate %d", rest[j], j)
			}
		}
	})
}

// Where A*A = c I the projection on the unpenalized columns is a product, the same as by least squares.
func TestProjectionOnOrthogonalColumns(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		basis, err := imaging.NewWavelet2D(16, 16, "db2", 2)
		if err != nil {
			t.Fatal(err)
		}
		p := solve.Problem{A: linops.Scale(3, linops.Adjoint(basis)), Device: dev}
		if c := linops.StructureOf(p.A).Columns; !c.Known || math.Abs(c.Value-9) > 1e-12 {
			t.Fatalf("A*A = %v I, expected 9", c)
		}
		d, dim := p.A.Dims()
		misfit, minus := dev.Alloc(2, d), dev.Alloc(2, dim)
		defer misfit.Free()
		defer minus.Free()
		one := solvetest.Gaussian(rand.New(rand.NewPCG(7, 9)), d)
		dev.Upload(misfit, append(one, one...))
		p.A.Adjoint(minus, misfit)
		dev.Lin(minus, -1, minus, 0, array.Batch{})
		free := basis.Averages()
		a, ok := engine.ProjectFree(context.Background(), p, free, minus.Rows(0, 1), misfit.Rows(0, 1))
		b, found := engine.ProjectByProducts(context.Background(), p, free, minus.Rows(1, 2), misfit.Rows(1, 2))
		if !ok || !found || !(a > 0) || !(math.Abs(a-b) <= 1e-12*a) {
			t.Fatalf("squared norms of the projections %v (%t) and %v (%t)", a, ok, b, found)
		}
		for name, v := range map[string]array.Batch{"A* of the rest": minus, "the rest": misfit} {
			host, n := v.ToHost(), v.N()
			for i := range n {
				if e := math.Abs(host[i] - host[n+i]); !(e <= 1e-11) {
					t.Errorf("%s: entry %d differs by %g", name, i, e)
				}
			}
		}
		for _, j := range free {
			if v := minus.ToHost()[j]; v != 0 {
				t.Errorf("A* of the rest is %g at the free coordinate %d", v, j)
			}
		}
	})
}

// Free columns that depend on each other have no projection by conjugate gradients within rounding
// errors, or the one on their span.
func TestProjectionOnDependentColumns(t *testing.T) {
	dev := array.NewHost()
	x := linops.NewDense(dev, mat.NewDense(2, 3, []float64{1, 1, 0, 0, 0, 1}))
	defer x.Release()
	minus := dev.Alloc(1, 3)
	defer minus.Free()
	dev.Upload(minus, []float64{3, 3, 4})
	misfit := dev.Alloc(1, 2)
	defer misfit.Free()
	dev.Upload(misfit, []float64{-3, -4})
	squared, ok := engine.ProjectByProducts(context.Background(), solve.Problem{A: x, Device: dev}, []int{0, 1},
		minus, misfit)
	if ok && math.Abs(squared-9) > 1e-12 {
		t.Errorf("squared norm %v, expected 9 or nothing", squared)
	}
}

// Of free columns that nearly depend on each other the rest is orthogonal to them, to rounding errors.
func TestProjectionOnNearlyDependentColumns(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(5, 8))
	const d, n, apart = 60, 4, 1e-5
	x := mat.NewDense(d, n, solvetest.Gaussian(rng, d*n))
	for i := range d {
		x.Set(i, 1, x.At(i, 0)+apart*x.At(i, 1))
	}
	p := solve.Problem{A: linops.NewDense(dev, x), Device: dev}
	misfit, minus := dev.Put(solvetest.Gaussian(rng, d), 1, d), dev.Alloc(1, n)
	p.A.Adjoint(minus, misfit)
	dev.Lin(minus, -1, minus, 0, array.Batch{})
	_, ok := engine.ProjectByProducts(context.Background(), p, []int{0, 1, 2, 3}, minus, misfit)
	p.A.Adjoint(minus, misfit)
	if e := solve.Norm(minus); !ok || !(e <= 2e-12) {
		t.Errorf("found %t, the products with the rest are %g", ok, e)
	}
}

// Free columns whose lengths span eight decades have the projection of a factorization.
func TestProjectionOnColumnsInOtherUnits(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(5, 8))
		const d, n = 30, 8
		x := mat.NewDense(d, n, solvetest.Gaussian(rng, d*n))
		for j := 1; j < n; j++ {
			for i := range d {
				x.Set(i, j, x.At(i, j)*math.Pow(10, 8*float64(j)/(n-1)))
			}
		}
		p := solve.Problem{A: linops.NewDense(dev, x), Device: dev}
		y := solvetest.Gaussian(rng, d)
		free := []int{0, 1, 2, 3, 4, 5, 6, 7}
		var squares [2]float64
		for i, project := range []func(context.Context, solve.Problem, []int, array.Batch, array.Batch) (float64,
			bool){engine.ProjectFree, engine.ProjectByProducts} {
			misfit, minus := dev.Put(append([]float64(nil), y...), 1, d), dev.Alloc(1, n)
			p.A.Adjoint(minus, misfit)
			dev.Lin(minus, -1, minus, 0, array.Batch{})
			var ok bool
			if squares[i], ok = project(context.Background(), p, free, minus, misfit); !ok {
				t.Fatalf("projection %d was not found", i)
			}
			misfit.Free()
			minus.Free()
		}
		if math.Abs(squares[0]-squares[1]) > 1e-9*squares[0] {
			t.Errorf("squared norms %v and %v", squares[0], squares[1])
		}
	})
}
