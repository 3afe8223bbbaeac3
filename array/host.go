package array

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Host is the device that computes on this machine's processors, with gonum and the BLAS that
// is registered there (see [UseNative]). [NewHost] makes one.
type Host struct {
	mu    sync.Mutex
	pool  map[int][]*hostBuffer // by size, those freed last at the end
	stats Stats
	frees uint64 // the number of calls of Free
	limit int64  // of the bytes that are live, 0 for none

	fault atomic.Pointer[error] // because of which it was stopped
}

// maxPooledBytes bounds the memory that the host keeps for reuse. Beyond leastPooledBytes the host keeps no more than
// half of the most that was ever live at once, and no more than makes up, with what is live, 9/8 of that: a phase
// of a computation does not add the buffers of the one before it to its own.
const (
	maxPooledBytes   = 2 << 30
	leastPooledBytes = 64 << 20
)

type hostBuffer struct {
	data    []float64
	freed   bool
	since   uint64 // the number of frees before it was freed
	foreign bool   // memory of a caller's slice, which must not enter the pool
}

func (b *hostBuffer) Len() int { return len(b.data) }

// NewHost returns a host device with a memory pool of its own. It changes nothing else in the
// process: a program that wants a native BLAS calls [UseNative] first.
func NewHost() *Host { return &Host{pool: map[int][]*hostBuffer{}} }

// NewHostOf is [NewHost] with a bound of the bytes that its batches hold together. Where they need more, Alloc
// panics with a [MemoryError], which a pipeline returns as the error of the call.
func NewHostOf(bytes int64) *Host {
	h := NewHost()
	h.limit = bytes
	return h
}

// MemoryError says that there is less memory than is needed.
type MemoryError struct{ Needed, Limit int64 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("%d bytes of memory are needed, and there are %d", e.Needed, e.Limit)
}

// Name is "cpu".
func (h *Host) Name() string { return "cpu" }

// Request returns the host itself: it has no faults, so requests need no views of their own.
func (h *Host) Request() Device { return h }

func (h *Host) Alloc(k, n int) Batch {
	size := Capacity(k, n)
	h.mu.Lock()
	if needed := h.stats.LiveBytes + 8*int64(size); h.limit > 0 && needed > h.limit {
		h.mu.Unlock()
		panic(&MemoryError{needed, h.limit})
	}
	h.stats.Add(1, 8*int64(size))
	var buf *hostBuffer
	if free := h.pool[size]; len(free) > 0 {
		buf = free[len(free)-1]
		free[len(free)-1] = nil
		h.pool[size] = free[:len(free)-1]
		h.stats.PooledBytes -= 8 * int64(size)
		buf.freed = false
	}
	if buf == nil {
		h.trim()
	}
	h.mu.Unlock()
	if buf == nil {
		buf = &hostBuffer{data: make([]float64, size)}
	}
	return NewBatch(h, buf, k, n)
}

// Trim drops what a device on the host keeps for reuse beyond little, before work that takes other memory.
func Trim(dev Device) {
	if h, ok := dev.(*Host); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.trimTo(leastPooledBytes)
	}
}

func (h *Host) trim() {
	h.trimTo(max(leastPooledBytes, min(h.stats.PeakBytes/2, h.stats.PeakBytes/8*9-h.stats.LiveBytes)))
}

// trimTo drops the buffers of the pool that have not been used for longest, where it keeps too much.
func (h *Host) trimTo(most int64) {
	for h.stats.PooledBytes > most {
		oldest := 0
		for size, free := range h.pool {
			if len(free) > 0 && (oldest == 0 || free[0].since < h.pool[oldest][0].since) {
				oldest = size
			}
		}
		free := h.pool[oldest]
		copy(free, free[1:])
		free[len(free)-1] = nil
		h.pool[oldest] = free[:len(free)-1]
		h.stats.PooledBytes -= 8 * int64(oldest)
	}
}

// Put returns a batch of k vectors of length n that is the row-major slice itself: nothing is
// copied.
func (h *Host) Put(data []float64, k, n int) Batch {
	if len(data) != k*n {
		panic(fmt.Sprintf("array: Put of %d values as %d x %d", len(data), k, n))
	}
	h.count(1, 8*int64(len(data)))
	return NewBatch(h, &hostBuffer{data: data, foreign: true}, k, n)
}

// Free panics at a second Free of b, and so does any other use of b after Free, until Alloc reuses the memory.
func (h *Host) Free(b Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	buf := h.own(b)
	size := len(buf.data)
	buf.freed = true
	h.stats.Add(-1, -8*int64(size))
	if !buf.foreign && h.stats.PooledBytes+8*int64(size) <= maxPooledBytes {
		h.stats.PooledBytes += 8 * int64(size)
		h.frees++
		buf.since = h.frees
		h.pool[size] = append(h.pool[size], buf)
		h.trim()
	}
}

// Available is what its bound leaves; without one there is the machine's memory.
func (h *Host) Available() (bytes int64, bounded bool) {
	if h.limit == 0 {
		return math.MaxInt64, false
	}
	return max(h.limit-h.Stats().LiveBytes, 0), true
}

// Reserve grants most, at once.
func (h *Host) Reserve(_ context.Context, _, most int64) (granted int64, release func(), err error) {
	return most, nothingReserved, nil
}

func nothingReserved() {}

func (h *Host) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stats
}

// Err is nil unless the device has been stopped: the host has no faults of its own.
func (h *Host) Err() error {
	if err := h.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Sync returns Err: the host's operations are done when they return.
func (h *Host) Sync() error { return h.Err() }

// Stop ends all operations, those that are under way too.
func (h *Host) Stop(err error) { h.fault.CompareAndSwap(nil, &err) }

func (h *Host) stopped() bool { return h.fault.Load() != nil }

// unknown sets numbers for the caller to NaN where they have not been computed.
func (h *Host) unknown(out []float64) {
	if h.stopped() {
		for i := range out {
			out[i] = math.NaN()
		}
	}
}

// spares are hosts with the pools of those that were closed, for [Open]: memory that the process has touched is not
// paid for again.
var spares sync.Pool

// Close empties the pool. Batches that have not been freed stay usable.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytes := h.stats.PooledBytes; bytes > 0 && bytes <= leastPooledBytes {
		spares.Put(&Host{pool: h.pool, frees: h.frees, stats: Stats{PooledBytes: bytes}})
	}
	h.pool = map[int][]*hostBuffer{}
	h.stats.PooledBytes = 0
	return nil
}

func (h *Host) own(b Batch) *hostBuffer {
	buf, ok := b.buf.(*hostBuffer)
	if !ok || b.dev != Device(h) {
		name := "none"
		if b.dev != nil {
			name = fmt.Sprintf("%q", b.dev.Name())
		}
		panic(fmt.Sprintf("array: a batch %s of device %s used on another device, %q", b, name, h.Name()))
	}
	if buf.freed {
		panic(fmt.Sprintf("array: a batch %s used after it was freed", b))
	}
	return buf
}

// HostRow is vector i of a batch that lives on the host, as a slice of the
// batch's own memory; ok is false for a batch on another device.
func (b Batch) HostRow(i int) (row []float64, ok bool) {
	buf, ok := b.buf.(*hostBuffer)
	if !ok {
		return nil, false
	}
	if i < 0 || i >= b.k {
		panic(fmt.Sprintf("array: vector %d of a batch %s", i, b))
	}
	return buf.data[b.off+i*b.stride:][:b.n:b.n], true
}

func (b *Batch) row(i int) []float64 {
	if b.k == 1 {
		i = 0
	}
	return b.buf.(*hostBuffer).data[b.off+i*b.stride:][:b.n:b.n]
}

// flat reports whether the batch is k vectors without gaps, or the zero Batch.
func (b *Batch) flat(k int) bool { return b.dev == nil || (b.k == k && b.stride == b.n) }

// same panics unless x has dst's shape or is a single vector of its length.
func (h *Host) same(op string, dst Batch, xs ...Batch) {
	h.own(dst)
	for _, x := range xs {
		h.own(x)
	}
	CheckSame(op, dst, xs...)
}

func (h *Host) Upload(dst Batch, src []float64) {
	h.own(dst)
	if len(src) != dst.k*dst.n {
		panic(fmt.Sprintf("array: upload of %d values into %s", len(src), dst))
	}
	for i := range dst.k {
		copy(dst.row(i), src[i*dst.n:])
	}
}

func (h *Host) Download(dst []float64, src Batch) {
	h.own(src)
	if len(dst) != src.k*src.n {
		panic(fmt.Sprintf("array: download of %s into %d values", src, len(dst)))
	}
	for i := range src.k {
		copy(dst[i*src.n:], src.row(i))
	}
	h.unknown(dst)
}

// held is memory outside batches: counted when it is taken, and once when it is freed.
type held struct {
	host  *Host
	bytes int64
	free  *sync.Once
}

func (h *Host) hold(bytes int64) held {
	h.count(0, bytes)
	return held{h, bytes, new(sync.Once)}
}

func (h *Host) count(batches int, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.Add(batches, bytes)
}

func (m held) Bytes() int64 { return m.bytes }
func (m held) Free()        { m.free.Do(func() { m.host.count(0, -m.bytes) }) }

// onHost is what an operation gets of memory outside batches, which must be the host's.
func onHost[T any](op string, x any) T {
	on, ok := x.(T)
	if !ok {
		panic(fmt.Sprintf("array: %s on the host with memory of another device, a %T", op, x))
	}
	return on
}
