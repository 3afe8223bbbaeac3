package study

import (
	"math"

	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
)

// CriteriaResult is the part of the JSON of one sample that needs no sigma2. A number that is not
// defined is absent.
type CriteriaResult struct {
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
	ALONotLeftOut int `json:"alo_not_left_out,omitempty"`
	// LeverageSD is the standard deviation of the leverages, whose mean is df/d, and LeveragesNearOne the share of them
	// that are above 0.99, where they are known.
	LeverageSD       *float64 `json:"leverage_sd,omitempty"`
	LeveragesNearOne *float64 `json:"leverages_near_one,omitempty"`
	AIC              *float64 `json:"aic,omitempty"`
	BIC              *float64 `json:"bic,omitempty"`
	Sigma2DF         *float64 `json:"sigma2_df,omitempty"`
	// Criteria has the criteria of the table, and their standard errors, that have no field above.
	Criteria map[string]float64 `json:"criteria,omitempty"`
}

// TargetsResult is the part that says what the estimates are about, absent where that goes without
// saying.
type TargetsResult struct {
	SUREEstimates string `json:"sure_estimates,omitempty"`
	// ALOEstimates is about gcv too.
	ALOEstimates string `json:"alo_estimates,omitempty"`
	// Noise is how the noise is not white: the estimates are then those of the whitened y.
	Noise problems.Noise `json:"noise,omitempty"`
}

func TargetsOf(p *problems.Problem, sigma2 float64) TargetsResult {
	t := TargetsResult{p.Targets.SURE, p.Targets.Prediction, p.Targets.Noise}
	if sigma2 == 0 {
		t.SUREEstimates = ""
	}
	return t
}

func criteriaOf(r pipeline.Risk) CriteriaResult {
	alo, aloErr := r.Estimated(risk.ALO)
	_, gcvErr := r.Estimated(risk.GCV)
	c := CriteriaResult{
		DF: Defined(r.Trace.Trace), GCV: Defined(r.GCV), GCVStdErr: Defined(gcvErr),
		GCVTraceStdErr: Defined(r.GCVTraceErr),
		ALO:            Defined(alo), ALOStdErr: Defined(aloErr), ALOProbeStdErr: Defined(r.ALOProbesErr),
		ALOUnresolved: r.Unresolved, ALONotLeftOut: r.NotLeftOut,
		AIC: Defined(r.AIC), BIC: Defined(r.BIC), Sigma2DF: Defined(r.Sigma2DF),
	}
	if l := r.Leverages; l != nil {
		c.LeverageSD, c.LeveragesNearOne = Defined(l.SD), Defined(l.NearOne)
	}
	for rule := range risk.Rules() {
		name := string(rule.Name)
		if _, known := own[name]; known {
			continue
		}
		value, stdErr := rule.Value(r.Fitted())
		c.add(name, "", value)
		c.add(name, "_stderr", stdErr)
	}
	return c
}

// add adds a number that is defined, by its key in two parts.
func (c *CriteriaResult) add(name, suffix string, v float64) {
	if Defined(v) == nil {
		return
	}
	if c.Criteria == nil {
		c.Criteria = map[string]float64{}
	}
	c.Criteria[name+suffix] = v
}

func textOf(f risk.Fitted) func(risk.Rule) string {
	return func(rule risk.Rule) string {
		if rule.Text == nil {
			return ""
		}
		return rule.Text(f)
	}
}

// own are the criteria's keys of the JSON that are fields of a result, with their values, nil where they are absent.
var own = map[string]func(r *Result) *float64{
	"sure":             func(r *Result) *float64 { return r.SURE },
	"sure_stderr":      func(r *Result) *float64 { return r.SUREStdErr },
	"gcv":              func(r *Result) *float64 { return r.GCV },
	"gcv_stderr":       func(r *Result) *float64 { return r.GCVStdErr },
	"alo":              func(r *Result) *float64 { return r.ALO },
	"alo_stderr":       func(r *Result) *float64 { return r.ALOStdErr },
	"alo_probe_stderr": func(r *Result) *float64 { return r.ALOProbeStdErr },
	"aic":              func(r *Result) *float64 { return r.AIC },
	"bic":              func(r *Result) *float64 { return r.BIC },
	"sigma2_df":        func(r *Result) *float64 { return r.Sigma2DF },
}

// Number is the value of a key of the JSON, nil where it is absent.
func (r *Result) Number(key string) *float64 {
	if value, is := own[key]; is {
		return value(r)
	}
	if v, ok := r.Criteria[key]; ok {
		return &v
	}
	return nil
}

// Value is that of a criterion with its standard error, NaN where they are absent.
func (r *Result) Value(c risk.Criterion) (value, stdErr float64) {
	at := func(key string) float64 {
		if v := r.Number(key); v != nil {
			return *v
		}
		return math.NaN()
	}
	return at(string(c)), at(string(c) + "_stderr")
}
