package active

import (
	"sync/atomic"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/loss"
)

// blockShare of the diagonal above it is added to each block, which makes the factors invertible: a block may be
// singular. flooredShare of the largest entry is added too.
const blockShare, flooredShare = 1e-6, 1e-14

// blockRoots are upper triangular factors R of blocks of equal size, R*R = l^(2) + diag(more): a [loss.Root].
type blockRoots struct {
	each  int
	roots []float64 // row-major, one after the other
}

// blocksOf are the factors for a loss whose second derivative at z has blocks; nil for others, or where one is not
// positive definite. curve is the diagonal above it, and more is added to the diagonal.
func blocksOf(l loss.Loss, a linops.Operator, z, y array.Batch, curve, more []float64) *blockRoots {
	known, d := loss.StructureOf(l), z.N()
	if known.Each == 0 || known.Coupled == nil || linops.StructureOf(a).Dense == nil {
		return nil
	}
	root, err := known.Coupled.Root(z, y)
	if err != nil || root.Square() == nil {
		return nil
	}
	r := &blockRoots{known.Each, root.Square()()}
	floor := flooredShare * floats.Max(curve)
	for i := range d {
		r.roots[i*r.each+i%r.each] += more[i] + blockShare*curve[i] + floor
	}
	var singular atomic.Bool
	r.blocks(func(root []float64, _ int) {
		if !numerics.FactorSmall(root, r.each) {
			singular.Store(true)
		}
	})
	if singular.Load() {
		return nil
	}
	return r
}

// blocks calls f for all roots, with where the rows of each begin.
func (r *blockRoots) blocks(f func(root []float64, from int)) {
	size := r.each * r.each
	parallel.Ranges(len(r.roots)/size, parallel.Rows(size), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			f(r.roots[b*size:(b+1)*size], b*r.each)
		}
	})
}

func (r *blockRoots) Square() func() []float64 { return r.square }

func (r *blockRoots) square() []float64 {
	n, square := r.each, make([]float64, len(r.roots))
	r.blocks(func(root []float64, from int) {
		to := square[from*n:][:n*n]
		for i := range n {
			for j := i; j < n; j++ {
				v := 0.0
				for k := range i + 1 {
					v += root[k*n+i] * root[k*n+j]
				}
				to[i*n+j], to[j*n+i] = v, v
			}
		}
	})
	return square
}

func (r *blockRoots) Forward(dst, v []float64) {
	n := r.each
	r.blocks(func(root []float64, from int) {
		for i := range n {
			dst[from+i] = floats.Dot(root[i*n+i:(i+1)*n], v[from+i:from+n])
		}
	})
}

func (r *blockRoots) Columns(x []float64, n int) {
	r.blocks(func(root []float64, from int) {
		for i := range r.each {
			row, own := x[(from+i)*n:(from+i+1)*n], root[i*r.each:(i+1)*r.each]
			floats.Scale(own[i], row)
			for j := i + 1; j < r.each; j++ {
				if own[j] != 0 {
					floats.AddScaled(row, own[j], x[(from+j)*n:(from+j+1)*n])
				}
			}
		}
	})
}

func (r *blockRoots) Adjoint(dst, v []float64) {
	n := r.each
	r.blocks(func(root []float64, from int) {
		for i := n - 1; i >= 0; i-- {
			x := v[from+i]
			dst[from+i] = root[i*n+i] * x
			floats.AddScaled(dst[from+i+1:from+n], x, root[i*n+i+1:(i+1)*n])
		}
	})
}

func (r *blockRoots) Inverse(dst, v []float64) { r.solve(dst, v, numerics.SolveSmall) }

func (r *blockRoots) InverseAdjoint(dst, v []float64) { r.solve(dst, v, numerics.SolveSmallAdjoint) }

func (r *blockRoots) solve(dst, v []float64, by func(root, x []float64)) {
	copy(dst, v)
	r.blocks(func(root []float64, from int) { by(root, dst[from:from+r.each]) })
}
