package array

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A task is one data-parallel operation: kernel is called on chunks of
// [0, total) that together cover it, from several goroutines. Operands travel
// in the task's fields so that launching one allocates nothing.
type task struct {
	kernel func(t *task, lo, hi int)
	total  int
	grain  int // chunk size, a function of the operation alone

	dst, x, y, z Batch
	a, b         float64
	as, bs       []float64
	out          []float64
	idx          []int32
	csr          *hostCSR
	ta, tb       bool
	sa, sb, sc   Shape

	next atomic.Int64
	wg   sync.WaitGroup
}

var (
	taskPool = sync.Pool{New: func() any { return new(task) }}
	// The helpers that share work with whoever asks, one a processor less the
	// asker's own. They are started once and live as long as the process.
	helpers     = make(chan *task)
	helpersOnce sync.Once
	helperCount int
)

func startHelpers() {
	helperCount = runtime.GOMAXPROCS(0) - 1
	for range helperCount {
		go func() {
			for t := range helpers {
				t.work()
				t.wg.Done()
			}
		}()
	}
}

// work takes chunks until none is left.
func (t *task) work() {
	for {
		lo := int(t.next.Add(int64(t.grain))) - t.grain
		if lo >= t.total {
			return
		}
		t.kernel(t, lo, min(lo+t.grain, t.total))
	}
}

// run does the task with the caller's goroutine and every helper that is idle,
// then recycles it. Chunk boundaries do not depend on who helps: neither do
// the results' bits.
func (t *task) run() {
	if t.total > 0 {
		if t.grain >= t.total {
			t.kernel(t, 0, t.total)
		} else {
			helpersOnce.Do(startHelpers)
			t.next.Store(0)
		offer:
			for range min(helperCount, (t.total-1)/t.grain) {
				t.wg.Add(1)
				select {
				case helpers <- t:
				default:
					t.wg.Done()
					break offer
				}
			}
			t.work()
			t.wg.Wait()
		}
	}
	t.kernel, t.as, t.bs, t.out, t.idx, t.csr = nil, nil, nil, nil, nil, nil
	t.dst, t.x, t.y, t.z = Batch{}, Batch{}, Batch{}, Batch{}
	taskPool.Put(t)
}

func newTask(kernel func(*task, int, int), total, grain int) *task {
	t := taskPool.Get().(*task)
	t.kernel, t.total, t.grain = kernel, total, max(grain, 1)
	return t
}
