package vjp

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
)

// maxSteps bounds the conjugate gradient steps of a probe.
const maxSteps = 2000

// projectEvery is the largest number of steps between projections on J's range. mostGrowth bounds
// the growth of the part outside the range between two projections. That part is multiplied by
// alpha_k - 1 in a step, and alpha_k is at most one over the smallest eigenvalue.
const (
	projectEvery = 8
	mostGrowth   = 1e4
)

// projections returns the number of steps between projections where the eigenvalues are above node.
func projections(node float64) int {
	if node == 0 || node > 0.5 {
		return projectEvery
	}
	return max(1, min(projectEvery, int(math.Log(mostGrowth)/-math.Log(2*node))))
}

// Tolerances of the conjugate gradients, unless the solver's own tolerance calls for smaller ones.
// Rounding errors stop the residual at about 1e-10; after that it grows again. A probe whose
// residual has fallen below lost and has grown by regrown since then has reached its attainable
// accuracy.
const (
	implicitTol = 1e-7
	formShare   = 0.01
	spanTol     = 0.1
	tightest    = 1e-9
	lost        = 1e-6
	regrown     = 1e3
)

// solveTol returns the tolerance of images after a solve to tol. tighter returns the factor by
// which forms are more accurate than requested where tol is below the default.
func solveTol(tol float64) float64 { return math.Max(math.Min(implicitTol, tol), tightest) }
func tighter(tol float64) float64  { return math.Min(1, math.Max(tol/DefaultTol, 1e-3)) }

// Inner returns the largest number of steps of a probe and the number of probes that stopped
// short of their tolerance.
func (l *implicit) Inner() Inner {
	inner := Inner{Steps: int(l.steps.Load()), Failed: int(l.failed.Load()), Iterative: true}
	if linops.StructureOf(l.p.A).Sampled != nil {
		inner.Together = array.PatternVectors
	}
	return inner
}

// VJP is Images without the bounds.
func (l *implicit) VJP(ctx context.Context, dst, v array.Batch) error {
	return l.Images(ctx, dst, v, nil)
}

// Images sets dst_i = D mu_hat v_i, to a relative residual of 1e-7, and as accurate as Forms with
// a share of 1%.
func (l *implicit) Images(ctx context.Context, dst, v array.Batch, left []float64) error {
	return l.solve(ctx, dst, v, nil, goal{residual: l.tol, form: formShare * l.tighter}, left)
}

// Forms sets dst_i to an approximation of D mu_hat v_i whose quadratic form
// <v_i, dst_i> is too small by at most share ||v_i||^2/sqrt(2d). The mean over random signs is then
// too small by at most share sqrt(d/2).
func (l *implicit) Forms(ctx context.Context, dst, v array.Batch, share float64, left []float64) error {
	return l.solve(ctx, dst, v, nil, goal{residual: math.Inf(1), form: share * l.tighter}, left)
}

// Numbered is Forms that starts at what the weight before has left for the same probes.
func (l *implicit) Numbered(ctx context.Context, dst, v array.Batch, which hutch.Numbers, share float64,
	left []float64) error {
	return l.solve(ctx, dst, v, &which, goal{residual: math.Inf(1), form: share * l.tighter}, left)
}

// Span stops at a residual of spanTol.
func (l *implicit) Span(ctx context.Context, dst, v array.Batch) error {
	return l.solve(ctx, dst, v, nil, goal{residual: spanTol, form: math.Inf(1)}, nil)
}

// goal defines when a probe is done: its residual's J-norm is at most residual times the first, and
// its quadratic form is too small by at most form ||v||^2/sqrt(2d). Inf requires nothing.
type goal struct{ residual, form float64 }

// solve computes D mu_hat w_i. Unless left is nil, it sets left_i to a bound of the error of the
// quadratic form. which are the probes' numbers, nil where they have none.
func (l *implicit) solve(ctx context.Context, dst, w array.Batch, which *hutch.Numbers, goal goal,
	left []float64) error {
	dev := w.Device()
	d, _ := l.p.A.Dims()
	k := w.K()
	if dst.K() != k || dst.N() != d || w.N() != d {
		panic(fmt.Sprintf("vjp: VJP of %s into %s with d = %d", w, dst, d))
	}
	clear(left)
	if k == 0 || l.dim == 0 {
		dev.Fill(dst, 0)
		return dev.Err()
	}
	if l.f != nil {
		return l.f.apply(ctx, dst, w)
	}
	if l.saddle != nil {
		return l.bySaddle(ctx, dst, w, goal, left)
	}
	node := 0.0
	if !math.IsInf(goal.form, 1) {
		var err error
		if node, err = l.node(ctx, goal.form); err != nil {
			return err
		}
	}
	c := l.newCG(dev, l.of(w), goal, node)
	defer c.free()
	c.dst, c.known = dst, which
	if err := c.run(ctx); err != nil {
		return err
	}
	c.image(w)
	c.hand()
	if l.moving != nil {
		l.moving.Add(dst, 1, w)
	}
	if l.reduced != nil {
		l.reduced.Apart(dst, w)
	}
	c.bounds(left)
	return dev.Err()
}

// bounds sets left to the bounds of the forms' errors.
func (c *cg) bounds(left []float64) {
	for i := range left {
		left[i] = c.probes[i].bound
	}
}

// pilotSeed is the seed of the pilots: any constant.
const pilotSeed = 0x70696c6f74

// pilots is the number of probes that estimate the smallest eigenvalue. The estimate is nodeShare
// times their smallest Ritz value, which approaches the eigenvalue from above. They stop when the
// bound of their own form's error is pilotShare of what forms may lack.
const (
	pilots     = 1
	nodeShare  = 0.5
	pilotShare = 0.01
)

// node returns a lower bound of the eigenvalues that matter to forms that may lack form ||w||^2/sqrt(2d).
// It is computed once for all probes: the system is solved for random probes, always the same ones,
// and half of their smallest Ritz value is the bound. Along a path it may follow from an older one
// ([implicit.oldNode]); a probe whose own Ritz values are not above it goes on to a small residual ([probe]).
//
// Why they find it: an eigenvector v of N, of length 1 in J's product, with the eigenvalue theta
// has the part eta^2 <A J v, w>^2 = eta theta' <v', w>^2 in the square of the first residual, where
// v' is the unit vector along A J v and theta' = eta ||A J v||^2 <= theta, and the part
// theta'/theta <v', w>^2 in the form. As long as no Ritz value is near theta the residual keeps that part.
// With the node mu, the pilots stop at a squared residual rho for which rho/(eta mu) is pilotShare of the
// limit, and then such a direction has at most rho/(eta theta) of the form, pilotShare mu/theta of the
// limit: a form lacks more than its bound by as much as the limit only where an eigenvalue below
// pilotShare mu was overlooked.
func (l *implicit) node(ctx context.Context, form float64) (float64, error) {
	form = math.Min(form, formShare*l.tighter)
	l.pilot.Lock()
	defer l.pilot.Unlock()
	if node, known := l.pilot.nodes[form]; known {
		return node, nil
	}
	if l.pilot.nodes == nil {
		l.pilot.nodes = map[float64]float64{}
	}
	if node, known := l.oldNode(form); known {
		l.pilot.nodes[form] = node
		return node, nil
	}
	d, _ := l.p.A.Dims()
	signs := hutch.Signs{K: pilots, Dim: d, Draw: func(dst array.Batch, from int) {
		hutch.RademacherPart(dst, pilotSeed, 0, 0, from)
	}}
	from, free := l.signs(l.p.Device, signs)
	defer free()
	c := l.newCG(l.p.Device, from, goal{residual: implicitTol, form: form}, 0)
	defer c.free()
	c.pilot = true
	if err := c.run(ctx); err != nil {
		return 0, err
	}
	node := math.Inf(1)
	for i := range c.probes {
		if ritz := c.probes[i].smallest(c.probes[i].bestAt); ritz > 0 {
			node = math.Min(node, nodeShare*ritz)
		}
	}
	if math.IsInf(node, 1) {
		node = 1 // D mu_hat is 0 as far as the pilots show
	}
	l.pilot.nodes[form] = node
	if l.after != nil {
		l.after.noteNode(form, pilotNode{node, l.system.weight()})
	}
	return node, nil
}

func (l *implicit) noteSteps(n int) {
	for {
		old := l.steps.Load()
		if int64(n) <= old || l.steps.CompareAndSwap(old, int64(n)) {
			return
		}
	}
}
