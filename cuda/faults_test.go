//go:build cuda

package cuda_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"surepipe/array"
	"surepipe/cuda"
	"surepipe/cuda/emulator"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// small are settings whose driver calls can be failed one by one.
func small(t testing.TB) []setting {
	wide := regression(t, 12, 15)
	mc := completion(6, 5)
	return []setting{
		{"ridge", wide, problems.Hyper{}, "direct", "auto", ""},
		{"lasso", wide, problems.Hyper{}, "fista", "implicit", ""},
		{"lasso", wide, problems.Hyper{}, "fista", "unrolled", ""},
		{"matrix-completion", mc, problems.Hyper{}, "admm", "implicit", ""},
		{"matrix-completion", mc, problems.Hyper{}, "fista", "unrolled", ""},
	}
}

// early ends solves early: what is shared, left behind or lost does not depend on where they end.
var early = vjp.Options{Tol: 1e-2, MaxIter: 8}

// run opens a card, estimates and closes; a panic is returned as an error that the tests
// do not accept.
func (s setting) run(ctx context.Context, memory int64, v vjp.Options, o pipeline.Options) (risk pipeline.Risk,
	err error) {
	dev, err := cuda.Open(0, memory)
	if err != nil {
		return risk, err
	}
	defer func() {
		if closed := dev.Close(); err == nil {
			err = closed
		}
	}()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	risk, err = s.estimate(ctx, dev, v, o)
	if live := dev.Stats().Live; live != 0 {
		err = errors.Join(err, fmt.Errorf("panic: %d batches live at the end", live))
	}
	return risk, err
}

var eachCall = flag.Bool("each-call", false, "TestAnyCallMayFail fails every call, and not about 60 of them")

// Whichever driver call fails, the outcome is the right number or an error that says
// what was being done; and the card is left as it was found.
func TestAnyCallMayFail(t *testing.T) {
	emulated(t)
	defer emulator.Reset()
	ctx := context.Background()
	one := pipeline.Options{Queries: 3}
	for _, s := range append(small(t), scanners(t)...) {
		for _, mode := range []emulator.Mode{emulator.Refuse, emulator.Break} {
			t.Run(fmt.Sprintf("%s/%d", s, mode), func(t *testing.T) {
				emulator.Reset()
				want, err := s.run(ctx, 0, early, one)
				if err != nil {
					t.Fatal(err)
				}
				if want.Trace.Trace == 0 {
					t.Fatal("an estimate without a derivative says little")
				}
				calls := emulator.Read().Calls
				step := calls/60 + 1
				if *eachCall {
					step = 1
				}
				recovered, failed := 0, 0
				for n := int64(1); n <= calls; n += step {
					emulator.Reset()
					emulator.Fail(n, mode)
					done := make(chan struct{})
					var got pipeline.Risk
					go func() {
						defer close(done)
						got, err = s.run(ctx, 0, early, one)
					}()
					select {
					case <-done:
					case <-time.After(30 * time.Second):
						t.Fatalf("call %d of %d fails, and nothing ends", n, calls)
					}
					emulator.Fail(0, emulator.Refuse)
					switch {
					case err == nil:
						recovered++
						if err := differs(got, want); err != nil {
							t.Fatalf("call %d of %d fails: %v", n, calls, err)
						}
					case strings.Contains(err.Error(), "panic") || !strings.Contains(err.Error(), "cuda:0: "):
						t.Fatalf("call %d of %d fails: %v", n, calls, err)
					default:
						failed++
					}
					nothingHeld(t)
					if t.Failed() {
						t.Fatalf("call %d of %d failed: error %v", n, calls, err)
					}
				}
				t.Logf("%d calls: %d faults ended in an error, %d in the right result", calls, failed, recovered)
				if failed == 0 {
					t.Errorf("no fault of %d was noticed", calls)
				}
			})
		}
	}
}

// With ever less memory the tape is computed again in parts and batches of probes
// shrink, to the same result; in the end the error says what was missing.
func TestMemoryRunsShort(t *testing.T) {
	emulated(t)
	emulator.Reset()
	ctx := context.Background()
	s := setting{"lasso", regression(t, 105, 120), problems.Hyper{}, "fista", "unrolled", ""}
	probe := func(memory int64) (pipeline.Risk, emulator.Counters, error) {
		emulator.Reset()
		dev, err := cuda.Open(0, memory)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		available, _ := dev.Available()
		tape := max(available/8, 1)
		risk, err := s.estimate(ctx, dev, vjp.Options{Memory: tape}, pipeline.Options{})
		if live := dev.Stats().Live; live != 0 {
			t.Errorf("%d batches live with %d bytes", live, memory)
		}
		return risk, emulator.Read(), err
	}
	want, all, err := probe(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("with all the memory it wants: %d bytes at most", all.PeakBytes)
	smallest, failures := int64(math.MaxInt64), 0
	for memory := all.PeakBytes; memory > 1<<10; memory /= 2 {
		got, count, err := probe(memory)
		if count.PeakBytes > memory {
			t.Errorf("%d bytes held, %d allowed", count.PeakBytes, memory)
		}
		var short *array.OutOfMemory
		switch {
		case err == nil:
			smallest = min(smallest, memory)
			if err := differs(got, want); err != nil {
				t.Errorf("with %d bytes: %v", memory, err)
			}
		case !errors.As(err, &short) || short.Bytes <= short.Available || short.Limit > memory:
			t.Errorf("with %d bytes: %v", memory, err)
		default:
			failures++
			if failures == 1 {
				t.Logf("with %d bytes: %v", memory, err)
			}
		}
	}
	nothingHeld(t)
	t.Logf("the same result with %d bytes", smallest)
	if failures == 0 || smallest > all.PeakBytes/2 {
		t.Errorf("%d failures, the smallest memory that served is %d of %d bytes", failures, smallest, all.PeakBytes)
	}
}

// samples yields n noisy copies of the setting's y, and then an error if one is given.
func (s setting) samples(n int, last error) iter.Seq2[[]float64, error] {
	return func(yield func([]float64, error) bool) {
		for i := range n {
			if !yield(problems.Sample(s.data.Y, *s.data.Sigma2, 5, i), nil) {
				return
			}
		}
		if last != nil {
			yield(nil, last)
		}
	}
}

// Four samples in flight on one card give what they give one by one.
func TestSamplesShareACard(t *testing.T) {
	emulated(t)
	ctx := context.Background()
	for _, s := range small(t) {
		t.Run(s.String(), func(t *testing.T) {
			dev := openCard(t, 0)
			run := func(parallel int) (sures []float64) {
				p, release, err := s.open(ctx, dev, early, pipeline.Options{Parallel: parallel, Queries: 6})
				if err != nil {
					t.Fatal(err)
				}
				defer release()
				for risk, err := range p.Stream(ctx, s.samples(8, nil)) {
					if err != nil {
						t.Fatal(err)
					}
					sures = append(sures, risk.SURE)
				}
				return sures
			}
			want, got := run(1), run(4)
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("sample %d: SURE is %v beside three others, %v alone", i, got[i], want[i])
				}
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
			nothingHeld(t)
		})
	}
}

// Errors and cancellations leave nothing on the card and no goroutine.
func TestNothingIsLeftBehind(t *testing.T) {
	emulated(t)
	broken := errors.New("the source is dry")
	before := runtime.NumGoroutine()
	for _, s := range small(t) {
		for _, end := range []string{"error", "cancel", "break"} {
			t.Run(s.String()+"/"+end, func(t *testing.T) {
				dev := openCard(t, 0)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				p, release, err := s.open(ctx, dev, early, pipeline.Options{Parallel: 4, Queries: 6})
				if err != nil {
					t.Fatal(err)
				}
				seen := 0
				source := s.samples(9, broken)
				if end != "error" {
					source = s.samples(math.MaxInt, nil)
				}
				for _, err = range p.Stream(ctx, source) {
					if seen++; seen == 3 && end == "cancel" {
						cancel()
					}
					if seen == 3 && end == "break" {
						break
					}
				}
				if want := map[string]error{"error": broken, "cancel": context.Canceled}[end]; !errors.Is(err, want) {
					t.Errorf("the stream ends with %v, expected %v", err, want)
				}
				release()
				if live := dev.Stats().Live; live != 0 {
					t.Errorf("%d batches live", live)
				}
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
				nothingHeld(t)
			})
		}
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// Use of a closed device is an error, its end without effect on others.
func TestClosedDevice(t *testing.T) {
	emulated(t)
	dev, other := openCard(t, 0), openCard(t, 0)
	b := dev.Alloc(2, 3)
	if err := errors.Join(dev.Close(), dev.Close()); err != nil {
		t.Error(err)
	}
	dev.Fill(b, 1)
	if got := b.ToHost(); !math.IsNaN(got[0]) || !errors.Is(dev.Err(), cuda.ErrClosed) {
		t.Errorf("a closed device gives %v and %v", got, dev.Err())
	}
	b.Free()
	dev.Alloc(1, 1).Free()
	c := other.Alloc(1, 2)
	other.Fill(c, 7)
	if got := c.ToHost(); got[1] != 7 || other.Err() != nil {
		t.Errorf("beside a closed device: %v, %v", got, other.Err())
	}
	other.Close()
	nothingHeld(t)
}

func TestOpenRefuses(t *testing.T) {
	emulated(t)
	for _, c := range []struct {
		card   int
		memory int64
		want   string
	}{{99, 0, "cuda:99: there are"}, {-1, 0, "cuda:-1: there are"}, {0, -1, "a bound of -1 bytes"}} {
		if _, err := cuda.Open(c.card, c.memory); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%d, %d) gives %v", c.card, c.memory, err)
		}
	}
}
