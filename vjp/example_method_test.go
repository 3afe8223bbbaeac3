package vjp_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// primalDual is the method of Chambolle and Pock (2011), which solves for b and for the residual
// u = A b - y at the same time:
//
//	u_{k+1} = (u_k + sigma (A x_k - y)) / (1 + sigma)
//	b_{k+1} = prox_{tau r}(b_k - tau A* u_{k+1})
//	x_{k+1} = 2 b_{k+1} - b_k.
//
// It is a solve.Method written with exported names only. Its state (b_k, x_k, u_k) has vectors of
// two lengths.
type primalDual struct {
	p          solve.Problem
	norm2      float64
	tau, sigma float64
}

// newPrimalDual is its constructor: the steps satisfy tau sigma ||A||^2 <= 1.
func newPrimalDual(ctx context.Context, p solve.Problem, _ solve.Options) (solve.Method, error) {
	if p.Loss != nil {
		return nil, fmt.Errorf("primal-dual: the loss is not quadratic")
	}
	n, err := krylov.Norm2(ctx, p.Device, p.A, krylov.NormOptions{})
	if err != nil {
		return nil, err
	}
	norm := math.Max(math.Sqrt(n.Upper()), 1e-300)
	return &primalDual{p: p, norm2: n.Upper(), tau: 1 / norm, sigma: 1 / norm}, nil
}

func (m *primalDual) Name() string           { return "primal-dual" }
func (m *primalDual) Problem() solve.Problem { return m.p }
func (m *primalDual) Release()               {}

// Traits gives the lengths of the state, and of a step's scratch: an argument of the proximal
// operator and A x_k - y.
func (m *primalDual) Traits() solve.Traits {
	d, p := m.p.A.Dims()
	return solve.Traits{Norm2: m.norm2, State: []int{p, p, d}, Scratch: []int{p, d}}
}

// Init starts at b0 with its residual, or at 0: that state must not depend on y.
func (m *primalDual) Init(w *solve.Work, b0 array.Batch) error {
	w.C.Eta = m.tau
	if !b0.IsZero() {
		for _, to := range []array.Batch{w.State[0], w.State[1], w.B} {
			w.Device().Copy(to, b0)
		}
		m.p.A.Forward(w.State[2], b0)
		w.Device().Lin(w.State[2], 1, w.State[2], -1, w.Y)
	}
	return nil
}

// Step leaves b_k - b_{k+1} in the scratch.
func (m *primalDual) Step(ctx context.Context, w *solve.Work, record bool) (prox.Derivative, error) {
	dev := w.Device()
	b, x, u := w.State[0], w.State[1], w.State[2]
	v, z := w.Scratch[0], w.Scratch[1]
	m.p.A.Forward(z, x)
	dev.Lin(z, 1, z, -1, w.Y)
	dev.Lin(u, 1/(1+m.sigma), u, m.sigma/(1+m.sigma), z)
	m.p.A.Adjoint(v, u)
	dev.Lin(v, 1, b, -m.tau, v)
	j, err := w.Prox(ctx, m.p.R, w.B, v, record)
	if err != nil {
		return nil, err
	}
	dev.Lin(x, 2, w.B, -1, b)
	dev.Lin(v, 1, b, -1, w.B)
	dev.Copy(b, w.B)
	return j, nil
}

// Measure determines when to check: Traits.Exact is false, so that a gradient at b decides.
func (m *primalDual) Measure(w *solve.Work) (float64, solve.Coefficients) {
	return solve.Norm(w.Scratch[0]) / m.tau, w.C
}

// Reverse goes through Step from the last line to the first.
func (m *primalDual) Reverse(_ context.Context, dst array.Batch, a *solve.Adjoint, j prox.Derivative) error {
	dev := dst.Device()
	beta, xi, upsilon := a.State[0], a.State[1], a.State[2]
	if a.Last {
		dev.Copy(beta, a.Seed)
	}
	// b_{k+1} is in x_{k+1}, with b_k, and it is the prox.
	dev.Lin(beta, 1, beta, 2, xi)
	a.Apply(j, beta, beta)
	a.A.Forward(a.Image, beta)
	dev.Lin(beta, 1, beta, -1, xi)
	dev.Lin(upsilon, 1/(1+m.sigma), upsilon, -m.tau/(1+m.sigma), a.Image)
	dev.Lin(dst, 1, dst, -m.sigma, upsilon)
	if a.K > 0 {
		a.A.Adjoint(xi, upsilon)
		dev.Lin(xi, m.sigma, xi, 0, array.Batch{})
	}
	return nil
}

// primalDualEntry is the method as solvers of a table are: it may run on a working set.
var primalDualEntry = solve.Entry{Name: "primal-dual", New: newPrimalDual, Sparse: true}

// A method written outside the packages is a solver like the others: its solution is certified and
// differentiated, the trace is known exactly, and a solve starts at the solution of a problem
// nearby.
func ExampleFromMethod() {
	ctx, dev := context.Background(), array.NewHost()
	rng := rand.New(rand.NewPCG(1, 2))
	const d, p = 30, 12
	a := linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)))
	y := dev.Alloc(1, d)
	dev.Upload(y, scaled(3, solvetest.Gaussian(rng, d)))

	problem := vjp.Problem{A: a, R: prox.NewL1(8), Device: dev}
	solver, err := vjp.FromMethod(ctx, primalDualEntry, problem, vjp.Options{})
	if err != nil {
		panic(err)
	}
	solution, err := solver.Solve(ctx, y)
	if err != nil {
		panic(err)
	}
	active := 0
	for _, b := range solution.B.ToHost() {
		if b != 0 {
			active++
		}
	}
	fmt.Println(solver.Name(), "converged:", solution.Converged, "derivative:", solution.Linearization.Kind())
	fmt.Printf("divergence %.3f with %d coefficients that are not 0\n", solution.Linearization.Closed().Trace, active)

	other, err := solver.Reweight(ctx, prox.NewL1(8.1))
	if err != nil {
		panic(err)
	}
	cold, err := other.Solve(ctx, y)
	if err != nil {
		panic(err)
	}
	warm, err := other.SolveFrom(ctx, y, vjp.From{B: solution.B})
	if err != nil {
		panic(err)
	}
	fmt.Println("fewer iterations from the solution nearby:", warm.Iterations < cold.Iterations)
	// Output:
	// primal-dual converged: true derivative: implicit
	// divergence 8.000 with 8 coefficients that are not 0
	// fewer iterations from the solution nearby: true
}

// The method passes the checks for methods, and is differentiated in every way as FISTA is:
// implicitly, by a tape, by a tape that is too short, with columns in other units and with weights
// of the observations.
func TestMethodFromOutside(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(3, 4))
		const d, p = 20, 9
		x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
		units := mat.DenseCopyOf(x)
		units.Apply(func(_, j int, v float64) float64 { return v * []float64{100, 1, 0.1}[j%3] }, units)
		weights := make([]float64, d)
		for i := range weights {
			weights[i] = []float64{1, 2, 0.5, 0}[i%4]
		}
		weighted, err := loss.WeightedSquared(dev, weights)
		if err != nil {
			t.Fatal(err)
		}
		defer weighted.Release()
		plain, scaledColumns := linops.NewDense(dev, x), linops.NewDense(dev, units)
		defer plain.Release()
		defer scaledColumns.Release()
		y := scaled(3, solvetest.Gaussian(rng, d))
		on := dev.Alloc(1, d)
		defer on.Free()
		dev.Upload(on, y)
		m, err := newPrimalDual(t.Context(), solve.Problem{A: plain, R: prox.NewElasticNet(3, 1), Device: dev},
			solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := solvetest.Check(t.Context(), m, on); err != nil {
			t.Error(err)
		}
		for name, problem := range map[string]vjp.Problem{
			"as it is": {A: plain, R: prox.NewL1(5), Device: dev},
			"units":    {A: scaledColumns, R: prox.NewL1(5), Device: dev},
			"weights":  {A: plain, R: prox.NewL1(5), Loss: weighted, Device: dev},
		} {
			o := vjp.Options{Tol: 1e-11, MaxIter: 20000}
			want := solved(t, newSolver(t, "fista", problem, o), dev, y)
			defer want.Release()
			reference := jacobian(t, want.Linearization, dev, d)
			for _, o := range []vjp.Options{{}, {Derivative: vjp.Unrolled}, {Derivative: vjp.Unrolled, Memory: 40000}} {
				o.Tol, o.MaxIter = 1e-11, 20000
				s, err := vjp.FromMethod(t.Context(), primalDualEntry, problem, o)
				if err != nil {
					t.Fatal(err)
				}
				got := solved(t, s, dev, y)
				near(t, name+": mu_hat", got.MuHat.ToHost(), want.MuHat.ToHost(), 1e-8)
				near(t, name+": b", got.B.ToHost(), want.B.ToHost(), 1e-7)
				near(t, name+": D mu_hat", jacobian(t, got.Linearization, dev, d).RawMatrix().Data,
					reference.RawMatrix().Data, 1e-5)
				if c := got.Linearization.Closed(); c.Known &&
					math.Abs(c.Trace-want.Linearization.Closed().Trace) > 1e-8 {
					t.Errorf("%s: trace %g, want %g", name, c.Trace, want.Linearization.Closed().Trace)
				}
				got.Release()
				s.Release()
			}
		}
	})
}

// It runs on a working set, where the solution is sparse.
func TestMethodFromOutsideRunsOnAWorkingSet(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(5, 6))
		const d, p = 20, 400
		a := linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)))
		defer a.Release()
		y := scaled(3, solvetest.Gaussian(rng, d))
		problem, o := vjp.Problem{A: a, R: prox.NewL1(12), Device: dev}, vjp.Options{Tol: 1e-10, MaxIter: 20000}
		want := solved(t, newSolver(t, "fista", problem, o), dev, y)
		defer want.Release()
		s, err := vjp.FromMethod(t.Context(), primalDualEntry, problem, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		got := solved(t, s, dev, y)
		defer got.Release()
		near(t, "mu_hat", got.MuHat.ToHost(), want.MuHat.ToHost(), 1e-7)
		if c, w := got.Linearization.Closed(), want.Linearization.Closed(); !c.Known ||
			math.Abs(c.Trace-w.Trace) > 1e-8 {
			t.Errorf("trace %g, known %t, want %g", c.Trace, c.Known, w.Trace)
		}
		if !slices.ContainsFunc(got.Choices, func(c vjp.Choice) bool { return c.Chosen == "a working set" }) {
			t.Errorf("choices %v", got.Choices)
		}
	})
}
