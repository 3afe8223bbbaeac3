package lowrank

import (
	"context"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox/lowrank"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
)

// tangent is the model of the eliminated problem. Where S is 0 the loss of y - L is quadratic, and
// elsewhere it does not depend on L but for a constant, and mu_hat moves with y:
//
//	D mu_hat = P' + P E (E* P E + Q)^+ E* P,
//
// where P' and P are the projections on S's support and on its complement, E is a basis of the
// tangent space of L, and Q is the curvature of the nuclear norm with the gradient clip(y - L).
func (w *huber) tangent(ctx context.Context) (*engine.Tangent, error) {
	dev := w.dev
	w.turn()
	w.c = 0
	share := float64(curvedShare)
	if r := len(w.top.Sigma); r > 0 {
		most := max(curvedPart*float64(w.n), curvedBytes/8/float64(w.m))
		share = math.Max(leadShare, math.Min(share, most/float64(r)-1))
	}
	if err := w.lead(ctx, share); err != nil {
		return nil, err
	}
	all, r, err := w.space.AdvanceAll(w.gradientStep, w.tau)
	if err != nil {
		return nil, err
	}
	defer all.Free()
	if r == 0 || r+subspace.MinBuffer > len(all.Sigma) {
		return nil, errHighRank
	}
	f := lists.Make(r, func(i int) float64 { return all.Sigma[i] - w.tau })
	near := lowrank.Leading{A: all.U.Cols(r, all.U.N()), C: all.V.Cols(r, all.V.N()), Sigma: all.Sigma[r:]}
	t, done := &engine.Tangent{}, false
	defer func() {
		if !done { // also where a device panics
			t.Release()
		}
	}()
	normal, gap := w.normal()
	t.Moving = normal.set
	outside := 1 - float64(t.Moving.Len())/float64(w.shape.Len())
	mass := evenMass(dev, math.Max(outside, 0.1), w.m, w.n, r)
	curvature := lowrank.NewNuclearCurvature(w.lambda, all.U.Cols(0, r), f, all.V.Cols(0, r), near, mass, normal)
	array.Free(mass.Rows, mass.Columns)
	gap = min(gap, all.Sigma[r-1]-w.tau, w.tau-all.Sigma[r])
	t.Model = curvature.Model(func(array.Batch) float64 { return gap })
	t.A = linops.OutsideOf(dev, t.Model.Space, t.Moving)
	if err := dev.Err(); err != nil {
		return nil, err
	}
	done = true
	return t, nil
}

func evenMass(dev array.Device, share float64, m, n, r int) lowrank.Mass {
	h := lowrank.Mass{Rows: dev.Alloc(m, r), Columns: dev.Alloc(n, r), Core: make([]float64, r*r)}
	dev.Fill(h.Rows, share)
	dev.Fill(h.Columns, share)
	for i := range h.Core {
		h.Core[i] = share
	}
	return h
}

// crossings is the number of entries that may be on the wrong side of the threshold: each changes the
// divergence by at most 1, and so many by a hundredth of what SURE's error bar, sigma2 sqrt(2d), is in
// units of it, sqrt(2d)/2.
func crossings(d int) int { return int(0.01 * math.Sqrt(2*float64(d)) / 2) }

// normal is y - L_k - S_k, with the support of S_k, which is the caller's to free. gap is the distance
// from gamma within which more entries of |y - L_k| are than may be on the wrong side.
func (w *huber) normal() (g *remainder, gap float64) {
	nearest := newLeast(crossings(w.shape.Len()) + 1)
	host := make([]float64, w.panels.rows*w.n)
	each := func(f func(place int, v, over float64)) {
		w.panels.each(w.m, func(i, j int) {
			t := w.panels.rest.Rows(0, j-i)
			w.misfit(t, i, j)
			w.dev.Download(host[:(j-i)*w.n], t)
			for k, v := range host[:(j-i)*w.n] {
				f(i*w.n+k, v, math.Abs(v)-w.gamma)
			}
		})
	}
	count := 0
	each(func(_ int, _, over float64) {
		if over > 0 {
			count++
		}
		nearest.add(math.Abs(over))
	})
	places, values := make([]int, 0, count), make([]float64, 0, count)
	each(func(place int, v, over float64) {
		if over > 0 {
			places, values = append(places, place), append(values, math.Copysign(over, v))
		}
	})
	g = &remainder{y: w.y, low: w.now.clone(), set: linops.NewPlaces(w.dev, w.shape, places),
		sparse: w.dev.Alloc(1, count)}
	w.dev.Upload(g.sparse, values)
	return g, nearest.last()
}

// least are the least of the numbers that are added, in increasing order.
type least []float64

func newLeast(n int) least { return slices.Repeat(least{math.Inf(1)}, n) }

func (l least) last() float64 { return l[len(l)-1] }

func (l least) add(v float64) {
	if !(v < l.last()) {
		return
	}
	i, _ := slices.BinarySearch(l, v)
	copy(l[i+1:], l[i:])
	l[i] = v
}

// remainder is the matrix G = y - L - S for the curvature of the nuclear norm, by products with its
// three parts: y itself, which it refers to, the factors of L, and the sparse S, whose support it
// refers to.
type remainder struct {
	y      array.Batch // m x n
	low    factored
	set    *linops.Places
	sparse array.Batch // 1 x |set|
}

// SubMul sets q_i = q_i - G p0_i and p_i = p_i - G* q0_i. It reads y by panels of rows, each for all
// vectors of the batch.
func (g *remainder) SubMul(q, p, q0, p0 array.Batch) {
	dev, m, n := q.Device(), g.y.K(), g.y.N()
	r, rows := q.N()/m, panelRows(m, n)
	for i := 0; i < m; i += rows {
		j := min(i+rows, m)
		y, part := g.y.Rows(i, j).Reshape(1, (j-i)*n), array.Shape{Rows: j - i, Cols: n}
		dev.GemmEach(false, false, -1, y, part, p0, array.Shape{Rows: n, Cols: r}, 1, q.Cols(i*r, j*r))
		dev.GemmEach(true, false, -1, y, part, q0.Cols(i*r, j*r), array.Shape{Rows: j - i, Cols: r}, 1, p)
	}
	if g.set.Len() > 0 {
		dev.SpreadProduct(false, 1, g.set.Pattern(), g.sparse, p0, 1, q)
		dev.SpreadProduct(true, 1, g.set.Pattern(), g.sparse, q0, 1, p)
	}
	rank := g.low.l.N()
	l, v := g.low.l.Reshape(1, m*rank), g.low.v.Reshape(1, n*rank)
	sl, sv := array.Shape{Rows: m, Cols: rank}, array.Shape{Rows: n, Cols: rank}
	t := dev.Alloc(q.K(), rank*r)
	defer t.Free()
	dev.GemmEach(true, false, 1, v, sv, p0, array.Shape{Rows: n, Cols: r}, 0, t)
	dev.GemmEach(false, false, 1, l, sl, t, array.Shape{Rows: rank, Cols: r}, 1, q)
	dev.GemmEach(true, false, 1, l, sl, q0, array.Shape{Rows: m, Cols: r}, 0, t)
	dev.GemmEach(false, false, 1, v, sv, t, array.Shape{Rows: rank, Cols: r}, 1, p)
}

func (g *remainder) Bytes() int64 { return g.low.l.Bytes() + g.low.v.Bytes() + g.sparse.Bytes() }

func (g *remainder) Release() {
	g.low.free()
	g.sparse.Free()
}
