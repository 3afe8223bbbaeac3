package pipeline_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/verify"
	"surepipe/vjp"
)

// tallPCA is robust PCA of a tall matrix of rank 3 with outliers.
func tallPCA(dev array.Device, m, n int) (vjp.Problem, []float64) {
	shape := array.Shape{Rows: m, Cols: n}
	d := shape.Len()
	rng := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	y := solvetest.LowRankMatrix(rng, shape, 2*math.Sqrt(float64(d)), 0.5)
	for i := range y {
		if i%40 == 0 {
			y[i] += 12 * rng.NormFloat64()
		}
	}
	id := linops.Identity(d)
	return vjp.Problem{A: linops.HStack(id, id), Device: dev, R: prox.NewSeparable(
		prox.Block{Prox: lowrank.NewNuclear(shape, 0.75*(math.Sqrt(float64(m))+math.Sqrt(float64(n)))), N: d},
		prox.Block{Prox: prox.NewL1(1.5), N: d})}, y
}

// A solution that is not written down gives the same estimate as one that is, with mu_hat, without
// it, verified, and repeated; and b where it is asked for.
func TestCompactSolutionsGiveTheSameEstimate(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	ctx := context.Background()
	p, y := tallPCA(dev, 280, 66)
	run := func(compact bool, o pipeline.Options, repeats ...uint64) []pipeline.Risk {
		s, err := vjp.NewSolver(ctx, "fista", p, vjp.Options{Compact: compact, Sigma2: 0.25})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		o.Sigma2, o.Queries = 0.25, 6
		e, err := pipeline.New(s, o)
		if err != nil {
			t.Fatal(err)
		}
		if repeats == nil {
			r, err := e.Estimate(ctx, y)
			if err != nil {
				t.Fatal(err)
			}
			return []pipeline.Risk{r}
		}
		var all []pipeline.Risk
		for r, err := range e.Repeat(ctx, 0, y, slices.Values(repeats)) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		return all
	}
	before := slices.Clone(y)
	want := run(false, pipeline.Options{KeepB: true})[0]
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-9*math.Abs(want)) {
			t.Errorf("%s: %.15g, want %.15g", what, got, want)
		}
	}
	for name, o := range map[string]pipeline.Options{
		"with b": {KeepB: true}, "without mu_hat": {NoMuHat: true}, "alone": {Batch: 1},
		"verified": {Verify: new(verify.Options)},
	} {
		got := run(true, o)[0]
		near(name+": SURE", got.SURE, want.SURE)
		near(name+": divergence", got.Trace.Trace, want.Trace.Trace)
		near(name+": residual", got.Residual, want.Residual)
		near(name+": the error of GCV", got.GCVStdErr, want.GCVStdErr)
		if o.NoMuHat != (got.MuHat == nil) || !o.NoMuHat && !slices.Equal(got.MuHat, want.MuHat) {
			t.Errorf("%s: mu_hat of %d values differs", name, len(got.MuHat))
		}
		if o.KeepB && !slices.Equal(got.B, want.B) {
			t.Errorf("%s: b of %d values differs", name, len(got.B))
		}
		if v := got.Verification; o.Verify != nil && (v == nil || !v.Passed()) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	for seed, got := range run(true, pipeline.Options{}, 0, 1) {
		if alone := run(true, pipeline.Options{Seed: uint64(seed)})[0]; !sameRisk(timeless(got), timeless(alone)) {
			t.Errorf("seed %d: repeated %v, alone %v", seed, got, alone)
		}
	}
	if !slices.Equal(y, before) {
		t.Error("y has been modified")
	}
}

// A tall robust PCA takes little memory beside y, which is not copied.
func TestTallRobustPCATakesLittleMemory(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	ctx := context.Background()
	p, y := tallPCA(dev, 3000, 300)
	s, err := vjp.NewSolver(ctx, "fista", p, vjp.Options{Compact: true, Sigma2: 0.25, Tol: 1e-4})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	e, err := pipeline.New(s, pipeline.Options{Sigma2: 0.25, Queries: 2, Batch: 2, NoMuHat: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Estimate(ctx, y)
	if err != nil {
		t.Fatal(err)
	}
	const panels = 8 << 20 // of any size of y
	if peak := dev.Stats().PeakBytes; !r.Trusted() || peak > 3*8*int64(len(y))+panels {
		t.Errorf("trusted %t, %d bytes at most for %d of y", r.Trusted(), peak, 8*len(y))
	}
}
