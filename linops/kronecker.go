package linops

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// kronecker is (A (x) I) E diag(s) for the k x k identity and some of the columns. Vectors are put into the order of k
// vectors that A acts on, one after the other.
type kronecker struct {
	base
	dev        array.Device
	a          known
	k          int
	at         []int     // of the p k columns, increasing
	s          []float64 // nil for ones
	scale      array.Batch
	rows, cols array.Index
}

// Kronecker returns A (x) I for the k x k identity: the product of A with a p x k matrix B, row-major as all matrices.
//
//	Forward: dst = vec(A B)        Adjoint: dst = vec(A* Z)
//
// Of its columns it has the first n, of p k. Its Gram matrix is A*A (x) I, and some of its columns are columns of A.
// What it holds is on dev; it does not own A.
func Kronecker(dev array.Device, a Operator, k, n int) Restricted {
	if _, p := a.Dims(); k < 1 || n < 0 || n > p*k {
		panic(fmt.Sprintf("linops: %d columns of Kronecker of %d columns with the %d x %d identity", n, p, k, k))
	}
	return newKronecker(dev, a, k, lists.Upto(n), nil)
}

func newKronecker(dev array.Device, a Operator, k int, at []int, scale []float64) *kronecker {
	d, p := a.Dims()
	c := &kronecker{dev: dev, a: know(a), k: k, at: at, s: scale, rows: dev.NewIndex(byVector(lists.Upto(d*k), d, k)),
		cols: dev.NewIndex(byVector(at, p, k))}
	c.base = base{name: "Kronecker", d: d * k, p: len(at), run: c.multiply}
	c.Hold(c.rows, c.cols)
	if scale != nil {
		c.scale = dev.Alloc(1, len(scale))
		dev.Upload(c.scale, scale)
		c.Hold(c.scale)
	}
	s := Structure{Gram: func(dst array.Batch) { c.products(dst, c) }, Products: c.products,
		ScaleColumns: func(dev array.Device, s []float64) Restricted {
			all := slices.Clone(s)
			if c.s != nil {
				floats.Mul(all, c.s)
			}
			return newKronecker(dev, a, k, at, all)
		}}
	if p > 0 { // with some of the columns of a sparse A about as many entries
		s.Entries = c.a.s.Entries.times(Known(float64(len(at)) / float64(p)))
	}
	if scale == nil {
		s.Columns = c.a.s.Columns
	}
	if scale == nil && len(at) == p*k {
		s.Rows, s.Norm2 = c.a.s.Rows, c.a.s.Norm2
	}
	if norms2 := c.a.s.ColumnNorms2; norms2 != nil {
		s.ColumnNorms2 = func() []float64 {
			n := norms2()
			return lists.Make(len(at), func(i int) float64 { return n[at[i]/k] * c.unit(i) * c.unit(i) })
		}
	}
	if s.Entries.Known && d > 0 && len(at) > 0 {
		s.Dense = func() *mat.Dense { return c.dense(c.entries()) }
	}
	if canRestrict(&c.a) {
		s.On = c.on
	}
	c.structure = Complete(c, s)
	return c
}

func (c *kronecker) unit(i int) float64 {
	if c.s == nil {
		return 1
	}
	return c.s[i]
}

// entries are those of A on the host, nil where A is no matrix.
func (c *kronecker) entries() *mat.Dense {
	switch stored := c.a.s.Stored; {
	case !c.a.s.Entries.Known || c.d == 0 || c.p == 0:
		return nil
	case c.a.s.Dense == nil && !stored.IsZero():
		return mat.NewDense(stored.K(), stored.N(), stored.ToHost())
	}
	return ToDense(c.dev, c.a.Operator)
}

// byVector are the places of coordinates (j, i) of n x k matrices where the columns of these are k vectors.
func byVector(at []int, n, k int) []int {
	return lists.Map(at, func(j int) int { return j%k*n + j/k })
}

func (c *kronecker) multiply(w product.Direction, dst, x array.Batch) {
	d, p := c.a.Dims()
	dev, m := dst.Device(), x.K()
	from, to := c.cols, c.rows
	n, out := p, d
	if w == product.Adjoint {
		from, to, n, out = to, from, out, n
	}
	t, u := dev.Alloc(m, n*c.k), dev.Alloc(m, out*c.k)
	defer array.Free(t, u)
	if c.s != nil && w == product.Forward {
		scaled := dev.Alloc(m, c.p)
		defer scaled.Free()
		dev.Mul(scaled, x, c.scale)
		x = scaled
	}
	dev.Scatter(t, x, from)
	c.a.apply(w, u.Reshape(m*c.k, out), t.Reshape(m*c.k, n))
	if dev.Gather(dst, u, to); c.s != nil && w == product.Adjoint {
		dev.Mul(dst, dst, c.scale)
	}
}

func (c *kronecker) products(dst array.Batch, b Operator) bool {
	other, ok := b.(*kronecker)
	if !ok || other.k != c.k {
		return false
	}
	_, p := c.a.Dims()
	_, q := other.a.Dims()
	dev := dst.Device()
	small := dev.Alloc(p, q)
	defer small.Free()
	if gram := c.a.s.Gram; gram != nil && c.a.Operator == other.a.Operator {
		gram(small)
	} else {
		into, free := Products(dev, c.a.Operator)
		defer free()
		into(small, other.a.Operator)
	}
	values, all := small.ToHost(), make([]float64, len(c.at)*len(other.at))
	each := make([][]int, c.k) // the places of columns by outcome
	for s, j := range other.at {
		each[j%c.k] = append(each[j%c.k], s)
	}
	for s, j := range c.at {
		from, to := values[j/c.k*q:], all[s*len(other.at):]
		for _, r := range each[j%c.k] {
			to[r] = c.unit(s) * from[other.at[r]/c.k] * other.unit(r)
		}
	}
	dev.Upload(dst, all)
	return true
}

// BlockProducts sets dst to A* H B for operators of [Kronecker] on the same rows and k, where H has a symmetric k x k
// block h_i, row-major, for each row i of what is multiplied there; it returns false and does nothing for others.
func BlockProducts(dst array.Batch, a, b Operator, h []float64) bool {
	c, ok := a.(*kronecker)
	other, too := b.(*kronecker)
	if !ok || !too || other.k != c.k || !c.a.s.Entries.Known || !other.a.s.Entries.Known || c.p == 0 || other.p == 0 {
		return false
	}
	left := c.byOutcome()
	right := left
	if c != other {
		right = other.byOutcome()
	}
	dev, k, w, all := dst.Device(), c.k, make([]float64, c.d/c.k), make([]float64, len(c.at)*len(other.at))
	for i, x := range left {
		for j, z := range right {
			if c == other && j < i || len(x.places) == 0 || len(z.places) == 0 {
				continue
			}
			for row := range w {
				w[row] = h[(row*k+i)*k+j]
			}
			weighted, m, n := dev.Alloc(c.d/k, len(z.places)), len(x.places), len(z.places)
			of := dev.Put(z.columns, c.d/k, n)
			dev.LinEach(weighted, w, of, nil, array.Batch{})
			square, own := dev.Alloc(m, n), dev.Put(x.columns, c.d/k, m)
			products(square, own, weighted)
			values := square.ToHost()
			array.Free(weighted, of, square, own)
			for s, to := range x.places {
				for r, at := range z.places {
					all[to*len(other.at)+at] = values[s*n+r]
					if c == other {
						all[at*len(other.at)+to] = values[s*n+r]
					}
				}
			}
		}
	}
	dev.Upload(dst, all)
	return true
}

// outcome has the columns of A that belong to one, d x n, and their places.
type outcome struct {
	places  []int
	columns []float64
}

func (c *kronecker) byOutcome() []outcome {
	x, each := c.entries(), make([]outcome, c.k)
	for s, j := range c.at {
		each[j%c.k].places = append(each[j%c.k].places, s)
	}
	for o, e := range each {
		n := len(e.places)
		each[o].columns = make([]float64, c.d/c.k*n)
		for i := range c.d / c.k {
			row, to := x.RawRowView(i), each[o].columns[i*n:(i+1)*n]
			for k, s := range e.places {
				to[k] = row[c.at[s]/c.k] * c.unit(s)
			}
		}
	}
	return each
}

func (c *kronecker) dense(a *mat.Dense) *mat.Dense {
	x := mat.NewDense(c.d, c.p, nil)
	for i := range c.d {
		from, to := a.RawRowView(i/c.k), x.RawRowView(i)
		for s, j := range c.at {
			if j%c.k == i%c.k {
				to[s] = from[j/c.k] * c.unit(s)
			}
		}
	}
	return x
}

// on takes columns of A; nil for other spaces than sets of coordinates.
func (c *kronecker) on(dev array.Device, t space.Space) Restricted {
	f := t.Form()
	if f.Kind != space.Subset {
		return nil
	}
	at := lists.Pick(c.at, f.Set)
	set := slices.Compact(lists.Map(at, func(j int) int { return j / c.k }))
	_, p := c.a.Dims()
	columns := space.Coordinates(dev, p, set)
	defer columns.Release()
	a := restrict(dev, &c.a, columns)
	if a == nil {
		return nil
	}
	for i, s := 0, 0; i < len(at); i++ {
		for set[s] != at[i]/c.k {
			s++
		}
		at[i] = s*c.k + at[i]%c.k
	}
	var scale []float64
	if c.s != nil {
		scale = lists.Pick(c.s, f.Set)
	}
	r := newKronecker(dev, a, c.k, at, scale)
	r.Hold(array.Owned(a))
	if weigh := StructureOf(a).WeighRows; weigh != nil {
		r.structure.WeighRows = func(w []float64) bool {
			own := lists.Make(len(w)/c.k, func(i int) float64 { return w[i*c.k] })
			for i, v := range w {
				if v != own[i/c.k] {
					return false
				}
			}
			return weigh(own)
		}
	}
	return r
}

// KroneckerOf returns A and k of an operator A (x) I; nil for others.
func KroneckerOf(a Operator) (inner Operator, k int) {
	if c, ok := a.(*kronecker); ok && c.s == nil {
		if _, p := c.a.Dims(); len(c.at) == p*c.k && c.k > 1 {
			return c.a.Operator, c.k
		}
	}
	return nil, 0
}
