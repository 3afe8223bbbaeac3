package solve

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
)

// activeSet solves problems with the squared loss whose regularizer is a sum over coordinates,
//
//	r(b) = sum_j w_j |b_j| + q_j/2 b_j^2,   b_j >= 0 for some j,
//
// by Newton steps on active sets. Given which coordinates are not 0, and their signs, the solution
// is that of a linear system, and signs of a solution nearby, at the weight before, are nearly
// right. It works in rounds: the gradient over all coordinates, by one product with A* at the
// point itself, adds the largest violations of the optimality conditions to a working set; package
// faces minimizes over the working set, of which it knows the Gram matrix; and so on until there is
// no violation, and the step that corrects rounding errors does not improve the point.
//
// The rule of acceptance is that of all methods. Where columns depend on each other but for
// rounding errors, so that Newton steps come to an end before it accepts, fista goes on from there.
type activeSet struct {
	everywhere // whose iterations are recorded
	r          prox.Structure
	w, q       []float64 // w is +Inf where b_j is held at 0
	positive   []bool
}

// newRecorded makes the method whose iterations are recorded for an unrolled derivative.
func newRecorded(ctx context.Context, p Problem, o Options) (Method, error) {
	switch {
	case p.Loss != nil:
		return nil, fmt.Errorf("solve: active sets need a quadratic loss; use ista or fista")
	case prox.StructureOf(p.R).Sparse == nil:
		return nil, fmt.Errorf("solve: active sets need a regularizer that is a sum of |b_j|, b_j^2 and b_j >= 0; use ista, fista or admm")
	}
	m, err := newFISTA(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return recorded{m}, nil
}

// recorded are the iterations of fista under the name of active sets.
type recorded struct{ Method }

// Name is "active-set".
func (recorded) Name() string { return "active-set" }

// Traits are those of fista.
func (m recorded) Traits() Traits {
	t := m.Method.Traits()
	reweight := t.Reweight
	t.Reweight = func(ctx context.Context, r prox.Prox) (Method, error) {
		other, err := reweight(ctx, r)
		if err != nil {
			return nil, err
		}
		return recorded{other}, nil
	}
	return t
}

// newActiveSet takes the weights of the regularizer.
func newActiveSet(_ context.Context, s situation) (Solver, error) {
	_, dim := s.p.A.Dims()
	a := &activeSet{everywhere: everywhere{s: s}, r: prox.StructureOf(s.p.R)}
	w, q, positive := a.r.Sparse(dim)
	a.w, a.q, a.positive = make([]float64, dim), make([]float64, dim), make([]bool, dim)
	copy(a.w, w)
	copy(a.q, q)
	copy(a.positive, positive)
	for j, v := range a.q {
		if math.IsInf(v, 1) {
			a.w[j], a.q[j] = v, 0
		}
	}
	return a, nil
}

// Solve starts with the support and the signs of b0.
func (s *activeSet) Solve(ctx context.Context, y, b0 array.Batch) (*Solution, error) {
	if err := checkY(s.s.p, y); err != nil {
		return nil, err
	}
	n := newNewton(s, y)
	defer n.release()
	if err := n.begin(b0); err != nil {
		return nil, err
	}
	for {
		done, err := n.judge()
		if err != nil {
			return nil, err
		}
		if s.s.o.Progress != nil {
			s.s.o.Progress(n.conv)
		}
		if done {
			break
		}
		if err := n.advance(ctx); err != nil {
			return nil, err
		}
	}
	if !n.conv.Converged && n.conv.Iterations < s.s.o.MaxIter {
		return s.finish(ctx, n)
	}
	return n.solution()
}

// finish goes on by fista, and returns the better of the two solutions.
func (s *activeSet) finish(ctx context.Context, n *newton) (*Solution, error) {
	other := s.s
	other.e, other.from = accelerated, nil
	other.o = other.o.with(unsettled)
	other.o.MaxIter = max(other.o.MaxIter-n.conv.Iterations, 1)
	solver, err := chooseMethod(ctx, other)
	if err != nil {
		return nil, err
	}
	defer solver.Release()
	sol, err := solver.Solve(ctx, n.y, n.b)
	if err != nil {
		return nil, err
	}
	if !sol.Converged && !(sol.Optimality < n.conv.Optimality) {
		sol.Release()
		return n.solution()
	}
	sol.Iterations += n.conv.Iterations
	return sol, nil
}

// Coordinates that are not active but near it, for the derivative to see how close they are.
const nearest = 16

// pointSet lists the support of b and the inactive coordinates nearest to being active, in
// increasing order.
func (n *newton) pointSet() []int {
	type gap struct {
		j int
		v float64
	}
	var set []int
	var gaps []gap
	for j, v := range n.hostB {
		if v != 0 {
			set = append(set, j)
			continue
		}
		g := n.hostG[j]
		if !n.s.positive[j] {
			g = -math.Abs(g)
		}
		if !math.IsInf(n.s.w[j], 1) {
			gaps = append(gaps, gap{j, n.s.w[j] + g})
		}
	}
	slices.SortStableFunc(gaps, func(a, b gap) int {
		switch {
		case a.v < b.v:
			return -1
		case a.v > b.v:
			return 1
		}
		return a.j - b.j
	})
	for _, g := range gaps[:min(nearest, len(gaps))] {
		set = append(set, g.j)
	}
	slices.Sort(set)
	return set
}

// solution is the outcome, which takes what it needs from the rounds.
func (n *newton) solution() (*Solution, error) {
	o := n.s.s.o
	sol := &Solution{Convergence: n.conv, Choices: slices.Clone(o.choices), B: n.b, MuHat: n.z}
	n.dev.Lin(n.z, 1, n.z, 1, n.y)
	n.b, n.z = array.Batch{}, array.Batch{}
	if o.Point {
		if err := n.point(sol); err != nil {
			sol.Release()
			return nil, err
		}
	}
	if err := n.dev.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// point is the problem confined to the support, and some coordinates more, where that is smaller.
func (n *newton) point(sol *Solution) error {
	o, p := n.s.s.o, n.s.s.p
	p.Device = n.dev
	sol.At = &Point{Problem: p, Y: n.y, B: sol.B, Norm2: n.norm2(), Gram: n.gram(nil), options: o, shared: true}
	set, dim := n.pointSet(), sol.B.N()
	if dim < minWorking || 2*len(set) > dim || len(set) == 0 || n.s.r.On == nil {
		return nil
	}
	on := confine(n.dev, p.A, set)
	if on == nil {
		return nil
	}
	var err error
	if on.R, err = n.s.r.On(n.dev, on.set); err != nil || on.R == nil {
		on.release()
		return err
	}
	*sol.At = Point{
		Problem: on.Problem, Y: n.y, B: on.gather(sol.B), Norm2: sol.At.Norm2, Gram: n.gram(set), options: o,
		op: on.op, release: on.release, set: set, all: dim,
		back: func(s *Solution) { on.set.Embed(s.B, s.At.B) },
	}
	return nil
}

// gram is that of a point on a set of coordinates, nil for all: from the working set's.
func (n *newton) gram(on []int) func(set []int) []float64 {
	place, p := n.place, &n.p
	return func(set []int) []float64 {
		local := make([]int, len(set))
		for i, j := range set {
			if on != nil {
				j = on[j]
			}
			if local[i] = place[j]; local[i] < 0 {
				return nil
			}
		}
		g := make([]float64, len(set)*len(set))
		for i, a := range local {
			row, to := p.Gram(a), g[i*len(set):(i+1)*len(set)]
			for k, b := range local {
				to[k] = row[b]
			}
		}
		return g
	}
}

// columns are some columns of A.
type columns struct {
	*confined
	at  int // their first place in the working set
	set []int
}

// columnsOf takes columns of A, by products where A has no way of its own.
func columnsOf(dev array.Device, a linops.Operator, set []int, at int) *columns {
	if c := confine(dev, a, set); c != nil {
		return &columns{c, at, set}
	}
	_, dim := a.Dims()
	t := space.Coordinates(dev, dim, set)
	op := confineByProducts(dev, a, t)
	return &columns{&confined{Problem: Problem{A: op, Device: dev}, op: op, set: t}, at, set}
}
