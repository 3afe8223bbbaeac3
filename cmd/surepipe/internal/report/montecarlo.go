package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"surepipe/internal/digits"
	"surepipe/risk"
	"surepipe/study"
)

func Summary(s *study.Tally, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, mean, se *float64) {
		switch {
		case mean == nil:
		case se == nil:
			fmt.Fprintf(w, "%s\t%.6g\n", name, *mean)
		default:
			fmt.Fprintf(w, "%s\t%s\n", name, digits.PlusMinus(*mean, *se))
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
	for rule := range risk.Rules() {
		key := "mean_" + string(rule.Name)
		if mean, known := s.Criteria[key]; known {
			se, several := s.Criteria[key+"_stderr"]
			row("mean "+rule.Label, &mean, map[bool]*float64{true: &se}[several])
		}
	}
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
	if rates := Rates(&s.Speed); rates != "" {
		fmt.Fprintf(w, "throughput\t%s\n", rates)
	}
	return w.Flush()
}

// Remaining says how long so many samples more take, at the rate of those so far; "" where that is
// not known or the samples are done.
func Remaining(t *study.Throughput, n int) string {
	const least = 3
	if t.Samples < least || n <= 0 {
		return ""
	}
	left := t.Sampling / time.Duration(t.Samples) * time.Duration(n)
	return "about " + left.Round(time.Second).String() + " left for the samples, "
}

// Rates are the rates since the beginning, "" if nothing was computed.
func Rates(t *study.Throughput) string {
	var rates []string
	if t.Samples > 0 {
		rates = append(rates, fmt.Sprintf("%.3g samples/s", float64(t.Samples)/t.Sampling.Seconds()))
	}
	if t.Probes > 0 {
		rates = append(rates, fmt.Sprintf("%.3g probes/s", float64(t.Probes)/time.Since(t.Begun).Seconds()))
	}
	return strings.Join(rates, ", ")
}
