package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/stages"
	"surepipe/vjp"
)

// chain is points first to end-1 of the grid, which are solved one after the other.
type chain struct{ first, end int }

// Chains are the bounds of the chains of warm starts of a grid with axes of these lengths, in the
// order of a sweep's points: chain k has the points bounds[k] to bounds[k+1]-1. Each row of the grid
// is split into chains of nearly equal length, of length at most points, or 0 for whole rows.
func Chains(axes []int, length int) (bounds []int) {
	row, total := axes[0], lists.Product(axes)
	parts := 1
	if length > 0 {
		parts = (row + length - 1) / length
	}
	for begin := 0; begin < total; begin += row {
		for k := range parts {
			bounds = append(bounds, begin+k*row/parts)
		}
	}
	return append(bounds, total)
}

func (s *sweep) chains() (all []chain) {
	axes := lists.Map(s.grid, func(axis []float64) int { return len(axis) })
	bounds := Chains(axes, s.o.Chain)
	for k, first := range bounds[:len(bounds)-1] {
		all = append(all, chain{first, bounds[k+1]})
	}
	return all
}

// SweepPart computes the points first to end-1 of the grid of a [Sweep] with these arguments, and
// nothing else: it yields them in order, with the bits of that sweep. The points of a whole sweep may
// so be divided among machines. A part that begins within a chain repeats the solves before it in the
// chain, as a sweep that goes on does: parts should end where [Chains] do.
//
// Options.Known are the first points of the part. [Choose], or a Sweep whose Known are the points of
// all parts, finds the minimizer.
func SweepPart(ctx context.Context, y []float64, f Family, grid [][]float64, o SweepOptions, first,
	end int) iter.Seq2[SweepPoint, error] {
	return func(yield func(SweepPoint, error) bool) {
		s, err := newSweepPart(y, f, grid, o, chain{first, end}, yield)
		if err == nil {
			err = s.runPart(ctx)
		}
		finishSweep(ctx, err, yield)
	}
}

func (s *sweep) runPart(ctx context.Context) error {
	if n := s.part.end - s.part.first; len(s.o.Known) > n {
		return fmt.Errorf("pipeline: %d known points of a part of %d: they belong to another sweep", len(s.o.Known), n)
	}
	if s.begin() == s.part.end {
		return nil
	}
	release, err := s.openAll(ctx, s.part.first)
	if err != nil {
		return err
	}
	defer release()
	if err := s.crossValidate(ctx); err != nil {
		return err
	}
	return s.sweepGrid(ctx)
}

func (s *sweep) begin() int { return min(s.part.first+len(s.o.Known), s.part.end) }

func (s *sweep) sweepGrid(ctx context.Context) error {
	begin := s.begin()
	var parts []chain
	for _, c := range s.chains() {
		if c.end > begin && c.first < s.part.end {
			parts = append(parts, c)
		}
	}
	if len(parts) > 1 {
		return s.chainsAtOnce(ctx, parts, begin)
	}
	for _, c := range parts {
		err := s.chain(ctx, 0, c, max(c.first, begin), func(p SweepPoint) error {
			if !s.hand(p) {
				return errStopped
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// chainsAtOnce computes the points of several chains, from point begin on.
func (s *sweep) chainsAtOnce(outer context.Context, parts []chain, begin int) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	// A chain may run ahead of the oldest unfinished one, but not far.
	workers := s.o.Parallel * len(s.instances)
	ahead := make(chan struct{}, 2*workers)
	in := make(chan chain)
	ends := map[int]bool{}
	for _, c := range parts {
		ends[min(c.end, s.part.end)-1] = true
	}
	g.Go(func() error {
		defer close(in)
		for _, c := range parts {
			select {
			case ahead <- struct{}{}:
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
	var number atomic.Int64
	points := stages.Start(ctx, g, workers, in, func(ctx context.Context, in <-chan chain,
		out chan<- SweepPoint) error {
		worker := int(number.Add(1)) - 1
		return stages.Each(ctx, in, func(c chain) error {
			return s.chain(ctx, worker, c, max(c.first, begin), func(p SweepPoint) error {
				select {
				case out <- p:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
	})
	early := map[int]SweepPoint{}
	next := begin
	for point := range points {
		early[point.Index] = point
		for {
			point, ok := early[next]
			if !ok {
				break
			}
			delete(early, next)
			if ends[next] {
				<-ahead
			}
			next++
			if !s.hand(point) {
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

// flight is a point of a chain that is computed.
type flight struct {
	// next is told where the next point starts, when that may be solved beside the rest of this one's work; ended is
	// closed when all is done.
	next  chan held
	ended chan struct{}
	point *SweepPoint
	err   error
}

// fly computes a point, beside the caller where the next one may be solved before it ends.
func (s *instance) fly(ctx context.Context, i int, from start, beside bool) *flight {
	p := &flight{next: make(chan held, 1), ended: make(chan struct{})}
	if beside {
		from.solved = func(h held) {
			if from.path.Apart() {
				p.next <- h
			}
		}
	}
	compute := func() {
		defer close(p.ended)
		p.point, p.err = s.estimate(ctx, i, GridStage, s.weights(i), from)
	}
	if beside {
		go compute()
	} else {
		compute()
	}
	return p
}

// follow computes the points of a chain from begin on. Where Options.Parallel leaves room a point is solved while the
// derivative of the one before is probed: at most two are in flight.
func (s *instance) follow(outer context.Context, c chain, begin int, send func(SweepPoint) error) (next int,
	err error) {
	var path vjp.Path
	defer path.Release()
	from, err := s.before(outer, c, begin, &path)
	if err != nil {
		return begin, err
	}
	ctx, cancel := context.WithCancel(outer)
	next = begin
	var flying []*flight // the points from next on
	defer func() {
		cancel()
		for k, p := range flying {
			if <-p.ended; k > 0 {
				<-s.slots
			}
		}
	}()
	hand := func() error { // on the oldest point
		p := flying[0]
		if <-p.ended; p.err != nil {
			return p.err
		}
		p.point.Place = s.place(next)
		s.offer(next, s.valueOf(p.point), p.point)
		if err := send(s.shown(*p.point)); err != nil {
			return err
		}
		if next, flying = next+1, flying[1:]; len(flying) > 0 {
			<-s.slots
		}
		return nil
	}
	end := min(c.end, s.part.end)
	for i := begin; i < end; i++ {
		if len(flying) > 0 {
			select {
			case s.slots <- struct{}{}:
			default:
				if err := hand(); err != nil {
					return next, err
				}
			}
		}
		from.ahead = s.ahead(i, c.end)
		p := s.fly(ctx, i, from, s.chained && s.o.Parallel > 1 && i+1 < end && path.Apart())
		for flying = append(flying, p); len(flying) > 1; {
			if err := hand(); err != nil {
				return next, err
			}
		}
		select {
		case from.held = <-p.next:
		case <-p.ended:
			if err := hand(); err != nil {
				return next, err
			}
			from.held = p.point.solved
		}
	}
	for len(flying) > 0 {
		if err := hand(); err != nil {
			return next, err
		}
	}
	return c.end, nil
}

// before is the start of point i of a chain, with the chain's path: it solves the points before it
// in the chain.
func (s *instance) before(ctx context.Context, c chain, i int, path *vjp.Path) (from start, err error) {
	if from.effort = s.effort(); !s.chained {
		return from, nil
	}
	from.path = path
	for j := c.first; j < i; j++ {
		from.ahead = s.ahead(j, c.end)
		if from.held, err = s.solution(ctx, j, GridStage, s.weights(j), from); err != nil {
			return start{}, err
		}
		if from.none() { // in closed form
			break
		}
	}
	return from, nil
}

func (s *instance) start(ctx context.Context, i int, path *vjp.Path) (start, error) {
	for _, c := range s.chains() {
		if i < c.end {
			return s.before(ctx, c, i, path)
		}
	}
	panic(fmt.Sprintf("pipeline: point %d of a grid of %d", i, s.total))
}

func (s *instance) ahead(i, end int) func(int) (prox.Prox, error) {
	return func(n int) (prox.Prox, error) {
		if i+n >= end {
			return nil, nil
		}
		return s.f.Regularizer(slices.Clone(s.weights(i + n)))
	}
}

// MostPoints is the largest number of points of a grid, whose results are held together.
const MostPoints = 1 << 24

func checkGrid(grid [][]float64) (total int, err error) {
	if len(grid) == 0 {
		return 0, errors.New("pipeline: a grid without axes")
	}
	total = 1
	for a, axis := range grid {
		if len(axis) == 0 {
			return 0, fmt.Errorf("pipeline: axis %d of the grid is empty", a)
		}
		if len(axis) > MostPoints/total {
			return 0, fmt.Errorf("pipeline: a grid of more than %d points", MostPoints)
		}
		total *= len(axis)
		for i, v := range axis {
			if !(v > 0) || math.IsInf(v, 0) {
				return 0, fmt.Errorf("pipeline: axis %d of the grid holds %g at %d, expected positive finite numbers",
					a, v, i)
			}
			if i > 0 && v <= axis[i-1] {
				return 0, fmt.Errorf("pipeline: axis %d of the grid holds %g after %g, expected increasing numbers",
					a, v, axis[i-1])
			}
		}
	}
	return total, nil
}
