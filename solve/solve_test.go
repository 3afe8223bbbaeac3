package solve_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/loss"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/rewrite"
	"surepipe/solve/solvetest"
)

// Every method of the table keeps the contract of a method.
func TestMethodsKeepTheirPromises(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(1, 2))
		const d, p = 14, 9
		a, y := roomtest.Dense(t, dev, d, p, solvetest.Gaussian(rng, d*p)),
			roomtest.On(t, dev, solvetest.Gaussian(rng, d))
		orthogonal := orthogonalColumns(t, dev, d, p)
		for _, e := range solve.Methods() {
			rs := []prox.Prox{prox.NewSquaredL2(0.5), prox.NewElasticNet(0.5, 0.2)}
			if e.Closed {
				rs = rs[:1]
			}
			made := 0
			for _, r := range append(rs, prox.NewL1(0.5)) {
				if e.Closed && made > 0 {
					continue
				}
				// Some take only a part of these problems, as those with A*A = c I or r of bounds.
				m, err := e.New(t.Context(), solve.Problem{A: a, R: r, Device: dev}, solve.Options{})
				if err != nil {
					m, err = e.New(t.Context(), solve.Problem{A: orthogonal, R: r, Device: dev}, solve.Options{})
				}
				if err != nil {
					continue
				}
				made++
				if m.Name() != e.Name || e.About == "" {
					t.Errorf("%q makes a method of the name %q, about %q", e.Name, m.Name(), e.About)
				}
				if recorded := m.Traits().Recorded; recorded != nil { // its own iterations have no derivative
					m.Release()
					if m, err = recorded(t.Context(), solve.Options{}); err != nil {
						t.Fatal(err)
					}
				}
				if err := solvetest.Check(t.Context(), m, y); err != nil {
					t.Error(err)
				}
				m.Release()
			}
			if made == 0 {
				t.Errorf("%s takes none of the problems", e.Name)
			}
		}
	})
}

// orthogonalColumns is a matrix with A*A = 4 I, which knows it.
func orthogonalColumns(t *testing.T, dev array.Device, d, p int) linops.Operator {
	places := make([]int, p)
	for i := range places {
		places[i] = i
	}
	pick, err := linops.NewSelection(dev, d, places)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pick.Release)
	return linops.Scale(2, linops.Adjoint(pick))
}

// hidden is a loss that does not report that it is quadratic.
type hidden struct{ loss.Loss }

func (hidden) Weights() (array.Batch, bool) { return array.Batch{}, false }

// With weights a solution is that of observations which are repeated or left out, for every solver,
// and mu_hat stays in the user's units. Gradient steps, and Newton steps on the loss, find it also by the
// loss's gradient and curvature.
func TestWeightsRepeatAndLeaveOut(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(3, 4))
		for _, p := range []int{6, 300} { // on all coordinates, and on working sets
			const d = 30
			x, y := solvetest.Gaussian(rng, d*p), solvetest.Gaussian(rng, d)
			weights := make([]float64, d)
			var repeated, right []float64
			for i := range weights {
				weights[i] = float64(i % 4)
				for range i % 4 {
					repeated, right = append(repeated, x[i*p:(i+1)*p]...), append(right, y[i])
				}
			}
			l, err := loss.WeightedSquared(dev, weights)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Release)
			a, b := roomtest.Dense(t, dev, d, p, x), roomtest.Dense(t, dev, len(right), p, repeated)
			for _, e := range solve.Methods() {
				if e.Name == "dual" || e.Name == "interior-point" {
					continue // needs A*A = c I
				}
				r := prox.NewL1(4)
				if e.Closed {
					r = prox.NewSquaredL2(4)
				}
				o := solve.Options{Tol: 1e-11, MaxIter: 100000, Sigma2: 1}
				want := roomtest.At(t, roomtest.NewSolver(t, e.Name, solve.Problem{A: b, R: r, Device: dev}, o),
					roomtest.On(t, dev, right))
				weighted := solve.Problem{A: a, R: r, Loss: l, Device: dev}
				s := roomtest.NewSolver(t, e.Name, weighted, o)
				got := roomtest.At(t, s, roomtest.On(t, dev, y))
				if !got.Converged || !want.Converged {
					t.Errorf("%s: %+v, %+v", e.Name, got.Convergence, want.Convergence)
				}
				roomtest.Near(t, e.Name+": b", got.B.ToHost(), want.B.ToHost(), 1e-6)
				mu := dev.Alloc(1, d)
				t.Cleanup(mu.Free)
				a.Forward(mu, got.B)
				roomtest.Near(t, e.Name+": mu_hat", got.MuHat.ToHost(), mu.ToHost(), 1e-14)
				roomtest.CheckChoice(t, got, "loss", "whitened")

				switch e.Name {
				case "ista", "fista", "active-set", "newton":
					weighted.Loss = hidden{l}
					got := roomtest.At(t, roomtest.NewSolver(t, e.Name, weighted, o), roomtest.On(t, dev, y))
					roomtest.Near(t, e.Name+" by the gradient: b", got.B.ToHost(), want.B.ToHost(), 1e-5)
					roomtest.CheckChoice(t, got, "loss", "its gradient")
				default:
					if _, err := solve.New(t.Context(), e.Name, solve.Problem{A: a, R: r, Loss: hidden{l},
						Device: dev}, o); err == nil || !strings.Contains(err.Error(), "quadratic loss") {
						t.Errorf("%s: error %v for a loss that is not quadratic", e.Name, err)
					}
				}
			}
		}
	})
}

// pseudoHuber is sum_i sqrt(1 + (z_i - y_i)^2) - 1, on the host.
type pseudoHuber struct{}

func (pseudoHuber) Value(z, y array.Batch) float64 {
	a, b := z.ToHost(), y.ToHost()
	sum := 0.0
	for i := range a {
		sum += math.Hypot(1, a[i]-b[i]) - 1
	}
	return sum
}
func (pseudoHuber) Gradient(dst, z, y array.Batch) {
	a, b := z.ToHost(), y.ToHost()
	for i := range a {
		a[i] = (a[i] - b[i]) / math.Hypot(1, a[i]-b[i])
	}
	dst.Device().Upload(dst, a)
}
func (pseudoHuber) Weights() (array.Batch, bool) { return array.Batch{}, false }
func (pseudoHuber) Curvature(dst, z, y array.Batch) {
	a, b := z.ToHost(), y.ToHost()
	for i := range a {
		a[i] = math.Pow(1+(a[i]-b[i])*(a[i]-b[i]), -1.5)
	}
	dst.Device().Upload(dst, a)
}
func (pseudoHuber) Lipschitz() float64 { return 1 }

// A solution for a loss that is not quadratic satisfies its optimality condition.
func TestLossThatIsNotQuadratic(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(5, 6))
	const d, p, lambda = 40, 8, 3.0
	a, y := roomtest.Dense(t, dev, d, p, solvetest.Gaussian(rng, d*p)), roomtest.On(t, dev, solvetest.Gaussian(rng, d))
	for _, name := range []string{"ista", "fista", "active-set", "newton"} {
		sol := roomtest.At(t, roomtest.NewSolver(t, name, solve.Problem{A: a, R: prox.NewL1(lambda),
			Loss: pseudoHuber{}, Device: dev}, solve.Options{Tol: 1e-10}), y)
		z, g := dev.Alloc(1, d), dev.Alloc(1, p)
		pseudoHuber{}.Gradient(z, sol.MuHat, y)
		a.Adjoint(g, z)
		active := 0
		for j, b := range sol.B.ToHost() {
			v := g.ToHost()[j]
			if b != 0 {
				active++
				v += math.Copysign(lambda, b)
			} else {
				v = math.Max(math.Abs(v)-lambda, 0)
			}
			if math.Abs(v) > 1e-7 {
				t.Errorf("%s: coordinate %d violates its optimality condition by %g", name, j, v)
			}
		}
		if !sol.Converged || active == 0 || active == p {
			t.Errorf("%s: %+v with %d of %d coordinates active", name, sol.Convergence, active, p)
		}
		z.Free()
		g.Free()
	}
}

// Solutions list what was chosen for their problem.
func TestChoicesAreRecorded(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(7, 8))
	const d = 20
	matrix := func(p int, spread float64) *linops.Dense {
		x := solvetest.Gaussian(rng, d*p)
		for i := range x {
			x[i] *= []float64{spread, 1}[i%p%2]
		}
		return roomtest.Dense(t, dev, d, p, x)
	}
	shape := array.Shape{Rows: 70, Cols: 66}
	places := rng.Perm(shape.Len())[:2000]
	sampled, err := linops.NewSelection(dev, shape.Len(), places)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sampled.Release)
	small, wide := matrix(8, 1), matrix(300, 1)
	uneven, graded := matrix(8, 100), matrix(8, 1e6)
	for _, c := range []struct {
		solver       string
		a            linops.Operator
		r            prox.Prox
		part, chosen string
	}{
		{"fista", small, prox.NewL1(1), "loss", "squared"},
		{"fista", small, prox.NewL1(1), "units", "the user's"},
		{"fista", small, prox.NewL1(1), "method", "all coordinates"},
		{"fista", wide, prox.NewL1(8), "method", "a working set"},
		{"ista", wide, prox.NewL1(1e-3), "method", "all coordinates"},
		{"admm", wide, prox.NewL1(8), "method", "all coordinates"},
		{"admm", roomtest.Plain{Operator: small}, prox.NewL1(1), "system", "an inverse matrix"},
		{"admm", uneven, prox.NewL1(1), "units", "columns of about unit length"},
		{"fista", uneven, lowrank.NewNuclear(array.Shape{Rows: 2, Cols: 4}, 0.1), "units", "the user's"},
		{"fista", sampled, lowrank.NewNuclear(shape, 15), "method", "iterates in factored form"},
		{"fista", sampled, lowrank.NewNuclear(shape, 0.1), "method", "all singular values"},
		{"admm", sampled, lowrank.NewNuclear(shape, 15), "method", "inexact proximal operator"},
		{"direct", small, prox.NewSquaredL2(1), "method", "closed form"},
		{"direct", small, prox.NewSquaredL2(1), "method", "singular value decomposition"},
		{"direct", graded, prox.NewSquaredL2(1), "method", "pivoted factorization with the penalty"},
	} {
		n, _ := c.a.Dims()
		s := roomtest.NewSolver(t, c.solver, solve.Problem{A: c.a, R: c.r, Device: dev}, solve.Options{MaxIter: 200})
		roomtest.CheckChoice(t, roomtest.At(t, s, roomtest.On(t, dev, solvetest.Gaussian(rng, n))), c.part, c.chosen)
	}
}

// Every iteration is reported, and a solve that is cancelled meanwhile stops.
func TestProgressAndCancellation(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(9, 10))
	const d = 20
	y := roomtest.On(t, dev, solvetest.Gaussian(rng, d))
	for _, c := range []struct {
		name string
		p    int
	}{{"fista", 8}, {"admm", 8}, {"fista", 300}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seen []progress.Report
		stop := math.MaxInt
		reporting := progress.With(ctx, func(r progress.Report) {
			if seen = append(seen, r); len(seen) >= stop {
				cancel()
			}
		})
		s := roomtest.NewSolver(t, c.name, solve.Problem{A: roomtest.Dense(t, dev, d, c.p,
			solvetest.Gaussian(rng, d*c.p)), R: prox.NewL1(1), Device: dev}, solve.Options{})
		sol, err := s.Solve(reporting, y, solve.From{})
		if err != nil {
			t.Fatal(err)
		}
		last := seen[len(seen)-1]
		if c.p == 8 && (len(seen) != sol.Iterations || last.Step != sol.Iterations ||
			last.Stage != progress.Iterations) || last.Measure <= 0 {
			t.Errorf("%s: %d reports of %d iterations, the last %+v", c.name, len(seen), sol.Iterations, last)
		}
		sol.Release()
		seen, stop = nil, 1
		if _, err := s.Solve(reporting, y, solve.From{}); !errors.Is(err, context.Canceled) || len(seen) != 1 {
			t.Errorf("%s: error %v after %d reports", c.name, err, len(seen))
		}
	}
}

// What cannot be solved is an error that says why.
func TestErrorsSayWhy(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(11, 12))
	a := roomtest.Dense(t, dev, 5, 3, solvetest.Gaussian(rng, 15))
	l, err := loss.WeightedSquared(dev, []float64{1, 1, 1, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	short, err := loss.WeightedSquared(dev, []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(short.Release)
	good := solve.Problem{A: a, R: prox.NewL1(1), Device: dev}
	with := func(change func(p *solve.Problem)) solve.Problem {
		p := good
		change(&p)
		return p
	}
	for _, c := range []struct {
		solver string
		p      solve.Problem
		o      solve.Options
		want   string
	}{
		{"gradients", good, solve.Options{}, "direct, ista, fista, admm, active-set, newton"},
		{"fista", solve.Problem{}, solve.Options{}, "without an operator"},
		{"fista", with(func(p *solve.Problem) { p.R = prox.Block{Prox: p.R, N: 4} }), solve.Options{},
			"a regularizer on R^4 for an operator on R^3"},
		{"fista", good, solve.Options{Tol: 2}, "tolerance is 2"},
		{"fista", good, solve.Options{MaxIter: -1}, "at most -1 iterations"},
		{"fista", good, solve.Options{Sigma2: math.NaN()}, "sigma2 is NaN"},
		{"direct", good, solve.Options{}, "quadratic regularizer"},
		{"fista", with(func(p *solve.Problem) { p.Loss = short }), solve.Options{},
			"1 weights of observations for an operator with 5 rows"},
	} {
		if _, err := solve.New(t.Context(), c.solver, c.p, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, expected %q", err, c.want)
		}
	}
	if _, err := rewrite.Project(with(func(p *solve.Problem) { p.Loss = l }), additive.Constant(5)); err == nil ||
		!strings.Contains(err.Error(), "drop the intercept or the weights") {
		t.Errorf("an intercept beside weights: error %v", err)
	}
	s := roomtest.NewSolver(t, "fista", good, solve.Options{})
	if _, err := s.Solve(t.Context(), roomtest.On(t, dev, []float64{1, 2, math.Inf(1), 0, 0}),
		solve.From{}); err == nil || !strings.Contains(err.Error(), "NaN or Inf") {
		t.Errorf("error %v for a y that is not finite", err)
	}
}
