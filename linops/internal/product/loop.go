package product

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Loop is work in parts that may run in any order and in parallel.
type Loop interface{ Part(i int) }

// team runs one loop on several goroutines. A pool keeps it together with its helpers' function
// value, so that starting a loop allocates nothing.
type team struct {
	body Loop
	n    int64
	next atomic.Int64
	wg   sync.WaitGroup
	help func()
}

var teams = sync.Pool{New: func() any {
	c := new(team)
	c.help = func() {
		c.work()
		c.wg.Done()
	}
	return c
}}

func (c *team) work() {
	for {
		i := c.next.Add(1) - 1
		if i >= c.n {
			return
		}
		c.body.Part(int(i))
	}
}

// InParallel runs the parts 0 to n-1 of a loop on all processors.
func InParallel(n int, body Loop) {
	procs := min(runtime.GOMAXPROCS(0), n)
	if procs <= 1 {
		inTurn(n, body)
		return
	}
	c := teams.Get().(*team)
	c.body, c.n = body, int64(n)
	c.next.Store(0)
	c.wg.Add(procs - 1)
	for range procs - 1 {
		go c.help()
	}
	c.work()
	c.wg.Wait()
	c.body = nil
	teams.Put(c)
}

func inTurn(n int, body Loop) {
	for i := range n {
		body.Part(i)
	}
}

// Run runs a loop's parts on all processors if shared.
func Run(n int, body Loop, shared bool) {
	if shared {
		InParallel(n, body)
	} else {
		inTurn(n, body)
	}
}

// Parts is the number of parts of a size that n things make.
func Parts(n, size int) int { return (n + size - 1) / size }

// Resize is x with room for n values, in its own memory where that is large enough.
func Resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
}
