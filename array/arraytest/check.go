// Package arraytest holds the conformance suite for implementations of [array.Device], in the
// manner of testing/fstest: a device that passes [Check] computes what the interface promises, for
// every shape, view and flag, and with the reproducibility that package array promises too. It
// applies to the host device, an emulated GPU and a real one alike.
//
// [NoLeak] is for the tests of everything that borrows memory from a device.
package arraytest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
)

// Claim is one thing that Check checks.
type Claim struct {
	// Name says what a device must do, in a few words.
	Name string
	// Check returns an error that names the operation, the shapes and the values
	// that contradict it, or nil.
	Check func(dev array.Device) error
}

// Claims lists the claims that Check checks, for tests that run each separately.
func Claims() []Claim {
	return []Claim{
		{"transfers round trip", transfers},
		{"elementwise operations match loops", elementwise},
		{"reductions match loops", reductions},
		{"Gemm matches loops", gemm},
		{"GemmEach matches loops", gemmEach},
		{"Gather and Scatter match loops", gatherScatter},
		{"MulCSR matches loops", mulCSR},
		{"SampleProduct and SpreadProduct match loops", patternProducts},
		{"MulBlocks matches loops", blockProducts},
		{"MulRays matches loops", rayProducts},
		{"MulDFT matches loops", fourierTransforms},
		{"NaN and Inf propagate", nonFinite},
		{"a vector's bits do not depend on its batch", batchIndependence},
		{"concurrent callers get the same bits", concurrency},
		{"shape mismatches panic with both shapes", mismatches},
		{"memory is pooled and counted", memory},
		{"requests are views of the device", requests},
	}
}

// Check tests everything that [array.Device] promises and returns what does not
// hold, or nil. It leaves the device open and takes seconds.
func Check(dev array.Device) error {
	var failed []error
	before := dev.Stats().Live
	for _, c := range Claims() {
		if err := c.Check(dev); err != nil {
			failed = append(failed, fmt.Errorf("%s: %s: %w", dev.Name(), c.Name, err))
		}
	}
	if live := dev.Stats().Live; live != before && failed == nil {
		failed = append(failed, fmt.Errorf("%s: %d batches live after the checks, %d before", dev.Name(), live, before))
	}
	if err := dev.Sync(); err != nil {
		failed = append(failed, fmt.Errorf("%s: %w", dev.Name(), err))
	}
	return errors.Join(failed...)
}

// NoLeak fails the test if, when it ends, more batches of the device are not freed than now. Call
// it before anything else takes memory.
func NoLeak(t testing.TB, dev array.Device) {
	t.Helper()
	before := dev.Stats()
	t.Cleanup(func() {
		if now := dev.Stats(); now.Live != before.Live {
			t.Errorf("%d batches of %d bytes are not freed on %s, %d of %d before the test",
				now.Live, now.LiveBytes, dev.Name(), before.Live, before.LiveBytes)
		}
	})
}

// A table is a k x n matrix on the host, row-major, the operand of the loops
// that results are compared with.
type table struct {
	k, n int
	v    []float64
}

func newTable(rng *rand.Rand, k, n int) table {
	t := table{k, n, make([]float64, k*n)}
	for i := range t.v {
		t.v[i] = rng.NormFloat64()
	}
	return t
}

// at is entry (i, j); a table of one row is broadcast.
func (t table) at(i, j int) float64 {
	if t.k == 1 {
		i = 0
	}
	return t.v[i*t.n+j]
}

// A layout is a way to lay a batch out in memory.
type layout int

const (
	packed layout = iota
	// framed is a view inside a larger batch whose other values must survive.
	framed
)

var layouts = []layout{packed, framed}

const frame = -12345.678

// held is a table on the device and the batch it lies in.
type held struct {
	array.Batch
	whole array.Batch
}

func (h held) free() { h.whole.Free() }

// put lays a table out on the device.
func put(dev array.Device, t table, l layout) held {
	if l == packed {
		b := dev.Alloc(t.k, t.n)
		dev.Upload(b, t.v)
		return held{b, b}
	}
	whole := dev.Alloc(t.k+2, t.n+5)
	dev.Fill(whole, frame)
	b := whole.Rows(1, t.k+1).Cols(3, t.n+3)
	dev.Upload(b, t.v)
	return held{b, whole}
}

// check compares what h holds with a table, and its frame with what it was.
func (h held) check(want table, tol float64, format string, args ...any) error {
	got := h.ToHost()
	for i, w := range want.v {
		if g := got[i]; !same(g, w, tol) {
			return fmt.Errorf("%s: vector %d of %s has %v at %d, expected %v", fmt.Sprintf(format, args...), i/want.n,
				h.Batch, g, i%want.n, w)
		}
	}
	if h.whole.N() == h.N() {
		return nil
	}
	row := h.whole.N()
	for i, g := range h.whole.ToHost() {
		r, c := i/row-1, i%row-3
		if inside := r >= 0 && r < h.K() && c >= 0 && c < h.N(); !inside && g != frame {
			return fmt.Errorf("%s: wrote %v beside a view of %s", fmt.Sprintf(format, args...), g, h.Batch)
		}
	}
	return nil
}

// same reports whether two values agree to tol, relative to the larger of 1 and
// the value; not-a-numbers agree with each other.
func same(got, want, tol float64) bool {
	if math.IsNaN(want) || math.IsInf(want, 0) {
		return got == want || (math.IsNaN(got) && math.IsNaN(want))
	}
	return math.Abs(got-want) <= tol*max(1, math.Abs(want))
}

// bits reports whether two slices are equal bit for bit.
func bits(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}

// panics runs f and returns what it panics with, as text, or "".
func panics(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

// mentions reports whether a text holds all the parts.
func mentions(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
