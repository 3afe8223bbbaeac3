package solvetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/solve"
)

// Check tests what [solve.Method] promises at y, a batch of one vector around which the estimate is
// smooth:
//
//   - the first state does not depend on y, and a start at b0 has b0 as its estimate;
//   - iterations computed again from a state and their coefficients have the same bits;
//   - Reverse is the transpose of the derivative of the iterations, by central differences;
//   - a solve converges, and a solve from its solution needs no more iterations.
//
// It compares no fields of [solve.Traits] with what they promise: Dual, Inside, Settled, Ended, Kept, Reweight,
// Recorded, Factored and Own are used where a solve or a step uses them, and not tested by themselves.
//
// It returns an error that names what does not hold, or nil.
func Check(ctx context.Context, m solve.Method, y array.Batch) error {
	var failed []error
	for _, c := range []struct {
		what  string
		check func(context.Context, solve.Method, array.Batch) error
	}{{"Init", initial}, {"Step", repeats}, {"Reverse", reverses}, {"Run", converges}} {
		if err := c.check(ctx, m, y); err != nil {
			failed = append(failed, fmt.Errorf("%s: %s: %w", m.Name(), c.what, err))
		}
	}
	return errors.Join(failed...)
}

// tape keeps everything.
type tape struct {
	states [][]float64 // all vectors one after the other
	coefs  []solve.Coefficients
	js     []prox.Derivative
}

func (t *tape) Before(state []array.Batch) { t.states = append(t.states, values(state)) }

func (t *tape) After(c solve.Coefficients, j prox.Derivative) {
	t.coefs, t.js = append(t.coefs, c), append(t.js, j)
}

func (t *tape) release() {
	for _, j := range t.js {
		if j != nil {
			j.Release()
		}
	}
}

func values(state []array.Batch) []float64 {
	var all []float64
	for _, s := range state {
		all = append(all, s.ToHost()...)
	}
	return all
}

// gaussian is a batch of k random vectors, the same ones every time.
func gaussian(dev array.Device, k, n int, seed uint64) array.Batch {
	rng := rand.New(rand.NewPCG(seed, 0x6d6574686f64))
	x := make([]float64, k*n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	b := dev.Alloc(k, n)
	dev.Upload(b, x)
	return b
}

func initial(_ context.Context, m solve.Method, y array.Batch) error {
	dev, t := y.Device(), m.Traits()
	other := gaussian(dev, 1, y.N(), 1)
	defer other.Free()
	one, err := solve.Begin(m, t, y, array.Batch{})
	if err != nil {
		return err
	}
	defer one.Release()
	two, err := solve.Begin(m, t, other, array.Batch{})
	if err != nil {
		return err
	}
	defer two.Release()
	a, b := values(one.State), values(two.State)
	for i := range a {
		if a[i] != b[i] {
			return fmt.Errorf("value %d of the first state is %g at one y and %g at another", i, a[i], b[i])
		}
	}
	if t.Steps > 0 {
		return nil
	}
	_, p := m.Problem().A.Dims()
	b0 := gaussian(dev, 1, p, 2)
	defer b0.Free()
	w, err := solve.Begin(m, t, y, b0)
	if err != nil {
		return err
	}
	defer w.Release()
	if got := distance(w.B, b0); got != 0 {
		return fmt.Errorf("a start at b0 has an estimate at a distance of %g", got)
	}
	return nil
}

// iterations is the number of iterations that are repeated and differentiated.
const iterations = 7

// record runs that many iterations at y.
func record(ctx context.Context, m solve.Method, y array.Batch, t solve.Tape) (*solve.Solution, error) {
	return solve.Run(ctx, m, y, solve.Options{Tol: 1e-300, MaxIter: iterations}, solve.Start{Tape: t})
}

func repeats(ctx context.Context, m solve.Method, y array.Batch) error {
	t := new(tape)
	defer t.release()
	sol, err := record(ctx, m, y, t)
	if err != nil {
		return err
	}
	sol.Release()
	w, err := solve.Begin(m, m.Traits(), y, array.Batch{})
	if err != nil {
		return err
	}
	defer w.Release()
	for k, c := range t.coefs {
		for i, v := range values(w.State) {
			if v != t.states[k][i] {
				return fmt.Errorf("before iteration %d value %d of the state is %v, and was %v: does Measure "+
					"change the state?", k, i, v, t.states[k][i])
			}
		}
		w.C, w.K = c, k
		j, err := m.Step(ctx, w, true)
		if err != nil {
			return err
		}
		if j != nil {
			j.Release()
		}
	}
	return nil
}

// reverse sets dst_i to (D mu_hat)* v_i.
func (t *tape) reverse(ctx context.Context, m solve.Method, dst, v array.Batch) error {
	dev, k, traits := v.Device(), v.K(), m.Traits()
	d, p := m.Problem().A.Dims()
	a := &solve.Adjoint{
		A: m.Problem().A, Last: true, Seed: dev.Alloc(k, p), Scratch: dev.Alloc(k, p), Image: dev.Alloc(k, d),
		Zero:  make([]bool, len(traits.State)),
		Apply: func(j prox.Derivative, dst, z array.Batch) { j.Apply(dst, z) },
	}
	for i, n := range traits.State {
		a.State, a.Zero[i] = append(a.State, dev.Alloc(k, n)), true
		dev.Fill(a.State[i], 0)
	}
	defer func() {
		for _, b := range append(a.State, a.Seed, a.Scratch, a.Image) {
			b.Free()
		}
	}()
	dev.Fill(dst, 0)
	a.A.Adjoint(a.Seed, v)
	for a.K = len(t.js) - 1; a.K >= 0; a.K-- {
		a.C = t.coefs[a.K]
		if err := m.Reverse(ctx, dst, a, t.js[a.K]); err != nil {
			return err
		}
		a.Last = false
	}
	return dev.Err()
}

func reverses(ctx context.Context, m solve.Method, y array.Batch) error {
	dev, d := y.Device(), y.N()
	const probes, h = 3, 1e-6
	v, image, e := gaussian(dev, probes, d, 3), dev.Alloc(probes, d), gaussian(dev, 1, d, 4)
	moved, difference := dev.Alloc(1, d), dev.Alloc(1, d)
	for _, b := range []array.Batch{v, image, e, moved, difference} {
		defer b.Free()
	}
	t := new(tape)
	defer t.release()
	sol, err := record(ctx, m, y, t)
	if err != nil {
		return err
	}
	sol.Release()
	if err := t.reverse(ctx, m, image, v); err != nil {
		return err
	}
	dev.Fill(difference, 0)
	size := solve.Norm(y)
	for _, s := range []float64{h * size, -h * size} {
		dev.Lin(moved, 1, y, s, e)
		other := new(tape)
		sol, err := record(ctx, m, moved, other)
		other.release()
		if err != nil {
			return err
		}
		dev.Lin(difference, 1, difference, 0.5/s, sol.MuHat)
		sol.Release()
	}
	got, want := make([]float64, probes), make([]float64, probes)
	dev.Dot(got, image, e)
	dev.Dot(want, v, difference)
	for i := range got {
		if limit := 1e-5 * solve.Norm(v.Rows(i, i+1)) * solve.Norm(e); !(math.Abs(got[i]-want[i]) <= limit) {
			return fmt.Errorf("probe %d has the inner product %g with a direction, central differences give %g", i,
				got[i], want[i])
		}
	}
	return nil
}

func converges(ctx context.Context, m solve.Method, y array.Batch) error {
	o := solve.Options{Tol: 1e-9, MaxIter: 100000}
	cold, err := solve.Run(ctx, m, y, o, solve.Start{})
	if err != nil {
		return err
	}
	defer cold.Release()
	warm, err := solve.Run(ctx, m, y, o, solve.Start{B: cold.B})
	if err != nil {
		return err
	}
	defer warm.Release()
	switch {
	case !cold.Converged || !warm.Converged:
		return fmt.Errorf("no convergence: %+v, and from there %+v", cold.Convergence, warm.Convergence)
	case warm.Iterations > cold.Iterations:
		return fmt.Errorf("%d iterations from the solution, %d from 0", warm.Iterations, cold.Iterations)
	case distance(warm.MuHat, cold.MuHat) > 1e-6*solve.Norm(y):
		return fmt.Errorf("mu_hat moves by %g from the solution", distance(warm.MuHat, cold.MuHat))
	}
	return nil
}

func distance(a, b array.Batch) float64 {
	t := a.Device().Alloc(1, a.N())
	defer t.Free()
	a.Device().Lin(t, 1, a, -1, b)
	return solve.Norm(t)
}
