package pipeline

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/progress"
	"surepipe/risk"
	"surepipe/vjp"
)

const (
	// firstPairs is the number of pairs of draws from which the number that is needed is computed,
	// and mostPairs bounds that.
	firstPairs = 24
	mostPairs  = 2000
	// kept is the number of pairs whose vectors are compared with each other, for the error bar.
	kept = 16
)

// draw fills w with the normal numbers of a draw of a sample: a function of the seed and the two
// numbers.
func draw(w []float64, seed uint64, sample, number int) {
	r := rand.New(rand.NewPCG(seed, 0x636f75706c656400+uint64(sample)<<16+uint64(number)))
	for i := range w {
		w[i] = r.NormFloat64()
	}
}

// pair is what is kept of a pair of draws, w and -w.
type pair struct {
	// value is the mean of the two estimates of the risk, and divergence that of <w, f(y*)> over
	// sqrt(alpha) sigma.
	value, divergence float64
	// w, and the even and the odd part of f(y*) - y, of the first pairs; the odd part is that of f(y*).
	w, even, odd []float64
}

// bootstrap is the estimate by the coupled bootstrap.
type bootstrap struct {
	*evaluations
	sigma2, alpha float64
	o             Options
	pairs         []pair
}

// bootstrap is the estimate by the coupled bootstrap: see [CoupledBootstrap].
func (e *evaluations) bootstrap(ctx context.Context, o Options) (Risk, error) {
	begun := time.Now()
	if _, _, err := o.resolve(); err != nil {
		return Risk{}, err
	}
	switch {
	case o.Sigma2 == 0:
		return Risk{}, refuse("Sigma2", o.Sigma2, "the coupled bootstrap needs sigma2, which is 0: not known")
	case o.Estimator != "" && o.Estimator != Auto:
		return Risk{}, refuse("Estimator", o.Estimator,
			"the coupled bootstrap has no trace, expected no estimator of it, found %q", o.Estimator)
	case o.Queries != 0 && o.Queries < 4:
		return Risk{}, refuse("Queries", o.Queries, "%d values, expected at least 4: two pairs of draws", o.Queries)
	}
	b := &bootstrap{evaluations: e, sigma2: o.Sigma2, alpha: e.box.Alpha, o: o}
	if b.alpha == 0 {
		b.alpha = DefaultAlpha
	}
	value, err := e.at(ctx, e.y)
	if err != nil {
		return Risk{}, err
	}
	solved := time.Now()
	first, share := o.Queries/2, o.TraceError
	if o.Queries == 0 {
		first = firstPairs
		if share == 0 {
			share = DefaultTraceError
		}
	}
	if err := b.extend(ctx, first); err != nil {
		return Risk{}, err
	}
	spread := b.spread()
	terms := b.smoothed()
	if share > 0 {
		target := share * terms.Scale(terms.StdErr())
		more := math.Pow(hutch.Widened(first-1)*spread/target, 2)
		if err := b.extend(ctx, max(first, int(math.Ceil(min(more, mostPairs))))); err != nil {
			return Risk{}, err
		}
		terms = b.smoothed()
	}
	r := b.result(value, terms)
	// Stein's rule: the spread is that of the first pairs alone, as in hutch.
	r.Trace.StdErr = spread * hutch.Widened(first-1) / math.Sqrt(float64(len(b.pairs))) / (2 * b.sigma2)
	r.Solve, r.Divergence, r.Total = solved.Sub(begun), time.Since(solved), time.Since(begun)
	r.Digest = b.digest(r)
	if math.IsNaN(r.SURE+r.StdErr) || math.IsInf(r.SURE+r.StdErr, 0) {
		return Risk{}, fmt.Errorf("the risk is %g ± %g: residual %g", r.SURE, r.StdErr, r.Residual)
	}
	return r, nil
}

// extend computes pairs until there are n.
func (b *bootstrap) extend(ctx context.Context, n int) error {
	from := len(b.pairs)
	if n <= from {
		return nil
	}
	b.pairs = append(b.pairs, make([]pair, n-from)...)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cap(b.calls))
	var reporting sync.Mutex
	done := from
	for j := from; j < n; j++ {
		g.Go(func() (err error) {
			if b.pairs[j], err = b.pair(ctx, j); err != nil || b.o.Progress == nil {
				return err
			}
			reporting.Lock()
			defer reporting.Unlock()
			done++
			b.o.Progress(Progress{Report: progress.Report{Stage: progress.Probes, Step: done, Steps: n}})
			return nil
		})
	}
	return g.Wait()
}

// pair computes the estimates of the draws w and -w,
//
//	||r||^2 + 2 sigma/sqrt(alpha) <w, r> - d sigma2,   r = f(y*) - y,
//
// which is the formula of [CoupledBootstrap] with the square written out.
func (b *bootstrap) pair(ctx context.Context, j int) (p pair, err error) {
	d := len(b.y)
	w := make([]float64, d)
	draw(w, b.o.Seed, b.sample, j)
	h := math.Sqrt(b.alpha * b.sigma2)
	var r [2][]float64
	for k, sign := range []float64{1, -1} {
		f, err := b.at(ctx, step(b.y, sign*h, w))
		if err != nil {
			return p, err
		}
		r[k] = make([]float64, d)
		floats.SubTo(r[k], f, b.y)
		p.value += (floats.Dot(r[k], r[k]) + sign*2*math.Sqrt(b.sigma2/b.alpha)*floats.Dot(w, r[k])) / 2
	}
	p.value -= float64(d) * b.sigma2
	odd, even := r[0], make([]float64, d)
	for i := range odd {
		even[i] = (r[0][i] + r[1][i]) / 2
		odd[i] = (r[0][i] - r[1][i]) / 2
	}
	p.divergence = floats.Dot(w, odd) / h
	if j < kept {
		p.w, p.even, p.odd = w, even, odd
	}
	return p, nil
}

// spread is the standard deviation of a pair's estimate.
func (b *bootstrap) spread() float64 {
	values := make([]float64, len(b.pairs))
	for j, p := range b.pairs {
		values[j] = p.value
	}
	return stat.StdDev(values, nil)
}

// smoothed are the terms of SURE for g, the mean of f(y*) over w, with unbiased estimates of the
// residual and of tr(D g)^2 from products of different draws: by Stein's formula D g is the mean of
// f(y*) w*/(sqrt(alpha) sigma).
func (b *bootstrap) smoothed() risk.Terms {
	t := risk.Terms{D: len(b.y), Sigma2: b.sigma2}
	for _, p := range b.pairs {
		t.Divergence += p.divergence / float64(len(b.pairs))
	}
	n := min(kept, len(b.pairs))
	count := float64(n * (n - 1) / 2)
	for i := range n {
		for j := range i {
			p, q := b.pairs[i], b.pairs[j]
			t.Residual += floats.Dot(p.even, q.even) / count
			t.Frobenius2 += floats.Dot(p.w, q.odd) * floats.Dot(q.w, p.odd) / (b.alpha * b.sigma2 * count)
		}
	}
	return t
}

// result is the estimate, but for its error over the draws and the times.
func (b *bootstrap) result(value []float64, t risk.Terms) Risk {
	d := len(b.y)
	r := Risk{D: d, Sigma2: b.sigma2, StdErr: t.StdErr(), Floored: t.Floored(), Derivative: string(CoupledBootstrap),
		MuHat: value, Criteria: undefined}
	for _, p := range b.pairs {
		r.SURE += p.value / float64(len(b.pairs))
	}
	residual := floats.Distance(b.y, value, 2)
	r.Residual = residual * residual
	divergence := (r.SURE + float64(d)*b.sigma2 - r.Residual) / (2 * b.sigma2)
	r.Trace = hutch.Estimate{Estimator: string(CoupledBootstrap), Trace: divergence, Frobenius2: t.Frobenius2,
		Queries: 2*len(b.pairs) + 1, Seed: b.o.Seed}
	r.DivergenceLow, r.DivergenceHigh = divergence, divergence
	r.Convergence = vjp.Convergence{Converged: true, Closed: true, Error: math.NaN()}
	if b.o.KeepB {
		r.B = value
	}
	return r
}

// digest is what the fit can be compared by with those at other weights, which have the same draws;
// nil where that was not asked for. The difference of two estimates is that of SURE for the means g
// of f(y*) over w, whose derivative takes w_j to about the odd part of f(y*) over sqrt(alpha) sigma,
// and the error over the draws is that of the differences pair by pair.
func (b *bootstrap) digest(r Risk) *risk.Digest {
	if b.o.compare == nil {
		return nil
	}
	d, n := len(b.y), min(kept, len(b.pairs), hutch.CommonProbes(len(b.y)))
	s := b.o.compare.Projection
	dev, h := s.Device(), math.Sqrt(b.alpha*b.sigma2)
	residual, images := make([]float64, d), dev.Alloc(n, d)
	defer images.Free()
	for j, p := range b.pairs[:n] {
		floats.AddScaled(residual, -1/float64(n), p.even)
		dev.Upload(images.Rows(j, j+1), p.odd)
	}
	dev.Lin(images, 1/h, images, 0, array.Batch{})
	at := dev.Alloc(1, d)
	defer at.Free()
	dev.Upload(at, residual)
	all, sum := make([]float64, n*hutch.ProjectionSize), make([]float64, hutch.ProjectionSize)
	s.Images(all, 0, images)
	for row := range slices.Chunk(all, hutch.ProjectionSize) {
		floats.Add(sum, row)
	}
	forms := make([]float64, min(hutch.ProjectionProbes, len(b.pairs)))
	for j := range forms {
		forms[j] = b.pairs[j].value / (2 * b.sigma2)
	}
	pack := func(x []float64) *risk.Packed {
		p := risk.Pack(x)
		return &p
	}
	return &risk.Digest{
		D: d, Divergence: r.Trace.Trace, StdErr: r.Trace.StdErr, Queries: len(b.pairs), Forms: pack(forms),
		Residual: pack(s.Vector(at)), Images: pack(sum), Probes: n,
	}
}
