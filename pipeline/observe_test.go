package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// ledger keeps what Observe was told.
type ledger struct {
	mu     sync.Mutex
	events map[int][]pipeline.Event
}

func (l *ledger) observe(_ context.Context, e pipeline.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		l.events = map[int][]pipeline.Event{}
	}
	l.events[e.Sample] = append(l.events[e.Sample], e)
}

// balanced fails unless every sample from 0 on has one beginning, one end, and at the end
// either a result or an error; it counts the results.
func (l *ledger) balanced(t *testing.T, p *pipeline.Pipeline) (results int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range len(l.events) {
		e := l.events[i]
		if len(e) != 2 || e[0].Ended || !e[1].Ended || (e[1].Risk == nil) == (e[1].Err == nil) {
			t.Errorf("sample %d: events %+v", i, e)
			continue
		}
		if r := e[1].Risk; r != nil {
			results++
			if r.Index != i || r.Solve <= 0 || r.Divergence <= 0 || r.Trace.Queries == 0 && !r.Trace.Exact ||
				r.Iterations == 0 {
				t.Errorf("sample %d ended with %+v", i, *r)
			}
		}
	}
	if n := p.InFlight(); n != 0 {
		t.Errorf("%d samples in flight when all is over", n)
	}
	return results
}

// quick is a LASSO that is solved in no time.
func quick(t testing.TB, dev array.Device) (vjp.Solver, int) {
	t.Helper()
	const d, p = 24, 32
	x := linops.NewDense(dev, mat.NewDense(d, p, gaussian(rand.New(rand.NewPCG(5, 6)), d*p)))
	s, err := vjp.NewSolver(context.Background(), "fista", vjp.Problem{A: x, R: prox.NewL1(20), Device: dev},
		vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Release(); x.Release() })
	return s, d
}

// soft is soft thresholding at 1 in dimension d, by a solver that first asks before.
func soft(t testing.TB, dev array.Device, d int, before func(ctx context.Context, y []float64) error) vjp.Solver {
	t.Helper()
	s, err := vjp.NewSolver(context.Background(), "ista", vjp.Problem{A: linops.Identity(d), R: prox.NewL1(1),
		Device: dev}, vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return guarded{s, before}
}

type guarded struct {
	vjp.Solver
	before func(ctx context.Context, y []float64) error
}

func (g guarded) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	if g.before != nil {
		if err := g.before(ctx, y.ToHost()); err != nil {
			return nil, err
		}
	}
	return g.Solver.Solve(ctx, y)
}

func TestEverySampleBeginsAndEndsOnce(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := quick(t, dev)
		for name, c := range map[string]struct {
			samples, stopAfter int
			cancel             bool
		}{
			"all":       {9, 100, false},
			"break":     {1 << 30, 3, false},
			"cancelled": {1 << 30, 3, true},
		} {
			t.Run(name, func(t *testing.T) {
				var l ledger
				p := newPipeline(t, s, pipeline.Options{Parallel: 3, Observe: l.observe})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				leaks(t, dev, func() {
					n := 0
					for _, err := range p.Stream(ctx, stream(d, c.samples)) {
						if err != nil && !c.cancel {
							t.Fatal(err)
						}
						if n++; n == c.stopAfter && c.cancel {
							cancel()
						} else if n == c.stopAfter {
							break
						}
					}
				})
				if n := l.balanced(t, p); n < min(c.samples, c.stopAfter) {
					t.Errorf("%d results were observed", n)
				}
			})
		}
	})
}

// Streams of one pipeline at the same time: the context tells their events apart, and
// the gauge is that of all.
func TestObserveKnowsWhoseSampleItIs(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		type key struct{}
		var arrive sync.WaitGroup
		arrive.Add(4)
		var p *pipeline.Pipeline
		s := soft(t, dev, 3, func(context.Context, []float64) error {
			// All four are in flight together.
			arrive.Done()
			arrive.Wait()
			if n := p.InFlight(); n < 1 || n > 4 {
				t.Errorf("%d samples in flight, expected at most 4", n)
			}
			return nil
		})
		var mu sync.Mutex
		ended := map[any]int{}
		p = newPipeline(t, s, pipeline.Options{Observe: func(ctx context.Context, e pipeline.Event) {
			if e.Ended && e.Err == nil {
				mu.Lock()
				ended[ctx.Value(key{})]++
				mu.Unlock()
			}
		}})
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if _, err := p.Estimate(context.WithValue(context.Background(), key{}, i),
					[]float64{1, 2, 3}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range 4 {
			if ended[i] != 1 {
				t.Errorf("call %d ended %d samples, expected 1", i, ended[i])
			}
		}
		if n := p.InFlight(); n != 0 {
			t.Errorf("%d samples in flight when all is over", n)
		}
	})
}

// With KeepGoing bad samples have their errors in their places; without, the first one
// ends the stream, and no result before it is lost.
func TestBadSamplesHaveTheirPlace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := quick(t, dev)
		broken := errors.New("the disk is gone")
		ys := func(yield func([]float64, error) bool) {
			i := 0
			for y := range stream(d, 12) {
				var err error
				switch i {
				case 5:
					y = y[:d-1]
				case 6:
					y[7] = math.NaN()
				case 9:
					err = broken
				}
				if i++; !yield(y, err) {
					return
				}
			}
		}
		for _, keepGoing := range []bool{true, false} {
			var l ledger
			p := newPipeline(t, s, pipeline.Options{Parallel: 3, KeepGoing: keepGoing, Observe: l.observe})
			next, want := 0, 6
			if keepGoing {
				want = 12
			}
			leaks(t, dev, func() {
				for risk, err := range p.Stream(context.Background(), ys) {
					text := map[int]string{5: "y has 23 values, expected 24", 6: "y[7] is NaN", 9: broken.Error()}[next]
					if risk.Index != next || (err != nil) != (text != "") {
						t.Fatalf("sample %d has index %d and error %v, expected %q", next, risk.Index, err, text)
					}
					if err != nil && (!strings.Contains(err.Error(), text) ||
						!strings.HasPrefix(err.Error(), fmt.Sprintf("sample %d: ", next))) {
						t.Errorf("sample %d: error %v, expected %q", next, err, text)
					}
					if next == 9 && !errors.Is(err, broken) {
						t.Errorf("%v does not wrap the source's error", err)
					}
					next++
				}
			})
			if next != want {
				t.Errorf("keep going: %t, %d outcomes, expected %d", keepGoing, next, want)
			}
			if n := l.balanced(t, p); n != map[bool]int{true: 9, false: 5}[keepGoing] {
				t.Errorf("keep going: %t, %d results were observed", keepGoing, n)
			}
		}
	})
}

// A panic that leaves the loop's body, as net/http's ErrAbortHandler does, stops
// the stages before their memory is freed.
func TestPanicInTheLoopLeaksNothing(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := quick(t, dev)
		var l ledger
		p := newPipeline(t, s, pipeline.Options{Parallel: 4, Observe: l.observe})
		leaks(t, dev, func() {
			defer func() {
				if r := recover(); r != "abort" {
					t.Errorf("recovered %v", r)
				}
			}()
			for range p.Stream(context.Background(), stream(d, 1<<30)) {
				panic("abort")
			}
		})
		l.balanced(t, p)
	})
}

func TestPanicInTheSourceIsAnError(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		p := newPipeline(t, soft(t, dev, 3, nil), pipeline.Options{})
		ys := func(yield func([]float64, error) bool) {
			yield([]float64{1, 2, 3}, nil)
			panic("no more")
		}
		leaks(t, dev, func() {
			var indices []int
			var last error
			for risk, err := range p.Stream(context.Background(), ys) {
				indices, last = append(indices, risk.Index), err
			}
			if !slices.Equal(indices, []int{0, -1}) || last == nil ||
				!strings.Contains(last.Error(), "source of samples: panic: no more") {
				t.Errorf("samples %v, error %v", indices, last)
			}
		})
	})
}

// A failure is yielded while the source still waits, so that the consumer can stop it.
func TestFailureDoesNotWaitForTheSource(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		broken := errors.New("no solution")
		p := newPipeline(t, soft(t, dev, 3, func(context.Context, []float64) error { return broken }),
			pipeline.Options{})
		wait := make(chan struct{})
		ys := func(yield func([]float64, error) bool) {
			if yield([]float64{1, 2, 3}, nil) {
				<-wait
			}
		}
		leaks(t, dev, func() {
			defer time.AfterFunc(5*time.Second, func() { panic("the failure waits for the source") }).Stop()
			for risk, err := range p.Stream(context.Background(), ys) {
				if risk.Index != 0 || !errors.Is(err, broken) {
					t.Errorf("sample %d, error %v", risk.Index, err)
				}
				close(wait)
			}
		})
	})
}

// Under a sweep every event names its point: its place, its stage and its weights.
func TestObserveNamesThePointsOfASweep(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		var mu sync.Mutex
		begun, ended := map[int][]float64{}, map[int]float64{}
		o := pipeline.SweepOptions{Refine: 2, Options: pipeline.Options{Sigma2: 1, Parallel: 2,
			Observe: func(_ context.Context, e pipeline.Event) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case !e.Ended:
					begun[e.Sample] = e.Weights
				case e.Risk == nil || e.Risk.Index != e.Sample || !slices.Equal(e.Weights, begun[e.Sample]):
					t.Errorf("point %d ended with %+v", e.Sample, e)
				default:
					ended[e.Sample] = e.Risk.SURE
					if want := map[bool]pipeline.SweepStage{true: pipeline.GridStage,
						false: pipeline.RefineStage}[e.Sample < 5]; e.Stage != want {
						t.Errorf("point %d is of stage %q, expected %q", e.Sample, e.Stage, want)
					}
				}
			}}}
		points := 0
		grid := [][]float64{{0.02 * c.max, 0.05 * c.max, 0.1 * c.max, 0.2 * c.max, 0.5 * c.max}}
		for point, err := range pipeline.Sweep(context.Background(), c.y, c.Family, grid, o) {
			if err != nil {
				t.Fatal(err)
			}
			if point.Stage == pipeline.MinimizerStage {
				break
			}
			points++
			mu.Lock()
			if !slices.Equal(begun[point.Index], point.Weights) || ended[point.Index] != point.SURE {
				t.Errorf("point %d with weights %v: observed %v, SURE %g", point.Index, point.Weights,
					begun[point.Index], ended[point.Index])
			}
			mu.Unlock()
		}
		if len(begun) != points || len(ended) != points {
			t.Errorf("%d points, %d begun, %d ended", points, len(begun), len(ended))
		}
	})
}

// A point that fails is named too, whatever fails there: its regularizer, which may panic, or its
// solve, on the grid or beyond it. The error of the sweep names it by its type.
func TestObserveNamesThePointThatFails(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		broken := errors.New("no such weight")
		lasso := c.Regularizer
		grid := [][]float64{{0.02 * c.max, 0.05 * c.max, 0.1 * c.max, 0.2 * c.max, 0.5 * c.max}}
		onGrid := func(w float64) bool { return slices.Contains(grid[0], w) }
		for name, f := range map[string]struct {
			fails func(w float64) bool
			how   func() (prox.Prox, error)
			stage pipeline.SweepStage
			want  string
		}{
			"regularizer": {func(w float64) bool { return w == grid[0][2] },
				func() (prox.Prox, error) { return nil, broken }, pipeline.GridStage, "no such weight"},
			"panic": {func(w float64) bool { return w == grid[0][1] },
				func() (prox.Prox, error) { panic("no weight") }, pipeline.GridStage, "panic: no weight"},
			"solve": {func(w float64) bool { return w == grid[0][0] }, func() (prox.Prox, error) {
				return prox.NewFunc(0, func(dst, v []float64, t float64) error { return broken },
					func(dst, v, z []float64, t float64) {}, nil), nil
			}, pipeline.GridStage, "no such weight"},
			"refined": {func(w float64) bool { return !onGrid(w) }, func() (prox.Prox, error) { return nil, broken },
				pipeline.RefineStage, "no such weight"},
		} {
			t.Run(name, func(t *testing.T) {
				family := c.Family
				family.Regularizer = func(w []float64) (prox.Prox, error) {
					if f.fails(w[0]) {
						return f.how()
					}
					return lasso(w)
				}
				var mu sync.Mutex
				begun, ended, failed := 0, 0, []pipeline.Event{}
				o := pipeline.SweepOptions{Options: pipeline.Options{Sigma2: 1,
					Observe: func(_ context.Context, e pipeline.Event) {
						mu.Lock()
						defer mu.Unlock()
						switch {
						case len(e.Weights) != 1 || e.Stage == "":
							t.Errorf("an event without a point: %+v", e)
						case !e.Ended:
							begun++
						case e.Err != nil:
							failed = append(failed, e)
							ended++
						default:
							ended++
						}
					}}}
				var last error
				leaks(t, dev, func() {
					for _, err := range pipeline.Sweep(t.Context(), c.y, family, grid, o) {
						last = err
					}
				})
				if begun != ended || len(failed) != 1 {
					t.Fatalf("%d begun, %d ended, failed %+v", begun, ended, failed)
				}
				var point *pipeline.PointError
				if !errors.As(last, &point) || point.Stage != f.stage || !f.fails(point.Weights[0]) ||
					!strings.Contains(last.Error(), f.want) || strings.Contains(last.Error(), "sample") &&
					name != "panic" {
					t.Errorf("the sweep ended with %v", last)
				}
				if e := failed[0]; e.Sample != point.Index || e.Stage != point.Stage ||
					!slices.Equal(e.Weights, point.Weights) || !errors.As(e.Err, &point) || e.Risk != nil {
					t.Errorf("observed %+v, the sweep ended with %v", e, last)
				}
			})
		}
	})
}

// b is downloaded where it is asked for, and mu_hat always; the choices of the solver are there.
func TestBIsDownloadedWhenAsked(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := quick(t, dev)
		choices := []vjp.Choice{{Part: "method", Chosen: "fista", Reason: "it was asked for"}}
		for _, keep := range []bool{false, true} {
			p, err := pipeline.New(choosing{s, choices}, pipeline.Options{Sigma2: 4, KeepB: keep})
			if err != nil {
				t.Fatal(err)
			}
			for y := range stream(d, 1) {
				risk, err := p.Estimate(t.Context(), y)
				if err != nil {
					t.Fatal(err)
				}
				if len(risk.MuHat) != d || len(risk.B) != map[bool]int{true: 32}[keep] ||
					!slices.Equal(risk.Choices, choices) {
					t.Errorf("KeepB %v: mu_hat of length %d, b of length %d, choices %v", keep, len(risk.MuHat),
						len(risk.B), risk.Choices)
				}
			}
		}
	})
}

// choosing is a solver that says what it chose.
type choosing struct {
	vjp.Solver
	choices []vjp.Choice
}

func (c choosing) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	s, err := c.Solver.Solve(ctx, y)
	if err == nil {
		s.Choices = c.choices
	}
	return s, err
}
