//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"gorgonia.org/cu"

	"surepipe/array"
)

// Device is a card. It is safe for concurrent use.
type Device struct {
	name      string
	card      cu.Device
	ctx       cu.CUContext
	retained  bool
	stream    cu.Stream
	streaming bool
	modules   []cu.Module
	kernels   kernels

	fault atomic.Pointer[error]
	// life is held for reading by every call of the driver and for writing by Close.
	life sync.RWMutex

	mu     sync.Mutex
	pool   map[int][]*buffer
	all    map[*buffer]struct{} // what the driver has given and not had back
	limit  int64
	held   int64 // bytes of all
	stats  array.Stats
	slots  []*slot
	closed bool

	reserved array.Reservations
	products products
}

// buffer is a piece of the card's memory.
type buffer struct {
	at    cu.DevicePtr
	size  int // values
	freed bool
}

func (b *buffer) Len() int { return b.size }

// slot is where a few numbers come back to the host.
type slot struct {
	memory  pinned
	arrived cu.Event
}

const slotValues = 1024

// ErrClosed is the fault of a device that has been closed.
var ErrClosed = errors.New("the device is closed")

// Name is "cuda:0" for the first card.
func (d *Device) Name() string { return d.name }

// Err is the first fault since the device was opened, or nil.
func (d *Device) Err() error {
	if err := d.fault.Load(); err != nil {
		return *err
	}
	return nil
}

func (d *Device) fail(err error) {
	d.fault.CompareAndSwap(nil, &err)
}

// within runs f on a thread to which the context is current. Contexts belong to threads,
// goroutines do not; the driver takes a fraction of a microsecond to set it.
func within(ctx cu.CUContext, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.SetCurrentContext(ctx); err != nil {
		return err
	}
	return f()
}

// do calls the driver for an operation on b, unless the device has failed, and keeps
// the fault if it does now.
func (d *Device) do(op string, b array.Batch, f func() error) bool {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.fault.Load() != nil {
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

// Sync waits for everything asked so far and returns Err.
func (d *Device) Sync() error {
	d.do("Sync", array.Batch{}, d.stream.Synchronize)
	return d.Err()
}

// Close frees all that the device holds on the card, batches out on loan included.
func (d *Device) Close() error {
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
	err = errors.Join(err, d.card.ReleasePrimaryCtx())
	if err == nil || failed {
		return nil // after a fault the driver repeats it to everybody
	}
	return fmt.Errorf("%s: closing: %w", d.name, err)
}

// Stats counts the memory held.
func (d *Device) Stats() array.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Available is how many bytes Alloc can still serve, those reserved left out.
func (d *Device) Available() int64 { return max(0, d.free()-d.reserved.Bytes()) }

func (d *Device) free() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limit - d.held + d.stats.PooledBytes
}

// Reserve sets bytes aside: see [array.Budgeted].
func (d *Device) Reserve(ctx context.Context, least, most int64) (int64, func(), error) {
	return d.reserved.Reserve(ctx, d.free, least, most)
}

// maxValues is the most values that a batch can have: their bytes, rounded up, are a
// number.
const maxValues = math.MaxInt / 16

// capacity rounds a size up so that buffers of nearly equal sizes are shared: to a
// multiple of 1/8 of its leading power of two.
func capacity(n int) int {
	if n <= 64 {
		return 64
	}
	step := 8
	for step*16 < n {
		step *= 2
	}
	return (n + step - 1) / step * step
}

// Alloc returns k contiguous vectors of length n with undefined contents.
func (d *Device) Alloc(k, n int) array.Batch {
	if k < 0 || n < 0 || (n > 0 && k > maxValues/n) {
		panic(fmt.Sprintf("array: a batch of shape %d x %d", k, n))
	}
	buf := d.take(k, n, capacity(k*n))
	d.mu.Lock()
	d.stats.Live++
	d.stats.LiveBytes += 8 * int64(buf.size)
	d.stats.PeakBytes = max(d.stats.PeakBytes, d.stats.LiveBytes)
	d.mu.Unlock()
	return array.NewBatch(d, buf, k, n)
}

// Free returns b's memory to the pool. Work that was asked for before uses it first: all
// of it runs in order.
func (d *Device) Free(b array.Batch) {
	buf := d.own(b)
	d.mu.Lock()
	d.stats.Live--
	d.stats.LiveBytes -= 8 * int64(buf.size)
	d.mu.Unlock()
	d.give(buf)
}

// take finds memory for size values, in the pool or from the driver. After a fault
// it is a buffer without any, on which nothing is ever done.
func (d *Device) take(k, n, size int) *buffer {
	d.life.RLock()
	defer d.life.RUnlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault.Load() != nil {
		return &buffer{size: size}
	}
	if free := d.pool[size]; len(free) > 0 {
		buf := free[len(free)-1]
		free[len(free)-1] = nil
		d.pool[size] = free[:len(free)-1]
		d.stats.PooledBytes -= 8 * int64(size)
		buf.freed = false
		return buf
	}
	return d.grow(k, n, size)
}

// grow takes memory from the driver.
func (d *Device) grow(k, n, size int) *buffer {
	buf, bytes := &buffer{size: size}, 8*int64(size)
	err := within(d.ctx, func() (err error) {
		if d.held+bytes > d.limit {
			if err := d.flush(); err != nil {
				return err
			}
		}
		if d.held+bytes > d.limit {
			return cu.OutOfMemory
		}
		if buf.at, err = cu.MemAlloc(bytes); !errors.Is(err, cu.OutOfMemory) {
			return err
		}
		// Somebody else may have the card's memory, or the pool.
		if err := d.flush(); err != nil {
			return err
		}
		buf.at, err = cu.MemAlloc(bytes)
		return err
	})
	switch {
	case errors.Is(err, cu.OutOfMemory):
		// Where the driver has less than the bound, nothing is left.
		available := max(0, d.limit-d.held)
		if available >= bytes {
			available = 0
		}
		d.fail(&array.OutOfMemory{Device: d.name, Op: fmt.Sprintf("a batch of %d x %d", k, n), Bytes: bytes, Available: available, Limit: d.limit})
	case err != nil:
		d.fail(fmt.Errorf("%s: allocating %d x %d, %d bytes: %w", d.name, k, n, bytes, err))
	default:
		d.held += bytes
		d.all[buf] = struct{}{}
	}
	return buf
}

func (d *Device) give(buf *buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	buf.freed = true
	if buf.at == 0 || d.closed {
		return
	}
	d.stats.PooledBytes += 8 * int64(buf.size)
	d.pool[buf.size] = append(d.pool[buf.size], buf)
}

// flush gives the pool back to the driver, once no work can still be using it.
func (d *Device) flush() error {
	if d.stats.PooledBytes == 0 {
		return nil
	}
	if err := d.stream.Synchronize(); err != nil {
		return err
	}
	for size, bufs := range d.pool {
		for len(bufs) > 0 {
			buf := bufs[len(bufs)-1]
			bufs = bufs[:len(bufs)-1]
			d.pool[size] = bufs
			delete(d.all, buf)
			d.held -= 8 * int64(size)
			d.stats.PooledBytes -= 8 * int64(size)
			if err := cu.MemFree(buf.at); err != nil {
				return err
			}
		}
	}
	clear(d.pool)
	return nil
}

func (d *Device) own(b array.Batch) *buffer {
	buf, ok := b.Buffer().(*buffer)
	if !ok || b.Device() != array.Device(d) {
		name := "none"
		if b.Device() != nil {
			name = fmt.Sprintf("%q", b.Device().Name())
		}
		panic(fmt.Sprintf("array: a batch %s of device %s used on %q, or on another of its name", b, name, d.name))
	}
	if buf.freed {
		panic(fmt.Sprintf("array: a batch %s used after it was freed", b))
	}
	return buf
}

// at is the place of the batch's first value.
func at(b array.Batch) cu.DevicePtr {
	if b.IsZero() {
		return 0
	}
	return b.Buffer().(*buffer).at + cu.DevicePtr(8*b.Offset())
}

// same panics unless x has dst's shape or is a single vector of its length.
func (d *Device) same(op string, dst array.Batch, xs ...array.Batch) {
	d.own(dst)
	for _, x := range xs {
		d.own(x)
		if x.N() != dst.N() || (x.K() != dst.K() && x.K() != 1) {
			panic(fmt.Sprintf("array: %s of %s into %s", op, x, dst))
		}
	}
}

// rowCopy is the length in values from which the rows of a view are worth a copy each.
const rowCopy = 1 << 13

// Upload copies the row-major values of src into dst. The slice is the caller's again
// when it returns: the driver has put its values aside.
func (d *Device) Upload(dst array.Batch, src []float64) {
	d.own(dst)
	if len(src) != dst.K()*dst.N() {
		panic(fmt.Sprintf("array: upload of %d values into %s", len(src), dst))
	}
	switch {
	case len(src) == 0:
	case dst.Contiguous():
		d.upload("Upload", dst, at(dst), unsafe.Pointer(&src[0]), dst.Bytes())
	case dst.N() >= rowCopy:
		for i := range dst.K() {
			row := dst.Rows(i, i+1)
			d.upload("Upload", row, at(row), unsafe.Pointer(&src[i*dst.N()]), row.Bytes())
		}
	default:
		packed := d.Alloc(dst.K(), dst.N())
		d.Upload(packed, src)
		d.Copy(dst, packed)
		d.Free(packed)
	}
}

func (d *Device) upload(op string, b array.Batch, to cu.DevicePtr, from unsafe.Pointer, bytes int64) {
	d.do(op, b, func() error { return cu.MemcpyHtoDAsync(to, from, bytes, d.stream) })
}

// Download copies src into the row-major slice dst; NaN where the device has failed.
func (d *Device) Download(dst []float64, src array.Batch) {
	d.own(src)
	if len(dst) != src.K()*src.N() {
		panic(fmt.Sprintf("array: download of %s into %d values", src, len(dst)))
	}
	switch {
	case len(dst) == 0:
	case src.Contiguous():
		ok := d.do("Download", src, func() error {
			if err := cu.MemcpyDtoHAsync(unsafe.Pointer(&dst[0]), at(src), src.Bytes(), d.stream); err != nil {
				return err
			}
			return d.stream.Synchronize()
		})
		if !ok {
			unknown(dst)
		}
	case src.N() >= rowCopy:
		for i := range src.K() {
			d.Download(dst[i*src.N():][:src.N()], src.Rows(i, i+1))
		}
	default:
		packed := d.Alloc(src.K(), src.N())
		d.Copy(packed, src)
		d.Download(dst, packed)
		d.Free(packed)
	}
}

// unknown marks numbers that a failed device did not deliver.
func unknown(v []float64) {
	for i := range v {
		v[i] = math.NaN()
	}
}

// fetch waits for the first len(out) values at from.
func (d *Device) fetch(op string, b array.Batch, out []float64, from cu.DevicePtr) {
	s := d.slot()
	if s == nil || len(out) > slotValues {
		d.release(s)
		if !d.do(op, b, func() error {
			if err := cu.MemcpyDtoHAsync(unsafe.Pointer(&out[0]), from, 8*int64(len(out)), d.stream); err != nil {
				return err
			}
			return d.stream.Synchronize()
		}) {
			unknown(out)
		}
		return
	}
	ok := d.do(op, b, func() error {
		err := cu.MemcpyDtoHAsync(s.memory.pointer(), from, 8*int64(len(out)), d.stream)
		if err == nil {
			err = s.arrived.Record(d.stream)
		}
		if err != nil {
			// The copy may be under way: the slot is not to be used again before it is over.
			return errors.Join(err, d.stream.Synchronize())
		}
		return s.arrived.Synchronize()
	})
	if ok {
		copy(out, s.memory.values)
	} else {
		unknown(out)
	}
	d.release(s)
}

// slot takes one from those that are free, or makes one; nil where there is no memory for
// it.
func (d *Device) slot() *slot {
	d.mu.Lock()
	if n := len(d.slots); n > 0 {
		s := d.slots[n-1]
		d.slots = d.slots[:n-1]
		d.mu.Unlock()
		return s
	}
	d.mu.Unlock()
	d.life.RLock()
	defer d.life.RUnlock()
	if d.fault.Load() != nil {
		return nil
	}
	s := &slot{}
	err := within(d.ctx, func() (err error) {
		if s.memory, err = newPinned(slotValues); err != nil {
			return err
		}
		if s.arrived, err = cu.MakeEvent(cu.DisableTiming); err != nil {
			s.memory.free()
		}
		return err
	})
	if err != nil {
		return nil
	}
	return s
}

func (d *Device) release(s *slot) {
	if s == nil {
		return
	}
	d.life.RLock()
	defer d.life.RUnlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.slots = append(d.slots, s)
		return
	}
	within(d.ctx, func() error { return errors.Join(cu.DestroyEvent(&s.arrived), s.memory.free()) })
}
