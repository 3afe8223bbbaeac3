package system

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"surepipe/array"
)

// deferred is a system that is made when its images are first asked for.
type deferred struct {
	direct
	n    int
	make func(ctx context.Context) (System, error)
	once sync.Once
	err  error
	made atomic.Pointer[made]
}

type made struct{ System }

// errUnfinished is what is left of a system in whose making A has panicked.
var errUnfinished = errors.New("vjp: the factors of the derivative could not be computed")

// Defer is the system that make computes, from n columns of length d, when more is asked than what is known. factored
// says that it is a factored one, with a diagonal, a root and blocks.
func Defer(known Closed, d, n int, factored bool, make func(ctx context.Context) (System, error)) System {
	s := &deferred{direct: direct{Base{d: d, closed: known}}, n: n, make: make}
	if !factored {
		return s
	}
	s.closed.Diagonal = func() ([]float64, error) {
		return s.ask(func(c Closed) ([]float64, error) { return c.Diagonal() })
	}
	s.closed.Root = func() ([]float64, error) {
		return s.ask(func(c Closed) ([]float64, error) { return c.Root() })
	}
	s.closed.Blocks = func(order int) ([]float64, error) {
		return s.ask(func(c Closed) ([]float64, error) {
			if c.Blocks == nil {
				return nil, nil
			}
			return c.Blocks(order)
		})
	}
	columns, rows := float64(n), float64(d)
	s.closed.DiagonalFlops = 3*columns*columns*rows + columns*columns*columns
	return s
}

// ask is what the system, once it is made, says of its derivative.
func (s *deferred) ask(of func(Closed) ([]float64, error)) ([]float64, error) {
	system, err := s.ready(context.Background())
	if err != nil {
		return nil, err
	}
	return of(system.Closed())
}

func (s *deferred) ready(ctx context.Context) (System, error) {
	s.once.Do(func() {
		s.err = errUnfinished
		var system System
		if system, s.err = s.make(ctx); s.err == nil {
			s.made.Store(&made{system})
		}
	})
	return s.made.Load(), s.err
}

func (s *deferred) Apply(ctx context.Context, dst, w array.Batch, goal Goal, left []float64) error {
	system, err := s.ready(ctx)
	if err != nil {
		return err
	}
	return system.Apply(ctx, dst, w, goal, left)
}

func (s *deferred) Bytes() int64 {
	if system := s.made.Load(); system != nil {
		return system.Bytes()
	}
	return 0
}

func (s *deferred) ProbeBytes() int64 { return 16 * int64(s.n+s.d) }

func (s *deferred) Release() {
	if system := s.made.Load(); system != nil {
		system.Release()
	}
}
