//go:build cuda

package cuda_test

import (
	"testing"

	"surepipe/array/arraytest"
	"surepipe/cuda/emulator"
)

// Both kernels and cuBLAS stay within their memory, which only the emulated driver can
// tell.
func TestCardsConform(t *testing.T) {
	if emulator.Present() {
		t.Cleanup(func() { // when the devices are closed
			if c := emulator.Read(); c.Overruns > 0 {
				t.Errorf("%d allocations were written beside", c.Overruns)
			}
		})
	}
	for _, dev := range arraytest.Devices(t)[1:] {
		t.Run(dev.Name(), func(t *testing.T) {
			arraytest.NoLeak(t, dev)
			arraytest.EachClaim(t, dev)
		})
	}
}
