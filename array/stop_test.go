package array_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"surepipe/array"
	"surepipe/array/arraytest"
)

// After Stop operations do nothing, numbers for the host are NaN, and the error is the caller's, also
// for work that began before.
func TestStop(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		dev, err := array.Open(dev.Name(), 1<<24) // its own, as it ends
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		view, ended := dev.Request(), errors.New("ended")
		x := view.Alloc(2, 5)
		defer x.Free()
		view.Fill(x, 1)
		if err := view.Sync(); err != nil {
			t.Fatal(err)
		}
		dev.Stop(ended)
		dev.Stop(errors.New("another"))
		view.Fill(x, 2)
		out := make([]float64, 2)
		view.Dot(out, x, x)
		for _, v := range append(out, x.ToHost()...) {
			if !math.IsNaN(v) {
				t.Errorf("a number after Stop: %g", v)
			}
		}
		for _, err := range []error{dev.Err(), view.Err(), view.Sync()} {
			if !errors.Is(err, ended) {
				t.Errorf("error %v, expected %v", err, ended)
			}
		}
	})
}

// What is under way on the host ends early.
func TestStopEndsWhatIsUnderWay(t *testing.T) {
	host := array.NewHost()
	const n = 1 << 9
	a, b, c := host.Alloc(n, n), host.Alloc(n, n), host.Alloc(1<<7, n*n)
	for _, x := range []array.Batch{a, b} {
		host.Fill(x, 1)
	}
	s := array.Shape{Rows: n, Cols: n}
	started, ended := make(chan struct{}), make(chan struct{})
	go func() {
		close(started)
		host.GemmEach(false, false, 1, a.Reshape(1, n*n), s, b.Reshape(1, n*n), s, 0, c) // 3e10 flops
		close(ended)
	}()
	<-started
	host.Stop(errors.New("ended"))
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("still under way after 10 seconds")
	}
}
