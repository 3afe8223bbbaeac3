package lowrank

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/space"
)

// nearTol is the share of the tolerance below which a certificate is tried: the rest is for its
// slack.
const nearTol = 0.98

// examine bounds the parts of the subgradient that the measure lacks and, where the optimality is
// then within the tolerance, computes the duality gap. The error of the partial SVD is computed. A
// Cholesky factor of (tau + slack)^2 I - M*M certifies that no value was missed, with half of the
// remaining tolerance as slack; where matrices are too large to be formed, products do
// ([subspace.Triplets.Certify]). Where there is no such factor the block grows. At the last
// iteration the excess of the missed values is computed.
func (w *sampled) examine(ctx context.Context, c *engine.Watch, last bool) error {
	if w.above > w.tau && !last {
		return nil // values are held back
	}
	inexact, moved := w.top.Residual(w.gradientStep), w.Moved()
	optimality := w.share(c, moved+inexact)
	if w.above > w.tau {
		optimality += w.share(c, (w.above-w.tau)*math.Sqrt(float64(min(w.m, w.n))))
	}
	c.Convergence.Optimality = optimality
	near := optimality <= nearTol*c.Tol
	if !near && !last {
		if inexact > moved {
			w.passes = min(w.passes+1, maxPasses)
		}
		return nil
	}
	if min(w.m, w.n) >= limits.ProbedSide || w.shape.Len() > limits.Written {
		return w.examineByProducts(ctx, c, optimality, near, last)
	}
	rest := w.rest()
	defer rest.Free()
	if near {
		slack := 0.5 * (c.Tol - optimality)
		below, err := subspace.ExcessWithin(ctx, rest, w.tau, slack*w.eta*c.Scale)
		if err != nil {
			return err
		}
		if below {
			w.judge(c, optimality+slack)
			return nil
		}
	}
	if last {
		beyond, err := subspace.Excess(ctx, rest, w.tau)
		if err != nil {
			return err
		}
		w.judge(c, optimality+w.share(c, beyond))
		return nil
	}
	return w.closer()
}

// examineByProducts is examine where X is too large to be formed. At the last iteration the
// optimality lacks the part of missed values, and the solve has not converged.
func (w *sampled) examineByProducts(ctx context.Context, c *engine.Watch, optimality float64, near, last bool) error {
	switch {
	case near && !w.whole && !last:
		w.whole, w.due = true, false // the next iteration has all values of the block, and only that
		return nil
	case near && w.whole:
		// At most as many values as the smaller side has exceed tau by a slack.
		slack := 0.5 * (c.Tol - optimality)
		each := slack * w.eta * c.Scale / math.Sqrt(float64(min(w.m, w.n)))
		below, err := w.block.Certify(ctx, w.gradientStep, len(w.top.Sigma), w.tau+each)
		if err != nil {
			return err
		}
		if below {
			w.judge(c, optimality+slack)
			return nil
		}
	}
	if last {
		return nil
	}
	return w.closer()
}

// share is a distance in X relative to the scale, which the tolerance bounds.
func (w *sampled) share(c *engine.Watch, distance float64) float64 {
	return distance / (w.eta * c.Scale)
}

// judge passes the optimality to the stopping rule, with the bound of mu_hat's error from the
// nuclear norm's duality gap where the subgradient is that of the optimality.
func (w *sampled) judge(c *engine.Watch, optimality float64) {
	z, sum, squares := engine.Norm(w.z), 0.0, 0.0
	for _, s := range w.top.Sigma {
		f := s - w.above
		sum += f
		squares += f * f
	}
	b, e, bound := math.Sqrt(squares), optimality*c.Scale, math.NaN()
	if t := w.lambda / (w.lambda + e); t >= engine.LeastDualScale {
		bound = c.Scales.ErrorOf((1-t)*(1-t)/2*z*z+(1-t)*w.lambda*sum+t*b*e, z, b)
	}
	c.Accept(optimality, optimality, bound, z)
}

// closer makes the following partial SVDs compute more values, more accurately.
func (w *sampled) closer() error {
	if !w.space.Grow() {
		return errHighRank
	}
	w.passes = min(w.passes+1, maxPasses)
	return nil
}

func (w *sampled) rest() array.Batch {
	dev := w.dev
	x := dev.Alloc(w.m, w.n)
	z := dev.Alloc(1, w.z.N())
	w.inOrder(z, w.z)
	w.p.A.Adjoint(x.Reshape(1, w.m*w.n), z)
	z.Free()
	dev.Lin(x, -w.eta, x, 0, array.Batch{})
	w.now.add(1+w.c, x)
	if w.c != 0 {
		w.old.add(-w.c, x)
	}
	w.next.add(-1, x)
	if len(w.top.Sigma) > 0 {
		active := factored{w.top.U, w.top.V}
		active.add(-w.tau, x)
	}
	return x
}

// tangent is the curvature at b_k. One more step of the partial SVD gives the vectors of the active
// values and of the largest inactive ones, which the preconditioner uses. It has no model where the prox's own
// derivative serves better.
func (w *sampled) tangent(ctx context.Context) (*engine.Tangent, error) {
	dev := w.dev
	w.accept()
	w.c = 0
	dev.Lin(w.z, 1, w.ab, -1, w.target())
	all, r, err := w.space.AdvanceAll(w.gradientStep, w.tau)
	if err != nil {
		return nil, err
	}
	defer all.Free()
	if r == 0 {
		gap := w.tau / w.eta
		if len(all.Sigma) > 0 {
			gap = math.Max(w.tau-all.Sigma[0], 0) / w.eta
		}
		model := &prox.Model{Space: space.Coordinates(dev, w.m*w.n, nil),
			Margin: func(array.Batch) float64 { return gap }}
		return &engine.Tangent{Model: model}, dev.Err()
	}
	if r+subspace.MinBuffer > len(all.Sigma) {
		return nil, errHighRank
	}
	// The rank changes where a singular value crosses the threshold.
	gap := min(all.Sigma[r-1]-w.tau, w.tau-all.Sigma[r]) / w.eta
	margin := func(array.Batch) float64 { return gap }
	if t, err := w.arrowTangent(ctx, all, r, gap); t != nil || err != nil {
		return t, err
	}
	if w.reduces(r) {
		return w.reducedTangent(ctx, all, r, margin)
	}
	if w.decomposes(r) {
		return &engine.Tangent{}, dev.Err()
	}
	curvature, err := w.curvature(all, r)
	if err != nil {
		return nil, err
	}
	model := curvature.Model(margin)
	t, done := &engine.Tangent{Model: model}, false
	defer func() {
		if !done { // also where A panics
			t.Release()
		}
	}()
	t.A, _ = linops.On(dev, w.p.A, model.Space)
	if err := dev.Err(); err != nil {
		return nil, err
	}
	done = true
	return t, nil
}

// MostSeen reports whether so many of a matrix's entries are seen that A*A counts as nearly a multiple of I.
func MostSeen(entries int, shape array.Shape) bool {
	return float64(entries) >= limits.Dense*float64(shape.Len())
}

// decomposes reports whether all singular vectors and probes that use them cost less than the probes of a
// preconditioner made of a few: the derivative of the prox has all in closed form, its products are those of dense
// matrices, and it takes half of the steps of conjugate gradients.
func (w *sampled) decomposes(k int) bool {
	const decomposition, products = 60, 1000 // operations, in m n min(m, n) and in m n k
	short, size := min(w.m, w.n), float64(w.shape.Len())
	return MostSeen(w.ab.N(), w.shape) && w.shape.Len() <= limits.Written &&
		size*float64(decomposition*short+products*k) <= probesFlops(w.ab.N(), w.shape, k)
}

// curvature is that of lambda ||.||_* at U diag(sigma - tau) V*, with the first r of all triplets
// of a block and z = A b - y there. The others are the preconditioner's.
func (w *sampled) curvature(all subspace.Triplets, r int) (*lowrank.NuclearCurvature, error) {
	if r+subspace.MinBuffer > len(all.Sigma) {
		return nil, errHighRank
	}
	dev := w.dev
	f := lists.Make(r, func(i int) float64 { return all.Sigma[i] - w.tau })
	near := lowrank.Leading{A: all.U.Cols(r, all.U.N()), C: all.V.Cols(r, all.V.N())}
	for _, s := range all.Sigma[r:] {
		near.Sigma = append(near.Sigma, s/w.eta)
	}
	normal := residual{w.pattern, dev.Alloc(1, w.z.N())}
	dev.Copy(normal.z, w.z)
	u, v := all.U.Cols(0, r), all.V.Cols(0, r)
	h := w.mass(u, v)
	defer array.Free(h.Rows, h.Columns)
	return lowrank.NewNuclearCurvature(w.lambda, u, f, v, near, h, normal), nil
}

// residual is -A*(A b - y) by products, z being A b - y.
type residual struct {
	pattern array.Pattern
	z       array.Batch
}

func (r residual) SubMul(q, p, q0, p0 array.Batch) {
	dev := q.Device()
	dev.SpreadProduct(false, 1, r.pattern, r.z, p0, 1, q)
	dev.SpreadProduct(true, 1, r.pattern, r.z, q0, 1, p)
}

func (r residual) Bytes() int64 { return r.z.Bytes() }
func (r residual) Release()     { r.z.Free() }

// shared times the diagonal of H on the tangent space stands for H in the preconditioner. The
// diagonal lacks what rows and columns share, which at most doubles it.
const shared = 1.5

// mass is the diagonal of H at singular vectors u and v: with M the pattern's zeros and ones it is
// M (V o V), M* (U o U) and (U o U)* M (V o V). The caller frees the batches.
func (w *sampled) mass(u, v array.Batch) lowrank.Mass {
	dev, r := w.dev, u.N()
	ones, u2, v2, core := dev.Alloc(1, w.z.N()), dev.Alloc(w.m, r), dev.Alloc(w.n, r), dev.Alloc(r, r)
	defer array.Free(ones, u2, v2, core)
	h := lowrank.Mass{Rows: dev.Alloc(w.m, r), Columns: dev.Alloc(w.n, r)}
	dev.Fill(ones, shared)
	dev.Mul(u2, u, u)
	dev.Mul(v2, v, v)
	dev.SpreadProduct(false, 1, w.pattern, ones, v2.Reshape(1, w.n*r), 0, h.Rows.Reshape(1, w.m*r))
	dev.SpreadProduct(true, 1, w.pattern, ones, u2.Reshape(1, w.m*r), 0, h.Columns.Reshape(1, w.n*r))
	dev.Gemm(true, false, 1, u2, h.Rows, 0, core)
	h.Core = core.ToHost()
	return h
}
