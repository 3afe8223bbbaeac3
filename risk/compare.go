package risk

import (
	"cmp"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/hutch"
	"surepipe/internal/lists"
)

// Digest is what one fit leaves behind so that it can be compared with other fits to the same y,
// whatever d is: projections ([hutch.Projection]) in the place of vectors.
type Digest struct {
	// D is the number of observations.
	D int `json:"d"`
	// Divergence, StdErr, Truncation and Queries are those of the trace's estimate; Queries is 0
	// where it is exact.
	Divergence float64 `json:"divergence"`
	// Trace is tr C D mu_hat where the noise has the covariance sigma2 C, and ByRho how far the error of an estimated
	// correlation moves it; 0 for white noise.
	Trace      float64 `json:"trace,omitempty"`
	ByRho      float64 `json:"trace_by_rho,omitempty"`
	StdErr     float64 `json:"stderr,omitempty"`
	Truncation float64 `json:"truncation,omitempty"`
	Queries    int     `json:"queries,omitempty"`
	// Forms are <w_j, J w_j> of the first probes w_j of the trace's estimate, which all fits have in
	// common; none where the trace is exact, or not a mean over probes.
	Forms *Packed `json:"forms,omitempty"`
	// Residual is the projection of y - mu_hat; it and Images are for the squared loss alone.
	Residual *Packed `json:"residual,omitempty"`
	// Images is the projection of the images J w_0 ... J w_{k-1} of common probes, k = Probes; or, with
	// Probes 1, the coordinates of J in a frame ([hutch.Frame]), which are exact up to 44 dimensions.
	Images *Packed `json:"images,omitempty"`
	Probes int     `json:"probes,omitempty"`
	// Losses is the projection of the errors of predicting each observation, for alo; or of Units units of
	// observations that are left out together, each a sum times Units/d. Units is 0 for single observations.
	Losses *Packed `json:"losses,omitempty"`
	Units  int     `json:"units,omitempty"`
	// Influences are those of groups of the probes, which all fits have in common, on alo where it comes
	// from them: their norm is alo's error by the probes.
	Influences *Packed `json:"influences,omitempty"`
}

// Fit is a fit in a comparison: its value of the criterion, and its digest, nil where it left none.
type Fit struct {
	Value float64
	*Digest
}

// Difference is an estimate of a difference, and its standard error: NaN where it is not known.
type Difference struct{ Value, StdErr float64 }

// Comparison compares fits to the same y that differ in their weights, by a criterion.
type Comparison struct {
	Criterion Criterion
	// Sigma2 is the variance of the noise, 0 where it is not known, and RelStdErr its standard error
	// over its value, 0 where it is exact.
	Sigma2, RelStdErr float64
	// Noise is the correlation of the noise of neighbours, 0 where it is white.
	Noise AR1
}

// most bounds the variance of the noise in any direction. Differences of smooth fits are near it.
func (c Comparison) most() float64 { return c.Sigma2 * c.Noise.Most() }

// Difference is Value(a) - Value(b), with its error as an estimate of the difference of what the
// criterion estimates.
//
// For SURE that is the difference of the losses ||mu_hat - mu||^2. With eps = y - mu, h = mu_hat_a -
// mu_hat_b, and D h = J_a - J_b,
//
//	(SURE_a - loss_a) - (SURE_b - loss_b) = -2 (<eps, h> - sigma2 div h),
//
// whose mean is 0 and whose variance, for normal noise and mu_hat that are weakly differentiable with
// symmetric Jacobians, is by the second order Stein formula (Bellec and Zhang 2021, "Second order
// Stein: SURE for SURE and other applications in high-dimensional inference", theorem 2.1)
//
//	4 sigma2 E ||h||^2 + 4 sigma2^2 E ||J_a - J_b||_F^2.
//
// (The error that all SURE share, ||eps||^2 - d sigma2, has gone.) The norms at this y stand for
// their expectations, those of projections for the norms, sqrt(2/s) off, and k probes, or the
// coordinates in a frame, for the Frobenius norm. Two errors are added: that of the traces, from the forms of
// the probes that both have in common (independent errors where there are none), and that of an estimated sigma2. AIC
// with a known sigma2 is SURE/sigma2 and a constant.
//
// For GCV it is the same by the delta method, with the residual variance s^2 = RSS/(d - df) of b in
// the place of sigma2: dGCV = g^2/d (dRSS + 2 s^2 ddf), g = d/(d - df), is SURE's change times g^2/d,
// and g^2 is the mean of those of a and b. It is the error as an estimate of the difference of the
// losses, each times g^2/d.
//
// For ALO it is the larger of GCV's and of the paired error, the standard error of the mean of the d
// differences of the left-out errors as if these were independent, with the error of the common probes
// where the leverages come from probes. That alone takes the leverages as
// given, whose changes from draw to draw are most of the error of near pairs (a LASSO with d < p:
// within one paired error in a quarter of the draws). It stands alone for other losses than the
// squared one, of which there are no images, and is then too small for near pairs.
//
// For CV it is the paired error alone, over the units that are left out together.
//
// For BIC, and AIC without sigma2, which do not estimate a risk, it is NaN.
func (c Comparison) Difference(a, b Fit) Difference {
	d := Difference{Value: a.Value - b.Value, StdErr: math.NaN()}
	if a.Digest == nil || b.Digest == nil {
		return d
	}
	rule := c.Criterion.Rule()
	if unit := rule.unit(c.Sigma2); unit > 0 {
		d.StdErr = c.ofSURE(a.Digest, b.Digest) / unit
	} else if rule.Difference != nil {
		d.StdErr = rule.Difference(a, b)
	}
	return d
}

func ofALO(a, b Fit) float64 {
	e := paired(a, b)
	if by := ofGCV(a, b); !math.IsNaN(by) && !(e > by) {
		return by
	}
	return e
}

func ofGCV(a, b Fit) float64 {
	ga, gb := a.share(), b.share()
	s := Comparison{Sigma2: b.Value / gb}
	return (ga*ga + gb*gb) / 2 / float64(b.D) * s.ofSURE(a.Digest, b.Digest)
}

func (d *Digest) share() float64 { return float64(d.D) / (float64(d.D) - d.Divergence) }

func (c Comparison) ofSURE(a, b *Digest) float64 {
	if !alike(a.Residual, b.Residual) || !alike(a.Images, b.Images) || a.Probes != b.Probes || a.Probes == 0 {
		return math.NaN()
	}
	h := distance(a.Residual, b.Residual)
	frobenius := distance(a.Images, b.Images) / math.Sqrt(float64(a.Probes))
	s := c.most()
	return floats.Norm([]float64{
		2 * math.Sqrt(s) * h, 2 * s * frobenius,
		2 * s * traceError(a, b),
		2 * c.Sigma2 * c.RelStdErr * (a.covarianceTrace() - b.covarianceTrace()), 2 * c.Sigma2 * (a.ByRho - b.ByRho),
	}, 2)
}

func (d *Digest) covarianceTrace() float64 { return cmp.Or(d.Trace, d.Divergence) }

func alike(a, b *Packed) bool { return a != nil && b != nil && a.Len() == b.Len() }

func distance(a, b *Packed) float64 {
	diff := lists.Make(a.Len(), func(i int) float64 { return a.At(i) - b.At(i) })
	return floats.Norm(diff, 2)
}

// paired is the standard error of the mean of d differences of which the projection is known, widened by Student's
// distribution where they are of units of several observations.
func paired(a, b Fit) float64 {
	units := cmp.Or(a.Units, a.D)
	if !alike(a.Losses, b.Losses) || a.Units != b.Units || units < 2 {
		return math.NaN()
	}
	d, wide := float64(units), 1.0
	if units < a.D {
		wide = hutch.Widened(units - 1)
	}
	norm, mean := distance(a.Losses, b.Losses), math.Abs(a.Value-b.Value)*math.Sqrt(d)
	probes := influence(a.Influences, b.Influences)
	if mean >= norm {
		return probes
	}
	return math.Hypot(wide*math.Sqrt(norm-mean)*math.Sqrt(norm+mean)/math.Sqrt(d*(d-1)), probes)
}

// notLinear is the share of either fit's error by the probes that is added to that of a difference: in
// simulations the rest, to first order, was right within a half but for near pairs now and then.
const notLinear = 0.1

// influence is the error of a difference by the probes that both fits have in common; nil stands for
// exact leverages.
func influence(a, b *Packed) float64 {
	if a == nil || b == nil {
		if a == nil {
			a = b
		}
		if a == nil {
			return 0
		}
		return size(a)
	}
	if !alike(a, b) {
		return math.NaN()
	}
	return math.Hypot(distance(a, b), notLinear*max(size(a), size(b)))
}

func size(a *Packed) float64 { return distance(a, &Packed{Unit: 1, Numbers: make([]float32, a.Len())}) }

// traceError is the error of t_a - t_b for the estimates t of the two traces. With the m probes of
// the fit with fewer and n of the other it has the variance
//
//	m Var(q_a/m - q_b/n) + (n - m) Var(q_b/n)
//
// for forms q of the same probe in both; an exact trace has none. Truncation, by which a trace may be
// too small, counts as much as it can.
func traceError(a, b *Digest) float64 {
	bias := max(a.Truncation, b.Truncation)
	if a.StdErr == 0 || b.StdErr == 0 || !alike(a.Forms, b.Forms) || a.Forms.Len() < 2 {
		return floats.Norm([]float64{a.StdErr, b.StdErr, bias}, 2)
	}
	if a.Queries > b.Queries {
		a, b = b, a
	}
	k, m, n := a.Forms.Len(), float64(a.Queries), float64(b.Queries)
	both, rest := make([]float64, k), make([]float64, k)
	for j := range both {
		both[j] = a.Forms.At(j)/m - b.Forms.At(j)/n
		rest[j] = b.Forms.At(j) / n
	}
	wide := hutch.Widened(k - 1)
	return floats.Norm([]float64{wide * math.Sqrt(m) * deviation(both), wide * math.Sqrt(n-m) * deviation(rest),
		bias}, 2)
}

func deviation(x []float64) float64 {
	mean := floats.Sum(x) / float64(len(x))
	off := lists.Map(x, func(v float64) float64 { return v - mean })
	return floats.Norm(off, 2) / math.Sqrt(float64(len(x)-1))
}
