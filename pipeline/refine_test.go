package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
)

// With TraceError probes are added until the trace is accurate enough, and not
// many more; the number of them and every bit of the result are the same for any
// number of samples in flight and any batch.
func TestProbesAreAddedUntilTheTraceIsAccurateEnough(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		data, err := completion3(40, 35, 2)
		if err != nil {
			t.Fatal(err)
		}
		type kind struct {
			estimator string
			share     float64
			first     int
		}
		kinds := []kind{{hutch.Hutchinson, 0.06, 24}, {hutch.HutchPP, 0.03, 72}}
		ways := []pipeline.Options{{Parallel: 1}, {Parallel: 2, Batch: 7}, {Parallel: 3, Batch: 1}}
		samples := 3
		if arraytest.Emulated(t, dev) {
			kinds, ways, samples = kinds[:1], ways[:2], 2
			t.Logf("%s is emulated: %d samples, %s", dev.Name(), samples, kinds[0].estimator)
		}
		for _, c := range kinds {
			var want []string
			for _, o := range ways {
				o.Estimator, o.TraceError = c.estimator, c.share
				pipe := open(t, dev, "matrix-completion", data, o)
				var got []string
				leaks(t, dev, func() {
					ys := func(yield func([]float64, error) bool) {
						for i := range samples {
							if !yield(problems.Sample(data.Mu, *data.Sigma2, 5, i), nil) {
								return
							}
						}
					}
					for r, err := range pipe.Stream(context.Background(), ys) {
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, fmt.Sprintf("%d %x %x %x %d", r.Index, r.SURE, r.StdErr, r.Trace.StdErr,
							r.Trace.Queries))
						d, part := len(r.MuHat), 2**data.Sigma2*r.Trace.Error()/r.StdErr
						t.Logf("%s: d = %d, %d queries, share %.3f", c.estimator, d, r.Trace.Queries, part)
						if r.Trace.Queries <= c.first || part > c.share && r.Trace.Queries < d || part < c.share/2 {
							t.Errorf("%s: after %d queries, at most %d, the trace's error is %.3f of SURE's, "+
								"expected %.3f", c.estimator, r.Trace.Queries, d, part, c.share)
						}
					}
				})
				if want == nil {
					want = got
				}
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("%s, %d in flight, batches of %d:\n%s\nnot\n%s", c.estimator, o.Parallel, o.Batch,
						strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		}
	})
}

// What cannot be reached ends with as many queries as the exact trace takes.
func TestAddedProbesCostNoMoreThanTheExactTrace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := lasso(t, dev)
		p := newPipeline(t, s, pipeline.Options{Estimator: hutch.Hutchinson, TraceError: 1e-9})
		for y := range stream(d, 1) {
			risk, err := p.Estimate(context.Background(), y)
			if err != nil {
				t.Fatal(err)
			}
			if risk.Trace.Queries != d {
				t.Errorf("%d queries, expected %d", risk.Trace.Queries, d)
			}
		}
	})
}

func TestTraceErrorIsChecked(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, _ := completion(t, dev)
		for _, c := range []struct {
			o    pipeline.Options
			want string
		}{
			{pipeline.Options{TraceError: -1}, "trace error is -1"},
			{pipeline.Options{TraceError: math.NaN()}, "trace error is NaN"},
		} {
			c.o.Sigma2 = 1
			if _, err := pipeline.New(s, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: error %v, expected one with %q", c.o, err, c.want)
			}
		}
	})
}
