package vjp

import (
	"math"

	"surepipe/array"
	"surepipe/internal/cholesky"
	"surepipe/internal/lists"
	"surepipe/prox"
)

// sparseCurvature is Q by sparse squares, in coordinates of orthonormal vectors. J = (I + t Q)^{-1} is applied by a
// factor on the host, where that has at most mostFactor entries; else by an incomplete one, of a few entries a row,
// that preconditions the system.
type sparseCurvature struct {
	n       int
	squares prox.Squares
	factor  *cholesky.Factor
	exact   bool // the factor is J's inverse

	product array.CSR // t Q, where it is not, or the product was asked for
}

// mostFactor is the largest number of entries of a complete factor, 12 bytes each.
var mostFactor int64 = 1 << 22

// Tolerances of incomplete factors: with smallEntry leverages have nearly all of their accuracy after the step that the
// trace takes, and with smallCompared the trace that is compared along a path (docs/benchmarks.md).
const (
	smallEntry    = 2e-4
	smallCompared = 2e-3
)

// newSparseCurvature returns Q of n columns, at the step t, with a tolerance of an incomplete factor. product asks for
// [sparseCurvature.Times].
func newSparseCurvature(dev array.Device, q prox.Squares, n int, t, small float64, product bool) (*sparseCurvature,
	error) {
	c := &sparseCurvature{n: n, squares: q}
	weights := lists.Map(c.squares.Weights, func(w float64) float64 { return t * w })
	ptr, index, value := cholesky.Normal(n, c.squares.Indptr, c.squares.Indices, c.squares.Values, weights)
	if n > maxColumns {
		c.squares = prox.Squares{} // which Matrix would take
	}
	a := analyzed(ptr, index)
	diagonal := make([]float64, n)
	for j := range n {
		diagonal[j] = value[ptr[j]]
		value[ptr[j]]++
	}
	if c.exact = a.Nonzeros > 0 && a.Nonzeros <= mostFactor; c.exact {
		var err error
		if c.factor, err = a.Factorize(value); err != nil || !product {
			return c, err
		}
	} else {
		c.factor = a.Incomplete(value, small)
	}
	for j, v := range diagonal {
		value[ptr[j]] = v
	}
	c.product = dev.NewCSR(n, n, lists.Map(ptr, func(u int64) int { return int(u) }),
		lists.Map(index, func(i int32) int { return int(i) }), value)
	return c, dev.Err()
}

// Times sets dst = t Q z, where the product is kept.
func (c *sparseCurvature) Times(dst, z array.Batch) { dst.Device().MulCSR(dst, c.product, z) }

// analyzed is the analysis for a complete factor, or, where that would surely have more than mostFactor entries, that
// of incomplete factors: one of a grid of n nodes, five entries a row, has 7.75 n log2 n to first order (George 1973).
func analyzed(ptr []int64, index []int32) *cholesky.Analysis {
	const entries, surely = 5, 4
	n := len(ptr) - 1
	if len(index) >= entries*n && surely*float64(n)*math.Log2(float64(n)) > float64(mostFactor) {
		return cholesky.InOrder(ptr, index)
	}
	return cholesky.Analyze(ptr, index, mostFactor)
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
	q := &c.squares
	for i, w := range q.Weights {
		for u := q.Indptr[i]; u < q.Indptr[i+1]; u++ {
			for v := q.Indptr[i]; v < q.Indptr[i+1]; v++ {
				m[q.Indices[u]*c.n+q.Indices[v]] += w * q.Values[u] * q.Values[v]
			}
		}
	}
	return m
}

func (c *sparseCurvature) Trace() (trace, frobenius2 float64, ok bool) { return 0, 0, false }

func (c *sparseCurvature) Bytes() int64 {
	if c.product == nil {
		return c.factor.Bytes()
	}
	return c.factor.Bytes() + c.product.Bytes()
}

func (c *sparseCurvature) Release() {
	if c.product != nil {
		c.product.Free()
	}
}
