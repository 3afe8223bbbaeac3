package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/risk/warning"
	"surepipe/vjp"
)

// validation are the errors of predicting what folds leave out, at the points of a grid.
type validation struct {
	unit   []int // that each observation belongs to
	units  int
	times  []float64   // how often each observation has been left out
	sums   [][]float64 // by point and observation: the sum of its errors
	failed []int       // by point: how many fits have not converged
	fits   int         // how many there are
	fold   int         // the least number of observations that are left out together
	// corrects says that errors are corrected for what a fit without a fold lacks; excess has, by point, the sum over
	// repeats of the mean error of all observations in the fits, each fit with its share of the observations.
	corrects bool
	excess   []float64
}

// corrects says whether cross-validation is corrected to fits of all observations,
//
//	CV + 1/d sum_i (L_i(b) - sum_k d_k/d L_i(b_{-k})),
//
// with L_i the loss of observation i, b the fit of all, b_{-k} that without fold k of d_k observations (Burman 1989,
// Biometrika 76, 503). That takes the bias from a share f of the data to its square where the fit is a smooth function
// of the weights of the observations: single ones that A picks from a matrix or a sequence, which are a large part of
// what determines their fit. With weights a share of the observations is something else. Whole rows of a matrix or
// runs of a sequence have parameters of their own, and times are predicted forward: there it does not hold. Folds of
// tables stay those that other programs have.
//
// An entry alone in its row or column, where these have effects, is the only one to determine them: without it, or it
// and others that are left out with it, there is no prediction, and as in leave-one-out its error does not count.
func corrects(p vjp.Problem, f folds.Folds) bool {
	a, l := p.A, p.Loss
	if a == nil {
		return false
	}
	_, picks := linops.Picks(a)
	single := f.Groups == nil && f.Blocks == 0 && !f.Time
	return (picks || linops.StructureOf(a).Sampled != nil) && loss.Quadratic(l) && loss.Weighing(l) == nil && single
}

// factor is that of the errors of point i by which their mean is corrected; residual is the sum of the squared errors
// in the fit of all.
func (v *validation) factor(s *sweep, i int, residual float64) float64 {
	if !v.corrects {
		return 1
	}
	d, sum := float64(len(s.y)), 0.0
	for o, e := range v.sums[i] {
		if v.times[o] > 0 {
			sum += e / v.times[o] / d
		}
	}
	change := residual/d - v.excess[i]/float64(s.o.Folds.Times())
	if sum == 0 || !(change > -sum) { // nothing to correct, or far from small
		return 1
	}
	return 1 + change/sum
}

// mostCopied is the number of entries of A up to which as many folds as processors have a copy of their own.
const mostCopied = 1 << 26

// crossValidate fits all folds at the points of the part that are not known, each fold along the chains of the grid.
func (s *sweep) crossValidate(ctx context.Context) error {
	if !s.o.Criterion.Rule().Refits || s.begin() == s.part.end {
		return nil
	}
	if !predicts(s.f.Problem) {
		return errors.New("pipeline: the losses of single observations are not known")
	}
	d, n := len(s.y), s.part.end
	v := &validation{times: make([]float64, d), sums: make([][]float64, n), failed: make([]int, n), fold: d}
	v.unit, v.units = s.o.Folds.Units(d)
	v.corrects, v.excess = corrects(s.f.Problem, s.o.Folds), make([]float64, n)
	for i := range v.sums {
		v.sums[i] = make([]float64, d)
	}
	workers := s.o.Parallel
	if a := s.f.Problem.A; a != nil {
		if entries := linops.StructureOf(a).Entries; entries.Known && entries.Value <= mostCopied {
			workers = max(workers, runtime.GOMAXPROCS(0))
		}
	}
	for repeat := range s.o.Folds.Times() {
		splits := s.o.Folds.Splits(d, repeat)
		failed, excess := make([][]int, len(splits)), make([][]float64, len(splits))
		left := make([][]int, len(splits)) // of which the errors count
		for k, split := range splits {
			left[k], excess[k] = split.Out, make([]float64, n)
			v.fold = min(v.fold, len(split.Out))
		}
		var sums [][]float64
		err := s.onDevice(ctx, func(on *instance) error {
			sums = make([][]float64, n)
			for i := range sums {
				sums[i] = make([]float64, d)
			}
			if exact, err := on.stepped(ctx, splits, sums); exact || err != nil {
				return err
			}
			return on.without(ctx, splits, workers, func(ctx context.Context, k int, r *refit) (err error) {
				if r.all = v.corrects; r.all {
					left[k] = slices.DeleteFunc(slices.Clone(left[k]),
						func(i int) bool { return !r.kept.Determines(i) })
				}
				failed[k], err = r.validate(ctx, sums, excess[k])
				if err != nil && ctx.Err() == nil {
					err = fmt.Errorf("pipeline: fold %d of %d: %w", k, len(splits), err)
				}
				return err
			})
		})
		if err != nil {
			return err
		}
		for i, some := range sums {
			floats.Add(v.sums[i], some)
		}
		for _, out := range left {
			for _, i := range out {
				v.times[i]++
			}
		}
		v.fits += len(splits)
		for k, f := range failed {
			floats.Add(v.excess, excess[k])
			for i, n := range f {
				v.failed[i] += n
			}
		}
	}
	s.validated = v
	return nil
}

// mostShares is the number of shares of the observations that folds may have where each takes fits of all.
const mostShares = 2

// stepped adds the errors of what the splits leave out from fits of all observations of a wide table, and reports
// whether it has. With the squared loss and a quadratic regularizer r the residuals of a fold F in the fit of the
// others with r's share are
//
//	(I - D_FF)^{-1} (y - mu_hat)_F
//
// in the fit of all with that share of r, exactly ([risk.Block]): one decomposition of the table serves all folds. (Of
// tables with fewer columns than rows the blocks cost more than decompositions without them.)
func (s *instance) stepped(ctx context.Context, splits []folds.Split, sums [][]float64) (bool, error) {
	d, a := len(s.y), s.f.Problem.A
	if a == nil || !loss.Quadratic(s.f.Problem.Loss) || s.o.Noise.Rho != 0 || s.f.Problem.K != nil {
		return false, nil
	}
	_, columns := a.Dims()
	known := linops.StructureOf(a)
	if !known.Entries.Known || known.Identity || known.Passes.Bytes > 0 || columns < d || d*d > mostCopied {
		return false, nil
	}
	fold, sizes := make([]int, d), []int(nil)
	for k, split := range splits {
		if len(split.Keep)+len(split.Out) != d {
			return false, nil // forward in time
		}
		for _, i := range split.Out {
			fold[i] = k
		}
		sizes = append(sizes, len(split.Keep))
	}
	slices.Sort(sizes)
	if sizes = slices.Compact(sizes); len(sizes) > mostShares {
		return false, nil
	}
	all := lists.Make(len(sums), func(int) []float64 { return make([]float64, d) })
	for _, size := range sizes {
		if exact, err := s.steppedAt(ctx, float64(size)/float64(d), fold, all, func(i int) bool {
			return len(splits[fold[i]].Keep) == size
		}); !exact || err != nil {
			return false, err
		}
	}
	for i, errs := range all {
		floats.Add(sums[i], errs)
	}
	return true, nil
}

// steppedAt sets the errors at the points of the part in the observations that belong to a share of r.
func (s *instance) steppedAt(ctx context.Context, share float64, fold []int, errs [][]float64,
	belongs func(i int) bool) (exact bool, err error) {
	defer recovered(&err)
	on := &instance{sweep: s.sweep, f: s.f}
	on.f.Regularizer = func(w []float64) (prox.Prox, error) {
		whole, err := s.f.Regularizer(w)
		if err != nil {
			return nil, err
		}
		return prox.NewScaled(share, whole), nil
	}
	o := Options{Seed: s.o.Seed, LeaveOut: &folds.Folds{Groups: fold}}
	for i := s.begin(); i < s.part.end; i++ {
		solver, release, err := on.solver(ctx, s.weights(i))
		if err != nil {
			return false, err
		}
		defer release()
		if on.base == nil {
			on.base = solver
			if !prox.StructureOf(solver.Problem().R).Quadratic.Known {
				return false, nil
			}
		}
		p, err := New(solver, o)
		if err != nil {
			return false, err
		}
		r, err := p.Estimate(ctx, s.y)
		if err != nil || r.LeftOutTogether == nil || !r.Converged {
			return false, err
		}
		for at, e := range r.LeftOutTogether {
			if belongs(at) {
				errs[i][at] = e
			}
		}
	}
	return true, nil
}

func (r *refit) validate(ctx context.Context, sums [][]float64, excess []float64) (failed []int, err error) {
	s := r.of
	failed = make([]int, len(sums))
	for _, c := range s.chains() {
		if c.end <= s.begin() || c.first >= s.part.end {
			continue
		}
		if err := r.follow(ctx, c, sums, excess, failed); err != nil {
			return nil, err
		}
	}
	return failed, nil
}

func (r *refit) follow(ctx context.Context, c chain, sums [][]float64, excess []float64, failed []int) error {
	s := r.of
	var path vjp.Path
	defer path.Release()
	from := start{path: &path}
	for i := c.first; i < min(c.end, s.part.end); i++ {
		if s.chained {
			from.ahead = r.on.ahead(i, c.end)
		}
		before := r.failed
		errs, b, err := r.errors(ctx, s.weights(i), from)
		if err != nil {
			return err
		}
		from.held = b
		failed[i] += r.failed - before
		if r.all {
			for o := range errs {
				if !r.kept.Determines(o) {
					errs[o] = 0 // it does not count
				}
			}
			share := float64(len(r.split.Out)) / float64(len(errs))
			excess[i] = share * stat.Mean(errs, nil)
			errs = lists.Pick(errs, r.split.Out)
		}
		for k, o := range r.split.Out {
			sums[i][o] += errs[k]
		}
	}
	return nil
}

func (v *validation) put(s *sweep, r *Risk, i int) {
	sums, left := make([]float64, v.units), 0
	seen, factor := make([]bool, v.units), v.factor(s, i, r.Residual)
	for o, sum := range v.sums[i] {
		if v.times[o] > 0 {
			sums[v.unit[o]] += factor * sum / v.times[o]
			seen[v.unit[o]] = true
			left++
		}
	}
	units := sums[:0]
	for u, e := range sums {
		if seen[u] {
			units = append(units, e)
		}
	}
	if v.failed[i] > 0 {
		r.Doubts = append(r.Doubts, warning.NotConverged.With("%d of %d fits without a fold did "+
			"not converge; allow more iterations, accept a larger tolerance, or try another solver", v.failed[i],
			v.fits))
	}
	mean := risk.OverUnits(units, left)
	mean.Fold, r.CV = v.fold, &mean
	if r.Digest == nil {
		r.Digest = &risk.Digest{D: r.D, Divergence: r.Trace.Trace}
	}
	dev := array.NewHost()
	projection, on := hutch.NewProjection(dev, len(units)), dev.Put(units, 1, len(units))
	packed := risk.Pack(projection.Vector(on))
	on.Free()
	projection.Free()
	r.Digest.Units, r.Digest.Losses = len(units), &packed
}
