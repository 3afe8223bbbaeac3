package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/vjp"
)

// Projected is an estimate of the risk of an image x_hat that is measured by A, y = A x + noise, in the
// space of the images: with the projection P = A^+ A on what A sees, and mu = A x,
//
//	E ||P (x_hat - x)||^2 = E ||A^+ (mu_hat - mu)||^2.
//
// What A does not see is not in it. SURE itself is the predicted risk, E ||A (x_hat - x)||^2. With W =
// (A A*)^+ = (A^+)* A^+
//
//	SURE_P = ||A^+ (y - mu_hat)||^2 - sigma2 tr W + 2 sigma2 tr(W D mu_hat)
//
// is unbiased for it (Eldar 2009; Ramani et al., Regularization parameter selection for nonlinear
// iterative image restoration and MRI reconstruction using GCV and SURE-based methods, 2012). The
// smaller the singular values of A, the more of it is noise in few directions, and the more it favours
// small weights: the predicted risk is then the better guide.
type Projected struct {
	// SURE is SURE_P, with the traces from Probes probes; ProbeStdErr is the standard error that these
	// cause, 0 where the traces are exact. The error that y causes is not in it.
	SURE, ProbeStdErr float64
	// Loss is ||A^+ (mu_hat - mu)||^2, NaN where mu is not known.
	Loss float64
	// Probes is their number, and Iterations how many steps A^+ took, 0 where A A* = c I.
	Probes, Iterations int
}

// ProjectedOptions are those of ProjectedSURE. Zero values stand for the defaults.
type ProjectedOptions struct {
	// Probes is the number of probes, 32 by default, and Seed their seed.
	Probes int
	Seed   uint64
	// Tol is the relative residual of the normal equations for A^+, 1e-8 by default, and MaxIterations
	// bounds the steps of conjugate gradients on them, 300 by default.
	Tol           float64
	MaxIterations int
}

// ErrIllPosed is the error of ProjectedSURE where A^+ cannot be computed: the singular values of A are
// too far apart, and the projected risk has no numerical meaning.
var ErrIllPosed = errors.New("the operator is too ill-conditioned for the projected risk: SURE is the predicted " +
	"risk, which needs no inverse")

// ProjectedSURE estimates the risk of the solver's estimate at y in the space of the images that a
// measures. a maps the images to y, without a synthesis; the solver must have a derivative, the
// squared loss without weights, and a problem without an origin. mu may be nil. It solves once more at y.
func ProjectedSURE(ctx context.Context, s vjp.Solver, a linops.Operator, y, mu []float64, sigma2 float64,
	o ProjectedOptions) (Projected, error) {
	p := s.Problem()
	d, _ := a.Dims()
	switch {
	case p.Loss != nil || p.Origin != nil:
		return Projected{}, errors.New("the projected risk is that of the squared loss without weights and without " +
			"terms that are projected off")
	case len(y) != d || mu != nil && len(mu) != d:
		return Projected{}, fmt.Errorf("y has %d values and mu %d, the operator %d rows", len(y), len(mu), d)
	case !(sigma2 > 0):
		return Projected{}, fmt.Errorf("sigma2 is %g, expected a positive number: the projected risk needs the "+
			"variance of the noise", sigma2)
	}
	if o.Probes == 0 {
		o.Probes = 32
	}
	if o.Tol == 0 {
		o.Tol = 1e-8
	}
	if o.MaxIterations == 0 {
		o.MaxIterations = 300
	}
	dev := p.Device.Request()
	at := dev.Alloc(1, d)
	defer at.Free()
	dev.Upload(at, y)
	sol, err := s.Solve(ctx, at)
	if err != nil {
		return Projected{}, err
	}
	defer sol.Release()
	if sol.Linearization == nil {
		return Projected{}, errors.New("the projected risk needs the derivative of the estimate")
	}
	sol.Expand(dev)
	q := &projection{ctx: ctx, dev: dev, a: a, o: o}
	out, err := q.risk(sol, y, mu, sigma2)
	if err == nil {
		err = dev.Sync()
	}
	return out, err
}

type projection struct {
	ctx        context.Context
	dev        array.Device
	a          linops.Operator
	o          ProjectedOptions
	iterations int
}

func (q *projection) risk(sol *vjp.Solution, y, mu []float64, sigma2 float64) (Projected, error) {
	d, k := len(y), q.o.Probes
	fit := sol.MuHat.ToHost()
	// The residual, the error, the probes and their images, in one batch.
	z := q.dev.Alloc(2+2*k, d)
	defer z.Free()
	row := make([]float64, d)
	difference := func(i int, x []float64) {
		for j := range row {
			row[j] = 0
			if x != nil {
				row[j] = x[j] - fit[j]
			}
		}
		q.dev.Upload(z.Rows(i, i+1), row)
	}
	difference(0, y)
	difference(1, mu)
	probes, images := z.Rows(2, 2+k), z.Rows(2+k, 2+2*k)
	hutch.Rademacher(probes, q.o.Seed, 0, 0)
	if err := sol.Linearization.VJP(q.ctx, images, probes); err != nil {
		return Projected{}, err
	}
	_, n := q.a.Dims()
	x := q.dev.Alloc(2+2*k, n)
	defer x.Free()
	if err := q.pseudoinverse(x, z); err != nil {
		return Projected{}, err
	}
	squares, own, cross := make([]float64, 2), make([]float64, k), make([]float64, k)
	q.dev.Dot(squares, x.Rows(0, 2), x.Rows(0, 2))
	q.dev.Dot(own, x.Rows(2, 2+k), x.Rows(2, 2+k))
	q.dev.Dot(cross, x.Rows(2, 2+k), x.Rows(2+k, 2+2*k))
	if err := q.dev.Sync(); err != nil {
		return Projected{}, err
	}
	mean, spread := 0.0, 0.0
	for i := range own {
		own[i] = sigma2 * (2*cross[i] - own[i])
		mean += own[i] / float64(k)
	}
	for _, v := range own {
		spread += (v - mean) * (v - mean)
	}
	out := Projected{SURE: squares[0] + mean, Loss: math.NaN(), Probes: k, Iterations: q.iterations,
		ProbeStdErr: math.NaN()}
	if k > 1 {
		out.ProbeStdErr = math.Sqrt(spread / float64(k-1) / float64(k))
	}
	if mu != nil {
		out.Loss = squares[1]
	}
	return out, nil
}

// pseudoinverse sets x = A^+ z: A* z / c where A A* = c I, else by conjugate gradients on the normal
// equations A*A x = A* z, which stay in the range of A*.
func (q *projection) pseudoinverse(x, z array.Batch) error {
	q.a.Adjoint(x, z)
	if rows := linops.StructureOf(q.a).Rows; rows.Known && rows.Value > 0 {
		q.dev.Lin(x, 1/rows.Value, x, 0, array.Batch{})
		return nil
	}
	d, _ := q.a.Dims()
	image := q.dev.Alloc(x.K(), d)
	defer image.Free()
	result, err := krylov.CG(q.ctx, x, x, func(dst, b array.Batch) {
		q.a.Forward(image, b)
		q.a.Adjoint(dst, image)
	}, krylov.CGOptions{Tol: q.o.Tol, MaxIterations: q.o.MaxIterations})
	q.iterations = result.Iterations
	switch {
	case err != nil:
		return err
	case !result.Converged:
		return fmt.Errorf("%w (%d steps of conjugate gradients left a residual of %.2g, expected %.2g)", ErrIllPosed,
			result.Iterations, result.Residual, q.o.Tol)
	}
	return nil
}
