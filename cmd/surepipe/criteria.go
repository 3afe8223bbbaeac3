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
func criteriaHelp() string {
	var b strings.Builder
	b.WriteString("Beside SURE, these numbers need no sigma2 (df is the divergence, RSS the residual):\n\n")
	for _, r := range risk.Rules() {
		if !r.Sigma2 {
			writeTerm(&b, string(r.Name), r.Help)
		}
	}
	writeTerm(&b, "sigma2_df", "RSS / (d - df): an estimate of sigma2, too large by the squared bias of the fit")
	b.WriteString("\nWithout sigma2 everything else is computed, and SURE and its error are left out.")
	return b.String()
}

// writeTerm writes a name and its explanation in two columns.
func writeTerm(b *strings.Builder, name, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "  %-10s %s\n", name, strings.TrimSuffix(line, "\n"))
		name = ""
	}
}

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
	// Criteria has those that are added to the table, with their standard errors.
	Criteria map[string]float64 `json:"criteria,omitempty"`
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
	c := criteriaResult{
		DF: defined(r.Trace.Trace), GCV: defined(r.GCV), GCVStdErr: defined(r.GCVStdErr), GCVTraceStdErr: defined(r.GCVTraceErr),
		ALO: defined(r.ALO), ALOStdErr: defined(r.ALOStdErr), ALOProbeStdErr: defined(r.ALOProbesErr), ALOUnresolved: r.Unresolved, ALONotLeftOut: r.NotLeftOut,
		AIC: defined(r.AIC), BIC: defined(r.BIC), Sigma2DF: defined(r.Sigma2DF),
	}
	own := (&result{criteriaResult: c}).numbers()
	for _, rule := range risk.Rules() {
		name := string(rule.Name)
		if _, known := own[name]; known {
			continue
		}
		value, stdErr := rule.Value(r.Fitted())
		for key, v := range map[string]float64{name: value, name + "_stderr": stdErr} {
			if defined(v) == nil {
				continue
			}
			if c.Criteria == nil {
				c.Criteria = map[string]float64{}
			}
			c.Criteria[key] = v
		}
	}
	return c
}

// textsOf are the texts beside the criteria.
func textsOf(r pipeline.Risk) map[risk.Criterion]string {
	texts := map[risk.Criterion]string{}
	for _, rule := range risk.Rules() {
		if rule.Text != nil {
			texts[rule.Name] = rule.Text(r.Fitted())
		}
	}
	return texts
}

// numbers are the values of the criteria's own keys of the JSON, nil where they are absent.
func (r *result) numbers() map[string]*float64 {
	return map[string]*float64{
		"sure": r.SURE, "sure_stderr": r.SUREStdErr, "gcv": r.GCV, "gcv_stderr": r.GCVStdErr, "alo": r.ALO, "alo_stderr": r.ALOStdErr, "alo_probe_stderr": r.ALOProbeStdErr,
		"aic": r.AIC, "bic": r.BIC, "sigma2_df": r.Sigma2DF,
	}
}

// number is the value of a key of the JSON, nil where it is absent.
func (r *result) number(key string) *float64 {
	if v, own := r.numbers()[key]; own {
		return v
	}
	if v, ok := r.Criteria[key]; ok {
		return &v
	}
	return nil
}

// value is that of a criterion with its standard error, NaN where they are absent.
func (r *result) value(c risk.Criterion) (value, stdErr float64) {
	at := func(key string) float64 {
		if v := r.number(key); v != nil {
			return *v
		}
		return math.NaN()
	}
	return at(string(c)), at(string(c) + "_stderr")
}

// label is the name of a criterion in tables and figures.
func label(c risk.Criterion) string { return c.Rule().Label }

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
	aimed := false
	for _, rule := range risk.Rules() {
		value, stdErr := r.value(rule.Name)
		text := r.texts[rule.Name]
		// The coupled bootstrap has no GCV, and other losses have few criteria.
		optional := r.LossName != "" || r.Alpha > 0 || rule.Sigma2 || rule.Diagonal
		if !math.IsNaN(value) || !optional || rule.Diagonal && text != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\n", rule.Label, plusMinus(value, stdErr), text)
			if rule.Predicts && r.LossName == "" && r.ALOEstimates != "" && !aimed {
				aimed = true
				fmt.Fprintf(w, "\t\tGCV and leave-one-out aim at %s\n", r.ALOEstimates)
			}
		}
		if rule.Sigma2 && r.SUREEstimates != "" {
			fmt.Fprintf(w, "\t\t%s is about %s\n", rule.Label, r.SUREEstimates)
		}
	}
}
