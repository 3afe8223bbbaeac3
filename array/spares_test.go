package array_test

import (
	"testing"

	"surepipe/array"
)

// What a host that was closed leaves is of one other host alone, and batches that were not freed are not among it.
func TestMemoryOfAClosedHostIsOfOneOther(t *testing.T) {
	open := func() array.Device {
		h, err := array.Open("cpu", 0)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	closed := open()
	live := closed.Alloc(1, 100)
	closed.Fill(live, 1)
	closed.Alloc(1, 100).Free()
	for range 2 {
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var hosts []array.Device
	var batches []array.Batch
	for i := range 3 {
		h := open()
		if h == closed || len(hosts) > 0 && h == hosts[len(hosts)-1] {
			t.Fatal("a host is opened that is open or was closed")
		}
		b := h.Alloc(1, 100)
		h.Fill(b, float64(2+i))
		hosts, batches = append(hosts, h), append(batches, b)
	}
	for i, b := range append(batches, live) {
		if want := []float64{2, 3, 4, 1}[i]; b.ToHost()[0] != want {
			t.Errorf("batch %d has %g, expected %g", i, b.ToHost()[0], want)
		}
		b.Free()
	}
	for _, h := range hosts {
		if s := h.Stats(); s.LiveBytes != 0 {
			t.Errorf("%d bytes are live", s.LiveBytes)
		}
	}
}
