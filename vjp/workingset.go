package vjp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// workingSet is ISTA or FISTA on the coordinates that matter. The solution of a
// sparse problem is zero in most coordinates, and a solver that knew which would
// read the other columns of A never. It goes by rounds: solve the problem confined
// to a set W, take the gradient at the solution over all coordinates, one product with
// A*, and add to W the coordinates that want to leave 0, those that want it most
// first. When none does, the confined solution is the solution. A is read once a
// round for the gradient and once for its columns, some ten times in all where the
// iterations would read it hundreds of times (Johnson and Guestrin, Blitz, 2015;
// Massias, Gramfort and Salmon, Celer, 2018).
//
// The derivative needs no more: at a solution J vanishes outside W, and the
// confined problem's implicit derivative is the problem's. The unrolled
// derivative belongs to iterations over all coordinates, and so do problems whose
// solutions turn out not to be sparse: full does both.
type workingSet struct {
	p           Problem
	o           Options
	accelerated bool
	r           prox.Restrictor

	mu   sync.Mutex
	full *proximalGradient // made when it is first needed, for its norm's sake
}

const (
	// minWorking is the size of p below which working sets are not worth the
	// rounds.
	minWorking = 256
	// firstShare of the coordinates start the first working set at most.
	firstShare = 1. / 32
	// A round is solved until its own optimality is roundShare of what the
	// coordinates outside wanted before it, or to the tolerance.
	roundShare = 0.1
	// reach is the step, in units of 1/||gradient||_inf, at which coordinates
	// outside are asked whether they want to leave 0: small enough that quadratic
	// terms do not matter.
	reach = 0x1p-30
)

// newWorkingSet returns nil where the problem has no structure to use.
func newWorkingSet(p Problem, o Options, accelerated bool) *workingSet {
	r, ok := prox.AsRestrictor(p.R)
	if _, dim := p.A.Dims(); !ok || dim < minWorking || o.Derivative == Unrolled || !linops.Restricts(p.Device, p.A) {
		return nil
	}
	return &workingSet{p: p, o: o, accelerated: accelerated, r: r}
}

// newISTA is ISTA, or FISTA when accelerated, on a working set or in factored form
// where the problem's structure allows it.
func newISTA(ctx context.Context, p Problem, o Options, accelerated bool) (Solver, error) {
	if s, err := newLowRank(ctx, p, o, accelerated); s != nil || err != nil {
		return s, err
	}
	if s := newWorkingSet(p, o, accelerated); s != nil {
		return s, nil
	}
	return newProximalGradient(ctx, p, o, accelerated)
}

// Name is "ista" or "fista".
func (s *workingSet) Name() string { return (&proximalGradient{accelerated: s.accelerated}).Name() }

// Release does nothing: all that is kept is a number.
func (s *workingSet) Release() {}

// Solve iterates to a solution at y.
func (s *workingSet) Solve(ctx context.Context, y array.Batch) (*Solution, error) {
	return s.SolveFrom(ctx, y, array.Batch{})
}

// SolveFrom starts with the support of b0 as its working set.
func (s *workingSet) SolveFrom(ctx context.Context, y, b0 array.Batch) (*Solution, error) {
	if err := checkY(s.p, y); err != nil {
		return nil, err
	}
	sol, err := s.rounds(ctx, y, b0)
	if err != nil || sol.Linearization != nil || s.o.Derivative != Auto {
		return sol, err
	}
	sol.Release()
	full, err := s.whole(ctx)
	if err != nil {
		return nil, err
	}
	o := s.o
	o.Derivative = Unrolled
	return iterate(ctx, full, y, o, entry{})
}

// whole is the solver over all coordinates.
func (s *workingSet) whole(ctx context.Context) (*proximalGradient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full == nil {
		full, err := newProximalGradient(ctx, s.p, s.o, s.accelerated)
		if err != nil {
			return nil, err
		}
		s.full = full
	}
	return s.full, nil
}

// confined is the problem on a working set.
type confined struct {
	Problem
	set    []int
	idx    array.Index
	solver *proximalGradient
}

// confine builds the problem on a set; nil when the operator cannot.
func (s *workingSet) confine(ctx context.Context, set []int) (*confined, error) {
	a := linops.Restrict(s.p.Device, s.p.A, set)
	if a == nil {
		return nil, nil
	}
	c := &confined{Problem: Problem{A: a, Device: s.p.Device}, set: set, idx: s.p.Device.NewIndex(set)}
	r, err := s.r.Restrict(set)
	if err == nil {
		c.R = r
		c.solver, err = newProximalGradient(ctx, c.Problem, s.o, s.accelerated)
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

func (c *confined) release() {
	c.A.(linops.Restricted).Release()
	if owner, ok := c.R.(prox.Releaser); ok {
		owner.Release()
	}
	c.idx.Free()
}

// gather returns the coordinates of b in the set.
func (c *confined) gather(b array.Batch) array.Batch {
	to := c.Device.Alloc(1, len(c.set))
	c.Device.Gather(to, b, c.idx)
	return to
}

// rounds solves on growing working sets, without a derivative unless it has
// converged.
func (s *workingSet) rounds(ctx context.Context, y, b0 array.Batch) (_ *Solution, err error) {
	dev := s.p.Device
	d, dim := s.p.A.Dims()
	b, g, z := dev.Alloc(1, dim), dev.Alloc(1, dim), dev.Alloc(1, d)
	var on *confined
	free := func() {
		for _, t := range []array.Batch{b, g, z} {
			t.Free()
		}
		if on != nil {
			on.release()
		}
	}
	defer func() { free() }()

	// z = A b - y throughout.
	dev.Lin(z, -1, y, 0, array.Batch{})
	s.p.A.Adjoint(g, z)
	stick := newYardstick(y, 0, s.o)
	var set []int
	if b0.IsZero() {
		dev.Fill(b, 0)
	} else {
		dev.Copy(b, b0)
		set = s.r.Closure(support(b))
	}
	conv := Convergence{Optimality: math.Inf(1)}
	inside := 0.0          // optimality on the working set
	outside := math.Inf(1) // and beyond it
	tol := s.o.Tol         // asked for now: less where the duality gap asks for more
	wants := make([]float64, dim)
	limit := max(int(firstShare*float64(dim)), minActive)
	for {
		if len(set) == 0 || on != nil {
			if outside, err = s.outside(wants, b, g, set); err != nil {
				return nil, err
			}
			if math.IsNaN(outside) || math.IsInf(outside, 0) {
				return nil, fmt.Errorf("%s: the iterates are not finite after %d iterations", s.Name(), conv.Iterations)
			}
			stick.norm = relative(norm(g), norm(z)) // at most ||A||
			if on != nil {
				stick.norm = math.Sqrt(on.solver.bound)
			}
			outside, tol = s.judge(&conv, stick, b, z, g, inside, outside, tol)
			more := strongest(wants, limit)
			done := conv.Converged || conv.Optimality <= s.o.Tol && tol == tightestTol
			if on != nil && (conv.Iterations >= s.o.MaxIter || len(more) == 0 && done) {
				break
			}
			grown := s.r.Closure(union(set, more))
			if len(grown) == 0 {
				// b = 0 is the solution: any set will do.
				grown = s.r.Closure([]int{0})
			}
			if len(grown) != len(set) && on != nil {
				on.release()
				on = nil
			}
			set = grown
		}
		if 2*len(set) > dim || len(set) == 0 {
			return s.notSparse(ctx, y, b, conv.Iterations)
		}
		if on == nil {
			if on, err = s.confine(ctx, set); err != nil {
				return nil, err
			}
			if on == nil {
				return s.notSparse(ctx, y, b, conv.Iterations)
			}
		}
		start := on.gather(b)
		o := s.o
		o.Derivative = None
		o.MaxIter = max(s.o.MaxIter-conv.Iterations, 1)
		o.Tol = math.Max(0.7*tol, roundShare*math.Min(outside, 1))
		if conv.Iterations > 0 && outside == 0 {
			o.Tol = 0.7 * tol
		}
		sol, err := iterate(ctx, on.solver, y, o, entry{b: start, confined: true})
		start.Free()
		if err != nil {
			return nil, err
		}
		conv.Iterations += sol.Iterations
		inside = sol.Optimality
		dev.Scatter(b, sol.B, on.idx)
		dev.Lin(z, 1, sol.MuHat, -1, y)
		sol.Release()
		s.p.A.Adjoint(g, z)
		limit = max(len(set), minActive)
	}

	sol := &Solution{Convergence: conv, B: b, MuHat: z}
	dev.Lin(z, 1, z, 1, y)
	b, z = array.Batch{}, array.Batch{}
	if s.o.Derivative != None && (conv.Converged || s.o.Derivative == Implicit) {
		err := s.differentiate(ctx, y, on, sol)
		if err != nil {
			sol.Release()
			return nil, err
		}
		on = nil
	}
	if err := dev.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// judge completes what is known of the solve at b: the optimality from that inside the working set
// and the subgradient outside of it, and the bound of the duality gap. It returns the latter relative to the
// scale, and the tolerance to ask for from now on.
func (s *workingSet) judge(conv *Convergence, stick yardstick, b, z, g array.Batch, inside, outside, tol float64) (relativeOutside, next float64) {
	zNorm, bNorm := norm(z), norm(b)
	scale := stick.scale(zNorm, bNorm)
	outside = relative(outside, scale)
	conv.Optimality = math.Hypot(inside, outside)
	conv.Error = errorBound(s.p, b, z, g, stick, zNorm, bNorm, conv.Optimality*scale)
	within := !(conv.Error > stick.allowed(zNorm))
	conv.Converged = within && conv.Optimality <= s.o.Tol
	if !within && conv.Optimality <= tol {
		tol = tightened(tol)
	}
	return outside, tol
}

// differentiate adds the implicit derivative of the confined problem, which is the linearization's
// from then on, to its solution.
func (s *workingSet) differentiate(ctx context.Context, y array.Batch, on *confined, sol *Solution) error {
	inside := &Solution{B: on.gather(sol.B), MuHat: sol.MuHat, Convergence: sol.Convergence}
	defer inside.B.Free()
	l, err := linearize(ctx, on.solver, y, s.o, inside)
	if err != nil {
		return err
	}
	if inside.Iterations > sol.Iterations {
		s.p.Device.Scatter(sol.B, inside.B, on.idx)
		sol.Convergence = inside.Convergence
	}
	l.own(on.A.(linops.Restricted), on.set, s.dim(), on.release)
	sol.Linearization = l
	return nil
}

// notSparse finishes on all coordinates, from b.
func (s *workingSet) notSparse(ctx context.Context, y, b array.Batch, done int) (*Solution, error) {
	full, err := s.whole(ctx)
	if err != nil {
		return nil, err
	}
	o := s.o
	o.MaxIter = max(o.MaxIter-done, 1)
	sol, err := solve(ctx, full, y, o, entry{b: b})
	if err != nil {
		return nil, err
	}
	sol.Iterations += done
	return sol, nil
}

// outside sets wants_j to how much coordinate j wants to leave 0, and returns the
// distance of 0 from the subdifferential over the coordinates outside set; wants is 0
// in set. g is the gradient A*(A b - y).
func (s *workingSet) outside(wants []float64, b, g array.Batch, set []int) (float64, error) {
	dev := s.p.Device
	largest := [1]float64{}
	dev.MaxAbs(largest[:], g)
	t := reach
	if largest[0] > 0 {
		t = reach / largest[0]
	}
	c := dev.Alloc(1, g.N())
	defer c.Free()
	dev.Lin(c, -t, g, 0, array.Batch{})
	if err := s.r.Eval(c, c, t); err != nil {
		return 0, err
	}
	dev.Download(wants, c)
	if err := dev.Err(); err != nil {
		return 0, err
	}
	for _, j := range set {
		wants[j] = 0
	}
	sum := 0.0
	for j, w := range wants {
		wants[j] = math.Abs(w) / t
		sum += wants[j] * wants[j]
	}
	return math.Sqrt(sum), nil
}

// support lists the coordinates where b, a batch of one vector, is not 0.
func support(b array.Batch) []int {
	var set []int
	for j, v := range b.ToHost() {
		if v != 0 {
			set = append(set, j)
		}
	}
	return set
}

// strongest lists the at most limit coordinates of largest positive value, in
// increasing order; of equal values the first.
func strongest(values []float64, limit int) []int {
	var set []int
	for j, v := range values {
		if v > 0 {
			set = append(set, j)
		}
	}
	if len(set) > limit {
		slices.SortStableFunc(set, func(i, j int) int {
			switch {
			case values[i] > values[j]:
				return -1
			case values[i] < values[j]:
				return 1
			}
			return 0
		})
		set = set[:limit]
		slices.Sort(set)
	}
	return set
}

// union merges two increasing lists.
func union(a, b []int) []int {
	if len(b) == 0 {
		return a
	}
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *workingSet) dim() int { _, p := s.p.A.Dims(); return p }
