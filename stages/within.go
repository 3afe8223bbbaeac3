package stages

import (
	"context"
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
	go func() {
		var r result
		r.err = Guard(func() (err error) {
			r.v, err = f()
			return err
		})
		done <- r
	}()
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
