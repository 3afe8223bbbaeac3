package verify

import (
	"math"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/loss"
)

const (
	// firstStep times the smaller of sigma sqrt(d) and ||y|| is the length of the first step.
	firstStep = 1e-4
	// A step that crosses a kink, or whose difference is not resolved, is divided by shrink, at
	// most steps-1 times.
	shrink = 8
	steps  = 4
	// formPart is the least error bar of a form, as a share of it: the error that the tolerances of
	// the solution and of its derivative allow.
	formPart = 1e-3
	// forms is the number of random probes whose forms are compared with the divergence. A few of
	// them are also compared with differences.
	forms = 30
	// fewProbes is the factor by which a standard error that was estimated from the probes may be
	// too small.
	fewProbes = 1.25
	// stream separates the probes from those of the estimate under the same seed.
	stream = 0x76657269667921
)

// form has the values of z* D mu_hat z for one probe: by the linearization, and by central and one-sided
// differences at one step.
type form struct {
	printed   float64 // by the linearization
	low, high float64 // the one-sided differences, the smaller and the larger; their mean is the central one
	bar       float64 // the error of the step and of the solves
	// resolved says that bar is small enough for a conclusion, noisy that a smaller step would make
	// it larger.
	resolved, noisy bool
	boundary        bool // the one-sided differences disagree at every step
	second          bool // by the second solver
}

// size is that of the derivative, and apart the disagreement of the one-sided differences.
func (f form) size() float64  { return max(math.Abs(f.printed), math.Abs(f.low+f.high)/2) }
func (f form) apart() float64 { return f.high - f.low }

// wide reports whether the one-sided differences disagree.
func (f form) wide() bool { return f.apart() > 0.1*f.size()+10*f.bar }

// err is the error of the differences: it includes half the disagreement of the one-sided ones,
// which a kink within the step causes and which the difference between two steps may miss by
// chance. Where they disagree by more, that says nothing about the derivative, and is left out.
func (f form) err() float64 {
	if f.wide() {
		return f.bar
	}
	return f.bar + f.apart()/2
}

// better reports whether f is more conclusive than g.
func (f form) better(g form) bool {
	return f.wide() == g.wide() && f.err() < g.err() || !f.wide() && g.wide()
}

func (f form) off() float64 { return max(f.low-f.printed, f.printed-f.high, 0) }

func (f form) bars() float64 { return f.off() / f.err() }

func (f form) conclusive() bool { return f.resolved && !f.boundary }

// differences compares the derivative along a few probes with differences of solutions, and the
// divergence with the sum or mean that follows from them.
func (c *check) differences() error {
	units := c.d <= MaxUnits
	count, compared := forms, min(c.Probes, forms)
	if units {
		count, compared = c.d, c.d
	}
	z, image := c.dev.Alloc(count, c.d), c.dev.Alloc(count, c.d)
	defer array.Free(z, image)
	if units {
		hutch.UnitVectors(z, 0)
	} else {
		hutch.Rademacher(z, c.Seed^stream, c.Sample, 0)
	}
	left := make([]float64, count)
	if err := c.Images.Apply(c.ctx, image, z, left); err != nil {
		return err
	}
	printed := make([]float64, count)
	c.dev.Dot(printed, z, image)
	c.v.Probes = compared
	all := make([]form, compared)
	for i := range all {
		f, err := c.along(&c.first, z.Rows(i, i+1), printed[i])
		if err != nil {
			return err
		}
		f.bar += left[i]
		all[i] = f
	}
	if err := c.secondOpinions(z, all); err != nil {
		return err
	}
	worst, seen := form{}, false
	for _, f := range all {
		switch {
		case f.boundary:
			c.v.Boundaries++
		case !f.resolved:
			c.v.Unresolved++
		case !seen || f.bars() > worst.bars():
			worst, seen = f, true
		}
	}
	if seen {
		c.v.add(Derivative, worst.off(), worst.err())
	}
	if units {
		c.units = all
		c.sumOfUnits(image, all)
	} else {
		c.meanOfForms(printed, all)
	}
	return nil
}

// sumOfUnits compares the divergence with the sum over all unit vectors: of differences, and
// where there are none of the forms of the linearization. image is D mu_hat. The error of a
// Hutchinson estimate is then known exactly; its StdErr, which is estimated from a few probes,
// may be less.
func (c *check) sumOfUnits(image array.Batch, all []form) {
	sum, bars := 0.0, 1e-6*float64(c.d) // their errors may have the same sign
	for _, f := range all {
		value, bar := f.printed, formPart*math.Abs(f.printed)
		if f.conclusive() {
			value, bar = min(max(f.printed, f.low), f.high), f.bar
		}
		sum += value
		bars += bar
	}
	stdErr := fewProbes * c.Trace.Error()
	if c.Trace.Estimator == hutch.Hutchinson && c.Trace.Queries > 0 {
		squares := make([]float64, c.d)
		c.dev.Dot(squares, image, image)
		variance := 0.0
		for i, f := range all {
			variance += 2 * (squares[i] - f.printed*f.printed)
		}
		stdErr = max(stdErr, math.Sqrt(max(0, variance)/float64(c.Trace.Queries)))
	}
	c.v.add(Divergence, c.Trace.Trace-sum, math.Hypot(bars, stdErr))
}

// meanOfForms compares the divergence with the mean of the forms, corrected by their mean distance
// from the differences. The forms of Rademacher probes have the variance
// 2 (||D||_F^2 - sum_i D_ii^2), at most 2 ||D||_F^2.
func (c *check) meanOfForms(printed []float64, all []form) {
	n := float64(len(printed))
	mean, squares := 0.0, 0.0
	for _, v := range printed {
		mean += v / n
	}
	for _, v := range printed {
		squares += (v - mean) * (v - mean)
	}
	variance := max(2*c.Trace.Frobenius2, squares/(n-1)) / n
	shift, bar2, count := 0.0, 0.0, 0.0
	for _, f := range all {
		if f.conclusive() {
			shift += min(max(f.printed, f.low), f.high) - f.printed
			bar2 += f.bar * f.bar
			count++
		}
	}
	if count > 0 {
		mean += shift / count
		variance += bar2 / count
	}
	c.v.add(Divergence, c.Trace.Trace-mean, math.Hypot(math.Sqrt(variance), c.Trace.Error())+1e-6*float64(c.d))
}

// doubt is the number of error bars above which a probe is examined again with another
// solver: a difference between two solves that both failed to move looks exact.
const doubt = 2

// secondOpinions recomputes the differences of the probes that do not agree, the worst first, by
// another solver, and keeps those that contradict the result less. The first that is confirmed ends
// the search.
func (c *check) secondOpinions(z array.Batch, all []form) error {
	for {
		at := -1
		for i, f := range all {
			if f.conclusive() && !f.second && f.bars() > doubt && (at < 0 || f.bars() > all[at].bars()) {
				at = i
			}
		}
		if at < 0 {
			return nil
		}
		if err := c.openSecond(); err != nil {
			return c.serious(err) // the finding of the first solver stands
		}
		f, err := c.along(&c.second, z.Rows(at, at+1), all[at].printed)
		if err != nil {
			return c.serious(err)
		}
		if confirmed := f.conclusive() && f.bars() > doubt; confirmed {
			if f.bars() < all[at].bars() {
				all[at] = f
			}
			return nil
		}
		f.second = true
		all[at] = f
	}
}

// along takes differences along z, at smaller and smaller steps until they are conclusive.
func (c *check) along(w *witness, z array.Batch, printed float64) (form, error) {
	length := c.yNorm
	if noise := math.Sqrt(c.Sigma2 * float64(c.d)); length == 0 || noise < length {
		// Differences of solutions are no more accurate than the solutions.
		length = max(noise, 1e-3*length)
	}
	v := c.direction(z)
	h := firstStep * length / norm(v)
	v.Free()
	if math.IsInf(h, 1) {
		h = firstStep * length / norm(z) // all weights are 0 there
	}
	best := form{printed: printed}
	for k := 0; k < steps && c.iterations < c.budget; k++ {
		f, err := c.step(w, z, printed, h)
		if err != nil {
			return form{}, err
		}
		if k == 0 || f.better(best) {
			best = f
		}
		if f.noisy || f.resolved && !f.wide() && f.off() <= f.bar {
			break
		}
		h /= shrink
	}
	best.boundary = best.wide()
	// Eigenvalues are in [0, 1], on either side of a kink.
	if z2 := z.Dot(z); best.boundary && (printed < -1e-3*z2 || printed > (1+1e-3)*z2) {
		best.boundary, best.resolved = false, true
	}
	return best, nil
}

// step takes the differences at one step:
//
//	c(h) = z* (mu_hat(y + h z) - mu_hat(y - h z)) / 2h
//
// and the same at h/2, with the one-sided ones at h/2.
func (c *check) step(w *witness, z array.Batch, printed, h float64) (form, error) {
	var at [4]float64
	var away array.Batch
	defer func() { away.Free() }()
	for i, a := range []float64{-h, -h / 2, h / 2, h} {
		m, b, err := c.moved(w, a, z, w.base)
		if err != nil {
			return form{}, err
		}
		at[i] = m
		away.Free()
		away = b
	}
	back, b, err := c.moved(w, 0, z, away)
	if err != nil {
		return form{}, err
	}
	b.Free()
	wide, center := (at[3]-at[0])/(2*h), (at[2]-at[1])/h
	left, right := -at[1]/(h/2), at[2]/(h/2)
	z2 := z.Dot(z)
	noise := 2*math.Abs(back)/h + 32*eps*math.Sqrt(z2)*(c.yNorm+c.muNorm)/h
	f := form{printed: printed, low: min(left, right), high: max(left, right)}
	f.bar = math.Sqrt(square(wide-center)+square(noise)+square(formPart*f.size())) + 1e-6*z2
	most := 0.05*f.size() + 1e-3*z2
	f.resolved, f.noisy = f.bar <= most, noise > most
	return f, c.dev.Err()
}

// direction is W^{-1/2} z, where w are the weights of the loss, and z where it has none. Where w_i
// = 0 it is 0: mu_hat does not depend on y_i. The caller frees it.
func (c *check) direction(z array.Batch) array.Batch {
	v := c.dev.Alloc(1, c.d)
	if c.inverse.IsZero() {
		c.dev.Copy(v, z)
	} else {
		c.dev.Mul(v, z, c.inverse)
	}
	return v
}

func (c *check) weights() {
	w := loss.Weighing(c.Problem.Loss)
	if w == nil {
		return
	}
	root, inverse := loss.Roots(w)
	c.root, c.inverse = c.dev.Alloc(1, c.d), c.dev.Alloc(1, c.d)
	c.dev.Upload(c.root, root)
	c.dev.Upload(c.inverse, inverse)
}

// moved is z* (mu_hat(y + a z) - mu_hat(y)), and the solution at y + a z, by a solve that starts at
// from. Where the loss has weights the derivative is that of the whitened problem, W^{1/2} D mu_hat
// W^{-1/2}, and moved is z* W^{1/2} (mu_hat(y + a W^{-1/2} z) - mu_hat(y)).
func (c *check) moved(w *witness, a float64, z, from array.Batch) (float64, array.Batch, error) {
	y := c.direction(z)
	defer y.Free()
	c.dev.Lin(y, 1, c.Y, a, y)
	sol, err := c.solve(w, y, from)
	if err != nil {
		return 0, array.Batch{}, err
	}
	c.dev.Lin(y, 1, sol.MuHat, -1, w.mu)
	sol.MuHat.Free()
	if !c.root.IsZero() {
		c.dev.Mul(y, y, c.root)
	}
	return z.Dot(y), sol.B, nil
}

func square(x float64) float64 { return x * x }
