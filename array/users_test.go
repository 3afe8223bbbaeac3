package array_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"surepipe/array"
)

// One of those who leave is the last, whoever joined before.
func TestTheLastOfTheUsersLeavesOnce(t *testing.T) {
	var users array.Users
	var last atomic.Int32
	for range 7 {
		users.Join()
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if users.Leave() {
				last.Add(1)
			}
		})
	}
	all.Wait()
	if last.Load() != 1 {
		t.Errorf("%d of eight users were the last", last.Load())
	}
}
