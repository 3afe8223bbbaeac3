package array

import (
	"slices"
	"testing"
)

// RegisterForTest registers a driver until the test ends.
func RegisterForTest(t *testing.T, kind string, d Driver) {
	Register(kind, d)
	t.Cleanup(func() {
		drivers.mu.Lock()
		defer drivers.mu.Unlock()
		delete(drivers.of, kind)
		drivers.kinds = slices.DeleteFunc(drivers.kinds, func(k string) bool { return k == kind })
	})
}
