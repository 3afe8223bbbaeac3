package pipeline

import (
	"context"
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/stages"
	"surepipe/vjp"
)

// instance is a sweep's family on one device.
type instance struct {
	*sweep
	f Family
	// base is the solver from which all others on the device are made; they share its data on the
	// operator.
	base    vjp.Solver
	compare *stages.Comparing
	// slots bounds the chains in progress on the device.
	slots chan struct{}
}

func (s *instance) device() array.Device { return s.f.Problem.Device }

func (s *sweep) makeInstances(d int) error {
	s.lost = &losses{tell: s.o.Lost, lost: map[array.Device]bool{}}
	for k, f := range append([]Family{s.f}, s.f.Others...) {
		if n, err := f.dim(); err != nil {
			return err
		} else if n != d || (f.BlackBox != nil) != (s.f.BlackBox != nil) {
			return fmt.Errorf("pipeline: the family on device %d is not that of the first", k)
		}
		s.instances = append(s.instances, &instance{sweep: s, f: f, slots: make(chan struct{}, s.o.Parallel)})
	}
	return nil
}

func (s *instance) faulty(ctx context.Context, err error) bool {
	if len(s.instances) == 1 || s.device() == nil || ctx.Err() != nil {
		return false
	}
	return s.lost.faulty(s.device(), err)
}

func (s *sweep) healthy() (left []*instance) {
	for _, in := range s.instances {
		if in.device() == nil || !s.lost.has(in.device()) {
			left = append(left, in)
		}
	}
	return left
}

// openAll opens all instances; point is the first to compute. A device that fails here is left out.
func (s *sweep) openAll(ctx context.Context, point int) (release func(), err error) {
	var opened []func()
	release = func() {
		for _, free := range opened {
			free()
		}
	}
	for _, in := range s.instances {
		free, err := in.open(ctx)
		if in.faulty(ctx, err) && len(s.healthy()) > 0 {
			continue
		}
		if err != nil {
			release()
			return nil, s.named(point, GridStage, s.weights(point), err)
		}
		opened = append(opened, free)
	}
	return release, nil
}

// onDevice computes on a device, and again on another where that fails.
func (s *sweep) onDevice(ctx context.Context, compute func(on *instance) error) (err error) {
	left := s.healthy()
	if len(left) == 0 {
		left = s.instances[:1] // the fault shows
	}
	for _, on := range left {
		if err = compute(on); !on.faulty(ctx, err) {
			return err
		}
	}
	return err
}

// chain computes the points of a chain from point begin on, on the worker's device, and what that has
// lost on another.
func (s *sweep) chain(ctx context.Context, worker int, c chain, begin int, send func(SweepPoint) error) error {
	for {
		on := s.instances[worker%len(s.instances)]
		if left := s.healthy(); len(left) > 0 && !slices.Contains(left, on) {
			on = left[worker%len(left)]
		}
		select {
		case on.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		next, err := on.follow(ctx, c, begin, send)
		<-on.slots
		if !on.faulty(ctx, err) || len(s.healthy()) == 0 {
			return err
		}
		begin = next
	}
}
