// Package interior has the interior-point method for r(K b), with a banded, sparse or dense matrix, and the solver that
// tries another method first.
package interior

import (
	"context"
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/solve/splitting"
	"surepipe/space"
)

// interior is the primal-dual interior point method with Mehrotra's predictor and corrector (Kim, Koh,
// Boyd and Gorinevsky, l1 trend filtering, 2009; Nocedal and Wright, Numerical Optimization, section
// 16.6) for a problem with r(K b). With the multiplier u of K b = z the conditions are
//
//	A*A b - A* y + K* u = 0,   K b = z,   u in the subdifferential of r at z,
//
// of which the last is a set of products that are 0 ([inequalities]). They are driven to 0 by Newton steps, each
// of which takes two solves with
//
//	[ A*A  K* ]
//	[ K    -J ]
//
// for a positive J ([saddleSystem]). Some 10 to 30 steps solve the problem whatever the condition of A and K
// is: gradient steps on the dual need as many as that condition, which for differences of order k of n
// numbers grows like n^(2k), and for images of large regions like their diameters. The estimate is b,
// and prox_{eta r}(K b + eta u) has exact zeros.
type interior struct {
	engine.Named
	norm2, tol float64    // of A, at most; of the solve
	k, adjoint space.Rows // K and K*
	system     saddleSystem
	conditions conditions
}

// conditions are the inequalities of a regularizer.
type conditions interface {
	// mean is that of the weights.
	mean() float64
	new() inequalities
}

// inequalities are those of one solve, in pairs of numbers x, s >= 0 whose products are 0 at the solution, and the
// point z that they stand for. A direction is the solution of Newton's equations, which predict or
// correct have set.
type inequalities interface {
	// start puts z about where K b is, with a multiplier u = 0; size is about |z_i|, and weight about the weights.
	start(z []float64, size, weight float64)
	// center puts z and u about where K b and a multiplier are, with products that are all about as large as the
	// duality gap asks for.
	center(z, u []float64, size, weight float64)
	// image sets dst -= z.
	image(dst, u []float64)
	products() (sum, pieces float64)
	scale(j *scaling, u []float64)
	// predict aims at products of 0, correct at their target, with what the last direction has left out.
	predict()
	correct(du []float64, target float64)
	// toRight adds to the right-hand side z of K db - J du = z what eliminating the pairs leaves.
	toRight(z, u []float64)
	// recover is the direction of the pairs that belongs to du.
	recover(u, du []float64)
	// reach is the largest step, at most 1, that leaves every number a share of itself; after is the sum of
	// the products there.
	reach(share float64) float64
	after(step float64) float64
	move(u []float64, step float64)
	// keep raises products to least, where the difference of both numbers stays; unit is that of the one, relative to
	// that of the other.
	keep(u []float64, least, unit float64)
}

// interiorSteps is the number of steps after which the method gives up.
const interiorSteps = 200

// Sequence reports that the method applies to a sequence.
func Sequence(p engine.Problem) bool {
	system, _ := sequence(p)
	return system != nil && boundsOf(p) != nil
}

// Small reports that it applies with a small dense matrix.
func Small(p engine.Problem) bool { return p.K != nil && smallSaddle(p) && boundsOf(p) != nil }

// errNoInterior is the error of a problem that interior points do not serve.
var errNoInterior = fmt.Errorf("solve: interior-point needs r(K b) with a sum r of w |z_i| and z_i >= 0, or of "+
	"norms of groups, and a sparse K with A*A = c I, or differences of pixels behind an operator A, whose factors "+
	"are not too large; a sparse K beside a matrix A of at most %d columns; or, without groups, at most %d rows and "+
	"columns of K together; use dual or admm", limits.MostFactored, mostSaddle)

// Entry is the entry of interior points.
var Entry = engine.Entry{
	Name: "interior-point", About: "r(K b) of a sequence, an image or a small problem: Newton steps on the " +
		"conditions of optimality, with a banded, sparse or dense matrix",
	New: newInterior, Behind: true, Own: after,
}

func newInterior(ctx context.Context, p engine.Problem, o engine.Options) (engine.Method, error) {
	p = p.WithK()
	if o.Whole { // a method whose iterations have a derivative
		if linops.StructureOf(p.A).Columns.Value > 0 {
			return splitting.NewDual(ctx, p, o)
		}
		return splitting.NewADMM(ctx, p, o)
	}
	s := &interior{Named: engine.Named{Label: "interior-point", P: p}, tol: o.Tol}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	s.adjoint = space.Transpose(s.k, s.dim())
	if s.system == nil {
		return nil, errNoInterior
	}
	return s, nil
}

func (s *interior) prepare(ctx context.Context) (err error) {
	if s.conditions = boundsOf(s.P); s.conditions != nil {
		if system, k := sequence(s.P); system != nil {
			s.norm2, s.k, s.system = slices.Max(system.c), k, system
			return nil
		}
		if smallSaddle(s.P) {
			if s.norm2, err = engine.NormBound(ctx, s.P, 0); err != nil {
				return err
			}
			s.system, s.k = newDenseSystem(s.P)
			return s.P.Device.Err()
		}
	} else {
		s.conditions = ballsOf(s.P)
	}
	if system := newSparseSystem(s.P, s.conditions); system != nil && normalDiagonal(s.P.A) != nil {
		s.norm2, s.k, s.system = slices.Max(system.c), system.k, system
	} else if system != nil {
		if s.norm2, err = engine.NormBound(ctx, s.P, 0); err != nil {
			return err
		}
		by := &iteratedSystem{system, s.P.A, s.P.Device}
		if s.k, s.system = system.k, by; Matrix(s.P) {
			s.system = newMatrixSystem(by)
		}
	}
	return s.P.Device.Err()
}

// Traits gives as scratch the argument of the proximal operator, its value and the multiplier.
func (s *interior) Traits() engine.Traits {
	q := len(s.k.Indptr) - 1
	return engine.Traits{
		Norm2: s.norm2, Scratch: []int{q, q, q}, Steps: interiorSteps,
		Settled: func(w *engine.Work) bool {
			r := w.Own.(*interiorRun)
			return r.stuck || r.products <= r.told
		},
		Ended: func(w *engine.Work) bool { return w.Own.(*interiorRun).stuck },
		Kept: func(w *engine.Work) any {
			r := *w.Own.(*interiorRun)
			r.factor = nil
			return &r
		},
		Argument: func(w *engine.Work) array.Batch { return w.Scratch[0] },
		Dual:     func(w *engine.Work) array.Batch { return w.Scratch[2] },
		Reweight: func(_ context.Context, r prox.Prox) (engine.Method, error) {
			other := *s
			other.P.R = r
			if other.conditions = conditionsOf(other.P); other.conditions == nil {
				return nil, fmt.Errorf("solve: interior-point needs finite weights, and positive ones of groups")
			}
			return &other, nil
		},
		Choices: []engine.Choice{s.system.choice()}, Recorded: s.recorded,
	}
}

// Measure lets the duality gap decide.
func (s *interior) Measure(w *engine.Work) (float64, engine.Coefficients) {
	return 0, engine.Coefficients{Eta: w.Own.(*interiorRun).eta}
}

func (s *interior) recorded(ctx context.Context, o engine.Options) (engine.Method, error) {
	o.Whole = true
	return newInterior(ctx, s.P, o)
}

// Reverse is not offered: another method's iterations are differentiated.
func (s *interior) Reverse(context.Context, array.Batch, *engine.Adjoint, prox.Derivative) error {
	return fmt.Errorf("solve: the steps of interior-point have no derivative")
}
