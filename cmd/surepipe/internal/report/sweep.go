package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"surepipe/internal/digits"
	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/risk"
	"surepipe/study"
)

type Sweep struct {
	*study.Sweep
	Out io.Writer
}

// Begin prints what all points share, and the header of the table.
func (s Sweep) Begin() error {
	r, rule := &s.Template, s.Options.Criterion.Rule()
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	Problem(r, w)
	if !rule.Sigma2 {
		fmt.Fprintf(w, "criterion\t%s\n", rule.Name)
	}
	if r.SUREEstimates != "" {
		fmt.Fprintf(w, "\tSURE is about %s\n", r.SUREEstimates)
	}
	if r.ALOEstimates != "" && rule.Predicts {
		fmt.Fprintf(w, "\t%s aims at %s%s\n", rule.Label, r.ALOEstimates, rule.Proviso)
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	var names strings.Builder
	for _, axis := range s.Axes {
		fmt.Fprintf(&names, "%12s", axis.Name)
	}
	for _, c := range s.columns() {
		fmt.Fprintf(&names, " %12s   %-8s", c.Rule().Label, "± s.e.")
	}
	if s.Data.Mu != nil || len(s.Known) > 0 && s.Known[0].Loss != nil {
		fmt.Fprintf(&names, " %12s", "loss")
	}
	_, err := fmt.Fprintf(s.Out, "%s %11s %11s\n", names.String(), "divergence", "iterations")
	return err
}

// columns are the criteria that the table shows: SURE where it is known, and the one that is
// minimized.
func (s Sweep) columns() []risk.Criterion {
	if s.Header.Sigma2 == 0 {
		return []risk.Criterion{s.Options.Criterion}
	}
	return slices.Compact([]risk.Criterion{risk.SURE, s.Options.Criterion})
}

func cell(value, stdErr float64) string {
	switch {
	case math.IsNaN(value):
		return fmt.Sprintf(" %12s   %-8s", study.Unknown, "")
	case math.IsNaN(stdErr):
		return fmt.Sprintf(" %12.6g   %-8s", value, "")
	}
	return fmt.Sprintf(" %12.6g ± %-8s", value, digits.Error(stdErr))
}

func (s Sweep) Point(line study.SweepLine) error {
	var row strings.Builder
	for _, w := range line.Swept(s.Axes) {
		fmt.Fprintf(&row, "%12.6g", w)
	}
	for _, c := range s.columns() {
		row.WriteString(cell(line.Value(c)))
	}
	if line.Loss != nil {
		fmt.Fprintf(&row, " %12.6g", *line.Loss)
	}
	fmt.Fprintf(&row, " %11.6g %11d", line.Divergence, line.Solver.Iterations)
	if line.Stage == pipeline.RefineStage {
		row.WriteString("  refined")
	}
	row.WriteString(mark(line, s.Options.Criterion))
	_, err := fmt.Fprintln(s.Out, row.String())
	return err
}

// mark is printed after a point that should not be trusted, or whose value is not small for being right.
func mark(l study.SweepLine, by risk.Criterion) string {
	switch {
	case l.Trusted() && l.Overfits:
		return "  OVERFITS"
	case l.Trusted() && l.Unsure(by):
		return "  UNSURE"
	case l.Trusted():
		return ""
	case l.Doubted():
		return "  NOT VERIFIED"
	}
	return " " + unsettled(&l.Result)
}

// Swept prints the minimum of a sweep, and how sure it is.
func Swept(out io.Writer, r *study.Swept) error {
	s, criterion := r.Summary, r.Options.Criterion
	var b strings.Builder
	m := s.Minimizer
	value, stdErr := m.Value(criterion)
	fmt.Fprintf(&b, "\nminimizer   %s: %s %s", minimumText(m), criterion.Rule().Label, study.PlusMinus(value, stdErr))
	if criterion.Rule().Sigma2 {
		fmt.Fprintf(&b, ", %.6g per coordinate", value/float64(r.Lines[0].Size()))
	} else if m.SURE != nil {
		fmt.Fprintf(&b, ", SURE %s", digits.PlusMinus(*m.SURE, *m.SUREStdErr))
	}
	fmt.Fprintf(&b, ", divergence %s", divergence(m))
	b.WriteString(intercepts(m.InterceptResult))
	if m.Loss != nil {
		fmt.Fprintf(&b, ", loss %.6g", *m.Loss)
	}
	for _, axis := range r.Axes {
		if end := s.Edges[axis.Name]; end != "" {
			fmt.Fprintf(&b, "; at the edge of the grid, the %s end of %s", end, axis.Name)
		}
	}
	b.WriteString(mark(r.Lines[m.Index], r.Options.Criterion))
	if slices.ContainsFunc(s.Audits, believed) {
		b.WriteString("  CRITERION DISAGREES with the audit")
	}
	b.WriteByte('\n')
	accuracy(&b, r.Lines)
	choice(&b, r)
	for _, a := range s.Audits {
		fmt.Fprintf(&b, "audit       %s\n", audited(a))
	}
	if l := s.LeastLoss; l != nil {
		fmt.Fprintf(&b, "least loss  %.6g on the grid, at %s\n", *l.Loss, minimumText(*l))
	}
	if _, err := fmt.Fprint(out, b.String()); err != nil || s.Chosen.Coefficients == nil {
		return err
	}
	return Coefficients(&s.Chosen.CoefficientsResult, out)
}

// accuracy says how many points were solved to be compared, and no further.
func accuracy(b *strings.Builder, lines []study.SweepLine) {
	points, most := 0, 0.0
	for _, l := range lines {
		if change := l.Solver.SUREChange; change > 0 {
			points, most = points+1, math.Max(most, change)
		}
	}
	if points > 0 {
		fmt.Fprintf(b, "accuracy    %d of %d points are solved to be compared, to an estimated %.2g in SURE; the "+
			"answer is solved to the tolerance\n", points, len(lines), most)
	}
}

// believed reports that an audit takes the place of the criterion as the error of prediction.
func believed(a *pipeline.Audit) bool { return !a.Together() && a.Disagrees() }

func audited(a *pipeline.Audit) string {
	by := ""
	if a.By != "" {
		by = fmt.Sprintf(" in %d %s", a.Units, a.By)
	}
	if believed(a) {
		return fmt.Sprintf("the error of prediction is %s, by %d fits without %d observations%s; %s says %.6g of "+
			"these, %+.2g bars off", study.PlusMinus(a.Error, a.StdErr), a.Fits, a.Observations, by,
			a.Criterion.Rule().Label, a.Says, a.Bars)
	}
	return fmt.Sprintf("%s by %d fits without %d observations%s; %s says %.6g of these, %+.2g bars",
		study.PlusMinus(a.Error, a.StdErr), a.Fits, a.Observations, by, a.Criterion.Rule().Label, a.Says, a.Bars)
}

// mostListed is the number of weights up to which they are listed one by one.
const mostListed = 8

// choice prints as text how sure the choice is.
func choice(b *strings.Builder, r *study.Swept) {
	s, criterion := r.Summary, r.Options.Criterion
	if s.Optimism != nil {
		fmt.Fprintf(b, "optimism    %s: on average %s is too small by this at a minimum that was looked for\n",
			study.PlusMinus(*s.Optimism, *s.OptimismStdErr), criterion.Rule().Label)
		fmt.Fprintf(b, "            %s\n", s.OptimismLeavesOut)
	}
	if s.Regret != nil {
		fmt.Fprintf(b, "regret      %.2g: the squared error at the minimizer is on average so much above that at the "+
			"best weight, over it; above a tenth with a probability of %.2g\n", *s.Regret, *s.RegretBeyond)
	}
	if s.DifferenceStdErr[s.Minimizer.Index] == nil {
		return
	}
	fmt.Fprintf(b, "alike       %d of %d points cannot be told from the minimizer, within one standard error of "+
		"the difference: %s\n", len(s.Alike), s.Points, alike(r, s.Alike))
	if s.Rule == pipeline.MinimumRule {
		return
	}
	c := s.Chosen
	value, stdErr := c.Value(criterion)
	fmt.Fprintf(b, "chosen      %s by the rule %s, the least divergence of these: %s %s, %s above the minimum, "+
		"divergence %s", minimumText(c), s.Rule, criterion.Rule().Label,
		study.PlusMinus(value, stdErr), study.PlusMinus(*s.Difference[c.Index], *s.DifferenceStdErr[c.Index]),
		divergence(c))
	b.WriteString(intercepts(c.InterceptResult))
	if c.Loss != nil {
		fmt.Fprintf(b, ", loss %.6g", *c.Loss)
	}
	fmt.Fprintf(b, "%s\n", mark(r.Lines[c.Index], r.Options.Criterion))
}

func divergence(m study.SweepMinimum) string {
	if m.DivergenceStdErr == 0 {
		return fmt.Sprintf("%.6g", m.Divergence)
	}
	return study.PlusMinus(m.Divergence, m.DivergenceStdErr)
}

func intercepts(r study.InterceptResult) (text string) {
	for k, b0 := range r.All() {
		switch {
		case k > 0:
			text += fmt.Sprintf(", %.6g", b0)
		case r.Intercept == nil:
			text = fmt.Sprintf(", intercepts %.6g", b0)
		default:
			text = fmt.Sprintf(", intercept %.6g", b0)
		}
	}
	return text
}

// alike names the weights of points: of a few all, of many the ranges, of two weights the range of each.
func alike(r *study.Swept, points []int) string {
	var parts []string
	for a, axis := range r.Axes {
		values := lists.Map(points, func(i int) float64 { return r.Lines[i].Swept(r.Axes)[a] })
		slices.Sort(values)
		values = slices.Compact(values)
		if len(values) > mostListed && len(r.Axes) == 1 {
			each := lists.Map(r.Summary.AlikeRanges, func(v [2]study.Number) string {
				if v[0] == v[1] {
					return fmt.Sprintf("%.4g", float64(v[0]))
				}
				return fmt.Sprintf("%.4g to %.4g", float64(v[0]), float64(v[1]))
			})
			parts = append(parts, axis.Name+" = "+strings.Join(each, " and "))
			continue
		}
		if len(values) > mostListed {
			parts = append(parts, fmt.Sprintf("%s = %.4g to %.4g", axis.Name, values[0], values[len(values)-1]))
			continue
		}
		each := lists.Map(values, func(v float64) string { return fmt.Sprintf("%.4g", v) })
		parts = append(parts, axis.Name+" = "+strings.Join(each, ", "))
	}
	return strings.Join(parts, "; ")
}

func minimumText(m study.SweepMinimum) string {
	var parts []string
	for name, value := range m.WeightsResult.Each {
		parts = append(parts, fmt.Sprintf("%s = %.6g", name, value))
	}
	return strings.Join(parts, ", ")
}
