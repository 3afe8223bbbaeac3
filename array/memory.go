package array

import (
	"context"
	"fmt"
	"sync"
)

// OutOfMemory is the fault of a device that could not serve an Alloc.
type OutOfMemory struct {
	// Device is its name, Op what was asked for.
	Device, Op string
	// Bytes were needed, Available could have been had, of Limit in all.
	Bytes, Available, Limit int64
}

func (e *OutOfMemory) Error() string {
	return fmt.Sprintf("%s: out of memory: %s needs %d bytes, %d of %d are free", e.Device, e.Op, e.Bytes, e.Available, e.Limit)
}

// Budgeted is a Device whose memory is bounded. An Alloc that finds none left is a
// fault, and faults stick; so whoever can work in smaller parts asks first.
type Budgeted interface {
	Device
	// Available is how many bytes Alloc can still serve, those reserved left out.
	Available() int64
	// Reserve sets aside as many bytes as are available, at most most, for the Allocs of
	// one computation, and returns how many these are. While there are fewer than
	// least it waits for others' reservations to end; where there are no others it
	// grants least all the same, and it is for Alloc to say what is missing. The
	// caller calls release when what it allocated is free again, and makes no other
	// reservation before. The error is ctx's.
	Reserve(ctx context.Context, least, most int64) (granted int64, release func(), err error)
}

// Reservations does the waiting of [Budgeted.Reserve] for implementations of Device. The zero
// value is ready for use.
type Reservations struct {
	mu     sync.Mutex
	bytes  int64
	count  int
	change chan struct{} // closed when a reservation ends
}

// Bytes is how many bytes are reserved. They count in full until they are released,
// whether they have been allocated or not.
func (r *Reservations) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// Reserve is Budgeted.Reserve on a device where free says how many bytes are not
// allocated.
func (r *Reservations) Reserve(ctx context.Context, free func() int64, least, most int64) (int64, func(), error) {
	for {
		r.mu.Lock()
		granted := min(free()-r.bytes, most)
		if granted >= least || r.count == 0 {
			granted = max(granted, least)
			r.bytes += granted
			r.count++
			r.mu.Unlock()
			return granted, sync.OnceFunc(func() { r.release(granted) }), nil
		}
		if r.change == nil {
			r.change = make(chan struct{})
		}
		change := r.change
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-change:
		}
	}
}

func (r *Reservations) release(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= bytes
	r.count--
	if r.change != nil {
		close(r.change)
		r.change = nil
	}
}
