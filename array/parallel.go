package array

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A task is one data-parallel operation: kernel is called from several goroutines, on chunks that
// together cover [0, total). The operands are fields of the task, so that starting one allocates
// nothing.
type task struct {
	host   *Host
	kernel func(t *task, lo, hi int)
	total  int
	grain  int // chunk size, a function of the operation alone

	dst, x, y, z Batch
	a, b         float64
	as, bs       []float64
	out          []float64
	idx          []int32
	csr          *hostCSR
	rays         *hostRays
	dft          *hostDFT
	blocks       *hostBlocks
	lines        *adjacency
	from, to     []int32 // of the entries in every line
	ta, tb       bool
	sa, sb, sc   Shape
	width        int

	next  atomic.Int64
	procs int64
	wg    sync.WaitGroup
}

var (
	taskPool = sync.Pool{New: func() any { return new(task) }}
	// helpers is the channel on which idle helpers wait for a task to share. They are started when
	// a task finds too few, and live as long as the process.
	helpers     = make(chan *task)
	helperCount atomic.Int64
	// busy counts the goroutines that compute. A goroutine inside a C library does not count
	// against GOMAXPROCS: without this count, concurrent callers would use more threads than there
	// are processors.
	busy atomic.Int64
)

func help() {
	for t := range helpers {
		t.work(nil)
		t.wg.Done()
	}
}

// work takes chunks until none is left. It calls offer before each one, unless offer is nil.
func (t *task) work(offer func(t *task)) {
	busy.Add(1)
	defer busy.Add(-1)
	for {
		lo := int(t.next.Add(int64(t.grain))) - t.grain
		if lo >= t.total || t.host.stopped() {
			return
		}
		if offer != nil && lo+t.grain < t.total {
			offer(t)
		}
		t.kernel(t, lo, min(lo+t.grain, t.total))
	}
}

// offerTask shares the rest of a task with idle helpers, as long as processors are idle.
func offerTask(t *task) {
	for free := t.procs - busy.Load(); free > 0; free-- {
		t.wg.Add(1)
		select {
		case helpers <- t:
			continue
		default:
		}
		if n := helperCount.Load(); n < t.procs-1 && helperCount.CompareAndSwap(n, n+1) {
			go func() {
				t.work(nil)
				t.wg.Done()
				help()
			}()
			continue
		}
		t.wg.Done()
		return
	}
}

// run does the task with the caller's goroutine and every idle helper, then recycles it. Chunk
// boundaries, and so the bits of the results, do not depend on the number of helpers.
func (t *task) run() {
	switch {
	case t.total <= 0 || t.host.stopped():
	case t.grain >= t.total:
		t.kernel(t, 0, t.total)
	default:
		t.next.Store(0)
		t.procs = int64(runtime.GOMAXPROCS(0))
		t.work(offerTask)
		t.wg.Wait()
	}
	t.host, t.kernel, t.as, t.bs, t.out, t.idx, t.csr = nil, nil, nil, nil, nil, nil, nil
	t.lines, t.rays, t.dft, t.blocks, t.from, t.to = nil, nil, nil, nil, nil, nil
	t.dst, t.x, t.y, t.z = Batch{}, Batch{}, Batch{}, Batch{}
	taskPool.Put(t)
}

func (h *Host) newTask(kernel func(*task, int, int), total, grain int) *task {
	t := taskPool.Get().(*task)
	t.kernel, t.total, t.grain, t.host = kernel, total, max(grain, 1), h
	return t
}
