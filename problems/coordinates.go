package problems

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
	"surepipe/problems/spec"
	"surepipe/prox"
)

// errNoCoordinates says which penalties have factors and bounds.
var errNoCoordinates = errors.New("penalty factors (--factors) or bounds of coefficients (--lower, --upper) are " +
	"asked for, but the penalty is not a sum over single coefficients: expected ols, ridge, lasso, elastic-net, or a " +
	"specification with one l1, squared-l2, elastic-net or zero")

// coordinates is the penalty with the factors and bounds of the data,
//
//	sum_j f_j r_j(b_j),   lower_j <= b_j <= upper_j,
//
// bounds in the units of the columns, so that those of b are multiplied by the standard deviations.
func (a *assembly) coordinates(penalties []*spec.Penalty) ([]*spec.Penalty, error) {
	c := a.data.Coordinates
	if c.Factors == nil && c.Lower == nil && c.Upper == nil {
		return penalties, nil
	}
	if len(penalties) != 1 || a.parts.Behind != nil || penalties[0].N != a.p.P {
		return nil, errNoCoordinates
	}
	p := *penalties[0]
	each := a.p.each()
	if err := c.Check(p.N / each); err != nil {
		return nil, err
	}
	lower, upper := repeated(a.inUnits(c.Lower), each), repeated(a.inUnits(c.Upper), each)
	factor := func(j int) float64 {
		if c.Factors == nil {
			return 1
		}
		return c.Factors[j/each]
	}
	plain := p.Make
	p.Make = func(w spec.Weights) (prox.Prox, error) {
		r, err := plain(w)
		if err != nil {
			return nil, err
		}
		known := prox.StructureOf(r).Sparse
		if known == nil {
			return nil, errNoCoordinates
		}
		w1, q, _ := known(p.N)
		weighted, err := prox.NewCoordinates(a.p.dev, times(factor, w1, p.N), times(factor, q, p.N), lower, upper)
		if err != nil {
			return nil, trim(err)
		}
		a.parts.Own(func() { prox.Release(weighted) })
		return prox.Lent(weighted), nil
	}
	for j := range p.N {
		if factor(j) == 0 && (lower == nil || math.IsInf(lower[j], -1)) && (upper == nil || math.IsInf(upper[j], 1)) {
			p.Unpenalized, p.Free = append(p.Unpenalized, j), true
		}
	}
	if p.Dual != nil {
		p.Dual, p.DualAt = func(g []float64) (float64, error) {
			top := 0.0
			for j, v := range g {
				// At b = 0 a coefficient may move in the direction of g alone.
				blocked := v > 0 && upper != nil && upper[j] == 0 || v < 0 && lower != nil && lower[j] == 0
				if f := factor(j); f > 0 && !blocked {
					top = max(top, math.Abs(v)/f)
				}
			}
			return top, nil
		}, nil
	}
	return []*spec.Penalty{&p}, nil
}

// Coordinates are numbers for each coefficient of a regression.
type Coordinates = spec.Coordinates

// inUnits are bounds of the coefficients as bounds of b.
func (a *assembly) inUnits(bounds []float64) []float64 {
	if bounds == nil || a.p.scales == nil {
		return bounds
	}
	return floats.MulTo(make([]float64, len(bounds)), bounds, a.p.scales)
}

func repeated(v []float64, k int) []float64 {
	if v == nil || k == 1 {
		return v
	}
	return lists.Make(len(v)*k, func(i int) float64 { return v[i/k] })
}

// times are the n products of factors and weights; those of a factor 0 are 0.
func times(factor func(j int) float64, w prox.Numbers, n int) []float64 {
	return lists.Make(n, func(j int) float64 {
		if f := factor(j); f > 0 {
			return f * w.At(j)
		}
		return 0
	})
}
