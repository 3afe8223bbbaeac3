package system

import "math"

// radau bounds the error of the quadratic form that conjugate gradients have summed. For S x = r_0,
// S symmetric and positive definite, with the coefficients alpha_k = ||r_k||^2/<p_k, S p_k> and
// beta_k = ||r_k||^2/||r_{k-1}||^2,
//
//	<r_0, S^{-1} r_0> = sum_{k<n} alpha_k ||r_k||^2 + <r_n, S^{-1} r_n>,
//	0 <= <r_n, S^{-1} r_n> <= gamma_n ||r_n||^2,
//	gamma_0 = 1/mu,   gamma_{k+1} = (gamma_k - alpha_k)/(mu (gamma_k - alpha_k) + beta_{k+1}),
//
// for every mu below the eigenvalues of S whose eigenvectors occur in r_0: the Gauss-Radau rule
// with the node mu (Golub and Meurant, Matrices, Moments and Quadrature with Applications, 2010;
// the recurrence is Meurant's and Tichy's, On computing quadrature-based bounds for the A-norm of
// the error in conjugate gradients, Numerical Algorithms 62, 2013). With the smallest eigenvalue
// for mu it is never larger than ||r_n||^2/mu, and mostly much smaller.
//
// gamma_k > alpha_k for all k < n if and only if mu is below all eigenvalues of the n x n Lanczos
// matrix of the coefficients.
type radau struct {
	mu, gamma   float64
	alpha, beta []float64 // of all steps so far
}

func (g *radau) start(mu float64) { g.mu, g.gamma = mu, 1/mu }

// add records the coefficients of a step, alpha_k and beta_{k+1}, and reports whether the node
// is still below all Ritz values.
func (g *radau) add(alpha, beta float64) bool {
	g.alpha, g.beta = append(g.alpha, alpha), append(g.beta, beta)
	var ok bool
	g.gamma, ok = advance(g.mu, g.gamma, alpha, beta)
	return ok
}

// lower divides the node by 4 until it is below all Ritz values.
func (g *radau) lower() {
	for ok := false; !ok && g.mu > 0; {
		g.mu /= 4
		g.gamma, ok = g.at(g.mu)
	}
}

// at runs the recurrence from the beginning with the node mu.
func (g *radau) at(mu float64) (gamma float64, ok bool) {
	gamma, ok = 1/mu, true
	for k := 0; ok && k < len(g.alpha); k++ {
		gamma, ok = advance(mu, gamma, g.alpha[k], g.beta[k])
	}
	return gamma, ok
}

func advance(mu, gamma, alpha, beta float64) (next float64, ok bool) {
	over := gamma - alpha
	return over / (mu*over + beta), over > 0
}

// smallest returns the smallest eigenvalue of the Lanczos matrix after the given number of steps, a
// Ritz value of S, to a relative accuracy of 1e-3, by bisection. It is 0 before the first step.
func (g *radau) smallest(steps int) float64 {
	if steps == 0 {
		return 0
	}
	g = &radau{alpha: g.alpha[:steps], beta: g.beta[:steps]}
	// The first diagonal entry is an upper bound. Values far below it are rounding errors.
	high := 1 / g.alpha[0]
	low := high * 0x1p-60
	if _, ok := g.at(low); !ok {
		return low
	}
	for high > low*(1+1e-3) {
		middle := math.Sqrt(low * high)
		if _, ok := g.at(middle); ok {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
