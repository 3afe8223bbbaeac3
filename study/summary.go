package study

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/pipeline"
	"surepipe/risk"
	"surepipe/risk/warning"
)

// Summary is the last line of a Monte Carlo run.
type Summary struct {
	Summary         bool     `json:"summary"`
	Samples         int      `json:"samples"`
	NotConverged    int      `json:"not_converged"`
	MeanSURE        *float64 `json:"mean_sure,omitempty"`
	MeanSUREStdErr  *float64 `json:"mean_sure_stderr,omitempty"`
	SDSURE          *float64 `json:"sd_sure,omitempty"`
	RMSSUREStdErr   *float64 `json:"rms_sure_stderr,omitempty"`
	MeanGCV         *float64 `json:"mean_gcv,omitempty"`
	MeanGCVStdErr   *float64 `json:"mean_gcv_stderr,omitempty"`
	MeanALO         *float64 `json:"mean_alo,omitempty"`
	MeanALOStdErr   *float64 `json:"mean_alo_stderr,omitempty"`
	RMSALOProbe     *float64 `json:"rms_alo_probe_stderr,omitempty"`
	MeanLoss        *float64 `json:"mean_loss,omitempty"`
	MeanLossStdErr  *float64 `json:"mean_loss_stderr,omitempty"`
	MeanError       *float64 `json:"mean_error,omitempty"`
	MeanErrorStdErr *float64 `json:"mean_error_stderr,omitempty"`
	RMSError        *float64 `json:"rms_error,omitempty"`
	Seeds           int      `json:"seeds,omitempty"`
	SeedsMeanSURE   *float64 `json:"seeds_mean_sure,omitempty"`
	SeedsSDSURE     *float64 `json:"seeds_sd_sure,omitempty"`
	SeedsRMSStdErr  *float64 `json:"seeds_rms_stderr,omitempty"`
	SeedsMeanGCV    *float64 `json:"seeds_mean_gcv,omitempty"`
	SeedsSDGCV      *float64 `json:"seeds_sd_gcv,omitempty"`
	SeedsMeanALO    *float64 `json:"seeds_mean_alo,omitempty"`
	SeedsSDALO      *float64 `json:"seeds_sd_alo,omitempty"`
	SeedsRMSALO     *float64 `json:"seeds_rms_alo_probe_stderr,omitempty"`
	Seconds         float64  `json:"seconds"`
	// Criteria has mean_NAME and mean_NAME_stderr of the criteria that have no field above.
	Criteria map[string]float64 `json:"criteria,omitempty"`
	// Warnings are those printed on standard error, of all samples together.
	Warnings []pipeline.Warning `json:"warnings,omitempty"`
}

// Series are the numbers of many samples, in their order. A number that is not defined is left out.
type Series struct {
	SURE, SUREStdErr []float64
	// Loss is ||mu_hat - mu||^2, and Error SURE - Loss.
	Loss, Error   []float64
	GCV           []float64
	ALO, ALOProbe []float64
	// Criteria are those of the table that have no field above, by their names.
	Criteria map[risk.Criterion][]float64
}

// Tally sums up the lines of a Monte Carlo run.
type Tally struct {
	Summary
	// PerSample are the numbers of the samples, and PerSeed those of the repetitions at one sample,
	// whose SUREStdErr is 2 sigma2 divergence_stderr.
	PerSample, PerSeed Series
	// Notes are the command's, which every line has.
	Notes []pipeline.Warning
	// Estimated says that sigma2 is an estimate.
	Estimated bool
	// Problem and D are those of the lines.
	Problem string
	D       int
	// Speed counts what has been computed, not what has been read.
	Speed Throughput
	told  map[string]int // number of lines with a warning, by its code
}

func (s *Series) add(r SampleLine) {
	s.GCV, s.ALO = appendDefined(s.GCV, r.GCV), appendDefined(s.ALO, r.ALO)
	s.ALOProbe = appendDefined(s.ALOProbe, r.ALOProbeStdErr)
	s.SURE, s.Loss = appendDefined(s.SURE, r.SURE), appendDefined(s.Loss, r.Loss)
	if r.SURE != nil && r.Loss != nil {
		s.Error = append(s.Error, *r.SURE-*r.Loss)
	}
	for rule := range risk.Rules() {
		if v := r.Number(string(rule.Name)); v != nil && !slices.Contains(ofSeries, rule.Name) {
			if s.Criteria == nil {
				s.Criteria = map[risk.Criterion][]float64{}
			}
			s.Criteria[rule.Name] = append(s.Criteria[rule.Name], *v)
		}
	}
}

// ofSeries are the criteria that have a field in a [Series] and in the [Summary].
var ofSeries = []risk.Criterion{risk.SURE, risk.GCV, risk.ALO}

func NewTally() *Tally { return &Tally{Summary: Summary{Summary: true}, told: map[string]int{}} }

// Add takes the next line.
func (t *Tally) Add(r SampleLine) {
	terms := r.Terms()
	// These are judged by the numbers of the line, whatever warnings it has.
	doubted := r.Doubted()
	found := map[string]bool{
		warning.ErrorBarFloor.Code: terms.Floored(), warning.Unverified.Code: doubted,
		warning.Sigma2TooLarge.Code: Sigma2TooLarge(terms, r.DivergenceStdErr, r.Sigma2RelStdErr),
	}
	t.Estimated, t.Problem, t.D = r.Sigma2Method != "", r.Problem, r.Size()
	for _, w := range r.Warnings {
		if w.OfRun() && !slices.Contains(t.Notes, w) {
			t.Notes = append(t.Notes, w)
		}
		if _, judged := found[w.Code]; !judged {
			t.told[w.Code]++
		}
	}
	for code, is := range found {
		if is {
			t.told[code]++
		}
	}
	rough := slices.ContainsFunc(r.Warnings, func(w pipeline.Warning) bool { return w.Is(warning.NotSmooth) })
	if !r.Solver.Converged || !r.DerivativeConverged || doubted || rough {
		t.NotConverged++
	}
	if r.Repeat == nil {
		t.Samples++
		t.PerSample.add(r)
		if r.SURE != nil {
			t.PerSample.SUREStdErr = append(t.PerSample.SUREStdErr, *r.SUREStdErr)
		}
		return
	}
	t.Seeds++
	t.PerSeed.add(r)
	if r.SURE != nil {
		t.PerSeed.SUREStdErr = append(t.PerSeed.SUREStdErr, terms.StdErrOfTrace(r.DivergenceStdErr))
	}
}

func appendDefined(to []float64, v *float64) []float64 {
	if v == nil {
		return to
	}
	return append(to, *v)
}

// Finish computes the summary of the lines.
func (t *Tally) Finish(took time.Duration) {
	t.Seconds = took.Seconds()
	y, seeds := &t.PerSample, &t.PerSeed
	for _, s := range []struct {
		of                []float64
		mean, se, sd, rms **float64
	}{
		{y.SURE, &t.MeanSURE, &t.MeanSUREStdErr, &t.SDSURE, nil},
		{y.SUREStdErr, nil, nil, nil, &t.RMSSUREStdErr},
		{y.GCV, &t.MeanGCV, &t.MeanGCVStdErr, nil, nil},
		{y.ALO, &t.MeanALO, &t.MeanALOStdErr, nil, nil},
		{y.ALOProbe, nil, nil, nil, &t.RMSALOProbe},
		{y.Loss, &t.MeanLoss, &t.MeanLossStdErr, nil, nil},
		{y.Error, &t.MeanError, &t.MeanErrorStdErr, nil, &t.RMSError},
		{seeds.SURE, &t.SeedsMeanSURE, nil, &t.SeedsSDSURE, nil},
		{seeds.SUREStdErr, nil, nil, nil, &t.SeedsRMSStdErr},
		{seeds.GCV, &t.SeedsMeanGCV, nil, &t.SeedsSDGCV, nil},
		{seeds.ALO, &t.SeedsMeanALO, nil, &t.SeedsSDALO, nil},
		{seeds.ALOProbe, nil, nil, nil, &t.SeedsRMSALO},
	} {
		n := float64(len(s.of))
		set := func(to **float64, v float64, least float64) {
			if to != nil && n >= least {
				*to = &v
			}
		}
		mean, sd := stat.MeanStdDev(s.of, nil)
		set(s.mean, mean, 1)
		set(s.se, stat.StdErr(sd, n), 2)
		set(s.sd, sd, 2)
		set(s.rms, math.Sqrt(floats.Dot(s.of, s.of)/n), 1)
	}
	var others CriteriaResult
	for name, of := range y.Criteria {
		mean, sd := stat.MeanStdDev(of, nil)
		others.add("mean_"+string(name), "", mean)
		others.add("mean_"+string(name), "_stderr", stat.StdErr(sd, float64(len(of))))
	}
	t.Criteria = others.Criteria
}

// Headline holds the values whose mean tells most, and their name: SURE - loss where the loss is known,
// else SURE, or GCV where sigma2 is not known.
func (t *Tally) Headline() (values []float64, name string) {
	switch y := &t.PerSample; {
	case len(y.Error) > 0:
		return y.Error, "SURE - loss"
	case len(y.SURE) > 0:
		return y.SURE, "SURE"
	default:
		return y.GCV, "GCV"
	}
}

// MarshalJSON writes the summary alone.
func (t Tally) MarshalJSON() ([]byte, error) { return json.Marshal(t.Summary) }

func (t *Tally) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &t.Summary) }
