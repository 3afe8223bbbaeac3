package linops

import (
	"fmt"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// Dense is a d x p matrix X on a device.
//
//	Forward: dst = X b        Adjoint: dst = X' z
//
// It solves its normal equations by the inverse of the smaller Gram matrix: with W = (I + eta X
// X')^{-1}, d x d, or W = (I + eta X'X)^{-1}, p x p,
//
//	(eta X'X + I)^{-1} rhs = rhs - eta X' W X rhs   where d <= p
//	                       = W rhs                  where d > p.
//
// W comes from a Cholesky factorization on the host, is kept for a few values of eta, and is
// applied as a matrix product, so that any device serves. On a space T = E R^n it is the d x n
// matrix X E.
type Dense struct {
	base
	x  *mat.Dense // nil if the host has no copy
	on array.Batch

	// byColumn are the columns, one after the other, where [Storage].KeepColumns has asked for them, and columns the
	// same on the device where that is the host.
	byColumn []float64
	columns  array.Batch

	gramMu  sync.Mutex
	gram    []float64 // the smaller Gram matrix, row-major; nil before it is needed
	inverse product.Cache
}

// NewDense puts the matrix on a device, without a copy where the device is the host. It keeps x,
// which must not be modified afterwards.
func NewDense(dev array.Device, x *mat.Dense) *Dense {
	d, p := x.Dims()
	if raw := x.RawMatrix(); raw.Stride == raw.Cols {
		return newDense(dev.Put(raw.Data[:d*p], d, p), x)
	}
	on := dev.Alloc(d, p)
	for i := range d {
		dev.Upload(on.Rows(i, i+1), x.RawRowView(i))
	}
	return newDense(on, x)
}

// DenseOf returns the matrix whose rows are the vectors of a batch, which it owns. It keeps no copy on
// the host.
func DenseOf(rows array.Batch) *Dense {
	return newDense(rows, nil)
}

func newDense(on array.Batch, x *mat.Dense) *Dense {
	a := &Dense{x: x, on: on}
	a.base = base{name: "Dense", d: on.K(), p: on.N(), run: a.multiply}
	a.Hold(on, &a.inverse)
	a.know()
	return a
}

// MostDense is the number of entries up to which a matrix is written down beside what it is made of, for a matrix's
// closed forms: 128 MiB.
const MostDense = 1 << 24

// know builds the structure. Fields that need the entries on the host are missing where the entries
// are only on the device.
func (a *Dense) know() {
	s := Structure{Entries: Known(float64(a.d * a.p)), SolveNormal: a.solveNormal, Gram: a.gramInto, On: a.onSpace,
		Storage: Storage{Stored: a.on}}
	if a.x != nil {
		s.Dense, s.KeepColumns = a.Dense, a.keepColumns
		s.ColumnNorms2, s.RowNorms2 = a.columnNorms2, a.rowNorms2
		s.Pairs = sync.OnceValue(func() *Pairs { return densePairs(a.d, a.x.RawRowView) })
		if a.d*a.p <= MostDense {
			s.ScaleColumns = func(dev array.Device, c []float64) Restricted {
				return NewDense(dev, scaledColumns(a.x, c))
			}
		}
	}
	a.structure = Complete(a, s)
}

// onSpace is the matrix X E: row i is E* x_i. It keeps no copy on the host.
func (a *Dense) onSpace(dev array.Device, t space.Space) Restricted {
	_, n := t.Dims()
	if n > a.p {
		return nil
	}
	form := t.Form()
	byColumn := a.byColumn != nil && form.Kind == space.Subset
	if byColumn && !a.columns.IsZero() && n > copiedAtOnce {
		return newUncopied(dev, a, form.Set)
	}
	c := DenseOf(dev.Alloc(a.d, n))
	switch {
	case n == 0 || a.d == 0:
	case byColumn:
		a.someColumns(c.on, form.Set)
	default:
		t.Coordinates(c.on, a.on)
	}
	c.structure.WeighRows = func(w []float64) bool {
		dev.LinEach(c.on, w, c.on, nil, array.Batch{})
		return true
	}
	return c
}

// transposedAtOnce is the number of rows and of columns of a block that is transposed in a core's cache.
const transposedAtOnce = 32

// cacheLine is the number of entries that memory moves at once. No more columns are read beside each other than a cache
// keeps of those whose places in it may be the same.
const cacheLine = 8

// keepColumns makes the second copy: some columns of a wide matrix are then read alone, and not a line of memory for
// each of their entries.
func (a *Dense) keepColumns() {
	a.byColumn = make([]float64, a.d*a.p)
	raw := a.x.RawMatrix()
	parallel.Ranges(a.p, transposedAtOnce, func(lo, hi int) {
		for j := lo; j < hi; j += transposedAtOnce {
			to := min(j+transposedAtOnce, hi)
			for i := range a.d {
				for k, v := range raw.Data[i*raw.Stride+j : i*raw.Stride+to] {
					a.byColumn[(j+k)*a.d+i] = v
				}
			}
		}
	})
	if a.d == 0 {
		return
	}
	if _, host := a.on.HostRow(0); host {
		a.columns = a.on.Device().Put(a.byColumn, 1, len(a.byColumn))
		a.Hold(a.columns)
	}
}

// someColumns writes into the memory of dst where that is the host's: new memory costs more than the copy.
func (a *Dense) someColumns(dst array.Batch, set []int) {
	n := len(set)
	values, host := dst.Reshape(1, a.d*n).HostRow(0)
	if !host {
		values = make([]float64, a.d*n)
		defer func() { dst.Device().Upload(dst, values) }()
	}
	for from := 0; from < a.d; from += transposedAtOnce {
		to := min(from+transposedAtOnce, a.d)
		for lo := 0; lo < n; lo += cacheLine {
			some := set[lo:min(lo+cacheLine, n)]
			for i := from; i < to; i++ {
				row := values[i*n+lo:][:len(some)]
				for k, j := range some {
					row[k] = a.byColumn[j*a.d+i]
				}
			}
		}
	}
}

// copiedAtOnce is the number of columns up to which they are copied, for products of matrices: more are taken where the
// copy by columns has them, as a copy takes longer, and more memory, than the products with it.
const copiedAtOnce = 1 << 8

// uncopied are some columns of a dense matrix, which has them one after the other.
type uncopied struct {
	base
	parts []uncopiedPart
}

// uncopiedPart has the columns of the set from lo to hi-1 in a matrix whose rows are columns of A.
type uncopiedPart struct {
	lo, hi  int
	places  array.Pattern
	columns array.Batch
}

func newUncopied(dev array.Device, a *Dense, set []int) *uncopied {
	c := new(uncopied)
	c.base = base{name: "columns", d: a.d, p: len(set), run: c.multiply}
	for lo := 0; lo < len(set); lo += copiedAtOnce {
		hi := min(lo+copiedAtOnce, len(set))
		first, last := set[lo], set[hi-1]
		places := lists.Make(hi-lo, func(k int) int { return set[lo+k] - first })
		part := uncopiedPart{lo, hi, dev.NewPattern(1, last-first+1, places), a.columns.Cols(first*a.d, (last+1)*a.d)}
		c.Hold(part.places)
		c.parts = append(c.parts, part)
	}
	c.structure = Complete(c, Structure{Entries: Known(float64(a.d * len(set))),
		On: func(dev array.Device, t space.Space) Restricted {
			form := t.Form()
			if form.Kind != space.Subset {
				return nil
			}
			of := space.Coordinates(dev, a.p, lists.Pick(set, form.Set))
			defer of.Release()
			return a.onSpace(dev, of)
		}})
	return c
}

func (c *uncopied) multiply(w product.Direction, dst, x array.Batch) {
	dev := dst.Device()
	if w == product.Adjoint {
		parallel.For(len(c.parts), func(i int) {
			part := &c.parts[i]
			dev.SampleProduct(dst.Cols(part.lo, part.hi), part.places, 1, x, part.columns, 0)
		})
		return
	}
	for i, part := range c.parts {
		dev.SpreadProduct(false, 1, part.places, x.Cols(part.lo, part.hi), part.columns, float64(min(i, 1)), dst)
	}
}

func (a *Dense) multiply(w product.Direction, dst, x array.Batch) {
	if x.N() == 0 {
		dst.Device().Fill(dst, 0)
		return
	}
	dst.Device().Gemm(false, w == product.Forward, 1, x, a.on, 0, dst)
}

func (a *Dense) gramInto(dst array.Batch) {
	if dst.K() != a.p || dst.N() != a.p {
		panic(fmt.Sprintf("linops: Gram of a %d x %d Dense into %s", a.d, a.p, dst))
	}
	if a.d == 0 {
		dst.Device().Fill(dst, 0)
		return
	}
	if !dst.Contiguous() {
		dst.Device().Gemm(true, false, 1, a.on, a.on, 0, dst)
		return
	}
	products(dst, a.on, a.on)
}

// Dense returns X, which the caller must not modify; nil where it is only on the device, as for a
// matrix on a space.
func (a *Dense) Dense() *mat.Dense { return a.x }

// columnsAtOnce is the number of columns whose sums are computed together.
const columnsAtOnce = 1 << 11

func (a *Dense) columnNorms2() []float64 {
	norms := make([]float64, a.p)
	parallel.Ranges(a.p, columnsAtOnce, func(lo, hi int) {
		sums := norms[lo:hi:hi]
		for i := range a.d {
			for j, v := range a.x.RawRowView(i)[lo:hi][:len(sums)] {
				sums[j] += v * v
			}
		}
	})
	return norms
}

// solveNormal sets dst = (eta X'X + I)^{-1} rhs. It returns false where the Gram matrix does not
// factor, because X holds a NaN or eta ||X||^2 overflows.
func (a *Dense) solveNormal(dst, rhs array.Batch, eta float64) bool {
	product.CheckSolve("Dense", a.d, a.p, dst, rhs, eta)
	if eta == 0 || a.d == 0 || a.p == 0 {
		product.CopyTo(dst, rhs)
		return true
	}
	e := a.inverse.Acquire(a.on.Device(), eta, func(on array.Device) array.Batch { return a.invert(on, eta) })
	defer a.inverse.Release(e)
	if e.Value.IsZero() {
		return false
	}
	dev := dst.Device()
	k := rhs.K()
	if a.d > a.p {
		t := dev.Alloc(k, a.p)
		dev.Gemm(false, false, 1, rhs, e.Value, 0, t)
		dev.Copy(dst, t)
		t.Free()
		return true
	}
	t, u := dev.Alloc(k, a.d), dev.Alloc(k, a.d)
	a.Forward(t, rhs)
	dev.Gemm(false, false, 1, t, e.Value, 0, u)
	t.Free()
	v := dev.Alloc(k, a.p)
	a.Adjoint(v, u)
	u.Free()
	dev.Lin(dst, 1, rhs, -eta, v)
	v.Free()
	return true
}

// smallerGram returns the smaller Gram matrix, which is computed on dev the first time; nil where
// dev fails.
func (a *Dense) smallerGram(dev array.Device) []float64 {
	a.gramMu.Lock()
	defer a.gramMu.Unlock()
	if a.gram == nil {
		n, wide := min(a.d, a.p), a.d <= a.p
		g := dev.Alloc(n, n)
		defer g.Free()
		dev.Gemm(!wide, wide, 1, a.on, a.on, 0, g)
		if host := g.ToHost(); dev.Err() == nil {
			a.gram = host
		}
	}
	return a.gram
}

// invert returns (I + eta G)^{-1} for the smaller Gram matrix G, or the zero Batch where it does
// not factor. Where dev fails the batch is meaningless.
func (a *Dense) invert(dev array.Device, eta float64) array.Batch {
	n := min(a.d, a.p)
	gram := a.smallerGram(dev)
	if gram == nil {
		return dev.Alloc(n, n)
	}
	w := floats.ScaleTo(make([]float64, n*n), eta, gram)
	for i := range n {
		w[i*n+i]++
	}
	// The condition number needs no check: eta bounds that of I + eta G.
	if !numerics.InvertUpper(blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: max(n, 1), Data: w}, 0) {
		return array.Batch{}
	}
	b := dev.Alloc(n, n)
	dev.Upload(b, w)
	return b
}
