package solve

import (
	"context"
	"fmt"
	"strings"

	"surepipe/linops"
	"surepipe/loss"
	"surepipe/solve/rewrite"
)

// New returns the solver of the given name for the problem; [Methods] lists the names. The context
// bounds the work done once for all y: the estimate of the operator's norm, or a factorization.
func New(ctx context.Context, name string, p Problem, o Options) (Solver, error) {
	e, ok := Lookup(name)
	if !ok {
		return nil, fmt.Errorf("solve: solver %q, expected one of %s", name, strings.Join(Names(), ", "))
	}
	return NewFrom(ctx, e, p, o)
}

// NewFrom is New for a method that need not be in the table.
func NewFrom(ctx context.Context, e Entry, p Problem, o Options) (Solver, error) {
	o = o.WithDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	if p.A == nil || p.R == nil || p.Device == nil {
		return nil, fmt.Errorf("solve: a problem without an operator, a regularizer or a device")
	}
	if p.K != nil && linops.StructureOf(p.K).Identity {
		p.K = nil
	}
	_, dim := p.A.Dims()
	if p.K != nil {
		if err := checkBehind(p, e); err != nil {
			return nil, err
		}
		dim, _ = p.K.Dims()
	}
	if p.R.Dim() != 0 && p.R.Dim() != dim {
		return nil, fmt.Errorf("solve: a regularizer on R^%d for an operator on R^%d", p.R.Dim(), dim)
	}
	solver, err := build(ctx, e, p, o)
	if err != nil && e.Refused != nil && e.Refused(p, err) {
		refused := e.Name
		e = without(refused, p)
		return build(ctx, e, p, o.With(Choice{Part: "method", Chosen: e.Name,
			Reason: refused + " has no factors of this problem, or too large ones"}))
	}
	return solver, err
}

// checkBehind rejects what a problem with r(K b) cannot have.
func checkBehind(p Problem, e Entry) error {
	_, dim := p.A.Dims()
	switch _, q := p.K.Dims(); {
	case q != dim:
		return fmt.Errorf("solve: an operator K on R^%d behind which r stands, for an operator A on R^%d", q, dim)
	case !e.Behind && !(e.ActiveSet && rewrite.Synthesizes(p)):
		var names []string
		for _, m := range Methods() {
			if m.Behind {
				names = append(names, m.Name)
			}
		}
		return fmt.Errorf("solve: solver %q takes regularizers r(b), and this one is r(K b): expected one of %s",
			e.Name, strings.Join(names, ", "))
	case !loss.Quadratic(p.Loss):
		return fmt.Errorf("solve: a regularizer r(K b) needs the squared loss, weighted or not: other losses " +
			"are supported with r(b) only")
	}
	return nil
}
