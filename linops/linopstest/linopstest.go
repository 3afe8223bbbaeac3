// Package linopstest tests implementations of linear operators, in the manner of
// testing/fstest: a conformance suite that our own operators pass and that a
// user's should.
//
//	func TestBlur(t *testing.T) {
//		if err := linopstest.Check(array.NewHost(), NewBlur(64, 64)); err != nil {
//			t.Fatal(err)
//		}
//	}
package linopstest

import (
	"context"
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
	// tol bounds the relative error of an identity between sums of products. A
	// sum of n rounded terms is off by about sqrt(n) 1e-16, a millionth of
	// this at any n that fits a test.
	tol = 1e-12
	// manyVectors is the size of the large batches: more rows than the tile of a
	// matrix product, where a result's bits most easily depend on the company.
	// Operators on long vectors are tested with fewVectors.
	manyVectors = 29
	fewVectors  = 5
	longVector  = 1 << 16
	// columnSample is how many columns are compared with what an operator says
	// of itself as a matrix.
	columnSample = 64
	// canary fills memory that must stay as it is.
	canary = 12345.678
)

// Check tests an operator on a device and returns everything found wrong, joined
// into one error, or nil. It tests that
//
//   - Dims says the same each time, and other shapes panic;
//   - <A b, z> = <b, A* z>, and both directions are linear and finite;
//   - the result for a vector is the same, bit for bit, in batches of any size
//     (for a batch of that vector alone, to rounding) and from many goroutines
//     at once;
//   - sources stay unmodified, old contents of destinations do not matter, and
//     batches with gaps between their vectors (column views) are served, the
//     gaps left alone;
//   - SolveNormal solves its equation, also in place, or does nothing;
//   - what RowGram, Norm2, Dense and ColumnNorms2 claim is so, and Restrict
//     gives the columns asked for;
//   - every batch taken from the device is given back. A factorization that
//     SolveNormal keeps for a value of eta may stay.
func Check(dev array.Device, a linops.Operator) error {
	d, p := a.Dims()
	if d2, p2 := a.Dims(); d2 != d || p2 != p {
		return fmt.Errorf("Dims is %d x %d, then %d x %d", d, p, d2, p2)
	}
	if d < 0 || p < 0 {
		return fmt.Errorf("Dims is %d x %d", d, p)
	}
	c := &checker{dev: dev, a: a, d: d, p: p, k: manyVectors}
	if max(d, p) > longVector {
		c.k = fewVectors
	}
	directions := []direction{{"Forward", p, d, a.Forward}, {"Adjoint", d, p, a.Adjoint}}
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
	c.guard("RowGram", c.rowGram)
	c.guard("Norm2", c.norm)
	c.guard("Dense", c.dense)
	c.guard("ColumnNorms2", c.columnNorms)
	c.guard("Restrict", c.restrict)
	c.guard("ApplyNormal", c.normalMap)
	if now := dev.Stats().Live; now != live && len(c.errs) == 0 {
		c.failf("Forward and Adjoint: %d batches taken from the device and not given back", now-live)
	}
	if s, ok := a.(linops.NormalSolver); ok {
		c.guard("SolveNormal", func() { c.normal(s) })
	}
	if err := dev.Sync(); err != nil {
		c.failf("device: %w", err)
	}
	return errors.Join(c.errs...)
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
	d, p int
	k    int // vectors in a large batch
	errs []error
}

func (c *checker) failf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// guard runs one test and turns a panic into a finding.
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

// linear tests A (s x + t y) = s A x + t A y. With s + t away from 1 an affine
// map fails too.
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
			c.failf("%s is not linear: ||A(%gx %+gy) - (%gAx %+gAy)|| is %.3g, the terms are of size %.3g", dir.name, s, t, s, t, e, scale)
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

// batches tests that vectors do not see each other, that sources survive and
// that views with gaps serve.
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
			c.failf("%s: in a view with gaps between its vectors, vector %d is %v at coordinate %d; without gaps it is %v",
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

// concurrent tests that goroutines do not see each other.
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
			c.failf("%s from %d goroutines at once gives another result than alone", dir.name, goroutines)
			return
		}
	}
}

// rowGram tests A A* z = c z.
func (c *checker) rowGram() {
	g, ok := c.a.(linops.RowGram)
	if !ok {
		return
	}
	gram, ok := g.RowGram()
	if !ok {
		return
	}
	if !(gram >= 0) || math.IsInf(gram, 1) {
		c.failf("RowGram is %v, want 0 or more", gram)
		return
	}
	z := gaussian(2*c.d, 600)
	aaz := c.apply(c.a.Forward, c.d, 2, c.apply(c.a.Adjoint, c.p, 2, z))
	want := make([]float64, len(z))
	for i, v := range z {
		want[i] = gram * v
	}
	if e := distance(aaz, want); !(e <= tol*norm(want)) {
		c.failf("RowGram is %g, but ||A A* z - %g z|| is %.3g for a z of norm %.3g", gram, gram, e, norm(z))
	}
}

// bare hides what an operator knows, so that linops.Norm2 has to iterate.
type bare struct{ linops.Operator }

// normTol is how near the iteration must come to a claimed norm: it sees the
// norm from below, and at the edge of a crowded spectrum slowly.
const normTol = 1e-2

// estimate is ||A||^2 by iteration.
func (c *checker) estimate() (linops.NormEstimate, error) {
	return linops.Norm2(context.Background(), c.dev, bare{c.a}, linops.NormOptions{Tol: 1e-6, MaxIterations: 60})
}

// norm tests that the claimed norm is what an iteration finds.
func (c *checker) norm() {
	n, ok := c.a.(linops.Normer)
	if !ok {
		return
	}
	claim, ok := n.Norm2()
	if !ok {
		return
	}
	est, err := c.estimate()
	if err != nil {
		c.failf("Norm2: %w", err)
		return
	}
	if !(math.Abs(claim-est.Value) <= normTol*est.Value+est.Error) || est.Value > claim*(1+1e-9) {
		c.failf("Norm2 is %.10g, an iteration finds %.10g, in error by %.2g", claim, est.Value, est.Error)
	}
}

// columns calls f with each of some columns of A, as Forward has them.
func (c *checker) columns(f func(j int, column []float64) bool) {
	list := make([]int, 0, columnSample)
	if c.p <= columnSample {
		for j := range c.p {
			list = append(list, j)
		}
	} else {
		rng := rand.New(rand.NewPCG(700, 1))
		for range columnSample {
			list = append(list, rng.IntN(c.p))
		}
	}
	for _, j := range list {
		unit := make([]float64, 2*c.p)
		unit[j] = 1
		if !f(j, c.apply(c.a.Forward, c.d, 2, unit)[:c.d]) {
			return
		}
	}
}

// dense compares the matrix with Forward on unit vectors.
func (c *checker) dense() {
	m, ok := c.a.(linops.Densifier)
	if !ok {
		return
	}
	x := m.Dense()
	if x == nil {
		return
	}
	if rows, cols := x.Dims(); rows != c.d || cols != c.p {
		c.failf("Dense is %d x %d, the operator is %d x %d", rows, cols, c.d, c.p)
		return
	}
	want := make([]float64, c.d)
	c.columns(func(j int, column []float64) bool {
		for i := range want {
			want[i] = x.At(i, j)
		}
		if e := distance(column, want); !(e <= tol*norm(want)) {
			c.failf("Dense: its column %d is off Forward's by %.3g, of size %.3g", j, e, norm(column))
			return false
		}
		return true
	})
}

// columnNorms compares the claimed norms with Forward on unit vectors.
func (c *checker) columnNorms() {
	n, ok := c.a.(linops.ColumnNormer)
	if !ok {
		return
	}
	norms := n.ColumnNorms2()
	if norms == nil {
		return
	}
	if len(norms) != c.p {
		c.failf("ColumnNorms2 has %d values, want %d", len(norms), c.p)
		return
	}
	c.columns(func(j int, column []float64) bool {
		if got := dot(column, column); !(math.Abs(got-norms[j]) <= tol*got) {
			c.failf("ColumnNorms2 of column %d is %g, Forward gives %g", j, norms[j], got)
			return false
		}
		return true
	})
}

// restrict compares the operator on every third coordinate with the operator on
// vectors that are zero elsewhere.
func (c *checker) restrict() {
	r, ok := c.a.(linops.Restrictor)
	if !ok {
		return
	}
	var s []int
	for j := (c.p + 2) % 3; j < c.p; j += 3 {
		s = append(s, j)
	}
	as := r.Restrict(s)
	if as == nil {
		return
	}
	defer as.Release()
	if d, p := as.Dims(); d != c.d || p != len(s) {
		c.failf("Restrict to %d coordinates is %d x %d, want %d x %d", len(s), d, p, c.d, len(s))
		return
	}
	const k = 2
	bs, b := gaussian(k*len(s), 900), make([]float64, k*c.p)
	for i := range k {
		for t, j := range s {
			b[i*c.p+j] = bs[i*len(s)+t]
		}
	}
	got, want := c.apply(as.Forward, c.d, k, bs), c.apply(c.a.Forward, c.d, k, b)
	if e := distance(got, want); !(e <= tol*norm(want)) {
		c.failf("Restrict: Forward is off A's by %.3g, of size %.3g", e, norm(want))
	}
	z := gaussian(k*c.d, 901)
	got, all := c.apply(as.Adjoint, len(s), k, z), c.apply(c.a.Adjoint, c.p, k, z)
	for i := range k {
		for t, j := range s {
			if g, w := got[i*len(s)+t], all[i*c.p+j]; !(math.Abs(g-w) <= tol*norm(all)) {
				c.failf("Restrict: Adjoint is %g at coordinate %d, A's is %g", g, j, w)
				return
			}
		}
	}
}

// normalMap compares A*A in one piece with A* after A.
func (c *checker) normalMap() {
	a, ok := c.a.(linops.NormalMap)
	if !ok {
		return
	}
	const k = 2
	b := gaussian(k*c.p, 902)
	got := c.apply(a.ApplyNormal, c.p, k, b)
	want := c.apply(c.a.Adjoint, c.p, k, c.apply(c.a.Forward, c.d, k, b))
	if e := distance(got, want); !(e <= tol*norm(want)) {
		c.failf("ApplyNormal is off A*A by %.3g, of size %.3g", e, norm(want))
	}
}

// normal tests the closed form, at values of eta that weigh the two terms of
// eta A*A + I in every way.
func (c *checker) normal(s linops.NormalSolver) {
	est, err := c.estimate()
	if err != nil {
		c.failf("SolveNormal: %w", err)
		return
	}
	size := est.Upper()
	if size == 0 {
		size = 1
	}
	etas := []float64{0, 0.3 / size, 1 / size, 25 / size}
	x := gaussian(3*c.p, 800)
	// The first solution may keep a factorization, the rest must not add to it.
	for _, eta := range etas {
		if !c.equation(s, eta, est.Upper(), x) {
			return
		}
	}
	live := c.dev.Stats().Live
	eta := etas[2]
	c.batchwise("SolveNormal", c.p, c.p, func(dst, rhs array.Batch) { s.SolveNormal(dst, rhs, eta) })

	b := c.dev.Alloc(3, c.p)
	c.dev.Upload(b, x)
	s.SolveNormal(b, b, eta)
	inPlace := b.ToHost()
	b.Free()
	apart := c.apply(func(dst, rhs array.Batch) { s.SolveNormal(dst, rhs, eta) }, c.p, 3, x)
	if i := different(inPlace, apart); i >= 0 {
		c.failf("SolveNormal in place gives %v at vector %d, into another batch it gives %v", inPlace[i], i/c.p, apart[i])
	}

	var wg sync.WaitGroup
	wrong := make([]bool, len(etas))
	for i, eta := range etas {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					wrong[i] = true
				}
			}()
			first := c.apply(func(dst, rhs array.Batch) { s.SolveNormal(dst, rhs, eta) }, c.p, 3, x)
			again := c.apply(func(dst, rhs array.Batch) { s.SolveNormal(dst, rhs, eta) }, c.p, 3, x)
			wrong[i] = different(first, again) >= 0
		})
	}
	wg.Wait()
	if slices.Contains(wrong, true) {
		c.failf("SolveNormal from %d goroutines at once gives changing results", len(etas))
	}
	if now := c.dev.Stats().Live; now != live {
		c.failf("SolveNormal: %d batches taken from the device and not given back", now-live)
	}
}

// equation tests eta A*A x + x = rhs, and reports whether x could be had.
func (c *checker) equation(s linops.NormalSolver, eta, norm2 float64, rhs []float64) bool {
	ok := false
	x := c.apply(func(dst, b array.Batch) {
		c.dev.Fill(dst, canary)
		ok = s.SolveNormal(dst, b, eta)
	}, c.p, 3, rhs)
	if !ok {
		for _, v := range x {
			if v != canary {
				c.failf("SolveNormal at eta = %g returns false, but has written to its destination", eta)
				break
			}
		}
		return false
	}
	aax := c.apply(c.a.Adjoint, c.p, 3, c.apply(c.a.Forward, c.d, 3, x))
	for i := range aax {
		aax[i] = eta*aax[i] + x[i]
	}
	// The backward error: small against the terms of the equation.
	scale := (1+eta*norm2)*norm(x) + norm(rhs)
	if e := distance(aax, rhs); !(e <= tol*scale) {
		c.failf("SolveNormal at eta = %g: ||eta A*A x + x - rhs|| is %.3g, the terms are of size %.3g", eta, e, scale)
	}
	return true
}
