package pipeline

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"runtime/debug"

	"gonum.org/v1/gonum/floats"

	"surepipe/input"
	"surepipe/risk"
	"surepipe/stages"
)

type stream struct {
	*Pipeline
	caller context.Context

	// A sample takes a place in flight until its outcome is known, and one in the
	// window until that is yielded.
	places, window chan struct{}
	// refused are the samples that are rejected before the stages.
	refused chan stages.Outcome
	begun   int // samples begun; written by feed
	told    told

	// early are the outcomes of samples after next, which is the one to yield.
	early map[int]stages.Outcome
	next  int
}

// feed checks the samples and sends each on when there is a place in flight and in the window.
func (s *stream) feed(ctx context.Context, ys iter.Seq2[[]float64, error], out chan<- stages.Sample) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("pipeline: source of samples: %w", &stages.PanicError{Value: r, Stack: debug.Stack()})
		}
	}()
	for y, err := range ys {
		index := s.begun
		for _, gate := range []chan<- struct{}{s.places, s.window} {
			select {
			case gate <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.begun++
		s.begin(s.caller, index)
		if err == nil {
			err = checkSample(y, s.d, s.o.Sigma2)
		}
		var sample chan<- stages.Sample
		var refused chan<- stages.Outcome
		if err == nil {
			sample = out
		} else {
			refused, err = s.refused, &SampleError{Index: index, Err: err}
		}
		select {
		case sample <- stages.Sample{Index: index, Y: y}:
		case refused <- stages.Outcome{Risk: Risk{Index: index}, Err: err}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil && !s.o.KeepGoing {
			return nil
		}
	}
	return nil
}

// leastSize is the least size of samples whose squares, and those of small fractions of them, do
// not underflow. The solvers measure their progress by norms.
const leastSize = 1e-140

func checkSample(y []float64, d int, sigma2 float64) error {
	if len(y) != d {
		return input.Errorf("y has %d values, expected %d", len(y), d)
	}
	squares := floats.Dot(y, y)
	if !(squares <= math.MaxFloat64) {
		for i, v := range y {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return input.Errorf("y[%d] is %g, expected a finite number", i, v)
			}
		}
	}
	if risk.Overflows(squares, sigma2, d) {
		return input.Errorf("y and sigma2 are too far apart, or too large, for a finite risk: ||y||^2 is %g and "+
			"sigma2 %g", squares, sigma2)
	}
	if squares >= float64(d)*leastSize*leastSize {
		return nil
	}
	if largest := floats.Norm(y, math.Inf(1)); largest > 0 && largest < leastSize {
		return input.Errorf("y has no entry above %.3g in size, expected some above %g, because squares underflow: "+
			"multiply y, and sqrt(sigma2), by a constant", largest, leastSize)
	}
	return nil
}

// inOrder yields the outcomes in the order of their samples and reports whether the stream goes on
// to its end: that is, the consumer still wants results, and no failure has ended the stream.
func (s *stream) inOrder(done <-chan stages.Outcome, yield func(Risk, error) bool) bool {
	for {
		var o stages.Outcome
		var ok bool
		select {
		case o, ok = <-done:
			if !ok {
				return true
			}
		case o = <-s.refused:
		}
		<-s.places
		s.told.forget(o.Risk.Index)
		s.early[o.Risk.Index] = o
		s.finish(o)
		for {
			o, ok := s.early[s.next]
			if !ok {
				break
			}
			delete(s.early, s.next)
			s.next++
			<-s.window
			if !yield(o.Risk, o.Err) || o.Err != nil && !s.o.KeepGoing {
				return false
			}
		}
	}
}

func (s *stream) finish(o stages.Outcome) {
	if done := o.Risk; o.Err == nil && s.o.Logger.Enabled(s.caller, slog.LevelInfo) {
		headline := DefaultCriterion(s.solver.Problem(), s.o.Sigma2, s.o.LeaveOut != nil)
		s.o.Logger.InfoContext(s.caller, "sample done", "sample", done.Index, string(headline),
			done.Value(headline), "iterations", done.Iterations,
			"converged", done.Converged, "solve", done.Solve, "divergence", done.Divergence,
			"cache_bytes", done.CacheBytes, "device_peak_bytes", s.dev.Stats().PeakBytes)
	}
	s.end(s.caller, o)
}

// abandon reports, when all work has stopped, the end of every sample that was begun and has no
// outcome.
func (s *stream) abandon(err error) {
	for i := s.next; i < s.begun; i++ {
		if _, ok := s.early[i]; !ok {
			s.end(s.caller, stages.Outcome{Risk: Risk{Index: i}, Err: err})
		}
	}
}
