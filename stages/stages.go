package stages

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"surepipe/array"
)

// Stage is a typed function between channels: it receives until in is closed or ctx is done, and
// sends its results to out. It neither closes out nor keeps a value that it has sent. It returns
// ctx's error when cancelled and the first error of its own work otherwise.
type Stage[In, Out any] func(ctx context.Context, in <-chan In, out chan<- Out) error

// Step is what a stage does with one value: it sends its results by send, in any number. It returns ctx's error when
// cancelled and the first error of its own work otherwise.
type Step[In, Out any] func(ctx context.Context, v In, send func(Out) error) error

// Loop is the stage that takes a step with all that it receives.
func Loop[In, Out any](step Step[In, Out]) Stage[In, Out] {
	return func(ctx context.Context, in <-chan In, out chan<- Out) error {
		return Each(ctx, in, func(v In) error {
			return step(ctx, v, func(o Out) error { return send(ctx, out, o) })
		})
	}
}

// Start runs workers copies of a stage in the group, of which ctx is, and returns the channel on which they send,
// which is closed when all have returned. Its buffer holds one value for each worker, so that a
// slow receiver holds the stage up. A panic in a stage becomes an error, a [PanicError].
func Start[In, Out any](ctx context.Context, g *errgroup.Group, workers int, in <-chan In,
	stage Stage[In, Out]) <-chan Out {
	out := make(chan Out, workers)
	var running atomic.Int64
	running.Store(int64(workers))
	for range workers {
		g.Go(func() error {
			defer func() {
				if running.Add(-1) == 0 {
					close(out)
				}
			}()
			return Guard(func() error { return stage(ctx, in, out) })
		})
	}
	return out
}

// Pass is a step between the first and the last, with its number of workers.
type Pass[V any] struct {
	Workers int
	Step    Step[V, V]
}

// Call takes one value through steps in the place of stages: on the caller's goroutine, but that up to workers others
// take values of which busy says that they are work.
func Call[In, V, Out any](ctx context.Context, workers int, in In, first Step[In, V], between []Pass[V],
	last Step[V, Out], busy func(V) bool) (out Out, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	guarded := func(work func() error) (err error) {
		if err = Guard(work); err != nil {
			stop(err)
		}
		return err
	}
	var g errgroup.Group
	g.SetLimit(workers)
	to := make([]func(V) error, len(between)+1) // what receives before each step
	take := func(i int, v V) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case i < len(between):
			return between[i].Step(ctx, v, to[i+1])
		}
		return last(ctx, v, func(o Out) error {
			out = o
			return nil
		})
	}
	for i := range to {
		to[i] = func(v V) error {
			if busy(v) && g.TryGo(func() error { return guarded(func() error { return take(i, v) }) }) {
				return nil
			}
			return take(i, v)
		}
	}
	err = guarded(func() error { return first(ctx, in, to[0]) })
	if failed := g.Wait(); err != nil || failed != nil {
		return out, context.Cause(ctx)
	}
	return out, nil
}

// Guard turns a panic into an error, a [PanicError]: one in a user's operator or regularizer must not crash the
// goroutines of others.
func Guard(work func() error) (err error) {
	defer func() {
		r := recover()
		var short *array.MemoryError
		switch fault, _ := r.(error); {
		case r == nil:
		case errors.As(fault, &short): // a device whose memory is bounded
			err = short
		default:
			err = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return work()
}

// PanicError is a panic in a stage, most likely of a user's operator or regularizer.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error is one line: the stack is for logs.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Each is the loop of a stage: it receives and works until in is closed, ctx is done or work fails.
// A stage that ranges over in instead would wait for ever where another worker has failed and
// nothing more comes.
func Each[In any](ctx context.Context, in <-chan In, work func(In) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case v, ok := <-in:
			if !ok {
				return nil
			}
			if err := work(v); err != nil {
				return err
			}
		}
	}
}

func send[Out any](ctx context.Context, out chan<- Out, v Out) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case out <- v:
		return nil
	}
}

// SampleError is a failure that belongs to one sample: its solver has failed, its numbers left the
// range of floating point, or there was not enough memory on the device for it and the other
// samples. A fault of the device itself, which concerns all samples, a panic and the end of a
// context are errors of other types.
type SampleError struct {
	// Index is the sample's place in the stream.
	Index int
	Err   error
}

func (e *SampleError) Error() string { return fmt.Sprintf("sample %d: %v", e.Index, e.Err) }

// Unwrap returns the error without the sample.
func (e *SampleError) Unwrap() error { return e.Err }
