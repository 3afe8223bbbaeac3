package problems

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
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

// mostMismatch is the relative difference of two products from which an operator's do not fit together: far above
// rounding errors, also in 24 bits.
const mostMismatch = 1e-4

// Mismatch says in which of its identities products of A or K with random vectors fail, "" for none: that of a linear
// map, or that of its adjoint. A product that is not finite fails elsewhere.
func (o *Own) Mismatch(dev array.Device) string {
	for _, of := range []struct {
		name string
		a    linops.Operator
	}{{"A", o.Operator}, {"K", o.Behind}} {
		if of.a == nil {
			continue
		}
		linear, adjoint := mismatch(dev, of.a)
		switch {
		case linear > mostMismatch:
			return fmt.Sprintf("%[1]s (b + c) and %[1]s b + %[1]s c differ by %.2[2]g of their length: %[1]s is not "+
				"linear", of.name, linear)
		case adjoint > mostMismatch:
			return fmt.Sprintf("<%[1]s b, z> and <b, %[1]s* z> differ by %.2[2]g of their size: %[1]s* is not the "+
				"adjoint of %[1]s", of.name, adjoint)
		}
	}
	return ""
}

func mismatch(dev array.Device, a linops.Operator) (linear, adjoint float64) {
	d, p := a.Dims()
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float64 { return lists.Make(n, func(int) float64 { return rng.NormFloat64() }) }
	b, c, z := draw(p), draw(p), draw(d)
	forward := func(v []float64) []float64 { return spec.ImageOf(dev, a, v) }
	image, back := forward(b), spec.ImageOf(dev, linops.Adjoint(a), z)
	sum := forward(floats.AddTo(make([]float64, p), b, c))
	size := floats.Norm(sum, 2)
	floats.Sub(sum, image)
	floats.Sub(sum, forward(c))
	return floats.Norm(sum, 2) / size, math.Abs(floats.Dot(image, z)-floats.Dot(b, back)) /
		max(floats.Norm(image, 2), floats.Norm(back, 2))
}
