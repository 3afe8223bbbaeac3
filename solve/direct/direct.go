// Package direct solves problems with quadratic regularizers in closed form, by one factorization: a fast transform, a
// banded, sparse or dense factor, or singular values.
package direct

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
)

// direct solves problems whose regularizer is quadratic, r(K b) = 1/2 <b, Q b>, in closed form: it
// ends after one step. With N = A*A + Q,
//
//	b(y) = N^+ A* y,   mu_hat(y) = A N^+ A* y = H y,
//
// and the derivative is the hat matrix H itself. How N is factorized is the choice of [closedFormOf].
//
// In reverse, y += A N^+ of the adjoint of b.
type direct struct {
	engine.Named
	choice engine.Choice
	form   closedForm
}

// closedForm is a factorization of N = A*A + Q.
type closedForm interface {
	engine.Linear
	// Coefficients sets dst_i = M z_i; they are different batches.
	Coefficients(dst, z array.Batch)
	// inverse sets dst_i = N^+ g_i. dst and g are different batches.
	inverse(dst, g array.Batch)
	// reverse adds M* seed_i to dst_i.
	reverse(dst, seed array.Batch)
	// lengths returns the roots of N's diagonal, which the caller must not modify.
	lengths() []float64
	// reweight returns the form for other q, which is released before this one; nil where nothing is
	// to be shared.
	reweight(p engine.Problem, q []float64) (closedForm, error)
	Release()
}

// Entry is the entry of the closed forms.
var Entry = engine.Entry{
	Name: "direct", About: "sums of squares of b and of K b in closed form, by one factorization: dense, banded, " +
		"sparse, or a fast transform",
	New: newDirect, Closed: true, Behind: true, Refused: notServed,
}

func newDirect(ctx context.Context, p engine.Problem, _ engine.Options) (engine.Method, error) {
	if p.Loss != nil {
		return nil, fmt.Errorf("solve: the direct solver needs a quadratic loss; use ista or fista")
	}
	q := curvatures(p)
	if q == nil {
		return nil, fmt.Errorf("solve: the direct solver needs a quadratic regularizer; use ista, fista or admm")
	}
	form, choice, err := closedFormOf(ctx, p, q)
	if err != nil {
		return nil, err
	}
	return checked(&direct{engine.Named{Label: "direct", P: p}, choice, form})
}

// checked is s, unless the device has failed.
func checked(s *direct) (engine.Method, error) {
	if err := s.P.Device.Sync(); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// curvatures returns q with r(z) = 1/2 sum_i q_i z_i^2, where r is such; else nil. An entry may be
// +Inf where K is the identity.
func curvatures(p engine.Problem) []float64 {
	_, n := p.A.Dims()
	if p.K != nil {
		n, _ = p.K.Dims()
	}
	known := prox.StructureOf(p.R)
	if n > limits.Written || !known.Quadratic.Known && known.Sparse == nil {
		return nil
	}
	q := make([]float64, n)
	if c := known.Quadratic; c.Known {
		for i := range q {
			q[i] = c.Value
		}
		return finite(q, p.K != nil)
	}
	w, c, positive := known.Sparse(n)
	for i := range q {
		if w.At(i) != 0 || positive != nil && positive[i] {
			return nil
		}
		q[i] = c.At(i)
	}
	return finite(q, true)
}

func finite(q []float64, must bool) []float64 {
	for _, v := range q {
		if must && math.IsInf(v, 1) {
			return nil
		}
	}
	return q
}

func (s *direct) Release() { s.form.Release() }

func (s *direct) reweight(ctx context.Context, r prox.Prox) (engine.Method, error) {
	p := s.P
	p.R = r
	q := curvatures(p)
	if q == nil {
		return newDirect(ctx, p, engine.Options{})
	}
	form, err := s.form.reweight(p, q)
	if err != nil {
		return nil, err
	}
	if form == nil {
		return newDirect(ctx, p, engine.Options{})
	}
	return checked(&direct{engine.Named{Label: "direct", P: p}, s.choice, form})
}

type directRun struct{ b, mu array.Batch }

// Traits reports that there is one step, and that optimality is measured column by column, relative
// to the columns' lengths: Norm2 is 1.
func (s *direct) Traits() engine.Traits {
	return engine.Traits{Norm2: 1, Steps: 1, Exact: true, Reweight: s.reweight, Choices: []engine.Choice{s.choice},
		Own: &engine.Internals{
			Examine: s.examine,
			Linear:  s.form,
			Solution: func(w *engine.Work) (b, mu array.Batch) {
				r := w.Own.(*directRun)
				b, mu = r.b, r.mu
				*r = directRun{}
				return b, mu
			},
		}}
}

func (s *direct) Init(w *engine.Work, _ array.Batch) error {
	d, p := s.P.A.Dims()
	r := &directRun{w.Device().Alloc(1, p), w.Device().Alloc(1, d)}
	w.Own, w.Free = r, func() {
		array.Free(r.b, r.mu)
	}
	return nil
}

func (s *direct) Step(_ context.Context, w *engine.Work, _ bool) (prox.Derivative, error) {
	r := w.Own.(*directRun)
	s.form.Coefficients(r.b, w.Y)
	s.P.A.Forward(r.mu, r.b)
	return nil, w.Device().Err()
}

func (s *direct) Measure(*engine.Work) (float64, engine.Coefficients) {
	return 0, engine.Coefficients{}
}

// leastGood is the optimality at which a closed form is accepted whatever the tolerance.
const leastGood = 1e-8

// examine measures the accuracy of the closed form: for every column, with g = A* (y - A b) - Q b, the
// optimality is |g_j| over n_j, the root of N's diagonal, and over the size of errors that matter
// ([engine.Scales]), all squared and summed. Behind K, whose products cancel, the rounding of b itself
// changes g_j/n_j by some eps n_j |b_j|. The bound of mu_hat's error is the distance by which a step
// of iterative refinement moves it.
func (s *direct) examine(_ context.Context, w *engine.Work, c *engine.Watch, _ float64, _ bool) error {
	dev, at := w.Device(), w.Own.(*directRun)
	d, dim := s.P.A.Dims()
	r, g, step := dev.Alloc(1, d), dev.Alloc(1, dim), dev.Alloc(1, dim)
	defer array.Free(r, g, step)
	dev.Lin(r, 1, w.Y, -1, at.mu)
	s.P.A.Adjoint(g, r)
	s.lessCurvature(g, at.b)
	residual := engine.Norm(r)
	left, rounding := 0.0, 0.0
	b, lengths := at.b.ToHost(), s.form.lengths()
	for j, v := range g.ToHost() {
		// A column of length 0 carries no information, nor does one that the penalty dominates.
		if n := lengths[j]; n > 0 && !math.IsInf(n, 1) {
			left += v / n * v / n
			rounding += n * b[j] * n * b[j]
		}
	}
	s.form.inverse(step, g)
	moved := lengthOfImage(s.P.A, step, r)
	c.Convergence.Closed = true
	c.Good = math.Max(c.Good, leastGood)
	size := c.Scales.Size(residual, 0)
	if s.P.K != nil {
		size = math.Max(size, engine.Roundings*engine.Epsilon/c.Good*math.Sqrt(rounding))
	}
	optimality := engine.Relative(math.Sqrt(left), size)
	c.Accept(optimality, optimality, moved, residual)
	return dev.Err()
}

// lengthOfImage is ||A b||; z is scratch of A's length.
func lengthOfImage(a linops.Operator, b, z array.Batch) float64 {
	normal := linops.StructureOf(a).Normal
	if normal == nil {
		a.Forward(z, b)
		return engine.Norm(z)
	}
	image := b.Device().Alloc(1, b.N())
	defer image.Free()
	normal(image, b)
	return math.Sqrt(max(b.Dot(image), 0))
}

func (s *direct) lessCurvature(g, b array.Batch) {
	dev, q := g.Device(), curvatures(s.P)
	z := dev.Alloc(1, len(q))
	defer z.Free()
	for i, v := range q {
		if math.IsInf(v, 1) {
			q[i] = 0 // b_i is 0
		}
	}
	dev.Upload(z, q)
	if s.P.K == nil {
		dev.Mul(z, z, b)
		dev.Lin(g, 1, g, -1, z)
		return
	}
	kb, back := dev.Alloc(1, len(q)), dev.Alloc(1, g.N())
	defer array.Free(kb, back)
	s.P.K.Forward(kb, b)
	dev.Mul(z, z, kb)
	s.P.K.Adjoint(back, z)
	dev.Lin(g, 1, g, -1, back)
}

func (s *direct) Reverse(_ context.Context, dst array.Batch, a *engine.Adjoint, _ prox.Derivative) error {
	s.form.reverse(dst, a.Seed)
	return dst.Device().Err()
}
