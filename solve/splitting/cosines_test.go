package splitting

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// scanned is a tomography of n x n pixels with a transform for its systems, and y.
func scanned(t *testing.T, n, count int) (*Penalized, array.Batch) {
	t.Helper()
	angles := make([]float64, count)
	for i := range angles {
		angles[i] = 180. / float64(count) * float64(i)
	}
	a, err := imaging.NewParallelBeam(n, n, angles, n, 1, imaging.Axis{})
	if err != nil {
		t.Fatal(err)
	}
	most := mostInverted
	mostInverted = 0
	t.Cleanup(func() { mostInverted = most })
	dev := array.NewHost()
	p := engine.Problem{Device: dev, A: a, K: imaging.NewGradient([]int{n, n}, nil, imaging.Reflecting),
		R: prox.NewVectorialL2(n*n, 2, 1, 0.5)}
	s, err := NewPenalized(t.Context(), p, 8, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	if s.cosines == nil {
		t.Fatalf("no transform: %v", s.choice)
	}
	return s, dev.Put(normals(n*count), 1, n*count)
}

func normals(n int) []float64 {
	rng, x := rand.New(rand.NewPCG(5, uint64(n))), make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// With one right-hand side the iterates come to the solution by conjugate gradients, also where A*A is many times the
// function of K*K in some directions, as with few angles.
func TestFollowedSystemsAreSolved(t *testing.T) {
	const n = 24
	for _, count := range []int{8, 40} {
		s, _ := scanned(t, n, count)
		dev := s.p.Device
		rhs, b, want := dev.Put(normals(n*n), 1, n*n), dev.Alloc(1, n*n), dev.Alloc(1, n*n)
		memory := make([]array.Batch, 6)
		for i := range memory {
			memory[i] = dev.Alloc(1, n*n)
		}
		f := &follower{at: newMove(memory), last: newMove(memory[3:])}
		for _, rho := range []float64{1, 10, 50} {
			if err := s.Solve(t.Context(), want, rhs, rho, Anywhere); err != nil {
				t.Fatal(err)
			}
			for range 2000 {
				if err := s.follow(b, rhs, rho, f); err != nil {
					t.Fatal(err)
				}
			}
			dev.Lin(b, 1, b, -1, want)
			if off := engine.Norm(b) / engine.Norm(want); !(off < 1e-6) {
				t.Errorf("%d angles, rho %g: off by %.2g, c %g", count, rho, off, f.c)
			}
		}
	}
}

// A scanner sees all frequencies, also from few angles, and a blur by a Gaussian of 1.5 pixels hides the highest.
func TestSeenFrequencies(t *testing.T) {
	const n = 24
	for _, count := range []int{8, 40} {
		if s, _ := scanned(t, n, count); !s.cosines.seen {
			t.Errorf("%d angles hide frequencies", count)
		}
	}
	kernel := mat.NewDense(13, 13, nil)
	for i := range 13 {
		for j := range 13 {
			kernel.Set(i, j, math.Exp(-float64((i-6)*(i-6)+(j-6)*(j-6))/4.5)/(4.5*math.Pi))
		}
	}
	a, err := imaging.NewConvolution2D(n, n, kernel, imaging.ZeroPadded)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := scanned(t, n, 8)
	p := s.p
	p.A = a
	blurred, err := NewPenalized(t.Context(), p, 8, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	defer blurred.Release()
	if blurred.cosines.seen {
		t.Error("the blur hides no frequencies")
	}
}

// The error of mu_hat at which a solve ends is no less than the true one.
func TestNearErrors(t *testing.T) {
	const n, sigma = 20, 0.3
	wrong, ended := 0, 0
	for _, count := range []int{12, 30} {
		for _, weight := range []float64{0.3, 1, 4} {
			s, y := scanned(t, n, count)
			p, dev := s.p, s.p.Device
			p.R = prox.NewVectorialL2(n*n, 2, 1, weight)
			image, mu := dev.Alloc(1, n*n), dev.Alloc(1, y.N())
			host := make([]float64, n*n)
			for i := range host {
				if x, z := i/n-8, i%n-11; x*x+2*z*z < 40 {
					host[i] = 1 + float64(x)/20
				}
			}
			dev.Upload(image, host)
			p.A.Forward(mu, image)
			dev.Lin(y, sigma, y, 1, mu)
			solve := func(o engine.Options) *engine.Solution {
				m, err := NewADMM(t.Context(), p, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(m.(*admm).Release)
				sol, err := engine.Run(t.Context(), m, y, o, engine.Start{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(sol.Release)
				return sol
			}
			exact := solve(engine.Options{Tol: 1e-10, MaxIter: 60000, Sigma2: sigma * sigma})
			for _, allowed := range []float64{1, 0.3, 0.1, 0.03} {
				o := engine.Options{Tol: 1e-10, MaxIter: 60000, Sigma2: sigma * sigma}
				o.Effort.Error = allowed
				sol := solve(o)
				if sol.Change == 0 {
					continue
				}
				ended++
				dev.Lin(mu, 1, sol.MuHat, -1, exact.MuHat)
				if off := engine.Norm(mu); off > sol.Change+exact.Error {
					wrong++
					t.Logf("%d angles, weight %g: off by %.2g, said %.2g", count, weight, off, sol.Change)
				} else {
					t.Logf("%d angles, weight %g: off by %.2g, said %.2g, exact within %.2g, %d and %d iterations", count,
						weight, off, sol.Change, exact.Error, sol.Iterations, exact.Iterations)
				}
			}
		}
	}
	if wrong > 0 || ended < 20 {
		t.Errorf("%d of %d errors are larger than said", wrong, ended)
	}
}

// After feasible the gradient of the loss is in the range of K*, to rounding.
func TestFeasibleMultipliers(t *testing.T) {
	const n = 24
	s, y := scanned(t, n, 30)
	dev := s.p.Device
	b, u, aty := dev.Put(normals(n*n), 1, n*n), dev.Put(normals(2*n*n), 1, 2*n*n), dev.Alloc(1, n*n)
	s.p.A.Adjoint(aty, y)
	s.feasible(b, u, aty)
	e, t2 := dev.Alloc(1, n*n), dev.Alloc(1, n*n)
	s.normal(e, b)
	dev.Lin(e, 1, e, -1, aty)
	size := engine.Norm(e)
	s.p.K.Adjoint(t2, u)
	dev.Lin(e, 1, e, 1, t2)
	if left := engine.Norm(e) / size; !(left < 1e-12) {
		t.Errorf("%.2g of the gradient is left", left)
	}
}
