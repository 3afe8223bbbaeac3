package solve

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/subspace"
)

// tangent is the model of the eliminated problem. Where S is 0 the loss of y - L is quadratic, and
// elsewhere it does not depend on L but for a constant, and mu_hat moves with y:
//
//	D mu_hat = P' + P E (E* P E + Q)^+ E* P,
//
// where P' and P are the projections on S's support and on its complement, E is a basis of the
// tangent space of L, and Q is the curvature of the nuclear norm with the gradient clip(y - L).
func (w *eliminated) tangent(ctx context.Context) (*Tangent, error) {
	dev := w.dev
	w.accept()
	w.c = 0
	if err := w.lead(ctx, curvedShare); err != nil {
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
	f := make([]float64, r)
	for i := range f {
		f[i] = all.Sigma[i] - w.tau
	}
	near := prox.Leading{A: all.U.Cols(r, all.U.N()), C: all.V.Cols(r, all.V.N()), Sigma: all.Sigma[r:]}
	normal := dense{w.shape, dev.Alloc(1, w.shape.Len())}
	support, gap := w.support(normal.x)
	outside := 1 - float64(len(support))/float64(w.shape.Len())
	mass := evenMass(dev, math.Max(outside, 0.1), w.m, w.n, r)
	curved := prox.NewNuclearCurvature(w.lambda, all.U.Cols(0, r), f, all.V.Cols(0, r), near, mass, normal)
	mass.Rows.Free()
	mass.Columns.Free()
	gap = min(gap, all.Sigma[r-1]-w.tau, w.tau-all.Sigma[r])
	model := &prox.Model{Space: curved.Space(), Curvature: curved, Margin: func(array.Batch) float64 { return gap }}
	t, done := &Tangent{Model: model}, false
	defer func() {
		if !done { // also where a device panics
			t.release()
		}
	}()
	t.A = linops.OutsideOf(dev, model.Space, support)
	t.Moving = dev.NewIndex(support)
	if err := dev.Err(); err != nil {
		return nil, err
	}
	done = true
	return t, nil
}

// evenMass is that of the projection on a share of the entries, spread evenly.
func evenMass(dev array.Device, share float64, m, n, r int) prox.Mass {
	h := prox.Mass{Rows: dev.Alloc(m, r), Columns: dev.Alloc(n, r), Core: make([]float64, r*r)}
	dev.Fill(h.Rows, share)
	dev.Fill(h.Columns, share)
	for i := range h.Core {
		h.Core[i] = share
	}
	return h
}

// support sets clip to clip(y - L_k), and returns the places of the support of S and the least
// distance of an entry of |y - L_k| from gamma.
func (w *eliminated) support(clip array.Batch) (set []int, gap float64) {
	gap = math.Inf(1)
	host := make([]float64, w.panels.rows*w.n)
	w.panels.each(w.m, func(i, j int) {
		t := w.panels.rest.Rows(0, j-i)
		w.misfit(t, i, j)
		w.panels.clipped(clip.Reshape(w.m, w.n).Rows(i, j), t)
		w.dev.Download(host[:(j-i)*w.n], t)
		for k, v := range host[:(j-i)*w.n] {
			over := math.Abs(v) - w.gamma
			if over > 0 {
				set = append(set, i*w.n+k)
			}
			gap = min(gap, math.Abs(over))
		}
	})
	return set, gap
}

// dense is a matrix for the curvature of the nuclear norm.
type dense struct {
	shape array.Shape
	x     array.Batch
}

func (g dense) SubMul(trans bool, dst, x array.Batch) {
	from, to := g.shape.Cols, g.shape.Rows
	if trans {
		from, to = to, from
	}
	r := x.N() / from
	x.Device().GemmEach(trans, false, -1, g.x, g.shape, x, array.Shape{Rows: from, Cols: r}, 1, dst.Cols(0, to*r))
}

func (g dense) Bytes() int64 { return g.x.Bytes() }
func (g dense) Release()     { g.x.Free() }
