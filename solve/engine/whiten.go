package engine

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
)

// Whiten makes the problem at the solution that of the squared loss that a loss is there, where A b = z. With
// W = diag(w), w_i = l^(2)_i(z_i; y_i), the derivative by y of a solution on its manifold is
//
//	D z = A E (E* (A* W A + Q) E)^+ E* A* C,   C = diag(-d^2 l / dz dy),
//
// with C = I for the logistic and the Poisson loss, and C = W for losses of z - y. What is
// differentiated is the problem with W^{1/2} A,
//
//	S = W^{1/2} A E (E* (A* W A + Q) E)^+ E* A* W^{1/2},
//
// symmetric with eigenvalues in [0, 1]. tr S, the degrees of freedom, is the trace of the derivative
// of the fitted means l' + y by y for the first two, and that of D z for the latter. Observations
// without curvature have rows and columns of next to zeros ([loss.Structure.Whiten]). The point cannot be refined
// afterwards.
func (at *Point) Whiten(z array.Batch) error {
	p := at.Problem
	dev, l := at.Y.Device(), p.Loss
	d, dim := p.A.Dims()
	slope, curve := dev.Alloc(1, d), dev.Alloc(1, d)
	defer array.Free(slope, curve)
	l.Gradient(slope, z, at.Y)
	l.Curvature(curve, z, at.Y)
	if at.Gradient.IsZero() {
		at.Gradient = dev.Alloc(1, dim)
		p.A.Adjoint(at.Gradient, slope)
	}
	return at.WhitenBy(z, slope, curve)
}

// WhitenBy is Whiten where the gradient and the first two derivatives of the loss are known.
func (at *Point) WhitenBy(z, slope, curve array.Batch) error {
	p := at.Problem
	dev, l := at.Y.Device(), p.Loss
	d, _ := p.A.Dims()
	if coupled := loss.StructureOf(l).Coupled; coupled != nil {
		return at.whitenCoupled(coupled, z, curve.MaxAbs())
	}
	misfit, y := slope.ToHost(), z.ToHost()
	root, flat := loss.StructureOf(l).Whiten(misfit, curve.ToHost())
	most := 0.0
	for i, w := range root {
		most = max(most, w)
		root[i] = math.Sqrt(w)
		switch {
		case flat[i]:
			at.Flat, misfit[i] = true, 0
		case w > 0:
			misfit[i] /= root[i]
		}
		y[i] = root[i]*y[i] - misfit[i]
	}
	roots := dev.Alloc(1, d)
	dev.Upload(roots, root)
	before := at.Free
	at.Free = func() {
		roots.Free()
		if before != nil {
			before()
		}
	}
	if !slices.Equal(at.Curved.Roots, root) {
		at.Gram, at.Factored = nil, nil
	}
	at.whitened(NewWeightedRows(p.A, roots, root, at.Op), y, misfit, most)
	return nil
}

// whitened sets the problem with the squared loss of op; largest bounds the eigenvalues of the second derivative.
func (at *Point) whitened(op linops.Restricted, y, misfit []float64, largest float64) {
	dev := at.Y.Device()
	if at.OwnsY {
		at.Y.Free()
	}
	at.Misfit.Free()
	at.Y, at.Misfit, at.OwnsY = dev.Alloc(1, len(y)), dev.Alloc(1, len(y)), true
	dev.Upload(at.Y, y)
	dev.Upload(at.Misfit, misfit)
	at.Op, at.Problem.A, at.Problem.Loss = op, op, nil
	at.Norm2 *= largest
	at.Method = nil
}

// whitenCoupled is Whiten where the second derivative l^(2) = R*R is not diagonal. With M = E* (A* l^(2) A + Q) E the
// matrix S = R A E M^+ E* A* R* has the trace and the Frobenius norm of A E M^+ E* A* l^(2), but not its diagonal.
func (at *Point) whitenCoupled(l loss.Coupled, z array.Batch, largest float64) error {
	if at.Curved.Factor == nil {
		root, err := l.Root(z, at.Y)
		if err != nil {
			return err
		}
		at.Gram, at.Factored, at.Curved.Factor = nil, nil, root
	}
	y := z.ToHost()
	at.Curved.Factor.Forward(y, y)
	at.Flat = true // A* of the misfit is not the gradient
	at.whitened(newRooted(at.Problem.A, at.Curved.Factor, at.Op), y, make([]float64, len(y)), largest)
	return nil
}
