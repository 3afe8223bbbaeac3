package problems

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/problems/spec"
	"surepipe/prox"
	"surepipe/solve"
)

// weights sets the values of the weights: numbers first, at which the others have their maxima.
func (o *Own) weights(ctx context.Context, p *Problem, data Data, hyper Hyper) error {
	var relative []int
	all := hyper.values()
	for i := range all {
		name := spec.WeightNames()[i]
		w := all[i].Or([]*float64{data.Lambda, data.Lambda2, data.Gamma}[i])
		switch all[i] = w; {
		case !slices.Contains(o.Weights, name):
		case !w.Given:
			return spec.WeightErrorf(name, "is missing: neither given nor in the data")
		case w.OfMax:
			relative = append(relative, i)
		case !(w.Value >= 0):
			return spec.WeightErrorf(name, "is %g, expected a positive number", w.Value)
		default:
			*p.values()[i] = w.Value
		}
	}
	for k, i := range relative {
		name := spec.WeightNames()[i]
		if k > 0 {
			return spec.WeightErrorf(name, "is a multiple of its maximum, which is not known while %s is one too: "+
				"expected a number", spec.WeightNames()[relative[0]])
		}
		v, err := p.weight(name, all[i], func() (float64, error) { return o.maximum(ctx, p, data.Y, i) })
		if err != nil {
			return err
		}
		*p.values()[i] = v
	}
	return nil
}

// A maximum is looked for within 2^(+-mostDoublings) of the largest entry of the gradient, to a relative maximumTol;
// an entry of a proximal point counts as 0 up to zeroTol of it. At half the maximum of a norm leastAtHalf of it is
// left, and none where the estimate shrinks for ever, as by a quadratic.
const (
	mostDoublings = 64
	maximumTol    = 1e-10
	zeroTol       = 1e-12
	leastAtHalf   = 1e-6
)

// maximum is the least value of weight i at which K b = 0 is optimal. At b = 0 that is where the gradient
// g = -A* l'(0; y) is in the subdifferential of r at 0, which is where prox_r(g) = 0: no dual norm has to be known.
// With K the multiplier u of least norm takes the place of g.
func (o *Own) maximum(ctx context.Context, p *Problem, y []float64, i int) (float64, error) {
	name := spec.WeightNames()[i]
	unknown := func(format string, args ...any) error {
		return spec.WeightErrorf(name, "is a multiple of its maximum, which is not known: "+format+
			"; expected a number", args...)
	}
	g, err := o.gradient(ctx, p, y)
	if err != nil {
		return 0, unknown("%v", err)
	}
	defer g.Free()
	scale := g.MaxAbs()
	if scale == 0 || p.dev.Err() != nil {
		return 0, p.dev.Err()
	}
	to := p.dev.Alloc(1, g.N())
	defer to.Free()
	size := func(w float64) (float64, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		at := [3]float64{p.Lambda, p.Lambda2, p.Gamma}
		at[i] = w
		r, err := p.reweigh(at[0], at[1], at[2])
		if err != nil {
			return 0, err
		}
		defer prox.Release(r)
		if err := r.Eval(to, g, 1); err != nil {
			return 0, err
		}
		return to.MaxAbs() / scale, p.dev.Err()
	}
	zero := func(w float64) (bool, error) {
		left, err := size(w)
		return left <= zeroTol, err
	}
	above, err := least(zero, scale)
	if err != nil {
		return 0, unknown("%v", err)
	}
	if left, err := size(above / 2); err != nil || left < leastAtHalf {
		return 0, unknown("no weight makes the estimate exactly 0")
	}
	return above, nil
}

// least is the least w at which a condition holds that holds from there on, looked for around a first guess.
func least(holds func(w float64) (bool, error), above float64) (float64, error) {
	var failed error
	is := func(w float64) bool {
		held, err := holds(w)
		failed = cmp.Or(failed, err)
		return held
	}
	up := 0
	for ; !is(above) && failed == nil; up++ {
		if up == mostDoublings {
			return 0, fmt.Errorf("no weight up to %.2g makes the estimate 0", above)
		}
		above *= 2
	}
	for down := 0; up == 0 && failed == nil && is(above/2); down++ {
		if down == mostDoublings {
			return 0, fmt.Errorf("every weight down to %.2g makes the estimate 0", above)
		}
		above /= 2
	}
	below := above / 2
	for above-below > maximumTol*above && failed == nil {
		if middle := below + (above-below)/2; is(middle) {
			above = middle
		} else {
			below = middle
		}
	}
	return above, failed
}

// gradient is -A* l'(0; y), or with K the multiplier.
func (o *Own) gradient(ctx context.Context, p *Problem, y []float64) (array.Batch, error) {
	dev := p.dev
	at, z := dev.Put(y, 1, p.D), dev.Alloc(1, p.D)
	defer array.Free(at, z)
	if p.Behind != nil {
		of := solve.Problem{A: p.Operator, Loss: p.loss, K: p.Behind, R: prox.Zero(), Device: dev}
		return solve.Multiplier(ctx, of, at)
	}
	if dev.Fill(z, 0); p.loss == nil {
		dev.Copy(z, at)
	} else {
		p.loss.Gradient(z, z, at)
		dev.Lin(z, -1, z, 0, z)
	}
	if linops.StructureOf(p.Operator).Identity {
		g := dev.Alloc(1, p.P)
		dev.Copy(g, z)
		return g, nil
	}
	g := dev.Alloc(1, p.P)
	p.Operator.Adjoint(g, z)
	return g, nil
}
