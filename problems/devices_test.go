package problems_test

import (
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
)

// onEachDevice runs a test on every device there is.
func onEachDevice(t *testing.T, f func(t *testing.T, dev array.Device)) {
	for _, dev := range arraytest.Devices(t) {
		t.Run(dev.Name(), func(t *testing.T) { f(t, dev) })
	}
}
