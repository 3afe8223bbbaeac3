package lowrank

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
)

// Eliminable is the structure of robust PCA: A (L, S) = L + S with tall matrices, in either
// order, and r = lambda ||L||_* + gamma ||S||_1.
type Eliminable struct {
	o             engine.Options
	shape         array.Shape
	lambda, gamma float64
	sparseFirst   bool
}

// huber are iterates L_k of robust PCA in factored form, with S eliminated: given L the best S is the soft
// threshold of y - L, and the rest is the Huber loss of y - L (Huber 1964; She and Owen, JASA 106,
// 2011),
//
//	min_L  sum_ij h(y_ij - L_ij) + lambda ||L||_*,    h' = clip,  clip(t) = min(max(t, -gamma), gamma),
//
// whose gradient has the Lipschitz constant 1. An iteration thresholds the singular values of
//
//	X = x_k + clip(y - x_k),   x_k = L_k + c (L_k - L_{k-1}),
//
// which is followed by a [subspace.Iteration] through products. They compute X by panels of rows:
// beside y no m x n matrix is kept. A certificate by the n x n Gram matrix of the rest of X shows
// that no value was missed.
//
// A subgradient at L, divided as in [sampled], is one of the whole problem at (L, S), where the
// part of S is 0.
type huber struct {
	*Eliminable
	iterates
	y      array.Batch // m x n
	tau    float64
	panels panels

	z2 float64 // ||clip(y - x_k)||^2
}

// panels are the working memory for so many rows of an m x n matrix.
type panels struct {
	rows         int
	clip, rest   array.Batch
	below, above array.Batch // n times -gamma and gamma
}

// panelRows is the number of rows of a panel of m x n matrices.
func panelRows(m, n int) int { return min(m, max(1, limits.PanelValues/n)) }

func newPanels(dev array.Device, m, n int, gamma float64) panels {
	rows := panelRows(m, n)
	p := panels{rows: rows}
	p.clip, p.rest = dev.Alloc(rows, n), dev.Alloc(rows, n)
	p.below, p.above = dev.Alloc(1, n), dev.Alloc(1, n)
	dev.Fill(p.below, -gamma)
	dev.Fill(p.above, gamma)
	return p
}

func (p *panels) free() {
	array.Free(p.clip, p.rest, p.below, p.above)
}

// clipped sets dst to clip(x), for some rows.
func (p *panels) clipped(dst, x array.Batch) { dst.Device().Clamp(dst, x, p.below, p.above) }

func (p *panels) each(m int, f func(i, j int)) {
	for i := 0; i < m; i += p.rows {
		f(i, min(i+p.rows, m))
	}
}

// Begin starts a solve at b0; the zero Batch stands for 0. The iterates must be released even after
// an error.
func (s *Eliminable) Begin(bound, _ float64, work *engine.Work, b0 array.Batch) (engine.FactoredIterates,
	error) {
	dev := work.Device()
	w := &huber{
		Eliminable: s, y: work.Y.Reshape(s.shape.Rows, s.shape.Cols), tau: s.lambda,
		iterates: newIterates(dev, s.shape),
	}
	w.panels = newPanels(dev, w.m, w.n, s.gamma)
	if scale := engine.NewScales(work.Y, bound, s.o).First(); !(scale > subspace.Smallest &&
		scale < 1/subspace.Smallest) {
		return w, errHighRank
	}
	if b0.IsZero() {
		return w, nil
	}
	low, _ := s.blocks(b0)
	l, err := decomposed(w.space, low.Reshape(w.m, w.n))
	if err != nil {
		return w, err
	}
	w.now.free()
	w.now = l
	return w, nil
}

func (s *Eliminable) blocks(b array.Batch) (low, sparse array.Batch) {
	d := s.shape.Len()
	low, sparse = b.Cols(0, d), b.Cols(d, 2*d)
	if s.sparseFirst {
		low, sparse = sparse, low
	}
	return low, sparse
}

func (w *huber) Release() {
	w.free()
	w.panels.free()
}

func (w *huber) misfit(dst array.Batch, i, j int) {
	w.dev.Copy(dst, w.y.Rows(i, j))
	w.now.addRows(-(1 + w.c), dst, i, j)
	if w.c != 0 {
		w.old.addRows(w.c, dst, i, j)
	}
}

// gradientStep is the matrix X of the iteration.
func (w *huber) gradientStep(trans bool, dst, x array.Batch) {
	dev := w.dev
	if trans {
		dev.Fill(dst, 0)
	} else {
		w.z2 = 0
	}
	w.panels.each(w.m, func(i, j int) {
		clip := w.panels.clip.Rows(0, j-i)
		w.misfit(clip, i, j)
		w.panels.clipped(clip, clip)
		if trans {
			dev.Gemm(true, false, 1, clip, x.Rows(i, j), 1, dst)
			return
		}
		dev.Gemm(false, false, 1, clip, x, 0, dst.Rows(i, j))
		w.z2 += dot(clip, clip)
	})
	w.addPoint(trans, dst, x)
}

func (w *huber) Extrapolate(c float64) {
	w.turn()
	w.c = c
}

func (w *huber) Descend(ctx context.Context, _ *engine.Work, _ bool) (prox.Derivative, error) {
	if err := w.lead(ctx, leadShare); err != nil {
		return nil, err
	}
	for range w.passes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.top.Free()
		w.top = subspace.Triplets{}
		var err error
		if w.top, err = w.space.Advance(w.gradientStep, w.tau); err != nil {
			return nil, err
		}
	}
	return nil, w.threshold(w.tau, w.tau)
}

// leadShare times as many vectors as there are active values are beside these in the block of an iteration, and
// curvedShare times as many in that of the curvature's preconditioner. The latter has no more than curvedPart
// of all, so that a copy of it takes this part of y's memory, or curvedBytes.
const (
	leadShare   = 0.25
	curvedShare = 5
	curvedPart  = 1. / 6
	curvedBytes = 64 << 20
)

// lead starts the partial SVD of X at the eigenvectors of its Gram matrix.
func (w *huber) lead(ctx context.Context, share float64) error {
	gram, err := w.gram(ctx, factored{})
	if err != nil {
		return err
	}
	return w.space.LeadByGram(gram, w.tau, share)
}

// examine bounds the parts of the subgradient that the measure lacks: the error of the partial SVD
// is computed, and a Cholesky factor of (tau + slack)^2 I - M*M certifies that no value was missed,
// M being the rest of X. At the last iteration the excess of the missed values is computed.
func (w *huber) examine(ctx context.Context, c *engine.Watch, last bool) error {
	inexact, moved := w.top.Residual(w.gradientStep), w.Moved()
	optimality := (moved + inexact) / c.Scale
	c.Convergence.Optimality = optimality
	near := optimality <= nearTol*c.Tol
	if !near && !last {
		if inexact > moved {
			w.passes = min(w.passes+1, maxPasses)
		}
		return nil
	}
	gram, err := w.restGram(ctx)
	if err != nil {
		return err
	}
	slack := 0.5 * (c.Tol - optimality)
	if near && subspace.GramBelow(gram, w.n, w.tau+slack*c.Scale/math.Sqrt(float64(w.n))) {
		w.judge(c, optimality+slack)
		return nil
	}
	if last {
		beyond, err := subspace.GramExcess(gram, w.n, w.tau)
		if err != nil {
			return err
		}
		w.judge(c, optimality+beyond/c.Scale)
		return nil
	}
	if !w.space.Grow() {
		return errHighRank
	}
	w.passes = min(w.passes+1, maxPasses)
	return nil
}

func (w *huber) restGram(ctx context.Context) ([]float64, error) {
	if len(w.top.Sigma) == 0 {
		return w.gram(ctx, factored{})
	}
	active := factored{w.dev.Alloc(w.m, w.top.U.N()), w.top.V}
	defer active.l.Free()
	subspace.ScaleColumns(active.l, w.top.U, w.top.Sigma)
	return w.gram(ctx, active)
}

// gram is the upper triangle of M*M on the host, where M = X - active, for some columns at a time from the diagonal on.
func (w *huber) gram(ctx context.Context, active factored) ([]float64, error) {
	dev := w.dev
	gram := dev.Alloc(w.n, w.n)
	defer gram.Free()
	dev.Fill(gram, 0)
	var err error
	w.panels.each(w.m, func(i, j int) {
		if err = ctx.Err(); err != nil {
			return
		}
		x, clip := w.panels.rest.Rows(0, j-i), w.panels.clip.Rows(0, j-i)
		w.misfit(x, i, j)
		w.panels.clipped(clip, x)
		dev.Lin(x, 1, clip, -1, x)
		dev.Lin(x, 1, x, 1, w.y.Rows(i, j))
		if !active.l.IsZero() {
			active.addRows(-1, x, i, j)
		}
		for from, to := range parallel.Panels(w.n) {
			dev.Gemm(true, false, 1, x.Cols(from, to), x.Cols(from, w.n), 1, gram.Rows(from, to).Cols(from, w.n))
		}
	})
	if err != nil {
		return nil, err
	}
	return gram.ToHost(), dev.Err()
}

// judge passes the optimality to the stopping rule, with the bound of mu_hat's error from the
// duality gap at the point t (y - L - S), which the subgradient makes feasible. Since y - L - S is
// gamma sign(S) on S's support, S adds (1 - t) gamma ||S||_1 to the gap of the nuclear norm.
func (w *huber) judge(c *engine.Watch, optimality float64) {
	nuclear, squares := 0.0, 0.0
	for _, s := range w.top.Sigma {
		nuclear += s - w.tau
		squares += (s - w.tau) * (s - w.tau)
	}
	z2, sparse := 0.0, 0.0 // ||y - L - S||^2 and gamma ||S||_1
	w.panels.each(w.m, func(i, j int) {
		t, clip := w.panels.rest.Rows(0, j-i), w.panels.clip.Rows(0, j-i)
		w.dev.Copy(t, w.y.Rows(i, j))
		w.next.addRows(-1, t, i, j)
		w.panels.clipped(clip, t)
		square := dot(clip, clip)
		z2 += square
		sparse += dot(clip, t) - square
	})
	z, b, e, bound := math.Sqrt(z2), math.Sqrt(squares), optimality*c.Scale, math.NaN()
	if t := w.lambda / (w.lambda + e); t >= engine.LeastDualScale {
		bound = c.Scales.ErrorOf((1-t)*(1-t)/2*z2+(1-t)*(w.lambda*nuclear+sparse)+t*b*e, z, b)
	}
	c.Accept(optimality, optimality, bound, z)
}

func (w *huber) solution() (b, mu array.Batch) {
	implied := w.implied()
	defer implied.Release()
	return implied.Write(w.dev)
}

func (w *huber) implied() *engine.Implied {
	w.turn()
	return newSplit(w).implied(w.sparseFirst)
}

func (s *Eliminable) Internals() *engine.Internals {
	of := func(w *engine.Work) *huber { return w.Form.(*huber) }
	return &engine.Internals{
		Residual: func(w *engine.Work) float64 { return math.Sqrt(of(w).z2) },
		Examine: func(ctx context.Context, w *engine.Work, c *engine.Watch, _ float64, last bool) error {
			return of(w).examine(ctx, c, last)
		},
		Solution: func(w *engine.Work) (b, mu array.Batch) { return of(w).solution() },
		Implied:  func(w *engine.Work) *engine.Implied { return of(w).implied() },
	}
}

// tall is the ratio of a matrix's sides from which the eigenvectors of its Gram matrix, n^3
// operations or ten times as many, are cheap beside a product with the matrix. On square matrices
// of 250 to 1000 rows whose values are far apart the iterations on both parts, which take three
// times as many steps, are faster by a third.
const tall = 4

// BesideSparse is the structure of robust PCA; nil where there is none.
func BesideSparse(s *engine.Task) *Eliminable {
	if !s.Entry.Factors || s.Options.Whole || s.Problem.Loss != nil {
		return nil
	}
	ops, parts := linops.StructureOf(s.Problem.A).Beside, prox.StructureOf(s.Problem.R).Blocks
	if len(ops) != 2 || len(parts) != 2 || !linops.StructureOf(ops[0]).Identity ||
		!linops.StructureOf(ops[1]).Identity {
		return nil
	}
	d, _ := s.Problem.A.Dims()
	for i := range parts {
		low, sparse := prox.StructureOf(parts[i]), prox.StructureOf(parts[1-i])
		lambda, gamma := low.Nuclear.Value, sparse.L1.Value
		if !low.Nuclear.Known || !sparse.L1.Known || low.Shape.Len() != d {
			continue
		}
		if low.Shape.Rows < tall*low.Shape.Cols || low.Shape.Cols < limits.FactoredSide || lambda == 0 ||
			math.IsInf(lambda, 1) || gamma == 0 || math.IsInf(gamma, 1) {
			return nil
		}
		return &Eliminable{o: s.Options, shape: low.Shape, lambda: lambda, gamma: gamma,
			sparseFirst: i == 1}
	}
	return nil
}

func (w *huber) dense() array.Batch {
	b, mu := w.solution()
	mu.Free()
	return b
}
