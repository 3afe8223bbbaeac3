package vjp

import (
	"math"

	"surepipe/array"
	"surepipe/internal/cholesky"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
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

	// The columns of t Q, on the host, where it is not, or products were asked for.
	ptr   []int64
	index []int32
	value []float64
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
func newSparseCurvature(q prox.Squares, n int, t, small float64, product bool) (*sparseCurvature, error) {
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
	c.ptr, c.index, c.value = ptr, index, value
	return c, nil
}

// Times sets dst = t Q z, where t Q is kept.
func (c *sparseCurvature) Times(dst, z array.Batch) { c.onHost(dst, z, c.multiply) }

// multiply reads a row, which is the column, for two vectors at once: each sum is in the order of the row.
func (c *sparseCurvature) multiply(dst, src [][]float64) {
	parallel.Ranges(c.n, parallel.Share, func(lo, hi int) {
		for k := 0; k < len(src); k += 2 {
			x, to := src[k], dst[k]
			x1, to1 := src[min(k+1, len(src)-1)][:len(x)], dst[min(k+1, len(src)-1)]
			for j := lo; j < hi; j++ {
				sum, sum1 := 0.0, 0.0
				value := c.value[c.ptr[j]:c.ptr[j+1]]
				for u, i := range c.index[c.ptr[j]:c.ptr[j+1]][:len(value)] {
					sum += value[u] * x[i]
					sum1 += value[u] * x1[i]
				}
				to[j], to1[j] = sum, sum1
			}
		}
	})
}

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
	c.onHost(dst, z, c.factor.Solve)
	if c.exact {
		dst.Device().Lin(image, 1, z, -1, dst)
		return
	}
	c.Times(image, dst)
}

// onHost applies a function of vectors on the host.
func (c *sparseCurvature) onHost(dst, z array.Batch, apply func(dst, src [][]float64)) {
	k := z.K()
	to, from := make([][]float64, k), make([][]float64, k)
	if _, ok := z.HostRow(0); ok {
		for i := range k {
			to[i], _ = dst.HostRow(i)
			from[i], _ = z.HostRow(i)
		}
		apply(to, from)
		return
	}
	all, found := z.ToHost(), make([]float64, k*c.n)
	for i := range k {
		to[i], from[i] = found[i*c.n:(i+1)*c.n], all[i*c.n:(i+1)*c.n]
	}
	apply(to, from)
	dst.Device().Upload(dst, found)
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
	return c.factor.Bytes() + 8*int64(len(c.ptr)+len(c.value)) + 4*int64(len(c.index))
}

func (c *sparseCurvature) Release() {}
