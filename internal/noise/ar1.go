package noise

import (
	"math"
)

const MethodAR1 = "ar1"

// Autoregression is an estimate of noise e_t = rho e_{t-1} + innovation, of variance Sigma2 of e.
type Autoregression struct {
	Estimate
	// Rho is the correlation of neighbours, and RhoStdErr its standard error.
	Rho, RhoStdErr float64
}

const (
	leastSeries = 30
	// mostRho is the largest correlation that is looked for: beyond it noise cannot be told from a trend.
	mostRho = 0.95
	// rhoPrior is twice the exponent of the prior (1 - rho^2)^2, which keeps the estimate off 1, where noise
	// takes the place of the trend.
	rhoPrior = 4
	// mostStdErr is the largest error of the correlation with which it tells something.
	mostStdErr = 0.3
	// leastInnovation is the least share of the innovations' variance in that of the differences of y that is noise.
	leastInnovation = 1e-3
	rhoSteps        = 28 // of the first search, and lambdaSteps a decade
	lambdaSteps     = 2
	arRounds        = 6 // of searches along both coordinates
)

// AR1 estimates autoregressive noise about a trend: y = b + e, where the differences of b of the order are independent
// and normal with the innovations' variance over lambda. (rho, lambda) maximize the restricted likelihood
// (Patterson and Thompson 1971) with the innovations' variance profiled out,
//
//	-2 l = m log s^2 + log det N - m log lambda - log det W,   s^2 = (y* W y - y* W N^{-1} W y)/m,   m = n - order,
//
// times a prior (1 - rho^2)^2 of rho; W = the inverse covariance of e for innovations of variance 1, tridiagonal, and N
// = W + lambda D*D is banded, so that each likelihood takes O(n order^2) operations. Standard errors come from the
// curvature of l. Of 500 values about straight lines the errors of rho are 0.04. With order 2 sigma2 is too small by up
// to a third about a sine, and too large by as much about levels with jumps; order 1 follows slow noise.
func AR1(y []float64, order int) (Autoregression, error) {
	fail := func(format string, args ...any) (Autoregression, error) {
		e, err := refuse(MethodAR1, format, args...)
		return Autoregression{Estimate: e}, err
	}
	most, bad := largest(y)
	switch {
	case bad >= 0:
		return fail("y holds %g at [%d], expected finite numbers", y[bad], bad)
	case len(y) < leastSeries:
		return fail("y has %d values, expected at least %d", len(y), leastSeries)
	case most == 0:
		return fail("y is 0")
	}
	r := newRestricted(y, most, order)
	rho, lambda := r.maximize()
	value := r.at(rho, lambda)
	noise := r.innovation / (1 - rho*rho)
	if !(r.innovation > leastInnovation*r.rough) || lambda <= r.least {
		return fail("the trend takes all of y: there is no noise that is rougher than it, as in a random walk")
	}
	const h = 0.02
	curve := func(dr, dl float64) float64 { return r.at(rho+dr*h, lambda+dl*10*h) }
	rr := (curve(1, 0) + curve(-1, 0) - 2*value) / (h * h)
	ll := (curve(0, 1) + curve(0, -1) - 2*value) / (100 * h * h)
	rl := (curve(1, 1) + curve(-1, -1) - curve(1, -1) - curve(-1, 1)) / (40 * h * h)
	if ll > 0 {
		rr -= rl * rl / ll
	}
	if !(rr > 0) {
		return fail("the likelihood of its correlation has no maximum: noise and trend cannot be told apart")
	}
	out := Autoregression{Rho: rho, RhoStdErr: math.Sqrt(2 / rr)}
	if out.RhoStdErr > mostStdErr {
		return fail("its correlation is %.2f ± %.2f: noise and trend cannot be told apart, as in a random walk", rho,
			out.RhoStdErr)
	}
	// sigma2 = s^2/(1 - rho^2), with s^2 and rho about independent.
	m := float64(len(y) - order)
	relative := math.Hypot(math.Sqrt(2/m), 2*rho/(1-rho*rho)*out.RhoStdErr)
	var err error
	out.Estimate, err = estimate(MethodAR1, noise*most*most, relative)
	return out, err
}

// restricted is minus twice the restricted likelihood.
type restricted struct {
	y            []float64
	order, width int
	penalty, n   [][]float64 // the bands of D*D and of N, by offset
	work, wy     []float64
	innovation   float64 // of the last evaluation
	rough        float64 // the mean square of the differences of y
	least, most  float64 // log lambda
}

func newRestricted(y []float64, unit float64, order int) *restricted {
	n := len(y)
	r := &restricted{y: make([]float64, n), order: order, width: max(order, 1), work: make([]float64, n),
		wy: make([]float64, n)}
	for i, v := range y {
		r.y[i] = v / unit
		if i > 0 {
			d := r.y[i] - r.y[i-1]
			r.rough += d * d / float64(n-1)
		}
	}
	coefficients := []float64{1}
	for range order {
		next := make([]float64, len(coefficients)+1)
		for i, c := range coefficients {
			next[i] -= c
			next[i+1] += c
		}
		coefficients = next
	}
	for range r.width + 1 {
		r.penalty, r.n = append(r.penalty, make([]float64, n)), append(r.n, make([]float64, n))
	}
	for first := range n - order {
		for i, a := range coefficients {
			for k := i; k <= order; k++ {
				r.penalty[k-i][first+i] += a * coefficients[k]
			}
		}
	}
	r.least, r.most = math.Log(1e-2), 2*float64(order)*math.Log(float64(n)/2)
	return r
}

// at is minus twice the logarithm of the posterior at rho and log lambda, +Inf where it is not defined.
func (r *restricted) at(rho, logLambda float64) float64 {
	n, lambda := len(r.y), math.Exp(logLambda)
	if !(math.Abs(rho) < 1) {
		return math.Inf(1)
	}
	for k := range r.n {
		for i, v := range r.penalty[k] {
			r.n[k][i] = lambda * v
		}
	}
	inside := 1 + rho*rho
	for i := range n {
		w := inside
		if i == 0 || i == n-1 {
			w = 1
		}
		r.n[0][i] += w
		r.wy[i] = w * r.y[i]
		if i > 0 {
			r.n[1][i-1] -= rho
			r.wy[i] -= rho * r.y[i-1]
			r.wy[i-1] -= rho * r.y[i]
		}
	}
	form := 0.0
	for i, v := range r.wy {
		form += v * r.y[i]
	}
	logDet := 0.0
	// L L* = N by columns, with L in the place of N, and work = L^{-1} W y.
	copy(r.work, r.wy)
	for j := range n {
		pivot := r.n[0][j]
		if !(pivot > 0) {
			return math.Inf(1)
		}
		logDet += math.Log(pivot)
		root := math.Sqrt(pivot)
		most := min(r.width, n-1-j)
		r.work[j] /= root
		form -= r.work[j] * r.work[j]
		for k := 1; k <= most; k++ {
			r.n[k][j] /= root
			r.work[j+k] -= r.n[k][j] * r.work[j]
		}
		for k := 1; k <= most; k++ {
			for i := k; i <= most; i++ {
				r.n[i-k][j+k] -= r.n[i][j] * r.n[k][j]
			}
		}
	}
	m := float64(n - r.order)
	if r.innovation = form / m; !(r.innovation > 0) {
		return math.Inf(1)
	}
	return m*math.Log(r.innovation) + logDet - m*logLambda - (1+rhoPrior)*math.Log(1-rho*rho)
}

// maximize searches a grid, and then along each coordinate by golden sections.
func (r *restricted) maximize() (rho, logLambda float64) {
	best := math.Inf(1)
	step := math.Ln10 / lambdaSteps
	for i := range rhoSteps + 1 {
		x := -0.45 + (mostRho+0.45)*float64(i)/rhoSteps
		for l := r.least; l <= r.most; l += step {
			if v := r.at(x, l); v < best {
				best, rho, logLambda = v, x, l
			}
		}
	}
	wide := (mostRho + 0.45) / rhoSteps
	for range arRounds {
		along := func(x float64) float64 { return r.at(x, logLambda) }
		rho = golden(along, max(rho-wide, -mostRho), min(rho+wide, mostRho))
		logLambda = golden(func(l float64) float64 { return r.at(rho, l) }, max(logLambda-step, r.least),
			min(logLambda+step, r.most))
	}
	return rho, logLambda
}

func golden(f func(float64) float64, a, b float64) float64 {
	const ratio, steps = 0.6180339887498949, 20
	x, z := b-ratio*(b-a), a+ratio*(b-a)
	fx, fz := f(x), f(z)
	for range steps {
		if fx < fz {
			b, z, fz = z, x, fx
			x = b - ratio*(b-a)
			fx = f(x)
		} else {
			a, x, fx = x, z, fz
			z = a + ratio*(b-a)
			fz = f(z)
		}
	}
	return (a + b) / 2
}
