package active

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/restrict"
	"surepipe/space"
)

// neighbourhood is what solves near each other share: columns in memory, on which they all start at
// the same point, and solutions that have been verified for all columns.
type neighbourhood struct {
	*screening
	refs []*verified
}

// solveNear solves on the columns in memory, and verifies the solution by those near to it. The gradient
// of the loss is linear in the residual, or in the loss's slope l'(A b; y): at z = z1 + t (z2 - z1) + e, for two
// verified residuals, it is
//
//	g_j = g1_j + t (g2_j - g1_j) + <a_j, e>,   |<a_j, e>| <= ||a_j|| ||e||.
//
// Along a path z is piecewise linear in the weight (Osborne, Presnell, Turlach 2000), so that e is small.
// Where the bound does not prove the conditions a pass finds the gradient.
func (s *screened) solveNear(ctx context.Context, y array.Batch, here separable, from engine.From) (*engine.Solution,
	error) {
	near, err := s.near(ctx, y, from)
	if err != nil {
		return nil, err
	}
	w := near.screening
	r, solver, err := s.on(ctx, w, s.Task.Problem.R, true)
	if err != nil {
		return nil, err
	}
	defer solver.Release()
	sol, err := solver.Solve(ctx, y, engine.From{B: w.started})
	if err != nil {
		prox.Release(r)
		return nil, err
	}
	dev := y.Device()
	misfit := dev.Alloc(1, y.N())
	defer misfit.Free()
	dev.Copy(misfit, sol.MuHat)
	engine.Slope(s.Task.Problem, misfit, y)
	g, err := s.gradientNear(ctx, near, here, misfit, slopeOf(solver))
	if err != nil || g == nil {
		sol.Release()
		prox.Release(r)
		if err != nil {
			return nil, err
		}
		from.Near, from.Ahead = nil, nil // columns outside matter
		return s.Solve(ctx, y, from)
	}
	s.wide(w, y, sol, r)
	at := &verified{g: g}
	w.measure(here, at)
	s.judge(ctx, w, y, sol, misfit, here, at, 0)
	if !s.Task.Options.Point {
		sol.At.Release()
		sol.At = nil
	}
	return sol, dev.Sync()
}

// near is the neighbourhood of the solve, which the first one makes.
func (s *screened) near(ctx context.Context, y array.Batch, from engine.From) (*neighbourhood, error) {
	if kept, ok := from.Near.Kept.(*neighbourhood); ok && kept.family == s.Task.Family &&
		slices.Equal(kept.y, y.ToHost()) {
		return kept, nil
	}
	from.Near.Release()
	steps, err := s.steps(from)
	defer func() {
		for _, t := range steps {
			prox.Release(t.r)
		}
	}()
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return nil, errors.New("solve: solves near each other without the weights between which they lie: " +
			"From.Ahead returns none")
	}
	w, err := s.open(ctx, y, steps[0].separable, from.B)
	if err != nil {
		return nil, err
	}
	n := &neighbourhood{screening: w}
	if err := s.settle(ctx, n, y, steps); err != nil {
		w.Release()
		return nil, err
	}
	from.Near.Kept = n
	return n, nil
}

// steps are the weights between which the solves lie, the caller's to release.
func (s *screened) steps(from engine.From) (steps []step, err error) {
	_, dim := s.Task.Problem.A.Dims()
	for i := 1; from.Ahead != nil; i++ {
		r, err := from.Ahead(i)
		if err != nil || r == nil {
			return steps, err
		}
		steps = append(steps, step{separableOf(r, dim), r})
	}
	return steps, nil
}

// settle puts columns into memory until the solutions on them are those of the whole problem at all
// steps.
func (s *screened) settle(ctx context.Context, n *neighbourhood, y array.Batch, steps []step) error {
	w, last := n.screening, len(steps)-1
	w.z = nil // from where the path has not come to the first step
	for range mostRounds {
		if err := s.choose(ctx, w, y, steps[last].separable); err != nil {
			return err
		}
		found, err := s.solveAll(ctx, w, y, steps)
		if err != nil {
			return err
		}
		n.refs = nil
		for i, t := range steps {
			if found.exact[i] {
				n.refs = append(n.refs, &verified{key: t.key, z: found.residual(i), g: found.gradient(i)})
			}
			must := found.violations(w, i, t.separable)
			if w.must == nil {
				w.must = must
			}
			for j, violated := range must {
				w.must[j] = w.must[j] || violated
			}
		}
		start := last // the next set starts here
		if w.must == nil {
			start = last / 2
		}
		w.g = slices.Clone(found.gradient(last))
		w.columns.set.Embed(w.b, found.b[start])
		found.Release()
		if w.must == nil {
			return s.restart(w, y)
		}
	}
	return fmt.Errorf("solve: the columns that matter are still not known after %d rounds: give more memory "+
		"for columns", mostRounds)
}

// gradientNear is a gradient over all columns: exact for those in memory, and a bound on its size for
// the others; or, after a pass, exact. It is nil where conditions outside do not hold.
func (s *screened) gradientNear(ctx context.Context, n *neighbourhood, here separable, misfit array.Batch,
	slope []float64) ([]float64, error) {
	dev := misfit.Device()
	_, dim := s.Task.Problem.A.Dims()
	g := make([]float64, dim)
	s.between(g, n, here, misfit, slope)
	if s.Task.Lengths() == nil && len(n.set) < len(g) || n.violations(here, g) != nil {
		all := dev.Alloc(1, len(g))
		defer all.Free()
		if err := s.passes.Adjoint(ctx, all, misfit); err != nil {
			return nil, err
		}
		if g = all.ToHost(); n.violations(here, g) != nil {
			return nil, dev.Err()
		}
	}
	return g, dev.Err()
}

// between sets g to the gradient at a residual near to verified ones: exact for the columns in memory, and for the
// others a bound on its size.
func (s *screened) between(g []float64, n *neighbourhood, here separable, misfit array.Batch, slope []float64) {
	from, to, share, off := n.interpolate(misfit.ToHost())
	bound := 0.0
	if n.lengths == nil {
		bound = engine.NewScales(misfit, 0, s.Task.Options).Norm
	}
	for j, v := range from {
		v += share * (to[j] - v)
		most := off * bound
		if n.lengths != nil {
			most = off * n.lengths[j]
		}
		if v < 0 || here.halfLine(j) { // the pull is -g
			most = -most
		}
		g[j] = v + most
	}
	for k, v := range n.slope(slope, misfit) {
		g[n.set[k]] = v
	}
}

// interpolate is the nearest point to z on a line through two verified residuals beside each other: their gradients,
// the share of the second, and the distance to the point.
func (n *neighbourhood) interpolate(z []float64) (from, to []float64, share, off float64) {
	best := 0
	off = math.Inf(1)
	for k := range max(len(n.refs)-1, 1) {
		a, b := n.refs[k].z, n.refs[min(k+1, len(n.refs)-1)].z
		dot, length2 := 0.0, 0.0
		for i := range z {
			e := b[i] - a[i]
			dot += (z[i] - a[i]) * e
			length2 += e * e
		}
		t, sum := 0.0, 0.0
		if length2 > 0 {
			t = dot / length2
		}
		for i := range z {
			e := z[i] - a[i] - t*(b[i]-a[i])
			sum += e * e
		}
		if e := math.Sqrt(sum); e < off {
			best, share, off = k, t, e
		}
	}
	return n.refs[best].g, n.refs[min(best+1, len(n.refs)-1)].g, share, off
}

// predict sets z = A b where A is in memory, else z = 0.
func (s *screened) predict(ctx context.Context, z, b array.Batch) error {
	dev := z.Device()
	dev.Fill(z, 0)
	support := restrict.Support(b)
	if len(support) == 0 || s.passes.Bytes > 0 {
		return nil
	}
	at := space.Coordinates(dev, b.N(), support)
	defer at.Release()
	op, err := s.passes.Columns(ctx, dev, at)
	if err != nil {
		return err
	}
	defer op.Release()
	some := dev.Alloc(1, len(support))
	defer some.Free()
	at.Coordinates(some, b)
	op.Forward(z, some)
	return nil
}
