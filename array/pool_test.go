package array_test

import (
	"testing"

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
}
