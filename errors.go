package surepipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"surepipe/input"
	"surepipe/stages"
	"surepipe/study"
)

type (
	// InputError is bad input: which option, array or file it is about, what was found, and what was expected. Every
	// refusal has one in its chain.
	InputError = input.Error
	// PanicError is a panic of an operator, a regularizer, a loss or a function that is not this module's.
	PanicError = stages.PanicError
)

// patience is how long work may take to stop on its own once its context is done. A factorization in a native library
// does not stop: it is then left alone, and what it held is released when it ends.
const patience = 500 * time.Millisecond

// call runs f until it ends, or until soon after ctx does; drop releases a result that comes too late.
func call[T any](ctx context.Context, f func() (T, error), drop func(T)) (none T, err error) {
	if ctx == nil {
		return none, study.Errorf("the context is nil, expected one, such as context.Background()")
	}
	if ctx.Err() != nil {
		return none, ended(ctx)
	}
	v, err := stages.Within(ctx, patience, f, drop)
	return v, why(ctx, err)
}

// why is an error, that of the context with its cause where it has ended.
func why(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return ended(ctx)
	}
	return err
}

// ended is the error of a context that is done, and its cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return context.Cause(ctx)
}

// gate lets calls pass until it is closed.
type gate struct {
	mu     sync.Mutex
	closed bool
}

func (g *gate) pass(f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errLate
	}
	return f()
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func passing[T any](g *gate, f func(T) error) func(T) error {
	if f == nil {
		return nil
	}
	return func(v T) error { return g.pass(func() error { return f(v) }) }
}

// errLate ends work that is left behind.
var errLate = errors.New("the call has ended")

func (g *gate) writer(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return gatedWriter{g, w}
}

type gatedWriter struct {
	*gate
	w io.Writer
}

func (g gatedWriter) Write(p []byte) (n int, err error) {
	err = g.pass(func() error {
		n, err = g.w.Write(p)
		return err
	})
	return n, err
}
