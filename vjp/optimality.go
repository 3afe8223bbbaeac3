package vjp

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/prox"
)

// yardstick is what a solve is measured by. A subgradient e of the objective at b is small
// where ||e|| is small against
//
//	||A|| max(sigma sqrt(d), floor),
//
// the size of A* z for errors z of mu_hat that matter; without sigma ||y - A b||, or a hundredth of
// ||y||, stands in its place. floor keeps it above the rounding errors of A b and of b, 64 eps (||y|| + ||A|| ||b||) / tol.
type yardstick struct {
	norm  float64 // ||A||
	y     float64 // ||y||
	noise float64 // sigma sqrt(d), 0 where sigma is not known
	tol   float64
}

func newYardstick(y array.Batch, norm2 float64, o Options) yardstick {
	return yardstick{math.Sqrt(norm2), norm(y), math.Sqrt(o.Sigma2 * float64(y.N())), o.Tol}
}

// roundings is how many units in the last place of y and A b a solve is not asked to see.
const roundings = 64

// matters is the size of errors of mu_hat that matter, at a residual of norm z.
func (s yardstick) matters(z float64) float64 {
	if s.noise > 0 {
		return s.noise
	}
	return z
}

// size is the same, and at least that of rounding errors at a b of the given norm; without sigma at
// least leastResidual of y, for residuals that vanish are no yardstick.
func (s yardstick) size(z, b float64) float64 {
	if s.noise == 0 {
		z = max(z, leastResidual*s.y)
	}
	return max(s.matters(z), roundings*0x1p-52/s.tol*(s.y+s.norm*b))
}

// scale is what a subgradient is small against.
func (s yardstick) scale(z, b float64) float64 { return s.norm * s.size(z, b) }

// first is the scale while no residual is known.
func (s yardstick) first() float64 { return s.scale(s.y, 0) }

// The bound of mu_hat's error that a converged solve may have, as a share of
// the size of errors that matter: largestShare, or shareOfTol sqrt(tol) where that is less. (A duality gap
// is about as large as the subgradient, and bounds the square of the error.)
const (
	largestShare = 1e-2
	shareOfTol   = 100
	shareOfY     = 1e-6

	leastResidual = 1e-2
)

// allowed is the largest bound that a converged solve may have. Rounding errors are no excuse, but
// for those of y itself; without sigma an interpolating solution, whose residual vanishes, may
// be off by shareOfY of y.
func (s yardstick) allowed(z float64) float64 {
	least := roundings * 0x1p-52 * s.y
	if s.noise == 0 {
		least = shareOfY * s.y
	}
	return max(min(largestShare, shareOfTol*math.Sqrt(s.tol))*s.matters(z), least)
}

// leastDualScale is the share of the residual that a dual feasible point must keep for its gap
// to say something: below it the constraints of the dual are tighter than rounding errors.
const leastDualScale = 0.5

// errorBound returns a bound of ||A b - A b*|| for every solution b*, from the duality gap
// ([prox.Conjugate]) at a dual point w near the residual,
//
//	gap = 1/2 ||z - w||^2 + r(b) + r*(A* w) - <b, A* w>,   z = y - A b;
//
// NaN where there is none. w is t z, t making it feasible, after what the columns of coordinates
// that r leaves free see of z is taken away: their part of A* w must be 0. misfit is A b - y, g
// is A* of it, near a bound of the distance from -g to r's subdifferential at b, bNorm is ||b||.
func errorBound(p Problem, b, misfit, g array.Batch, s yardstick, zNorm, bNorm, near float64) float64 {
	bound := gapBound(p, b, misfit, g, s, zNorm, bNorm, near)
	// Where there is no bound rounding errors of A b may still be too large to be passed over.
	if rounding := roundings * 0x1p-52 * (s.y + s.norm*bNorm); math.IsNaN(bound) && rounding > s.allowed(zNorm) {
		return rounding
	}
	return bound
}

// gapBound is errorBound by the duality gap alone.
func gapBound(p Problem, b, misfit, g array.Batch, s yardstick, zNorm, bNorm, near float64) float64 {
	r, ok := prox.AsConjugate(p.R)
	if !ok {
		return math.NaN()
	}
	dev := p.Device
	minus := dev.Alloc(1, g.N())
	defer minus.Free()
	dev.Lin(minus, -1, g, 0, array.Batch{})
	projected := 0.0 // ||z - w||^2 before t
	if free := prox.FreeCoordinates(p.R, g.N()); len(free) > 0 {
		if projected, ok = projectFree(p, free, minus, misfit); !ok {
			return math.NaN()
		}
	}
	t := r.DualScale(b, minus, near)
	if !(t >= leastDualScale) {
		return math.NaN()
	}
	rest := max(zNorm*zNorm-projected, 0)
	gap := ((1-t)*(1-t)*rest+projected)/2 + r.FenchelGap(b, minus, t, near)
	return s.boundOf(gap, zNorm, bNorm)
}

// mostFree is the number of free coordinates up to which their columns are factorized for a gap, and
// freeEntries that of their entries.
const (
	mostFree    = maxDense
	freeEntries = 1 << 20
)

// projectFree takes the projection of z = -misfit on the columns of the free coordinates away:
// minus, which is A* z, becomes A* of the rest, 0 at these coordinates. It returns the squared norm
// of the projection, and false where there are too many columns or A has none to give.
func projectFree(p Problem, free []int, minus, misfit array.Batch) (float64, bool) {
	d, dim := p.A.Dims()
	if len(free) > mostFree || len(free)*d > freeEntries {
		return 0, false
	}
	dev := p.Device
	units, columns := dev.Alloc(len(free), dim), dev.Alloc(len(free), d)
	defer units.Free()
	defer columns.Free()
	host := make([]float64, len(free)*dim)
	for i, j := range free {
		host[i*dim+j] = 1
	}
	dev.Upload(units, host)
	p.A.Forward(columns, units)
	m := mat.DenseCopyOf(mat.NewDense(len(free), d, columns.ToHost()).T())
	f := factorPenalized(m, nil, mat.Norm(m, 2), 0)
	if f.rank == 0 {
		return 0, true
	}
	var coordinates, projection mat.VecDense
	coordinates.MulVec(f.q.T(), mat.NewVecDense(d, misfit.ToHost()))
	projection.MulVec(f.q, &coordinates)
	shift, image := dev.Alloc(1, d), dev.Alloc(1, dim)
	defer shift.Free()
	defer image.Free()
	dev.Upload(shift, projection.RawVector().Data)
	p.A.Adjoint(image, shift)
	dev.Lin(minus, 1, minus, 1, image)
	rest := minus.ToHost()
	for _, j := range free {
		rest[j] = 0
	}
	dev.Upload(minus, rest)
	return mat.Dot(&coordinates, &coordinates), true
}

// boundOf is sqrt(2 gap), of a gap no smaller than its rounding error.
func (s yardstick) boundOf(gap, z, b float64) float64 {
	if math.IsNaN(gap) || math.IsInf(gap, 0) {
		return math.NaN()
	}
	return math.Sqrt(2 * math.Max(gap, 8*0x1p-52*z*s.norm*b))
}

// proximalResidual returns ||G|| of G = c (b - prox_{r/c}(b - A*(A b - y)/c)) with c = ||A||^2, a
// bound of a subgradient of the objective at that proximal point, from a gradient at b itself;
// and where shortness is given the norm of G with entry j divided by the length of
// column j. g is A*(A b - y).
func proximalResidual(p Problem, b, g array.Batch, norm2 float64, shortness []float64) (residual, byColumn float64, err error) {
	dev := p.Device
	eta := 1.0
	if norm2 > 0 {
		eta = 1 / norm2
	}
	v := dev.Alloc(1, b.N())
	defer v.Free()
	dev.Lin(v, 1, b, -eta, g)
	if err := p.R.Eval(v, v, eta); err != nil {
		return 0, 0, err
	}
	dev.Lin(v, 1, b, -1, v)
	if shortness != nil {
		for j, x := range v.ToHost() {
			byColumn = math.Hypot(byColumn, x/eta*shortness[j])
		}
	}
	return norm(v) / eta, byColumn, nil
}
