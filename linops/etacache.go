package linops

import (
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
	eta   float64
	once  sync.Once
	value array.Batch // the zero Batch where it cannot be built

	users   int  // guarded by the cache's mu, as is dropped
	dropped bool // out of the cache
}

// acquire returns the entry of eta, which build makes if there is none; the caller releases it. If
// several goroutines ask for the same new eta at once, one of them builds it and the others wait;
// goroutines that ask for another eta do not.
func (c *etaCache) acquire(eta float64, build func() array.Batch) *etaEntry {
	c.mu.Lock()
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
	c.mu.Unlock()
	e.once.Do(func() { e.value = build() })
	return e
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
