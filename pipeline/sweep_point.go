package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/stages"
	"surepipe/vjp"
)

// PointError is a failure at one point of a sweep.
type PointError struct {
	// Index, Stage and Weights name the point as [SweepPoint] does.
	Index   int
	Stage   SweepStage
	Weights []float64
	Err     error
}

// Error names the point by its index and its weights.
func (e *PointError) Error() string {
	return fmt.Sprintf("point %d, weights %v: %v", e.Index, e.Weights, e.Err)
}

// Unwrap returns the error without the point.
func (e *PointError) Unwrap() error { return e.Err }

func (s *sweep) named(i int, stage SweepStage, weights []float64, err error) error {
	// A point is one sample, whose index carries no information.
	if own := (*SampleError)(nil); errors.As(err, &own) {
		err = own.Err
	}
	return &PointError{i, stage, weights, err}
}

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("pipeline: %w", &stages.PanicError{Value: r, Stack: debug.Stack()})
	}
}

func (s *instance) open(ctx context.Context) (release func(), err error) {
	if box := s.f.BlackBox; box != nil {
		projection := hutch.NewProjection(array.NewHost(), box.D)
		s.compare = &stages.Comparing{Projection: projection, Criterion: s.o.Criterion}
		return projection.Free, nil
	}
	defer recovered(&err)
	base, free, err := s.solver(s.reporting(ctx, 0), s.weights(0))
	if err != nil {
		return nil, err
	}
	s.base = base
	d, _ := s.f.Problem.A.Dims()
	projection := hutch.NewProjection(s.f.Problem.Device, d)
	s.compare = &stages.Comparing{Projection: projection, Criterion: s.o.Criterion, Seed: s.o.Seed}
	frame, err := frameOf(s.f.Problem)
	if err != nil {
		projection.Free()
		free()
		return nil, err
	}
	s.compare.Frame = frame
	return func() {
		s.compare.Free()
		free()
	}, nil
}

// A frame of dimension q <= mostFrame is always worth its work, about q^2 d once, up to cheapFrame: a few
// milliseconds. A point then takes q^2 for each active column, or q images where its factors offer no more.
const (
	mostFrame  = 64
	cheapFrame = 2e7
)

// frameOf is the frame of the range of A, or of W^{1/2} A with weights of the observations, in which the
// Jacobians of all fits are; nil where it takes more work than probes, and more than a little, or the loss
// is not quadratic.
func frameOf(p vjp.Problem) (*hutch.Frame, error) {
	d, n := p.A.Dims()
	q := min(d, n)
	cheap := q <= mostFrame && float64(q)*float64(q)*float64(d) <= cheapFrame
	if !cheap && q > hutch.CommonProbes(d) || !loss.Quadratic(p.Loss) {
		return nil, nil
	}
	dev := p.Device
	var vectors array.Batch
	if d <= n {
		vectors = dev.Alloc(d, d)
		hutch.UnitVectors(vectors, 0)
	} else {
		vectors = linops.Images(dev, p.A)
		if w := loss.Weighing(p.Loss); w != nil {
			root, _ := loss.Roots(w)
			weights := dev.Put(root, 1, d)
			dev.Mul(vectors, vectors, weights)
			weights.Free()
		}
	}
	defer vectors.Free()
	return hutch.NewFrame(vectors)
}

func (s *instance) solver(ctx context.Context, weights []float64) (_ vjp.Solver, release func(), err error) {
	r, err := s.f.Regularizer(slices.Clone(weights))
	if err != nil {
		return nil, nil, err
	}
	free := func() { prox.Release(r) }
	var solver vjp.Solver
	if s.base != nil {
		solver, err = s.base.Reweight(ctx, r)
	} else {
		problem := s.f.Problem
		problem.R = r
		if s.f.Method != nil {
			solver, err = vjp.FromMethod(ctx, *s.f.Method, problem, s.f.Settings)
		} else {
			solver, err = vjp.NewSolver(ctx, s.f.Solver, problem, s.f.Settings)
		}
	}
	if err != nil {
		free()
		return nil, nil, err
	}
	return solver, func() { solver.Release(); free() }, nil
}

// held is a solution b on the host: by its values at some places, all of them where these are nil, and 0 elsewhere, or
// by its factors. The zero value stands for 0.
type held struct {
	n       int // of b
	places  []int
	values  []float64
	factors *vjp.Factors
}

func (h held) none() bool { return h.n == 0 && h.factors == nil }

// written is b where few values or all are kept. It keeps b itself where it is a list of its own.
func written(b []float64, own bool) held {
	places := lists.Places(len(b), func(j int) bool { return b[j] != 0 })
	switch {
	case 2*len(places) <= len(b):
		return held{n: len(b), places: append([]int{}, places...), values: lists.Pick(b, places)}
	case !own:
		b = slices.Clone(b)
	}
	return held{n: len(b), values: b}
}

// writtenOf is the vector of a batch.
func writtenOf(b array.Batch) held {
	if row, ok := b.HostRow(0); ok {
		return written(row, false)
	}
	return written(b.ToHost(), true)
}

// list is b, nil where it is not written down. The caller must not modify it.
func (h held) list() []float64 {
	if h.places == nil {
		return h.values
	}
	b := make([]float64, h.n)
	h.fill(b)
	return b
}

// fill sets the entries that are not 0.
func (h held) fill(b []float64) {
	for k, j := range h.places {
		b[j] = h.values[k]
	}
}

// on is b on a device. The caller frees it.
func (h held) on(dev array.Device) array.Batch {
	b := dev.Alloc(1, h.n)
	if row, ok := b.HostRow(0); ok && h.places != nil { // memory that was in use before
		dev.Fill(b, 0)
		h.fill(row)
	} else {
		dev.Upload(b, h.list())
	}
	return b
}

// start is where a point's solve starts: an estimate, nil for 0, and what the points before it in a
// chain hand on, nil for none.
type start struct {
	held
	path *vjp.Path
	// ahead are the regularizers of the points that follow: see [solve.From].
	ahead func(i int) (prox.Prox, error)
	// effort is that of the solve, and answer says that the point is the sweep's answer.
	effort vjp.Effort
	answer bool
	// solved, if not nil, is told the solution as soon as it is known.
	solved func(held)
}

type started struct {
	vjp.Solver
	from start
}

func (s started) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	from := vjp.From{Path: s.from.path, Ahead: s.from.ahead, Factors: s.from.factors, Effort: s.from.effort}
	if s.from.n > 0 {
		from.B = s.from.on(y.Device())
		defer from.B.Free()
	}
	told := s.from.solved == nil
	from.Solved = func(sol *solve.Solution) {
		if !told {
			told = true
			s.from.solved(s.heldOf(sol))
		}
	}
	sol, err := s.SolveFrom(ctx, y, from)
	if err == nil {
		from.Tell(&solve.Solution{B: sol.B, Implied: sol.Implied})
	}
	return sol, err
}

func (s started) heldOf(sol *solve.Solution) held {
	switch low := sol.Implied; {
	case low == nil:
		return writtenOf(sol.B)
	case low.Factors != nil:
		return held{factors: low.Factors()}
	default:
		b := make([]float64, low.P)
		low.B(b, 0)
		return written(b, true)
	}
}

func (s *instance) at(ctx context.Context, weights []float64, from start) (vjp.Solver, func(), error) {
	solver, release, err := s.solver(ctx, weights)
	if err != nil {
		return nil, nil, err
	}
	if s.chained || from.effort.Share > 0 {
		solver = started{solver, from}
	}
	return solver, release, nil
}

// options are those of the pipeline for point i. The sweep itself calls Observe and Logger, so that
// they also receive points that have no solver.
func (s *instance) options(i int, answer bool) Options {
	o := s.o.Options
	if answer {
		o.ALO = o.ALO || lossName(s.f.Problem) != ""
	} else {
		s.probing(&o)
	}
	o.Parallel, o.Logger, o.Observe, o.compare, o.KeepB = 1, nil, nil, s.compare, o.KeepB || s.o.KeepPath
	if o.Progress != nil {
		o.Progress = func(p Progress) {
			p.Sample = i
			s.tell(p)
		}
	}
	return o
}

func (s *sweep) observe(ctx context.Context, i int, stage SweepStage, weights []float64, e Event) {
	if s.o.Observe != nil {
		e.Sample, e.Stage, e.Weights = i, stage, slices.Clone(weights)
		s.o.Observe(ctx, e)
	}
}

func (s *instance) estimate(ctx context.Context, i int, stage SweepStage, weights []float64,
	from start) (_ *SweepPoint, err error) {
	defer recovered(&err)
	s.observe(ctx, i, stage, weights, Event{})
	var solved held
	tell := from.solved
	from.solved = func(h held) {
		if solved = h; tell != nil {
			tell(h)
		}
	}
	result, err := s.risk(ctx, i, weights, from)
	if err == nil && s.o.Criterion.Rule().Diagonal && errors.Is(result.ALOErr, ErrNoDiagonal) {
		err = result.ALOErr
	}
	if err == nil && s.o.Criterion.Rule().Blocks && errors.Is(result.LGOErr, ErrNoBlocks) {
		err = result.LGOErr
	}
	if err != nil {
		if err = s.named(i, stage, weights, err); ctx.Err() != nil {
			err = ctx.Err()
		}
		s.observe(ctx, i, stage, weights, Event{Ended: true, Err: err})
		return nil, err
	}
	point := &SweepPoint{Risk: result, Stage: stage, Weights: weights, Loss: math.NaN(), solved: solved}
	point.Index = i
	if s.validated != nil && i < len(s.validated.sums) {
		s.validated.put(s.sweep, &point.Risk, i)
	}
	if s.o.Observe != nil {
		seen := point.Risk
		s.observe(ctx, i, stage, weights, Event{Ended: true, Risk: &seen})
	}
	point.Overfits = s.wide &&
		s.o.Criterion.Rule().Overfits(point.Trace.Trace, float64(len(s.y)), point.LossTerms == nil)
	if s.o.Mu != nil {
		point.Loss = 0
		for j, m := range s.o.Mu {
			e := point.MuHat[j] - m
			point.Loss += e * e
		}
	}
	if s.o.Logger.Enabled(ctx, slog.LevelInfo) {
		s.o.Logger.InfoContext(ctx, "point done", "point", i, "stage", stage, "weights", weights,
			string(s.o.Criterion), point.Value(s.o.Criterion), "iterations", point.Iterations,
			"converged", point.Converged, "solve", point.Solve, "divergence", point.Divergence, "cache_bytes",
			point.CacheBytes)
	}
	return point, nil
}

func (s *sweep) valueOf(p *SweepPoint) SweepValue {
	rule, near := s.o.Criterion.Rule(), 0.0
	value, stdErr := rule.Value(p.Fitted())
	if p.Leverages != nil {
		near = p.Leverages.NearOne
	}
	return SweepValue{Weights: p.Weights, Value: value, StdErr: stdErr, Unsure: rule.Unsure(value, stdErr, near,
		p.LossTerms.FromZero()), Overfits: p.Overfits, Trusted: p.Trusted(), Digest: p.Digest}
}

func (s *instance) risk(ctx context.Context, i int, weights []float64, from start) (_ Risk, err error) {
	defer recovered(&err)
	if s.f.BlackBox != nil {
		return s.f.BlackBox.at(ctx, 0, weights, s.y, s.options(i, from.answer), s.calls)
	}
	ctx = s.reporting(ctx, i)
	solver, release, err := s.at(ctx, weights, from)
	if err != nil {
		return Risk{}, err
	}
	defer release()
	p, err := New(solver, s.options(i, from.answer))
	if err != nil {
		return Risk{}, err
	}
	return p.Estimate(ctx, s.y)
}

// solution is b at the weights, the same to the last bit as estimate's; nil where it is a closed
// form, which has no starting point.
func (s *instance) solution(ctx context.Context, i int, stage SweepStage, weights []float64, from start) (_ held,
	err error) {
	defer func() {
		if err != nil {
			err = s.named(i, stage, weights, err)
		}
	}()
	defer recovered(&err)
	ctx = s.reporting(ctx, i)
	var solution held
	from.solved = func(h held) { solution = h }
	solver, release, err := s.at(ctx, weights, from)
	if err != nil {
		return held{}, err
	}
	defer release()
	view := s.f.Problem.Device.Request()
	y := stages.Observations(view, s.f.Problem, s.y)
	defer y.Free() // after the solution
	sol, err := solver.Solve(ctx, y)
	if err != nil {
		return held{}, err
	}
	defer sol.Release()
	if sol.Closed {
		return held{}, view.Sync()
	}
	return solution, view.Sync()
}
