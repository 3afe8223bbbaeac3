package verify

import (
	"math"

	"surepipe/array"
	"surepipe/hutch"
)

const (
	// firstStep times the smaller of sigma sqrt(d) and ||y|| is the length of the first step.
	firstStep = 1e-4
	// A step that meets a kink, or says nothing, is divided by shrink, at most steps-1 times.
	shrink = 8
	steps  = 4
	// formPart of a form is its error bar where the differences say it is less: what the tolerances of
	// the solution and of its derivative leave.
	formPart = 1e-3
	// forms is the number of random probes whose forms are compared with the divergence; few of them
	// are compared with differences too.
	forms = 30
	// stream sets the probes apart from those of the estimate under the same seed.
	stream = 0x76657269667921
)

// form is what is known of z* D mu_hat z for one probe.
type form struct {
	printed            float64 // by the linearization
	center, low, high  float64 // the differences: central and one-sided, the smaller and the larger
	bar                float64
	boundary, resolved bool
}

// off is how far the printed form is from the differences.
func (f form) off() float64 { return max(f.low-f.printed, f.printed-f.high, 0) }

// wide reports that the one-sided differences disagree.
func (f form) wide() bool {
	return f.high-f.low > 0.1*max(math.Abs(f.center), math.Abs(f.printed))+10*f.bar
}

// better reports that f says more than g.
func (f form) better(g form) bool {
	return f.wide() == g.wide() && f.bar < g.bar || !f.wide() && g.wide()
}

// differences compares the derivative along a few probes, and the divergence with what they
// say.
func (c *check) differences() error {
	units := c.d <= MaxUnits
	count, compared := forms, min(c.Probes, forms)
	if units {
		count, compared = c.d, c.d
	}
	z, image := c.dev.Alloc(count, c.d), c.dev.Alloc(count, c.d)
	defer z.Free()
	defer image.Free()
	if units {
		hutch.UnitVectors(z, 0)
	} else {
		hutch.Rademacher(z, c.Seed^stream, c.Sample, 0)
	}
	if err := c.Images.Apply(c.ctx, image, z); err != nil {
		return err
	}
	printed := make([]float64, count)
	c.dev.Dot(printed, z, image)
	c.v.Probes = compared
	all := make([]form, compared)
	worst, seen := form{}, false
	for i := range all {
		f, err := c.along(z.Rows(i, i+1), printed[i])
		if err != nil {
			return err
		}
		all[i] = f
		switch {
		case f.boundary:
			c.v.Boundaries++
		case !f.resolved:
			c.v.Unresolved++
		case !seen || f.off()*worst.bar > worst.off()*f.bar:
			worst, seen = f, true
		}
	}
	if seen {
		c.v.add(Derivative, worst.off(), worst.bar)
	}
	if units {
		c.sumOfUnits(all)
	} else {
		c.meanOfForms(printed, all)
	}
	return nil
}

// sumOfUnits compares the divergence with the sum over all unit vectors: of differences, and
// where there are none of what the linearization says.
func (c *check) sumOfUnits(all []form) {
	sum, bars := 0.0, 1e-6*float64(c.d) // their errors may well have one sign
	for _, f := range all {
		value, bar := f.printed, formPart*math.Abs(f.printed)
		if f.resolved && !f.boundary {
			value, bar = min(max(f.printed, f.low), f.high), f.bar
		}
		sum += value
		bars += bar
	}
	c.v.add(Divergence, c.Trace.Trace-sum, math.Hypot(bars, c.Trace.StdErr))
}

// meanOfForms compares the divergence with the mean of the forms, less what the
// differences say that these are off by. The forms of Rademacher probes have the variance
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
		if f.resolved && !f.boundary {
			shift += min(max(f.printed, f.low), f.high) - f.printed
			bar2 += f.bar * f.bar
			count++
		}
	}
	if count > 0 {
		mean += shift / count
		variance += bar2 / count
	}
	c.v.add(Divergence, c.Trace.Trace-mean, math.Sqrt(variance+c.Trace.StdErr*c.Trace.StdErr)+1e-6*float64(c.d))
}

// along takes differences along z, at smaller and smaller steps until they say something.
func (c *check) along(z array.Batch, printed float64) (form, error) {
	length := c.yNorm
	if noise := math.Sqrt(c.Sigma2 * float64(c.d)); length == 0 || noise < length {
		// Differences of solutions are no more exact than these are.
		length = max(noise, 1e-3*length)
	}
	h := firstStep * length / norm(z)
	best := form{}
	for k := range steps {
		f, err := c.step(z, printed, h)
		if err != nil {
			return form{}, err
		}
		if k == 0 || f.better(best) {
			best = f
		}
		if f.resolved && !f.wide() && f.off() <= f.bar {
			return f, nil
		}
		h /= shrink
	}
	best.boundary = best.wide()
	// Eigenvalues are in [0, 1], on either side of a kink.
	if z2 := dot(z, z); best.boundary && (printed < -1e-3*z2 || printed > (1+1e-3)*z2) {
		best.boundary, best.resolved = false, true
	}
	return best, nil
}

// step takes the differences at one step:
//
//	c(h) = z* (mu_hat(y + h z) - mu_hat(y - h z)) / 2h
//
// and the same at h/2, with the one-sided ones at h/2.
func (c *check) step(z array.Batch, printed, h float64) (form, error) {
	y, t := c.dev.Alloc(1, c.d), c.dev.Alloc(1, c.d)
	defer y.Free()
	defer t.Free()
	// moved is z* (mu_hat(y + a z) - mu_hat(y)), from a start at y's solution.
	moved := func(a float64, from array.Batch) (float64, array.Batch, error) {
		c.dev.Lin(y, 1, c.Y, a, z)
		sol, err := c.solve(y, from)
		if err != nil {
			return 0, array.Batch{}, err
		}
		c.dev.Lin(t, 1, sol.MuHat, -1, c.baseMu)
		sol.MuHat.Free()
		return dot(z, t), sol.B, nil
	}
	var at [4]float64
	var away array.Batch
	defer func() { away.Free() }()
	for i, a := range []float64{-h, -h / 2, h / 2, h} {
		m, b, err := moved(a, c.base)
		if err != nil {
			return form{}, err
		}
		at[i] = m
		away.Free()
		away = b
	}
	back, b, err := moved(0, away)
	if err != nil {
		return form{}, err
	}
	b.Free()
	wide, center := (at[3]-at[0])/(2*h), (at[2]-at[1])/h
	left, right := -at[1]/(h/2), at[2]/(h/2)
	noise := 2*math.Abs(back)/h + 32*eps*norm(z)*(c.yNorm+c.muNorm)/h
	f := form{printed: printed, center: center, low: min(left, right, center), high: max(left, right, center)}
	size := max(math.Abs(printed), math.Abs(center))
	f.bar = math.Sqrt(square(wide-center)+square(noise)+square(formPart*size)) + 1e-6*dot(z, z)
	f.resolved = f.bar <= 0.05*size+1e-3*dot(z, z)
	return f, c.dev.Err()
}

func square(x float64) float64 { return x * x }
