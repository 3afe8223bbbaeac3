package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/vjp"
)

// failing is a device that fails after some requests, as a card that falls off the bus.
type failing struct {
	array.Device
	left *atomic.Int64
	work atomic.Int64
}

var errBus = errors.New("fallen off the bus")

func newFailing(requests int64) *failing {
	b := &failing{Device: array.NewHost(), left: &atomic.Int64{}}
	b.left.Store(requests)
	return b
}

func (b *failing) Name() string { return "card" }
func (b *failing) Request() array.Device {
	b.left.Add(-1)
	b.work.Add(1)
	return b
}
func (b *failing) Err() error {
	if b.left.Load() < 0 {
		return errBus
	}
	return nil
}
func (b *failing) Sync() error { return b.Err() }

// pool is a pool of the LASSO on devices, and the text of what it has told about them.
func pool(t *testing.T, o pipeline.Options, devices ...array.Device) (p *pipeline.Pool, y []float64, told *string) {
	t.Helper()
	var members []*pipeline.Pipeline
	for _, dev := range devices {
		m, sample := lassoOn(t, dev, "fista", o)
		members, y = append(members, m), sample
	}
	told = new(string)
	p, err := pipeline.NewPool(func(device string, fault error) { *told += fmt.Sprint(device, ": ", fault, "\n") },
		members...)
	if err != nil {
		t.Fatal(err)
	}
	return p, y, told
}

// lassoOn is a pipeline for the LASSO of newCurve.
func lassoOn(t *testing.T, dev array.Device, method string, o pipeline.Options) (*pipeline.Pipeline, []float64) {
	t.Helper()
	c := newCurve(t, dev)
	r, err := c.Regularizer([]float64{0.1 * c.max})
	if err != nil {
		t.Fatal(err)
	}
	s, err := vjp.NewSolver(context.Background(), method, vjp.Problem{A: c.Problem.A, R: r, Device: dev}, c.Settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	o.Sigma2 = 1
	p, err := pipeline.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return p, c.y
}

// same reports whether two numbers agree, or are both not defined.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// samples are n draws around y.
func samples(y []float64, n int) func(yield func([]float64, error) bool) {
	return func(yield func([]float64, error) bool) {
		rng := rand.New(rand.NewPCG(5, 6))
		for range n {
			s := slices.Clone(y)
			for i := range s {
				s[i] += rng.NormFloat64()
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// A stream over several devices has the bits of one device, in order, also where one fails in the
// middle: its samples are computed again.
func TestPooledStreamIsOneDevices(t *testing.T) {
	const n = 30
	o := pipeline.Options{Parallel: 2, Estimator: hutch.Hutchinson, Queries: 9}
	one, y, _ := pool(t, o, array.NewHost())
	var want []pipeline.Risk
	for r, err := range one.StreamFrom(context.Background(), 4, samples(y, n)) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r)
	}
	bad := newFailing(1) // its second sample: two begin on each device
	even := []*failing{newFailing(1 << 40), newFailing(1 << 40)}
	for name, devices := range map[string][]array.Device{"even": {even[0], even[1]},
		"three": {array.NewHost(), array.NewHost(), array.NewHost()}, "one fails": {array.NewHost(), bad}} {
		p, y, told := pool(t, o, devices...)
		var got []pipeline.Risk
		for r, err := range p.StreamFrom(context.Background(), 4, samples(y, n)) {
			if err != nil {
				t.Fatal(name, err)
			}
			got = append(got, r)
		}
		if !slices.EqualFunc(got, want, func(a, b pipeline.Risk) bool { return sameRisk(a, b) && a.Index == b.Index }) {
			t.Errorf("%s: the results differ from one device's", name)
		}
		if failed := name == "one fails"; failed != (*told == "card: fallen off the bus\n") {
			t.Errorf("%s: told %q", name, *told)
		}
		for _, dev := range devices {
			arraytest.NoLeak(t, dev)
		}
	}
	if a, b := even[0].work.Load(), even[1].work.Load(); a+b != n || min(a, b) < 3 {
		t.Errorf("%d and %d samples on two equal devices", a, b)
	}
	// No device is left; and the consumer leaves.
	p, y, _ := pool(t, o, newFailing(3), newFailing(2))
	var last error
	for _, err := range p.Stream(context.Background(), samples(y, n)) {
		last = err
	}
	if !errors.Is(last, errBus) {
		t.Errorf("no device left: %v", last)
	}
	p, y, _ = pool(t, o, array.NewHost(), array.NewHost())
	for r, err := range p.Stream(context.Background(), samples(y, n)) {
		if err != nil || r.Index == 3 {
			break
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for r, err := range p.Stream(ctx, samples(y, n)) {
		if last = err; r.Index == 2 {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("cancelled: %v", last)
	}
	// A bad sample ends the stream in its place.
	count := 0
	for _, err := range p.Stream(context.Background(), func(yield func([]float64, error) bool) {
		_ = yield(y, nil) && yield(y[1:], nil) && yield(y, nil)
	}) {
		var own *pipeline.SampleError
		if count++; count == 2 && (!errors.As(err, &own) || own.Index != 1) || count > 2 {
			t.Errorf("result %d: %v", count, err)
		}
	}
}

// A sample is computed on one device, and on the next one if that fails, to the same bits.
func TestPooledEstimateIsOneDevices(t *testing.T) {
	for name, o := range map[string]pipeline.Options{
		"fixed": {Estimator: hutch.Hutchinson, Queries: 40}, "adaptive": {Estimator: hutch.Hutchinson,
			TraceError: 0.05}, "exact": {Estimator: hutch.Exact},
		"closed": {}, "sketched": {Estimator: hutch.HutchPP, Queries: 24},
	} {
		one, y, _ := pool(t, o, array.NewHost())
		want, err := one.Estimate(context.Background(), y)
		if err != nil {
			t.Fatal(err)
		}
		for which, devices := range map[string][]array.Device{"two": {array.NewHost(), array.NewHost()},
			"one fails": {newFailing(0), array.NewHost()}} {
			p, y, told := pool(t, o, devices...)
			got, err := p.Estimate(context.Background(), y)
			if err != nil || !sameRisk(got, want) || !same(got.ALO, want.ALO) {
				t.Errorf("%s, %s: %+v, %v, expected %+v", name, which, got, err, want)
			}
			if *told != "" && (which == "two" || !strings.Contains(*told, "fallen")) {
				t.Errorf("%s, %s: told %q", name, which, *told)
			}
		}
		p, y, _ := pool(t, o, newFailing(0), newFailing(0))
		if _, err := p.Estimate(context.Background(), y); !errors.Is(err, errBus) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Repetitions go on on another device.
func TestPooledRepetitionsGoOn(t *testing.T) {
	o := pipeline.Options{Estimator: hutch.Hutchinson, Queries: 9}
	one, y, _ := pool(t, o, array.NewHost())
	p, _, told := pool(t, o, newFailing(4), array.NewHost())
	seeds := slices.Values([]uint64{3, 4, 5, 6, 7, 8})
	var want, got []float64
	for r, err := range one.Repeat(context.Background(), 2, y, seeds) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r.SURE)
	}
	for r, err := range p.Repeat(context.Background(), 2, y, seeds) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.SURE)
	}
	if !slices.Equal(got, want) || *told == "" {
		t.Errorf("%v, expected %v; told %q", got, want, *told)
	}
}

// The chains of a sweep are spread over devices, to the bits of one, also where one fails: in the grid,
// before its first point, or in the refinement, and the sweep ends with the fault if none is left.
func TestSweepOverDevicesIsOneDevices(t *testing.T) {
	o := pipeline.SweepOptions{Mu: newCurve(t, array.NewHost()).mu, Chain: 4, Refine: 3,
		Audit:   pipeline.AlwaysAudit,
		Options: pipeline.Options{Seed: 3, Parallel: 2, Queries: 24, Estimator: hutch.Hutchinson}}
	over := func(devices ...array.Device) (c curve, grid [][]float64) {
		c = newCurve(t, devices[0])
		for _, dev := range devices[1:] {
			c.Others = append(c.Others, newCurve(t, dev).Family)
		}
		return c, [][]float64{axis(0.02*c.max, 2*c.max, 23)}
	}
	c, grid := over(array.NewHost())
	want := collect(t, c, grid, o)
	for name, devices := range map[string][]array.Device{
		"two": {array.NewHost(), array.NewHost()}, "the second fails": {array.NewHost(), newFailing(9)},
		"the first fails":   {newFailing(9), array.NewHost(), array.NewHost()},
		"one fails at once": {newFailing(0), array.NewHost()},
		"in the refinement": {newFailing(25), newFailing(1 << 40)},
	} {
		var told atomic.Int64
		o := o
		o.Lost = func(string, error) { told.Add(1) }
		c, grid := over(devices...)
		if got := collect(t, c, grid, o); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the sweep differs from one device's", name)
		}
		if n := told.Load(); n > 1 || n > 0 && name == "two" {
			t.Errorf("%s: told %d times", name, n)
		}
		for _, dev := range devices {
			if dev.Err() == nil {
				arraytest.NoLeak(t, dev)
			}
		}
	}
	o.Sigma2 = 1
	for _, n := range []int64{0, 5} {
		c, grid = over(newFailing(n), newFailing(n))
		var last error
		for _, err := range pipeline.Sweep(context.Background(), c.y, c.Family, grid, o) {
			last = err
		}
		if !errors.Is(last, errBus) {
			t.Errorf("no device left: %v", last)
		}
	}
}

func TestBadPools(t *testing.T) {
	if _, err := pipeline.NewPool(nil); err == nil {
		t.Error("an empty pool")
	}
}
