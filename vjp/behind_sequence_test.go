package vjp_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/solvetest"
	"surepipe/space/spacetest"
	"surepipe/vjp"
)

// trend is the operator of differences taken order+1 times, sparse and as a matrix.
func trend(t *testing.T, dev array.Device, n, order int) (*linops.CSR, *mat.Dense) {
	t.Helper()
	q, rows := n-order-1, spacetest.Differences(n, order+1)
	m := mat.NewDense(q, n, nil)
	for i := range q {
		for at := rows.Indptr[i]; at < rows.Indptr[i+1]; at++ {
			m.Set(i, rows.Indices[at], rows.Values[at])
		}
	}
	k, err := linops.NewCSR(dev, q, n, rows.Indptr, rows.Indices, rows.Values)
	if err != nil {
		t.Fatal(err)
	}
	return k, m
}

// identity is that of R^n as a matrix, of which nobody knows that it is one.
func identity(dev array.Device, n int) *linops.Dense {
	m := mat.NewDense(n, n, nil)
	for i := range n {
		m.Set(i, i, 1)
	}
	return linops.NewDense(dev, m)
}

// Trends have the solution and derivative that active sets find in the coordinates of K b; from the
// weight on at which K b = 0 the estimate is a polynomial.
func TestTrendsByInteriorPoints(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(8, 9))
		const n = 70
		y := solvetest.Gaussian(rng, n)
		for i := range y {
			y[i] = 0.3*y[i] + math.Abs(float64(i)-30)/10
		}
		data := dev.Put(y, 1, n)
		defer data.Free()
		w := dev.Put(solvetest.Gaussian(rng, 4*n), 4, n)
		defer w.Free()
		dense := identity(dev, n)
		defer dense.Release()
		for order := range 4 {
			k, _ := trend(t, dev, n, order)
			defer k.Release()
			p := vjp.Problem{A: linops.Identity(n), K: k, R: prox.NewL1(1), Device: dev}
			if got := solve.Default(p); got != "interior-point" {
				t.Fatalf("order %d: the default is %s", order, got)
			}
			u, err := solve.Multiplier(context.Background(), p, data)
			if err != nil {
				t.Fatal(err)
			}
			largest := floats.Norm(u.ToHost(), math.Inf(1))
			u.Free()
			for _, share := range []float64{1.001, 0.999, 0.3, 0.01, 1e-4} {
				p.R = prox.NewL1(share * largest)
				got := solved(t, newSolver(t, "interior-point", p, vjp.Options{}), dev, y)
				other := p
				other.A = dense
				want := solved(t, newSolver(t, "active-set", other, vjp.Options{Tol: 1e-10}), dev, y)
				off := floats.Distance(got.MuHat.ToHost(), want.MuHat.ToHost(), 2)
				if !got.Converged || !(off < 1e-6) {
					t.Errorf("order %d, %g of the largest weight: converged %t, %g off", order, share, got.Converged,
						off)
				}
				a, b := got.Linearization.Closed(), want.Linearization.Closed()
				if !a.Known || math.Abs(a.Trace-b.Trace) > 1e-9 || share > 1 && a.Trace != float64(order+1) ||
					share == 0.999 && a.Trace != float64(order+2) {
					t.Errorf("order %d, %g of the largest weight: divergence %v, expected %v", order, share, a.Trace,
						b.Trace)
				}
				mine, theirs := dev.Alloc(4, n), dev.Alloc(4, n)
				if err := got.Linearization.Apply(context.Background(), mine, w, hutch.Accuracy{}, nil); err != nil {
					t.Fatal(err)
				}
				if err := want.Linearization.Apply(context.Background(), theirs, w, hutch.Accuracy{}, nil); err != nil {
					t.Fatal(err)
				}
				if off := floats.Distance(mine.ToHost(), theirs.ToHost(), 2); !(off < 1e-6) {
					t.Errorf("order %d, %g of the largest weight: images %g off", order, share, off)
				}
				mine.Free()
				theirs.Free()
				got.Release()
				want.Release()
			}
		}
	})
}

// A sequence that nowhere falls is that of pooled neighbours, and a scaled A changes the weight alone.
func TestSequencesThatNowhereFall(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		y := []float64{1, 3, 2, 4, 3.5, 3, 7}
		p := vjp.Problem{A: linops.Identity(7), K: imaging.NewDifference1D(7), R: prox.NonNegative(), Device: dev}
		sol := solved(t, newSolver(t, "interior-point", p, vjp.Options{Tol: 1e-12}), dev, y)
		defer sol.Release()
		want := []float64{1, 2.5, 2.5, 3.5, 3.5, 3.5, 7}
		if off := floats.Distance(sol.MuHat.ToHost(), want, 2); !(off < 1e-6) || sol.Linearization.Closed().Trace != 4 {
			t.Errorf("%v, divergence %v", sol.MuHat.ToHost(), sol.Linearization.Closed().Trace)
		}
	})
}

// Small problems with a penalty behind more rows than columns, and with ill-conditioned columns, are
// solved by interior points; accelerated methods agree where they converge.
func TestSmallInteriorPoints(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(12, 13))
		const d, p = 30, 12
		y := solvetest.Gaussian(rng, d)
		for _, shift := range []float64{0, 100} {
			x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
			for i := range d {
				for j := range p {
					x.Set(i, j, x.At(i, j)+shift)
				}
			}
			a := linops.NewDense(dev, x)
			defer a.Release()
			k, r := solve.Terms(solve.Term{K: linops.Identity(p), R: prox.NewL1(0.8)},
				solve.Term{K: imaging.NewDifference1D(p), R: prox.NewL1(1.5)},
				solve.Term{K: linops.Identity(p), R: prox.NonNegative()})
			problem := vjp.Problem{A: a, K: k, R: r, Device: dev}
			if got := solve.Default(problem); got != "interior-point" {
				t.Fatalf("the default is %s", got)
			}
			got := solved(t, newSolver(t, "interior-point", problem, vjp.Options{Tol: 1e-10}), dev, y)
			defer got.Release()
			if shift > 0 {
				continue // nobody else gets there
			}
			want := solved(t, newSolver(t, "admm", problem, vjp.Options{Tol: 1e-10, MaxIter: 100000}), dev, y)
			defer want.Release()
			if off := floats.Distance(got.MuHat.ToHost(), want.MuHat.ToHost(), 2); !(off < 1e-4) ||
				got.Linearization.Closed().Trace != want.Linearization.Closed().Trace {
				t.Errorf("%g off, divergence %v, expected %v", off, got.Linearization.Closed().Trace,
					want.Linearization.Closed().Trace)
			}
		}
	})
}

// Where interior points have not converged, and Newton's method does not end from there, another method's
// iterations are differentiated.
func TestUnfinishedInteriorPointsHaveADerivative(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(3, 3))
		const n = 60
		k, _ := trend(t, dev, n, 3)
		defer k.Release()
		p := vjp.Problem{A: linops.Identity(n), K: k, R: prox.NewL1(0.1), Device: dev}
		s := newSolver(t, "interior-point", p, vjp.Options{MaxIter: 1})
		y := dev.Put(solvetest.Gaussian(rng, n), 1, n)
		defer y.Free()
		sol, err := s.Solve(context.Background(), y)
		if err != nil {
			t.Fatal(err)
		}
		defer sol.Release()
		if sol.Converged || sol.Linearization.Kind() != "unrolled" {
			t.Errorf("converged %t, derivative %s", sol.Converged, sol.Linearization.Kind())
		}
		out := dev.Alloc(1, n)
		defer out.Free()
		if err := sol.Linearization.VJP(context.Background(), out, y); err != nil {
			t.Error(err)
		}
	})
}

// A spline of 6,000 values with two knots, made from its optimality conditions: where rounding errors do not tell its
// knots apart, the range of divergences has the true one.
func TestKnotsOfALongSequenceAreFoundOrDoubted(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const n, weight = 6000, 1e10
	k, _ := trend(t, dev, n, 3)
	defer k.Release()
	host := make([]float64, n)
	for at, sign := range map[int]float64{2000: 1, 4000: -1} {
		for i := at; i < n; i++ {
			host[i] += sign * 1e-9 / 6 * float64(i-at) * float64(i-at-1) * float64(i-at-2)
		}
		u := dev.Alloc(1, n-4)
		defer u.Free()
		values, kept := make([]float64, n-4), dev.Alloc(1, n)
		defer kept.Free()
		for i := at - 900; i < at+900; i++ {
			near := float64(i-at) / 900
			values[i] = sign * weight * math.Pow(1-near*near, 3)
		}
		dev.Upload(u, values)
		k.Adjoint(kept, u)
		floats.Add(host, kept.ToHost())
	}
	p := vjp.Problem{A: linops.Identity(n), K: k, R: prox.NewL1(weight), Device: dev}
	got := solved(t, newSolver(t, solve.Default(p), p, vjp.Options{}), dev, host)
	if c := got.Linearization.Closed(); !(c.Low <= 6 && 6 <= c.High) {
		t.Errorf("the divergence is from %g to %g, expected 6", c.Low, c.High)
	}
}
