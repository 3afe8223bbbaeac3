package problems

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/problems/spec"
	"surepipe/prox"
	"surepipe/solve"
)

// Own are the parts of an estimator that no specification describes: an operator, a regularizer, a loss.
type Own struct {
	// Name is what results call it.
	Name string
	// Operator is A, d x p; Behind is K where the regularizer penalizes K b, else nil. They belong to the caller.
	Operator, Behind linops.Operator
	// Regularizer returns r at the weights, of which those that are not among Weights are NaN.
	Regularizer func(lambda, lambda2, gamma float64) (prox.Prox, error)
	Weights     []string
	// Loss is nil for the squared loss.
	Loss loss.Loss
}

// LossOf is what results call the loss.
func (o *Own) LossOf() Loss {
	if loss.Quadratic(o.Loss) {
		return Loss{}
	}
	l := Loss{Name: loss.StructureOf(o.Loss).Name}
	if l.Squared() {
		l.Name = "own"
	}
	return l
}

// New is the problem on a device: that of the batches of its parts. The weights are numbers.
func (o *Own) New(ctx context.Context, dev array.Device, data Data, hyper Hyper) (*Problem, error) {
	if o.Operator == nil || o.Regularizer == nil {
		return nil, fmt.Errorf("the operator or the regularizer is nil, expected both")
	}
	p := &Problem{Name: o.Name, Operator: o.Operator, Behind: o.Behind, dev: dev, parts: new(spec.Parts),
		View: View{MuShape: data.YShape}, Values: Values{Lambda: math.NaN(), Lambda2: math.NaN(), Gamma: math.NaN()},
		loss: o.Loss, reweigh: o.Regularizer}
	p.D, p.P = o.Operator.Dims()
	p.BShape = []int{p.P}
	if p.P == len(data.Y) {
		p.BShape = data.YShape
	}
	if len(data.Y) != p.D {
		return nil, fmt.Errorf("array \"y\" has %d values, expected %d, as many as the operator has rows", len(data.Y),
			p.D)
	}
	if err := checkMu(data); err != nil {
		return nil, err
	}
	if p.Loss = o.LossOf(); !p.Loss.Squared() {
		if check := loss.StructureOf(o.Loss).Check; check != nil {
			if err := check(data.Y); err != nil {
				return nil, fmt.Errorf("array %w", err)
			}
		}
	}
	if err := o.weights(ctx, p, data, hyper); err != nil {
		return nil, err
	}
	if err := p.checkUsed(hyper); err != nil {
		return nil, err
	}
	var err error
	if p.Regularizer, err = p.reweigh(p.Lambda, p.Lambda2, p.Gamma); err != nil {
		return nil, err
	}
	if p.Regularizer == nil {
		return nil, fmt.Errorf("the regularizer is nil, expected one")
	}
	p.Targets = spec.Targets{}.Of(p.Loss)
	p.DefaultSolver = solve.Default(p.Solve())
	return p, nil
}
