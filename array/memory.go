package array

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// OutOfMemory is the fault of an Alloc for which the device had too little memory.
type OutOfMemory struct {
	// Device is the device's name, and Op the operation that needed memory.
	Device, Op string
	// Bytes is what Op needed, Available what was left of the device's Limit.
	Bytes, Available, Limit int64
}

func (e *OutOfMemory) Error() string {
	return fmt.Sprintf("%s: out of memory: %s needs %d bytes, %d of %d are free", e.Device, e.Op, e.Bytes,
		e.Available, e.Limit)
}

// Capacity is the size in values of the buffer for a batch of k vectors of length n. It is k*n
// rounded up to a multiple of an eighth of its leading power of two, so that batches of nearly
// equal sizes share the buffers of a pool. It panics where k or n is negative, or where the number
// of bytes overflows an int. It is for implementations of [Device].
func Capacity(k, n int) int {
	const most = math.MaxInt / 16 // 8 bytes a value, with room to round up
	if k < 0 || n < 0 || (n > 0 && k > most/n) {
		panic(fmt.Sprintf("array: a batch of shape %d x %d", k, n))
	}
	size := k * n
	if size <= 64 {
		return 64
	}
	step := 8
	for step*16 < size {
		step *= 2
	}
	return (size + step - 1) / step * step
}

// Reservations keeps the accounts of [Device.Reserve] for implementations of Device. The zero
// value is ready for use.
type Reservations struct {
	mu     sync.Mutex
	bytes  int64
	count  int
	change chan struct{} // closed when a reservation ends
}

// Bytes is how many bytes are reserved. A reservation counts in full until it is released,
// whether or not its bytes have been allocated.
func (r *Reservations) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// Reserve does the work of [Device.Reserve] on a device where free returns how many bytes are not
// allocated.
func (r *Reservations) Reserve(ctx context.Context, free func() int64, least, most int64) (granted int64,
	release func(), err error) {
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
