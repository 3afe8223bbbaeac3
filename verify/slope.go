package verify

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/prox"
)

// rate describes d mu_hat/d s at s = 1, where the regularizer is s r. All lengths are Euclidean
// norms of vectors of length d.
type rate struct {
	quotient
	off float64 // of the printed derivative from the segment between the one-sided differences
}

// conclusive reports whether the differences can be used for a comparison.
func (r rate) conclusive() bool { return r.resolved && !r.wide() }

// shift is the change of SURE's residual term, for a weight that changes by its own size, which the
// distance of the derivative from the differences implies, with its error bar.
func (c *check) shift(r rate) (difference, bar float64) {
	return c.moves(r.off), c.sure + c.moves(r.err())
}

// byWeight compares the derivative of mu_hat by the weight of r, where it is known, with
// differences of solves at weights nearby. At a kink, and where the differences are too inaccurate,
// nothing is compared.
func (c *check) byWeight() error {
	if c.Closed.Slope == nil {
		return nil
	}
	slope, err := c.Closed.Slope()
	if err != nil {
		return err
	}
	if len(slope) != c.B.N() {
		return fmt.Errorf("verify: a derivative by the weight of %d entries for %d coefficients", len(slope), c.B.N())
	}
	b, image := c.dev.Alloc(1, len(slope)), c.dev.Alloc(1, c.d)
	defer b.Free()
	defer image.Free()
	c.dev.Upload(b, slope)
	c.Problem.A.Forward(image, b)
	printed := image.ToHost()
	if size := norm(image); math.IsNaN(size) || math.IsInf(size, 0) {
		c.v.add(Slope, size, c.sure)
		return nil
	}
	r, err := c.rate(&c.first, printed)
	if err != nil {
		return err
	}
	if r.conclusive() && inBars(c.shift(r)) > doubt {
		if r, err = c.secondRate(r, printed); err != nil {
			return err
		}
	}
	if r.conclusive() {
		difference, bar := c.shift(r)
		c.v.add(Slope, difference, bar)
	}
	return nil
}

// secondRate takes the differences by another solver, and keeps those that contradict the result
// less. Where that solver fails, the finding of the first stands.
func (c *check) secondRate(first rate, printed []float64) (rate, error) {
	if err := c.openSecond(); err != nil {
		return first, c.serious(err)
	}
	second, err := c.rate(&c.second, printed)
	if err != nil {
		return first, c.serious(err)
	}
	if second.conclusive() && inBars(c.shift(second)) > inBars(c.shift(first)) {
		return first, nil
	}
	return second, nil
}

// rate takes differences by the weight, at smaller and smaller steps until they are conclusive.
func (c *check) rate(w *witness, printed []float64) (rate, error) {
	var best rate
	err := c.atSteps(firstStep, func(h float64, first bool) (bool, error) {
		r, err := c.rateAt(w, printed, h)
		if err != nil {
			return false, err
		}
		if first || r.better(best.quotient) {
			best = r
		}
		return r.noisy || r.conclusive() && r.off <= r.bar, nil
	})
	return best, err
}

// rateAt takes the differences at one step:
//
//	c(h) = (mu_hat(1 + h) - mu_hat(1 - h)) / 2h,   where mu_hat(s) is that of the regularizer s r,
//
// and the same at h/2, with the one-sided ones at h/2. The error of the solves is measured by one
// at s = 1 that starts at the solution at s = 1 + h.
func (c *check) rateAt(w *witness, printed []float64, h float64) (rate, error) {
	var at [4][]float64
	var away array.Batch
	defer func() { away.Free() }()
	for i, a := range []float64{-h, -h / 2, h / 2, h} {
		delta, b, err := c.reweighted(w, 1+a)
		if err != nil {
			return rate{}, err
		}
		away.Free()
		at[i], away = delta, b
	}
	sol, err := c.solve(w, c.Y, away)
	if err != nil {
		return rate{}, err
	}
	back := distance(sol.MuHat, w.mu)
	sol.Release()
	noise := 2*back/h + 32*eps*(c.yNorm+c.muNorm)/h
	var step2, center2, printed2, apart2, toLeft float64
	for i, p := range printed {
		wide, center := (at[3][i]-at[0][i])/(2*h), (at[2][i]-at[1][i])/h
		left, right := -at[1][i]/(h/2), at[2][i]/(h/2)
		step2 += square(wide - center)
		center2 += square(center)
		printed2 += square(p)
		apart2 += square(right - left)
		toLeft += (p - left) * (right - left)
	}
	along := 0.0 // where on the segment the nearest point is
	if apart2 > 0 {
		along = min(max(toLeft/apart2, 0), 1)
	}
	off2 := 0.0
	for i, p := range printed {
		left, right := -at[1][i]/(h/2), at[2][i]/(h/2)
		off2 += square(p - left - along*(right-left))
	}
	r := rate{off: math.Sqrt(off2)}
	r.apart, r.size = math.Sqrt(apart2), math.Sqrt(max(center2, printed2))
	r.bar = math.Sqrt(step2 + square(noise) + square(formPart*r.size))
	small := func(err float64) bool { return err <= 0.05*r.size || c.moves(err) <= c.sure }
	r.resolved, r.noisy = small(r.bar), !small(noise)
	return r, c.dev.Err()
}

// reweighted is mu_hat(s) - mu_hat(1), and the solution b(s), by a solve that starts at b(1).
func (c *check) reweighted(w *witness, s float64) ([]float64, array.Batch, error) {
	solver, err := w.solver.Reweight(c.ctx, prox.NewScaled(s, c.Problem.R))
	if err != nil {
		return nil, array.Batch{}, err
	}
	defer solver.Release()
	sol, err := c.solve(&witness{solver: solver}, c.Y, w.base)
	if err != nil {
		return nil, array.Batch{}, err
	}
	c.dev.Lin(sol.MuHat, 1, sol.MuHat, -1, w.mu)
	delta := sol.MuHat.ToHost()
	sol.MuHat.Free()
	return delta, sol.B, nil
}
