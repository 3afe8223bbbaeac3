package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/solve/rewrite"
	"surepipe/vjp"
)

// Without tells the errors of predicting observations by a fit without them.
type Without struct {
	Problem vjp.Problem // with all observations, which are Y
	Y       []float64
	Kept    *rewrite.Kept // with those that are kept; nil where observations stand alone
	Out     []int         // those that are predicted
}

// Predict is the estimate of the observations that [Without.Of] needs by a solution for those that are kept, and the
// factors of a matrix of which A picks entries, where the solution has them; any other is written down.
func (w Without) Predict(dev array.Device, sol *vjp.Solution) (mu []float64, factors *vjp.Factors) {
	var b array.Batch
	if _, picks := linops.Picks(w.Problem.A); picks && sol.Implied != nil && sol.Implied.Factors != nil {
		factors = sol.Implied.Factors()
	} else {
		sol.Expand(dev)
		b = sol.B
	}
	return w.Kept.Predict(dev, b, factors, w.Y, w.predicted()), factors
}

// predicted are the places of the observations of which errors need the prediction: what is left out, or all where
// they do not stand alone.
func (w Without) predicted() []int {
	if known := loss.StructureOf(w.Problem.Loss); known.Joint == nil && partsOf(w.Problem) == nil {
		return w.Out
	}
	return lists.Upto(len(w.Y))
}

// Of are the errors by predictions, whose memory it may take.
func (w Without) Of(mu []float64) []float64 {
	if l := loss.StructureOf(w.Problem.Loss).Joint; l != nil {
		kept := w.Kept.Observations(mu)
		loss.StructureOf(w.Kept.Problem().Loss).Joint.Parts(kept, kept, w.Kept.Observations(w.Y))
		return loss.LeftOut(l, w.Out, floats.Sum(kept), mu, w.Y)
	}
	if parts := partsOf(w.Problem); parts != nil {
		parts(mu, mu, w.Y)
		return lists.Pick(mu, w.Out)
	}
	at := LossOf(w.Problem)
	for k, i := range w.Out {
		mu[k] = at(i, mu[k], w.Y[i])
	}
	return mu
}

// partsOf are the losses of observations with several entries each, nil for others.
func partsOf(p vjp.Problem) func(dst, z, y []float64) {
	if known := loss.StructureOf(p.Loss); known.Several() {
		return known.Parts
	}
	return nil
}

// LossOf is the error of predicting one observation: the squared residual, whatever weight the observation has in the
// fit, as in GCV and leave-one-out; or the loss of the linear predictor; nil where that is not known.
func LossOf(p vjp.Problem) func(i int, mu, y float64) float64 {
	if !loss.Quadratic(p.Loss) {
		return loss.StructureOf(p.Loss).At
	}
	return func(_ int, mu, y float64) float64 { return (y - mu) * (y - mu) }
}

const (
	// carries is the share of the mean excess of errors over those of a perfect fit that an observation must add, when
	// it is left out, for its error to be that of a refit. There are at most mostRefits, and at least one, of together
	// about refitFlops floating-point operations, a second's work. Of at most MostRefitted observations all have one,
	// where these take about fewFlops, some hundredths of a second.
	carries, mostRefits, refitFlops = 0.1, 32, 10 * cheapDiagonal
	MostRefitted, fewFlops          = 64, cheapDiagonal / 40
	// mostCopied is the number of entries of A up to which refits have a copy of their own.
	mostCopied = 1 << 24
)

// leftOut are the errors of units of observations by steps from the fit to all.
type leftOut struct {
	places func(u int) []int
	// adds are what leaving each unit out adds to its error, infinite or NaN where steps do not tell it, and fit is the
	// sum of the errors in the fit over those in a perfect one.
	adds []float64
	fit  float64
	// put sets the errors of the observations of a unit, and returns what it adds.
	put func(u int, errs []float64) float64
}

// refit takes the errors of units that carry the mean from fits without them, and returns how many it has: steps from
// the fit to all keep the support, rank or clustering that an observation which decides its own fit has brought about.
// A [risk.UnresolvedError] says that there is no such fit.
func (j *Job) refit(ctx context.Context, l leftOut) (refits int, err error) {
	if j.linear() {
		return 0, nil
	}
	refused, most, all := j.refusesRefits(), j.mostRefits(), j.refitsAll(len(l.adds))
	if all {
		most = len(l.adds)
	}
	if open := untold(l.adds); open > most && !refused {
		return 0, &risk.UnresolvedError{Count: open, D: len(l.adds), Why: fmt.Sprintf("decide so much of the fit that "+
			"steps from it do not tell those without them, of which %d are affordable", most)}
	}
	for tried, done := 0, make([]bool, len(l.adds)); tried < min(most, len(l.adds)); {
		u, total := l.next(done)
		carried := l.adds[u] > max(carries*total, 0) || math.IsInf(l.adds[u], 1)
		if !carried && !all || refused && !(l.adds[u] > total/2) {
			break
		}
		var errs []float64
		if err = errRefused; !refused {
			errs, err = j.fitWithout(ctx, l.places(u))
			if errors.Is(err, errRefused) && ctx.Err() == nil {
				refused, all = true, false
				continue
			}
		}
		done[u] = true
		switch tried++; {
		case err == nil:
			l.adds[u] = l.put(u, errs)
			refits++
		case ctx.Err() != nil || carried:
			return refits, unresolved(ctx, err, len(l.adds))
		}
	}
	return refits, nil
}

// next is the unit that adds most of those that are not done, and the sum of what all add to the fit.
func (l leftOut) next(done []bool) (u int, total float64) {
	u, total = -1, l.fit
	for k, add := range l.adds {
		if math.IsNaN(add) {
			l.adds[k] = math.Inf(1)
		}
		if total += l.adds[k]; !done[k] && (u < 0 || l.adds[k] > l.adds[u]) {
			u = k
		}
	}
	return u, total
}

// untold is the number of errors that are not known.
func untold(errs []float64) int {
	return len(lists.Places(len(errs), func(k int) bool { return !(errs[k] < math.Inf(1)) }))
}

// errRefused says that there are no fits without an observation, by the form of the problem or the solver.
var errRefused = errors.New("fits without some observations are not known here")

func unresolved(ctx context.Context, err error, d int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &risk.UnresolvedError{Count: 1, D: d, Why: fmt.Sprintf("carry so much of the mean that one step does not "+
		"tell the fits without them, and there is no such fit: %v", err)}
}

// refusesRefits says that nothing that is left out was asked for, or that A is too large for another one.
func (j *Job) refusesRefits() bool {
	known := linops.StructureOf(j.problem.A)
	_, picks := linops.Picks(j.problem.A)
	small := picks || known.Sampled != nil || known.Identity ||
		known.Entries.Known && known.Entries.Value <= mostCopied
	return !j.settings.ALO && j.settings.Together.Units == 0 || !small || known.Passes.Bytes > 0
}

// mostRefits is how many refits there are at most: each is taken for manySteps factorizations, of the work of the exact
// diagonal.
func (j *Job) mostRefits() int {
	each := manySteps * j.solution.Linearization.Closed().DiagonalFlops
	return int(min(mostRefits, max(1, refitFlops/each)))
}

// refitsAll says that each of some units has a refit: one step knows nothing of what enters the fit without a unit, and
// few units do not average that out. Where there is one manifold only, further steps lead to the refits of
// observations. Of problems other than regressions of one outcome on a matrix refits take more.
func (j *Job) refitsAll(units int) bool {
	closed, known := j.solution.Linearization.Closed(), linops.StructureOf(j.problem.A)
	_, picks := linops.Picks(j.problem.A)
	outcomes, _ := linops.KroneckerOf(j.problem.A)
	if units > MostRefitted || units == len(j.Y) && math.IsInf(closed.SpaceMargin, 1) || picks || outcomes != nil ||
		j.problem.K != nil || !known.Entries.Known {
		return false
	}
	each := closed.DiagonalFlops + 4*float64(known.Entries.Value) // with the products of a step
	return manySteps*float64(units)*each <= fewFlops && !j.refusesRefits()
}

// mayRefit says that refits may tell the errors of the observations that determine their own fit: of a fit that
// interpolates nothing is left of the mean.
func (j *Job) mayRefit(leverages []float64) bool {
	if j.linear() || j.refusesRefits() {
		return false
	}
	n := 0
	for _, h := range leverages {
		if risk.Determines(h) {
			n++
		}
	}
	return n <= min(j.mostRefits(), len(leverages)/2)
}

// refitSquares is refit for the squared loss, by residuals.
func (j *Job) refitSquares(ctx context.Context, r *risk.LeaveOneOutResult, residuals func() []float64) (int, error) {
	d := float64(len(j.Y))
	if j.linear() || r.StdErr <= (carries-1/d)*r.Mean && !j.refitsAll(len(j.Y)) {
		return 0, nil
	}
	all := residuals()
	left, losses := risk.SquaredLeftOut(all), make([]float64, len(all))
	l := leftOut{places: single, adds: make([]float64, len(all)), fit: floats.Dot(all, all)}
	for i, h := range j.leverages {
		if losses[i] = left(i, h); risk.Determines(h) {
			losses[i] = math.Inf(1)
		}
		l.adds[i] = losses[i] - all[i]*all[i]
	}
	scale := d / (d - float64(j.notLeftOut()))
	l.put = func(i int, errs []float64) float64 {
		losses[i] = scale * errs[0]
		return losses[i] - all[i]*all[i]
	}
	before, _ := risk.Mean(losses)
	n, err := j.refit(ctx, l)
	if n > 0 && err == nil {
		refitted(r, losses, before)
		if j.left != nil {
			j.keepLeftOut(losses)
		}
	}
	return n, err
}

// refitLosses is refit for losses of observations by steps, other than the squared one: at is that of an observation in
// the fit. It returns the observations that have refits.
func (j *Job) refitLosses(ctx context.Context, losses []float64, at func(i int) float64) (map[int]bool, error) {
	l, done := leftOut{places: single, adds: make([]float64, len(losses)), fit: j.lossTerms.excess()}, map[int]bool{}
	for i, v := range losses {
		l.adds[i] = v - at(i)
	}
	l.put = func(i int, errs []float64) float64 {
		losses[i], done[i] = errs[0], true
		return losses[i] - at(i)
	}
	_, err := j.refit(ctx, l)
	return done, err
}

// refitOne sets the loss of an observation to that of a refit, if there is one, and reports whether it has.
func (j *Job) refitOne(ctx context.Context, i int, losses []float64, done map[int]bool) bool {
	if len(done) >= j.mostRefits() || j.refusesRefits() {
		return false
	}
	errs, err := j.fitWithout(ctx, single(i))
	if err == nil {
		losses[i], done[i] = errs[0], true
	}
	return err == nil
}

// refitEach is refit for the errors of units of entries, by entry.
func (j *Job) refitEach(ctx context.Context, t Together, mu, errs []float64) (int, error) {
	fit := slices.Clone(mu)
	if parts, at := partsOf(j.problem), LossOf(j.problem); parts != nil {
		parts(fit, fit, j.Y)
	} else {
		for i, z := range mu {
			fit[i] = at(i, z, j.Y[i])
		}
	}
	members, in := folds.Members(t.Unit, t.Units), t.sums(fit)
	l := leftOut{places: func(u int) []int { return members[u] }, adds: t.sums(errs), fit: floats.Sum(in)}
	floats.Sub(l.adds, in)
	if j.lossTerms != nil {
		l.fit = j.lossTerms.excess() * float64(len(mu)) / float64(t.Units)
	}
	l.put = func(u int, some []float64) float64 {
		for k, i := range members[u] {
			errs[i] = some[k]
		}
		return floats.Sum(some) - in[u]
	}
	return j.refit(ctx, l)
}

// refitted sets the mean of losses, some of which have changed: before was it.
func refitted(r *risk.LeaveOneOutResult, losses []float64, before float64) {
	mean, stdErr := risk.Mean(losses)
	if r.ProbesErr > 0 && !math.IsNaN(before) {
		mean += r.Mean - before
	}
	r.Mean, r.StdErr = mean, math.Hypot(stdErr, r.ProbesErr)
}

func single(i int) []int { return []int{i} }

// fitWithout are the errors of predicting the observations at some places by the fit without them.
func (j *Job) fitWithout(ctx context.Context, out []int) (errs []float64, err error) {
	leaves := map[int]bool{}
	for _, i := range out {
		leaves[i] = true
	}
	split := folds.Without(len(j.Y), func(i int) bool { return leaves[i] })
	kept, err := rewrite.Keep(j.problem, split.Keep)
	if err != nil {
		return nil, errRefused
	}
	defer kept.Release()
	for _, i := range out {
		if !kept.Determines(i) {
			return nil, risk.ErrLeverage
		}
	}
	p := kept.Problem()
	p.R = j.problem.R
	solver, err := j.solver.Again(ctx, p)
	if err != nil {
		return nil, errRefused
	}
	defer solver.Release()
	y := Observations(j.view, p, kept.Observations(j.Y))
	defer y.Free() // after the solution
	from := vjp.From{B: j.solution.B}
	if low := j.factors(); low != nil {
		from.Factors = low
	}
	sol, err := solver.SolveFrom(ctx, y, from)
	if err != nil {
		return nil, err
	}
	defer sol.Release()
	if !sol.Converged {
		return nil, errors.New("it has not converged")
	}
	w := Without{Problem: j.problem, Y: j.Y, Kept: kept, Out: out}
	mu, _ := w.Predict(j.view, sol)
	return w.Of(mu), j.view.Err()
}
