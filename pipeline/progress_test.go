package pipeline_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/vjp"
)

// slow is an operator whose products take long. It counts them.
type slow struct {
	linops.Operator
	products atomic.Int64
	takes    time.Duration
}

func (s *slow) Forward(dst, b array.Batch) {
	s.wait()
	s.Operator.Forward(dst, b)
}

func (s *slow) Adjoint(dst, z array.Batch) {
	s.wait()
	s.Operator.Adjoint(dst, z)
}

func (s *slow) wait() {
	s.products.Add(1)
	time.Sleep(s.takes)
}

// slowProblem is a small LASSO with a slow operator of no structure.
func slowProblem(t *testing.T, dev array.Device, takes time.Duration) (*slow, vjp.Problem) {
	const d, p = 24, 1100 // too many columns to write the operator down as a matrix, or to invert one
	x := linops.NewDense(dev, mat.NewDense(d, p, gaussian(rand.New(rand.NewPCG(7, 8)), d*p)))
	t.Cleanup(x.Release)
	a := &slow{Operator: x, takes: takes}
	return a, vjp.Problem{A: a, R: prox.NewL1(12), Device: dev}
}

// slowCases are ways to compute an estimate, with the stages that they must report.
var slowCases = []struct {
	name, solver string
	derivative   vjp.Derivative
	stages       []progress.Stage
}{
	{"implicit", "fista", vjp.Implicit, []progress.Stage{progress.Norm, progress.Iterations, progress.Pilot,
		progress.ConjugateGradients, progress.Probes}},
	{"unrolled", "fista", vjp.Unrolled, []progress.Stage{progress.Iterations, progress.Reverse, progress.Probes}},
	{"inner", "admm", vjp.Implicit, []progress.Stage{progress.Iterations, progress.InnerSteps,
		progress.ConjugateGradients}},
	{"newton", "active-set", vjp.Implicit, []progress.Stage{progress.Gram, progress.Newton, progress.Factorization}},
}

// No matter what is computed, there are at most few products with A between two reports: with
// products of a tenth of a second, reports come at least once a second. A cancelled estimate does
// no more products than that.
func TestReportsComeOftenAndCancellationIsQuick(t *testing.T) {
	const few = 8
	dev := array.NewHost()
	y := gaussian(rand.New(rand.NewPCG(9, 10)), 24)
	for i := range y {
		y[i] *= 10
	}
	for _, c := range slowCases {
		t.Run(c.name, func(t *testing.T) {
			a, problem := slowProblem(t, dev, 0)
			var last, most, reports, stop atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			seen := map[progress.Stage]bool{}
			report := func(r progress.Report) {
				now := a.products.Load()
				most.Store(max(most.Load(), now-last.Load()))
				last.Store(now)
				seen[r.Stage] = true
				if reports.Add(1) == stop.Load() {
					cancel()
				}
			}
			s, err := vjp.NewSolver(progress.With(ctx, report), c.solver, problem,
				vjp.Options{Derivative: c.derivative, Tol: 1e-6})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			p := newPipeline(t, s, pipeline.Options{Estimator: "hutchinson", Queries: 4,
				Progress: func(p pipeline.Progress) { report(p.Report) }})
			if _, err := p.Estimate(ctx, y); err != nil {
				t.Fatal(err)
			}
			if n := most.Load(); n > few {
				t.Errorf("%d products with A between two reports", n)
			}
			for _, stage := range c.stages {
				if !seen[stage] {
					t.Errorf("no report of %s", stage)
				}
			}
			all := reports.Load()
			for _, share := range []int64{10, 2} {
				ctx, cancel = context.WithCancel(t.Context())
				reports.Store(0)
				stop.Store(max(all/share, 2))
				leaks(t, dev, func() {
					if _, err := p.Estimate(ctx, y); !errors.Is(err, context.Canceled) {
						t.Errorf("error %v, expected the context's", err)
					}
				})
				if after := a.products.Load() - last.Load(); after > few {
					t.Errorf("%d products with A after the end of the context", after)
				}
				cancel()
			}
		})
	}
}

// With slow products the time between two reports, and that to stop, are far below a second.
func TestSlowProductsAreReported(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		_, problem := slowProblem(t, dev, 5*time.Millisecond)
		s, err := vjp.NewSolver(t.Context(), "fista", problem, vjp.Options{Tol: 1e-3})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		last, longest := time.Now(), time.Duration(0)
		p := newPipeline(t, s, pipeline.Options{Progress: func(pipeline.Progress) {
			longest, last = max(longest, time.Since(last)), time.Now()
		}})
		y := gaussian(rand.New(rand.NewPCG(9, 10)), 24)
		_, err = p.Estimate(ctx, y)
		if err == nil {
			t.Fatal("it ends before its time")
		}
		if longest > time.Second || time.Since(last) > time.Second {
			t.Errorf("%v between two reports, ended after %v", longest, time.Since(last))
		}
	})
}

// Reports of samples in flight at once name theirs, and a sample's probes are counted up to all.
func TestReportsNameTheirSample(t *testing.T) {
	dev := array.NewHost()
	s, d := quick(t, dev)
	type count struct{ iterations, done, total int }
	var mu sync.Mutex // the consumer reads while later samples report
	counts := map[int]count{}
	p := newPipeline(t, s, pipeline.Options{Parallel: 3, Estimator: "hutchinson", Batch: 4,
		Progress: func(p pipeline.Progress) {
			mu.Lock()
			defer mu.Unlock()
			c := counts[p.Sample]
			if p.Done < c.done || p.Total < c.total {
				t.Errorf("sample %d: %d of %d probes after %d of %d", p.Sample, p.Done, p.Total, c.done, c.total)
			}
			c.done, c.total = p.Done, p.Total
			if p.Report.Stage == progress.Iterations {
				c.iterations = p.Report.Step
			}
			counts[p.Sample] = c
		}})
	n := 0
	for risk, err := range p.Stream(t.Context(), stream(d, 7)) {
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		c := counts[risk.Index]
		mu.Unlock()
		if c.iterations != risk.Iterations || c.done != risk.Trace.Queries || c.total != c.done {
			t.Errorf("sample %d: %+v reported of %d iterations and %d probes", risk.Index, c, risk.Iterations,
				risk.Trace.Queries)
		}
		n++
	}
	if len(counts) != n {
		t.Errorf("%d samples reported, expected %d", len(counts), n)
	}
}

// Without a function, and with one, a report allocates nothing.
func TestReportsAllocateNothing(t *testing.T) {
	n := 0
	for _, ctx := range []context.Context{t.Context(), progress.With(t.Context(), func(progress.Report) { n++ })} {
		report := progress.From(ctx)
		if a := testing.AllocsPerRun(100, func() {
			report(progress.Report{Stage: progress.Iterations, Step: n, Measure: 1, Goal: 1e-8})
		}); a > 0 {
			t.Errorf("%g allocations a report", a)
		}
	}
	if n == 0 {
		t.Error("the function is not called")
	}
}
