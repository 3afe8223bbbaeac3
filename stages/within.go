package stages

import (
	"context"
	"sync/atomic"
	"time"
)

// Within is f, whose panics are errors, on a goroutine of its own: it is left behind where it has not ended patience
// after ctx, with the error of that. What it returns later, without an error, is dropped.
func Within[T any](ctx context.Context, patience time.Duration, f func() (T, error), drop func(T)) (none T, err error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	start(func() {
		var r result
		r.err = Guard(func() (err error) {
			r.v, err = f()
			return err
		})
		done <- r
	})
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r := <-done:
		return r.v, r.err
	case <-late.C:
	}
	go func() {
		if r := <-done; r.err == nil && drop != nil {
			drop(r.v)
		}
	}()
	return none, ctx.Err()
}

// ready are goroutines that have worked and wait for more: they have the stacks that it takes.
var ready = make(chan func())

const (
	mostReady = 4
	// rest is how long they wait.
	rest = time.Second
)

// waiting is the number of those that are ready.
var waiting atomic.Int64

// room makes the stack of a goroutine as large as a solve takes, at once: to grow under many calls, by a factor of 2
// each time, it is copied with all of them.
//
//go:noinline
func room() byte {
	var frame [40 << 10]byte
	return frame[waiting.Load()&1]
}

// start runs work on a goroutine.
func start(work func()) {
	select {
	case ready <- work:
		return
	default:
	}
	go func() {
		for {
			room()
			work()
			if work = nil; waiting.Add(1) > mostReady {
				waiting.Add(-1)
				return
			}
			idle := time.NewTimer(rest)
			select {
			case work = <-ready:
			case <-idle.C:
			}
			idle.Stop()
			if waiting.Add(-1); work == nil {
				return
			}
		}
	}()
}
