package stages

import (
	"testing"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/vjp"
)

// wide is a linearization of which all that matters is how large its probes are.
type wide struct {
	vjp.Linearization
	bytes    int64
	together int
}

func (w wide) Bytes() int64      { return 0 }
func (w wide) ProbeBytes() int64 { return w.bytes }
func (w wide) Inner() vjp.Inner  { return vjp.Inner{Iterative: true, Together: w.together} }

// Sweeps of large probes have as many as a linearization takes together, or multiples of that.
func TestSweepsOfLargeProbes(t *testing.T) {
	dev := array.NewHost()
	plan, err := hutch.NewPlan("hutchinson", 24, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bytes          int64
		together, want int
	}{
		{64 << 20, 0, 4},
		{64 << 20, 6, 6},
		{13 << 20, 0, 8},
		{13 << 20, 6, 6},
		{8 << 20, 6, 12},
		{1 << 20, 6, 24},
		{1 << 30, 6, 2},
	} {
		if got := chooseBatch(dev, wide{bytes: c.bytes, together: c.together}, hutch.Moments{}, plan, 2,
			true); got != c.want {
			t.Errorf("probes of %d MiB, %d together: sweeps of %d, expected %d", c.bytes>>20, c.together, got, c.want)
		}
	}
}
