package active

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/numerics/steps"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
)

// reweighted solves a problem whose loss is not quadratic by Newton steps on the loss: near the
// point b_k, with z = A b_k,
//
//	l(A b; y) = sum_i w_i/2 ((A b)_i - z_i + l'_i/w_i)^2 + constants,   w_i = l^(2)_i(z_i; y_i),
//
// and the minimum b of that and r, a problem with the squared loss of sqrt(w) A, is found by the
// method (proximal Newton: Lee, Sun and Saunders 2014; iteratively reweighted least squares for r =
// 0; for the LASSO: Friedman, Hastie and Tibshirani 2010). A line search on the objective itself goes
// from b_k towards b. The steps converge quadratically.
//
// No observation alone is to move by more than reach: w_i is at least |l'_i|/reach, where reach is a
// multiple of the loss's unit ([loss.Structure]) that grows as steps succeed and shrinks as they do
// not. That serves observations whose curvature is 0 or nearly so, but not their slope: outliers
// under the Huber loss, and those far on the wrong side under a logistic one.
type reweighted struct {
	s     engine.Task
	norm2 float64 // an upper bound of ||A||^2
	known loss.Structure
	value func(b array.Batch) float64 // of r
}

// NewReweighted bounds the norm.
func NewReweighted(ctx context.Context, s engine.Task) (engine.Solver, error) {
	n := &reweighted{s: s, known: loss.StructureOf(s.Problem.Loss), value: prox.StructureOf(s.Problem.R).Value}
	if s.Bound == nil {
		bound, err := engine.NormBound(ctx, s.Problem, looseNorm)
		if err != nil {
			return nil, err
		}
		n.s.Bound = &bound
	}
	n.norm2 = *n.s.Bound
	return n, nil
}

func (n *reweighted) Name() string { return n.s.Entry.Name }

// Release does nothing: only a number is kept.
func (n *reweighted) Release() {}

func (n *reweighted) Reweight(ctx context.Context, r prox.Prox) (engine.Solver, error) {
	return n.s.Reweight(ctx, r, nil)
}

// Record fails: there is no derivative of these steps.
func (n *reweighted) Record(context.Context, array.Batch, engine.NewTape) (*engine.Solution, error) {
	return nil, fmt.Errorf("solve: Newton steps on the loss are not recorded; use ista or fista")
}

// looseNorm is the tolerance of ||A||^2, by which no step goes: it scales the optimality, by its root.
const looseNorm = 0.1

const (
	// firstReach is the reach of the first step from 0, in units of the loss, and mostReach that from
	// another start; a full step multiplies it by reachGrowth, up to mostReach, or by slowGrowth where the step
	// before was not full.
	firstReach  = 8
	reachGrowth = 32
	slowGrowth  = 4
	mostReach   = 1e4
	leastReach  = 1e-3
	// A step must reach sufficient of the decrease that its slope promises.
	sufficient = 1e-4
	// A weighted problem whose solution is no descent is solved to sharper of the tolerance before.
	sharper = 1e-3
	// A step makes no progress where the objective falls by less than progressed of its value, and the optimality not
	// by half. The weighted problems are solved to stepShare of the optimality, and at least to loosest.
	// Coordinate descent goes to lastShare of the tolerance in the step that is about the last one.
	progressed = 1e-6
	stepShare  = 1e-2
	loosest    = 1e-3
	lastShare  = 0.03
	// leastCurvature of the largest one stands in for a smaller curvature of a loss whose unit is not
	// known.
	leastCurvature = 1e-8
)

// newtonOnLoss is one solve.
type newtonOnLoss struct {
	engine.Acceptance
	n         *reweighted
	dev       array.Device
	y         array.Batch
	now, next *engine.Fit
	objective float64 // at now
	penalty   float64 // r there
	reach     float64
	cut       bool         // the last step was not full
	loosest   float64      // the largest tolerance of a weighted problem
	best      float64      // optimality
	stalled   int          // steps without progress
	fallen    float64      // the objective when there was some
	observed  []float64    // y
	held      *heldWeights // nil before the first step
	sparse    *descent     // nil where it does not serve
	graded    bool         // now has its gradient
	rhs       array.Batch
	host      [3][]float64 // sqrt(w), l', and l^(2) or z
}

// Solve starts at from.B.
func (n *reweighted) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	p := n.s.Problem
	if err := engine.CheckY(p, y); err != nil {
		return nil, err
	}
	d, dim := p.A.Dims()
	dev := y.Device()
	observed := y.ToHost()
	held := heldBy(from.Path, n.s.Family, observed)
	r := &newtonOnLoss{
		Acceptance: engine.NewAcceptance(held.scales(n.s, y, n.norm2)), n: n, dev: dev, y: y,
		best: math.Inf(1), fallen: math.Inf(1),
		now: engine.NewFit(dev, d, dim), next: engine.NewFit(dev, d, dim), observed: observed, rhs: dev.Alloc(1, d),
		reach: firstReach, loosest: loosest, held: held, sparse: n.newDescent(),
	}
	defer r.Release()
	for i := range r.host {
		r.host[i] = make([]float64, d)
	}
	dev.Fill(r.now.B, 0)
	if !from.B.IsZero() {
		dev.Copy(r.now.B, from.B)
		r.reach = mostReach
	}
	if err := r.start(); err != nil {
		return nil, err
	}
	for report := progress.From(ctx); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		done, err := r.judge(ctx)
		if err != nil {
			return nil, err
		}
		report(progress.Report{Stage: progress.Newton, Step: r.Convergence.Iterations,
			Measure: r.Convergence.Optimality, Goal: r.Tol})
		if done {
			if r.n.s.Options.Point && (r.n.known.Coupled == nil || r.chained()) {
				if err := r.hold(ctx); err != nil {
					return nil, err
				}
			}
			if from.Path == nil || r.held == nil {
				return r.solution(false)
			}
			r.keep()
			sol, err := r.solution(true)
			if err == nil {
				from.Path.Kept, r.held = r.held, nil
			}
			return sol, err
		}
		if moved, err := r.step(ctx); err != nil {
			return nil, err
		} else if !moved && r.reach <= leastReach && r.loosest <= engine.TightestTol {
			r.stalled = limits.MostIdle
		}
	}
}

func (r *newtonOnLoss) Release() {
	r.now.Release()
	r.next.Release()
	r.rhs.Free()
	r.drop()
}

func (r *newtonOnLoss) keep() {
	at := r.next
	r.dev.Copy(at.B, r.now.B)
	at.Exchange(r.now)
	r.dev.Copy(r.now.Z, at.Z)
	r.dev.Copy(at.G, r.now.G)
	r.held.at, r.held.value, r.next = at, r.objective-r.penalty, new(engine.Fit)
	r.held.size = r.Scales.Y
}

// start computes the objective at the start, and at 0 where it is infinite there.
func (r *newtonOnLoss) start() error {
	if r.held != nil && r.held.at != nil {
		r.penalty = r.n.value(r.held.at.B)
		if r.objective = r.held.value + r.penalty; !math.IsInf(r.objective, 1) {
			r.now.Release()
			r.now, r.held.at, r.graded = r.held.at, nil, true
			return r.dev.Err()
		}
	}
	if r.held != nil {
		r.held.here = false
	}
	for range 2 {
		r.n.s.Problem.A.Forward(r.now.Z, r.now.B)
		r.penalty = r.n.value(r.now.B)
		r.objective = r.now.Value(r.n.s.Problem.Loss, r.y) + r.penalty
		if !math.IsInf(r.objective, 1) && !math.IsNaN(r.objective) {
			r.now.At(r.n.s.Problem.Loss, r.y)
			return r.dev.Err()
		}
		r.dev.Fill(r.now.B, 0)
		r.reach = firstReach
	}
	if err := r.dev.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%s: the objective is %g at b = 0, expected a finite number", r.n.Name(), r.objective)
}

func (r *newtonOnLoss) judge(ctx context.Context) (done bool, err error) {
	p, o := r.n.s.Problem, r.n.s.Options
	if !r.graded {
		p.A.Adjoint(r.now.G, r.now.Slope)
	}
	r.graded = false
	optimality, bound, size, err := r.now.Judge(ctx, p, r.y, r.Scales, r.n.norm2, o.InverseLengths, r.Good, false)
	if err != nil {
		return false, err
	}
	if math.IsNaN(optimality) || math.IsInf(optimality, 0) {
		return false, fmt.Errorf("%s: the iterates are not finite after %d iterations", r.n.Name(),
			r.Convergence.Iterations)
	}
	r.Accept(optimality, optimality, bound, size)
	if r.stalled++; optimality < r.best/2 || r.objective < r.fallen-progressed*math.Abs(r.fallen) {
		r.best, r.fallen, r.stalled = min(r.best, optimality), r.objective, 0
	}
	done = r.stalled >= limits.MostIdle || r.Convergence.Iterations >= o.MaxIter
	if done && optimality > r.Good { // the error of a solve that ends here is of interest too
		_, bound, size, err = r.now.Judge(ctx, p, r.y, r.Scales, r.n.norm2, o.InverseLengths, math.Inf(1), false)
		r.Accept(optimality, optimality, bound, size)
	}
	return done || r.Convergence.Converged, err
}

// weigh chooses the weights w, and sets rhs to sqrt(w) z - l'/sqrt(w).
func (r *newtonOnLoss) weigh() error {
	root, slope, other := r.host[0], r.host[1], r.host[2]
	r.dev.Download(slope, r.now.Slope)
	r.dev.Download(other, r.now.Curve)
	most := 0.0
	for _, c := range other {
		most = max(most, c)
	}
	more := make([]float64, len(other))
	for i, curve := range other {
		c := curve
		if r.n.known.Unit > 0 {
			c = max(c, math.Abs(slope[i])/(r.reach*r.n.known.Unit))
		} else if slope[i] != 0 {
			c = max(c, leastCurvature*most)
		}
		root[i], more[i] = math.Sqrt(c), c-curve
	}
	if r.held == nil || !r.held.here {
		r.drop()
		r.held = newHeldWeights(r.dev, r.n.s.Family, r.observed, root)
		if err := r.factor(other, more); err != nil {
			return err
		}
	}
	r.held.here = false
	r.dev.Download(other, r.now.Z)
	r.held.target(other, slope)
	if sum := floats.Sum(other); (math.IsNaN(sum) || math.IsInf(sum, 0)) && !r.cut {
		r.cut = true
		return r.weigh()
	}
	r.dev.Upload(r.rhs, other)
	return nil
}

// factor takes the factor of the second derivative for the weights where it is in reach. The factor of a loss whose
// observations do not stand alone knows no bound of their moves: after a step that was cut short, or that gained
// nothing, and where its curvature underflows, the diagonal above the second derivative serves again. A constant of
// such a loss is not determined, and chord steps would lose it.
func (r *newtonOnLoss) factor(curve, more []float64) (err error) {
	if h, p := r.held, r.n.s.Problem; r.chained() && !r.cut && r.stalled == 0 {
		return h.rootAt(r.n.known.Coupled, r.now.Z, r.y)
	} else if blocks := blocksOf(p.Loss, p.A, r.now.Z, r.y, curve, more); blocks != nil {
		h.factor = blocks
	}
	return err
}

// chained reports that the second derivative has a factor whose products take few operations, for columns in memory.
func (r *newtonOnLoss) chained() bool {
	a := linops.StructureOf(r.n.s.Problem.A)
	return r.n.known.Chained && a.SparseRows == nil && a.Shifted == nil
}

func (r *newtonOnLoss) drop() {
	if r.held != nil {
		r.held.Release()
		r.held = nil
	}
}

// weighted is the problem with the squared loss of the weights held.
func (r *newtonOnLoss) weighted() engine.Task {
	s := r.n.s
	s.Problem.A = r.held.operator(s.Problem.A)
	s.Problem.Loss, s.Loss, s.Quadratic = nil, nil, true
	s.Lengths2, s.Units, s.From, s.Family = nil, nil, nil, r.held.family
	s.Options.Point, s.Options.Sigma2, s.Options.Choices = false, 0, nil
	return s
}

// step goes towards the minimum of the weighted problem, and reports whether it moved.
func (r *newtonOnLoss) step(ctx context.Context) (moved bool, err error) {
	sparse := r.sparse.serves(r.now)
	if !sparse {
		if moved, err := r.chord(ctx); moved || err != nil {
			return moved, err
		}
	}
	if err := r.weigh(); err != nil {
		return false, err
	}
	tol := r.n.s.Options.Tol
	tol = max(min(stepShare*tol, r.loosest), min(r.loosest, stepShare*r.Convergence.Optimality), engine.TightestTol)
	b, err := r.minimum(ctx, sparse, tol)
	defer b.Free()
	if err != nil {
		return false, err
	}
	r.Convergence.Iterations++
	full, err := r.search(b)
	switch {
	case err != nil:
		return false, err
	case full == 0 && tol > engine.TightestTol:
		r.loosest = max(sharper*tol, engine.TightestTol)
	case full == 0:
		r.reach = max(leastReach, r.reach/reachGrowth)
	case full < 1:
		r.reach = max(leastReach, r.reach*full)
	case r.cut:
		r.reach = min(mostReach, r.reach*slowGrowth)
	default:
		r.reach = min(mostReach, r.reach*reachGrowth)
	}
	r.cut = full < 1
	return full > 0, nil
}

// minimum is that of the weighted problem.
func (r *newtonOnLoss) minimum(ctx context.Context, sparse bool, tol float64) (array.Batch, error) {
	if sparse {
		share := stepShare * min(1, r.loosest/loosest)
		if now := r.Convergence.Optimality; share*now < r.Tol { // the last step
			share = min(share, lastShare*r.Tol/now)
		}
		return r.sparse.minimum(ctx, r.dev, r.held.host, share)
	}
	s := r.weighted()
	s.Options.Tol = tol
	inner, err := s.Tables.Method(ctx, s)
	if err != nil {
		return array.Batch{}, err
	}
	defer inner.Release()
	sol, err := inner.Solve(progress.With(ctx, func(progress.Report) {}), r.rhs,
		engine.From{B: r.now.B, Path: &r.held.path})
	if err != nil {
		return array.Batch{}, err
	}
	b := sol.B
	sol.B = array.Batch{}
	sol.Release()
	return b, nil
}

// search moves to b_k + t (b - b_k) for the first t of 1, 1/2, 1/4, ... at which the objective falls
// enough (Tseng and Yun 2009), and returns t, or 0 where there is none. Changes within rounding
// errors of the objective are not seen: there the step is taken as it is.
func (r *newtonOnLoss) search(b array.Batch) (float64, error) {
	p := r.n.s.Problem
	dev := r.dev
	ab, dz := dev.Alloc(1, r.y.N()), dev.Alloc(1, r.y.N())
	defer array.Free(ab, dz)
	p.A.Forward(ab, b)
	dev.Lin(dz, 1, ab, -1, r.now.Z)
	promised := engine.Inner(r.now.Slope, dz) + r.n.value(b) - r.penalty
	rounding := engine.Roundings * engine.Epsilon * (math.Abs(r.objective-r.penalty) + math.Abs(r.penalty))
	return steps.Backtrack(func(t float64) (bool, error) {
		if t == 1 {
			dev.Copy(r.next.B, b)
			dev.Copy(r.next.Z, ab)
		} else {
			dev.Lin(r.next.B, 1-t, r.now.B, t, b)
			dev.Lin(r.next.Z, 1, r.now.Z, t, dz)
		}
		penalty := r.n.value(r.next.B)
		objective := r.next.Value(p.Loss, r.y) + penalty
		if err := dev.Err(); err != nil || !(objective <= r.objective+sufficient*t*min(promised, 0)+rounding) {
			return false, err
		}
		if t < 1 { // sums of steps would add up rounding errors
			p.A.Forward(r.next.Z, r.next.B)
			r.next.Value(p.Loss, r.y)
		}
		r.now, r.next = r.next, r.now
		r.objective, r.penalty = objective, penalty
		r.now.At(p.Loss, r.y)
		return true, dev.Err()
	})
}

// solution is that at the point, along a path or alone.
func (r *newtonOnLoss) solution(along bool) (*engine.Solution, error) {
	o, p := r.n.s.Options, r.n.s.Problem
	sol := &engine.Solution{Convergence: r.Convergence, Choices: slices.Clone(o.Choices), B: r.now.B, MuHat: r.now.Z}
	r.now.B, r.now.Z = array.Batch{}, array.Batch{}
	done := false
	defer func() {
		if !done { // also where A panics
			sol.Release()
		}
	}()
	if o.Point {
		p.Device = r.dev
		sol.At = &engine.Point{Problem: p, Y: r.y, B: sol.B, Norm2: r.n.norm2, Options: o, Shared: true,
			Gradient: r.now.G}
		r.now.G = array.Batch{}
		r.offer(sol.At)
		by := r.now
		if r.held != nil && r.held.at != nil {
			by = r.held.at // which has taken the derivatives over
		}
		if err := sol.At.WhitenBy(sol.MuHat, by.Slope, by.Curve); err != nil {
			return nil, err
		}
		if along && sol.At.Factored != nil {
			r.held.lend(sol.At)
		}
	}
	if err := r.dev.Sync(); err != nil {
		return nil, err
	}
	done = true
	return sol, nil
}
