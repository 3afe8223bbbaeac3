// Package parallel runs loops on all processors.
//
// [Do] shares the parts of a loop among the caller and helper goroutines, which are as many as there are idle
// processors: loops that run at the same time, or inside of each other, do not compete for them. Helpers, once
// started, live as long as the process. A loop allocates nothing. Between loops that soon follow each other helpers
// stay awake, as does a caller whose helpers soon end: to wake a goroutine may take longer than a short loop.
//
// What a part computes must not depend on the other parts: the bits of a result are then the same for any number of
// processors.
package parallel

import (
	"cmp"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
)

// Loop is work in parts, which run in any order and at the same time.
type Loop interface{ Part(i int) }

// calls is a loop whose parts are calls.
type calls func(i int)

func (f calls) Part(i int) { f(i) }

// crew is a loop that is under way.
type crew struct {
	body  Loop
	n     int64
	procs int64
	next  atomic.Int64
	// held counts the caller, the goroutines that help it, and its offers that none has taken. The caller gives up
	// its own when it sleeps until ended: who brings held to 0 wakes it.
	held  atomic.Int64
	ended chan struct{}
}

var (
	crews = sync.Pool{New: func() any { return &crew{ended: make(chan struct{}, 1)} }}
	// offered is a loop that a watching helper may share. Only its caller offers it, and takes it back at the end.
	offered  atomic.Pointer[crew]
	watching atomic.Int64 // helpers that watch offered
	// helpers is the channel on which sleeping helpers wait for a loop to share. They are started when a loop finds
	// too few.
	helpers     = make(chan *crew)
	helperCount atomic.Int64
	// busy counts the goroutines that compute. A goroutine inside a C library does not count against GOMAXPROCS:
	// without this count, concurrent callers would use more threads than there are processors.
	busy atomic.Int64
)

// Do runs the parts 0 to n-1 of a loop on all idle processors.
func Do(n int, body Loop) {
	procs := 1
	if n > 1 {
		procs = runtime.GOMAXPROCS(0) // takes a lock of all
	}
	if procs == 1 {
		for i := range n {
			body.Part(i)
		}
		return
	}
	c := crews.Get().(*crew)
	c.body, c.n, c.procs = body, int64(n), int64(procs)
	c.next.Store(0)
	c.held.Store(1)
	defer c.end()
	c.work(true)
}

// end returns when no part is left or under way. After a part of the caller that panics no other begins.
func (c *crew) end() {
	c.next.Store(c.n)
	c.wait()
	c.body = nil
	crews.Put(c)
}

// For calls f with the numbers 0 to n-1 on all idle processors.
func For(n int, f func(i int)) { Do(n, calls(f)) }

// Ranges calls f with the ranges from lo to hi-1 of a size, of which the last may be shorter, that 0 to n-1 consist of.
func Ranges(n, size int, f func(lo, hi int)) {
	Do(Parts(n, size), calls(func(i int) { f(i*size, min((i+1)*size, n)) }))
}

// RangesIf is Ranges if shared, and otherwise takes the ranges one after the other.
func RangesIf(shared bool, n, size int, f func(lo, hi int)) {
	if shared {
		Ranges(n, size, f)
		return
	}
	for lo := 0; lo < n; lo += size {
		f(lo, min(lo+size, n))
	}
}

// work takes parts until none is left. The caller's goroutine offers the rest to helpers before each of its parts.
func (c *crew) work(offers bool) {
	busy.Add(1)
	defer busy.Add(-1)
	for {
		i := c.next.Add(1) - 1
		if i >= c.n {
			return
		}
		if offers && i+1 < c.n {
			c.offer()
		}
		c.body.Part(int(i))
	}
}

// offer shares the rest of a loop with idle helpers, as long as processors are idle.
func (c *crew) offer() {
	for free := c.procs - busy.Load(); free > 0; free-- {
		c.held.Add(1)
		if watching.Load() > 0 && offered.CompareAndSwap(nil, c) {
			continue
		}
		select {
		case helpers <- c:
			continue
		default:
		}
		if n := helperCount.Load(); n < c.procs-1 && helperCount.CompareAndSwap(n, n+1) {
			go help(c)
			continue
		}
		c.held.Add(-1)
		return
	}
}

// wait returns when no helper works on the loop any more.
func (c *crew) wait() {
	if offered.CompareAndSwap(c, nil) {
		c.held.Add(-1)
	}
	if !watch(func() bool { return c.held.Load() == 1 }) && c.held.Add(-1) > 0 {
		<-c.ended
	}
}

// help works on a loop, and then on those that are offered.
func help(c *crew) {
	for {
		c.work(false)
		if c.held.Add(-1) == 0 {
			c.ended <- struct{}{}
		}
		if c = awaitOffer(); c == nil {
			c = <-helpers
		}
	}
}

// awaitOffer is a loop that is offered soon, or nil.
func awaitOffer() (c *crew) {
	take := func() bool {
		c = offered.Load()
		return c != nil && offered.CompareAndSwap(c, nil)
	}
	got := watching.Add(1) <= mostWatching && watch(take)
	if watching.Add(-1); got || take() {
		return c
	}
	return nil
}

const (
	// mostWatching bounds the helpers that watch at the same time: each keeps a processor, and asks the scheduler
	// again and again whether another goroutine needs it.
	mostWatching = 8
	// A goroutine watches for about as long as it would take to wake it. It asks so many times before it lets
	// others run.
	watchRounds, asks = 50, 256
)

// watch asks until the answer is yes, or for so long that it pays to sleep.
func watch(yes func() bool) bool {
	for range watchRounds {
		for range asks {
			if yes() {
				return true
			}
		}
		runtime.Gosched()
	}
	return false
}

// Each calls f with the numbers 0 to n-1 on all idle processors. w is memory that no other call uses at the same time;
// fresh makes it. The error is the first one in the order of the numbers.
func Each[W any](n int, fresh func() W, f func(i int, w W) error) error {
	errs := make([]error, n)
	var mu sync.Mutex
	var free []W
	For(n, func(i int) {
		mu.Lock()
		var w W
		if k := len(free) - 1; k >= 0 {
			w, free = free[k], free[:k]
			mu.Unlock()
		} else {
			mu.Unlock()
			w = fresh()
		}
		errs[i] = f(i, w)
		mu.Lock()
		free = append(free, w)
		mu.Unlock()
	})
	return cmp.Or(errs...)
}

// Parts is the number of parts of a size that n things make.
func Parts(n, size int) int { return (n + size - 1) / size }

// Share is the number of values, which take a nanosecond or more each, that one processor takes at a time: many beside
// the handing over, few enough to be shared, and in its cache.
const Share = 1 << 12

// Shares is what f gives for each share of n values, in order.
func Shares(n int, f func(lo, hi int) float64) []float64 {
	all := make([]float64, Parts(n, Share))
	Ranges(n, Share, func(lo, hi int) { all[lo/Share] = f(lo, hi) })
	return all
}

// Rows is the number of rows of a length that make a share.
func Rows(length int) int { return max(1, Share/max(length, 1)) }

// Panel is the number of rows whose product with other rows is one product of matrices: more are no faster.
const Panel = 256

// Panels are the ranges of rows, from lo to hi-1, of which n rows consist, one after the other.
func Panels(n int) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for lo := 0; lo < n && yield(lo, min(lo+Panel, n)); lo += Panel {
		}
	}
}
