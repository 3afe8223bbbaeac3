package linopstest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/linops/krylov"
)

// structure tests the fields that describe A and its products.
func (c *checker) structure() {
	c.guard("Rows", func() { c.multiple("Rows", "A A*", c.s.Rows, c.d, c.p, c.a.Adjoint, c.a.Forward) })
	c.guard("Columns", func() { c.multiple("Columns", "A*A", c.s.Columns, c.p, c.d, c.a.Forward, c.a.Adjoint) })
	c.guard("Identity", c.identity)
	c.guard("Entries", c.entriesCounted)
	c.guard("Norm2", c.norm)
	c.guard("Dense", c.dense)
	c.guard("ColumnNorms2", c.columnNorms)
	c.guard("ColumnSpread", c.columnSpread)
	c.guard("Commutes", c.shifts)
	c.guard("Stored", c.stored)
	c.guard("Shared", c.shared)
	c.guard("Products", c.products)
	c.guard("Blocks", c.blocks)
	c.guard("BallStep", c.ballSteps)
	c.guard("Pairs", c.pairs)
	c.guard("SparseRows", c.sparseRows)
	c.guard("PickRows", c.pickRows)
	c.guard("RowNorms2", c.rowNorms)
	c.guard("Beside", c.beside)
	c.guard("Normal", c.normal)
	c.guard("Cosines", c.cosines)
	c.guard("Circulant", c.circulant)
	c.guard("Panels", c.panels)
	c.guard("Gram", c.gram)
	c.guard("AddForward", func() { c.adds("AddForward", c.p, c.d, c.s.AddForward, c.a.Forward) })
	c.guard("AddAdjoint", func() { c.adds("AddAdjoint", c.d, c.p, c.s.AddAdjoint, c.a.Adjoint) })
}

// panels tests that the panels' sums are A* z added to what is there.
func (c *checker) panels() {
	accumulate, rows := c.s.Panels.Accumulate, c.s.Panels.Rows
	if accumulate == nil {
		return
	}
	if rows < 1 {
		c.failf("Panels have %d rows", rows)
		return
	}
	const k = 2
	z, before := gaussian(k*c.d, 640), gaussian(k*c.p, 641)
	want := c.apply(c.a.Adjoint, c.p, k, z)
	for i, v := range before {
		want[i] += v
	}
	dst, all := c.dev.Alloc(k, c.p), c.dev.Alloc(k, c.d)
	defer dst.Free()
	defer all.Free()
	c.dev.Upload(dst, before)
	c.dev.Upload(all, z)
	for from := 0; from < c.d; from += rows {
		to := min(from+rows, c.d)
		part := c.dev.Alloc(k, to-from)
		c.dev.Copy(part, all.Cols(from, to))
		accumulate(dst, part, from)
		part.Free()
	}
	if e := distance(dst.ToHost(), want); !(e <= tol*(norm(want)+norm(before))) {
		c.failf("Panels: their sums differ from A* z by %.3g", e)
	}
}

// multiple tests second(first(z)) = c z for vectors of length n.
func (c *checker) multiple(field, product string, claim linops.Number, n, between int, first,
	second func(dst, src array.Batch)) {
	if !claim.Known {
		return
	}
	if !(claim.Value >= 0) || math.IsInf(claim.Value, 1) {
		c.failf("%s is %v, want 0 or more", field, claim.Value)
		return
	}
	z := gaussian(2*n, 600)
	got := c.apply(second, n, 2, c.apply(first, between, 2, z))
	want := make([]float64, len(z))
	for i, v := range z {
		want[i] = claim.Value * v
	}
	if e := distance(got, want); !(e <= tol*norm(want)) {
		c.failf("%s is %g, but ||%s z - %g z|| is %.3g for a z of norm %.3g", field, claim.Value, product,
			claim.Value, e, norm(z))
	}
}

// identity tests A b = b, bit for bit.
func (c *checker) identity() {
	if !c.s.Identity {
		return
	}
	if c.d != c.p {
		c.failf("Identity is claimed by a %d x %d operator", c.d, c.p)
		return
	}
	b := gaussian(2*c.p, 610)
	if i := different(c.apply(c.a.Forward, c.d, 2, b), b); i >= 0 {
		c.failf("Identity: A b differs from b at vector %d, coordinate %d", i/c.p, i%c.p)
	}
}

// bare hides the structure of an operator, so that krylov.Norm2 has to iterate.
type bare struct{ linops.Operator }

// normTol is how close the iteration must come to a claimed norm: it approaches the norm from
// below, and slowly where other eigenvalues are close to the largest.
const normTol = 1e-2

// estimate is ||A||^2 by iteration.
func (c *checker) estimate() (krylov.NormEstimate, error) {
	return krylov.Norm2(context.Background(), c.dev, bare{c.a}, krylov.NormOptions{Tol: 1e-6, MaxIterations: 60})
}

// norm tests that the claimed norm is the one that an iteration finds.
func (c *checker) norm() {
	claim := c.s.Norm2
	if !claim.Known || c.d == 0 || c.p == 0 {
		return
	}
	est, err := c.estimate()
	if err != nil {
		c.failf("Norm2: %w", err)
		return
	}
	if !(math.Abs(claim.Value-est.Value) <= normTol*est.Value+est.Error) || est.Value > claim.Value*(1+1e-9) {
		c.failf("Norm2 is %.10g, but an iteration finds %.10g with an error of %.2g", claim.Value, est.Value, est.Error)
	}
}

// columns calls f with each of some columns of A, as Forward returns them.
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
	if c.s.Dense == nil {
		return
	}
	x := c.s.Dense()
	if x == nil {
		c.failf("Dense returns nil; where there is no matrix the field is nil")
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
			c.failf("Dense: its column %d differs from Forward's by %.3g, of size %.3g", j, e, norm(column))
			return false
		}
		return true
	})
}

// columnNorms compares the claimed norms with Forward on unit vectors.
func (c *checker) columnNorms() {
	if c.s.ColumnNorms2 == nil {
		return
	}
	norms := c.s.ColumnNorms2()
	if len(norms) != c.p {
		c.failf("ColumnNorms2 has %d values, want %d", len(norms), c.p)
		return
	}
	kept := slices.Clone(norms)
	clear(norms)
	if different(c.s.ColumnNorms2(), kept) >= 0 {
		c.failf("ColumnNorms2 returns a slice that it keeps")
		return
	}
	c.columns(func(j int, column []float64) bool {
		if got := dot(column, column); !(math.Abs(got-kept[j]) <= tol*got) {
			c.failf("ColumnNorms2 of column %d is %g, Forward gives %g", j, kept[j], got)
			return false
		}
		return true
	})
}

// beside tests that A is its blocks side by side.
func (c *checker) beside() {
	if len(c.s.Beside) == 0 {
		return
	}
	a := linops.HStack(c.s.Beside...)
	if d, p := a.Dims(); d != c.d || p != c.p {
		c.failf("Beside: the blocks are %d x %d together, the operator is %d x %d", d, p, c.d, c.p)
		return
	}
	b := gaussian(2*c.p, 907)
	c.agree("Beside", c.apply(a.Forward, c.d, 2, b), c.apply(c.a.Forward, c.d, 2, b))
}

// normal compares A*A with A* after A.
func (c *checker) normal() {
	if c.s.Normal == nil {
		return
	}
	c.shapes(direction{"Normal", c.p, c.p, c.s.Normal})
	c.batchwise("Normal", c.p, c.p, c.s.Normal)
	b := gaussian(2*c.p, 902)
	c.agree("Normal", c.apply(c.s.Normal, c.p, 2, b), c.normalOf(2, b))
}

// cosines compares A*A with C* diag(values) C.
func (c *checker) cosines() {
	c.spectrum("Cosines", c.s.Cosines, func(s array.Shape) linops.Operator { return imaging.NewDCT2D(s.Rows, s.Cols) })
}

// circulant compares A*A with F* diag(values) F.
func (c *checker) circulant() {
	c.spectrum("Circulant", c.s.Circulant, func(s array.Shape) linops.Operator {
		all := make([]int, s.Len())
		for i := range all {
			all[i] = i
		}
		f, err := imaging.NewFourier(s.Rows, s.Cols, all, imaging.FourierLayout{})
		if err != nil {
			c.failf("Circulant: %v", err)
		}
		return f
	})
}

// spectrum compares A*A with T* diag(values) T, where T has one row for each value, or several.
func (c *checker) spectrum(field string, known linops.Spectrum, transform func(array.Shape) linops.Operator) {
	if !known.Known() {
		return
	}
	values := known.Values()
	if known.Shape.Len() != c.p || len(values) != c.p {
		c.failf("%s are %d numbers for images of %d x %d, with p = %d", field, len(values), known.Shape.Rows,
			known.Shape.Cols, c.p)
		return
	}
	t, b := transform(known.Shape), gaussian(2*c.p, 903)
	rows, _ := t.Dims()
	on := c.apply(t.Forward, rows, 2, b)
	for i := range on {
		on[i] *= values[i%rows*c.p/rows]
	}
	c.agree(field, c.apply(t.Adjoint, c.p, 2, on), c.normalOf(2, b))
}

// normalOf is A*A b by the two directions.
func (c *checker) normalOf(k int, b []float64) []float64 {
	return c.apply(c.a.Adjoint, c.p, k, c.apply(c.a.Forward, c.d, k, b))
}

// agree reports a difference between two results that should be equal up to rounding.
func (c *checker) agree(what string, got, want []float64) bool {
	e := distance(got, want)
	if !(e <= tol*norm(want)) {
		c.failf("%s differs from A's products by %.3g, of size %.3g", what, e, norm(want))
		return false
	}
	return true
}

// gramColumns is the largest p for which A*A is compared as a matrix.
const gramColumns = 1000

// gram compares the matrix A*A with A* after A on a few vectors.
func (c *checker) gram() {
	if c.s.Gram == nil || c.p == 0 || c.p > gramColumns {
		return
	}
	wrong := c.dev.Alloc(c.p+1, c.p)
	if !panics(func() { c.s.Gram(wrong) }) {
		c.failf("Gram into %s does not panic; the operator is %d x %d", wrong, c.d, c.p)
	}
	wrong.Free()
	square := c.dev.Alloc(c.p, c.p)
	defer square.Free()
	c.dev.Fill(square, math.NaN())
	c.s.Gram(square)
	b := gaussian(2*c.p, 903)
	c.agree("Gram", c.apply(func(dst, b array.Batch) { c.dev.Gemm(false, true, 1, b, square, 0, dst) }, c.p, 2, b),
		c.normalOf(2, b))
}

// adds tests dst += alpha times the image.
func (c *checker) adds(name string, in, out int, add func(dst array.Batch, alpha float64, x array.Batch),
	apply func(dst, x array.Batch)) {
	if add == nil {
		return
	}
	const alpha, start = -0.75, 0.5
	from := func(dst, x array.Batch) {
		c.dev.Fill(dst, start)
		add(dst, alpha, x)
	}
	c.shapes(direction{name, in, out, from})
	c.batchwise(name, in, out, from)
	x := gaussian(2*in, 905)
	want := c.apply(apply, out, 2, x)
	for i := range want {
		want[i] = start + alpha*want[i]
	}
	c.agree(name, c.apply(from, out, 2, x), want)
}

// solve tests the closed form, at values of eta for which either term of eta A*A + I is the larger.
func (c *checker) solve() {
	if c.s.SolveNormal == nil {
		return
	}
	norm2 := 0.0
	if c.d > 0 && c.p > 0 {
		est, err := c.estimate()
		if err != nil {
			c.failf("SolveNormal: %w", err)
			return
		}
		norm2 = est.Upper()
	}
	size := norm2
	if size == 0 {
		size = 1
	}
	etas := []float64{0, 0.3 / size, 1 / size, 25 / size}
	at := func(eta float64) func(dst, rhs array.Batch) {
		return func(dst, rhs array.Batch) { c.s.SolveNormal(dst, rhs, eta) }
	}
	x := gaussian(3*c.p, 800)
	// The first solution may keep a factorization, the others must not add to it.
	for _, eta := range etas {
		if !c.equation(eta, norm2, x) {
			return
		}
	}
	live := c.dev.Stats().Live
	eta := etas[2]
	c.shapes(direction{"SolveNormal", c.p, c.p, at(eta)})
	c.batchwise("SolveNormal", c.p, c.p, at(eta))

	b := c.dev.Alloc(3, c.p)
	c.dev.Upload(b, x)
	c.s.SolveNormal(b, b, eta)
	inPlace := b.ToHost()
	b.Free()
	if i := different(inPlace, c.apply(at(eta), c.p, 3, x)); i >= 0 {
		c.failf("SolveNormal in place gives a different result at vector %d from that in another batch", i/c.p)
	}
	c.solveConcurrently(etas, at, x)
	c.balanced("SolveNormal", live)
}

// solveConcurrently tests that goroutines with values of eta of their own do not affect each other.
func (c *checker) solveConcurrently(etas []float64, at func(eta float64) func(dst, rhs array.Batch), x []float64) {
	var wg sync.WaitGroup
	wrong := make([]bool, len(etas))
	for i, eta := range etas {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					wrong[i] = true
				}
			}()
			first := c.apply(at(eta), c.p, 3, x)
			again := c.apply(at(eta), c.p, 3, x)
			wrong[i] = different(first, again) >= 0
		})
	}
	wg.Wait()
	if slices.Contains(wrong, true) {
		c.failf("SolveNormal from %d goroutines at once gives changing results", len(etas))
	}
}

// equation tests eta A*A x + x = rhs, and reports whether there was a solution.
func (c *checker) equation(eta, norm2 float64, rhs []float64) bool {
	ok := false
	x := c.apply(func(dst, b array.Batch) {
		c.dev.Fill(dst, canary)
		ok = c.s.SolveNormal(dst, b, eta)
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
	aax := c.normalOf(3, x)
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
