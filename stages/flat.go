package stages

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/loss"
	"surepipe/risk"
	"surepipe/risk/warning"
)

// flatness is what a loss makes of the whitened problem (loss.Structure.Whiten): the weights w of
// observations that have a slope but no curvature, as beyond delta under the Huber loss, are next to
// nothing, and those of the others are their curvatures.
type flatness struct {
	known          loss.Structure
	z, y           []float64 // the linear predictor and the observations
	slopes, curves []float64 // of the loss at z
	w              []float64
	flat           []bool
	single         []float64 // the losses of the observations by one Newton step; nil before mean
}

const (
	// mostFlat is the largest part of the trace in flat observations with which these have no part in
	// the fit: with h_i = w_i a_i it is of the order of w elsewhere, 1e-8, and the number of directions
	// where they alone determine the fit.
	mostFlat = 1e-3
	// mostOpen is the largest mean change of the left-out losses by steps that are not taken, or do not end, in error
	// bars of leave-one-out.
	mostOpen = 0.5
	// fewFirst is the number of observations whose refits tell first how much of what may change does, fewMoved that
	// where their losses count, and manySteps about how many steps one takes.
	fewFirst, fewMoved, manySteps = 2, 8, 6
)

func (j *Job) flatness(muHat []float64) (*flatness, error) {
	z, y := j.view.Put(muHat, 1, len(muHat)), j.view.Put(j.Y, 1, len(j.Y))
	defer array.Free(z, y)
	at := j.at
	if j.rewritten() {
		at = lossAt(j.problem.Loss, z, y)
	}
	f := &flatness{known: loss.StructureOf(j.problem.Loss), z: muHat, y: j.Y, slopes: at.slopes, curves: at.curve}
	if f.curves == nil {
		curve := j.view.Alloc(1, len(muHat))
		defer curve.Free()
		j.problem.Loss.Curvature(curve, z, y)
		f.curves = curve.ToHost()
	}
	f.w, f.flat = f.known.Whiten(f.slopes, f.curves)
	return f, j.view.Err()
}

func (f *flatness) shift(i int, h float64) float64 {
	if f.w[i] > 0 {
		return h / f.w[i]
	}
	return 0
}

// mean is that of the left-out losses for the diagonal of the whitened derivative, and its standard
// error.
func (f *flatness) mean(diagonal []float64) (losses []float64, mean, stdErr float64, err error) {
	a := make([]float64, len(diagonal))
	for i, h := range diagonal {
		a[i] = f.shift(i, h)
	}
	losses, err = risk.LeftOutPredictors(f.z, f.slopes, f.curves, a)
	if err != nil {
		return nil, math.NaN(), math.NaN(), err
	}
	f.losses(losses)
	mean, stdErr = risk.Mean(losses)
	f.single = losses
	return losses, mean, stdErr, nil
}

// losses replaces predictors of all observations by their losses.
func (f *flatness) losses(z []float64) {
	if f.known.Parts != nil {
		f.known.Parts(z, z, f.y)
		return
	}
	parallel.Ranges(len(z), parallel.Share, func(from, to int) {
		for i := from; i < to; i++ {
			z[i] = f.known.At(i, z[i], f.y[i])
		}
	})
}

// scale tells of a unit of a loss of residuals that leaves it no choice, by the degrees of freedom of the fit: all
// residuals are where it is quadratic, or only those that the fit takes for itself are.
func (f *flatness) scale(df float64) (told []Warning) {
	if f.known.Likelihood || f.known.Unit == 0 {
		return nil
	}
	quadratic, curved := true, 0.0
	for i, c := range f.curves {
		quadratic = quadratic && math.Abs(f.slopes[i]-c*(f.z[i]-f.y[i])) <= 1e-9*math.Abs(f.slopes[i])
		if !f.flat[i] {
			curved++
		}
	}
	switch {
	case quadratic:
		told = append(told, warning.LossScale.With("no residual is beyond %.6g, where the %s loss changes: the fit is "+
			"that of least squares, which outliers move", f.known.Unit, f.known.Name))
	case curved < df+0.5:
		told = append(told, warning.LossScale.With("%.6g of %d residuals are within %.6g, where the %s loss changes, "+
			"no more than the fit has degrees of freedom: it is that of least absolute deviations", curved, len(f.z),
			f.known.Unit, f.known.Name))
	}
	return told
}

// undetermined is the part of the trace in flat observations where these alone determine directions of
// the fit: mu_hat is anywhere in an interval there, and the derivative anything from 0 to 1.
func (f *flatness) undetermined(diagonal []float64) (df float64) {
	for i, h := range diagonal {
		if f.flat[i] {
			df += h
		}
	}
	if df <= mostFlat {
		return 0
	}
	return df
}

// leftOut is z_i in the fit without observation i by one Newton step, and the loss there, for a_i = A_i
// H^{-1} A_i*.
func (f *flatness) leftOut(i int, a float64) (z, value float64) {
	z = f.z[i] + a*f.slopes[i]/(1-f.curves[i]*a)
	return z, f.known.At(i, z, f.y[i])
}

// moveOn corrects leave-one-out by one Newton step, for the leverages, where that does not tell the refits: without
// observation i it moves z_i by dz_i, and where that is not small against the unit in which the loss changes its
// curvature, the others have another one there. Further steps, with the curvature of the fit to all, then lead to the
// fit without observation i, if the regularizer's manifold stays. They are taken for the observations whose losses
// may change most, until the others, by what these change, do not matter, or no more are affordable: the last are then
// a sample of the others. Their losses count where there is one manifold only. Where what they change elsewhere, or
// may, is not small against the error bar, refits take their place, as for those that carry the mean ([Job.refit]); a
// [risk.UnresolvedError] says that these are too many.
func (j *Job) moveOn(ctx context.Context, f *flatness, leverages []float64, r risk.LeaveOneOutResult) (
	risk.LeaveOneOutResult, int, error) {
	d := len(leverages)
	losses, open := f.ahead(leverages)
	before, _ := risk.Mean(losses)
	refits, err := j.refitLosses(ctx, losses, func(i int) float64 { return f.known.At(i, f.z[i], f.y[i]) })
	if err == nil {
		err = j.refitFlat(ctx, f, leverages, losses, refits)
	}
	if err != nil {
		return r, 0, err
	}
	for i := range refits {
		open[i] = 0
	}
	if len(refits) > 0 {
		refitted(&r, losses, before)
	}
	order, left, tolerated := lists.Upto(d), floats.Sum(open), mostOpen*float64(d)*r.StdErr
	if left > tolerated {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(open[b], open[a]) })
	}
	before, _ = risk.Mean(losses)
	whole, affordable := math.IsInf(j.solution.Linearization.Closed().SpaceMargin, 1), j.affordable()
	off, moved, checked, ratio, n := 0.0, 0.0, 0.0, 1.0, fewFirst
	var doubts []doubt
	if whole {
		n = fewMoved
	}
	for ; off <= tolerated && off+ratio*left > tolerated && len(order) > 0 && affordable > 0; n = hutch.DefaultBatch {
		n, last := next(order, open, n, affordable)
		further, unsettled, err := j.refits(ctx, f, order[:n])
		if err != nil {
			return r, 0, err
		}
		shares := 0.0
		for k, i := range order[:n] {
			change := open[i]
			if !unsettled[k] {
				change = math.Abs(further[k] - losses[i])
			}
			moved, checked, left, shares = moved+change, checked+open[i], left-open[i], shares+change/open[i]
			if whole && !unsettled[k] {
				losses[i] = further[k]
			} else {
				off, doubts = off+change, append(doubts, doubt{i, change})
			}
		}
		ratio, affordable, order = moved/checked, affordable-n, order[n:]
		if last {
			ratio, affordable = shares/float64(n), 0
		}
		doubts = slices.SortedFunc(slices.Values(doubts), func(a, b doubt) int { return cmp.Compare(b.by, a.by) })
		for off > tolerated && j.mayEnd(doubts, off-tolerated, len(refits)) &&
			j.refitOne(ctx, doubts[0].i, losses, refits) {
			off, doubts = off-doubts[0].by, doubts[1:]
		}
		if ctx.Err() != nil {
			return r, 0, ctx.Err()
		}
	}
	mean, stdErr := risk.Mean(losses)
	if off += ratio * max(left, 0); checked > 0 && !(off <= tolerated) || math.IsNaN(mean) {
		return r, 0, f.beyond(max(len(doubts), 1))
	}
	if checked > 0 {
		r.Mean, r.StdErr = r.Mean+mean-before, math.Hypot(stdErr, r.ProbesErr)
	}
	if j.left != nil && (checked > 0 || len(refits) > 0) {
		j.keepLeftOut(losses)
	}
	return r, len(refits), nil
}

// affordable is the number of observations whose steps take about cheapDiagonal operations: each step multiplies with
// the n columns of the fit, where the exact diagonal takes d n^2.
func (j *Job) affordable() int {
	d := float64(len(j.Y))
	step := 4*math.Sqrt(d*j.solution.Linearization.Closed().DiagonalFlops) + 100*d
	return int(cheapDiagonal/(manySteps*step)) + 1
}

// doubt is an observation whose loss may be off by so much.
type doubt struct {
	i  int
	by float64
}

// mayEnd reports whether refits of the first of some doubts, beside those that are done, take so much of them away.
func (j *Job) mayEnd(doubts []doubt, much float64, done int) bool {
	for _, d := range doubts[:max(0, min(len(doubts), j.mostRefits()-done))] {
		much -= d.by
	}
	return much <= 0
}

// next puts those of some places in front that are to be looked at, and returns their number, at most n: the first, but
// at the last as many as are affordable, a sample of all.
func next(places []int, has []float64, n, affordable int) (count int, last bool) {
	switch rest := affordable - hutch.DefaultBatch; {
	case affordable >= len(places):
		return min(n, len(places)), false
	case rest <= 0 && n == hutch.DefaultBatch:
		return spread(places, has, affordable), true
	default:
		return min(n, max(rest, fewFirst)), false
	}
}

// spread puts about n places in front, as far from each other by the sums of what they have, in the order given, as by
// a systematic sample with probabilities in proportion to it, and returns their number.
func spread(places []int, has []float64, n int) (taken int) {
	left := 0.0
	for _, i := range places {
		left += has[i]
	}
	sum := 0.0
	for k, i := range places {
		if sum += has[i]; sum > (float64(taken)+0.5)*left/float64(n) {
			places[taken], places[k] = i, places[taken]
			taken++
		}
	}
	return taken
}

// refitFlat takes the errors of observations without curvature from refits, where without them the fit moves by more
// than the unit in which the loss changes its curvature: that of the others, which alone holds the fit, ends there.
func (j *Job) refitFlat(ctx context.Context, f *flatness, leverages, losses []float64, refits map[int]bool) error {
	unknown := 0
	for i, flat := range f.flat {
		if flat && !refits[i] && math.Abs(f.shift(i, leverages[i])*f.slopes[i]) > cmp.Or(f.known.Unit, math.Inf(1)) &&
			!j.refitOne(ctx, i, losses, refits) {
			unknown++
		}
	}
	if unknown > 0 && ctx.Err() == nil {
		return f.beyond(unknown)
	}
	return ctx.Err()
}

func (f *flatness) beyond(count int) error {
	return &risk.UnresolvedError{Count: count, D: len(f.z),
		Why: fmt.Sprintf("move the fit to where the %s loss has another curvature, so that steps from it do not "+
			"lead to the fits without them", f.known.Name)}
}

// ahead are the losses of the observations by one Newton step, and what steps after it may change, if the fit moves by
// as much again for each unit of the loss, and at most once more.
func (f *flatness) ahead(leverages []float64) (losses, open []float64) {
	unit := cmp.Or(f.known.Unit, 1)
	losses, open = make([]float64, len(f.z)), make([]float64, len(f.z))
	parallel.Ranges(len(f.z), parallel.Share, func(from, to int) {
		for i := from; i < to; i++ {
			a := f.shift(i, leverages[i])
			step := a * f.slopes[i] / (1 - f.curves[i]*a)
			losses[i], open[i] = f.z[i]+step, f.z[i]+step+step*min(math.Abs(step)/unit, 1)
		}
	})
	if f.single != nil {
		copy(losses, f.single)
	} else {
		f.losses(losses)
	}
	f.losses(open)
	for i, v := range losses {
		if open[i] = math.Abs(open[i] - v); risk.Determines(f.curves[i] * f.shift(i, leverages[i])) {
			losses[i] = math.Inf(1)
		}
	}
	return losses, open
}

// refits are the losses of some observations in the fits without each of them, and whether steps do not lead there.
func (j *Job) refits(ctx context.Context, f *flatness, places []int) (losses []float64, unsettled []bool, err error) {
	d := len(f.z)
	root := rootsOf(f.w)
	var one sync.Mutex // of the device's memory
	y, slope := j.view.Put(f.y, 1, d), j.view.Alloc(1, d)
	defer array.Free(y, slope)
	m := &leavers{j: j, root: root, z: f.z, slope: f.slopes, moves: make([]float64, len(places)*d),
		without: func(k int, dst, z []float64) {
			one.Lock()
			defer one.Unlock()
			at := j.view.Put(z, 1, d)
			defer at.Free()
			j.problem.Loss.Gradient(slope, at, y)
			j.view.Download(dst, slope)
			dst[places[k]] = 0
		}}
	open, err := m.settle(ctx)
	losses, unsettled = make([]float64, len(places)), make([]bool, len(places))
	for k, i := range places {
		losses[k] = f.known.At(i, f.z[i]+m.moves[k*d+i], f.y[i])
	}
	for _, k := range open {
		unsettled[k] = true
	}
	return losses, unsettled, err
}

// roots are those of weights, and their inverses, 0 for a weight of 0: a diagonal [loss.Root].
type roots struct{ root, inverse []float64 }

func rootsOf(weights []float64) roots {
	r := roots{lists.Map(weights, math.Sqrt), make([]float64, len(weights))}
	for i, v := range r.root {
		if v > 0 {
			r.inverse[i] = 1 / v
		}
	}
	return r
}

func (r roots) Forward(dst, v []float64) { floats.MulTo(dst, r.root, v) }
func (r roots) Adjoint(dst, v []float64) { floats.MulTo(dst, r.root, v) }
func (r roots) Columns(x []float64, n int) {
	for i, v := range r.root {
		floats.Scale(v, x[i*n:][:n])
	}
}
func (r roots) InverseAdjoint(dst, v []float64) { r.Inverse(dst, v) }
func (r roots) Square() func() []float64        { return nil }
func (r roots) Inverse(dst, v []float64)        { floats.MulTo(dst, r.inverse, v) }
