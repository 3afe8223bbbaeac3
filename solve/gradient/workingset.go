package gradient

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/restrict"
)

// workingSet runs a method on an active set of coordinates. The solution of a sparse problem is 0
// in most coordinates, and only the columns of A at the others need to be read. It works in rounds:
// solve the problem restricted to a set W, compute the gradient at the solution over all
// coordinates by one product with A*, and add to W the coordinates outside that violate their
// optimality condition, the largest violations first. Where there is none the restricted solution
// is the solution. A is read once a round for the gradient and once for its columns, some ten times
// in all, while the iterations would read it hundreds of times (Johnson and Guestrin, Blitz, 2015;
// Massias, Gramfort and Salmon, Celer, 2018).
//
// The same set suffices for derivatives: at a solution the derivative of the proximal operator is 0
// outside W, and the implicit derivative of the restricted problem is that of the whole problem.
// Iterations over all coordinates are for the unrolled derivative, and for problems whose solutions
// turn out not to be sparse.
type workingSet struct {
	engine.Everywhere
	r prox.Structure
}

// notSparse is the choice where the solution turned out not to be sparse.
var notSparse = engine.Choice{Part: "method", Chosen: "all coordinates",
	Reason: "the solution turned out not to be sparse"}

const (
	// firstShare of the coordinates is the largest first working set, unless [restrict.MinFirst] is larger.
	firstShare = 1. / 32
	// A round is solved until its own optimality is roundShare of the violation outside before it,
	// or to the tolerance. insideShare is the part of the tolerance that the optimality inside may
	// use.
	roundShare  = 0.1
	insideShare = 0.7
	// reach is the step, in units of 1/||gradient||_inf, at which violations outside are measured:
	// small enough that quadratic terms do not matter.
	reach = 0x1p-30
)

// NewWorkingSet wraps a method for a sparse problem.
func NewWorkingSet(_ context.Context, s engine.Task) (engine.Solver, error) {
	return &workingSet{Everywhere: engine.Everywhere{Task: s}, r: prox.StructureOf(s.Problem.R)}, nil
}

// finish continues on all coordinates from b, after so many iterations.
func (s *workingSet) finish(ctx context.Context, y, b array.Batch, done int) (*engine.Solution, error) {
	full, err := s.Whole(ctx)
	if err != nil {
		return nil, err
	}
	o := s.Task.Options.With(notSparse)
	o.MaxIter = max(o.MaxIter-done, 1)
	sol, err := engine.Run(ctx, full, y, o, engine.Start{B: b})
	if err != nil {
		return nil, err
	}
	sol.Iterations += done
	return sol, nil
}

// Solve starts with the support of b0 as its working set.
func (s *workingSet) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	if err := engine.CheckY(s.Task.Problem, y); err != nil {
		return nil, err
	}
	r := s.newRounds(y, from.B)
	defer r.Release()
	for {
		if done, err := r.grow(); err != nil {
			return nil, err
		} else if done {
			return r.solution()
		}
		if sparse, err := r.confine(ctx); err != nil {
			return nil, err
		} else if !sparse {
			return s.finish(ctx, y, r.b, r.Convergence.Iterations)
		}
		if err := r.solve(ctx); err != nil {
			return nil, err
		}
	}
}

type rounds struct {
	engine.Acceptance
	s       *workingSet
	dev     array.Device
	y       array.Batch
	b, z, g array.Batch // the estimate, A b - y, and A* of that
	set     []int
	on      *restrict.Confined        // on set; nil before the problem has been restricted to it
	inside  float64                   // optimality on the working set
	outside float64                   // and outside
	excess  []float64                 // by how much the coordinates outside violate their optimality conditions
	limit   int                       // of the coordinates that are added
	gram    func(set []int) []float64 // of the working set's columns; or nil
}

func (s *workingSet) newRounds(y, b0 array.Batch) *rounds {
	dev := y.Device()
	d, dim := s.Task.Problem.A.Dims()
	r := &rounds{
		Acceptance: engine.NewAcceptance(engine.NewScales(y, 0, s.Task.Options)), s: s, dev: dev, y: y,
		b: dev.Alloc(1, dim), z: dev.Alloc(1, d), g: dev.Alloc(1, dim),
		outside: math.Inf(1), excess: make([]float64, dim),
		limit: max(int(firstShare*float64(dim)), restrict.MinFirst),
	}
	r.Convergence.Optimality = math.Inf(1)
	begun := false
	defer func() {
		if !begun { // A or the regularizer has panicked
			r.Release()
		}
	}()
	if b0.IsZero() {
		dev.Fill(r.b, 0)
	} else {
		dev.Copy(r.b, b0)
		r.set = s.r.Closure(restrict.Support(r.b))
	}
	if len(r.set) == 0 { // else the solution on the set sets both
		dev.Lin(r.z, -1, y, 0, array.Batch{})
		s.Task.Problem.A.Adjoint(r.g, r.z)
	}
	begun = true
	return r
}

func (r *rounds) Release() {
	array.Free(r.b, r.g, r.z)
	if r.on != nil {
		r.on.Release()
	}
}

// grow judges the solution on the working set, reports whether it is done, and if not adds to the
// set. The problem is solved on the support of a start before that is judged.
func (r *rounds) grow() (done bool, err error) {
	if len(r.set) > 0 && r.on == nil {
		return false, nil
	}
	outside, err := r.violations()
	if err != nil {
		return false, err
	}
	if math.IsNaN(outside) || math.IsInf(outside, 0) {
		return false, fmt.Errorf("%s: the iterates are not finite after %d iterations", r.s.Name(),
			r.Convergence.Iterations)
	}
	r.judge(outside)
	more := restrict.Strongest(r.excess, r.limit)
	within := r.Convergence.Converged || r.Convergence.Optimality <= r.Good && r.Tol == engine.TightestTol
	if r.on != nil && (r.Convergence.Iterations >= r.s.Task.Options.MaxIter || len(more) == 0 && within) {
		return true, nil
	}
	grown := r.s.r.Closure(restrict.Union(r.set, more))
	if len(grown) == 0 {
		// b = 0 is the solution: any set will do.
		grown = r.s.r.Closure([]int{0})
	}
	if len(grown) != len(r.set) && r.on != nil {
		r.on.Release()
		r.on = nil
	}
	r.set = grown
	return false, nil
}

// judge applies the stopping rule to the optimality inside the working set and the distance of 0
// from the subdifferential outside of it.
func (r *rounds) judge(outside float64) {
	zNorm, bNorm := engine.Norm(r.z), engine.Norm(r.b)
	r.Scales.Norm = engine.Relative(engine.Norm(r.g), zNorm) // at most ||A||
	if r.on != nil {
		r.Scales.Norm = math.Sqrt(r.on.Method.Traits().Norm2)
	}
	scale := r.Scales.Scale(zNorm, bNorm)
	r.outside = engine.Relative(outside, scale)
	optimality := math.Hypot(r.inside, r.outside)
	bound := engine.ErrorBound(context.Background(), r.s.Task.Problem, r.b, r.z, r.g, r.Scales, zNorm, bNorm,
		optimality*scale)
	r.Accept(optimality, optimality, bound, zNorm)
}

// confine builds the problem on the set; false where the set is not small, or the operator does not
// support it.
func (r *rounds) confine(ctx context.Context) (bool, error) {
	_, dim := r.s.Task.Problem.A.Dims()
	if 2*len(r.set) > dim || len(r.set) == 0 {
		return false, nil
	}
	if r.on != nil {
		return true, nil
	}
	c := restrict.Confine(r.dev, r.s.Task.Problem.A, r.set)
	if c == nil {
		return false, nil
	}
	defer func() {
		if r.on == nil { // also where the regularizer or the method panics
			c.Release()
		}
	}()
	var err error
	if c.R, err = r.s.r.On(r.dev, c.Set); err == nil && c.R != nil {
		c.Method, err = r.s.Task.Entry.New(ctx, c.Problem, r.s.Task.Options)
	}
	if err != nil || c.R == nil {
		return false, err
	}
	r.on = c
	return true, nil
}

// solve solves on the working set.
func (r *rounds) solve(ctx context.Context) error {
	start := r.on.Gather(r.b)
	defer start.Free()
	o := r.s.Task.Options
	o.Point, o.Fine = false, o.Point
	o.MaxIter = max(o.MaxIter-r.Convergence.Iterations, 1)
	o.Tol = math.Max(insideShare*r.Tol, roundShare*math.Min(r.outside, 1))
	if r.Convergence.Iterations > 0 && r.outside == 0 {
		o.Tol = insideShare * r.Tol
	}
	sol, err := engine.Run(ctx, r.on.Method, r.y, o, engine.Start{B: start, Part: true, Stage: progress.WorkingSet})
	if err != nil {
		return err
	}
	defer sol.Release()
	r.Convergence.Iterations += sol.Iterations
	r.inside, r.gram = sol.Optimality, sol.Gram
	r.on.Set.Embed(r.b, sol.B)
	r.dev.Lin(r.z, 1, sol.MuHat, -1, r.y)
	r.s.Task.Problem.A.Adjoint(r.g, r.z)
	r.limit = max(len(r.set), restrict.MinFirst)
	return nil
}

func (r *rounds) solution() (*engine.Solution, error) {
	o := r.s.Task.Options
	sol := &engine.Solution{Convergence: r.Convergence, Choices: slices.Clone(o.Choices), B: r.b, MuHat: r.z}
	r.dev.Lin(r.z, 1, r.z, 1, r.y)
	r.b, r.z = array.Batch{}, array.Batch{}
	if on := r.on; o.Point {
		r.on = nil
		sol.At = &engine.Point{
			Problem: on.Problem, Y: r.y, B: on.Gather(sol.B), Norm2: on.Method.Traits().Norm2, Gram: r.gram,
			Method: on.Method, Options: o, Op: on.Op, Free: on.Release,
		}
		sol.At.Embedded(r.set, sol.B.N())
	}
	if err := r.dev.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// violations sets excess_j to how much coordinate j outside the set violates its optimality
// condition, to 0 for those inside, and returns the distance of 0 from the subdifferential over the
// coordinates outside.
func (r *rounds) violations() (float64, error) {
	dev := r.dev
	t := reach
	if largest := r.g.MaxAbs(); largest > 0 {
		t = reach / largest
	}
	c := dev.Alloc(1, r.g.N())
	defer c.Free()
	dev.Lin(c, -t, r.g, 0, array.Batch{})
	if err := r.s.Task.Problem.R.Eval(c, c, t); err != nil {
		return 0, err
	}
	dev.Download(r.excess, c)
	if err := dev.Err(); err != nil {
		return 0, err
	}
	for _, j := range r.set {
		r.excess[j] = 0
	}
	sum := 0.0
	for j, w := range r.excess {
		r.excess[j] = math.Abs(w) / t
		sum += r.excess[j] * r.excess[j]
	}
	return math.Sqrt(sum), nil
}
