package array_test

import (
	"testing"

	"surepipe/array"
)

// On the host Put is the slice itself: no copy, and its memory never reaches
// the pool.
func TestPutUsesTheSliceItself(t *testing.T) {
	dev := array.NewHost()
	data := []float64{1, 2, 3, 4, 5, 6}
	b := dev.Put(data, 2, 3)
	data[4] = 50
	if got := b.ToHost(); got[4] != 50 {
		t.Errorf("the batch holds %v", got)
	}
	if s := dev.Stats(); s.Live != 1 || s.LiveBytes != 48 {
		t.Errorf("before Free: %+v", s)
	}
	b.Free()
	if s := dev.Stats(); s.Live != 0 || s.LiveBytes != 0 || s.PooledBytes != 0 {
		t.Errorf("after Free: %+v", s)
	}
	defer func() {
		if recover() == nil {
			t.Error("5 values as 2 x 3 did not panic")
		}
	}()
	dev.Put(data[:5], 2, 3)
}
