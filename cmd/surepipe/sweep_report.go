package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/figure"
	"surepipe/pipeline"
	"surepipe/risk"
)

// sweepReport collects a sweep's points, prints them and writes the files.
type sweepReport struct {
	hasLoss bool
	cmd     *cobra.Command
	f       *sweepFlags
	job     *job
	y       []float64
	total   int // points of the grid
	log     *sweepLog
	known   []sweepLine
	lines   []sweepLine
	bar     *progress
}

// sweepSummary is the last line of a sweep's JSON.
type sweepSummary struct {
	Summary      bool              `json:"summary"`
	Points       int               `json:"points"`
	NotConverged int               `json:"not_converged"`
	Minimizer    sweepMinimum      `json:"minimizer"`
	Edges        map[string]string `json:"edges,omitempty"`
	LeastLoss    *sweepMinimum     `json:"least_loss,omitempty"`
	Seconds      float64           `json:"seconds"`
}

// sweepMinimum is a point in the summary.
type sweepMinimum struct {
	Index      int                 `json:"index"`
	Stage      pipeline.SweepStage `json:"stage"`
	Lambda     *number             `json:"lambda,omitempty"`
	Lambda2    *number             `json:"lambda2,omitempty"`
	Gamma      *number             `json:"gamma,omitempty"`
	Intercept  *float64            `json:"intercept,omitempty"`
	SURE       float64             `json:"sure"`
	SUREStdErr float64             `json:"sure_stderr"`
	Divergence float64             `json:"divergence"`
	Loss       *float64            `json:"loss,omitempty"`
	Converged  bool                `json:"converged"`
}

func (l sweepLine) minimum() sweepMinimum {
	return sweepMinimum{
		Index: l.Index, Stage: l.Stage, Lambda: l.Lambda, Lambda2: l.Lambda2, Gamma: l.Gamma,
		SURE: l.SURE, SUREStdErr: l.SUREStdErr, Divergence: l.Divergence, Loss: l.Loss, Converged: l.trusted(),
	}
}

// terms are the numbers from which the point's risk was computed.
func (l sweepLine) terms() risk.Terms {
	return risk.Terms{D: l.D, Sigma2: l.Sigma2, Residual: l.Residual, Divergence: l.Divergence, Frobenius2: l.JacobianFro2}
}

// mark is printed after a point that should not be trusted.
func (l sweepLine) mark() string {
	switch {
	case l.trusted():
		return ""
	case l.doubted():
		return "  NOT VERIFIED"
	}
	return "  NOT CONVERGED"
}

// begin prints the header, and the points that are known already.
func (r *sweepReport) begin(header sweepHeader) error {
	var err error
	if r.f.asJSON {
		err = writeLine(r.cmd.OutOrStdout(), header)
	} else {
		var names strings.Builder
		for _, axis := range r.f.axes {
			fmt.Fprintf(&names, "%12s", axis.name)
		}
		loss := ""
		if r.hasLoss {
			loss = fmt.Sprintf(" %12s", "loss")
		}
		w := tabwriter.NewWriter(r.cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		about := r.f.result(r.job)
		about.writeProblem(w)
		fmt.Fprintln(w)
		if err = w.Flush(); err != nil {
			return err
		}
		_, err = fmt.Fprintf(r.cmd.OutOrStdout(), "%s %12s   %-8s%s %11s %11s\n", names.String(), "SURE", "± s.e.", loss, "divergence", "iterations")
	}
	for _, line := range r.known {
		if err == nil {
			err = r.show(line)
		}
	}
	return err
}

// line is the line of a point.
func (f *sweepFlags) line(j *job, point pipeline.SweepPoint) sweepLine {
	line := sweepLine{Index: point.Index, Stage: point.Stage, result: f.result(j)}
	for a, axis := range f.axes {
		*map[string]**number{"lambda": &line.Lambda, "lambda2": &line.Lambda2, "gamma": &line.Gamma}[axis.name] = weightOrNil(point.Weights[a])
	}
	line.fill(j.problem, point.Risk, nil)
	if !math.IsNaN(point.Loss) {
		line.Loss = &point.Loss
	}
	return line
}

// add writes a new point.
func (r *sweepReport) add(point pipeline.SweepPoint) error {
	line := r.f.line(r.job, point)
	if r.log != nil {
		if err := r.log.write(line); err != nil {
			return err
		}
	}
	return r.show(line)
}

// show prints a point.
func (r *sweepReport) show(line sweepLine) error {
	r.lines = append(r.lines, line)
	r.bar.set(min(len(r.lines), r.total), r.total, len(r.lines))
	out := r.cmd.OutOrStdout()
	if r.f.asJSON {
		return writeLine(out, line)
	}
	var row strings.Builder
	for _, w := range r.f.weightsOf(line) {
		fmt.Fprintf(&row, "%12.6g", w)
	}
	fmt.Fprintf(&row, " %12.6g ± %-8.2g", line.SURE, line.SUREStdErr)
	if line.Loss != nil {
		fmt.Fprintf(&row, " %12.6g", *line.Loss)
	}
	fmt.Fprintf(&row, " %11.6g %11d", line.Divergence, line.Solver.Iterations)
	if line.Stage == pipeline.RefineStage {
		row.WriteString("  refined")
	}
	row.WriteString(line.mark())
	_, err := fmt.Fprintln(out, row.String())
	return err
}

// finish prints the summary and writes the files, when all points are known.
func (r *sweepReport) finish(best pipeline.SweepPoint, took time.Duration) error {
	r.bar.close()
	f := r.f
	s := sweepSummary{Summary: true, Points: len(r.lines), Minimizer: r.lines[best.Index].minimum(), Seconds: took.Seconds()}
	s.Minimizer.Intercept = interceptOf(r.job.problem, best.Risk)
	for a, end := range best.Edge {
		if end != 0 && s.Edges == nil {
			s.Edges = map[string]string{}
		}
		switch end {
		case -1:
			s.Edges[f.axes[a].name] = "lower"
		case 1:
			s.Edges[f.axes[a].name] = "upper"
		}
	}
	for i, line := range r.lines {
		if !line.trusted() {
			s.NotConverged++
		}
		if i < r.total && line.Loss != nil && (s.LeastLoss == nil || *line.Loss < *s.LeastLoss.Loss) {
			m := line.minimum()
			s.LeastLoss = &m
		}
	}
	if f.csv != "" {
		if err := r.writeCSV(f.csv); err != nil {
			return err
		}
	}
	if f.out != "" {
		if err := f.writeResult(r.cmd, f.out, r.job.problem, r.y, best.Risk); err != nil {
			return err
		}
	}
	if f.plot != "" {
		if err := figure.Save(f.plot, r.figure(s.Minimizer)); err != nil {
			return err
		}
	}
	if r.log != nil {
		if err := r.log.write(s); err != nil {
			return err
		}
	}
	var err error
	if f.asJSON {
		err = writeLine(r.cmd.OutOrStdout(), s)
	} else {
		err = r.writeSummary(s)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(r.lines, func(l sweepLine) bool { return l.terms().Floored() }) {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "surepipe: %s\n", zeroBarText(f.estimate != nil))
	}
	for a, end := range best.Edge {
		if end != 0 {
			fmt.Fprintf(r.cmd.ErrOrStderr(), "surepipe: the minimizer is at the edge of the grid, the %s end of --%s: extend the grid\n", s.Edges[f.axes[a].name], f.axes[a].name)
		}
	}
	doubted := 0
	for _, l := range r.lines {
		if l.doubted() {
			doubted++
		}
	}
	if doubted > 0 {
		fmt.Fprintf(r.cmd.ErrOrStderr(), doubtedText, doubted, s.Points, "points")
	}
	if s.NotConverged == doubted && doubted > 0 {
		return errNotConverged
	}
	if s.NotConverged > 0 {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "surepipe: %d of %d points did not converge; raise --max-iter, or --tol if less accuracy is enough, or try another --solver\n", s.NotConverged-doubted, s.Points)
		return errNotConverged
	}
	return nil
}

// at gives the weights of a minimum, as text.
func (m sweepMinimum) at() string {
	var parts []string
	for _, w := range []struct {
		name  string
		value *number
	}{{"lambda", m.Lambda}, {"lambda2", m.Lambda2}, {"gamma", m.Gamma}} {
		if w.value != nil {
			parts = append(parts, fmt.Sprintf("%s = %.6g", w.name, float64(*w.value)))
		}
	}
	return strings.Join(parts, ", ")
}

// writeSummary prints the minimizer as text.
func (r *sweepReport) writeSummary(s sweepSummary) error {
	var b strings.Builder
	m := s.Minimizer
	fmt.Fprintf(&b, "\nminimizer   %s: SURE %.6g ± %.2g, %.6g per coordinate, divergence %.6g", m.at(), m.SURE, m.SUREStdErr, m.SURE/float64(r.job.problem.D), m.Divergence)
	if m.Intercept != nil {
		fmt.Fprintf(&b, ", intercept %.6g", *m.Intercept)
	}
	if m.Loss != nil {
		fmt.Fprintf(&b, ", loss %.6g", *m.Loss)
	}
	for _, axis := range r.f.axes {
		if end := s.Edges[axis.name]; end != "" {
			fmt.Fprintf(&b, "; at the edge of the grid, the %s end of %s", end, axis.name)
		}
	}
	b.WriteString(r.lines[m.Index].mark())
	b.WriteByte('\n')
	if l := s.LeastLoss; l != nil {
		fmt.Fprintf(&b, "least loss  %.6g on the grid, at %s\n", *l.Loss, l.at())
	}
	_, err := fmt.Fprint(r.cmd.OutOrStdout(), b.String())
	return err
}

// writeCSV writes the points as a table of numbers.
func (r *sweepReport) writeCSV(path string) error {
	table := dataio.Array{Columns: []string{"index", "refined"}}
	for _, axis := range r.f.axes {
		table.Columns = append(table.Columns, axis.name)
	}
	table.Columns = append(table.Columns, "sure", "sure_stderr", "residual", "divergence", "divergence_stderr", "jacobian_fro2")
	withLoss := r.lines[0].Loss != nil
	if withLoss {
		table.Columns = append(table.Columns, "loss")
	}
	table.Columns = append(table.Columns, "iterations", "optimality", "converged")
	truth := map[bool]float64{true: 1}
	for _, l := range r.lines {
		table.Data = append(table.Data, float64(l.Index), truth[l.Stage == pipeline.RefineStage])
		table.Data = append(table.Data, r.f.weightsOf(l)...)
		table.Data = append(table.Data, l.SURE, l.SUREStdErr, l.Residual, l.Divergence, l.DivergenceStdErr, l.JacobianFro2)
		if withLoss {
			table.Data = append(table.Data, *l.Loss)
		}
		table.Data = append(table.Data, float64(l.Solver.Iterations), l.Solver.Optimality, truth[l.trusted()])
	}
	table.Shape = []int{len(r.lines), len(table.Columns)}
	return dataio.WriteCSV(path, table)
}

// symbols are the symbols of the weights in figures.
var symbols = map[string]string{"lambda": "λ", "lambda2": "λ2", "gamma": "γ"}

// figure draws the points: curves over one weight, or a map over two. The map shows the grid's
// points and the minimizer, which may lie between them.
func (r *sweepReport) figure(best sweepMinimum) figure.Figure {
	f := r.f
	title := fmt.Sprintf("%s, %s, d = %d", r.job.problem.Name, filepath.Base(f.source()), r.job.problem.D)
	title += fmt.Sprintf(", σ² = %.4g", r.job.sigma2)
	if f.estimate != nil {
		title += " (" + f.estimate.Method + ")"
	}
	if len(f.axes) == 2 {
		rows, cols := len(f.axes[1].values), len(f.axes[0].values)
		h := figure.HeatMap{Title: title, XName: symbols[f.axes[0].name], YName: symbols[f.axes[1].name], X: f.axes[0].values, Y: f.axes[1].values}
		if best.Stage == pipeline.RefineStage {
			l := r.lines[best.Index]
			w := f.weightsOf(l)
			h.HasMin, h.MinX, h.MinY, h.MinValue = true, w[0], w[1], l.SURE
		}
		for y := range rows {
			var values []float64
			var converged []bool
			for x := range cols {
				// The sweep's points are in the order of decreasing weights.
				l := r.lines[(rows-1-y)*cols+cols-1-x]
				values, converged = append(values, l.SURE), append(converged, l.trusted())
			}
			h.Values, h.Converged = append(h.Values, values), append(h.Converged, converged)
		}
		return h
	}
	s := figure.Sweep{Title: title, Parameter: symbols[f.axes[0].name]}
	for _, l := range r.lines {
		s.Lambda = append(s.Lambda, f.weightsOf(l)...)
		s.SURE, s.StdErr = append(s.SURE, l.SURE), append(s.StdErr, l.SUREStdErr)
		s.Divergence = append(s.Divergence, l.Divergence)
		s.Converged = append(s.Converged, l.trusted())
		if l.Loss != nil {
			s.Loss = append(s.Loss, *l.Loss)
		}
	}
	return s
}
