package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/figure"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
)

// sweepReport collects a sweep's points, prints them and writes the files.
type sweepReport struct {
	hasLoss bool
	cmd     *cobra.Command
	out     io.Writer
	f       *sweepFlags
	job     *study.Estimator // nil where only the lines are known
	about   study.Result     // what all points share
	hash    string           // of the data
	data    problems.Data
	best    pipeline.Risk // of the estimate that is written and drawn
	total   int           // points of the grid
	log     *study.Log
	known   []study.SweepLine
	lines   []study.SweepLine
	bar     *progress
	summed  *study.SweepSummary // when all points are known
}

// mark is printed after a point that should not be trusted.
func sweepMark(l study.SweepLine) string {
	switch {
	case l.Trusted():
		return ""
	case l.Doubted():
		return "  NOT VERIFIED"
	}
	return " " + unsettledMark(&l.Result)
}

// begin prints the header, and the points that are known already.
func (r *sweepReport) begin(header study.SweepHeader) error {
	var err error
	if r.f.asJSON {
		err = study.WriteLine(r.out, header)
	} else {
		var names strings.Builder
		for _, axis := range r.f.axes {
			fmt.Fprintf(&names, "%12s", axis.Name)
		}
		loss := ""
		if r.hasLoss {
			loss = fmt.Sprintf(" %12s", "loss")
		}
		w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
		writeProblem(&r.about, w)
		r.f.writeCriterion(w, r.about)
		fmt.Fprintln(w)
		if err = w.Flush(); err != nil {
			return err
		}
		for _, c := range r.f.columns(r.about.Sigma2) {
			fmt.Fprintf(&names, " %12s   %-8s", label(c), "± s.e.")
		}
		_, err = fmt.Fprintf(r.out, "%s%s %11s %11s\n", names.String(), loss, "divergence", "iterations")
	}
	for _, line := range r.known {
		if err == nil {
			err = r.show(line)
		}
	}
	return err
}

// line is the line of a point.
func (f *sweepFlags) line(j *study.Estimator, point pipeline.SweepPoint) study.SweepLine {
	line := study.SweepLine{Index: point.Index, Stage: point.Stage, Result: f.result(j)}
	for a, axis := range f.axes {
		*map[string]**study.Number{"lambda": &line.Lambda, "lambda2": &line.Lambda2,
			"gamma": &line.Gamma}[axis.Name] = study.Weight(point.Weights[a])
	}
	line.Fill(j.Problem, point.Risk, nil)
	line.Digest = point.Digest
	if !math.IsNaN(point.Loss) {
		line.Loss = &point.Loss
	}
	return line
}

// add writes a new point.
func (r *sweepReport) add(point pipeline.SweepPoint) error {
	line := r.f.line(r.job, point)
	if r.log != nil {
		if err := r.log.Write(line); err != nil {
			return err
		}
	}
	return r.show(line)
}

// show prints a point.
func (r *sweepReport) show(line study.SweepLine) error {
	r.lines = append(r.lines, line)
	r.bar.set(min(len(r.lines), r.total), r.total, len(r.lines))
	if r.f.asJSON {
		return study.WriteLine(r.out, line)
	}
	var row strings.Builder
	for _, w := range study.WeightsAt(r.f.axes, line) {
		fmt.Fprintf(&row, "%12.6g", w)
	}
	for _, c := range r.f.columns(r.about.Sigma2) {
		row.WriteString(cell(line.Value(c)))
	}
	if line.Loss != nil {
		fmt.Fprintf(&row, " %12.6g", *line.Loss)
	}
	fmt.Fprintf(&row, " %11.6g %11d", line.Divergence, line.Solver.Iterations)
	if line.Stage == pipeline.RefineStage {
		row.WriteString("  refined")
	}
	row.WriteString(sweepMark(line))
	_, err := fmt.Fprintln(r.out, row.String())
	return err
}

// finish writes the files and prints the summary, when all points are known: also where a file cannot
// be written. chosen is the minimizer unless the rule chooses another.
func (r *sweepReport) finish(best, chosen pipeline.SweepPoint, took time.Duration) error {
	r.bar.close()
	f := r.f
	s := r.summary(best, chosen, took)
	r.best = chosen.Risk
	coefficients, err := r.coefficients(chosen, &s)
	if err != nil {
		return err
	}
	unwritten := r.writeFiles(chosen, s, coefficients)
	if f.picture.wanted() {
		loss, err := f.picture.save(r.cmd, r.hash, &f.estimatorFlags, r.job.Problem, r.data, chosen.Risk,
			r.lines[chosen.Index].Result)
		s.Chosen.SignalLoss, unwritten = loss, cmp.Or(unwritten, err)
	}
	warnings := r.warnings(s)
	s.Warnings = slices.Concat(f.notes, warnings)
	if r.log != nil {
		unwritten = cmp.Or(unwritten, r.log.Write(s))
	}
	if f.asJSON {
		err = study.WriteLine(r.out, s)
	} else {
		err = r.writeSummary(r.out, s)
	}
	r.summed = &s
	if err != nil {
		return err
	}
	printWarnings(r.cmd.ErrOrStderr(), warnings)
	switch {
	case unwritten != nil:
		return unwritten
	case s.NotConverged > 0:
		return errNotConverged
	}
	return nil
}

// coefficients are those of the fit at the chosen point, which are added to the summary where they
// are to be printed; none where nobody asked for them.
func (r *sweepReport) coefficients(chosen pipeline.SweepPoint, s *study.SweepSummary) (c study.CoefficientsResult,
	err error) {
	f := r.f
	if !f.coefficients.wanted() {
		return c, nil
	}
	if c, err = study.CoefficientsOf(r.cmd.Context(), r.job.Problem, r.data, chosen.Risk,
		r.job.Sigma2); err != nil || !f.coefficients.print {
		return c, err
	}
	s.Chosen.CoefficientsResult = c
	if s.Chosen.Index == s.Minimizer.Index {
		s.Minimizer.CoefficientsResult = c
	}
	return c, nil
}

// writeFiles writes the files that were asked for, with the fit at the chosen point. The error is the
// first; the files after it are written all the same.
func (r *sweepReport) writeFiles(chosen pipeline.SweepPoint, s study.SweepSummary,
	c study.CoefficientsResult) (first error) {
	f := r.f
	if f.csv != "" {
		first = cmp.Or(first, r.writeCSV(f.csv, s.SweepChoice))
	}
	if f.out != "" {
		first = cmp.Or(first, f.writeResult(r.cmd, f.out, r.job.Problem, r.data, chosen.Risk,
			r.lines[chosen.Index].Result))
	}
	if f.coefficients.csv != "" {
		first = cmp.Or(first, c.WriteCSV(f.coefficients.csv))
	}
	if f.plot != "" {
		first = cmp.Or(first, figure.Save(f.plot, r.figure(s), provenance(r.cmd, r.hash)...))
	}
	return first
}

// at gives the weights of a minimum, as text.
func minimumText(m study.SweepMinimum) string {
	var parts []string
	for _, w := range []struct {
		name  string
		value *study.Number
	}{{"lambda", m.Lambda}, {"lambda2", m.Lambda2}, {"gamma", m.Gamma}} {
		if w.value != nil {
			parts = append(parts, fmt.Sprintf("%s = %.6g", w.name, float64(*w.value)))
		}
	}
	return strings.Join(parts, ", ")
}

// writeSummary prints the minimizer as text.
func (r *sweepReport) writeSummary(out io.Writer, s study.SweepSummary) error {
	var b strings.Builder
	m := s.Minimizer
	value, stdErr := r.lines[m.Index].Value(r.f.criterion)
	fmt.Fprintf(&b, "\nminimizer   %s: %s %s", minimumText(m), label(r.f.criterion), plusMinus(value, stdErr))
	if r.f.criterion.Rule().Sigma2 {
		fmt.Fprintf(&b, ", %.6g per coordinate", value/float64(r.about.D))
	} else if m.SURE != nil {
		fmt.Fprintf(&b, ", SURE %.6g ± %.2g", *m.SURE, *m.SUREStdErr)
	}
	fmt.Fprintf(&b, ", divergence %.6g", m.Divergence)
	if m.Intercept != nil {
		fmt.Fprintf(&b, ", intercept %.6g", *m.Intercept)
	}
	if m.Loss != nil {
		fmt.Fprintf(&b, ", loss %.6g", *m.Loss)
	}
	for _, axis := range r.f.axes {
		if end := s.Edges[axis.Name]; end != "" {
			fmt.Fprintf(&b, "; at the edge of the grid, the %s end of %s", end, axis.Name)
		}
	}
	b.WriteString(sweepMark(r.lines[m.Index]))
	b.WriteByte('\n')
	r.writeChoice(&b, s)
	if l := s.LeastLoss; l != nil {
		fmt.Fprintf(&b, "least loss  %.6g on the grid, at %s\n", *l.Loss, minimumText(*l))
	}
	if _, err := fmt.Fprint(out, b.String()); err != nil || s.Chosen.Coefficients == nil {
		return err
	}
	return writeCoefficients(&s.Chosen.CoefficientsResult, out)
}

// writeCSV writes the points as a table of numbers.
func (r *sweepReport) writeCSV(path string, choice study.SweepChoice) error {
	table := dataio.Array{Labels: dataio.Labels{Columns: []string{"index", "refined"}}, Absent: true}
	for _, axis := range r.f.axes {
		table.Columns = append(table.Columns, axis.Name)
	}
	criteria := r.criteriaColumns()
	names, differences := choiceColumns(choice)
	table.Columns = append(append(table.Columns, criteria...), names...)
	table.Columns = append(table.Columns, r.lossColumns()...)
	table.Columns = append(table.Columns, "divergence", "divergence_stderr", "jacobian_fro2")
	withLoss := r.lines[0].Loss != nil
	if withLoss {
		table.Columns = append(table.Columns, "loss")
	}
	table.Columns = append(table.Columns, "iterations", "optimality", "converged")
	truth := map[bool]float64{true: 1}
	for _, l := range r.lines {
		table.Data = append(table.Data, float64(l.Index), truth[l.Stage == pipeline.RefineStage])
		table.Data = append(table.Data, study.WeightsAt(r.f.axes, l)...)
		table.Data = append(append(table.Data, l.Cells(criteria)...), differences[l.Index]...)
		table.Data = append(table.Data, l.LossCells()...)
		table.Data = append(table.Data, l.Divergence, l.DivergenceStdErr, l.JacobianFro2)
		if withLoss {
			table.Data = append(table.Data, *l.Loss)
		}
		table.Data = append(table.Data, float64(l.Solver.Iterations), l.Solver.Optimality, truth[l.Trusted()])
	}
	table.Shape = []int{len(r.lines), len(table.Columns)}
	return dataio.WriteCSV(path, table)
}
