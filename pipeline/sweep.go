package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/solve"
	"surepipe/vjp"
)

// Family is a family of estimators: one problem, with a regularizer for every choice of the
// weights.
type Family struct {
	// Problem has the operator, the loss, the device and the origin; its regularizer is not
	// used.
	Problem vjp.Problem
	// Regularizer returns r at the weights, one for each axis of the grid. It is called
	// from many goroutines. What it returns is released after use ([prox.Release]).
	Regularizer func(weights []float64) (prox.Prox, error)
	// Solver is the name of a solver, and Settings are its options, as
	// vjp.NewSolver takes them.
	Solver   string
	Settings vjp.Options
	// Method is a user's method in place of Solver, as in vjp.FromMethod; or nil.
	Method *solve.Entry
	// Others are the same family on other devices of the same kind. Chains of points are spread over
	// all devices, Options.Parallel on each, with the bits of one; the points of a device that fails
	// are computed again by another.
	Others []Family
	// BlackBox, if not nil, takes the place of all other fields. Its points do not start at each
	// other; all have the same probes or draws. Options.Parallel bounds the calls at once.
	BlackBox *BlackBox
}

// SweepOptions are a sweep's settings.
type SweepOptions struct {
	// Options are the options of every point. All points have the probes of sample 0. Parallel is
	// the number of points in flight; Progress, Observe and Logger name a point by its index.
	// KeepGoing is ignored: a point that fails ends the sweep.
	Options
	// Criterion is what the sweep minimizes, by default [SweepCriterion]. risk.ALO implies Options.ALO. A
	// point whose criterion is not defined, such as GCV of a fit that interpolates y, is never the
	// minimizer; with fewer probes than risk.ALO
	// needs the sweep ends with ErrNoDiagonal, and for risk.LGO with ErrNoBlocks.
	Criterion risk.Criterion
	// Fallback says that where the criterion is not defined at any point of the grid risk.CV takes its place, as it
	// does for a default: [Choice].Criterion. Points are then yielded when one of them has a value.
	Fallback bool
	// Rule says which point is chosen: by default MinimumRule.
	Rule Rule
	// Sigma2RelStdErr is the standard error of Sigma2 over its value, where that is an estimate. It
	// is part of the errors of differences.
	Sigma2RelStdErr float64
	// Mu is the true mean, of length d, where it is known.
	Mu []float64
	// Chain is the number of points of the grid in a chain of warm starts: each starts at the
	// solution of the previous one, and the first at 0. Every row of the grid begins a chain. The
	// default is DefaultChain, or a whole row where the solver hands on more than b from point to
	// point (solve.Entry.Path). With 1 all points start at 0. Results depend on it only within the
	// solver's tolerance.
	Chain int
	// Estimate says that points need only be accurate enough to be compared, by estimates of what is missing
	// ([vjp.Convergence].Change): the minimizer and the point of the Rule are then computed once more, as a Pipeline
	// does. The search beyond the grid ends where it decides nothing by the errors of differences. Without it every
	// point is certified, and the minimum found to a hundredth of the grid's step.
	Estimate bool
	// Refine is the largest number of points beyond the grid for each axis, default DefaultRefine;
	// if negative there are none.
	Refine int
	// Folds are those of risk.CV, with which there are no points beyond the grid, of risk.LGO, and of audits.
	Folds folds.Folds
	// Audit says whether the chosen point is audited: [SweepPoint].Audits.
	Audit    Auditing
	KeepPath bool // every point is yielded with its mu_hat and b
	// Lost, if not nil, is called once for each device that fails while others go on.
	Lost func(device string, fault error)
	// Known are the first points, in order, of an earlier sweep with the same inputs.
	// They are neither computed nor yielded again.
	Known []SweepValue
}

const (
	DefaultChain  = 10
	DefaultRefine = 20
)

// SweepValue is what a sweep needs to know about a point to continue after it.
type SweepValue struct {
	Weights []float64
	// Value is that of the sweep's criterion ([Risk.Value]), NaN where it is not defined.
	Value float64
	// StdErr is its standard error, and Unsure says that the point competes by the sum of both ([risk.Rule.Unsure]).
	StdErr   float64
	Unsure   bool
	Overfits bool
	// Trusted is the result of [Risk.Trusted].
	Trusted bool
	// Digest is [Risk].Digest. Without it the point has no error in [Choice].Differences.
	Digest *risk.Digest
}

// SweepStage is the stage of a sweep that computed a point.
type SweepStage string

const (
	GridStage      SweepStage = "grid"
	RefineStage    SweepStage = "refine"
	MinimizerStage SweepStage = "minimizer"
	ChosenStage    SweepStage = "chosen"
)

// SweepPoint is the risk at one choice of the weights.
type SweepPoint struct {
	// Risk is the estimate of risk. Its Index is the point's position in the sweep. MuHat, and B
	// with Options.KeepB, are those of the minimizer, and nil at the other points.
	Risk
	Stage SweepStage
	// Weights are the hyperparameters, one for each axis.
	Weights []float64
	// Place holds the indices of the weights in the axes of the grid; nil for a point that is not
	// on the grid.
	Place []int
	// Loss is ||mu_hat - mu||^2; NaN where mu is not known.
	Loss float64
	// Overfits says that the criterion is likely to be small by chance ([risk.Rule.Overfits]): the point is the
	// minimizer only if all are such points.
	Overfits bool
	// Edge says, in the minimizer stage, for each axis whether the grid's minimizer is at an end of
	// it: -1 for its least value, 1 for its greatest, 0 for neither. Where it is, the minimum may
	// lie beyond the grid.
	Edge []int
	// Choice says, in the minimizer stage, how sure the choice is; nil at the other points.
	Choice *Choice
	// Audits are those of the point that is chosen.
	Audits []*Audit

	solved held // where other solves start, nil where they start at 0
}

// Sweep estimates the risk on a grid of weights and searches for its minimum, or that of another
// criterion.
//
// grid has an axis for each weight: positive finite values, increasing. The points run along the
// first axis from its greatest value to its least, then along it again at the next smaller value
// of the second, and so on. Up to Options.Parallel are in flight; all share y, its probes and the
// operator, so that the curve is smooth and its differences are far more certain than its values.
// Points are solved in chains of warm starts (continuation).
//
// Then Brent's method, on the logarithm of one weight after the other, finds the minimum between
// the neighbours of the grid's minimizer. Where that is at an end of a single axis, the sweep goes on
// beyond it by steps of the grid while the criterion falls; of two axes those that end at the minimizer are left
// out. Every solve is warm-started at the grid's minimizer.
//
// Points are yielded in order. The minimizer, the point of least SURE or of another criterion, is
// yielded again at the end, with its estimate and the [Choice]. Where the Rule chooses another point,
// that is yielded again after it, in ChosenStage, with its estimate. A point that is not Trusted is the
// minimizer only if none is. Among equal values the one with the largest weights is
// taken: the least of the weights at which everything is zero is where the first coefficient is about to leave it.
//
// Where each solve starts follows from the grid alone. All results are bit-identical for any
// Parallel and Batch, and for a sweep that continues after another's Known points: it repeats the
// solves at which its first new points start, without the divergence.
//
// The sweep ends at the first error, which is yielded last; that of a point is a [PointError].
// Breaking out of the loop stops all work; when the loop has ended every goroutine has returned
// and all device memory is free. y and Mu must not be modified meanwhile.
func Sweep(ctx context.Context, y []float64, f Family, grid [][]float64, o SweepOptions) iter.Seq2[SweepPoint, error] {
	return func(yield func(SweepPoint, error) bool) {
		s, err := newSweep(y, f, grid, o, yield)
		if err == nil {
			err = s.run(ctx)
		}
		finishSweep(ctx, err, yield)
	}
}

func finishSweep(ctx context.Context, err error, yield func(SweepPoint, error) bool) {
	if err == nil || errors.Is(err, errStopped) {
		return
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	yield(SweepPoint{}, err)
}

func (f Family) dim() (int, error) {
	switch {
	case f.BlackBox != nil:
		return f.BlackBox.D, f.BlackBox.check()
	case f.Problem.A == nil || f.Problem.Device == nil || f.Regularizer == nil:
		return 0, errors.New("pipeline: a family without operator, device or regularizer")
	case f.Settings.Derivative == vjp.None:
		return 0, refuse("Settings", f.Settings,
			"the family's solver has derivative %q, expected one of %q: every criterion needs the divergence",
			vjp.None, vjp.Derivatives())
	}
	d, _ := f.Problem.A.Dims()
	return d, nil
}

func (f Family) entry() solve.Entry {
	if f.Method != nil {
		return *f.Method
	}
	e, _ := solve.Lookup(f.Solver)
	return e
}

// errStopped ends a sweep whose consumer has left the loop.
var errStopped = errors.New("pipeline: the consumer has left the loop")

type sweep struct {
	y     []float64
	f     Family
	grid  [][]float64
	o     SweepOptions
	total int // points of the grid
	// part is what of the grid to compute.
	part chain
	// wide says that columns are chosen among as many as there are rows ([ChoosesAmongMany]).
	wide bool
	// chained says that solves start at the solutions of others.
	chained bool
	// calls bounds the calls of a black box.
	calls chan struct{}
	// instances are the family on each device.
	instances []*instance
	lost      *losses
	yield     func(SweepPoint, error) bool

	// validated has the results of refits for criteria that need them, else nil.
	validated *validation

	telling sync.Mutex // held while o.Progress is called

	// waits says that no point has had a value so far, and withheld are those that wait for one.
	waits    bool
	withheld []SweepPoint
	why      error // of the first point without leave-one-out

	mu     sync.Mutex
	best   candidate
	values []SweepValue // of all points
}

func (v SweepValue) defined() bool { return !math.IsNaN(v.Value) }

func (v SweepValue) usable() bool { return v.Trusted && v.defined() }

// candidate is a point that may be the minimizer.
type candidate struct {
	SweepValue
	index int // -1: none yet
	// point is the point with its estimate; nil where it was known before.
	point *SweepPoint
}

func (c candidate) beats(d candidate) bool {
	switch {
	case d.index < 0:
		return true
	case c.defined() != d.defined():
		return c.defined()
	case c.Trusted != d.Trusted:
		return c.Trusted
	case c.Overfits != d.Overfits:
		return d.Overfits
	case c.defined() && c.competes() != d.competes():
		return c.competes() < d.competes()
	}
	for a := len(c.Weights) - 1; a >= 0; a-- {
		if c.Weights[a] != d.Weights[a] {
			return c.Weights[a] > d.Weights[a]
		}
	}
	return false
}

func newSweep(y []float64, f Family, grid [][]float64, o SweepOptions, yield func(SweepPoint, error) bool) (*sweep,
	error) {
	return newSweepPart(y, f, grid, o, wholeGrid, yield)
}

// wholeGrid stands for all points of the grid.
var wholeGrid = chain{0, math.MaxInt}

func newSweepPart(y []float64, f Family, grid [][]float64, o SweepOptions, part chain,
	yield func(SweepPoint, error) bool) (*sweep, error) {
	d, err := f.dim()
	if err != nil {
		return nil, err
	}
	if o.Options, err = o.resolve(d); err != nil {
		return nil, err
	}
	if err := o.checkLoss(f.Problem); err != nil {
		return nil, err
	}
	total, err := checkGrid(grid)
	if err != nil {
		return nil, err
	}
	wide, err := f.chooseCriterion(&o, grid)
	if err != nil {
		return nil, err
	}
	if err := o.checkRule(); err != nil {
		return nil, err
	}
	if f.BlackBox != nil && o.Rule == OneStdErrRule && !o.Criterion.Rule().Refits {
		return nil, refuse("Rule", o.Rule, "the rule %s needs the standard errors of differences, which points of "+
			"a black box do not have: choose the rule %s", o.Rule, MinimumRule)
	}
	if err := checkSample(y, d, o.Sigma2); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	if err := o.checkFolds(d); err != nil {
		return nil, err
	}
	if o.Mu != nil && len(o.Mu) != d {
		return nil, fmt.Errorf("pipeline: mu has %d values, expected %d", len(o.Mu), d)
	}
	if o.Chain < 0 {
		return nil, refuse("Chain", o.Chain, "chains of %d points, expected at least 1, or 0 for the default", o.Chain)
	}
	if o.Refine == 0 {
		o.Refine = DefaultRefine
	}
	if o.Chain == 0 {
		switch o.Chain = DefaultChain; {
		case f.BlackBox != nil:
			o.Chain = 1
		case f.entry().Path:
			o.Chain = len(grid[0])
		}
	}
	s := &sweep{y: y, f: f, grid: grid, o: o, total: total, part: part, yield: yield, wide: wide,
		best: candidate{index: -1}}
	if part == wholeGrid {
		s.part.end = total
		s.waits = o.Fallback && f.BlackBox == nil && len(o.Known) == 0 && o.Criterion.Rule().Undefined != ""
	}
	if err := s.makeInstances(d); err != nil {
		return nil, err
	}
	// The unrolled derivative is that of iterations from 0.
	s.chained = f.Settings.Derivative != vjp.Unrolled && o.Chain > 1 && f.BlackBox == nil
	s.calls = make(chan struct{}, o.Parallel)
	return s, s.offerKnown()
}

func (s *sweep) offerKnown() error {
	if p := s.part; p.first < 0 || p.end < p.first || p.end > s.total {
		return fmt.Errorf("pipeline: points %d to %d of a grid of %d", p.first, p.end-1, s.total)
	}
	s.values = make([]SweepValue, s.total)
	for i := s.part.first; i < s.begin(); i++ {
		if err := s.checkKnown(i, s.weights(i)); err != nil {
			return err
		}
		s.offer(i, s.o.Known[i-s.part.first], nil)
	}
	return nil
}

// resolve checks the options of the points, of length d, and fills in the defaults that the sweep
// itself needs: the others are filled in again at each point.
func (o SweepOptions) resolve(d int) (Options, error) {
	full, _, err := o.Options.resolve()
	if err != nil {
		return o.Options, err
	}
	if _, err := hutch.NewPlan(full.Estimator, full.Queries, d); err != nil {
		return o.Options, fmt.Errorf("pipeline: %w", err)
	}
	o.Options.Parallel, o.Options.Logger = full.Parallel, full.Logger
	return o.Options, nil
}

// checkKnown rejects a known point that is not this sweep's point i.
func (s *sweep) checkKnown(i int, weights []float64) error {
	k := s.o.Known[i-s.part.first]
	if !slices.Equal(k.Weights, weights) {
		return fmt.Errorf("pipeline: known point %d has weights %v, expected %v: it belongs to another sweep", i,
			k.Weights, weights)
	}
	if c := s.o.Criterion; math.IsInf(k.Value, 0) || c.Rule().Sigma2 && !k.defined() {
		return fmt.Errorf("pipeline: known point %d has %s %g, expected a finite number", i, c, k.Value)
	}
	return nil
}

func (s *sweep) place(i int) []int {
	at := make([]int, len(s.grid))
	for a, axis := range s.grid {
		at[a] = len(axis) - 1 - i%len(axis)
		i /= len(axis)
	}
	return at
}

func (s *sweep) number(place []int) int {
	i, stride := 0, 1
	for a, axis := range s.grid {
		i += stride * (len(axis) - 1 - place[a])
		stride *= len(axis)
	}
	return i
}

func (s *sweep) weights(i int) []float64 {
	place := s.place(i)
	return lists.Make(len(s.grid), func(a int) float64 { return s.grid[a][place[a]] })
}

// offer records a point's value. point is nil where the point was known before.
func (s *sweep) offer(i int, v SweepValue, point *SweepPoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i == len(s.values) { // the points beyond the grid come one after the other
		s.values = append(s.values, v)
	}
	s.values[i] = v
	if c := (candidate{v, i, point}); c.beats(s.best) {
		s.best = c
	}
}

func (s *sweep) run(ctx context.Context) error {
	release, err := s.openAll(ctx, 0)
	if err != nil {
		return err
	}
	defer release()
	if err := s.crossValidate(ctx); err != nil {
		return err
	}
	if err := s.sweepGrid(ctx); err != nil {
		return err
	}
	if err := s.fallBack(ctx); err != nil {
		return err
	}
	grid := s.best
	if !grid.defined() {
		return s.undefined()
	}
	minimum := &origin{s: s, of: grid}
	count, err := s.refine(ctx, minimum)
	if err != nil {
		return err
	}
	if len(s.o.Known) > count {
		return fmt.Errorf("pipeline: %d known points, expected at most %d: they belong to another sweep",
			len(s.o.Known), count)
	}
	return s.minimizer(ctx, grid, minimum)
}
