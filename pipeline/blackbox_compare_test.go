package pipeline_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"surepipe/pipeline"
	"surepipe/risk"
	"surepipe/risk/warning"
)

// Along a sweep a black box's differences of SURE have errors: those of 150 draws are as large as
// the errors say, for near and for far pairs of thresholds. The bootstrap's are differences of the
// squared error at more noise, given y, whose mean over that noise is computed from many draws.
func TestDifferencesOfABlackBox(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	const d, draws, queries = 120, 150, 24
	mu := sparseMean(d)
	grid := [][]float64{{1, 1.2, 2.5}}
	for _, method := range normalMethods() {
		row := method.Row()
		var off, bars [2][]float64
		r := rand.New(rand.NewPCG(8, 3))
		for range draws {
			y := noisy(r, mu)
			b := &pipeline.BlackBox{Name: "soft", D: d, Eval: softly, Divergence: method}
			o := pipeline.SweepOptions{Options: pipeline.Options{Sigma2: 1, Queries: queries}, Mu: mu, Refine: 0}
			var points []pipeline.SweepPoint
			for p, err := range pipeline.Sweep(context.Background(), y, pipeline.Family{BlackBox: b}, grid, o) {
				if err != nil {
					t.Fatal(err)
				}
				points = append(points, p)
			}
			points = points[:3]
			loss := func(k int) float64 { return points[k].Loss }
			if row.Alpha > 0 {
				loss = func(k int) float64 {
					const more = 100
					w, sum := rand.New(rand.NewPCG(1, 1)), 0.0
					for range more {
						z := slices.Clone(y)
						for i := range z {
							z[i] += math.Sqrt(row.Alpha) * w.NormFloat64()
						}
						f, _ := softly(context.Background(), points[k].Weights, z)
						for i, v := range f {
							sum += (v - mu[i]) * (v - mu[i]) / more
						}
					}
					return sum
				}
			}
			by := risk.Comparison{Criterion: risk.SURE, Sigma2: 1}
			fit := func(k int) risk.Fit { return risk.Fit{Value: points[k].SURE, Digest: points[k].Digest} }
			for pair, k := range []int{1, 2} {
				diff := by.Difference(fit(k), fit(0))
				off[pair] = append(off[pair], diff.Value-(loss(k)-loss(0)))
				bars[pair] = append(bars[pair], diff.StdErr*diff.StdErr)
			}
		}
		for pair := range off {
			spread, bar := stat.StdDev(off[pair], nil), math.Sqrt(stat.Mean(bars[pair], nil))
			if !(spread/bar > 0.7 && spread/bar < 1.25) {
				t.Errorf("%s, pair %d: differences are %.3g off, the error bar is %.3g", method, pair, spread, bar)
			}
		}
	}
}

// A step above the noise is marked, but does not make a smooth result doubtful.
func TestLargeStepIsSaid(t *testing.T) {
	linear := func(_ context.Context, _, y []float64) ([]float64, error) {
		f := slices.Clone(y)
		for i := range f {
			f[i] /= 2
		}
		return f, nil
	}
	y := noisy(rand.New(rand.NewPCG(1, 1)), make([]float64, 50))
	for _, eps := range []float64{0, 0.9, 1.1} {
		b := &pipeline.BlackBox{Name: "half", D: 50, Eval: linear, Eps: eps}
		r, err := b.Estimate(context.Background(), nil, y, pipeline.Options{Sigma2: 1})
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(r.Warnings(), func(w pipeline.Warning) bool { return w.Is(warning.LargeStep) })
		if said != (eps > 1) || !r.Trusted() {
			t.Errorf("eps %g: warnings %v, trusted %t", eps, r.Warnings(), r.Trusted())
		}
	}
}

// A stream has the estimates of the samples by their numbers: that of sample 0 is that of Estimate,
// and other samples have other probes.
func TestStreamOfABlackBox(t *testing.T) {
	smoothly := func(ctx context.Context, w, y []float64) ([]float64, error) {
		f, _ := softly(ctx, w, y)
		for i := range f[1:] {
			f[i] = (f[i] + f[i+1]) / 2
		}
		return f, nil
	}
	y := noisy(rand.New(rand.NewPCG(2, 1)), sparseMean(60))
	for _, method := range normalMethods() {
		b := &pipeline.BlackBox{Name: "smooth", D: 60, Eval: smoothly, Divergence: method}
		o := pipeline.Options{Sigma2: 1, Queries: 8}
		twice := func(yield func([]float64, error) bool) {
			for range 2 {
				if !yield(y, nil) {
					return
				}
			}
		}
		var all []pipeline.Risk
		for r, err := range b.StreamFrom(context.Background(), 0, []float64{1}, twice, o) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		one, err := b.Estimate(context.Background(), []float64{1}, y, o)
		if err != nil || len(all) != 2 || all[0].SURE != one.SURE || all[1].SURE == one.SURE || all[1].Index != 1 {
			t.Errorf("%s: %v, %d estimates, %g and %g", method, err, len(all), one.SURE, all[1].SURE)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for _, err := range b.StreamFrom(ctx, 0, []float64{1}, twice, o) {
			if err != context.Canceled {
				t.Errorf("%s: %v", method, err)
			}
		}
	}
}
