package vjp

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/array"
	"surepipe/prox"
)

// entry says where a solve starts. The zero value starts at b = 0.
type entry struct {
	b        array.Batch // where to start, unless the tape is running
	confined bool        // the problem is a part of another, whose duality gap is not its own
}

// solve iterates the method and linearizes the solution as asked. A
// solve whose iterations turn out to be needed, since they did not converge, is
// done a second time with the tape running.
func solve(ctx context.Context, m method, y array.Batch, o Options, from entry) (*Solution, error) {
	switch o.Derivative {
	case None:
		return iterate(ctx, m, y, o, from)
	case Unrolled:
		sol, err := iterate(ctx, m, y, o, from)
		if err == nil && sol.Converged {
			if sol.Lag, err = lag(ctx, m, y, o, sol); err != nil {
				sol.Release()
				return nil, err
			}
		}
		return sol, err
	}
	plain := o
	plain.Derivative = None
	sol, err := iterate(ctx, m, y, plain, from)
	if err != nil {
		return nil, err
	}
	if !sol.Converged && o.Derivative == Auto {
		sol.Release()
		o.Derivative = Unrolled
		return iterate(ctx, m, y, o, from)
	}
	l, err := linearize(ctx, m, y, o, sol)
	if err != nil {
		sol.Release()
		return nil, err
	}
	sol.Linearization = l
	if q, ok := m.problem().R.(prox.Quadratic); ok && q.Curvature() == 0 && l.known.Known {
		if err := leastSquaresError(ctx, m, y, o, sol); err != nil {
			sol.Release()
			return nil, err
		}
	}
	return sol, nil
}

// leastSquaresError is the error of mu_hat where r = 0: the projection D mu_hat of the residual.
func leastSquaresError(ctx context.Context, m method, y array.Batch, o Options, sol *Solution) error {
	dev := y.Device()
	z, miss := dev.Alloc(1, y.N()), dev.Alloc(1, y.N())
	defer z.Free()
	defer miss.Free()
	dev.Lin(z, 1, y, -1, sol.MuHat)
	if err := sol.Linearization.VJP(ctx, miss, z); err != nil {
		return err
	}
	sol.Error = norm(miss)
	sol.Converged = sol.Converged && !(sol.Error > newYardstick(y, m.norm2(), o).allowed(norm(z)))
	return dev.Err()
}

// lagProbes is the number of probes that compare two derivatives; up to lagUnits observations it is
// all unit vectors. lagResidual is the residual of the implicit one's conjugate gradients.
const (
	lagProbes   = 1
	lagUnits    = 32
	lagResidual = 1e-4
)

// lag is the difference of the traces of the unrolled derivative and of the implicit one, in size, as
// far as a probe tells, or all unit vectors. Where the range
// of the implicit one's trace is larger it is that.
func lag(ctx context.Context, m method, y array.Batch, o Options, sol *Solution) (float64, error) {
	l, err := newImplicit(m.problem(), sol.B, y, m.norm2(), o, sol.Optimality)
	if err != nil {
		return 0, err
	}
	defer l.Release()
	dev, d := y.Device(), y.N()
	k := lagProbes
	if d <= lagUnits {
		k = max(d, 2)
	}
	probes, one, other := dev.Alloc(k, d), dev.Alloc(k, d), dev.Alloc(k, d)
	defer probes.Free()
	defer one.Free()
	defer other.Free()
	rng := rand.New(rand.NewPCG(0x6c6167, uint64(d)))
	signs := make([]float64, k*d)
	for i := range signs {
		switch {
		case d > lagUnits:
			signs[i] = float64(1 - 2*int(rng.Uint64()&1))
		case i%d == i/d:
			signs[i] = 1
		}
	}
	dev.Upload(probes, signs)
	if err := sol.Linearization.VJP(ctx, one, probes); err != nil {
		return 0, err
	}
	if err := l.solve(ctx, other, probes, goal{residual: lagResidual, form: math.Inf(1)}, nil); err != nil {
		return 0, err
	}
	dev.Lin(one, 1, one, -1, other)
	forms := make([]float64, k)
	dev.Dot(forms, probes, one)
	sum, most := 0.0, l.known.High-l.known.Low
	for _, f := range forms {
		if sum += f; d > lagUnits {
			most = max(most, math.Abs(f))
		}
	}
	if d <= lagUnits {
		most = max(most, math.Abs(sum))
	}
	return most, dev.Err()
}

// settledTol is the tolerance of a second solve, where the first leaves the tangent space in doubt.
const settledTol = 1e-12

// linearize is the implicit derivative at a solution. Where decisions behind it are in doubt, or
// it depends on what b lacks, the solution is improved as far as that goes.
func linearize(ctx context.Context, m method, y array.Batch, o Options, sol *Solution) (*implicit, error) {
	l, err := newImplicit(m.problem(), sol.B, y, m.norm2(), o, sol.Optimality)
	if err != nil || !(l.known.Low < l.known.High || l.f != nil && l.f.sensitive) || !sol.Converged || o.Tol <= settledTol {
		return l, err
	}
	settled := o
	settled.Tol, settled.Derivative, settled.MaxIter = settledTol, None, min(o.MaxIter, 100+4*sol.Iterations)
	better, err := iterate(ctx, m, y, settled, entry{b: sol.B, confined: true})
	if err != nil {
		l.Release()
		return nil, err
	}
	defer better.Release()
	sol.Iterations += better.Iterations
	if better.Optimality >= sol.Optimality {
		return l, nil
	}
	l.Release()
	dev := m.problem().Device
	dev.Copy(sol.B, better.B)
	dev.Copy(sol.MuHat, better.MuHat)
	sol.Optimality = better.Optimality
	return newImplicit(m.problem(), sol.B, y, m.norm2(), o, sol.Optimality)
}

// iterate runs the method until it is optimal or out of iterations, with the
// tape running when o.Derivative is Unrolled.
func iterate(ctx context.Context, m method, y array.Batch, o Options, from entry) (sol *Solution, err error) {
	p := m.problem()
	if err := checkY(p, y); err != nil {
		return nil, err
	}
	w := newWork(m, y)
	defer w.free()
	var t *unrolled
	if o.Derivative != Unrolled {
		w.begin(from.b, m.estimates())
		if w.follower = prox.Follow(p.R); w.follower != nil {
			defer w.follower.Release()
		}
	} else {
		t = newUnrolled(m, y, o.Memory)
		defer func() {
			if err != nil {
				t.Release()
			}
		}()
	}
	c := newCheck(m, y, o)
	c.confined = from.confined
	defer c.free()
	w.c = m.start()
	last := c.scale // the measure of the last step
	oneStep := orthogonal(p.A)
	if oneStep || !from.b.IsZero() {
		last = 0 // a first step as close as the last ones loses nothing that b knows
	}
	for c.conv.Iterations < o.MaxIter && !c.conv.Converged {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.near = nearness * w.c.eta * math.Max(last, c.tol*c.scale)
		final := c.conv.Iterations == o.MaxIter-1
		if final {
			w.follower = nil // the optimality reported is exact
		}
		if t != nil {
			t.before(w)
		}
		j, err := m.step(ctx, w, t != nil)
		if err != nil {
			return nil, fmt.Errorf("%s iteration %d: %w", m.name(), w.iteration+1, err)
		}
		measured, next := m.measure(w)
		if t != nil {
			t.after(w.c, j)
		}
		if math.IsNaN(measured) || math.IsInf(measured, 0) {
			return nil, fmt.Errorf("%s: the iterates are not finite after %d iterations", m.name(), w.iteration+1)
		}
		if !oneStep {
			last = measured
		}
		if err := c.after(ctx, w, measured, final); err != nil {
			return nil, err
		}
		if err := p.Device.Err(); err != nil {
			return nil, err
		}
		w.iteration++
		w.c = next
	}
	conv := c.conv
	d, dim := p.A.Dims()
	sol = &Solution{Convergence: conv, B: p.Device.Alloc(1, dim), MuHat: p.Device.Alloc(1, d)}
	p.Device.Copy(sol.B, w.b)
	p.A.Forward(sol.MuHat, sol.B)
	if t != nil {
		sol.Linearization = t
	}
	if err := p.Device.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}
