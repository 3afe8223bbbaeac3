// Package linopstest tests implementations of linear operators, in the manner of testing/fstest: a
// conformance suite that the operators of package linops pass and that a user's operators should
// pass.
//
//	func TestBlur(t *testing.T) {
//		if err := linopstest.Check(array.NewHost(), NewBlur(64, 64)); err != nil {
//			t.Fatal(err)
//		}
//	}
package linopstest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/linops"
)

const (
	// tol bounds the relative error of an identity between sums of products. A sum of n rounded
	// terms has an error of about sqrt(n) 1e-16, far below this for any n in a test.
	tol = 1e-12
	// manyVectors is the size of the large batches: more rows than the tile of a matrix product,
	// where the bits of a result most easily depend on the other vectors. Operators on long vectors
	// are tested with fewVectors.
	manyVectors = 29
	fewVectors  = 5
	longVector  = 1 << 16
	// columnSample is how many columns are compared with the operator's matrix and column norms.
	columnSample = 64
	// canary fills memory that must stay as it is.
	canary = 12345.678
)

// Check tests an operator on a device and returns everything that is wrong, joined into one error,
// or nil. It tests that
//
//   - Dims returns the same each time, and other shapes panic;
//   - <A b, z> = <b, A* z>, and both directions are linear and finite;
//   - the result for a vector is the same, bit for bit, in batches of any size (for a batch of that
//     vector alone, to rounding) and from many goroutines at once;
//   - sources stay unmodified, old contents of destinations do not matter, and batches with gaps
//     between their vectors (column views) are served, the gaps left alone;
//   - every field of its [linops.Structure] is true, as far as a field's check goes: the norm is that of
//     an iteration, Entries are counted where SparseRows or Stored lists them, RowNorms2 may be bounds,
//     Products, Blocks and BallStep are compared where neither d nor p is above 1000, and what
//     Passes.ColumnBytes and Passes.Count return must only not be negative, and grow. SolveNormal is tried
//     in place, too, and On on spaces of every kind ([CheckOn] for spaces of your own), whose results must
//     weigh their rows as WeighRows says;
//   - every batch taken from the device is given back. A factorization that SolveNormal keeps for a
//     value of eta may stay.
func Check(dev array.Device, a linops.Operator) error {
	c, err := newChecker(dev, a)
	if err != nil {
		return err
	}
	directions := []direction{{"Forward", c.p, c.d, a.Forward}, {"Adjoint", c.d, c.p, a.Adjoint}}
	live := dev.Stats().Live
	for _, dir := range directions {
		c.guard(dir.name, func() {
			c.shapes(dir)
			c.linear(dir)
			c.batches(dir)
			c.concurrent(dir)
		})
	}
	c.guard("dot-test", c.adjoint)
	c.structure()
	c.balanced("Forward, Adjoint and Structure", live)
	c.guard("SolveNormal", c.solve)
	c.guard("ScaleColumns", c.scaleColumns)
	c.guard("Sampled", c.sampled)
	c.guard("Picked", c.picked)
	c.guard("Parts", c.parts)
	c.guard("Passes", c.passes)
	if c.s.On != nil {
		spaces := Spaces(dev, c.p)
		for _, t := range spaces {
			c.guard(fmt.Sprintf("On %s", kindOf(t)), func() { c.on(t) })
		}
		for _, t := range spaces {
			t.Release()
		}
	}
	c.guard("KeepColumns", c.keepColumns) // last: what it keeps stays
	return c.done()
}

// newChecker makes the checker of an operator, whose size it checks.
func newChecker(dev array.Device, a linops.Operator) (*checker, error) {
	d, p := a.Dims()
	if d2, p2 := a.Dims(); d2 != d || p2 != p {
		return nil, fmt.Errorf("Dims is %d x %d, then %d x %d", d, p, d2, p2)
	}
	if d < 0 || p < 0 {
		return nil, fmt.Errorf("Dims is %d x %d", d, p)
	}
	c := &checker{dev: dev, a: a, s: linops.StructureOf(a), d: d, p: p, k: manyVectors}
	if max(d, p) > longVector {
		c.k = fewVectors
	}
	return c, nil
}

func (c *checker) done() error {
	if err := c.dev.Sync(); err != nil {
		c.failf("device: %w", err)
	}
	return errors.Join(c.errs...)
}

// balanced reports batches that are not given back, unless something else has been found: a failed
// test may leave batches behind.
func (c *checker) balanced(what string, live int) {
	if now := c.dev.Stats().Live; now != live && len(c.errs) == 0 {
		c.failf("%s: %d batches taken from the device and not given back", what, now-live)
	}
}

// direction is Forward or Adjoint: a map from R^in to R^out.
type direction struct {
	name    string
	in, out int
	apply   func(dst, src array.Batch)
}

type checker struct {
	dev  array.Device
	a    linops.Operator
	s    linops.Structure
	d, p int
	k    int // vectors in a large batch
	errs []error
}

func (c *checker) failf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// guard runs one test and reports a panic as a finding.
func (c *checker) guard(name string, test func()) {
	defer func() {
		if r := recover(); r != nil {
			c.failf("%s: panic: %v", name, r)
		}
	}()
	test()
}

func gaussian(n int, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// apply sends the k vectors of x through f in one contiguous batch.
func (c *checker) apply(f func(dst, src array.Batch), out, k int, x []float64) []float64 {
	src, dst := c.dev.Alloc(k, len(x)/k), c.dev.Alloc(k, out)
	defer src.Free()
	defer dst.Free()
	c.dev.Upload(src, x)
	c.dev.Fill(dst, math.NaN())
	f(dst, src)
	return dst.ToHost()
}

func dot(x, y []float64) float64 {
	s := 0.0
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

func norm(x []float64) float64 { return math.Sqrt(dot(x, x)) }

// distance is ||x - y||.
func distance(x, y []float64) float64 {
	s := 0.0
	for i, v := range x {
		s += (v - y[i]) * (v - y[i])
	}
	return math.Sqrt(s)
}

// different is the first place where x and y differ in their bits, or -1.
func different(x, y []float64) int {
	for i, v := range x {
		if math.Float64bits(v) != math.Float64bits(y[i]) {
			return i
		}
	}
	return -1
}

// shapes tests that a vector too long, or one vector for many, panics.
func (c *checker) shapes(dir direction) {
	for _, s := range []struct{ k, in, k2, out int }{
		{2, dir.in + 1, 2, dir.out},
		{2, dir.in, 2, dir.out + 1},
		{1, dir.in, 2, dir.out},
		{2, dir.in, 1, dir.out},
	} {
		src, dst := c.dev.Alloc(s.k, s.in), c.dev.Alloc(s.k2, s.out)
		c.dev.Fill(src, 0)
		if !panics(func() { dir.apply(dst, src) }) {
			c.failf("%s of %s into %s does not panic; the operator is %d x %d", dir.name, src, dst, c.d, c.p)
		}
		src.Free()
		dst.Free()
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// linear tests A (s x + t y) = s A x + t A y. With s + t away from 1 an affine map fails too.
func (c *checker) linear(dir direction) {
	const s, t = 1.75, -0.5
	n := dir.in
	for seed := range uint64(3) {
		x := gaussian(3*n, 100+seed)
		for j := range n {
			x[2*n+j] = s*x[j] + t*x[n+j]
		}
		y := c.apply(dir.apply, dir.out, 3, x)
		for j, v := range y {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				c.failf("%s: coordinate %d of the image of a Gaussian vector is %v", dir.name, j%dir.out, v)
				return
			}
		}
		m := dir.out
		want := make([]float64, m)
		for j := range want {
			want[j] = s*y[j] + t*y[m+j]
		}
		scale := s*norm(y[:m]) - t*norm(y[m:2*m])
		if e := distance(y[2*m:], want); !(e <= tol*scale) {
			c.failf("%s is not linear: ||A(%gx %+gy) - (%gAx %+gAy)|| is %.3g, the terms are of size %.3g", dir.name,
				s, t, s, t, e, scale)
			return
		}
	}
}

// adjoint tests <A b, z> = <b, A* z>.
func (c *checker) adjoint() {
	const k = 3
	for seed := range uint64(3) {
		b, z := gaussian(k*c.p, 200+seed), gaussian(k*c.d, 300+seed)
		ab := c.apply(c.a.Forward, c.d, k, b)
		az := c.apply(c.a.Adjoint, c.p, k, z)
		for i := range k {
			bi, zi := b[i*c.p:(i+1)*c.p], z[i*c.d:(i+1)*c.d]
			abi, azi := ab[i*c.d:(i+1)*c.d], az[i*c.p:(i+1)*c.p]
			l, r := dot(abi, zi), dot(bi, azi)
			scale := norm(abi)*norm(zi) + norm(bi)*norm(azi)
			if !(math.Abs(l-r) <= tol*scale) {
				c.failf("Adjoint is not the adjoint of Forward: <A b, z> = %.17g, <b, A* z> = %.17g", l, r)
				return
			}
		}
	}
}

// batches tests that vectors do not affect each other, that sources stay unmodified and that views
// with gaps are served.
func (c *checker) batches(dir direction) {
	c.batchwise(dir.name, dir.in, dir.out, dir.apply)
}

func (c *checker) batchwise(name string, in, out int, apply func(dst, src array.Batch)) {
	x := gaussian(c.k*in, 400)
	want := c.apply(apply, out, c.k, x)

	// In batches of 2, and the rest.
	for lo := 0; lo < c.k; {
		hi := lo + 2
		if lo > 4 || c.k-lo < 4 {
			hi = c.k
		}
		got := c.apply(apply, out, hi-lo, x[lo*in:hi*in])
		if i := different(got, want[lo*out:hi*out]); i >= 0 {
			c.failf("%s: vector %d in a batch of %d gives %v at coordinate %d, in a batch of %d it gives %v",
				name, lo+i/out, c.k, want[lo*out+i], i%out, hi-lo, got[i])
			return
		}
		lo = hi
	}

	alone := c.apply(apply, out, 1, x[:in])
	if e := distance(alone, want[:out]); !(e <= tol*norm(want[:out])) {
		c.failf("%s: a vector alone and in a batch of %d differ by %.3g, of size %.3g", name, c.k, e, norm(want[:out]))
	}

	// Column views: gaps of NaN in the source, a canary in the destination.
	const left, right = 3, 2
	src, dst := c.dev.Alloc(c.k, left+in+right), c.dev.Alloc(c.k, left+out+right)
	defer src.Free()
	defer dst.Free()
	c.dev.Fill(src, math.NaN())
	c.dev.Upload(src.Cols(left, left+in), x)
	c.dev.Fill(dst, canary)
	before := src.ToHost()
	apply(dst.Cols(left, left+out), src.Cols(left, left+in))
	if i := different(src.ToHost(), before); i >= 0 {
		c.failf("%s modifies its source, at vector %d", name, i/src.N())
	}
	wide := dst.ToHost()
	for i := range c.k {
		row := wide[i*dst.N() : (i+1)*dst.N()]
		if j := different(row[left:left+out], want[i*out:(i+1)*out]); j >= 0 {
			c.failf("%s: in a view with gaps between its vectors, vector %d is %v at coordinate %d; without "+
				"gaps it is %v",
				name, i, row[left+j], j, want[i*out+j])
			return
		}
		for _, v := range slices.Concat(row[:left], row[left+out:]) {
			if v != canary {
				c.failf("%s writes outside of a view, beside vector %d", name, i)
				return
			}
		}
	}
}

// concurrent tests that goroutines do not affect each other.
func (c *checker) concurrent(dir direction) {
	const goroutines = 4
	x := gaussian(2*dir.in, 500)
	want := c.apply(dir.apply, dir.out, 2, x)
	at := make([]int, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					at[g] = 0
				}
			}()
			at[g] = different(c.apply(dir.apply, dir.out, 2, x), want)
		})
	}
	wg.Wait()
	for _, i := range at {
		if i >= 0 {
			c.failf("%s from %d goroutines at once gives a different result than from one", dir.name, goroutines)
			return
		}
	}
}
