package linops

import (
	"slices"
	"sync"

	"surepipe/array"
)

// etaCacheSize is the number of values of eta for which an operator keeps factorizations. A solver
// uses one, or a few while it adapts its step.
const etaCacheSize = 4

// etaCache keeps, for the few most recent values of eta, a batch that depends on eta alone. A batch
// that leaves the cache is freed after its last use.
type etaCache struct {
	mu      sync.Mutex
	entries []*etaEntry // the most recently used first
}

type etaEntry struct {
	eta    float64
	once   sync.Once
	value  array.Batch // the zero Batch where it cannot be built
	failed bool        // value is wrong, for lack of memory

	users   int  // guarded by the cache's mu, as is dropped
	dropped bool // out of the cache
}

// acquire returns the entry of eta, which build makes if there is none; the caller releases it. If
// several goroutines ask for the same new eta at once, one of them builds it and the others wait;
// goroutines that ask for another eta do not.
//
// build allocates on a view of dev that has no other use, because its batch is shared by all
// requests, and the fault of one must not reach the others. An entry for which the view had no
// memory is not kept: the request that reads its value fails, and the next one builds it again.
func (c *etaCache) acquire(dev array.Device, eta float64, build func(on array.Device) array.Batch) *etaEntry {
	for {
		e, mine := c.find(eta), false
		e.once.Do(func() {
			mine = true
			c.build(e, dev.Request(), build)
		})
		if mine || !e.failed {
			return e
		}
		c.release(e)
	}
}

// build sets the value of an entry, and drops the entry where that fails or panics.
func (c *etaCache) build(e *etaEntry, on array.Device, build func(on array.Device) array.Batch) {
	e.failed = true
	defer func() {
		if e.failed {
			c.forget(e)
		}
	}()
	e.value = build(on)
	e.failed = on.Err() != nil
}

// find returns the entry of eta, which may be a new one, and counts the user.
func (c *etaCache) find(eta float64) *etaEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	var e *etaEntry
	for i, x := range c.entries {
		if x.eta == eta {
			e = x
			copy(c.entries[1:], c.entries[:i])
			c.entries[0] = e
			break
		}
	}
	if e == nil {
		e = &etaEntry{eta: eta}
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
func (c *etaCache) forget(e *etaEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.entries, e); i >= 0 {
		c.entries = slices.Delete(c.entries, i, i+1)
		c.drop(e)
	}
}

// release ends the use that acquire began.
func (c *etaCache) release(e *etaEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if e.dropped && e.users == 0 {
		e.value.Free()
	}
}

func (c *etaCache) drop(e *etaEntry) {
	e.dropped = true
	if e.users == 0 {
		e.value.Free()
	}
}

// clear drops every entry.
func (c *etaCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		c.drop(e)
	}
	c.entries = nil
}

// uploadShrinkage puts 1/(1 + eta q) on the device. It overwrites q.
func uploadShrinkage(dev array.Device, q []float64, eta float64) array.Batch {
	for i, v := range q {
		q[i] = 1 / (1 + eta*v)
	}
	b := dev.Alloc(1, len(q))
	dev.Upload(b, q)
	return b
}
