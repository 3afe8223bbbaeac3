package linopstest

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/space"
)

// denseSide is the largest d and p for which A is written down.
const denseSide = 1000

// matrix is A by Forward, row-major; nil where it is too large.
func (c *checker) matrix() *mat.Dense {
	if min(c.d, c.p) == 0 || max(c.d, c.p) > denseSide {
		return nil
	}
	units := make([]float64, c.p*c.p)
	for j := range c.p {
		units[j*c.p+j] = 1
	}
	return mat.DenseCopyOf(mat.NewDense(c.p, c.d, c.apply(c.a.Forward, c.d, c.p, units)).T())
}

// entriesCounted compares the number of entries with those that are listed.
func (c *checker) entriesCounted() {
	n := c.s.Entries
	if !n.Known {
		return
	}
	if !(n.Value >= 0 && n.Value <= float64(c.d)*float64(c.p)) {
		c.failf("Entries is %v of a %d x %d operator", n.Value, c.d, c.p)
		return
	}
	listed := -1
	switch {
	case c.s.SparseRows != nil:
		listed = len(c.s.SparseRows().Values)
	case !c.s.Stored.IsZero():
		listed = c.d * c.p
	}
	if listed >= 0 && n.Value != float64(listed) {
		c.failf("Entries is %v, but %d are stored", n.Value, listed)
	}
}

// columnSpread compares the least and the largest squared norm with those of some columns, of all where these are few.
func (c *checker) columnSpread() {
	if c.s.ColumnSpread == nil {
		return
	}
	least, most := c.s.ColumnSpread()
	low, high := math.Inf(1), 0.0
	c.columns(func(_ int, column []float64) bool {
		if v := dot(column, column); v > 0 {
			low, high = min(low, v), max(high, v)
		}
		return true
	})
	if c.s.ColumnNorms2 != nil && c.p > columnSample {
		low, high = math.Inf(1), 0
		for _, v := range c.s.ColumnNorms2() {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	all := c.p <= columnSample || c.s.ColumnNorms2 != nil
	if !(least <= low*(1+tol)) || !(most >= high*(1-tol)) || all && (least < low*(1-tol) || most > high*(1+tol)) {
		c.failf("ColumnSpread is %g to %g, the columns' squared norms are %g to %g", least, most, low, high)
	}
}

// stored compares what is stored with Forward on unit vectors.
func (c *checker) stored() {
	s := c.s.Stored
	if s.IsZero() {
		return
	}
	if s.K() != c.d || s.N() != c.p {
		c.failf("Stored is %s, the operator is %d x %d", s, c.d, c.p)
		return
	}
	host := s.ToHost()
	want := make([]float64, c.d)
	c.columns(func(j int, column []float64) bool {
		for i := range want {
			want[i] = host[i*c.p+j]
		}
		if e := distance(column, want); !(e <= tol*norm(want)) {
			c.failf("Stored: its column %d differs from Forward's by %.3g, of size %.3g", j, e, norm(column))
			return false
		}
		return true
	})
}

// shared tests that what is kept under a key is made once, and under another key anew.
func (c *checker) shared() {
	if c.s.Shared == nil {
		return
	}
	first, second := new(int), new(int)
	made, other := 0, false
	for _, key := range []*int{first, first, second} {
		other = c.s.Shared(key, func() any {
			made++
			return key
		}) != any(key) || other
	}
	if other || made != 2 {
		c.failf("Shared: two keys, one asked for twice, make %d values; one gets another's: %t", made, other)
	}
}

// products compares A*B for some B with products of A*.
func (c *checker) products() {
	if c.s.Products == nil || c.d == 0 || c.p == 0 || max(c.d, c.p) > denseSide {
		return
	}
	const few = 3
	x := linops.NewDense(c.dev, mat.NewDense(c.d, few, gaussian(c.d*few, 670)))
	defer x.Release()
	for _, b := range []linops.Operator{c.a, x, linops.Scale(2, c.a)} {
		_, n := b.Dims()
		dst := c.dev.Alloc(c.p, n)
		c.dev.Fill(dst, canary)
		done := c.s.Products(dst, b)
		got := dst.ToHost()
		dst.Free()
		if !done {
			if slices.ContainsFunc(got, func(v float64) bool { return v != canary }) {
				c.failf("Products returns false, but has written to its destination")
			}
			continue
		}
		units := make([]float64, n*n)
		for j := range n {
			units[j*n+j] = 1
		}
		columns := c.apply(c.a.Adjoint, c.p, n, c.apply(b.Forward, c.d, n, units))
		c.agree("Products", got, mat.DenseCopyOf(mat.NewDense(n, c.p, columns).T()).RawMatrix().Data)
	}
}

// blocks compares the diagonal blocks of A P A*, of orders that divide d, with the matrix.
func (c *checker) blocks() {
	if c.s.Blocks == nil {
		return
	}
	a := c.matrix()
	if a == nil {
		return
	}
	form, h := mat.NewDense(c.p, c.p, gaussian(c.p*c.p, 671)), new(mat.Dense)
	form.Add(mat.DenseCopyOf(form), mat.DenseCopyOf(form.T()))
	h.Product(a, form, a.T())
	for order := 1; order <= min(c.d, 6); order++ {
		got := c.s.Blocks(form.RawMatrix().Data, order)
		if got == nil {
			continue
		}
		if c.d%order > 0 || len(got) != c.d*order {
			c.failf("Blocks: %d entries in blocks of order %d, of %d rows", len(got), order, c.d)
			continue
		}
		want := make([]float64, 0, len(got))
		for i := range c.d {
			want = append(want, h.RawRowView(i)[i-i%order:][:order]...)
		}
		if e, size := distance(got, want), mat.Norm(h, 2); !(e <= tol*size) {
			c.failf("Blocks of order %d differ from those of the matrix by %.3g, of size %.3g", order, e, size)
		}
	}
}

// weighRows tests weights of all kinds, and equal ones, which more operators take; they change the operator.
func (c *checker) weighRows() {
	if c.s.WeighRows == nil {
		return
	}
	z := gaussian(c.d, 672)
	for i, v := range z {
		z[i] = 1 + math.Abs(v)
	}
	for _, w := range [][]float64{z, slices.Repeat([]float64{0.75}, c.d)} {
		const k = 2
		b := gaussian(k*c.p, 673)
		want := c.apply(c.a.Forward, c.d, k, b)
		weighed := c.s.WeighRows(w)
		if weighed {
			for i := range want {
				want[i] *= w[i%c.d]
			}
		}
		if got := c.apply(c.a.Forward, c.d, k, b); !(distance(got, want) <= tol*norm(want)) {
			c.failf("WeighRows returns %t, and A's products differ from what that says by %.3g, of size %.3g", weighed,
				distance(got, want), norm(want))
			return
		}
		c.guard("WeighRows, dot-test", c.adjoint)
		c.guard("WeighRows, Stored", c.stored)
	}
}

// passes tests the products and the columns that can be stopped, and that the passes are counted.
func (c *checker) passes() {
	s := c.s.Passes
	if s.Bytes == 0 || c.d == 0 || c.p == 0 {
		return
	}
	if s.Bytes < 0 || s.Adjoint == nil || s.Columns == nil || s.ColumnBytes == nil || s.Count == nil {
		c.failf("Passes: %d bytes, and a function is missing, or the number is negative", s.Bytes)
		return
	}
	for j := range min(c.p, columnSample) {
		if n := s.ColumnBytes(j); n < 0 {
			c.failf("Passes: column %d takes %d bytes", j, n)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	passes, bytes := s.Count()
	z := gaussian(2*c.d, 674)
	var failed error
	got := c.apply(func(dst, z array.Batch) { failed = s.Adjoint(ctx, dst, z) }, c.p, 2, z)
	if now, read := s.Count(); now <= passes || read <= bytes {
		c.failf("Passes: %d passes and %d bytes before a product, %d and %d after it", passes, bytes, now, read)
	}
	if failed != nil {
		c.failf("Passes.Adjoint: %w", failed)
	} else {
		c.agree("Passes.Adjoint", got, c.apply(c.a.Adjoint, c.p, 2, z))
	}
	t := subset(c.dev, c.p, 3)
	defer t.Release()
	if op, err := s.Columns(ctx, c.dev, t); err != nil {
		c.failf("Passes.Columns: %w", err)
	} else {
		c.within(t, op)
	}
	stop()
	c.apply(func(dst, z array.Batch) { failed = s.Adjoint(ctx, dst, z) }, c.p, 2, z)
	op, err := s.Columns(ctx, c.dev, t)
	if op != nil {
		op.Release()
	}
	if failed == nil || err == nil {
		c.failf("Passes: Adjoint returns %v and Columns %v after the context is done", failed, err)
	}
}

// keepColumns tests that On takes the same columns from the second copy.
func (c *checker) keepColumns() {
	if c.s.KeepColumns == nil || c.s.On == nil || c.p == 0 {
		return
	}
	c.s.KeepColumns()
	for _, step := range []int{1, 3} {
		t := subset(c.dev, c.p, step)
		if op := c.s.On(c.dev, t); op != nil {
			c.within(t, op)
		} else if t.Form().Kind == space.Subset {
			c.failf("KeepColumns: no columns on %s afterwards", kindOf(t))
		}
		t.Release()
	}
}
