package pipeline_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/vjp"
)

// divided is a pipeline for the LASSO of newCurve.
func divided(t *testing.T, dev array.Device, method string, o pipeline.Options) (*pipeline.Pipeline, []float64) {
	t.Helper()
	c := newCurve(t, dev)
	r, err := c.Regularizer([]float64{0.1 * c.max})
	if err != nil {
		t.Fatal(err)
	}
	s, err := vjp.NewSolver(context.Background(), method, vjp.Problem{A: c.Problem.A, R: r, Device: dev}, c.Settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	o.Sigma2 = 1
	p, err := pipeline.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return p, c.y
}

// same reports whether two numbers agree, or are both not defined.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// Parts of the probes, and calls that share them, give the bits of one call, leave-one-out included;
// with the values of all probes nothing is computed again.
func TestDividedProbesAreTheEstimate(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for name, o := range map[string]pipeline.Options{
			"hutchinson": {Estimator: hutch.Hutchinson, Queries: 23, ALO: true}, "exact": {Estimator: hutch.Exact},
			"few": {Estimator: hutch.Hutchinson, Queries: 3},
		} {
			p, y := divided(t, dev, "fista", o)
			want, err := p.Estimate(context.Background(), y)
			if err != nil {
				t.Fatal(err)
			}
			total, err := p.Probes()
			if err != nil {
				t.Fatal(err)
			}
			values := make([]pipeline.DividedProbe, total)
			var fits []pipeline.Fit
			for _, part := range [][2]int{{0, total / 3}, {total / 3, total / 3}, {total / 3, total}} {
				d := pipeline.NewDivision(part[0], part[1], total)
				d.Solved = func(f pipeline.Fit) error {
					fits = append(fits, f)
					if part[1] == total && total > 5 { // known from before
						d.Know(part[0], values[part[0]])
						d.Know(part[0]+1, values[part[0]+1])
					}
					return nil
				}
				next := part[0]
				d.Taken = func(i int, probe pipeline.DividedProbe) error {
					if part[1] == total && total > 5 {
						next = max(next, part[0]+2)
					}
					if i != next {
						t.Errorf("%s: probe %d, expected %d", name, i, next)
					}
					next++
					values[i] = probe
					values[i].Samples = slices.Clone(probe.Samples)
					return nil
				}
				if part[1] == total && total > 5 {
					// What another process has found of the first two.
					other := pipeline.NewDivision(part[0], part[0]+2, total)
					other.Taken = func(i int, probe pipeline.DividedProbe) error {
						values[i] = probe
						values[i].Samples = slices.Clone(probe.Samples)
						return nil
					}
					if _, err := p.EstimateDivided(context.Background(), y, other); err != nil {
						t.Fatal(err)
					}
				}
				r, err := p.EstimateDivided(context.Background(), y, d)
				if err != nil || r.SURE != 0 || r.Iterations != want.Iterations || r.Solve == 0 {
					t.Fatalf("%s: %+v, %v", name, r, err)
				}
			}
			if fits[0] != fits[1] || fits[0] != fits[2] || fits[0].B == fits[0].MuHat {
				t.Errorf("%s: hashes %x", name, fits)
			}
			d := pipeline.NewDivision(0, total, total)
			for i, v := range values {
				d.Know(i, v)
			}
			d.Taken = func(i int, _ pipeline.DividedProbe) error { return errors.New("a probe was computed again") }
			if got, err := p.EstimateDivided(context.Background(), y, d); err != nil || !sameRisk(got, want) ||
				!same(got.ALO, want.ALO) || got.InnerSteps != want.InnerSteps {
				t.Errorf("%s: merged %+v, %v, expected %+v", name, got, err, want)
			}
			// Three calls at once, one of which breaks off.
			d = pipeline.NewDivision(0, total, total)
			var wg sync.WaitGroup
			for k := range 3 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					if k == 2 {
						cancel()
					}
					if got, err := p.EstimateDivided(ctx, y, d); k < 2 &&
						(err != nil || !sameRisk(got, want) || !same(got.ALO, want.ALO) ||
							got.InnerSteps != want.InnerSteps) {
						t.Errorf("%s: shared %+v, %v, expected %+v", name, got, err, want)
					}
				}()
			}
			wg.Wait()
		}
	})
}

// Probes whose number follows from their spread can be shared by calls that run at once.
func TestAdaptiveProbesAreShared(t *testing.T) {
	p, y := divided(t, array.NewHost(), "fista", pipeline.Options{Estimator: hutch.Hutchinson, TraceError: 0.05})
	want, err := p.Estimate(context.Background(), y)
	if err != nil {
		t.Fatal(err)
	}
	if want.Trace.Queries <= 24 {
		t.Fatalf("%d queries: no probe was added", want.Trace.Queries)
	}
	d := pipeline.NewDivision(0, 24, 24)
	var wg sync.WaitGroup
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if got, err := p.EstimateDivided(context.Background(), y, d); err != nil || !sameRisk(got, want) ||
				!same(got.ALO, want.ALO) {
				t.Errorf("%+v, %v, expected %+v", got, err, want)
			}
		}()
	}
	wg.Wait()
}

func TestProbesThatCannotBeDivided(t *testing.T) {
	for _, c := range []struct {
		o    pipeline.Options
		want string
	}{
		{pipeline.Options{}, "in closed form"}, {pipeline.Options{Estimator: hutch.HutchPP, Queries: 12},
			"depend on each other"},
		{pipeline.Options{Estimator: hutch.Hutchinson}, "follows from their spread"},
	} {
		p, _ := divided(t, array.NewHost(), "fista", c.o)
		var refused *pipeline.OptionError
		if _, err := p.Probes(); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, expected %q", c.o, err, c.want)
		}
	}
	p, y := divided(t, array.NewHost(), "fista", pipeline.Options{Estimator: hutch.Hutchinson, Queries: 9})
	if _, err := p.EstimateDivided(context.Background(), y, pipeline.NewDivision(0, 3, 3)); err == nil {
		t.Error("a division of too few probes was taken")
	}
	d, failure := pipeline.NewDivision(0, 9, 9), errors.New("no space left")
	d.Taken = func(int, pipeline.DividedProbe) error { return failure }
	if _, err := p.EstimateDivided(context.Background(), y, d); !errors.Is(err, failure) {
		t.Error(err)
	}
	d = pipeline.NewDivision(0, 9, 9)
	d.Solved = func(pipeline.Fit) error { return failure }
	if _, err := p.EstimateDivided(context.Background(), y, d); !errors.Is(err, failure) {
		t.Error(err)
	}
}
