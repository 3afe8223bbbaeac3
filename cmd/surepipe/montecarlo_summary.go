package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gonum.org/v1/gonum/stat"

	"surepipe/pipeline"
	"surepipe/risk"
)

// sampleRecord is the part of a line of JSON that the summary and the figures need. They are
// computed from the lines alone, so that a run that was continued gives the same bits as an
// uninterrupted one.
type sampleRecord struct {
	Sample     *int     `json:"sample"`
	Repeat     *int     `json:"repeat"`
	SURE       *float64 `json:"sure"`
	SUREStdErr float64  `json:"sure_stderr"`
	criteriaResult
	Sigma2          float64  `json:"sigma2"`
	Sigma2Method    string   `json:"sigma2_method"`
	Sigma2RelStdErr *float64 `json:"sigma2_rel_stderr"`
	D               int      `json:"d"`
	Problem         string   `json:"problem"`
	Seconds         struct {
		Total float64 `json:"total"`
	} `json:"seconds"`
	Residual         float64  `json:"residual"`
	JacobianFro2     float64  `json:"jacobian_fro2"`
	Divergence       float64  `json:"divergence"`
	DivergenceStdErr float64  `json:"divergence_stderr"`
	Loss             *float64 `json:"loss"`
	Solver           struct {
		Converged bool `json:"converged"`
	} `json:"solver"`
	DerivativeConverged bool `json:"derivative_converged"`
	Trace               struct {
		Queries int `json:"queries"`
	} `json:"trace"`
	Verification *pipeline.Verification `json:"verification"`
	Warnings     []pipeline.Warning     `json:"warnings"`
}

func parseRecord(line []byte) (r sampleRecord, err error) {
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Sample == nil {
		return r, fmt.Errorf("it has no \"sample\"")
	}
	return r, nil
}

// summary is the last line of a Monte Carlo run.
type summary struct {
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
	// Warnings are those printed on standard error, of all samples together.
	Warnings []pipeline.Warning `json:"warnings,omitempty"`

	sure, stderr, loss, err []float64
	divergence              []float64
	trusted                 []bool
	seedSURE, seedStdErr    []float64
	// These hold only values that are defined.
	gcv, alo, seedGCV, seedALO []float64
	aloProbe, seedALOProbe     []float64
	zeroBar                    bool               // of at least one sample
	tooLarge                   int                // number of which SURE says that sigma2 is too large
	estimated                  bool               // sigma2
	notes                      []pipeline.Warning // of the command, which every line has
	doubted                    int                // number that --verify disagrees with; they count as not converged too
	rough                      int                // number at which differences of a command disagree; likewise
	told                       map[string]int     // number of warnings of samples by their code
}

func (s *summary) add(r sampleRecord) {
	doubted := r.Verification != nil && !r.Verification.Passed()
	rough := slices.ContainsFunc(r.Warnings, func(w pipeline.Warning) bool { return w.Code == pipeline.NotSmooth })
	trusted := r.Solver.Converged && r.DerivativeConverged && !doubted && !rough
	if rough {
		s.rough++
	}
	if doubted {
		s.doubted++
	}
	if !trusted {
		s.NotConverged++
	}
	terms := risk.Terms{D: r.D, Sigma2: r.Sigma2, Residual: r.Residual, Divergence: r.Divergence, Frobenius2: r.JacobianFro2}
	s.zeroBar, s.estimated = s.zeroBar || terms.Floored(), r.Sigma2Method != ""
	if sigma2TooLarge(terms, r.DivergenceStdErr, r.Sigma2RelStdErr) {
		s.tooLarge++
	}
	for _, w := range r.Warnings {
		if commandNote(w.Code) && !slices.Contains(s.notes, w) {
			s.notes = append(s.notes, w)
		}
		if s.told == nil {
			s.told = map[string]int{}
		}
		s.told[w.Code]++
	}
	if r.Repeat != nil {
		s.Seeds++
		s.seedGCV = appendDefined(s.seedGCV, r.GCV)
		s.seedALO, s.seedALOProbe = appendDefined(s.seedALO, r.ALO), appendDefined(s.seedALOProbe, r.ALOProbeStdErr)
		if r.SURE != nil {
			s.seedSURE = append(s.seedSURE, *r.SURE)
			s.seedStdErr = append(s.seedStdErr, terms.StdErrOfTrace(r.DivergenceStdErr))
		}
		return
	}
	s.Samples++
	s.gcv, s.alo = appendDefined(s.gcv, r.GCV), appendDefined(s.alo, r.ALO)
	s.aloProbe = appendDefined(s.aloProbe, r.ALOProbeStdErr)
	if r.SURE != nil {
		s.sure = append(s.sure, *r.SURE)
		s.stderr = append(s.stderr, r.SUREStdErr)
	}
	s.divergence = append(s.divergence, r.Divergence)
	s.trusted = append(s.trusted, trusted)
	if r.Loss != nil {
		s.loss = append(s.loss, *r.Loss)
		if r.SURE != nil {
			s.err = append(s.err, *r.SURE-*r.Loss)
		}
	}
}

// appendDefined appends the value where there is one.
func appendDefined(to []float64, v *float64) []float64 {
	if v == nil {
		return to
	}
	return append(to, *v)
}

func (s *summary) finish(took time.Duration) {
	s.Seconds = took.Seconds()
	// moments returns the mean and, with two samples or more, its standard error
	// and the standard deviation.
	moments := func(x []float64) (mean float64, se, sd *float64) {
		if len(x) < 2 {
			return stat.Mean(x, nil), nil, nil
		}
		m, d := stat.MeanStdDev(x, nil)
		e := stat.StdErr(d, float64(len(x)))
		return m, &e, &d
	}
	rms := func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v * v
		}
		return math.Sqrt(sum / float64(len(x)))
	}
	// of sets the mean, its standard error and the standard deviation where there are values.
	of := func(x []float64, mean, se, sd **float64) {
		if len(x) == 0 {
			return
		}
		m, e, d := moments(x)
		*mean, *se, *sd = &m, e, d
	}
	// square sets the root mean square where there are values.
	square := func(x []float64, to **float64) {
		if len(x) > 0 {
			e := rms(x)
			*to = &e
		}
	}
	var unused *float64
	of(s.sure, &s.MeanSURE, &s.MeanSUREStdErr, &s.SDSURE)
	square(s.stderr, &s.RMSSUREStdErr)
	of(s.gcv, &s.MeanGCV, &s.MeanGCVStdErr, &unused)
	of(s.alo, &s.MeanALO, &s.MeanALOStdErr, &unused)
	square(s.aloProbe, &s.RMSALOProbe)
	of(s.loss, &s.MeanLoss, &s.MeanLossStdErr, &unused)
	of(s.err, &s.MeanError, &s.MeanErrorStdErr, &unused)
	square(s.err, &s.RMSError)
	of(s.seedSURE, &s.SeedsMeanSURE, &unused, &s.SeedsSDSURE)
	square(s.seedStdErr, &s.SeedsRMSStdErr)
	of(s.seedGCV, &s.SeedsMeanGCV, &unused, &s.SeedsSDGCV)
	of(s.seedALO, &s.SeedsMeanALO, &unused, &s.SeedsSDALO)
	square(s.seedALOProbe, &s.SeedsRMSALO)
}

// writeTable prints the summary for people.
func (s *summary) writeTable(out io.Writer, speed throughput) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, mean, se *float64) {
		switch {
		case mean == nil:
		case se == nil:
			fmt.Fprintf(w, "%s\t%.6g\n", name, *mean)
		default:
			fmt.Fprintf(w, "%s\t%.6g ± %.2g\n", name, *mean, *se)
		}
	}
	fmt.Fprintf(w, "samples\t%d in %.3g s\n", s.Samples, s.Seconds)
	row("mean SURE", s.MeanSURE, s.MeanSUREStdErr)
	row("mean loss", s.MeanLoss, s.MeanLossStdErr)
	row("mean of SURE - loss", s.MeanError, s.MeanErrorStdErr)
	row("rms of SURE - loss", s.RMSError, nil)
	row("its estimate, rms of sure_stderr", s.RMSSUREStdErr, nil)
	row("mean GCV", s.MeanGCV, s.MeanGCVStdErr)
	row("mean leave-one-out error", s.MeanALO, s.MeanALOStdErr)
	if s.RMSALOProbe != nil && *s.RMSALOProbe > 0 {
		row("its error from the probes, rms", s.RMSALOProbe, nil)
	}
	if s.SeedsSDSURE != nil {
		row(fmt.Sprintf("sd of SURE over %d seeds, one y", s.Seeds), s.SeedsSDSURE, nil)
		row("its estimate, rms of 2 sigma2 divergence_stderr", s.SeedsRMSStdErr, nil)
	}
	if s.MeanSURE == nil && s.SeedsSDGCV != nil {
		row(fmt.Sprintf("sd of GCV over %d seeds, one y", s.Seeds), s.SeedsSDGCV, nil)
	}
	if s.SeedsSDALO != nil && *s.SeedsSDALO > 0 {
		row(fmt.Sprintf("sd of leave-one-out over %d seeds, one y", s.Seeds), s.SeedsSDALO, nil)
		row("its estimate, rms of alo_probe_stderr", s.SeedsRMSALO, nil)
	}
	if rates := speed.String(); rates != "" {
		fmt.Fprintf(w, "throughput\t%s\n", rates)
	}
	return w.Flush()
}

// throughput counts what a run has computed itself, not the lines that it read from a file.
type throughput struct {
	begun           time.Time
	samples, probes int
	sampling        time.Duration
}

func (t *throughput) add(r sampleRecord) {
	t.probes += r.Trace.Queries
	if r.Repeat == nil {
		t.samples++
		t.sampling = time.Since(t.begun)
	}
}

// remaining says how long so many samples more take, at the rate of those so far; "" where that is
// not known or the samples are done.
func (t *throughput) remaining(n int) string {
	const least = 3
	if t.samples < least || n <= 0 {
		return ""
	}
	return "about " + inWords(t.sampling/time.Duration(t.samples)*time.Duration(n)) + " left for the samples, "
}

// String gives the rates since the beginning, "" if nothing was computed.
func (t *throughput) String() string {
	var rates []string
	if t.samples > 0 {
		rates = append(rates, fmt.Sprintf("%.3g samples/s", float64(t.samples)/t.sampling.Seconds()))
	}
	if t.probes > 0 {
		rates = append(rates, fmt.Sprintf("%.3g probes/s", float64(t.probes)/time.Since(t.begun).Seconds()))
	}
	return strings.Join(rates, ", ")
}
