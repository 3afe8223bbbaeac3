package vjp

import (
	"slices"

	"surepipe/array"
	"surepipe/internal/cholesky"
	"surepipe/internal/lists"
	"surepipe/space"
)

// sparseCurvature is Q = B*B with a sparse B, in coordinates of orthonormal vectors. J = (I + t Q)^{-1}
// is applied by a factor on the host, where that has at most mostFactor entries; else by an incomplete
// one, of a few entries a row, that preconditions the system.
type sparseCurvature struct {
	n, inner int        // columns and rows of B
	rows     space.Rows // of B
	factor   *cholesky.Factor
	exact    bool // the factor is J's inverse

	product array.CSR // t Q, where it is not
}

// mostFactor is the largest number of entries of a complete factor, 12 bytes each. Beyond it entries of
// size smallEntry, relative to the root of the two diagonal entries, are left out (docs/benchmarks.md).
var mostFactor int64 = 1 << 22

const smallEntry = 3e-5

// newSparseCurvature returns Q = B*B for the rows of B, at the step t.
func newSparseCurvature(dev array.Device, rows space.Rows, n int, t float64) (*sparseCurvature, error) {
	c := &sparseCurvature{n: n, rows: rows, inner: len(rows.Indptr) - 1}
	weights := slices.Repeat([]float64{t}, c.inner)
	ptr, index, value := cholesky.Normal(n, rows.Indptr, rows.Indices, rows.Values, weights)
	a := cholesky.Analyze(ptr, index, mostFactor)
	diagonal := make([]float64, n)
	for j := range n {
		diagonal[j] = value[ptr[j]]
		value[ptr[j]]++
	}
	if c.exact = a.Nonzeros <= mostFactor; c.exact {
		var err error
		c.factor, err = a.Factorize(value)
		return c, err
	}
	if n > maxColumns {
		c.rows = space.Rows{} // which Matrix would take
	}
	c.factor = a.Incomplete(value, smallEntry)
	for j, v := range diagonal {
		value[ptr[j]] = v
	}
	c.product = dev.NewCSR(n, n, lists.Map(ptr, func(u int64) int { return int(u) }),
		lists.Map(index, func(i int32) int { return int(i) }), value)
	return c, dev.Err()
}

func (c *sparseCurvature) Precondition(dst, image, z array.Batch) {
	dev := dst.Device()
	c.solve(dst, z)
	if c.exact {
		dev.Lin(image, 1, z, -1, dst)
		return
	}
	dev.MulCSR(image, c.product, dst)
}

func (c *sparseCurvature) solve(dst, z array.Batch) {
	k := z.K()
	to, from := make([][]float64, k), make([][]float64, k)
	if _, ok := z.HostRow(0); ok {
		for i := range k {
			to[i], _ = dst.HostRow(i)
			from[i], _ = z.HostRow(i)
		}
		c.factor.Solve(to, from)
		return
	}
	all := z.ToHost()
	for i := range k {
		to[i] = all[i*c.n : (i+1)*c.n]
	}
	c.factor.Solve(to, to)
	dst.Device().Upload(dst, all)
}

func (c *sparseCurvature) Diagonal() []float64 { return nil }

func (c *sparseCurvature) Matrix() []float64 {
	if c.n > maxColumns {
		return nil
	}
	m := make([]float64, c.n*c.n)
	for i := range c.inner {
		lo, hi := c.rows.Indptr[i], c.rows.Indptr[i+1]
		for u := lo; u < hi; u++ {
			for v := lo; v < hi; v++ {
				m[c.rows.Indices[u]*c.n+c.rows.Indices[v]] += c.rows.Values[u] * c.rows.Values[v]
			}
		}
	}
	return m
}

func (c *sparseCurvature) Trace() (trace, frobenius2 float64, ok bool) { return 0, 0, false }

func (c *sparseCurvature) Bytes() int64 {
	if c.exact {
		return c.factor.Bytes()
	}
	return c.factor.Bytes() + c.product.Bytes()
}

func (c *sparseCurvature) Release() {
	if !c.exact {
		c.product.Free()
	}
}
