package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/progress"
	"surepipe/risk"
	"surepipe/vjp"
)

// sampling estimates the risk of a black box from its values at y with noise that is added, or taken away: it does so
// unit by unit, such as draws, whose estimates are alike in distribution.
type sampling interface {
	// calls is the number of values of a unit, first that of the units from which the number that is needed follows.
	calls() (unit, first int)
	// extend computes units until there are n.
	extend(ctx context.Context, n int) error
	// estimate is the mean of the units, and the standard deviation of one; its error is that over sqrt(independent).
	estimate() (mean, spread, independent float64)
	// terms are those of SURE for the mean of the answers, and stdErr the error of the estimate from infinitely many
	// units; residual is ||y - f(y)||^2.
	terms(residual float64) (t risk.Terms, stdErr float64)
	// shown is what fits at other weights, which have the same draws, are compared by; nil for nothing.
	shown() *shown
}

// shown are numbers of a unit each, which are estimates of SURE; the mean residual y - f; and images of the Jacobian
// of the mean answer, of probes that all fits have in common.
type shown struct {
	values   []float64
	residual []float64
	images   [][]float64
	scale    float64 // of the images
}

// mostUnits bounds the number of units that is computed from the first ones.
const mostUnits = 2000

// sampled is the estimate by a sampling, whose divergence is that by which SURE has its usual form.
func (e *evaluations) sampled(ctx context.Context, o Options, by sampling) (Risk, error) {
	begun := time.Now()
	value, err := e.at(ctx, e.y)
	if err != nil {
		return Risk{}, err
	}
	solved := time.Now()
	residual := math.Pow(floats.Distance(e.y, value, 2), 2)
	unit, first := by.calls()
	share := o.TraceError
	if o.Queries > 0 {
		first = o.Queries / unit
	} else if share == 0 {
		share = DefaultTraceError
	}
	if err := by.extend(ctx, first); err != nil {
		return Risk{}, err
	}
	mean, spread, independent := by.estimate()
	widened := hutch.Widened(int(independent) - 1)
	terms, stdErr := by.terms(residual)
	units := first
	if share > 0 {
		more := math.Pow(widened*spread/(share*terms.Scale(stdErr)), 2)
		units = max(first, int(math.Ceil(min(more, mostUnits))))
		if err := by.extend(ctx, units); err != nil {
			return Risk{}, err
		}
		terms, stdErr = by.terms(residual)
		// Stein's rule: the spread is that of the first units alone, as in hutch.
		mean, _, independent = by.estimate()
	}
	d := len(e.y)
	r := Risk{D: d, Sigma2: terms.Sigma2, Residual: residual, SURE: mean, StdErr: stdErr, Floored: terms.Floored(),
		MuHat: value, Criteria: risk.Undefined(), Derivative: string(e.box.Divergence)}
	divergence := (r.SURE + float64(d)*terms.Sigma2 - r.Residual) / (2 * terms.Sigma2)
	r.Trace = hutch.Estimate{Estimator: r.Derivative, Trace: divergence, Frobenius2: terms.Frobenius2, Seed: o.Seed,
		Queries: unit*units + 1, StdErr: spread * widened / math.Sqrt(independent) / (2 * terms.Sigma2)}
	r.DivergenceLow, r.DivergenceHigh = divergence, divergence
	r.Convergence = vjp.Convergence{Converged: true, Closed: true, Error: math.NaN()}
	if o.KeepB {
		r.B = value
	}
	r.Solve, r.Divergence, r.Total = solved.Sub(begun), time.Since(solved), time.Since(begun)
	r.Digest = e.digest(o, r, by.shown(), units)
	if math.IsNaN(r.SURE+r.StdErr) || math.IsInf(r.SURE+r.StdErr, 0) {
		return Risk{}, fmt.Errorf("the risk is %g ± %g: residual %g", r.SURE, r.StdErr, r.Residual)
	}
	return r, nil
}

func (o Options) checkSampled(of BlackBoxRow) error {
	if _, _, err := o.resolve(); err != nil {
		return err
	}
	switch {
	case of.Sigma2 && o.Sigma2 == 0:
		return refuse("Sigma2", o.Sigma2, "%s needs sigma2, which is 0: not known", of.Name)
	case o.Estimator != "" && o.Estimator != Auto:
		return refuse("Estimator", o.Estimator, "%s has no trace, expected no estimator of it, found %q", of.Name,
			o.Estimator)
	case o.Queries != 0 && o.Queries < of.Least:
		return refuse("Queries", o.Queries, "%d values, expected at least %d for %s", o.Queries, of.Least, of.Name)
	}
	return nil
}

// each calls one for each of the units from ... n-1, as many at once as there may be calls, and reports how many are
// done.
func (e *evaluations) each(ctx context.Context, o Options, from, n int,
	one func(ctx context.Context, j int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cap(e.calls))
	var reporting sync.Mutex
	done := from
	for j := from; j < n; j++ {
		g.Go(func() error {
			if err := one(ctx, j); err != nil || o.Progress == nil {
				return err
			}
			reporting.Lock()
			defer reporting.Unlock()
			done++
			o.Progress(Progress{Report: progress.Report{Stage: progress.Probes, Step: done, Steps: n}})
			return nil
		})
	}
	return g.Wait()
}

// digest is what the fit can be compared by with those at other weights; nil where that was not asked for. The
// difference of two estimates is that of SURE for the means g of the answers, and the error over the draws is that of
// the differences unit by unit.
func (e *evaluations) digest(o Options, r Risk, s *shown, units int) *risk.Digest {
	if o.compare == nil || s == nil {
		return nil
	}
	d, n := len(e.y), min(len(s.images), hutch.CommonProbes(len(e.y)))
	by := o.compare.Projection
	dev := by.Device()
	images := dev.Alloc(n, d)
	defer images.Free()
	for j, image := range s.images[:n] {
		dev.Upload(images.Rows(j, j+1), image)
	}
	dev.Lin(images, s.scale, images, 0, array.Batch{})
	at := dev.Alloc(1, d)
	defer at.Free()
	dev.Upload(at, s.residual)
	all, sum := make([]float64, n*hutch.ProjectionSize), make([]float64, hutch.ProjectionSize)
	by.Images(all, 0, images)
	for j := range n {
		floats.Add(sum, all[j*hutch.ProjectionSize:][:hutch.ProjectionSize])
	}
	forms := lists.Make(min(hutch.ProjectionProbes, len(s.values)), func(j int) float64 {
		return s.values[j] / (2 * r.Sigma2)
	})
	pack := func(x []float64) *risk.Packed {
		p := risk.Pack(x)
		return &p
	}
	return &risk.Digest{
		D: d, Divergence: r.Trace.Trace, StdErr: r.Trace.StdErr, Queries: units, Forms: pack(forms),
		Residual: pack(by.Vector(at)), Images: pack(sum), Probes: n,
	}
}

// firstThinnings is the number of divisions into folds from which the number that is needed is computed.
const firstThinnings = 6

// mostCount is the largest count up to which float64 holds all whole numbers.
const mostCount = 1 << 53

// thinning is the sampling of [Thinning]. A unit is a division into folds.
type thinning struct {
	*evaluations
	o     Options
	folds int
	// totals are sums of the estimate's terms over the coordinates, one for each division, and sums those over the
	// divisions, one for each coordinate.
	totals, sums []float64
}

func (e *evaluations) thinning(ctx context.Context, o Options) (Risk, error) {
	row := Thinning.Row()
	o.Sigma2 = stat.Mean(e.y, nil)
	if err := CheckCounts(e.y); err != nil {
		return Risk{}, fmt.Errorf("pipeline: %s: %w", row.Name, err)
	}
	t := &thinning{evaluations: e, o: o, folds: int(math.Round(1 + 1/cmp.Or(e.box.Alpha, row.Alpha))),
		sums: make([]float64, len(e.y))}
	if t.folds < 2 {
		return Risk{}, refuse("Alpha", e.box.Alpha, "alpha is %g, expected at most 2 for %s: two folds", e.box.Alpha,
			row.Name)
	}
	row.Least = 2 * t.folds
	if err := o.checkSampled(row); err != nil {
		return Risk{}, err
	}
	return e.sampled(ctx, o, t)
}

// CheckCounts returns an error where y are not counts, or all 0.
func CheckCounts(y []float64) error {
	sum := 0.0
	for i, v := range y {
		if !(v >= 0) || v != math.Trunc(v) || v > mostCount {
			return fmt.Errorf("y[%d] is %g, expected a count", i, v)
		}
		sum += v
	}
	if sum == 0 {
		return errors.New("all of y is 0, expected counts")
	}
	return nil
}

func (t *thinning) calls() (unit, first int) { return t.folds, firstThinnings }

func (t *thinning) extend(ctx context.Context, n int) error {
	for j := len(t.totals); j < n; j++ {
		folds := t.divide(j)
		answers := make([][]float64, t.folds)
		if err := t.each(ctx, t.o, 0, t.folds, func(ctx context.Context, k int) (err error) {
			answers[k], err = t.at(ctx, step(t.y, -1, folds[k]))
			return err
		}); err != nil {
			return err
		}
		total, count := 0.0, float64(t.folds)
		for i, y := range t.y {
			term := y * (y - 1)
			for k, f := range answers {
				mu := f[i] * count / (count - 1)
				term += (mu*mu - 2*count*folds[k][i]*mu) / count
			}
			t.sums[i] += term
			total += term
		}
		t.totals = append(t.totals, total)
	}
	return nil
}

// divide puts the units of each count into folds at random: a function of the seed, the sample and the number.
func (t *thinning) divide(number int) [][]float64 {
	r := rand.New(rand.NewPCG(t.o.Seed, 0x7468696e6e00000+uint64(t.sample)<<16+uint64(number)))
	folds := lists.Make(t.folds, func(int) []float64 { return make([]float64, len(t.y)) })
	for i, left := range t.y {
		for k := range t.folds - 1 {
			if left == 0 {
				break
			}
			v := distuv.Binomial{N: left, P: 1 / float64(t.folds-k), Src: r}.Rand()
			folds[k][i] = v
			left -= v
		}
		folds[t.folds-1][i] = left
	}
	return folds
}

func (t *thinning) estimate() (mean, spread, independent float64) {
	mean, spread = stat.MeanStdDev(t.totals, nil)
	return mean, spread, float64(len(t.totals))
}

// terms have the squared norm of the derivative by which the error has SURE's form. The error is that of a sum of
// independent terms, one for each coordinate.
func (t *thinning) terms(residual float64) (risk.Terms, float64) {
	d, n, sigma2 := len(t.y), float64(len(t.totals)), t.o.Sigma2
	stdErr := stat.StdDev(t.sums, nil) / n * math.Sqrt(float64(d))
	return risk.Terms{D: d, Sigma2: sigma2, Residual: residual,
		Frobenius2: (stdErr*stdErr/(sigma2*sigma2)+2*float64(d))/4 - residual/sigma2}, stdErr
}

func (t *thinning) shown() *shown { return nil }
