package pipeline

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"surepipe/prox"
	"surepipe/stages"
	"surepipe/vjp"
)

// chain is points first to end-1 of the grid, which are solved one after the other.
type chain struct{ first, end int }

// chains splits each row of the grid into chains of nearly equal length.
func (s *sweep) chains() []chain {
	row := len(s.grid[0])
	parts := (row + s.o.Chain - 1) / s.o.Chain
	var all []chain
	for begin := 0; begin < s.total; begin += row {
		for k := range parts {
			all = append(all, chain{begin + k*row/parts, begin + (k+1)*row/parts})
		}
	}
	return all
}

// sweepGrid computes the points of the grid that are not known, and yields them in
// order.
func (s *sweep) sweepGrid(outer context.Context) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	known := min(len(s.o.Known), s.total)
	// A chain may run ahead of the oldest unfinished one, but not far.
	window := make(chan struct{}, 2*s.o.Parallel)
	in := make(chan chain)
	ends := map[int]bool{}
	for _, c := range s.chains() {
		ends[c.end-1] = true
	}
	g.Go(func() error {
		defer close(in)
		for _, c := range s.chains() {
			if c.end <= known {
				continue
			}
			select {
			case window <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case in <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	points := stages.Start(ctx, g, s.o.Parallel, in, func(ctx context.Context, in <-chan chain, out chan<- SweepPoint) error {
		for c := range in {
			if err := s.follow(ctx, c, known, out); err != nil {
				return err
			}
		}
		return nil
	})
	early := map[int]SweepPoint{}
	next := known
	for point := range points {
		early[point.Index] = point
		for {
			point, ok := early[next]
			if !ok {
				break
			}
			delete(early, next)
			if ends[next] {
				<-window
			}
			next++
			if !s.yield(point, nil) {
				cancel()
				for range points {
				}
				g.Wait() // its error does not matter: the consumer has stopped
				return errStopped
			}
		}
	}
	return g.Wait()
}

// follow computes the points of a chain that are not known.
func (s *sweep) follow(ctx context.Context, c chain, known int, out chan<- SweepPoint) (err error) {
	var path vjp.Path
	defer path.Release()
	from, err := s.before(ctx, c, known, &path)
	if err != nil {
		return err
	}
	for i := max(c.first, known); i < c.end; i++ {
		from.ahead = s.ahead(i, c.end)
		point, err := s.estimate(ctx, i, GridStage, s.weights(i), from)
		if err != nil {
			return err
		}
		point.Place = s.place(i)
		if s.chained {
			from.b = point.B
		}
		s.offer(i, s.valueOf(point), point)
		select {
		case out <- point.bare():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// before is the start of point i of a chain, with the chain's path: it solves the points before it
// in the chain.
func (s *sweep) before(ctx context.Context, c chain, i int, path *vjp.Path) (from start, err error) {
	if !s.chained {
		return start{}, nil
	}
	from.path = path
	for j := c.first; j < i; j++ {
		from.ahead = s.ahead(j, c.end)
		if from.b, err = s.solution(ctx, j, GridStage, s.weights(j), from); err != nil {
			return start{}, err
		}
		if from.b == nil { // in closed form
			break
		}
	}
	return from, nil
}

// start is the start of the solve at point i of the grid, with an empty path.
func (s *sweep) start(ctx context.Context, i int, path *vjp.Path) (start, error) {
	for _, c := range s.chains() {
		if i < c.end {
			return s.before(ctx, c, i, path)
		}
	}
	panic(fmt.Sprintf("pipeline: point %d of a grid of %d", i, s.total))
}

// ahead are the regularizers of the points after point i of a chain that ends before another.
func (s *sweep) ahead(i, end int) func(int) (prox.Prox, error) {
	return func(n int) (prox.Prox, error) {
		if i+n >= end {
			return nil, nil
		}
		return s.f.Regularizer(slices.Clone(s.weights(i + n)))
	}
}
