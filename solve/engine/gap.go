package engine

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/prox"
	"surepipe/solve/internal/limits"
	"surepipe/space"
)

// LeastDualScale is the share of the residual that a dual feasible point must keep for its gap to
// be meaningful: below it the constraints of the dual are tighter than rounding errors.
const LeastDualScale = 0.5

// ErrorBound returns a bound of ||A b - A b*|| for every solution b*, from the duality gap
// ([prox.Structure]) at a dual point w near the residual,
//
//	gap = 1/2 ||z - w||^2 + r(b) + r*(A* w) - <b, A* w>,   z = y - A b;
//
// NaN where there is none. w is t z, with t such that w is feasible, after subtracting from z its
// projection on the columns of the coordinates that r leaves free, at which A* w must be 0. misfit
// is A b - y, g is A* misfit, near is a bound of the distance from -g to r's subdifferential at b,
// and zNorm and bNorm are the norms of misfit and b.
func ErrorBound(ctx context.Context, p Problem, b, misfit, g array.Batch, s Scales, zNorm, bNorm,
	near float64) float64 {
	bound := gapBound(ctx, p, b, misfit, g, s, zNorm, bNorm, near)
	// Even where there is no bound, the rounding errors of A b may be too large to be ignored.
	if rounding := Roundings * Epsilon * (s.Y + s.Norm*bNorm); math.IsNaN(bound) && rounding > s.Allowed(zNorm) {
		return rounding
	}
	return bound
}

// gapBound is ErrorBound by the duality gap alone.
func gapBound(ctx context.Context, p Problem, b, misfit, g array.Batch, s Scales, zNorm, bNorm,
	near float64) float64 {
	r := prox.StructureOf(p.R)
	if r.DualScale == nil || p.Loss != nil {
		return math.NaN()
	}
	dev := b.Device()
	minus := dev.Alloc(1, g.N())
	defer minus.Free()
	dev.Lin(minus, -1, g, 0, array.Batch{})
	projected := 0.0 // ||z - w||^2 before the scaling by t
	if r.Free != nil {
		rest := dev.Alloc(1, misfit.N())
		defer rest.Free()
		dev.Copy(rest, misfit)
		var ok bool
		if projected, ok = projectFree(ctx, p, r.Free(g.N()), minus, rest, s.free); !ok {
			return math.NaN()
		}
	}
	t := r.DualScale(b, minus, near)
	if !(t >= LeastDualScale) {
		return math.NaN()
	}
	rest := max(zNorm*zNorm-projected, 0)
	gap := ((1-t)*(1-t)*rest+projected)/2 + r.FenchelGap(b, minus, t, near)
	return s.ErrorOf(gap, zNorm, bNorm)
}

// projectFree subtracts the projection of misfit on the columns of the free coordinates from misfit:
// minus, which is -A* misfit, becomes -A* of the rest, 0 at these coordinates. It returns the squared
// norm of the projection, and false where it is not found. The columns' factor is kept, unless kept is nil.
func projectFree(ctx context.Context, p Problem, free []int, minus, misfit array.Batch, kept *freeColumns) (float64,
	bool) {
	if len(free) == 0 {
		return 0, true
	}
	if c := linops.StructureOf(p.A).Columns; c.Known && c.Value > 0 {
		return projectOrthogonal(p, c.Value, free, minus, misfit), true
	}
	d, dim := p.A.Dims()
	if len(free) == 1 || len(free) > limits.MaxDense || len(free)*d > freeEntries ||
		linops.StructureOf(p.A).Columns.Known || linops.StructureOf(p.A).Products != nil {
		return projectByProducts(ctx, p, free, minus, misfit)
	}
	dev := minus.Device()
	f := kept.factor(dev, p, free)
	if f.Rank == 0 {
		return 0, true
	}
	var coordinates, projection mat.VecDense
	coordinates.MulVec(f.Q.T(), mat.NewVecDense(d, misfit.ToHost()))
	projection.MulVec(f.Q, &coordinates)
	shift, image := dev.Alloc(1, d), dev.Alloc(1, dim)
	defer array.Free(shift, image)
	dev.Upload(shift, projection.RawVector().Data)
	p.A.Adjoint(image, shift)
	dev.Lin(minus, 1, minus, 1, image)
	dev.Lin(misfit, 1, misfit, -1, shift)
	rest := minus.ToHost()
	for _, j := range free {
		rest[j] = 0
	}
	dev.Upload(minus, rest)
	return mat.Dot(&coordinates, &coordinates), true
}

// freeColumns keeps the factor of the columns of a solve's free coordinates.
type freeColumns struct{ f *pivoted.Factor }

func (k *freeColumns) factor(dev array.Device, p Problem, free []int) *pivoted.Factor {
	if k != nil && k.f != nil {
		return k.f
	}
	d, dim := p.A.Dims()
	units, columns := dev.Alloc(len(free), dim), dev.Alloc(len(free), d)
	defer array.Free(units, columns)
	host := make([]float64, len(free)*dim)
	for i, j := range free {
		host[i*dim+j] = 1
	}
	dev.Upload(units, host)
	p.A.Forward(columns, units)
	m := mat.DenseCopyOf(mat.NewDense(len(free), d, columns.ToHost()).T())
	f := pivoted.Factorize(m, nil, mat.Norm(m, 2), 0)
	if k != nil {
		k.f = f
	}
	return f
}

// projectOrthogonal is projectFree where A*A = c I: the columns F are orthogonal to each other and to all
// others, the projection is F F* misfit/c, and A* of it is minus at the free coordinates and 0 elsewhere.
func projectOrthogonal(p Problem, c float64, free []int, minus, misfit array.Batch) float64 {
	dev := minus.Device()
	d, dim := p.A.Dims()
	host, rest, norm2 := make([]float64, dim), minus.ToHost(), 0.0
	for _, j := range free {
		host[j] = rest[j] / c
		norm2 += rest[j] * rest[j] / c
		rest[j] = 0
	}
	coefficients, shift := dev.Alloc(1, dim), dev.Alloc(1, d)
	defer array.Free(coefficients, shift)
	dev.Upload(coefficients, host)
	p.A.Forward(shift, coefficients) // minus the projection
	dev.Lin(misfit, 1, misfit, 1, shift)
	dev.Upload(minus, rest)
	return norm2
}

// freeSteps bounds the steps of projectByProducts.
const freeSteps = 100

// projectByProducts is projectFree where the columns F are too many to be factorized, or orthogonal, so that one
// step does, or few and coupled by outcomes, so that as many steps do: least squares of the misfit in them, by
// conjugate gradients on the normal equations in units of their lengths. It returns false where F* of the rest does not
// fall to rounding errors of ||F|| ||misfit|| in freeSteps.
func projectByProducts(ctx context.Context, p Problem, free []int, minus, misfit array.Batch) (float64, bool) {
	dev := minus.Device()
	d, dim := p.A.Dims()
	on := space.Coordinates(dev, dim, free)
	defer on.Release()
	columns, _ := linops.On(dev, p.A, on)
	defer columns.Release()
	lengths := slices.Repeat([]float64{1}, len(free))
	if known := linops.StructureOf(columns).ColumnNorms2; known != nil {
		for j, v := range known() {
			if v > 0 {
				lengths[j] = 1 / math.Sqrt(v)
			}
		}
	}
	unit := linops.ScaleColumns(dev, columns, lengths)
	defer unit.Release()
	g, c, image, embedded := dev.Alloc(1, len(free)), dev.Alloc(1, len(free)), dev.Alloc(1, d), dev.Alloc(1, dim)
	whole := dev.Alloc(1, d)
	defer array.Free(g, c, image, embedded, whole)
	dev.Fill(whole, 0)
	size := Norm(misfit)
	for range 2 { // the second time takes out what rounding errors have left, where columns nearly depend on each other
		unit.Adjoint(g, misfit)
		result, err := krylov.CG(ctx, c, g, func(dst, x array.Batch) {
			unit.Forward(image, x)
			unit.Adjoint(dst, image)
		}, krylov.CGOptions{Tol: 1e-13 * max(1, size/Norm(g)), MaxIterations: freeSteps})
		if err != nil || !result.Converged {
			return 0, false
		}
		unit.Forward(image, c)
		dev.Lin(misfit, 1, misfit, -1, image)
		dev.Lin(whole, 1, whole, 1, image)
	}
	norm := Norm(whole)
	if norm > 0 {
		p.A.Adjoint(embedded, whole)
		dev.Lin(minus, 1, minus, 1, embedded)
	}
	on.Coordinates(g, minus)
	on.Embed(embedded, g)
	dev.Lin(minus, 1, minus, -1, embedded)
	return norm * norm, true
}

// proximalResidual returns ||G|| of G = c (b - prox_{r/c}(b - g/c)), with the gradient g of the
// loss at b and a bound c of its second derivative: a bound of a subgradient of the objective at
// that proximal point. eta is 1/c. Where inverseLengths is given it also returns the norm of G with entry
// j divided by the length of column j.
func proximalResidual(p Problem, b, g array.Batch, eta float64, inverseLengths []float64) (residual, byColumn float64,
	err error) {
	dev := b.Device()
	v := dev.Alloc(1, b.N())
	defer v.Free()
	dev.Lin(v, 1, b, -eta, g)
	if err := p.R.Eval(v, v, eta); err != nil {
		return 0, 0, err
	}
	dev.Lin(v, 1, b, -1, v)
	if inverseLengths != nil {
		for j, x := range v.ToHost() {
			byColumn = math.Hypot(byColumn, x/eta*inverseLengths[j])
		}
	}
	return Norm(v) / eta, byColumn, nil
}

// StepFor is one over a bound of the second derivative of l(A b; y), 1 where that is 0.
func StepFor(p Problem, norm2 float64) float64 {
	if p.Loss != nil {
		norm2 *= p.Loss.Lipschitz()
	}
	if norm2 > 0 {
		return 1 / norm2
	}
	return 1
}

// freeEntries is the size of the matrix of unpenalized columns up to which it is factorized for a duality gap.
const freeEntries = 1 << 20
