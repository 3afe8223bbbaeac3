package lowrank

import (
	"context"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/space"
)

// reduced is the system of the derivative at a solution of low rank B = L R* in the coordinates of
// one factor, the other one being eliminated ([factorHessian]). With A_L Q = A(Q R*) and A_R P = A(L
// P*) it is
//
//	D mu_hat = A_L D_L^{-1} A_L* + M S^{-1} M*,
//	M = A_R - A_L D_L^{-1} C,   S = D_R - C* D_L^{-1} C,
//
// where M is the operator that it is as a [linops.Restricted]. Where there are effects this D has them, and z that
// they are taken out of gives what is left of D without them. It lives no longer than the Selection that A is.
type reduced struct {
	h      *factorHessian
	order  array.Index         // A's row of every place, or nil
	misfit array.Batch         // the Hessian's
	remove func(z array.Batch) // the projection that takes effects out; nil for none
	// The factors without effects, for the tangent space; zero where there are none.
	bases [2]array.Batch
}

var _ engine.Reduced = (*reduced)(nil)

// Dims is d and the number of coordinates, k for every line of the side that stays.
func (r *reduced) Dims() (d, n int) { return r.h.d, r.h.len(r.h.in()) }

// sorted is z without effects in the order of the places, which the caller frees where owned is true.
func (r *reduced) sorted(z array.Batch) (_ array.Batch, owned bool) {
	if r.remove != nil {
		t := r.h.dev.Alloc(z.K(), z.N())
		r.h.dev.Copy(t, z)
		r.remove(t)
		z, owned = t, true
	}
	if r.order == nil {
		return z, owned
	}
	t := r.h.dev.Alloc(z.K(), z.N())
	r.h.dev.Gather(t, z, r.order)
	if owned {
		z.Free()
	}
	return t, true
}

// image sets dst to the values z at the places without effects, or adds them, in the order of A's rows. It may change
// z.
func (r *reduced) image(dst, z array.Batch, add bool) {
	dev := r.h.dev
	if r.order != nil {
		t := dev.Alloc(z.K(), z.N())
		defer t.Free()
		dev.Scatter(t, z, r.order)
		z = t
	}
	if r.remove != nil {
		r.remove(z)
	}
	if add {
		dev.Lin(dst, 1, dst, 1, z)
	} else {
		dev.Copy(dst, z)
	}
}

func (r *reduced) Forward(dst, p array.Batch) {
	h := r.h
	t, q := h.dev.Alloc(p.K(), h.len(h.out())), h.dev.Alloc(p.K(), h.len(h.out()))
	h.couple(h.out(), t, p)
	h.invert(h.out(), q, t)
	t.Free()
	z := h.dev.Alloc(p.K(), h.d)
	h.sample(h.out(), z, q, 0)
	h.sample(h.in(), z, p, -1)
	q.Free()
	r.image(dst, z, false)
	z.Free()
}

func (r *reduced) Adjoint(dst, z array.Batch) {
	h := r.h
	z, owned := r.sorted(z)
	t, own := h.dev.Alloc(z.K(), h.len(h.out())), h.dev.Alloc(z.K(), h.len(h.in()))
	h.spread(h.out(), t, z)
	h.spread(h.in(), own, z)
	if owned {
		z.Free()
	}
	h.eliminate(dst, t)
	t.Free()
	h.dev.Lin(dst, -1, dst, 1, own)
	own.Free()
}

func (r *reduced) Apart(dst, w array.Batch) {
	h := r.h
	sorted, owned := r.sorted(w)
	t := h.dev.Alloc(w.K(), h.len(h.out()))
	h.spread(h.out(), t, sorted)
	if owned {
		sorted.Free()
	}
	q := h.dev.Alloc(w.K(), h.len(h.out()))
	h.invert(h.out(), q, t)
	t.Free()
	z := h.dev.Alloc(w.K(), h.d)
	h.sample(h.out(), z, q, 0)
	q.Free()
	r.image(dst, z, true)
	z.Free()
}

func (r *reduced) Square(dst, p array.Batch) { r.h.square(dst, p) }

// Precondition sets dst_i to about S^{-1} z_i, by a positive definite operator; they are different
// batches. No dst_i has a part along the directions along which S is 0, which no image shows.
func (r *reduced) Precondition(dst, z array.Batch) { r.h.precondition(dst, z) }

// Work is the memory in bytes that its products take for each vector, besides their results.
func (r *reduced) Work() int64 {
	h, effects := r.h, 0
	if r.remove != nil {
		effects = 4 * max(h.len(rowSide), h.len(columnSide))
	}
	return 8 * int64(2*h.len(h.out())+effects+3*h.d)
}

func (r *reduced) Bytes() int64 {
	return r.h.bytes() + r.misfit.Bytes() + r.bases[0].Bytes() + r.bases[1].Bytes()
}

func (r *reduced) Release() {
	r.h.free()
	array.Free(r.misfit, r.bases[0], r.bases[1])
}

func (r *reduced) basis(side int) array.Batch {
	h := r.h
	factor := h.side[side].factor
	if h.k == h.rank {
		return factor
	}
	n := h.side[side].n
	r.bases[side] = h.dev.Alloc(1, n*h.rank)
	h.dev.Copy(r.bases[side].Reshape(n, h.rank), h.columns(side, factor))
	return r.bases[side]
}

// mostBlocks is the largest number of values in the blocks of a [factorHessian], 1.5 GiB.
const mostBlocks = 3 << 26

// reduces reports whether the derivative at rank k is computed with one factor eliminated: the tangent
// space is large, and the blocks fit.
func (w *sampled) reduces(k int) bool {
	return float64((w.m+w.n-k)*k) >= limits.Reduced*float64(w.ab.N()) && w.blocksFit(k)
}

// blocksFit reports whether H has blocks, which it has not where A takes out a constant, as that joins all entries,
// and those of factors with k columns are few enough to be kept.
func (w *sampled) blocksFit(k int) bool {
	width := w.width(k)
	if w.remove != nil && width == k {
		return false
	}
	values := w.seen[rowSide].blockValues(width) + w.seen[columnSide].blockValues(width)
	free, bounded := w.dev.Available()
	return values <= mostBlocks && !(bounded && 16*int64(values) > free)
}

// reducedTangent is the tangent space at the first r triplets, with the [engine.Reduced] system.
func (w *sampled) reducedTangent(ctx context.Context, all subspace.Triplets, r int,
	margin func(array.Batch) float64) (*engine.Tangent, error) {
	misfit := w.dev.Alloc(1, w.z.N())
	w.dev.Copy(misfit, w.z)
	f := lists.Make(r, func(i int) float64 { return all.Sigma[i] - w.tau })
	h, err := w.newFactorHessian(ctx, all.U.Cols(0, r), f, all.V.Cols(0, r), misfit, w.lambda)
	if err != nil {
		misfit.Free()
		return nil, err
	}
	eliminated := &reduced{h: h, order: w.order, misfit: misfit, remove: w.remove}
	model := &prox.Model{Space: space.Tangent(w.shape, r, eliminated.basis(rowSide), eliminated.basis(columnSide)),
		Margin: margin}
	t := &engine.Tangent{A: eliminated, Model: model, Reduced: eliminated}
	if err := w.dev.Err(); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}
