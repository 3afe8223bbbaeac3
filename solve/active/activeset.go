// Package active solves problems whose regularizer is a sum over coordinates or groups by Newton steps on active sets,
// on columns in memory where A is read from a disk, and as a sequence of weighted squared losses where the loss is
// another one.
package active

import (
	"context"
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/gradient"
	"surepipe/solve/internal/limits"
	"surepipe/solve/restrict"
)

// activeSet solves problems with the squared loss whose regularizer is a sum over coordinates, or the
// group LASSO's ([splitting]), by Newton steps on active sets. Given which coordinates are not 0, and
// their signs, the solution is that of a linear system, and signs of a solution nearby, at the weight
// before, are nearly right; given which groups are not 0, the problem is smooth. It works in rounds: the
// gradient over all coordinates, by one product with A* at the point itself, adds the largest violations of the
// optimality conditions to a working set; package faces minimizes over the working set, of which it knows the
// Gram matrix; and so on until there is no violation, and the step that corrects rounding errors does not
// improve the point.
//
// The rule of acceptance is that of all methods. Where columns depend on each other but for
// rounding errors, so that Newton steps come to an end before it accepts, fista goes on from there.
type activeSet struct {
	engine.Everywhere // whose iterations are recorded
	splitting
	all   *allColumns // of A's columns, where they are few; or nil
	pool  *pool       // of columns that solves one after the other share; or nil
	blind bool        // A b is not asked for
	twin  *verified   // a solution with A b - y; or nil
	slope *[]float64  // where to put A*(A b - y) at the solution; nil where that is not asked for
}

// Entry is the entry of active sets.
var Entry = engine.Entry{
	Name: "active-set", About: "l1, weighted l1, elastic net, b >= 0 and groups exactly, by Newton steps on " +
		"active sets; of K b too, where A and K are matrices and K's rows independent",
	New: newRecorded, ActiveSet: true, Path: true,
}

func newRecorded(ctx context.Context, p engine.Problem, _ engine.Options) (engine.Method, error) {
	switch {
	case p.Loss != nil:
		return nil, fmt.Errorf("solve: active sets need a quadratic loss; use ista or fista")
	case !Serves(p.R):
		return nil, fmt.Errorf("solve: active sets need a regularizer that is a sum of |b_j|, b_j^2 and b_j >= 0, "+
			"or of norms of groups of up to %d coordinates; use ista, fista or admm", limits.MostFactored)
	}
	return gradient.New(ctx, "active-set", p, true)
}

// New takes the weights of the regularizer.
func New(_ context.Context, s engine.Task) (engine.Solver, error) { return newActiveSet(s), nil }

func newActiveSet(s engine.Task) *activeSet {
	_, dim := s.Problem.A.Dims()
	return &activeSet{Everywhere: engine.Everywhere{Task: s}, splitting: splittingOf(prox.StructureOf(s.Problem.R),
		dim)}
}

func (s *activeSet) Release() {
	s.Everywhere.Release()
	if s.all != nil {
		s.all.release()
	}
}

// Solve starts where the path has ended, or else with the support and the signs of b.
func (s *activeSet) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	if err := engine.CheckY(s.Task.Problem, y); err != nil {
		return nil, err
	}
	n := newNewton(s, y)
	defer n.Release()
	n.report = progress.From(ctx)
	if err := n.begin(ctx, from); err != nil {
		return nil, err
	}
	for {
		done, err := n.judge()
		if err != nil {
			return nil, err
		}
		n.tell()
		if done {
			break
		}
		if err := n.advance(ctx); err != nil {
			return nil, err
		}
	}
	if !n.Convergence.Converged && n.Convergence.Iterations < s.Task.Options.MaxIter {
		return s.finish(ctx, n)
	}
	sol, err := n.solution()
	if s.slope != nil {
		*s.slope = slices.Clone(n.hostG)
	}
	if err == nil {
		n.keep(from.Path)
	}
	return sol, err
}

// finish goes on by another method, and returns the better of the two solutions.
func (s *activeSet) finish(ctx context.Context, n *newton) (*engine.Solution, error) {
	other := s.Task
	e, choice := s.Task.Tables.Finish(&other)
	other.Entry, other.From, other.Options = e, nil, other.Options.With(choice)
	other.Options.MaxIter = max(other.Options.MaxIter-n.Convergence.Iterations, 1)
	solver, err := other.Tables.Method(ctx, other)
	if err != nil {
		return nil, err
	}
	defer solver.Release()
	sol, err := solver.Solve(ctx, n.y, engine.From{B: n.b})
	if err != nil {
		return nil, err
	}
	if !sol.Converged && !(sol.Optimality < n.Convergence.Optimality) {
		sol.Release()
		return n.solution()
	}
	sol.Iterations += n.Convergence.Iterations
	return sol, nil
}

func (n *newton) solution() (*engine.Solution, error) {
	o, p := n.s.Task.Options, n.s.Task.Problem
	sol := &engine.Solution{Convergence: n.Convergence, Choices: slices.Clone(o.Choices), B: n.b, MuHat: n.z}
	if n.s.blind {
		sol.MuHat, n.b = array.Batch{}, array.Batch{}
		return sol, n.dev.Err()
	}
	n.residual()
	sol.MuHat = n.z
	zNorm, bNorm := n.zNorm, engine.Norm(n.b)
	n.b, n.z = array.Batch{}, array.Batch{}
	if o.Point {
		misfit := n.dev.Alloc(1, sol.MuHat.N())
		n.dev.Copy(misfit, sol.MuHat)
		p.Device = n.dev
		sol.At = &engine.Point{
			Problem: p, Y: n.y, B: sol.B, Norm2: n.norm2(), Gram: n.gram, Factored: n.factored, Misfit: misfit,
			Gradient: n.g, Identified: n.identified(zNorm, bNorm), Options: o, Shared: true,
		}
		n.g = array.Batch{}
	}
	n.dev.Lin(sol.MuHat, 1, sol.MuHat, 1, n.y)
	if err := n.dev.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// factored describes the system on a set of coordinates, where that is the active set.
func (w *workspace) factored(set []int) (engine.Factored, bool) {
	if len(set) != len(w.p.Active()) {
		return engine.Factored{}, false
	}
	for _, j := range set {
		if i := w.place[j]; i < 0 || !w.p.IsActive(i) || w.at.Diagonal(i) == 0 {
			return engine.Factored{}, false
		}
	}
	f := engine.Factored{Condition: w.p.Condition()}
	f.Trace, f.Frobenius2, f.Projection = w.p.Traces()
	if len(*w.parts) > 0 {
		f.Images, f.Products, f.Mapped = w.images, w.products, w.mapped
	}
	if entries, ok := w.entries(); ok {
		n := float64(len(set))
		entries *= n / float64(len(w.set))
		f.Diagonal, f.DiagonalFlops, f.ImageFlops = w.diagonal, n*max(entries, n*n), 2*(entries+n*n)
	}
	return f, true
}

func (w *workspace) gram(set []int) []float64 {
	places := lists.Pick(w.place, set)
	if slices.Contains(places, -1) {
		return nil
	}
	g := make([]float64, len(set)*len(set))
	restrict.Submatrix(g, places, w.p.Gram)
	return g
}

// OnFaces reports whether the solution is found on a face of the regularizer, or by Newton steps on
// groups that are not 0.
func OnFaces(s *engine.Task) bool {
	return s.Entry.ActiveSet && !s.Options.Whole && s.Problem.Loss == nil && Serves(s.Problem.R)
}

// Serves reports that a regularizer is one for active sets: a sum over coordinates, or over groups of which none is so
// large that gradient steps take less than the factor of its Gram matrix.
func Serves(r prox.Prox) bool {
	known := prox.StructureOf(r)
	if known.Groups == nil {
		return known.Sparse != nil
	}
	owner, w := known.Groups()
	sizes := make([]int, len(w))
	for _, g := range owner {
		if sizes[g]++; w[g] > 0 && sizes[g] > limits.MostFactored {
			return false
		}
	}
	return true
}
