package lowrank

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/lapack"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// decomposedSide is the largest smaller side of a matrix whose singular values are computed for a
// gap.
const decomposedSide = 48

// values are the singular values of a batch of one matrix; nil where it is large or not finite.
func (p *nuclear) values(x array.Batch) []float64 {
	m, n := p.shape.Rows, p.shape.Cols
	if min(m, n) > decomposedSide {
		return nil
	}
	w := p.getSVD()
	defer p.work.Put(w)
	if err := w.factor(lapack.SVDNone, x); err != nil {
		return nil
	}
	return slices.Clone(w.s)
}

// dualScale is lambda over g's spectral norm, which exceeds lambda by at most near.
func (p *nuclear) dualScale(_, g array.Batch, near float64) float64 {
	if s := p.values(g); s != nil {
		return vector.Ratio(p.lambda, s[0])
	}
	return vector.Ratio(p.lambda, p.lambda+near)
}

// fenchelGap is lambda ||b||_* - t <b, g>. Where the matrix is large it uses <b, g> >= lambda
// ||b||_* - near ||b||_F and ||b||_* <= sqrt(min(m, n)) ||b||_F.
func (p *nuclear) fenchelGap(b, g array.Batch, t, near float64) float64 {
	if s := p.values(b); s != nil {
		return vector.Surplus(vector.Times(p.lambda, vector.Total(s)),
			t*vector.Inner(b.Read(), g.Read()))
	}
	size := math.Sqrt(b.Dot(b))
	rank := float64(min(p.shape.Rows, p.shape.Cols))
	return (1-t)*vector.Times(p.lambda, math.Sqrt(rank)*size) + t*near*size
}
