package array_test

import (
	"runtime"
	"testing"
	"weak"

	"surepipe/array"
)

// A phase of a computation does not keep the buffers of the one before it beside its own.
func TestThePoolKeepsNoMoreThanWasLive(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const each, count = 1 << 20, 20 // 160 MB in all
	var most int64
	for phase := range 4 {
		var live []array.Batch
		for range count {
			live = append(live, dev.Alloc(1, each+phase*each/4))
			s := dev.Stats()
			most = max(most, s.LiveBytes+s.PooledBytes)
		}
		for _, b := range live {
			b.Free()
		}
	}
	if s := dev.Stats(); most > s.PeakBytes/4*5 {
		t.Errorf("%d bytes held, %d were live at most", most, s.PeakBytes)
	}
	// What fits is used again.
	before := dev.Stats().PooledBytes
	b := dev.Alloc(1, each+3*each/4)
	if after := dev.Stats().PooledBytes; after != before-b.Bytes() {
		t.Errorf("%d bytes in the pool after taking %d of %d", after, b.Bytes(), before)
	}
	b.Free()
	if array.Trim(dev); dev.Stats().PooledBytes > 64<<20 {
		t.Errorf("%d bytes in the pool after it was trimmed", dev.Stats().PooledBytes)
	}
}

// Numbers are computed once for what they belong to, and do not keep it.
func TestFixedVectorsForget(t *testing.T) {
	f, computed := &array.Fixed{}, 0
	compute := func() []float64 { computed++; return []float64{float64(computed)} }
	of := new([16]int)
	for range 2 {
		if got := array.Kept(f, of, compute); computed != 1 || got[0] != 1 {
			t.Fatalf("%v after %d computations", got, computed)
		}
	}
	at := weak.Make(of)
	runtime.GC()
	if at.Value() != nil {
		t.Error("what the numbers belong to is kept")
	}
	if got := array.Kept(f, new([16]int), compute); got[0] != 2 {
		t.Errorf("another has the numbers %v", got)
	}
}
