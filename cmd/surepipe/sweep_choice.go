package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"surepipe/pipeline"
	"surepipe/study"
)

// summary is that of the sweep's points. chosen is the minimizer unless the rule chooses another.
func (r *sweepReport) summary(best, chosen pipeline.SweepPoint, took time.Duration) study.SweepSummary {
	s := study.Summarize(r.lines, r.total, r.f.axes, r.f.criterion, r.f.rule, best)
	s.Seconds = took.Seconds()
	if r.job != nil {
		s.StorageResult = study.StorageOf(r.job.Problem)
	}
	s.Minimizer.Intercept = r.interceptOf(best)
	s.Chosen.Intercept = r.interceptOf(chosen)
	return s
}

// interceptOf is the intercept of a fit, nil where there is none or it is not at hand.
func (r *sweepReport) interceptOf(p pipeline.SweepPoint) *float64 {
	if r.job == nil {
		return nil
	}
	return study.InterceptOf(r.job.Problem, p.Risk)
}

// warnings are those of the points together: what is printed on standard error at the end.
func (r *sweepReport) warnings(s study.SweepSummary) []pipeline.Warning {
	f := r.f
	var all []pipeline.Warning
	add := func(code, format string, args ...any) {
		all = append(all, pipeline.Warning{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	if slices.ContainsFunc(r.lines, func(l study.SweepLine) bool { return l.Terms().Floored() }) {
		add(study.NoteErrorBar, "%s", study.ZeroBarText(r.about.Sigma2RelStdErr != nil))
	}
	tooLarge := 0
	for _, l := range r.lines {
		if study.Sigma2TooLarge(l.Terms(), l.DivergenceStdErr, l.Sigma2RelStdErr) {
			tooLarge++
		}
	}
	if tooLarge > 0 {
		add(pipeline.Sigma2TooLarge, tooLargeText, tooLarge, len(r.lines), "points")
	}
	for _, axis := range f.axes {
		if end := s.Edges[axis.Name]; end != "" {
			add(study.NoteEdge, "the minimizer is at the edge of the grid, the %s end of --%s: extend the grid",
				end, axis.Name)
		}
	}
	if missing, most := r.unresolved(); missing > 0 {
		add(pipeline.NoLeaveOneOut, "leave-one-out is not known at %d of %d points because of up to %d "+
			"observations, %s: the minimizer is that of the others",
			missing, s.Points, most, f.unresolvedText())
	}
	doubted, old := 0, 0
	for _, l := range r.lines {
		if l.Digest == nil {
			old++
		}
		if l.Doubted() {
			doubted++
		}
	}
	if old > 0 && !f.exec.given() {
		add(study.NoteIncomparable, "%d points of %s have no digest, as those of earlier versions: their "+
			"differences have no error, and --rule 1se passes over them", old, f.jsonl)
	}
	if doubted > 0 {
		add(pipeline.Unverified, doubtedText, doubted, s.Points, "points")
	}
	if n := s.NotConverged - doubted; n > 0 {
		code := pipeline.NotConverged
		if f.exec.given() {
			code = pipeline.NotSmooth
		}
		add(code, f.notConvergedText(), n, s.Points)
	}
	return all
}

// unresolvedText says what is the matter with observations that cannot be left out, and the remedy.
func (f *sweepFlags) unresolvedText() string {
	if f.Loss.Squared() {
		return "whose leverages are too near to 1 for the probes (--trace exact, more --queries, or another " +
			"--criterion)"
	}
	return "without which one Newton step does not tell the fit (another parameter of the loss, such as --huber-delta)"
}

// unresolved is the number of points whose criterion is not known because leverages are too near to 1,
// and the largest number of such observations.
func (r *sweepReport) unresolved() (points, most int) {
	for _, l := range r.lines {
		if r.f.criterion.Rule().Diagonal && l.ALOUnresolved > 0 {
			points, most = points+1, max(most, l.ALOUnresolved)
		}
	}
	return points, most
}

// printWarnings prints them, one a line.
func printWarnings(stderr io.Writer, all []pipeline.Warning) {
	for _, w := range all {
		fmt.Fprintf(stderr, "surepipe: %s\n", w.Text)
	}
}

// mostListed is the number of weights up to which they are listed one by one.
const mostListed = 8

// writeChoice prints as text how sure the choice is.
func (r *sweepReport) writeChoice(b *strings.Builder, s study.SweepSummary) {
	if s.Optimism != nil {
		fmt.Fprintf(b, "optimism    %s: on average %s is too small by this at a minimum that was looked for\n",
			plusMinus(*s.Optimism, *s.OptimismStdErr), label(r.f.criterion))
	}
	if s.DifferenceStdErr[s.Minimizer.Index] == nil {
		return
	}
	fmt.Fprintf(b, "alike       %d of %d points cannot be told from the minimizer, within one standard error of "+
		"the difference: %s\n", len(s.Alike), s.Points, r.alike(s.Alike))
	if s.Rule == pipeline.MinimumRule {
		return
	}
	c := s.Chosen
	value, stdErr := r.lines[c.Index].Value(r.f.criterion)
	fmt.Fprintf(b, "chosen      %s by the rule %s, the least divergence of these: %s %s, %s above the minimum, "+
		"divergence %.6g", minimumText(c), s.Rule, label(r.f.criterion),
		plusMinus(value, stdErr), plusMinus(*s.Difference[c.Index], *s.DifferenceStdErr[c.Index]), c.Divergence)
	if c.Intercept != nil {
		fmt.Fprintf(b, ", intercept %.6g", *c.Intercept)
	}
	if c.Loss != nil {
		fmt.Fprintf(b, ", loss %.6g", *c.Loss)
	}
	fmt.Fprintf(b, "%s\n", sweepMark(r.lines[c.Index]))
}

// alike names the weights of points: of a few all, of many the range of each weight.
func (r *sweepReport) alike(points []int) string {
	var parts []string
	for a, axis := range r.f.axes {
		var values []float64
		for _, i := range points {
			values = append(values, study.WeightsAt(r.f.axes, r.lines[i])[a])
		}
		slices.Sort(values)
		values = slices.Compact(values)
		if len(values) > mostListed {
			parts = append(parts, fmt.Sprintf("%s = %.4g to %.4g", axis.Name, values[0], values[len(values)-1]))
			continue
		}
		var each []string
		for _, v := range values {
			each = append(each, fmt.Sprintf("%.4g", v))
		}
		parts = append(parts, axis.Name+" = "+strings.Join(each, ", "))
	}
	return strings.Join(parts, "; ")
}

// differences are the columns of a .csv file for the differences to the minimizer, as far as any are
// known, and their values for each point, NaN where they are not defined.
func choiceColumns(s study.SweepChoice) (columns []string, values [][]float64) {
	values = make([][]float64, len(s.Difference))
	for _, c := range []struct {
		name string
		of   []*float64
	}{{"difference", s.Difference}, {"difference_stderr", s.DifferenceStdErr}} {
		if !slices.ContainsFunc(c.of, func(v *float64) bool { return v != nil }) {
			continue
		}
		columns = append(columns, c.name)
		for i, v := range c.of {
			if v == nil {
				values[i] = append(values[i], math.NaN())
			} else {
				values[i] = append(values[i], *v)
			}
		}
	}
	return columns, values
}

// checkRule rejects a rule that the criterion does not allow.
func (f *sweepFlags) checkRule(sigma2 float64) error {
	switch {
	case !slices.Contains(pipeline.Rules(), f.rule):
		return usagef("--rule is %q, expected one of %q", f.rule, pipeline.Rules())
	case f.rule == pipeline.OneStdErrRule && !f.criterion.Rule().Compares(sigma2):
		return usagef("--rule 1se needs the standard errors of differences, which --criterion %s does not have: "+
			"choose another criterion, or --rule min", f.criterion)
	}
	return nil
}
