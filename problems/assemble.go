package problems

import (
	"context"
	"math"

	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/linops/together"
	"surepipe/loss"
	"surepipe/problems/spec"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/active"
)

// assembly makes a problem of the parts of a specification: with the loss, the intercept, the units of
// columns, the effects, and the values of the weights.
type assembly struct {
	*spec.Spec
	ctx   context.Context
	p     *Problem
	parts *spec.Parts
	data  Data
	// named says that it is a named problem, whose weights may be missing where nothing uses them.
	named bool
	// y is that of the remaining problem, without the intercept and effects.
	y []float64
	// roots are the square roots of the weights of the loss, nil where there are none.
	roots []float64
}

func (a *assembly) build(hyper Hyper) error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	if err := a.loss(); err != nil {
		return err
	}
	if err := a.columns(); err != nil {
		return err
	}
	if a.data.Effects.Some() {
		if err := a.withoutEffects(a.data, a.parts.Source, a.parts.Shape); err != nil {
			return err
		}
	}
	a.y = a.p.remaining(a.data.Y)
	if err := a.checkTerms(); err != nil {
		return err
	}
	p := a.p
	if err := a.withOutcomes(); err != nil {
		return err
	}
	penalties, err := a.coordinates(a.parts.Penalties)
	if err != nil {
		return err
	}
	if n := p.extra(); n > 0 {
		penalties = append(penalties[:len(penalties):len(penalties)], intercept(n))
	}
	m := &maximizer{assembly: a, penalties: penalties}
	if err := a.weights(m, hyper); err != nil {
		return err
	}
	p.squares = m.of("lambda") == nil
	p.top = func(ctx context.Context) (float64, error) {
		later := *a
		later.ctx = ctx
		m := &maximizer{assembly: &later, penalties: penalties}
		return m.positive(func() (float64, error) { return m.top("lambda") })()
	}
	p.reweigh = func(lambda, lambda2, gamma float64) (prox.Prox, error) {
		return a.combine(penalties, spec.ByWeight(lambda, lambda2, gamma))
	}
	if p.Regularizer, err = p.reweigh(p.Lambda, p.Lambda2, p.Gamma); err != nil {
		return err
	}
	p.DefaultSolver = solve.Default(p.Solve())
	return nil
}

func (a *assembly) loss() error {
	p := a.p
	if err := p.Loss.Check(); err != nil {
		return err
	}
	w := a.parts.Weights
	if !p.Loss.Squared() {
		l, err := p.Loss.New(loss.Observed{Weights: w, Offset: a.data.Offset, Times: a.data.Times, Classes: p.outcomes})
		if err != nil {
			return trim(err)
		}
		p.loss = l
		return checkY(p.Loss, l, a.data)
	}
	if w == nil {
		if p.outcomes > 0 {
			p.loss = loss.Squared().Each(p.outcomes)
		}
		return nil
	}
	w = repeated(w, p.each())
	l, err := loss.WeightedSquared(p.dev, w)
	if err != nil {
		return a.At(a.parts.WeightsLine, trim(err))
	}
	a.parts.Own(l.Release)
	if p.loss = l; p.outcomes > 0 {
		p.loss = l.Each(p.outcomes)
	}
	a.roots = make([]float64, len(w))
	for i, v := range w {
		a.roots[i] = math.Sqrt(v)
	}
	return nil
}

// columns prepares the columns of the operator, or takes them from the first of the problems that share them.
func (a *assembly) columns() error {
	s, p := a.data.Shared, a.p
	if s == nil {
		return a.prepareColumns()
	}
	if known, prepared := s.Columns.(Columns); prepared {
		p.Operator = s.Operator
		known.redundant, known.levels = p.redundant, p.levels
		p.Columns = known
	} else {
		if err := a.prepareColumns(); err != nil {
			return err
		}
		held, err := active.Held(a.ctx, p.dev, p.Operator, s.Problems, s.Memory)
		if err != nil {
			return err
		}
		if held != nil {
			p.parts.Own(held.Release)
			p.Operator = held
		}
		if keep := linops.StructureOf(p.Operator).KeepColumns; keep != nil && active.Wide(p.Operator) {
			keep()
		}
		s.Release = p.parts.Give()
		s.Joint, s.Operator, s.Columns = together.NewJoint(p.Operator), p.Operator, p.Columns
	}
	if s.Member == nil {
		s.Member = s.Joint.Member()
	}
	p.Operator = s.Member
	return nil
}

// Foresee computes the products of the operator, which other problems share, with all y of these at once.
func (p *Problem) Foresee(s *Common, all [][]float64) {
	if p.loss != nil || p.effects != nil {
		return // no product with y is needed
	}
	s.Know(p.dev, lists.Map(all, p.remaining))
}

// prepareColumns centers and scales the columns of the operator where it is asked for.
func (a *assembly) prepareColumns() error {
	// Without a constant to fit columns are centered for good conditions alone.
	a.p.centered = a.p.Loss.Row().Timed && a.Regression() && a.Line("synthesis") == 0
	if !a.data.Intercept && !a.data.Standardize && !a.p.centered {
		return nil
	}
	if err := a.checkColumns(); err != nil {
		return err
	}
	if a.p.Loss.Row().Timed && a.data.Intercept {
		return a.Errorf(a.Line("intercept"), "an intercept is asked for, but a constant in the linear predictor does "+
			"not change the %s loss: expected none", a.p.Loss.Name)
	}
	centered := a.data.Intercept || a.p.centered
	if err := a.p.prepare(a.parts.Source, centered, a.data.Standardize, a.parts.Weights); err != nil {
		return err
	}
	if a.data.Intercept && a.p.loss != nil {
		a.p.unpenalize()
	}
	return nil
}

// checkColumns rejects an intercept or standardized columns in a specification that cannot have
// them.
func (a *assembly) checkColumns() error {
	switch data := a.data; {
	case data.Standardize && !a.Regression():
		return a.Errorf(a.Line("operator"), "standardized columns are asked for, but the operator is not a "+
			"matrix, whose columns have units: expected operator: {matrix: X}")
	case data.Standardize && a.Line("synthesis") > 0:
		return a.Errorf(a.Line("synthesis"), "standardized columns are asked for, but a specification with a "+
			"synthesis cannot have them")
	case !data.Intercept:
		return nil
	case a.Line("synthesis") > 0:
		return a.Errorf(a.Line("synthesis"), "an intercept is asked for, but a specification with a synthesis "+
			"cannot have one")
	}
	return nil
}

func (a *assembly) checkTerms() error {
	line := a.Line("terms")
	switch {
	case a.parts.Behind == nil:
	case !a.p.Loss.Squared():
		return a.Errorf(line, "terms need the squared loss, weighted or not, and the loss is %s", a.p.Loss.Name)
	case a.data.Effects.Some():
		return a.Errorf(line, "effects of rows and columns are asked for, which are not supported with terms")
	case a.data.Standardize:
		return a.Errorf(line, "standardized columns are asked for, and terms are in the units of b: scale the "+
			"columns of the matrix in the data")
	}
	return nil
}

func trim(err error) error { return spec.Trim(err) }
