package product

import (
	"slices"
	"sync"

	"surepipe/array"
)

// etaCacheSize is the number of values of eta for which an operator keeps factorizations. A solver
// uses one, or a few while it adapts its step.
const etaCacheSize = 4

// Cache keeps, for the few most recent values of eta, a batch that depends on eta alone. A batch
// that leaves the cache is freed after its last use.
type Cache struct {
	mu      sync.Mutex
	entries []*Entry // the most recently used first
}

// Entry is the batch of one value of eta.
type Entry struct {
	eta    float64
	once   sync.Once
	Value  array.Batch // the zero Batch where it cannot be built
	failed bool        // value is wrong, for lack of memory

	users   int  // guarded by the cache's mu, as is dropped
	dropped bool // out of the cache
}

// Acquire returns the entry of eta, which build makes if there is none; the caller releases it. If
// several goroutines ask for the same new eta at once, one of them builds it and the others wait;
// goroutines that ask for another eta do not.
//
// build allocates on a view of dev that has no other use, because its batch is shared by all
// requests, and the fault of one must not reach the others. An entry for which the view had no
// memory is not kept: the request that reads its value fails, and the next one builds it again.
func (c *Cache) Acquire(dev array.Device, eta float64, build func(on array.Device) array.Batch) *Entry {
	for {
		e, mine := c.find(eta), false
		e.once.Do(func() {
			mine = true
			c.build(e, dev.Request(), build)
		})
		if mine || !e.failed {
			return e
		}
		c.Release(e)
	}
}

// build sets the value of an entry, and drops the entry where that fails or panics.
func (c *Cache) build(e *Entry, on array.Device, build func(on array.Device) array.Batch) {
	e.failed = true
	defer func() {
		if e.failed {
			c.forget(e)
		}
	}()
	e.Value = build(on)
	e.failed = on.Err() != nil
}

// find returns the entry of eta, which may be a new one, and counts the user.
func (c *Cache) find(eta float64) *Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	var e *Entry
	for i, x := range c.entries {
		if x.eta == eta {
			e = x
			copy(c.entries[1:], c.entries[:i])
			c.entries[0] = e
			break
		}
	}
	if e == nil {
		e = &Entry{eta: eta}
		if len(c.entries) == etaCacheSize {
			c.drop(c.entries[etaCacheSize-1])
			c.entries = c.entries[:etaCacheSize-1]
		}
		c.entries = append(c.entries, nil)
		copy(c.entries[1:], c.entries)
		c.entries[0] = e
	}
	e.users++
	return e
}

// forget takes an entry out of the cache; it still has a user.
func (c *Cache) forget(e *Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.entries, e); i >= 0 {
		c.entries = slices.Delete(c.entries, i, i+1)
		c.drop(e)
	}
}

// Release ends the use that Acquire began.
func (c *Cache) Release(e *Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if e.dropped && e.users == 0 {
		e.Value.Free()
	}
}

func (c *Cache) drop(e *Entry) {
	e.dropped = true
	if e.users == 0 {
		e.Value.Free()
	}
}

// Bytes is 0: what the cache keeps is not counted.
func (c *Cache) Bytes() int64 { return 0 }

// Free drops every entry.
func (c *Cache) Free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		c.drop(e)
	}
	c.entries = nil
}

// UploadShrinkage puts 1/(1 + eta q) on the device. It overwrites q.
func UploadShrinkage(dev array.Device, q []float64, eta float64) array.Batch {
	for i, v := range q {
		q[i] = 1 / (1 + eta*v)
	}
	b := dev.Alloc(1, len(q))
	dev.Upload(b, q)
	return b
}
