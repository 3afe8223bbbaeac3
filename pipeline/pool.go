package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/stages"
)

// Pool spreads samples over pipelines of the same estimator with the same options, each on a device of
// its own. Each takes the next sample when it has room, so that a faster device does more. Results have the
// bits of one pipeline if the devices are of one kind.
//
// A fault of a device costs the work in flight there, which others do again, and the device gets no
// more. The calls end with the fault only if no device is left. A pool is safe for concurrent use.
type Pool struct {
	members []*Pipeline
	lost    *losses
}

// losses are the devices that have failed.
type losses struct {
	mu   sync.Mutex
	lost map[array.Device]bool
	tell func(device string, fault error)
}

// NewPool makes a pool of at least one pipeline. lost, if not nil, is called once for each device that
// fails while others go on.
func NewPool(lost func(device string, fault error), members ...*Pipeline) (*Pool, error) {
	if len(members) == 0 {
		return nil, errors.New("pipeline: a pool without pipelines")
	}
	for _, m := range members[1:] {
		if m.d != members[0].d {
			return nil, fmt.Errorf("pipeline: a pool of pipelines for y of %d and of %d values", members[0].d, m.d)
		}
	}
	return &Pool{members: members, lost: &losses{tell: lost, lost: map[array.Device]bool{}}}, nil
}

// faulty reports whether an error is a fault of the device, and takes note of it. A device that was
// stopped together with the work ([array.Device.Stop]) has not failed.
func (l *losses) faulty(dev array.Device, err error) bool {
	fault := dev.Err()
	if err == nil || fault == nil || errors.Is(fault, context.Canceled) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lost[dev] {
		l.lost[dev] = true
		if l.tell != nil {
			l.tell(dev.Name(), fault)
		}
	}
	return true
}

func (l *losses) has(dev array.Device) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost[dev]
}

// left are the pipelines whose devices have not failed; all of them if none is left, so that the fault
// shows.
func (p *Pool) left() []*Pipeline {
	left := slices.DeleteFunc(slices.Clone(p.members), func(m *Pipeline) bool { return p.lost.has(m.dev) })
	if len(left) == 0 {
		return p.members[:1]
	}
	return left
}

// Dim is the length of the samples.
func (p *Pool) Dim() int { return p.members[0].d }

// Estimate is [Pipeline.Estimate] on one device, and on the next one if that fails.
func (p *Pool) Estimate(ctx context.Context, y []float64) (Risk, error) {
	return p.alone(ctx, func(m *Pipeline) (Risk, error) { return m.Estimate(ctx, y) })
}

func (p *Pool) alone(ctx context.Context, compute func(m *Pipeline) (Risk, error)) (risk Risk, err error) {
	for _, m := range p.left() {
		if risk, err = compute(m); !p.lost.faulty(m.dev, err) || ctx.Err() != nil {
			break
		}
	}
	return risk, err
}

// Repeat is [Pipeline.Repeat] on one device.
func (p *Pool) Repeat(ctx context.Context, index int, y []float64, seeds iter.Seq[uint64]) iter.Seq2[Risk, error] {
	if len(p.members) == 1 {
		return p.members[0].Repeat(ctx, index, y, seeds)
	}
	return func(yield func(Risk, error) bool) {
		rest := slices.Collect(seeds)
		for _, m := range p.left() {
			var fault error
			for risk, err := range m.Repeat(ctx, index, y, slices.Values(rest)) {
				if p.lost.faulty(m.dev, err) {
					fault = err
					break
				}
				if !yield(risk, err) || err != nil {
					return
				}
				rest = rest[1:]
			}
			if fault == nil {
				return
			}
			if len(p.left()) == 1 && p.lost.has(p.left()[0].dev) {
				yield(Risk{Index: -1}, fault)
				return
			}
		}
	}
}

// Stream is [Pipeline.Stream] with the samples spread over the devices.
func (p *Pool) Stream(ctx context.Context, ys iter.Seq2[[]float64, error]) iter.Seq2[Risk, error] {
	return p.StreamFrom(ctx, 0, ys)
}

// StreamFrom is [Pipeline.StreamFrom] with the samples spread over the devices, Options.Parallel on
// each.
func (p *Pool) StreamFrom(ctx context.Context, first int, ys iter.Seq2[[]float64, error]) iter.Seq2[Risk, error] {
	if len(p.members) == 1 {
		return p.members[0].StreamFrom(ctx, first, ys)
	}
	return func(yield func(Risk, error) bool) {
		s := &spread{Pool: p, next: first, begun: first, early: map[int]spreadOutcome{}, done: make(chan spreadOutcome)}
		for _, m := range p.members {
			s.free = append(s.free, m.o.Parallel)
			s.window += reorderWindow * m.o.Parallel
		}
		inner, cancel := context.WithCancel(ctx)
		tasks, fed := make(chan spreadTask), make(chan error, 1)
		go func() {
			defer close(fed)
			defer close(tasks)
			fed <- s.feed(inner, first, ys, tasks)
		}()
		defer func() {
			cancel()
			for s.flying > 0 {
				<-s.done
				s.flying--
			}
			for range tasks {
			}
			for range fed {
			}
		}()
		err := s.run(inner, tasks, yield)
		if err == nil && !s.stopped {
			err = <-fed
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil && !s.stopped {
			yield(Risk{Index: -1}, err)
		}
	}
}

// spread is a stream of samples over the devices of a pool.
type spread struct {
	*Pool
	free        []int // places for samples on each device
	flying      int
	next, begun int
	window      int // how many samples may be ahead of the oldest unfinished one
	early       map[int]spreadOutcome
	again       []spreadTask // samples that a device has lost
	done        chan spreadOutcome
	stopped     bool // the consumer has left the loop, or has the last error
}

// spreadTask is a sample, or an error of the source in its place.
type spreadTask struct {
	index int
	y     []float64
	err   error
}

type spreadOutcome struct {
	spreadTask
	member int
	risk   Risk
	err    error
}

func (s *spread) feed(ctx context.Context, index int, ys iter.Seq2[[]float64, error],
	tasks chan<- spreadTask) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("pipeline: source of samples: %w", &stages.PanicError{Value: r, Stack: debug.Stack()})
		}
	}()
	for y, err := range ys {
		select {
		case tasks <- spreadTask{index, y, err}:
			index++
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil && !s.members[0].o.KeepGoing {
			return nil
		}
	}
	return nil
}

// place is the device with the most free places, -1 for none.
func (s *spread) place() int {
	at := -1
	for k, free := range s.free {
		if free > 0 && !s.lost.has(s.members[k].dev) && (at < 0 || free > s.free[at]) {
			at = k
		}
	}
	return at
}

// run hands out samples and yields results, until the source ends.
func (s *spread) run(ctx context.Context, tasks <-chan spreadTask, yield func(Risk, error) bool) error {
	for open := true; open || s.flying > 0 || len(s.again) > 0; {
		var source <-chan spreadTask
		switch at := s.place(); {
		case at >= 0 && len(s.again) > 0:
			s.start(ctx, at, s.again[0])
			s.again = s.again[1:]
			continue
		case at >= 0 && open && s.begun-s.next < s.window:
			source = tasks
		}
		select {
		case task, ok := <-source:
			if !ok {
				open = false
				continue
			}
			s.begun = task.index + 1
			s.start(ctx, s.place(), task)
		case o := <-s.done:
			s.flying--
			s.free[o.member]++
			if err := s.take(o, yield); err != nil || s.stopped {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *spread) start(ctx context.Context, member int, task spreadTask) {
	s.free[member]--
	s.flying++
	go func() {
		o := spreadOutcome{spreadTask: task, member: member}
		one := func(yield func([]float64, error) bool) { yield(task.y, task.err) }
		for risk, err := range s.members[member].StreamFrom(ctx, task.index, one) {
			o.risk, o.err = risk, err
		}
		s.done <- o
	}()
}

// take yields what is next, or has another device do a sample again. The error is that of the whole
// stream.
func (s *spread) take(o spreadOutcome, yield func(Risk, error) bool) error {
	var own *SampleError
	switch {
	case s.lost.faulty(s.members[o.member].dev, o.err):
		s.again = append(s.again, o.spreadTask)
		if len(s.left()) == 1 && s.lost.has(s.left()[0].dev) {
			return o.err
		}
		return nil
	case o.err != nil && !errors.As(o.err, &own):
		return o.err
	}
	s.early[o.index] = o
	for {
		o, ok := s.early[s.next]
		if !ok {
			return nil
		}
		delete(s.early, s.next)
		s.next++
		if !yield(o.risk, o.err) || o.err != nil && !s.members[0].o.KeepGoing {
			s.stopped = true
			return nil
		}
	}
}
