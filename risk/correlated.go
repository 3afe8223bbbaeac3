package risk

import "math"

// Correlated are the terms of one fit where the covariance of the noise is sigma2 C, C with a diagonal of ones, by
// which SURE is
//
//	-d sigma2 + ||y - mu_hat||^2 + 2 sigma2 tr C D mu_hat.
//
// With eps = y - mu ~ N(0, sigma2 C), f = y - mu_hat, and F its derivative I - D, the second order Stein formula of
// [Terms.UnbiasedStdErr] is
//
//	E (SURE - loss)^2 = E [4 sigma2 f* C f + 4 sigma2^2 tr (C D)^2 - 2 sigma2^2 tr C^2].
type Correlated struct {
	// Trace is tr C D mu_hat and TraceErr its error by probes, 0 where it is exact.
	Trace    float64 `json:"trace"`
	TraceErr float64 `json:"trace_stderr,omitempty"`
	// ByRho is how far the error of an estimated correlation moves Trace.
	ByRho float64 `json:"trace_by_rho,omitempty"`
	// Residual is f* C f for the residuals f, Squares tr (C D)^2, and All tr C^2.
	Residual float64 `json:"residual"`
	Squares  float64 `json:"squares"`
	All      float64 `json:"all"`
	// Most is the largest eigenvalue of C, or a bound of it.
	Most float64 `json:"most"`
}

// AR1 is the covariance C_ij = rho^|i-j| of autoregressive noise e_t = rho e_{t-1} + innovation of variance 1, by its
// Cholesky factor C = L L*: e_0 = w_0 and e_t = rho e_{t-1} + (1 - rho^2)^{1/2} w_t.
type AR1 float64

// Colour replaces x by L x.
func (rho AR1) Colour(x []float64) {
	r, root := float64(rho), math.Sqrt(1-float64(rho*rho))
	for t := 1; t < len(x); t++ {
		x[t] = r*x[t-1] + root*x[t]
	}
}

// Adjoint replaces x by L* x.
func (rho AR1) Adjoint(x []float64) {
	r, root := float64(rho), math.Sqrt(1-float64(rho*rho))
	for t := len(x) - 1; t > 0; t-- {
		x[t-1] += r * x[t]
		x[t] *= root
	}
}

// Whiten replaces x by L^{-1} x, which it returns.
func (rho AR1) Whiten(x []float64) []float64 {
	r, root := float64(rho), math.Sqrt(1-float64(rho*rho))
	for t := len(x) - 1; t > 0; t-- {
		x[t] = (x[t] - r*x[t-1]) / root
	}
	return x
}

// Times is C x in a new slice.
func (rho AR1) Times(x []float64) []float64 {
	y, r := make([]float64, len(x)), float64(rho)
	before, after := 0.0, 0.0
	for t, v := range x {
		y[t] += v + before
		before = r * (before + v)
		s := len(x) - 1 - t
		y[s] += after
		after = r * (after + x[s])
	}
	return y
}

// Form is x* C x.
func (rho AR1) Form(x []float64) (sum float64) {
	before := 0.0 // sum over s < t of rho^(t-s) x_s
	for _, v := range x {
		sum += v * (v + 2*before)
		before = float64(rho) * (before + v)
	}
	return sum
}

// Squares is tr C^2 for d observations.
func (rho AR1) Squares(d int) float64 {
	n, q := float64(d), float64(rho*rho)
	// sum over i, j of q^|i-j|.
	return (n*(1-q*q) - 2*q*(1-math.Pow(q, n))) / ((1 - q) * (1 - q))
}

// Most bounds the largest eigenvalue of C.
func (rho AR1) Most() float64 {
	r := math.Abs(float64(rho))
	return (1 + r) / (1 - r)
}
