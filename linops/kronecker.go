package linops

import (
	"fmt"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// kronecker is (A (x) I) E diag(s) for the k x k identity and some of the columns. Vectors are put into the order of k
// vectors that A acts on, one after the other.
type kronecker struct {
	base
	dev      array.Device
	a        known
	k        int
	at       []int     // of the p k columns, increasing
	s        []float64 // nil for ones
	scale    array.Batch
	rows     *sharedIndex
	cols     array.Index
	outcomes func() *outcomes // once for the same entries
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
	return newKronecker(dev, a, k, lists.Upto(n), nil, nil)
}

// sharedIndex is that of the rows, which are many, of operators with other columns. The last of its users frees it.
type sharedIndex struct {
	array.Index
	users array.Users
}

func (x *sharedIndex) Free() {
	if x.users.Leave() {
		x.Index.Free()
	}
}

// use is the index for another user, or for no index that of the rows of a Kronecker product of d rows.
func (x *sharedIndex) use(dev array.Device, d, k int) *sharedIndex {
	if x == nil {
		return &sharedIndex{Index: dev.NewIndex(byVector(lists.Upto(d*k), d, k))}
	}
	x.users.Join()
	return x
}

func newKronecker(dev array.Device, a Operator, k int, at []int, scale []float64, rows *sharedIndex) *kronecker {
	d, p := a.Dims()
	c := &kronecker{dev: dev, a: know(a), k: k, at: at, s: scale, rows: rows.use(dev, d, k),
		cols: dev.NewIndex(byVector(at, p, k))}
	c.outcomes = sync.OnceValue(c.byOutcome)
	c.base = base{name: "Kronecker", d: d * k, p: len(at), run: c.multiply}
	c.Hold(c.rows, c.cols)
	if scale != nil {
		c.scale = dev.Alloc(1, len(scale))
		dev.Upload(c.scale, scale)
		c.Hold(c.scale)
	}
	s := Structure{Gram: func(dst array.Batch) { c.products(dst, c) }, Products: c.products,
		ScaleColumns: c.scaled}
	s.kronecker = c
	s.PickRows = c.pickRows
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
		s.Blocks = c.blocks
	}
	if canRestrict(&c.a) {
		s.On = c.on
	}
	c.structure = Complete(c, s)
	return c
}

// scaled has other units, those of A's columns where they are the same for all outcomes.
func (c *kronecker) scaled(dev array.Device, s []float64) Restricted {
	all := slices.Clone(s)
	if c.s != nil {
		floats.Mul(all, c.s)
	}
	inner := c.a.s.ScaleColumns
	for i, v := range all {
		if v != all[i-i%c.k] {
			inner = nil
		}
	}
	if inner == nil || c.s != nil || !c.whole() {
		return newKronecker(dev, c.a.Operator, c.k, c.at, all, c.rows)
	}
	a := inner(dev, lists.Make(len(all)/c.k, func(j int) float64 { return all[j*c.k] }))
	of := newKronecker(dev, a, c.k, c.at, nil, c.rows)
	of.Own(a)
	return of
}

func (c *kronecker) unit(i int) float64 {
	if c.s == nil {
		return 1
	}
	return c.s[i]
}

// entries are those of A on the host, which the caller must not modify, nil where A is no matrix.
func (c *kronecker) entries() *mat.Dense {
	switch stored := c.a.s.Stored; {
	case !c.a.s.Entries.Known || c.d == 0 || c.p == 0:
		return nil
	case c.a.s.Dense == nil && !stored.IsZero():
		if stored.Contiguous() {
			if all, host := stored.Reshape(1, stored.K()*stored.N()).HostRow(0); host {
				return mat.NewDense(stored.K(), stored.N(), all)
			}
		}
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
	from, to := c.cols, c.rows.Index
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
	other := StructureOf(b).kronecker
	if other == nil || other.k != c.k {
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
	c, other := StructureOf(a).kronecker, StructureOf(b).kronecker
	if c == nil || other == nil || other.k != c.k || !c.a.s.Entries.Known || !other.a.s.Entries.Known ||
		c.p == 0 || other.p == 0 {
		return false
	}
	left := c.outcomes()
	right := left
	if c != other {
		right = other.outcomes()
	}
	k, all := c.k, mat.NewDense(c.p, other.p, nil)
	parallel.For(k, func(i int) {
		first := 0
		if c == other {
			first = i
		}
		at := right.from[first]
		if left.from[i] == left.from[i+1] || at == other.p {
			return
		}
		sum := dense(left.from[i+1]-left.from[i], right.from[k]-at)
		weighted := dense(min(parallel.Panel, left.x.Rows), sum.Cols)
		for from, end := range parallel.Panels(left.x.Rows) {
			rows := end - from
			for r := range rows {
				x, to := right.row(from+r), weighted.Data[r*weighted.Stride:]
				for j := first; j < k; j++ {
					lo, hi := right.from[j], right.from[j+1]
					by, out := h[((from+r)*k+i)*k+j], to[lo-at:hi-at]
					for s, v := range x[lo:hi] { // few: a call would cost more
						out[s] = by * v
					}
				}
			}
			weighted.Rows = rows
			blas64.Gemm(blas.Trans, blas.NoTrans, 1, left.part(from, rows, i, i+1), weighted, 1, sum)
		}
		for s, to := range left.places[left.from[i]:left.from[i+1]] {
			for r, v := range sum.Data[s*sum.Stride:][:sum.Cols] {
				all.Set(to, right.places[at+r], v)
				if c == other {
					all.Set(right.places[at+r], to, v)
				}
			}
		}
	})
	dst.Device().Upload(dst, all.RawMatrix().Data)
	return true
}

// blocks are the diagonal blocks of order k of A P A*, row-major, for a symmetric P; nil for another order.
func (c *kronecker) blocks(p []float64, order int) []float64 {
	if order != c.k {
		return nil
	}
	x, k := c.outcomes(), c.k
	sorted, out := dense(c.p, c.p), make([]float64, c.d*k)
	for s, a := range x.places {
		for r, b := range x.places {
			sorted.Data[s*sorted.Stride+r] = p[a*c.p+b]
		}
	}
	fresh := func() blas64.General { return dense(parallel.Panel, c.p) }
	_ = parallel.Each(parallel.Parts(x.x.Rows, parallel.Panel), fresh, func(part int, images blas64.General) error {
		from := part * parallel.Panel
		rows := min(parallel.Panel, x.x.Rows-from)
		for i := range k {
			lo, hi := x.from[i], x.from[i+1]
			if lo == hi {
				continue
			}
			of, to := sorted, images
			of.Rows, of.Cols, of.Data = hi-lo, c.p-lo, sorted.Data[lo*sorted.Stride+lo:]
			to.Rows, to.Cols = rows, of.Cols
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x.part(from, rows, i, i+1), of, 0, to)
			for r := range rows {
				row, image, block := x.row(from+r), to.Data[r*to.Stride:], out[(from+r)*k*k:][:k*k]
				for j := i; j < k; j++ {
					v := floats.Dot(row[x.from[j]:x.from[j+1]], image[x.from[j]-lo:x.from[j+1]-lo])
					block[i*k+j], block[j*k+i] = v, v
				}
			}
		}
		return nil
	})
	return out
}

// outcomes are A's columns, those of outcome i from from[i] to from[i+1], and their places.
type outcomes struct {
	places, from []int
	x            blas64.General
}

func dense(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: make([]float64, rows*cols)}
}

func (o *outcomes) row(i int) []float64 { return o.x.Data[i*o.x.Stride:][:o.x.Cols] }

// part has some rows of the columns of the outcomes from i to below j.
func (o *outcomes) part(from, rows, i, j int) blas64.General {
	part := o.x
	part.Rows, part.Cols = rows, o.from[j]-o.from[i]
	part.Data = part.Data[from*part.Stride+o.from[i]:]
	return part
}

func (c *kronecker) byOutcome() *outcomes {
	x, o := c.entries(), &outcomes{from: make([]int, c.k+1), x: dense(c.d/c.k, c.p)}
	for i := range c.k {
		for s, j := range c.at {
			if j%c.k == i {
				o.places = append(o.places, s)
			}
		}
		o.from[i+1] = len(o.places)
	}
	columns := lists.Map(o.places, func(s int) int { return c.at[s] / c.k })
	units := lists.Map(o.places, c.unit)
	parallel.Ranges(o.x.Rows, parallel.Rows(len(columns)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row, to := x.RawRowView(i), o.row(i)
			for s, j := range columns {
				to[s] = row[j] * units[s]
			}
		}
	})
	return o
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
	r := newKronecker(dev, a, c.k, at, scale, c.rows)
	r.Own(a)
	if weigh := StructureOf(a).WeighRows; weigh != nil {
		r.structure.WeighRows = func(w []float64) bool {
			own := lists.Make(len(w)/c.k, func(i int) float64 { return w[i*c.k] })
			for i, v := range w {
				if v != own[i/c.k] {
					return false
				}
			}
			r.outcomes = sync.OnceValue(r.byOutcome)
			return weigh(own)
		}
	}
	return r
}

// pickRows takes rows of A where these are those of all outcomes.
func (c *kronecker) pickRows(dev array.Device, rows []int) (Operator, func(), error) {
	inner := c.innerRows(rows)
	if inner == nil {
		return nil, nil, nil
	}
	some, free, err := Pick(dev, c.a.Operator, inner)
	if err != nil {
		return nil, nil, err
	}
	picked := newKronecker(dev, some, c.k, c.at, c.s, nil)
	return picked, func() { picked.Release(); free() }, nil
}

// innerRows are the rows of A for rows that are those of all outcomes of some observations; nil for others.
func (c *kronecker) innerRows(rows []int) []int {
	if len(rows)%c.k != 0 {
		return nil
	}
	inner := make([]int, 0, len(rows)/c.k)
	for at, i := range rows {
		if i%c.k != at%c.k || i/c.k != rows[at-at%c.k]/c.k {
			return nil
		}
		if i%c.k == 0 {
			inner = append(inner, i/c.k)
		}
	}
	return inner
}

// KroneckerOf returns A and k of an operator A (x) I with k > 1, of which coordinate j is outcome j%k of column j/k;
// nil and 1 for others.
func KroneckerOf(a Operator) (inner Operator, k int) {
	if c := StructureOf(a).kronecker; c != nil && c.s == nil && c.whole() {
		return c.a.Operator, c.k
	}
	return nil, 1
}

// whole reports that it has all columns, of several outcomes.
func (c *kronecker) whole() bool {
	_, p := c.a.Dims()
	return c.k > 1 && len(c.at) == p*c.k
}
