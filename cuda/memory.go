//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"surepipe/array"
)

// buffer is a piece of the card's memory.
type buffer struct {
	at    cu.DevicePtr
	size  int // values
	freed bool
	// missing is the fault because of which the memory or its contents are missing; nil where they
	// are there.
	missing error
}

func (b *buffer) Len() int { return b.size }

func (d *Device) Stats() array.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Available is how many bytes Alloc can still serve, not counting those reserved.
func (d *Device) Available() (bytes int64, bounded bool) {
	return max(0, d.free()-d.reserved.Bytes()), true
}

func (d *card) free() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limit - d.held + d.stats.PooledBytes
}

func (d *Device) Reserve(ctx context.Context, least, most int64) (granted int64, release func(), err error) {
	return d.reserved.Reserve(ctx, d.free, least, most)
}

func (d *Device) Alloc(k, n int) array.Batch {
	buf := d.take(k, n, array.Capacity(k, n))
	d.count(1, 8*int64(buf.size))
	return array.NewBatch(d, buf, k, n)
}

// Put returns a batch with a copy of the row-major slice.
func (d *Device) Put(data []float64, k, n int) array.Batch {
	if len(data) != k*n {
		panic(fmt.Sprintf("array: Put of %d values as %d x %d", len(data), k, n))
	}
	b := d.Alloc(k, n)
	d.Upload(b, data)
	return b
}

// Free returns b's memory to the pool. Earlier work is done with it before any later work uses it,
// because all work runs in order.
func (d *Device) Free(b array.Batch) {
	buf := d.own(b)
	d.count(-1, -8*int64(buf.size))
	d.give(buf)
}

func (d *card) count(batches int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Add(batches, bytes)
}

// take finds memory for size values, in the pool or from the driver. Where it finds none, or after
// a fault, the buffer has no memory, and any operation that uses it fails.
func (d *Device) take(k, n, size int) *buffer {
	d.life.RLock()
	defer d.life.RUnlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.Err(); err != nil {
		return &buffer{size: size, missing: err}
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
		// Other programs may hold the card's memory, or the pool may hold the missing part.
		if err := d.flush(); err != nil {
			return err
		}
		buf.at, err = cu.MemAlloc(bytes)
		return err
	})
	if err == nil {
		d.held += bytes
		d.all[buf] = struct{}{}
		return buf
	}
	if errors.Is(err, cu.OutOfMemory) {
		// Where the driver has less than the bound, nothing is left.
		available := max(0, d.limit-d.held)
		if available >= bytes {
			available = 0
		}
		err = &array.OutOfMemory{Device: d.name, Op: fmt.Sprintf("a batch of %d x %d", k, n), Bytes: bytes,
			Available: available, Limit: d.limit}
	} else {
		err = fmt.Errorf("%s: allocating %d x %d, %d bytes: %w", d.name, k, n, bytes, err)
	}
	buf.missing = err
	d.fail(err)
	return buf
}

func (d *card) give(buf *buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	buf.freed = true
	if buf.at == 0 || d.closed {
		return
	}
	buf.missing = nil
	d.stats.PooledBytes += 8 * int64(buf.size)
	d.pool[buf.size] = append(d.pool[buf.size], buf)
}

// flush returns the pool to the driver, when no work uses it any more.
func (d *card) flush() error {
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
