package engine

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/loss"
	"surepipe/prox"
)

// Fit is a point b of a problem whose loss is not quadratic, with what follows from it.
type Fit struct {
	B, Z     array.Batch // z = A b
	Slope, G array.Batch // l'(z; y) and A* of that
	Curve    array.Batch // l^(2)(z; y)

	value float64 // l(z; y)
	fresh bool    // value, slope and curvature are those of z, by Value
}

// NewFit allocates a point for A of size d x p.
func NewFit(dev array.Device, d, p int) *Fit {
	return &Fit{B: dev.Alloc(1, p), Z: dev.Alloc(1, d), Slope: dev.Alloc(1, d), G: dev.Alloc(1, p),
		Curve: dev.Alloc(1, d)}
}

func (f *Fit) Release() {
	array.Free(f.B, f.Z, f.Slope, f.G, f.Curve)
}

// Value is l(z; y). A fit of which it is asked is asked again after each change of z.
func (f *Fit) Value(l loss.Loss, y array.Batch) float64 {
	if together := loss.StructureOf(l).Together; together != nil {
		f.value, f.fresh = together(f.Slope, f.Curve, f.Z, y), true
		return f.value
	}
	return l.Value(f.Z, y)
}

// Exchange exchanges z and what At computes with another fit.
func (f *Fit) Exchange(g *Fit) {
	f.Z, g.Z, f.Slope, g.Slope, f.Curve, g.Curve = g.Z, f.Z, g.Slope, f.Slope, g.Curve, f.Curve
	f.value, g.value, f.fresh, g.fresh = g.value, f.value, g.fresh, f.fresh
}

// At computes all but g from b and z.
func (f *Fit) At(l loss.Loss, y array.Batch) {
	if f.fresh {
		return
	}
	l.Gradient(f.Slope, f.Z, y)
	l.Curvature(f.Curve, f.Z, y)
}

// Judge measures the point: its optimality, the bound of its error, NaN where there is none, and the
// size with which that is to be compared. There is no bound where the optimality is above good, which costs
// as much as a step, nor where part says that there is no duality gap.
func (f *Fit) Judge(ctx context.Context, p Problem, y array.Batch, s Scales, norm2 float64, inverseLengths []float64,
	good float64, part bool) (optimality, bound, size float64, err error) {
	eta := 1.0
	if c := norm2 * f.Curve.MaxAbs(); c > 0 && !math.IsInf(c, 1) {
		eta = 1 / c
	}
	residual, byColumn, err := proximalResidual(p, f.B, f.G, eta, inverseLengths)
	if err != nil {
		return 0, 0, 0, err
	}
	slope := Norm(f.Slope)
	optimality = max(Relative(residual, s.Scale(slope, Norm(f.B))), Relative(byColumn, s.ByColumn(slope)))
	bound, size = math.NaN(), slope
	if !part && !(optimality > good) {
		bound, size = lossBound(ctx, p, y, f, s, residual)
	}
	return optimality, bound, size, f.B.Device().Err()
}

// LossScales are those of a solve with a loss that is not quadratic: the norm of l'(0; y)
// stands in for that of y, and no sigma is known.
func LossScales(p Problem, y array.Batch, norm2 float64, o Options) Scales {
	dev := y.Device()
	zero := dev.Alloc(1, y.N())
	defer zero.Free()
	dev.Fill(zero, 0)
	p.Loss.Gradient(zero, zero, y)
	o.Sigma2 = 0
	return NewScales(zero, norm2, o)
}

// ScalesOf are those of a solve.
func ScalesOf(p Problem, y array.Batch, norm2 float64, o Options) Scales {
	if p.Loss == nil {
		return NewScales(y, norm2, o)
	}
	return LossScales(p, y, norm2, o)
}

// BoundAt is the bound of the error of a fit, NaN where there is none, and the size with which it is to be compared.
// near is a bound of the distance from -g to r's subdifferential at b. The fit's curvatures are not read.
func BoundAt(ctx context.Context, p Problem, y array.Batch, f *Fit, s Scales, near float64) (bound, size float64) {
	if p.Loss != nil {
		return lossBound(ctx, p, y, f, s, near)
	}
	size = Norm(f.Slope)
	return ErrorBound(ctx, p, f.B, f.Slope, f.G, s, size, Norm(f.B), near), size
}

// lossBound is ErrorBound for a loss that is not quadratic. With the duality gap at a dual point u
// near l'(z; y),
//
//	gap = l(z; y) + l*(u; y) - <u, z> + r(b) + r*(-A* u) + <b, A* u> >= l(z; y) - l(z*; y) - <l'(z*; y), z - z*>,
//
// the bound is sqrt(2 gap): twice the right hand side, the Bregman distance of z from the solution's
// z*, is ||z - z*||^2 for the squared loss, and for a likelihood twice the relative entropy of the
// fitted distribution at z from that at z*. It is NaN where no conjugate is known. size is the norm
// with which it is to be compared: the root of the deviance, twice l(z; y) minus its minimum over z;
// and the norm of l'(z; y) where that minimum is not known.
func lossBound(ctx context.Context, p Problem, y array.Batch, f *Fit, s Scales, near float64) (bound, size float64) {
	known, r := loss.StructureOf(p.Loss), prox.StructureOf(p.R)
	slope := Norm(f.Slope)
	bound, size = math.NaN(), slope
	if known.Least != nil {
		value := f.value
		if !f.fresh {
			value = p.Loss.Value(f.Z, y)
		}
		size = math.Sqrt(2 * math.Max(value-known.Least(y), 0))
	}
	if known.Gap == nil || r.DualScale == nil {
		return bound, size
	}
	dev := f.B.Device()
	minus, u := dev.Alloc(1, f.G.N()), dev.Alloc(1, f.Z.N())
	defer array.Free(minus, u)
	dev.Lin(minus, -1, f.G, 0, array.Batch{})
	dev.Copy(u, f.Slope)
	if r.Free != nil {
		if _, ok := projectFree(ctx, p, r.Free(f.G.N()), minus, u, s.free); !ok {
			return bound, size
		}
	}
	t := r.DualScale(f.B, minus, near)
	if !(t >= LeastDualScale) {
		return bound, size
	}
	dev.Lin(u, t, u, 0, array.Batch{})
	gap := known.Gap(u, f.Z, y) + r.FenchelGap(f.B, minus, t, near)
	return s.ErrorOf(gap, slope, Norm(f.B)), size
}
