package array

import (
	"sync"

	"surepipe/internal/parallel"
)

// A task is one data-parallel operation: kernel is called from several goroutines, on chunks that
// together cover [0, total). The operands are fields of the task, so that starting one allocates
// nothing.
type task struct {
	host         *Host
	kernel       func(t *task, lo, hi int)
	total, grain int // grain is the size of a chunk, a function of the operation alone

	dst, x, y, z Batch
	a, b         float64
	as, bs       []float64
	out          []float64
	idx          []int32
	on           any // the sparse matrix, blocks, rays, transform or lines of a pattern
	ta, tb       bool
	sa, sb, sc   Shape
	width        int
	each         segmentKernel
}

// segmentKernel computes coordinates of vector i: d, x, y and z are these coordinates of the operands, nil for a zero
// Batch.
type segmentKernel func(t *task, i int, d, x, y, z []float64)

var taskPool = sync.Pool{New: func() any { return new(task) }}

func (h *Host) newTask(kernel func(*task, int, int), total, grain int) *task {
	t := taskPool.Get().(*task)
	t.kernel, t.total, t.grain, t.host = kernel, total, max(grain, 1), h
	return t
}

// Part does chunk i, unless the host has been stopped.
func (t *task) Part(i int) {
	if !t.host.stopped() {
		t.kernel(t, i*t.grain, min((i+1)*t.grain, t.total))
	}
}

// run does the task on all idle processors, then recycles it. Chunk boundaries, and so the bits of the results, do not
// depend on the number of processors.
func (t *task) run() {
	parallel.Do(parallel.Parts(t.total, t.grain), t)
	*t = task{}
	taskPool.Put(t)
}

// segment is the part of the flattened range [lo, hi) that lies in the vector of lo: vector i,
// coordinates [p, q).
func (t *task) segment(lo, hi int) (i, p, q int) {
	if t.dst.k == 1 {
		return 0, lo, hi
	}
	i = lo / t.dst.n
	p = lo - i*t.dst.n
	return i, p, min(t.dst.n, p+hi-lo)
}

// segments calls t.each with the segments of a flattened range.
func segments(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		t.each(t, i, t.dst.part(i, p, q), t.x.part(i, p, q), t.y.part(i, p, q), t.z.part(i, p, q))
		lo += q - p
	}
}

func (b *Batch) part(i, p, q int) []float64 {
	if b.dev == nil {
		return nil
	}
	return b.row(i)[p:q]
}
