package linops

import (
	"sync"

	"surepipe/array"
)

// etaCacheSize is how many values of eta an operator keeps factorizations for.
// A solver uses one, or a few while it balances its step.
const etaCacheSize = 4

// etaCache keeps, for the latest few values of eta, a batch that depends on eta
// alone. The batch of a value that drops out is freed when its last user is
// done.
type etaCache struct {
	mu      sync.Mutex
	entries []*etaEntry // the latest used first
}

type etaEntry struct {
	eta   float64
	once  sync.Once
	value array.Batch // the zero Batch where it could not be built

	users   int  // guarded by the cache's mu, as is dropped
	dropped bool // out of the cache
}

// acquire returns the entry of eta, calling build when there is none; the
// caller releases it. Of several goroutines that ask for the same new eta at
// once one builds and the others wait; they wait for no other eta.
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
