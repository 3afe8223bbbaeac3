//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"gorgonia.org/cu"

	"surepipe/array"
)

// Device is a card, or a view of one for one piece of work (see [Device.Request]). It is safe for
// concurrent use.
type Device struct {
	*card
	// whole is the device that this is a view of; nil for a device itself.
	whole *Device
	fault atomic.Pointer[error]
}

// card is what a device and its views share.
type card struct {
	name      string
	device    cu.Device
	ctx       cu.CUContext
	retained  bool
	stream    cu.Stream
	streaming bool
	modules   []cu.Module
	kernels   [len(kernelNames)]cu.Function

	// life is read-locked by every call of the driver, and locked by Close.
	life sync.RWMutex

	mu     sync.Mutex
	pool   map[int][]*buffer
	all    map[*buffer]struct{} // the memory allocated from the driver, including the pool
	limit  int64
	held   int64 // bytes of all
	stats  array.Stats
	slots  []*slot
	closed bool

	reserved array.Reservations
	products products
}

// ErrClosed is the fault of a device that has been closed.
var ErrClosed = errors.New("the device is closed")

// Name is "cuda:0" for the first card.
func (d *Device) Name() string { return d.name }

// Request returns a view of the card for one piece of work: faults that concern only this work
// belong to the view.
func (d *Device) Request() array.Device {
	if d.whole != nil {
		d = d.whole
	}
	return &Device{card: d.card, whole: d}
}

// Err is the first fault since the device was opened, or nil; for a view it is its own fault, or
// else that of its device.
func (d *Device) Err() error {
	if err := d.fault.Load(); err != nil {
		return *err
	}
	if d.whole != nil {
		return d.whole.Err()
	}
	return nil
}

// Stop makes err a fault of the card.
func (d *Device) Stop(err error) {
	if d.whole != nil {
		d = d.whole
	}
	d.fault.CompareAndSwap(nil, &err)
}

// fail records a fault: on the device if it is a fault of the card, else on the view in which it
// occurred.
func (d *Device) fail(err error) {
	if d.whole != nil && ofCard(err) {
		d = d.whole
	}
	d.fault.CompareAndSwap(nil, &err)
}

// within runs f on a thread to which the context is current: contexts belong to threads, and
// goroutines change theirs. Setting it takes a fraction of a microsecond.
func within(ctx cu.CUContext, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.SetCurrentContext(ctx); err != nil {
		return err
	}
	return f()
}

// do calls the driver for an operation on b, unless the device or the view has failed, and records
// the fault if the call fails. It reports whether the call was made and succeeded.
func (d *Device) do(op string, b array.Batch, f func() error) bool {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.Err() != nil {
		return false
	}
	if err := within(d.ctx, f); err != nil {
		if b.IsZero() {
			d.fail(fmt.Errorf("%s: %s: %w", d.name, op, err))
			return false
		}
		d.fail(fmt.Errorf("%s: %s of %s, %d bytes: %w", d.name, op, b, b.Bytes(), err))
		return false
	}
	return true
}

// Sync waits for all operations issued so far and returns Err.
func (d *Device) Sync() error {
	d.do("Sync", array.Batch{}, d.stream.Synchronize)
	return d.Err()
}

// Close frees all that the device holds on the card, including batches that have not been freed.
// A view's Close does nothing.
func (d *Device) Close() error {
	if d.whole != nil {
		return nil
	}
	d.life.Lock()
	defer d.life.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	failed := d.fault.Load() != nil
	d.fail(fmt.Errorf("%s: %w", d.name, ErrClosed))
	if !d.retained {
		return nil
	}
	err := within(d.ctx, func() error {
		var errs []error
		if d.streaming {
			errs = append(errs, d.stream.Synchronize())
		}
		errs = append(errs, d.products.close())
		for _, s := range d.slots {
			errs = append(errs, cu.DestroyEvent(&s.arrived), s.memory.free())
		}
		for b := range d.all {
			errs = append(errs, cu.MemFree(b.at))
		}
		for _, m := range d.modules {
			errs = append(errs, m.Unload())
		}
		if d.streaming {
			errs = append(errs, d.stream.Destroy())
		}
		return errors.Join(errs...)
	})
	d.slots, d.modules, d.all, d.pool, d.held, d.stats.PooledBytes = nil, nil, nil, nil, 0, 0
	err = errors.Join(err, d.device.ReleasePrimaryCtx())
	if err == nil || failed {
		return nil // after a fault the driver returns it at every call
	}
	return fmt.Errorf("%s: closing: %w", d.name, err)
}

// own is the buffer of a batch, which must be on d's card, in any view.
func (d *Device) own(b array.Batch) *buffer {
	buf, ok := b.Buffer().(*buffer)
	if !ok || viewOf(b) == nil || viewOf(b).card != d.card {
		name := "none"
		if b.Device() != nil {
			name = fmt.Sprintf("%q", b.Device().Name())
		}
		panic(fmt.Sprintf("array: a batch %s of device %s used on another device, %q", b, name, d.name))
	}
	if buf.freed {
		panic(fmt.Sprintf("array: a batch %s used after it was freed", b))
	}
	return buf
}

// viewOf is the device or view that allocated a batch; nil where that was not a card.
func viewOf(b array.Batch) *Device {
	d, _ := b.Device().(*Device)
	return d
}

// into returns the view that an operation with the destination dst belongs to, once it has
// checked that all operands are on the card.
func (d *Device) into(dst array.Batch, xs ...array.Batch) *Device {
	d.own(dst)
	to := viewOf(dst)
	to.depend(dst)
	for _, x := range xs {
		d.own(x)
		to.depend(x)
	}
	return to
}

// from returns the view that an operation without a destination belongs to, once it has checked
// that all operands are on the card: d where that is a view, else that of the first operand
// that has one.
func (d *Device) from(xs ...array.Batch) *Device {
	to := d
	for _, x := range xs {
		d.own(x)
		if to.whole == nil {
			to = viewOf(x)
		}
	}
	for _, x := range xs {
		to.depend(x)
	}
	return to
}

// depend fails d where the contents of x are unknown: its buffer has no memory, or the view that
// computed it has failed.
func (d *Device) depend(x array.Batch) {
	d.need(x.Buffer().(*buffer))
	if v := viewOf(x); v != d {
		if err := v.fault.Load(); err != nil {
			d.fault.CompareAndSwap(nil, err)
		}
	}
}

// need fails d where a buffer has no memory, with the fault that caused it.
func (d *Device) need(buf *buffer) {
	if buf.missing != nil {
		d.fault.CompareAndSwap(nil, &buf.missing)
	}
}

func at(b array.Batch) cu.DevicePtr {
	if b.IsZero() {
		return 0
	}
	return b.Buffer().(*buffer).at + cu.DevicePtr(8*b.Offset())
}

// same is into for operands that have dst's shape or are single vectors of its length; it panics
// for any other.
func (d *Device) same(op string, dst array.Batch, xs ...array.Batch) *Device {
	to := d.into(dst, xs...)
	array.CheckSame(op, dst, xs...)
	return to
}
