package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/stages"
	"surepipe/vjp"
)

// Family is a family of estimators: one operator, and a regularizer for every choice
// of the weights.
type Family struct {
	// A is the operator and Device where it keeps its data.
	A      linops.Operator
	Device array.Device
	// Regularizer returns r at the weights, one for each axis of the grid. It is called
	// from many goroutines. What it returns is released after use ([prox.Release]).
	Regularizer func(weights []float64) (prox.Prox, error)
	// Solver is the name of a solver, and Settings are its options, as
	// vjp.NewSolver takes them.
	Solver   string
	Settings vjp.Options
}

// SweepOptions are a sweep's settings.
type SweepOptions struct {
	// Options are those of every point. All points have the probes of sample 0.
	// Parallel is the number of points in flight; Progress, Observe and Logger
	// name a point by its index.
	Options
	// Mu is the true mean, of length d, where it is known.
	Mu []float64
	// Chain is the number of points of the grid that start one at the solution of
	// another, default DefaultChain. The first of them starts at 0, like that of
	// every row of the grid. 1 lets all points start at 0. Results depend on it, below
	// the solver's tolerance.
	Chain int
	// Refine is the largest number of points beyond the grid for each axis,
	// default DefaultRefine; negative: none.
	Refine int
	// Known are the first points, in order, of an earlier sweep with the same inputs.
	// They are neither computed nor yielded again.
	Known []SweepValue
}

// Defaults of SweepOptions.
const (
	DefaultChain  = 10
	DefaultRefine = 20
)

// SweepValue is what a sweep needs to know of a point to continue after it.
type SweepValue struct {
	Weights []float64
	SURE    float64
	// Trusted is that of [Risk].
	Trusted bool
}

// Stage says how a sweep came to a point.
type Stage string

// The stages of a sweep.
const (
	GridStage      Stage = "grid"
	RefineStage    Stage = "refine"
	MinimizerStage Stage = "minimizer"
)

// SweepPoint is the risk at one choice of the weights.
type SweepPoint struct {
	// Risk is the estimate of risk. Its Index is the point's place in the sweep. MuHat
	// and B are those of the minimizer, and nil at the other points.
	Risk
	Stage Stage
	// Weights are the hyperparameters, one for each axis.
	Weights []float64
	// Place holds the places of the weights in the axes of the grid; nil beyond the
	// grid.
	Place []int
	// Loss is ||mu_hat - mu||^2; NaN where mu is not known.
	Loss float64
	// Edge says, in the minimizer stage, on which axes the grid's minimizer is an end of
	// the axis: -1 its least, 1 its greatest value, 0 neither. There the minimum may lie
	// beyond the grid.
	Edge []int
}

// Sweep estimates the risk on a grid of weights and looks for its minimum.
//
// grid has an axis for each weight, increasing, of positive finite values. Points go
// along the first axis from its greatest value to its least, then to the next smaller
// value of the second, and so on. Up to Options.Parallel are in flight; all share y, its
// probes and the operator, so that the curve is smooth and its differences are far
// more certain than the values. Chains of points are warm-started: each point's solve begins at the
// solution before it.
//
// Then Brent's method on the logarithm of one weight after the other, between
// the neighbours of the grid's minimizer, finds the minimum. Axes along which the
// minimizer is an end are left out. Every solve begins at the grid's minimizer.
//
// Points are yielded in order, and last the minimizer again, of all points the one of
// least SURE, with its estimate. Points that are not Trusted are the minimizer only if all are
// such. Of equal values that with the smallest weights counts.
//
// Where each solve starts follows from the grid alone. All results are
// bit-identical for any Parallel and Batch, and for a sweep that continues another's
// Known points: it solves again, without the divergence, what it must start from.
//
// The sweep ends at the first error, which is yielded last. Breaking out of the
// loop stops all work; when the loop has ended every goroutine has returned and all
// device memory is free. y and Mu must not be modified meanwhile.
func Sweep(ctx context.Context, y []float64, f Family, grid [][]float64, o SweepOptions) iter.Seq2[SweepPoint, error] {
	return func(yield func(SweepPoint, error) bool) {
		s, err := newSweep(y, f, grid, o, yield)
		if err == nil {
			err = s.run(ctx)
		}
		if err != nil && !errors.Is(err, errStopped) {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			yield(SweepPoint{}, err)
		}
	}
}

// errStopped is the end of a sweep whose consumer wants no more.
var errStopped = errors.New("pipeline: the consumer has left")

// sweep is one sweep under way.
type sweep struct {
	y     []float64
	f     Family
	grid  [][]float64
	o     SweepOptions
	total int // points of the grid
	// chained says that solves start at others' solutions.
	chained bool
	// base is a solver to make the others of, which share what it knows of the operator.
	base  vjp.Solver
	yield func(SweepPoint, error) bool

	reporting sync.Mutex // held while o.Progress is called

	mu     sync.Mutex
	best   candidate
	values []SweepValue // of the grid's points
}

// candidate is a point that may be the minimizer.
type candidate struct {
	SweepValue
	index int // -1: none yet
	// point is the point with its estimate; nil where it was known before.
	point *SweepPoint
}

// beats reports whether c is the minimizer rather than d.
func (c candidate) beats(d candidate) bool {
	if d.index < 0 || c.Trusted != d.Trusted {
		return d.index < 0 || c.Trusted
	}
	if c.SURE != d.SURE {
		return c.SURE < d.SURE
	}
	for a := len(c.Weights) - 1; a >= 0; a-- {
		if c.Weights[a] != d.Weights[a] {
			return c.Weights[a] < d.Weights[a]
		}
	}
	return false
}

func newSweep(y []float64, f Family, grid [][]float64, o SweepOptions, yield func(SweepPoint, error) bool) (*sweep, error) {
	if f.A == nil || f.Device == nil || f.Regularizer == nil {
		return nil, errors.New("pipeline: a family without operator, device or regularizer")
	}
	d, _ := f.A.Dims()
	p, err := newPipeline(f.Device, nil, d, o.Options)
	if err != nil {
		return nil, err
	}
	if err := p.check(y); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	if o.Mu != nil && len(o.Mu) != d {
		return nil, fmt.Errorf("pipeline: mu has %d values, expected %d", len(o.Mu), d)
	}
	if o.Chain < 0 {
		return nil, fmt.Errorf("pipeline: chains of %d points, expected at least 1, or 0 for the default", o.Chain)
	}
	if o.Chain == 0 {
		o.Chain = DefaultChain
	}
	if o.Refine == 0 {
		o.Refine = DefaultRefine
	}
	if o.Parallel == 0 {
		o.Parallel = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if len(grid) == 0 {
		return nil, errors.New("pipeline: a grid without axes")
	}
	s := &sweep{y: y, f: f, grid: grid, o: o, total: 1, yield: yield, best: candidate{index: -1}}
	for a, axis := range grid {
		if len(axis) == 0 {
			return nil, fmt.Errorf("pipeline: axis %d of the grid is empty", a)
		}
		if len(axis) > math.MaxInt32/s.total {
			return nil, fmt.Errorf("pipeline: a grid of more than %d points", math.MaxInt32)
		}
		s.total *= len(axis)
		for i, v := range axis {
			if !(v > 0) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("pipeline: axis %d of the grid holds %g at %d, expected positive finite numbers", a, v, i)
			}
			if i > 0 && v <= axis[i-1] {
				return nil, fmt.Errorf("pipeline: axis %d of the grid holds %g after %g, expected increasing numbers", a, v, axis[i-1])
			}
		}
	}
	// The unrolled derivative is that of iterations from 0.
	s.chained = f.Settings.Derivative != vjp.Unrolled && o.Chain > 1
	s.values = make([]SweepValue, s.total)
	for i := range min(len(o.Known), s.total) {
		if err := s.checkKnown(i, s.weights(i)); err != nil {
			return nil, err
		}
		s.offer(i, o.Known[i], nil)
	}
	return s, nil
}

// checkKnown refuses a known point that is not this sweep's point i.
func (s *sweep) checkKnown(i int, weights []float64) error {
	k := s.o.Known[i]
	if !slices.Equal(k.Weights, weights) {
		return fmt.Errorf("pipeline: known point %d has weights %v, expected %v: it is another sweep's", i, k.Weights, weights)
	}
	if math.IsNaN(k.SURE) || math.IsInf(k.SURE, 0) {
		return fmt.Errorf("pipeline: known point %d has SURE %g, expected a finite number", i, k.SURE)
	}
	return nil
}

// place is that of point i of the grid: the first axis varies fastest, from its
// greatest value to its least.
func (s *sweep) place(i int) []int {
	at := make([]int, len(s.grid))
	for a, axis := range s.grid {
		at[a] = len(axis) - 1 - i%len(axis)
		i /= len(axis)
	}
	return at
}

// number is the inverse of place.
func (s *sweep) number(place []int) int {
	i, stride := 0, 1
	for a, axis := range s.grid {
		i += stride * (len(axis) - 1 - place[a])
		stride *= len(axis)
	}
	return i
}

// weights are those of point i of the grid.
func (s *sweep) weights(i int) []float64 {
	w := make([]float64, len(s.grid))
	for a, at := range s.place(i) {
		w[a] = s.grid[a][at]
	}
	return w
}

// offer notes a point's value. point is nil where the point was known before.
func (s *sweep) offer(i int, v SweepValue, point *SweepPoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < s.total {
		s.values[i] = v
	}
	if c := (candidate{v, i, point}); c.beats(s.best) {
		s.best = c
	}
}

// run does the stages one after the other.
func (s *sweep) run(ctx context.Context) error {
	release, err := s.open(ctx)
	if err != nil {
		return s.named(0, s.weights(0), err)
	}
	defer release()
	if err := s.sweepGrid(ctx); err != nil {
		return err
	}
	grid := s.best
	start := &origin{s: s, of: grid}
	count, err := s.refine(ctx, start)
	if err != nil {
		return err
	}
	if len(s.o.Known) > count {
		return fmt.Errorf("pipeline: %d known points, expected at most %d: they are another sweep's", len(s.o.Known), count)
	}
	return s.minimizer(ctx, grid, start)
}

// open makes the base.
func (s *sweep) open(ctx context.Context) (release func(), err error) {
	defer recovered(&err)
	s.base, _, release, err = s.solver(ctx, s.weights(0))
	return release, err
}

// recovered turns the panic of a user's operator or regularizer into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("pipeline: %w", &stages.PanicError{Value: r, Stack: debug.Stack()})
	}
}

// named says which point an error belongs to.
func (s *sweep) named(i int, weights []float64, err error) error {
	return fmt.Errorf("point %d, weights %v: %w", i, weights, err)
}

// solver makes the solver at the weights, and the regularizer there. release frees both.
func (s *sweep) solver(ctx context.Context, weights []float64) (_ vjp.Solver, r prox.Prox, release func(), err error) {
	r, err = s.f.Regularizer(slices.Clone(weights))
	if err != nil {
		return nil, nil, nil, err
	}
	free := func() { prox.Release(r) }
	var solver vjp.Solver
	if s.base != nil {
		solver, err = s.base.Reweight(ctx, r)
	} else {
		solver, err = vjp.NewSolver(ctx, s.f.Solver, vjp.Problem{A: s.f.A, R: r, Device: s.f.Device}, s.f.Settings)
	}
	if err != nil {
		free()
		return nil, nil, nil, err
	}
	return solver, r, func() { solver.Release(); free() }, nil
}

// started is a solver that starts at an estimate.
type started struct {
	vjp.Solver
	from []float64
}

// Solve is SolveFrom the estimate.
func (s started) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	b := y.Device().Alloc(1, len(s.from))
	defer b.Free()
	y.Device().Upload(b, s.from)
	return s.SolveFrom(ctx, y, b)
}

// at is the solver at the weights, starting at an estimate unless it is nil, and the
// regularizer.
func (s *sweep) at(ctx context.Context, weights, from []float64) (vjp.Solver, prox.Prox, func(), error) {
	solver, r, release, err := s.solver(ctx, weights)
	if err != nil {
		return nil, nil, nil, err
	}
	if from != nil {
		solver = started{solver, from}
	}
	return solver, r, release, nil
}

// options are those of the pipeline for point i, whose reports name the point.
func (s *sweep) options(i int, stage Stage, weights []float64) Options {
	o := s.o.Options
	o.Parallel, o.Logger = 1, nil
	if report := o.Progress; report != nil {
		o.Progress = func(p Progress) {
			s.reporting.Lock()
			defer s.reporting.Unlock()
			p.Sample = i
			report(p)
		}
	}
	if observe := o.Observe; observe != nil {
		o.Observe = func(ctx context.Context, e Event) {
			e.Sample, e.Stage, e.Weights = i, stage, slices.Clone(weights)
			if e.Risk != nil {
				e.Risk.Index = i // the event's own copy
			}
			observe(ctx, e)
		}
	}
	return o
}

// estimate computes point i. The point has its estimate still.
func (s *sweep) estimate(ctx context.Context, i int, stage Stage, weights, from []float64) (_ *SweepPoint, err error) {
	defer recovered(&err)
	solver, r, release, err := s.at(ctx, weights, from)
	if err != nil {
		return nil, s.named(i, weights, err)
	}
	defer release()
	o := s.options(i, stage, weights)
	if o.Verify != nil {
		check := *o.Verify
		check.Problem = vjp.Problem{A: s.f.A, R: r, Device: s.f.Device}
		o.Verify = &check
	}
	p, err := New(s.f.Device, solver, len(s.y), o)
	if err != nil {
		return nil, err
	}
	risk, err := p.Estimate(ctx, s.y)
	if err != nil {
		return nil, s.named(i, weights, err)
	}
	risk.Index = i
	point := &SweepPoint{Risk: risk, Stage: stage, Weights: weights, Loss: math.NaN()}
	if s.o.Mu != nil {
		point.Loss = 0
		for j, m := range s.o.Mu {
			e := risk.MuHat[j] - m
			point.Loss += e * e
		}
	}
	s.o.Logger.Info("point done", "point", i, "stage", stage, "weights", weights, "sure", risk.SURE, "iterations", risk.Iterations,
		"converged", risk.Converged, "solve", risk.Solve, "divergence", risk.Divergence, "cache_bytes", risk.CacheBytes)
	return point, nil
}

// solution is b at the weights, the same to the last bit as estimate's; nil where the
// solver starts at no estimate anyway.
func (s *sweep) solution(ctx context.Context, i int, weights, from []float64) (_ []float64, err error) {
	defer recovered(&err)
	solver, _, release, err := s.at(ctx, weights, from)
	if err != nil {
		return nil, s.named(i, weights, err)
	}
	defer release()
	if solver.Name() == "direct" {
		return nil, nil
	}
	view := s.f.Device.Request()
	y := view.Alloc(1, len(s.y))
	defer y.Free()
	values := s.y
	if s.o.Intercept {
		values = slices.Clone(values)
		floats.AddConst(-stat.Mean(values, nil), values)
	}
	view.Upload(y, values)
	sol, err := solver.Solve(ctx, y)
	if err != nil {
		return nil, s.named(i, weights, err)
	}
	defer sol.Release()
	b := sol.B.ToHost()
	return b, view.Sync()
}

// chain is points first to end-1 of the grid, which are solved one after the other.
type chain struct{ first, end int }

// chains splits each row of the grid into chains of nearly equal length.
func (s *sweep) chains() []chain {
	row := len(s.grid[0])
	parts := (row + s.o.Chain - 1) / s.o.Chain
	var all []chain
	for begin := 0; begin < s.total; begin += row {
		for k := range parts {
			all = append(all, chain{begin + k*row/parts, begin + (k+1)*row/parts})
		}
	}
	return all
}

// sweepGrid computes the points of the grid that are not known, and yields them in
// order.
func (s *sweep) sweepGrid(outer context.Context) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	known := min(len(s.o.Known), s.total)
	// A chain may run ahead of the oldest unfinished one, but not far.
	window := make(chan struct{}, 2*s.o.Parallel)
	in := make(chan chain)
	ends := map[int]bool{}
	for _, c := range s.chains() {
		ends[c.end-1] = true
	}
	g.Go(func() error {
		defer close(in)
		for _, c := range s.chains() {
			if c.end <= known {
				continue
			}
			select {
			case window <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case in <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	points := stages.Start(ctx, g, s.o.Parallel, in, func(ctx context.Context, in <-chan chain, out chan<- SweepPoint) error {
		for c := range in {
			if err := s.follow(ctx, c, known, out); err != nil {
				return err
			}
		}
		return nil
	})
	early := map[int]SweepPoint{}
	next := known
	for point := range points {
		early[point.Index] = point
		for {
			point, ok := early[next]
			if !ok {
				break
			}
			delete(early, next)
			if ends[next] {
				<-window
			}
			next++
			if !s.yield(point, nil) {
				cancel()
				for range points {
				}
				g.Wait() // whatever it says, nobody is listening
				return errStopped
			}
		}
	}
	return g.Wait()
}

// follow computes a chain's points that are not known.
func (s *sweep) follow(ctx context.Context, c chain, known int, out chan<- SweepPoint) (err error) {
	from, err := s.before(ctx, c, known)
	if err != nil {
		return err
	}
	for i := max(c.first, known); i < c.end; i++ {
		point, err := s.estimate(ctx, i, GridStage, s.weights(i), from)
		if err != nil {
			return err
		}
		point.Place = s.place(i)
		if s.chained {
			from = point.B
		}
		s.offer(i, SweepValue{point.Weights, point.SURE, point.Trusted()}, point)
		select {
		case out <- point.bare():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// before is where point i of a chain starts: it solves what comes before it in the
// chain. nil stands for 0.
func (s *sweep) before(ctx context.Context, c chain, i int) (from []float64, err error) {
	if !s.chained {
		return nil, nil
	}
	for j := c.first; j < i; j++ {
		if from, err = s.solution(ctx, j, s.weights(j), from); err != nil || from == nil {
			return nil, err
		}
	}
	return from, nil
}

// start is where point i of the grid starts.
func (s *sweep) start(ctx context.Context, i int) ([]float64, error) {
	for _, c := range s.chains() {
		if i < c.end {
			return s.before(ctx, c, i)
		}
	}
	panic(fmt.Sprintf("pipeline: point %d of a grid of %d", i, s.total))
}

// bare is the point without its estimate.
func (p SweepPoint) bare() SweepPoint {
	p.MuHat, p.B = nil, nil
	return p
}

// origin is the grid's minimizer as the start of other solves. It is solved for again
// when it is first needed, if it was known before.
type origin struct {
	s  *sweep
	of candidate
	b  []float64
}

func (g *origin) get(ctx context.Context) (_ []float64, err error) {
	switch {
	case !g.s.chained || g.b != nil:
	case g.of.point != nil:
		g.b = g.of.point.B
	default:
		from, err := g.s.start(ctx, g.of.index)
		if err != nil {
			return nil, err
		}
		if g.b, err = g.s.solution(ctx, g.of.index, g.of.Weights, from); err != nil {
			return nil, err
		}
	}
	return g.b, nil
}

// minimizer yields the best of all points with its estimate, which is computed again
// if the point was known before.
func (s *sweep) minimizer(ctx context.Context, grid candidate, start *origin) error {
	best := s.best
	point := best.point
	if point == nil {
		stage := RefineStage
		get := start.get
		if best.index < s.total {
			stage = GridStage
			get = func(ctx context.Context) ([]float64, error) { return s.start(ctx, best.index) }
		}
		from, err := get(ctx)
		if err != nil {
			return err
		}
		if point, err = s.estimate(ctx, best.index, stage, best.Weights, from); err != nil {
			return err
		}
		if stage == GridStage {
			point.Place = s.place(best.index)
		}
	}
	last := *point
	last.Stage = MinimizerStage
	last.Edge = s.edge(s.place(grid.index))
	if !s.yield(last, nil) {
		return errStopped
	}
	return nil
}

// edge is SweepPoint.Edge of the grid's minimizer.
func (s *sweep) edge(place []int) []int {
	edge := make([]int, len(place))
	for a, at := range place {
		switch n := len(s.grid[a]); {
		case n == 1:
		case at == 0:
			edge[a] = -1
		case at == n-1:
			edge[a] = 1
		}
	}
	return edge
}
