//go:build cuda

package cuda_test

import (
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/cuda/emulator"
)

// A fault names the device, the operation, the shape and the bytes; it sticks, and what
// comes after has no effect.
func TestFaultsNameTheOperation(t *testing.T) {
	for _, c := range []struct {
		do    func(dev array.Device, a, b array.Batch)
		parts []string
	}{
		{func(dev array.Device, a, b array.Batch) { dev.Soft(a, a, array.Batch{}, 1) },
			[]string{"Soft of 3 x 5, 120 bytes", "LAUNCH_FAILED"}},
		{func(dev array.Device, a, b array.Batch) { dev.Upload(a, make([]float64, 15)) },
			[]string{"Upload of 3 x 5, 120 bytes"}},
		{func(dev array.Device, a, b array.Batch) { dev.Download(make([]float64, 15), a) },
			[]string{"Download of 3 x 5, 120 bytes"}},
		{func(dev array.Device, a, b array.Batch) { dev.Gemm(false, true, 1, a, a, 0, b) },
			[]string{"Gemm of 3 x 3, 72 bytes"}},
		{func(dev array.Device, a, b array.Batch) { dev.Sync() }, []string{"Sync: "}},
	} {
		dev := openCard(t, 0)
		a, b := dev.Alloc(3, 5), dev.Alloc(3, 3)
		dev.Fill(a, 1)
		emulator.Fail(1, emulator.Refuse)
		c.do(dev, a, b)
		dev.Fill(a, 2)
		err := dev.Sync()
		for _, part := range append(c.parts, "cuda:0: ") {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("a fault is reported as %v, expected %q in it", err, part)
			}
		}
		if launches := emulator.Read().Launches; launches > 1 {
			t.Errorf("%d kernels ran after the fault", launches-1)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		nothingHeld(t)
	}
}

// What the emulated driver counts is what was asked of it.
func TestEmulatorCounts(t *testing.T) {
	dev := openCard(t, 0)
	before := emulator.Read()
	b := dev.Alloc(2, 100)
	dev.Upload(b, make([]float64, 200))
	dev.Lin(b, 2, b, 1, b)
	dev.Download(make([]float64, 100), b.Rows(1, 2))
	after := emulator.Read()
	if to, from := copied(before, after); to != 200 || from != 100 {
		t.Errorf("%d values to the card and %d from it, expected 200 and 100", to, from)
	}
	if n, m, l := after.Allocs-before.Allocs, after.Launches-before.Launches, after.LiveBytes; n != 1 || m != 1 ||
		l < 1600 {
		t.Errorf("%d allocations, %d launches, %d bytes live", n, m, l)
	}
	b.Free()
	dev.Close()
	nothingHeld(t)
}

func TestOperationsAllocateNothing(t *testing.T) {
	dev := openCard(t, 0)
	x, y, m, z := dev.Alloc(34, 300), dev.Alloc(34, 300), dev.Alloc(300, 70), dev.Alloc(34, 70)
	for _, b := range []array.Batch{x, y, m, z} {
		dev.Fill(b, 1)
		defer b.Free()
	}
	out := make([]float64, 34)
	for name, op := range map[string]func(){
		"Lin":     func() { dev.Lin(y, 0.5, x, 2, y) },
		"LinEach": func() { dev.LinEach(y, out, x, out, y) },
		"Mul":     func() { dev.Mul(y, x, x) },
		"Soft":    func() { dev.Soft(y, x, array.Batch{}, 1) },
		"Gemm":    func() { dev.Gemm(false, false, 1, x, m, 0, z) },
		"Dot":     func() { dev.Dot(out, x, y) },
		"MaxAbs":  func() { dev.MaxAbs(out, x) },
		"Alloc":   func() { dev.Alloc(34, 300).Free() },
	} {
		if allocs := testing.AllocsPerRun(20, op); allocs >= 1 {
			t.Errorf("%s allocates %v times", name, allocs)
		}
	}
}
