package vjp

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// maxSteps bounds the conjugate gradient steps of a probe.
const maxSteps = 2000

// projectEvery is the number of steps between projections on J's range.
const projectEvery = 8

// Tolerances of the conjugate gradients, where the solver was not asked for more.
// Rounding stops the residual at about 1e-10; after that it grows again, and a
// probe that is below lost and has seen its residual grow by regrown has had what
// is to be had.
const (
	implicitTol = 1e-7
	formTol     = 1e-5
	spanTol     = 0.1
	tightest    = 1e-9
	lost        = 1e-6
	regrown     = 1e3
)

// solveTol and formsTol are the tolerances of a solve to tol.
func solveTol(tol float64) float64 { return math.Max(math.Min(implicitTol, tol), tightest) }
func formsTol(tol float64) float64 { return math.Min(formTol, 1000*tol) }

// Report tells the largest number of steps that a probe has taken and how many
// probes stopped short of their tolerance.
func (l *implicit) Report() (steps, failed int) {
	return int(l.steps.Load()), int(l.failed.Load())
}

// VJP sets dst_i = D mu_hat v_i, to a relative residual of 1e-7.
func (l *implicit) VJP(ctx context.Context, dst, v array.Batch) error {
	return l.solve(ctx, dst, v, l.images)
}

// Forms sets dst_i to an approximation of D mu_hat v_i whose quadratic form
// <v_i, dst_i> is off by about 1e-5 of itself.
func (l *implicit) Forms(ctx context.Context, dst, v array.Batch) error {
	return l.solve(ctx, dst, v, l.forms)
}

// Span stops at a residual of spanTol.
func (l *implicit) Span(ctx context.Context, dst, v array.Batch) error {
	return l.solve(ctx, dst, v, l.span)
}

// enough says when a probe is done: of its residual's J-norm, relative to the first,
// squared, and of what the quadratic form still lacks, relative to the form.
type enough func(residual2, lacking float64) bool

func (l *implicit) images(residual2, _ float64) bool { return residual2 <= l.tol*l.tol }

func (l *implicit) forms(residual2, lacking float64) bool {
	return l.images(residual2, lacking) || lacking <= l.form && residual2 <= 1e-6
}

func (l *implicit) span(residual2, _ float64) bool { return residual2 <= spanTol*spanTol }

// apply sets jr = J r and, now and then, takes from r what J does not see: that
// grows by a small factor a step and costs half as much again as J. Where there is K
// it sets jr to its preconditioner's image and kr = K jr.
func (l *implicit) apply(jr, kr, r array.Batch, step int) {
	switch {
	case l.curved != nil:
		l.curved.Precondition(jr, kr, r)
	case !l.mask.IsZero():
		l.p.Device.Mul(jr, r, l.mask)
	case step%projectEvery == 0:
		prox.ApplyRange(l.seen, jr, r, r)
	default:
		l.seen.Apply(jr, r)
	}
}

// solve runs conjugate gradients on every probe. A probe that has converged is
// frozen: its coefficients are 0 and its bits stay, whatever the others do.
func (l *implicit) solve(ctx context.Context, dst, w array.Batch, enough enough) error {
	dev := l.p.Device
	d, _ := l.p.A.Dims()
	k := w.K()
	if dst.K() != k || dst.N() != d || w.N() != d {
		panic(fmt.Sprintf("vjp: VJP of %s into %s with d = %d", w, dst, d))
	}
	dev.Fill(dst, 0)
	if k == 0 || l.dim == 0 {
		return dev.Err()
	}
	if !l.image.IsZero() {
		t := dev.Alloc(k, l.dim)
		defer t.Free()
		dev.Gemm(false, true, 1, w, l.image, 0, t)
		dev.Gemm(false, false, 1, t, l.image, 0, dst)
		return dev.Err()
	}
	if !l.inverse.IsZero() {
		t, x := dev.Alloc(k, l.dim), dev.Alloc(k, l.dim)
		defer t.Free()
		defer x.Free()
		l.op.Adjoint(t, w)
		dev.Gemm(false, false, 1, t, l.inverse, 0, x)
		l.op.Forward(dst, x)
		return dev.Err()
	}
	r, dir, jdir, t := dev.Alloc(k, l.dim), dev.Alloc(k, l.dim), dev.Alloc(k, l.dim), dev.Alloc(k, l.dim)
	// A J x is summed direction by direction, or x is where A*A does without A.
	sumOf, q := dst, array.Batch{}
	square, squares := l.op.(linops.NormalMap)
	if squares {
		sumOf, q = dev.Alloc(k, l.dim), dev.Alloc(k, l.dim)
		defer sumOf.Free()
		dev.Fill(sumOf, 0)
	} else {
		q = dev.Alloc(k, d)
	}
	defer func() {
		for _, b := range []array.Batch{r, dir, jdir, t, q} {
			b.Free()
		}
	}()
	// The direction's image is summed from that of the residual, or from r itself.
	image := r
	if l.curved != nil {
		image = dev.Alloc(k, l.dim)
		defer image.Free()
	}
	l.op.Adjoint(r, w)
	dev.Lin(r, l.eta, r, 0, array.Batch{})
	l.apply(jdir, image, r, 0)
	dev.Copy(dir, image)

	numbers := make([]float64, 10*k)
	next := func() []float64 {
		n := numbers[:k:k]
		numbers = numbers[k:]
		return n
	}
	rho, start, sum, curvature, jj, qq, alpha, beta, ones, best := next(), next(), next(), next(), next(), next(), next(), next(), next(), next()
	for i := range ones {
		ones[i] = 1
	}
	dev.Dot(rho, r, jdir)
	copy(start, rho)
	copy(best, rho)
	active := 0
	done := make([]bool, k)
	for i, v := range rho {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("vjp: implicit derivative: probe %d gives a right-hand side that is not finite", i)
		}
		if done[i] = v <= 0; !done[i] {
			active++
		}
	}
	for step := 1; active > 0; step++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		// <N dir, J dir> = <dir, J dir> - ||J dir||^2 + eta ||A J dir||^2; with K it is
		// <K dir, dir> + ||A dir||^2, and dir holds K dir.
		if squares {
			square.ApplyNormal(q, jdir)
		} else {
			l.op.Forward(q, jdir)
		}
		dev.Dot(curvature, dir, jdir)
		if l.curved == nil {
			dev.Dot(jj, jdir, jdir)
		} else {
			clear(jj)
		}
		if squares {
			dev.Dot(qq, q, jdir)
		} else {
			dev.Dot(qq, q, q)
		}
		for i := range alpha {
			alpha[i] = 0
			if done[i] {
				continue
			}
			c := math.Max(curvature[i]-jj[i], 0) + l.eta*qq[i]
			if !(c > 0) {
				// A direction that neither J nor A sees: the system is solved on the rest.
				done[i] = true
				active--
				continue
			}
			alpha[i] = rho[i] / c
		}
		if squares {
			dev.LinEach(sumOf, ones, sumOf, alpha, jdir)
			dev.Lin(t, l.eta, q, 1, dir)
		} else {
			dev.LinEach(dst, ones, dst, alpha, q)
			l.op.Adjoint(t, q)
			dev.Lin(t, l.eta, t, 1, dir)
		}
		if l.curved == nil {
			dev.Lin(t, 1, t, -1, jdir) // N dir
		}
		for i := range alpha {
			alpha[i] = -alpha[i]
		}
		dev.LinEach(r, ones, r, alpha, t)
		l.apply(t, image, r, step)
		dev.Dot(jj, r, t)
		for i := range beta {
			beta[i] = 0
			if done[i] {
				continue
			}
			gain := -alpha[i] * rho[i]
			sum[i] += gain
			next := math.Max(jj[i], 0)
			if math.IsNaN(jj[i]) {
				return fmt.Errorf("vjp: implicit derivative: probe %d is not finite after %d steps", i, step)
			}
			beta[i] = next / rho[i]
			// What is left of the form is about the next gains, a geometric series.
			left := gain * beta[i] / math.Max(1-beta[i], 0.1)
			stop := enough(next/start[i], left/sum[i])
			best[i] = math.Min(best[i], next)
			stop = stop || best[i] <= lost*lost*start[i] && next >= regrown*regrown*best[i]
			if !stop && step >= maxSteps {
				l.failed.Add(1)
				stop = true
			}
			rho[i] = next
			if stop {
				done[i] = true
				active--
			}
		}
		l.noteSteps(step)
		dev.LinEach(dir, ones, image, beta, dir)
		dev.LinEach(jdir, ones, t, beta, jdir)
		if err := dev.Err(); err != nil {
			return err
		}
	}
	if squares {
		l.op.Forward(dst, sumOf)
	}
	return dev.Err()
}

func (l *implicit) noteSteps(n int) {
	for {
		old := l.steps.Load()
		if int64(n) <= old || l.steps.CompareAndSwap(old, int64(n)) {
			return
		}
	}
}
