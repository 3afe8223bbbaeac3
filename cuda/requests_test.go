//go:build cuda

package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"surepipe/array"
	"surepipe/cuda"
	"surepipe/cuda/emulator"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// descent is n steps of gradient descent on 1/2 ||A b - y||^2 + 1/2 ||b||^2 with the soft threshold
// in between, all of whose memory is on dev, and the norms on the way.
func descent(dev array.Device, m array.Batch, y []float64, n int) ([]float64, error) {
	on := dev.Put(y, 2, len(y)/2)
	b, g, r := dev.Alloc(2, m.N()), dev.Alloc(2, m.N()), dev.Alloc(2, m.K())
	defer func() {
		for _, x := range []array.Batch{on, b, g, r} {
			x.Free()
		}
	}()
	dev.Fill(b, 0)
	norms := make([]float64, 2*n)
	for i := range n {
		scratch := dev.Alloc(2, m.N())
		dev.Gemm(false, true, 1, b, m, 0, r)
		dev.Lin(r, 1, r, -1, on)
		dev.Gemm(false, false, 1e-3, r, m, 0, g)
		dev.LinEach(scratch, []float64{1, 1}, b, []float64{-1, -1}, g)
		dev.Soft(b, scratch, array.Batch{}, 1e-3)
		dev.Dot(norms[2*i:2*i+2], b, b)
		scratch.Free()
	}
	return norms, dev.Err()
}

// Of two requests on one card one asks for more memory than there is, at every step of the
// other's: the other ends with the bits that it has alone.
func TestOutOfMemoryEndsItsRequestAlone(t *testing.T) {
	dev := openCard(t, 1<<22)
	noise := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = math.Mod(float64(i+1)*math.Phi, 1) - 0.5
		}
		return v
	}
	m, y := dev.Put(noise(40*130), 40, 130), noise(80)
	want, err := descent(dev.Request(), m, y, 20)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	greedy := make(chan error, 1)
	wg.Go(func() {
		for n := 0; ; n++ {
			r := dev.Request()
			a, b := r.Alloc(1, 1000), r.Alloc(1<<10, 1<<10)
			r.Fill(b, 1)
			r.Copy(a, b.Rows(0, 1).Cols(0, 1000))
			v := a.ToHost()
			a.Free()
			b.Free()
			var short *array.OutOfMemory
			if err := r.Sync(); !errors.As(err, &short) || !math.IsNaN(v[0]) {
				greedy <- fmt.Errorf("more memory than there is gives the error %v and the number %v", err, v[0])
				return
			}
			select {
			case <-stop:
				if n == 0 {
					greedy <- errors.New("no request ran out of memory meanwhile")
				}
				close(greedy)
				return
			default:
			}
		}
	})
	for range 5 {
		got, err := descent(dev.Request(), m, y, 20)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("beside a request without memory: error %v, the bits are those of the request alone: %t", err,
				slices.Equal(got, want))
		}
	}
	close(stop)
	wg.Wait()
	if err := <-greedy; err != nil {
		t.Error(err)
	}
	if err := dev.Sync(); err != nil {
		t.Errorf("the device has failed: %v", err)
	}
	m.Free()
	if live := dev.Stats().Live; live != 0 {
		t.Errorf("%d batches live", live)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	nothingHeld(t)
}

// Whichever driver call of a request fails, the request ends with the right bits or an error; a
// call that is refused for want of memory leaves the device and the next request as they were.
func TestAnyCallOfARequestMayFail(t *testing.T) {
	emulated(t)
	defer emulator.Reset()
	m, y := make([]float64, 6*9), make([]float64, 12)
	for i := range m {
		m[i] = math.Mod(float64(i+1)*math.Phi, 1) - 0.5
	}
	for i := range y {
		y[i] = float64(i)
	}
	open := func() (*cuda.Device, array.Batch) {
		dev := openCard(t, 0)
		return dev, dev.Put(m, 6, 9)
	}
	dev, on := open()
	before := emulator.Read().Calls
	want, err := descent(dev.Request(), on, y, 3)
	if err != nil {
		t.Fatal(err)
	}
	calls := emulator.Read().Calls - before
	dev.Close()
	alone, everybody := 0, 0
	for n := int64(1); n <= calls; n++ {
		dev, on := open()
		r := dev.Request()
		emulator.Fail(n, emulator.Refuse)
		got, err := descent(r, on, y, 3)
		emulator.Fail(0, emulator.Refuse)
		switch {
		case err == nil && !slices.Equal(got, want):
			t.Errorf("call %d of %d fails, and the request ends with other numbers", n, calls)
		case err != nil && dev.Err() != nil:
			everybody++
		case err != nil:
			alone++
			if got, err := descent(dev.Request(), on, y, 3); err != nil || !slices.Equal(got, want) {
				t.Errorf("after call %d of %d has failed the next request gives %v, error %v", n, calls, got, err)
			}
		}
		if live := dev.Stats().Live; live != 1 {
			t.Errorf("%d batches live, expected 1", live)
		}
		on.Free()
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		nothingHeld(t)
	}
	t.Logf("%d calls: %d faults of the request alone, %d of the card", calls, alone, everybody)
	if alone == 0 || everybody == 0 {
		t.Errorf("of %d calls %d faults are the request's and %d the card's, expected some of both", calls, alone,
			everybody)
	}
}

// A request without the memory that starting cuBLAS, or trying its tiles, takes fails alone: the
// next one starts it, and has the bits that it has on a fresh card.
func TestCUBLASStartsAfterAFailure(t *testing.T) {
	const memory, inner, n = 64 << 20, 512, 513
	for _, rows := range []int{1, 70} { // a row is gemv, many rows are tiles
		product := func(dev array.Device) ([]float64, error) {
			a, b, c := dev.Alloc(rows, inner), dev.Alloc(inner, n), dev.Alloc(rows, n)
			defer a.Free()
			defer b.Free()
			defer c.Free()
			dev.Fill(a, 1.1)
			dev.Fill(b, 0.3)
			dev.Gemm(false, false, 1, a, b, 0, c)
			return c.ToHost(), dev.Err()
		}
		fresh := openCard(t, memory)
		want, err := product(fresh.Request())
		if err != nil {
			t.Fatal(err)
		}
		fresh.Close()
		dev := openCard(t, memory)
		poor := dev.Request()
		// What remains is enough for the operands.
		available, _ := dev.Available()
		hoard := poor.Alloc(1, int(available/8)-rows*(inner+n)-inner*n-100_000)
		var short *array.OutOfMemory
		if _, err := product(poor); !errors.As(err, &short) || dev.Err() != nil {
			t.Errorf("%d rows: without memory for cuBLAS the error is %v, that of the device %v", rows, err, dev.Err())
		}
		hoard.Free()
		if got, err := product(dev.Request()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d rows: after a request without memory for cuBLAS: error %v, the bits of a fresh card: %t",
				rows, err, slices.Equal(got, want))
		}
		if launched := emulator.Read().Products; launched == 0 {
			t.Errorf("%d rows: cuBLAS was not used", rows)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		nothingHeld(t)
	}
}

// A launch that fails is everybody's fault, and what a failed request leaves unknown fails those
// who read it.
func TestFaultsOfRequests(t *testing.T) {
	dev := openCard(t, 1<<22)
	failed, other, reader := dev.Request(), dev.Request(), dev.Request()
	good, bad := failed.Alloc(1, 10), array.Batch{}
	failed.Fill(good, 1)
	if v := good.ToHost(); v[0] != 1 {
		t.Fatalf("Fill gives %v", v)
	}
	bad = failed.Alloc(1<<10, 1<<10)
	mine := other.Alloc(1, 10)
	// An operation belongs to its destination's view, whichever it is called on.
	failed.Fill(mine, 3)
	if v := mine.ToHost(); v[9] != 3 || other.Err() != nil {
		t.Errorf("Fill of another request's batch gives %v, %v", v, other.Err())
	}
	for name, x := range map[string]array.Batch{"without memory": bad.Rows(0, 1).Cols(0, 10),
		"of a failed request": good} {
		r := dev.Request()
		dst := r.Alloc(1, 10)
		dev.Copy(dst, x)
		var short *array.OutOfMemory
		if v := dst.ToHost(); !math.IsNaN(v[0]) || !errors.As(r.Err(), &short) {
			t.Errorf("a copy of a batch %s gives %v, %v", name, v, r.Err())
		}
		dst.Free()
	}
	if v := []float64{0}; true {
		dev.Dot(v, good, mine)
		if !math.IsNaN(v[0]) || dev.Err() != nil {
			t.Errorf("Dot with a batch of a failed request gives %v, %v", v, dev.Err())
		}
	}
	if err := errors.Join(dev.Err(), other.Err(), reader.Err()); err != nil || failed.Err() == nil {
		t.Errorf("the failed request has %v, the others %v", failed.Err(), err)
	}
	emulator.Fail(1, emulator.Refuse)
	other.Fill(mine, 4)
	for _, d := range []array.Device{dev, other, reader, dev.Request()} {
		if d.Err() == nil {
			t.Error("a failed launch does not show in all views")
		}
	}
	for _, b := range []array.Batch{good, bad, mine} {
		b.Free()
	}
	if live := dev.Stats().Live; live != 0 {
		t.Errorf("%d batches live", live)
	}
	if err := errors.Join(other.Close(), dev.Close()); err != nil {
		t.Error(err)
	}
	nothingHeld(t)
}

// hungry solves like a solver of the package, but first takes more memory than there is for samples
// whose first value is large.
type hungry struct{ vjp.Solver }

func (h hungry) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	dev := y.Device()
	first := []float64{0}
	dev.Download(first, y.Cols(0, 1))
	if first[0] > 1e3 {
		b := dev.Alloc(1<<14, 1<<14)
		defer b.Free()
		dev.Fill(b, 1)
		return nil, dev.Err()
	}
	return h.Solver.Solve(ctx, y)
}

// A sample that runs out of memory is that sample's failure; the other samples of the stream, which
// are in flight on the same card at the same time, have the bits that they have without it.
func TestOutOfMemoryFailsItsSampleAlone(t *testing.T) {
	ctx := context.Background()
	s := setting{"ridge", regression(t, 12, 15), problems.Hyper{}, "direct", "auto", hutch.Hutchinson}
	dev := openCard(t, 0)
	problem, err := problems.New(s.name, dev, s.data, s.hyper)
	if err != nil {
		t.Fatal(err)
	}
	defer problem.Release()
	solver, err := vjp.NewSolver(ctx, s.solver, problem.Solve(), vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer solver.Release()
	p, err := pipeline.New(hungry{solver}, pipeline.Options{
		Sigma2: *s.data.Sigma2, Estimator: s.trace, Queries: 6, Parallel: 4, KeepGoing: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	const n = 12
	run := func(large map[int]bool) (sures [n]float64, failed map[int]error) {
		failed = map[int]error{}
		ys := func(yield func([]float64, error) bool) {
			for i := range n {
				y := problems.Sample(s.data.Y, *s.data.Sigma2, 5, i)
				if large[i] {
					y[0] = 1e4
				}
				if !yield(y, nil) {
					return
				}
			}
		}
		for risk, err := range p.Stream(ctx, ys) {
			if err == nil {
				sures[risk.Index] = risk.SURE
				continue
			}
			var sample *pipeline.SampleError
			if !errors.As(err, &sample) {
				t.Fatal(err)
			}
			failed[sample.Index] = err
		}
		return sures, failed
	}
	want, failed := run(nil)
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	large := map[int]bool{0: true, 1: true, 5: true, 11: true}
	got, failed := run(large)
	for i := range n {
		var short *array.OutOfMemory
		switch {
		case large[i] && !errors.As(failed[i], &short):
			t.Errorf("sample %d ends with %v, expected a lack of memory", i, failed[i])
		case !large[i] && (failed[i] != nil || got[i] != want[i]):
			t.Errorf("sample %d: SURE is %v, error %v, beside samples without memory, %v without them", i, got[i],
				failed[i], want[i])
		}
	}
	if err := dev.Sync(); err != nil || dev.Stats().Live == 0 {
		t.Errorf("the device has failed: %v", err)
	}
}
