package vjp_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// descent is gradient descent for ridge regression: a method without a proximal operator.
type descent struct {
	p     solve.Problem
	c     float64
	norm2 float64
}

func newDescent(ctx context.Context, p solve.Problem, _ solve.Options) (solve.Method, error) {
	n, err := krylov.Norm2(ctx, p.Device, p.A, krylov.NormOptions{})
	return &descent{p: p, c: prox.StructureOf(p.R).Quadratic.Value, norm2: n.Upper()}, err
}

func (m *descent) Name() string           { return "descent" }
func (m *descent) Problem() solve.Problem { return m.p }
func (m *descent) Release()               {}

func (m *descent) Traits() solve.Traits {
	d, p := m.p.A.Dims()
	return solve.Traits{Norm2: m.norm2, State: []int{p}, Scratch: []int{p, d}}
}

func (m *descent) Init(w *solve.Work, b0 array.Batch) error {
	w.C.Eta = 1 / (m.norm2 + m.c)
	if !b0.IsZero() {
		w.Device().Copy(w.State[0], b0)
		w.Device().Copy(w.B, b0)
	}
	return nil
}

func (m *descent) Step(_ context.Context, w *solve.Work, _ bool) (prox.Derivative, error) {
	dev, b, g, z := w.Device(), w.State[0], w.Scratch[0], w.Scratch[1]
	m.p.A.Forward(z, b)
	dev.Lin(z, 1, z, -1, w.Y)
	m.p.A.Adjoint(g, z)
	dev.Lin(g, 1, g, m.c, b)
	dev.Lin(b, 1, b, -w.C.Eta, g)
	dev.Copy(w.B, b)
	return nil, nil
}

func (m *descent) Measure(w *solve.Work) (float64, solve.Coefficients) {
	return solve.Norm(w.Scratch[0]), w.C
}

func (m *descent) Reverse(_ context.Context, dst array.Batch, a *solve.Adjoint, _ prox.Derivative) error {
	dev, beta := dst.Device(), a.State[0]
	if a.Last {
		dev.Copy(beta, a.Seed)
	}
	a.A.Forward(a.Image, beta)
	dev.Lin(dst, 1, dst, a.C.Eta, a.Image)
	a.A.Adjoint(a.Scratch, a.Image)
	dev.Lin(a.Scratch, 1, a.Scratch, m.c, beta)
	dev.Lin(beta, 1, beta, -a.C.Eta, a.Scratch)
	return nil
}

// A method need not evaluate a proximal operator: its steps are on the tape all the same.
func TestMethodWithoutAProximalOperator(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(8, 9))
		const d, p = 15, 6
		a := linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)))
		defer a.Release()
		y := solvetest.Gaussian(rng, d)
		problem := vjp.Problem{A: a, R: prox.NewSquaredL2(3), Device: dev}
		m, err := newDescent(t.Context(), problem, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		on := dev.Alloc(1, d)
		defer on.Free()
		dev.Upload(on, y)
		if err := solvetest.Check(t.Context(), m, on); err != nil {
			t.Error(err)
		}
		want := solved(t, newSolver(t, "direct", problem, vjp.Options{}), dev, y)
		defer want.Release()
		reference := jacobian(t, want.Linearization, dev, d).RawMatrix().Data
		for _, o := range []vjp.Options{{}, {Derivative: vjp.Unrolled}, {Derivative: vjp.Unrolled, Memory: 500}} {
			o.Tol = 1e-11
			s, err := vjp.FromMethod(t.Context(), solve.Entry{Name: "descent", New: newDescent}, problem, o)
			if err != nil {
				t.Fatal(err)
			}
			got := solved(t, s, dev, y)
			near(t, "D mu_hat", jacobian(t, got.Linearization, dev, d).RawMatrix().Data, reference, 1e-6)
			got.Release()
			s.Release()
		}
	})
}
