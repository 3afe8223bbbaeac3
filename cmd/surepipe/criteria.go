package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
)

// criteriaHelp explains the numbers by which weights may be chosen.
const criteriaHelp = `Beside SURE, these numbers need no sigma2 (df is the divergence, RSS the residual):

  gcv        d RSS / (d - df)^2, generalized cross-validation: the mean squared error of
             predicting one more observation, noise included. gcv_stderr includes the error
             that the trace causes, gcv_trace_stderr
  alo        leave-one-out: the mean of ((y_i - mu_hat_i)/(1 - D_ii))^2, with D the derivative of
             mu_hat; exact for ols and ridge. The probes of the trace show the diagonal of D too:
             alo is then an estimate (RandALO), and alo_probe_stderr the part of alo_stderr that
             is due to the probes; it takes at least 24, and not those of --trace hutch++. Where
             observations have leverages (D_ii) too near to 1 for the probes alo is left out, and
             alo_unresolved is their number. Where the trace takes no probes alo comes with --alo:
             from the exact diagonal where that is cheap or --trace is exact, else from 48 probes
  aic, bic   minus twice the logarithm of the likelihood, plus 2 df, or df log d; without
             sigma2, which then counts as a parameter, 2 (df + 1) and (df + 1) log d
  sigma2_df  RSS / (d - df): an estimate of sigma2, too large by the squared bias of the fit

Without sigma2 everything else is computed, and SURE and its error are left out.`

// criteriaResult is the part of the JSON of one sample that needs no sigma2. A number that is not
// defined is absent.
type criteriaResult struct {
	DF             *float64 `json:"df,omitempty"`
	GCV            *float64 `json:"gcv,omitempty"`
	GCVStdErr      *float64 `json:"gcv_stderr,omitempty"`
	GCVTraceStdErr *float64 `json:"gcv_trace_stderr,omitempty"`
	ALO            *float64 `json:"alo,omitempty"`
	ALOStdErr      *float64 `json:"alo_stderr,omitempty"`
	// ALOProbeStdErr is the part of ALOStdErr that the choice of probes causes.
	ALOProbeStdErr *float64 `json:"alo_probe_stderr,omitempty"`
	// ALOUnresolved is the number of observations because of which there is no ALO: their leverages are
	// too near to 1 for the probes, or one Newton step does not tell the fit without them.
	ALOUnresolved int `json:"alo_unresolved,omitempty"`
	// ALONotLeftOut is the number of observations that alone determine an effect: ALO is the mean over
	// the others.
	ALONotLeftOut int      `json:"alo_not_left_out,omitempty"`
	AIC           *float64 `json:"aic,omitempty"`
	BIC           *float64 `json:"bic,omitempty"`
	Sigma2DF      *float64 `json:"sigma2_df,omitempty"`
}

// targetsResult is the part that says what the estimates are about, absent where that goes without
// saying.
type targetsResult struct {
	SUREEstimates string `json:"sure_estimates,omitempty"`
	// ALOEstimates is about gcv too.
	ALOEstimates string `json:"alo_estimates,omitempty"`
	// Noise is how the noise is not white: the estimates are then those of the whitened y.
	Noise problems.Noise `json:"noise,omitempty"`
}

func targetsOf(p *problems.Problem, sigma2 float64) targetsResult {
	t := targetsResult{p.Targets.SURE, p.Targets.Prediction, p.Targets.Noise}
	if sigma2 == 0 {
		t.SUREEstimates = ""
	}
	return t
}

// defined is nil for NaN and infinities.
func defined(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func criteriaOf(r pipeline.Risk) criteriaResult {
	return criteriaResult{
		defined(r.Trace.Trace), defined(r.GCV), defined(r.GCVStdErr), defined(r.GCVTraceErr), defined(r.ALO), defined(r.ALOStdErr), defined(r.ALOProbesErr), r.Unresolved, r.NotLeftOut,
		defined(r.AIC), defined(r.BIC), defined(r.Sigma2DF),
	}
}

// value is that of a criterion with its standard error, NaN where they are absent.
func (r *result) value(c risk.Criterion) (value, stdErr float64) {
	at := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	switch c {
	case risk.SURE:
		return at(r.SURE), at(r.SUREStdErr)
	case risk.GCV:
		return at(r.GCV), at(r.GCVStdErr)
	case risk.ALO:
		return at(r.ALO), at(r.ALOStdErr)
	case risk.AIC:
		return at(r.AIC), math.NaN()
	case risk.BIC:
		return at(r.BIC), math.NaN()
	}
	return math.NaN(), math.NaN()
}

// label is the name of a criterion in tables and figures.
func label(c risk.Criterion) string { return strings.ToUpper(string(c)) }

// unknown stands for a value that is not defined, or cannot be known.
const unknown = "not known"

// plusMinus is a value with its standard error where it has one.
func plusMinus(value, stdErr float64) string {
	switch {
	case math.IsNaN(value):
		return unknown
	case math.IsNaN(stdErr):
		return fmt.Sprintf("%.6g", value)
	}
	return fmt.Sprintf("%.6g ± %.2g", value, stdErr)
}

// writeCriteria prints them as rows of a table.
func (r *result) writeCriteria(w io.Writer) {
	if r.SURE != nil {
		fmt.Fprintf(w, "SURE\t%.6g ± %.2g\t%.6g per coordinate\n", *r.SURE, *r.SUREStdErr, *r.SUREPerCoordinate)
	}
	if r.SUREEstimates != "" {
		fmt.Fprintf(w, "\t\tSURE is about %s\n", r.SUREEstimates)
	}
	for _, c := range []struct {
		criterion risk.Criterion
		text      string
	}{{risk.GCV, "mean squared error of prediction, noise included"}, {risk.ALO, "the same by leaving out one observation"}, {risk.AIC, ""}, {risk.BIC, ""}} {
		value, stdErr := r.value(c.criterion)
		// The coupled bootstrap has none.
		if (r.LossName != "" || r.Alpha > 0 || c.criterion == risk.ALO) && math.IsNaN(value) && (c.criterion != risk.ALO || r.ALOUnresolved == 0) {
			continue
		}
		if c.criterion == risk.ALO && r.LossName != "" {
			c.text = "mean loss of an observation that is left out"
		}
		if c.criterion == risk.ALO && r.ALOProbeStdErr != nil && *r.ALOProbeStdErr > 0 {
			c.text += fmt.Sprintf(", from probes: ± %.2g", *r.ALOProbeStdErr)
		}
		if c.criterion == risk.ALO && r.ALOUnresolved > 0 {
			c.text = fmt.Sprintf("because of %d of %d observations", r.ALOUnresolved, r.D)
		}
		if c.criterion == risk.ALO && r.ALONotLeftOut > 0 {
			c.text += fmt.Sprintf("; %d of %d observations determine an effect alone and are not left out", r.ALONotLeftOut, r.D)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", label(c.criterion), plusMinus(value, stdErr), c.text)
		if c.criterion == risk.GCV && r.ALOEstimates != "" {
			fmt.Fprintf(w, "\t\tGCV and leave-one-out aim at %s\n", r.ALOEstimates)
		}
	}
}
