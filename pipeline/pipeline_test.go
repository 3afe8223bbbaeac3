package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/vjp"
)

func gaussian(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = 2 * rng.NormFloat64()
	}
	return x
}

// lasso is a problem with d = 150 > 102, so that Hutch++ is not exact.
func lasso(t *testing.T, dev array.Device) (vjp.Solver, int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	const d, p = 120, 160
	x := linops.NewDense(dev, mat.NewDense(d, p, gaussian(rng, d*p)))
	s, err := vjp.NewSolver(context.Background(), "fista", vjp.Problem{A: x, R: prox.NewL1(40), Device: dev},
		vjp.Options{Tol: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Release(); x.Release() })
	return s, d
}

func completion(t *testing.T, dev array.Device) (vjp.Solver, int) {
	t.Helper()
	shape := array.Shape{Rows: 20, Cols: 15}
	if arraytest.Emulated(t, dev) {
		shape = array.Shape{Rows: 6, Cols: 5}
	}
	var idx []int
	for i := range shape.Len() {
		if i%7 < 3 {
			idx = append(idx, i)
		}
	}
	sel, err := linops.NewSelection(dev, shape.Len(), idx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := vjp.NewSolver(context.Background(), "admm", vjp.Problem{A: sel, R: lowrank.NewNuclear(shape, 5),
		Device: dev}, vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s, len(idx)
}

func newPipeline(t testing.TB, s vjp.Solver, o pipeline.Options) *pipeline.Pipeline {
	t.Helper()
	o.Sigma2, o.KeepB = 4, true
	p, err := pipeline.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stream yields n reproducible samples of length d.
func stream(d, n int) iter.Seq2[[]float64, error] {
	return func(yield func([]float64, error) bool) {
		rng := rand.New(rand.NewPCG(3, 4))
		for range n {
			if !yield(gaussian(rng, d), nil) {
				return
			}
		}
	}
}

// leaks runs f and fails if it leaves goroutines or device memory behind.
func leaks(t *testing.T, dev array.Device, f func()) {
	t.Helper()
	live := dev.Stats().Live
	routines := runtime.NumGoroutine()
	f()
	if got := dev.Stats().Live; got != live {
		t.Errorf("%d batches leaked", got-live)
	}
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		// The host's helpers start with the first parallel operation and stay.
		extra := runtime.NumGoroutine() - routines - (runtime.GOMAXPROCS(0) - 1)
		if extra <= 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines leaked", extra)
		}
	}
}

// Risks are bit-identical for any number of samples in flight, any batch of probes, and beside another stream of the
// same pipeline.
func TestResultsDoNotDependOnParallelismOrBatch(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for name, problem := range map[string]func(*testing.T, array.Device) (vjp.Solver, int){"lasso": lasso,
			"completion": completion} {
			s, d := problem(t, dev)
			estimators := hutch.Estimators()
			if arraytest.Emulated(t, dev) || testing.Short() {
				estimators = estimators[:2]
				t.Logf("%s: %v only", dev.Name(), estimators)
			}
			for _, estimator := range estimators {
				var want string
				for _, o := range []pipeline.Options{{Parallel: 1}, {Parallel: 2, Batch: 1}, {Parallel: 8, Batch: 7},
					{Parallel: 3, Batch: 1000}} {
					o.Estimator = estimator
					p := newPipeline(t, s, o)
					got := make([]string, 1+o.Parallel/8)
					var wg sync.WaitGroup
					for i := range got {
						wg.Go(func() {
							for r, err := range p.Stream(context.Background(), stream(d, 3)) {
								if err != nil {
									t.Error(err)
									return
								}
								got[i] += fmt.Sprintf("%d %x %x %x %x %x %v\n", r.Index, r.SURE, r.StdErr,
									r.Trace.Trace, r.Trace.StdErr, r.MuHat[0], r.Convergence)
							}
						})
					}
					wg.Wait()
					if want == "" {
						want = got[0]
					}
					for _, lines := range got {
						if lines != want {
							t.Errorf("%s, %s, %d in flight, batches of %d:\n%s\nnot\n%s", name, estimator,
								o.Parallel, o.Batch, lines, want)
						}
					}
				}
			}
		}
	})
}

func TestCancellingTheStreamStopsWithinASecond(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := completion(t, dev)
		leaks(t, dev, func() {
			ctx, cancel := context.WithCancel(context.Background())
			var last error
			var cancelled time.Time
			n := 0
			for _, err := range newPipeline(t, s, pipeline.Options{Parallel: 4}).Stream(ctx, stream(d, 1<<30)) {
				if n++; n == 5 {
					cancelled = time.Now()
					cancel()
				}
				last = err
			}
			cancel()
			if !errors.Is(last, context.Canceled) {
				t.Errorf("the stream ended with %v", last)
			}
			if took := time.Since(cancelled); took > time.Second {
				t.Errorf("stopping took %v", took)
			}
		})
	})
}

func TestErrorsEndTheStreamAndNameTheSample(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := completion(t, dev)
		broken := errors.New("the disk is gone")
		for name, c := range map[string]struct {
			bad  []float64
			err  error
			want string
		}{
			"source": {nil, broken, "sample 3: the disk is gone"},
			"length": {make([]float64, d-1), nil, fmt.Sprintf("sample 3: y has %d values, expected %d", d-1, d)},
			"nan": {append(make([]float64, d-1), math.NaN()), nil,
				fmt.Sprintf("sample 3: y[%d] is NaN, expected a finite number", d-1)},
			"infinite": {append(make([]float64, d-1), math.Inf(-1)), nil,
				fmt.Sprintf("sample 3: y[%d] is -Inf, expected a finite number", d-1)},
		} {
			t.Run(name, func(t *testing.T) {
				leaks(t, dev, func() {
					ys := func(yield func([]float64, error) bool) {
						for y := range stream(d, 3) {
							if !yield(y, nil) {
								return
							}
						}
						yield(c.bad, c.err)
					}
					var last error
					for _, err := range newPipeline(t, s, pipeline.Options{Parallel: 2}).Stream(context.Background(),
						ys) {
						last = err
					}
					if last == nil || last.Error() != c.want {
						t.Errorf("the stream ended with %v, expected %q", last, c.want)
					}
				})
			})
		}
	})
}

// A slow consumer holds the source up: no more samples are taken than the
// window admits.
func TestSlowConsumerHoldsUpTheSource(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := completion(t, dev)
		var taken atomic.Int64
		ys := func(yield func([]float64, error) bool) {
			for y := range stream(d, 1<<30) {
				taken.Add(1)
				if !yield(y, nil) {
					return
				}
			}
		}
		seen := int64(0)
		for range newPipeline(t, s, pipeline.Options{Parallel: 2}).Stream(context.Background(), ys) {
			time.Sleep(20 * time.Millisecond)
			if seen++; taken.Load()-seen > 10 {
				t.Fatalf("%d samples taken, %d consumed", taken.Load(), seen)
			}
			if seen == 10 {
				break
			}
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, _ := completion(t, dev)
		for _, c := range []struct {
			o            pipeline.Options
			option, want string
		}{
			{pipeline.Options{Sigma2: -1}, "Sigma2", "sigma2 is -1"},
			{pipeline.Options{Sigma2: math.NaN()}, "Sigma2", "sigma2 is NaN"},
			{pipeline.Options{Sigma2: 1, Estimator: hutch.HutchPP, Queries: 100}, "", "multiple of 3"},
			{pipeline.Options{Sigma2: 1, Estimator: "hutch"}, "", `"hutch"`},
			{pipeline.Options{Sigma2: 1, Parallel: -1}, "Parallel", "-1 samples"},
			{pipeline.Options{Sigma2: 1, Batch: -2}, "Batch", "-2 probes"},
		} {
			_, err := pipeline.New(s, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: error %v, expected one with %q", c.o, err, c.want)
			}
			var option *pipeline.OptionError
			var plan *hutch.PlanError
			if c.option != "" && (!errors.As(err, &option) || option.Option != c.option) || c.option == "" &&
				!errors.As(err, &plan) {
				t.Errorf("%+v: error %v of type %T", c.o, err, err)
			}
		}
	})
}

// The length of the samples and the device are the solver's.
func TestThePipelinesDimensionsAreTheSolvers(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	s, d := quick(t, dev)
	p := newPipeline(t, s, pipeline.Options{})
	if p.Dim() != d {
		t.Errorf("samples of length %d for a solver of y of length %d", p.Dim(), d)
	}
	if _, err := p.Estimate(t.Context(), make([]float64, d+1)); err == nil ||
		!strings.Contains(err.Error(), "y has 25 values, expected 24") {
		t.Errorf("a sample that is too long: %v", err)
	}
	for _, solver := range []vjp.Solver{nil, problemless{s}} {
		if _, err := pipeline.New(solver, pipeline.Options{Sigma2: 1}); err == nil {
			t.Errorf("a pipeline with the solver %v", solver)
		}
	}
}

// problemless does not say what it solves.
type problemless struct{ vjp.Solver }

func (problemless) Problem() vjp.Problem { return vjp.Problem{} }
