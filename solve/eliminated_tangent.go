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
	places, gap := w.support()
	outside := 1 - float64(len(places))/float64(w.shape.Len())
	mass := evenMass(dev, math.Max(outside, 0.1), w.m, w.n, r)
	curved := prox.NewNuclearCurvature(w.lambda, all.U.Cols(0, r), f, all.V.Cols(0, r), near, mass, newSplit(w))
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
	t.Moving = linops.NewPlaces(dev, w.shape, places)
	t.A = linops.OutsideOf(dev, model.Space, places, t.Moving)
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

// support returns the places of the support of S and the least distance of an entry of |y - L_k|
// from gamma.
func (w *eliminated) support() (places []int, gap float64) {
	gap = math.Inf(1)
	host := make([]float64, w.panels.rows*w.n)
	each := func(f func(place int, over float64)) {
		w.panels.each(w.m, func(i, j int) {
			t := w.panels.rest.Rows(0, j-i)
			w.misfit(t, i, j)
			w.dev.Download(host[:(j-i)*w.n], t)
			for k, v := range host[:(j-i)*w.n] {
				f(i*w.n+k, math.Abs(v)-w.gamma)
			}
		})
	}
	count := 0
	each(func(_ int, over float64) {
		if over > 0 {
			count++
		}
		gap = min(gap, math.Abs(over))
	})
	places = make([]int, 0, count)
	each(func(place int, over float64) {
		if over > 0 {
			places = append(places, place)
		}
	})
	return places, gap
}
