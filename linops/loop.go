package linops

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// loop is work in parts that may run in any order and in parallel.
type loop interface{ part(i int) }

// crew runs one loop on several goroutines. A pool keeps it together with its helpers' function
// value, so that starting a loop allocates nothing.
type crew struct {
	body loop
	n    int64
	next atomic.Int64
	wg   sync.WaitGroup
	help func()
}

var crews = sync.Pool{New: func() any {
	c := new(crew)
	c.help = func() {
		c.work()
		c.wg.Done()
	}
	return c
}}

func (c *crew) work() {
	for {
		i := c.next.Add(1) - 1
		if i >= c.n {
			return
		}
		c.body.part(int(i))
	}
}

// inParallel runs the parts 0 to n-1 of a loop on all processors.
func inParallel(n int, body loop) {
	procs := min(runtime.GOMAXPROCS(0), n)
	if procs <= 1 {
		inTurn(n, body)
		return
	}
	c := crews.Get().(*crew)
	c.body, c.n = body, int64(n)
	c.next.Store(0)
	c.wg.Add(procs - 1)
	for range procs - 1 {
		go c.help()
	}
	c.work()
	c.wg.Wait()
	c.body = nil
	crews.Put(c)
}

func inTurn(n int, body loop) {
	for i := range n {
		body.part(i)
	}
}

// run runs a loop's parts on all processors if shared.
func run(n int, body loop, shared bool) {
	if shared {
		inParallel(n, body)
	} else {
		inTurn(n, body)
	}
}

// parts is the number of parts of a size that n things make.
func parts(n, size int) int { return (n + size - 1) / size }

// resize is x with room for n values, in its own memory where that is large enough.
func resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
}
