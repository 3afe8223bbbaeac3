package study

import (
	"surepipe/pipeline"
)

// The texts for many results.
const (
	tooLargeText = "SURE of %d of %d %s is more than three error bars below 0, although it estimates a squared " +
		"error: sigma2 is too large (--sigma2)"
	doubtedText = "--verify disagrees with %d of %d %s: each has a warning that says why; lower --tol, or try " +
		"another --solver or --derivative"
	notSmoothText = "differences at steps of different sizes disagree: the command is not smooth; " +
		"try --divergence coupled-bootstrap, or another --eps"
)

// ofSamples are warnings of some samples, by their code, which say that the means may be off although the solves have
// converged.
var ofSamples = []struct{ code, text string }{
	{pipeline.NotSmooth, notSmoothText},
	{pipeline.FewObservations, "leave-one-out rests on a few observations, and so does its mean: refits without " +
		"such an observation may be far from it; compare cv"},
	{pipeline.GCVLeverages, "GCV is far below the error of predicting an observation from the others, because " +
		"leverages spread; compare alo or cv"},
	{pipeline.NoLeaveOneOut, "there is no leave-one-out, and none of them is in its mean"},
	{pipeline.Interpolates, "the fit reproduces y, and leave-one-out is not reliable; raise the weight of the " +
		"regularizer"},
	{pipeline.Ambiguous, "the divergence is not decided within rounding errors and the tolerance: ask for a " +
		"smaller tolerance, remove dependent columns, or change the weight a little"},
	{pipeline.LargeStep, "the step of differences is above the noise"},
}

// Doubts are the reasons to doubt the means of a run.
func (t *Tally) Doubts() (all Notes) {
	of := t.Samples + t.Seeds
	if t.told[NoteErrorBar] > 0 {
		all.Add(NoteErrorBar, "%s", ZeroBarText(t.Estimated))
	}
	if n := t.told[pipeline.Sigma2TooLarge]; n > 0 {
		all.Add(pipeline.Sigma2TooLarge, tooLargeText, n, of, "samples")
	}
	if n := t.told[pipeline.Unverified]; n > 0 {
		all.Add(pipeline.Unverified, doubtedText, n, of, "samples")
	}
	for _, w := range ofSamples {
		if n := t.told[w.code]; n > 0 {
			all.Add(w.code, "at %d of %d samples "+w.text, n, of)
		}
	}
	if n := t.NotConverged - t.told[pipeline.Unverified] - t.told[pipeline.NotSmooth]; n > 0 {
		all.Add(pipeline.NotConverged, "%d of %d samples did not converge, and are included in the means above; "+
			"raise --max-iter, or --tol if less accuracy is enough, or try another --solver", n, of)
	}
	return all
}

// Doubts are the reasons to doubt the points of a sweep, or its minimum, when it is summed up.
func (r *Swept) Doubts() (all Notes) {
	s, program := r.Summary, r.Header.Exec != ""
	floored, tooLarge, doubted, missing, most, unsure := 0, 0, 0, 0, 0, 0
	for _, l := range r.Lines {
		if l.Terms().Floored() {
			floored++
		}
		if Sigma2TooLarge(l.Terms(), l.DivergenceStdErr, l.Sigma2RelStdErr) {
			tooLarge++
		}
		if l.Doubted() {
			doubted++
		}
		if l.Unsure(r.Options.Criterion) {
			unsure++
		}
		if r.Options.Criterion.Rule().Diagonal && l.ALOUnresolved > 0 {
			missing, most = missing+1, max(most, l.ALOUnresolved)
		}
	}
	if floored > 0 {
		all.Add(NoteErrorBar, "%s", ZeroBarText(r.Header.Sigma2RelStdErr != nil))
	}
	if tooLarge > 0 {
		all.Add(pipeline.Sigma2TooLarge, tooLargeText, tooLarge, s.Points, "points")
	}
	for _, axis := range r.Axes {
		if end := s.Edges[axis.Name]; end != "" {
			all.Add(NoteEdge, "the minimizer is at the edge of the grid, the %s end of --%s: extend the grid", end,
				axis.Name)
		}
	}
	best := r.Lines[s.Minimizer.Index]
	for _, w := range best.Warnings {
		if w.Code == pipeline.GCVLeverages && r.Options.Criterion.Rule().Holds != nil {
			all.Add(w.Code, "at the minimizer %s", w.Text)
		}
	}
	if unsure > 0 {
		all.Add(NoteUnsure, "at %d of %d points the error bar of %s exceeds its value, or most observations have "+
			"leverages near 1: they compete by the sum of value and bar", unsure, s.Points,
			r.Options.Criterion.Rule().Label)
	}
	if missing > 0 {
		why := "whose leverages are too near to 1 for the probes (--trace exact, more --queries, or another " +
			"--criterion)"
		if r.Header.LossName != "" {
			why = "without which one Newton step does not tell the fit (another parameter of the loss, such as " +
				"--huber-delta)"
		}
		all.Add(pipeline.NoLeaveOneOut, "leave-one-out is not known at %d of %d points because of up to %d "+
			"observations, "+why+": the minimizer is that of the others", missing, s.Points, most)
	}
	r.rowsInGroups(&all)
	all = append(all, AuditNotes(s.Audits)...)
	if doubted > 0 {
		all.Add(pipeline.Unverified, doubtedText, doubted, s.Points, "points")
	}
	switch n := s.NotConverged - doubted; {
	case n > 0 && program:
		all.Add(pipeline.NotSmooth, "at %d of %d points "+notSmoothText, n, s.Points)
	case n > 0:
		all.Add(pipeline.NotConverged, "%d of %d points did not converge; raise --max-iter, or --tol if less accuracy "+
			"is enough, or try another --solver", n, s.Points)
	}
	return all
}
