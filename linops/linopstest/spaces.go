package linopstest

import (
	"errors"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/space"
)

// CheckOn tests what On returns for an operator and spaces of your own, such as products whose
// factors are the blocks of a stack: both [linops.On] and, where there is one, the On of the
// operator's structure must agree with the space's embedding followed by the operator, and the
// structure of the result must be true. All memory that On allocates must be on the given device.
func CheckOn(dev array.Device, a linops.Operator, spaces ...space.Space) error {
	var errs []error
	for _, t := range spaces {
		c, err := newChecker(dev, a)
		if err != nil {
			return err
		}
		c.guard(fmt.Sprintf("On %s", kindOf(t)), func() {
			c.on(t)
			op, native := linops.On(dev, a, t)
			c.within(t, op)
			if offered := c.s.On != nil || t.Form().Kind == space.Whole; native && !offered {
				c.failf("On %s reports native, but the operator's structure has no On for it", kindOf(t))
			}
		})
		errs = append(errs, c.done())
	}
	return errors.Join(errs...)
}

// Spaces returns spaces of every kind of vectors of length p, for tests. The caller releases them,
// in any order.
func Spaces(dev array.Device, p int) []space.Space {
	all := []space.Space{space.All(p), subset(dev, p, 3), space.Coordinates(dev, p, nil)}
	if p == 0 {
		return all
	}
	all = append(all, subset(dev, p, 1), clusters(dev, p), general{clusters(dev, p)}, tangent(dev, p))
	half := p / 2
	all = append(all, space.ProductOf(subset(dev, half, 2), clusters(dev, p-half)),
		space.ProductOf(space.All(half), tangent(dev, p-half)))
	all = append(all, space.ProductOf(space.All(half), span(dev, p-half)))
	all = append(all, space.HyperplaneOf(dev, p, everyNth(p, 2), gaussian((p+1)/2, 910)), span(dev, p))
	return all
}

// subset is every n-th coordinate.
func subset(dev array.Device, p, step int) space.Space {
	return space.Coordinates(dev, p, everyNth(p, step))
}

func everyNth(p, step int) (set []int) {
	for j := 0; j < p; j += step {
		set = append(set, j)
	}
	return set
}

// clusters joins coordinates that are far from each other, with signs, and leaves some out.
func clusters(dev array.Device, p int) space.Space {
	n := max(1, p/3)
	indptr, indices, sign := []int{0}, []int(nil), make([]float64, p)
	for j := range sign {
		sign[j] = float64(1 - j%2*2)
	}
	for i := range n {
		for j := i; j < p; j += n {
			if j == i || j%5 != 4 {
				indices = append(indices, j)
			}
		}
		indptr = append(indptr, len(indices))
	}
	return space.Clusters(dev, p, indptr, indices, sign)
}

// tangent is a tangent space of matrices with p entries, as nearly square as p allows.
func tangent(dev array.Device, p int) space.Space {
	if p == 0 {
		return space.All(0)
	}
	m := int(math.Sqrt(float64(p)))
	for p%m > 0 {
		m--
	}
	n, r := p/m, min(2, m)
	u, v := orthogonal(m, r, 911), orthogonal(n, r, 912)
	ub, vb := dev.Alloc(1, m*r), dev.Alloc(1, n*r)
	dev.Upload(ub, u)
	dev.Upload(vb, v)
	return owner{space.Tangent(array.Shape{Rows: m, Cols: n}, r, ub, vb), []array.Batch{ub, vb}}
}

// owner is a space that owns some batches.
type owner struct {
	space.Space
	batches []array.Batch
}

func (o owner) Release() {
	o.Space.Release()
	for _, b := range o.batches {
		b.Free()
	}
}

// orthogonal is an n x r matrix, r <= n, with orthogonal columns, the second longer than the first.
func orthogonal(n, r int, seed uint64) []float64 {
	x := make([]float64, n*r)
	columns := make([][]float64, r)
	for c := range columns {
		v := gaussian(n, seed+uint64(c)*100)
		for range 2 {
			for _, w := range columns[:c] {
				along := dot(v, w) / dot(w, w)
				for i := range v {
					v[i] -= along * w[i]
				}
			}
		}
		size := float64(1+c) / norm(v)
		for i := range v {
			v[i] *= size
			x[i*r+c] = v[i]
		}
		columns[c] = v
	}
	return x
}

// span is that of two orthonormal vectors, or one.
func span(dev array.Device, p int) space.Space {
	r := min(2, p)
	x := orthogonal(p, r, 913)
	rows := dev.Alloc(r, p)
	host := make([]float64, r*p)
	for i := range p {
		for c := range r {
			host[c*p+i] = x[i*r+c] / float64(1+c)
		}
	}
	dev.Upload(rows, host)
	return space.Span(rows)
}

// general is a space that does not report its kind.
type general struct{ space.Space }

func (g general) Form() space.Form { return space.Form{} }

func kindOf(t space.Space) string {
	f := t.Form()
	name := [...]string{"a general space", "all of the space", "a subset", "clusters", "a tangent space", "a product",
		"a hyperplane", "a span"}[f.Kind]
	if f.Kind == space.Product {
		for _, part := range f.Parts {
			name += ", " + kindOf(part)
		}
	}
	return name
}

// on tests the structure's On for a space, if there is one.
func (c *checker) on(t space.Space) {
	if c.s.On == nil {
		return
	}
	op := c.s.On(c.dev, t)
	if op == nil {
		return
	}
	// The first call may leave something that the operator keeps, such as a factorization.
	c.owned("On "+kindOf(t), op)
	live := c.dev.Stats().LiveBytes
	if op = c.s.On(c.dev, t); op == nil {
		c.failf("On %s returns an operator and then none", kindOf(t))
		return
	}
	c.within(t, op)
	c.placed("On "+kindOf(t), func(dev array.Device) linops.Restricted { return c.s.On(dev, t) })
	if now := c.dev.Stats().LiveBytes; now > live && len(c.errs) == 0 {
		c.failf("On %s: %d bytes are left after Release", kindOf(t), now-live)
	}
}

// placed tests that everything build allocates is on the given device.
func (c *checker) placed(what string, build func(dev array.Device) linops.Restricted) {
	err := arraytest.AllocatesOn(c.dev, func(view array.Device) func() {
		if op := build(view); op != nil {
			return op.Release
		}
		return nil
	})
	if err != nil {
		c.failf("%s: %w", what, err)
	}
}

// within compares an operator on a space with A after the embedding, and releases it.
func (c *checker) within(t space.Space, op linops.Restricted) {
	what := "On " + kindOf(t)
	_, n := t.Dims()
	if d, q := op.Dims(); d != c.d || q != n {
		c.failf("%s is %d x %d, want %d x %d", what, d, q, c.d, n)
		op.Release()
		return
	}
	const k = 2
	x := gaussian(k*n, 900)
	embedded := make([]float64, k*c.p)
	if n > 0 {
		embedded = c.apply(t.Embed, c.p, k, x)
	}
	c.agree(what+": Forward", c.apply(op.Forward, c.d, k, x), c.apply(c.a.Forward, c.d, k, embedded))
	if n > 0 {
		z := c.apply(c.a.Adjoint, c.p, k, gaussian(k*c.d, 901))
		got := c.apply(op.Adjoint, n, k, gaussian(k*c.d, 901))
		// E* may cancel what A* returns, so that the error is relative to the latter.
		if e, scale := distance(got, c.apply(t.Coordinates, n, k, z)), norm(z); !(e <= tol*scale) {
			c.failf("%s: Adjoint differs from A's products by %.3g, of size %.3g", what, e, scale)
		}
	}
	c.owned(what, op)
}

// owned tests the structure of an operator that c's operator made, and releases it.
func (c *checker) owned(what string, op linops.Restricted) {
	if op.Bytes() < 0 {
		c.failf("%s: Bytes is %d", what, op.Bytes())
	}
	defer op.Release()
	nested, err := newChecker(c.dev, op)
	if err != nil {
		c.failf("%s: %w", what, err)
		return
	}
	nested.k = fewVectors
	nested.guard("dot-test", nested.adjoint)
	nested.structure()
	nested.guard("SolveNormal", nested.solve)
	nested.guard("WeighRows", nested.weighRows) // last: it changes the operator
	for _, err := range nested.errs {
		c.failf("%s: %w", what, err)
	}
}

// scaleColumns compares A diag(s) with A after diag(s).
func (c *checker) scaleColumns() {
	if c.s.ScaleColumns == nil {
		return
	}
	s := gaussian(c.p, 920)
	live := c.dev.Stats().LiveBytes
	op := c.s.ScaleColumns(c.dev, s)
	if op == nil {
		c.failf("ScaleColumns returns nil; where there is no such operator the field is nil")
		return
	}
	if d, p := op.Dims(); d != c.d || p != c.p {
		c.failf("ScaleColumns is %d x %d, want %d x %d", d, p, c.d, c.p)
		op.Release()
		return
	}
	const k = 2
	b, z := gaussian(k*c.p, 921), gaussian(k*c.d, 922)
	scaled := func(x []float64) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = v * s[i%c.p]
		}
		return y
	}
	c.agree("ScaleColumns: Forward", c.apply(op.Forward, c.d, k, b), c.apply(c.a.Forward, c.d, k, scaled(b)))
	c.agree("ScaleColumns: Adjoint", c.apply(op.Adjoint, c.p, k, z), scaled(c.apply(c.a.Adjoint, c.p, k, z)))
	c.owned("ScaleColumns", op)
	c.placed("ScaleColumns", func(dev array.Device) linops.Restricted { return c.s.ScaleColumns(dev, s) })
	if now := c.dev.Stats().LiveBytes; now > live && len(c.errs) == 0 {
		c.failf("ScaleColumns: %d bytes are left after Release", now-live)
	}
}

// sampled tests that A picks the entries that Sampled lists, in matrices of two shapes.
func (c *checker) sampled() {
	if c.s.Sampled == nil {
		return
	}
	if places, order := c.s.Sampled(c.dev, array.Shape{Rows: 1, Cols: c.p + 1}); places != nil || order != nil {
		c.failf("Sampled: %d columns are taken for 1 x %d matrices", c.p, c.p+1)
	}
	for _, shape := range c.matrixShapes() {
		places, order := c.s.Sampled(c.dev, shape)
		if places == nil {
			continue
		}
		if of := c.s.Picked(shape); of == nil || of.Weights != nil {
			c.failf("Picked says nothing, or of weights, where Sampled has places")
			return
		}
		if places.Len() != c.d || order != nil && order.Len() != c.d {
			c.failf("Sampled has %d places, the operator has %d rows", places.Len(), c.d)
			return
		}
		c.entries(shape, places, order)
	}
}

// picked tests that A is what Picked says, on a matrix of normal numbers.
func (c *checker) picked() {
	if c.s.Picked == nil {
		return
	}
	for _, shape := range c.matrixShapes() {
		of := c.s.Picked(shape)
		if of == nil {
			continue
		}
		if len(of.Places) != c.d {
			c.failf("Picked has %d places, the operator has %d rows", len(of.Places), c.d)
			return
		}
		b := gaussian(c.p, 43)
		entries := make([]float64, c.d)
		for i, place := range of.Places {
			if entries[i] = b[place]; of.Weights != nil {
				entries[i] *= math.Sqrt(of.Weights[i])
			}
		}
		if of.Remove != nil {
			entries = c.apply(func(dst, x array.Batch) { c.dev.Copy(dst, x); of.Remove(dst) }, c.d, 1, entries)
			c.projection(of)
		}
		if off := distance(entries, c.apply(c.a.Forward, c.d, 1, b)); off > tol*norm(b) {
			c.failf("Picked: the entries it describes differ from A b by %v", off)
		}
	}
}

// projection tests that Remove is idempotent and symmetric, with I - Rank and I - Diagonal for its trace and diagonal.
func (c *checker) projection(of *linops.Picked) {
	z := gaussian(2*c.d, 41)
	p := func(x []float64) []float64 {
		return c.apply(func(dst, b array.Batch) { c.dev.Copy(dst, b); of.Remove(dst) }, c.d, len(x)/c.d, x)
	}
	trace := float64(c.d - of.Rank)
	for i := range c.d {
		unit := make([]float64, c.d)
		unit[i] = 1
		own := p(unit)[i]
		if trace -= own; math.Abs(own-1+of.Diagonal[i]) > tol {
			c.failf("Picked: entry %d of Pi's diagonal is %v, Remove shows %v", i, of.Diagonal[i], 1-own)
		}
	}
	if math.Abs(trace) > tol*float64(c.d) {
		c.failf("Picked: the rank %d is off by %v", of.Rank, trace)
	}
	once := p(z)
	if off := distance(p(once), once); off > tol*norm(z) {
		c.failf("Remove changes by %v when it is applied again", off)
	}
	if of.Oblique {
		return
	}
	x, y, px, py := z[:c.d], z[c.d:], once[:c.d], once[c.d:]
	if left, right := dot(px, y), dot(x, py); math.Abs(left-right) > tol*(norm(x)*norm(y)+1) {
		c.failf("Remove: <P x, y> = %v, <x, P y> = %v", left, right)
	}
}

// entries compares A on a matrix whose entries are their places with the sample, in A's order.
func (c *checker) entries(shape array.Shape, places array.Pattern, order array.Index) {
	// Entry (i, j) of U V* is i cols + j.
	u, v := make([]float64, 2*shape.Rows), make([]float64, 2*shape.Cols)
	for i := range shape.Rows {
		u[2*i], u[2*i+1] = float64(i*shape.Cols), 1
	}
	for j := range shape.Cols {
		v[2*j], v[2*j+1] = 1, float64(j)
	}
	ub, vb, z := c.dev.Alloc(1, len(u)), c.dev.Alloc(1, len(v)), c.dev.Alloc(1, c.d)
	defer ub.Free()
	defer vb.Free()
	defer z.Free()
	c.dev.Upload(ub, u)
	c.dev.Upload(vb, v)
	c.dev.SampleProduct(z, places, 1, ub, vb, 0)
	list := z.ToHost()
	for e := 1; e < len(list); e++ {
		if list[e] <= list[e-1] {
			c.failf("Sampled: place %d is %v, after %v", e, list[e], list[e-1])
			return
		}
	}
	all := make([]float64, c.p)
	for j := range all {
		all[j] = float64(j)
	}
	want := c.apply(c.a.Forward, c.d, 1, all)
	rows := c.dev.Alloc(1, c.d)
	defer rows.Free()
	c.dev.Copy(rows, z)
	if order != nil {
		c.dev.Scatter(rows, z, order)
	}
	of := c.s.Picked(shape)
	if of.Remove != nil {
		of.Remove(rows)
	}
	list = rows.ToHost()
	// A projection makes rounding errors.
	same := of.Remove != nil && distance(list, want) <= tol*norm(all)
	if i := different(list, want); i >= 0 && !same {
		c.failf("Sampled: row %d of A picks entry %v of %d x %d matrices, Forward gives entry %v", i, list[i],
			shape.Rows, shape.Cols, want[i])
	}
}
