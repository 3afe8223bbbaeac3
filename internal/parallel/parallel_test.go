package parallel_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"surepipe/internal/parallel"
)

// Every part runs once, in loops inside of loops too, with any number of processors.
func TestEveryPartRunsOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2, 7} {
		runtime.GOMAXPROCS(procs)
		for _, n := range []int{0, 1, 2, 100} {
			for _, shared := range []bool{false, true} {
				var count [101][10]atomic.Int64
				parallel.RangesIf(shared, n, 1, func(i, end int) {
					parallel.Ranges(10, 3, func(lo, hi int) {
						for j := lo; j < hi; j++ {
							count[i][j].Add(int64(end - i))
						}
					})
				})
				for i := range count {
					for j := range count[i] {
						want := int64(0)
						if i < n {
							want = 1
						}
						if got := count[i][j].Load(); got != want {
							t.Fatalf("%d processors, %d parts: part %d, %d ran %d times", procs, n, i, j, got)
						}
					}
				}
			}
		}
	}
}

// Memory is used by one call at a time, and the error is the first in order.
func TestEach(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var made atomic.Int64
	err := parallel.Each(1000, func() *atomic.Int64 { made.Add(1); return new(atomic.Int64) },
		func(i int, users *atomic.Int64) error {
			if users.Add(1) != 1 {
				t.Error("memory is used twice at the same time")
			}
			runtime.Gosched()
			users.Add(-1)
			if i%300 == 200 {
				return fmt.Errorf("%d", i)
			}
			return nil
		})
	if err == nil || err.Error() != "200" {
		t.Errorf("error %v, want that of 200", err)
	}
	if n := made.Load(); n < 1 || n > 5 {
		t.Errorf("memory was made %d times by 4 processors", n)
	}
	if err := parallel.Each(0, func() int { return 0 }, func(int, int) error { return errors.New("called") }); err != nil {
		t.Error(err)
	}
}

type calls func(i int)

func (f calls) Part(i int) { f(i) }

// A loop allocates nothing.
func TestDoAllocatesNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	nothing := calls(func(int) {})
	parallel.Do(10, nothing)
	if n := testing.AllocsPerRun(100, func() { parallel.Do(10, nothing) }); n > 0.5 {
		t.Errorf("%g allocations a loop", n)
	}
}

func ExampleEach() {
	squares := make([]int, 5)
	err := parallel.Each(5, func() struct{} { return struct{}{} }, func(i int, _ struct{}) error {
		squares[i] = i * i
		return nil
	})
	fmt.Println(squares, err)
	// Output: [0 1 4 9 16] <nil>
}

// Where a part of the caller panics no other part begins after the panic, or is under way.
func TestNoPartOutlivesAPanic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	goroutine := func() string {
		b := make([]byte, 32)
		return strings.Fields(string(b[:runtime.Stack(b, false)]))[1]
	}
	for range 100 {
		var under, parts atomic.Int64
		func() {
			defer func() {
				if recover() != "caller" {
					t.Error("the panic is lost")
				}
			}()
			caller := goroutine()
			parallel.For(50, func(int) {
				under.Add(1)
				defer under.Add(-1)
				parts.Add(1)
				time.Sleep(100 * time.Microsecond)
				if goroutine() == caller {
					panic("caller")
				}
			})
		}()
		before := parts.Load()
		if under.Load() != 0 {
			t.Fatalf("%d parts are under way after the panic", under.Load())
		}
		if time.Sleep(time.Millisecond); parts.Load() != before {
			t.Fatalf("%d parts began after the panic", parts.Load()-before)
		}
	}
}

func TestPanelsAndRowsCoverAll(t *testing.T) {
	for _, n := range []int{0, 1, parallel.Panel - 1, parallel.Panel, parallel.Panel + 1, 3*parallel.Panel + 2} {
		next := 0
		for lo, hi := range parallel.Panels(n) {
			if lo != next || hi <= lo || hi > n || hi-lo > parallel.Panel {
				t.Fatalf("%d rows: a panel from %d to %d after %d", n, lo, hi, next)
			}
			next = hi
		}
		if next != n {
			t.Errorf("%d rows: the panels end at %d", n, next)
		}
	}
	for length, want := range map[int]int{0: parallel.Share, 1: parallel.Share, parallel.Share / 2: 2, parallel.Share: 1,
		5 * parallel.Share: 1} {
		if got := parallel.Rows(length); got != want {
			t.Errorf("%d rows of length %d make a share, expected %d", got, length, want)
		}
	}
}
