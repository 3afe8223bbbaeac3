package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/stages"
	"surepipe/vjp"
)

// marked is the first entry of a sample that a brittle solver fails at.
const marked = 3.25

var errBrittle = errors.New("it broke")

// brittle is a solver that fails at marked samples: at once, or at the sweep of that
// number through their derivative.
type brittle struct {
	vjp.Solver
	mode  string
	after int64
}

func (b brittle) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	bad := y.ToHost()[0] == marked
	if bad && b.mode == "solver" {
		return nil, errBrittle
	}
	s, err := b.Solver.Solve(ctx, y)
	if err == nil {
		s.Linearization = &brittleDerivative{Linearization: s.Linearization, brittle: b, bad: bad}
	}
	return s, err
}

type brittleDerivative struct {
	vjp.Linearization
	brittle
	bad    bool
	sweeps atomic.Int64
}

func (l *brittleDerivative) VJP(ctx context.Context, dst, v array.Batch) error {
	if l.bad && l.sweeps.Add(1) > l.after {
		switch l.mode {
		case "derivative":
			return errBrittle
		case "nan":
			v.Device().Fill(dst, math.NaN())
			return nil
		case "panic":
			panic("no such derivative")
		}
	}
	return l.Linearization.VJP(ctx, dst, v)
}

func (l *brittleDerivative) Apply(ctx context.Context, dst, v array.Batch, _ hutch.Accuracy, _ []float64) error {
	return l.VJP(ctx, dst, v)
}

func (l *brittleDerivative) Closed() vjp.Closed { return vjp.Closed{} }

// Whatever fails for one sample, in whichever stage, has its place between the results
// of the others, which are those of a stream without it; a panic ends the stream.
func TestOneSamplesFailureIsItsOwn(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const n, first = 6, 10
		s, d := quick(t, dev)
		samples := func(bad int) [][]float64 {
			var all [][]float64
			for y := range stream(d, n) {
				if len(all) == bad {
					y[0] = marked
				}
				all = append(all, y)
			}
			return all
		}
		for name, o := range map[string]pipeline.Options{
			"projected": {Estimator: hutch.Exact},
			"residual":  {Estimator: hutch.Hutchinson, Queries: 12},
			"refined":   {Estimator: hutch.Hutchinson, Queries: 12, TraceError: 1e-3},
			"sketched":  {Estimator: hutch.HutchPP, Queries: 12},
			"both":      {Estimator: hutch.HutchPP, Queries: 12, TraceError: 1e-3},
		} {
			if arraytest.Emulated(t, dev) && name != "refined" {
				continue
			}
			o.Batch, o.Parallel = 3, 2
			for _, c := range []struct {
				mode  string
				after int64
			}{{"none", 0}, {"solver", 0}, {"derivative", 0}, {"derivative", 3}, {"nan", 0}, {"nan", 2}, {"panic", 3}} {
				t.Run(fmt.Sprintf("%s/%s after %d", name, c.mode, c.after), func(t *testing.T) {
					var want []string
					plain := newPipeline(t, s, o)
					format := func(r pipeline.Risk) string {
						return fmt.Sprintf("%d %x %x", r.Index, r.SURE,
							r.Trace.Trace)
					}
					for risk, err := range plain.StreamFrom(t.Context(), first, each(samples(-1))) {
						if err != nil {
							t.Fatal(err)
						}
						want = append(want, format(risk))
					}
					for _, keepGoing := range []bool{true, false} {
						o := o
						o.KeepGoing = keepGoing
						p := newPipeline(t, brittle{s, c.mode, c.after}, o)
						bad := 2
						next := 0
						leaks(t, dev, func() {
							for risk, err := range p.StreamFrom(t.Context(), first, each(samples(bad))) {
								var own *pipeline.SampleError
								var panicked *stages.PanicError
								switch {
								case c.mode == "panic" && err != nil:
									if risk.Index != -1 || !errors.As(err, &panicked) || errors.As(err, &own) {
										t.Errorf("index %d, error %v", risk.Index, err)
									}
									return
								case next != bad || c.mode == "none":
									if err != nil || next != bad && format(risk) != want[next] {
										t.Errorf("%s, error %v; expected %s", format(risk), err, want[next])
									}
								case risk.Index != first+bad || !errors.As(err, &own) || own.Index != first+bad ||
									!strings.HasPrefix(err.Error(), "sample 12: "):
									t.Errorf("index %d, error %v", risk.Index, err)
								case c.mode != "nan" && !errors.Is(err, errBrittle):
									t.Errorf("error %v, expected %v", err, errBrittle)
								}
								next++
							}
							expected := n
							if !keepGoing && c.mode != "none" {
								expected = bad + 1
							}
							if next != expected || c.mode == "panic" {
								t.Errorf("%d outcomes, expected %d", next, expected)
							}
						})
						if p.InFlight() != 0 {
							t.Errorf("%d samples in flight", p.InFlight())
						}
					}
				})
			}
		}
	})
}

// each yields samples.
func each(ys [][]float64) func(yield func([]float64, error) bool) {
	return func(yield func([]float64, error) bool) {
		for _, y := range ys {
			if !yield(y, nil) {
				return
			}
		}
	}
}

// A y whose squares overflow, or vanish, has no risk, and the samples behind it have theirs;
// a y of 0 has one.
func TestOverflowIsTheSamplesOwn(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := quick(t, dev)
		p := newPipeline(t, s, pipeline.Options{KeepGoing: true})
		var ys [][]float64
		for y := range stream(d, 5) {
			ys = append(ys, y)
		}
		for i := range d {
			ys[1][i] *= 1e200
			ys[2][i] *= 1e-170
			ys[3][i] = 0
		}
		next := 0
		for risk, err := range p.Stream(t.Context(), each(ys)) {
			if risk.Index != next || (err != nil) != (next == 1 || next == 2) {
				t.Errorf("sample %d has index %d and error %v", next, risk.Index, err)
			}
			next++
		}
		if next != 5 {
			t.Errorf("%d outcomes, expected 5", next)
		}
	})
}
