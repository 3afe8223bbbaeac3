package study

import (
	"fmt"
	"math"
	"slices"

	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/warning"
)

const (
	tooLargeText = "SURE of %d of %d %s is more than three error bars below 0, although it estimates a squared " +
		"error: sigma2 is too large (--sigma2)"
	doubtedText = "--verify disagrees with %d of %d %s: each has a warning that says why; lower --tol, or try " +
		"another --solver or --derivative"
)

// Doubts are the reasons to doubt the means of a run.
func (t *Tally) Doubts() (all Notes) {
	of := t.Samples + t.Seeds
	if t.told[warning.ErrorBarFloor.Code] > 0 {
		all.Add(warning.ErrorBarFloor, "%s", ZeroBarText(t.Estimated))
	}
	if n := t.told[warning.Sigma2TooLarge.Code]; n > 0 {
		all.Add(warning.Sigma2TooLarge, tooLargeText, n, of, "samples")
	}
	if n := t.told[warning.Unverified.Code]; n > 0 {
		all.Add(warning.Unverified, doubtedText, n, of, "samples")
	}
	for _, k := range warning.Kinds() {
		if n := t.told[k.Code]; n > 0 && k.Samples != "" {
			all.Add(k, "at %d of %d samples %s", n, of, k.Samples)
		}
	}
	if known := len(t.PerSample.ALO); known > 0 && known < t.Samples && t.told[warning.NoLeaveOneOut.Code] == 0 {
		all.Add(warning.NoLeaveOneOut, "leave-one-out is known at %d of %d samples, and its mean is that of these "+
			"alone; give --trace exact or more --queries", known, t.Samples)
	}
	if n := t.NotConverged - t.told[warning.Unverified.Code] - t.told[warning.NotSmooth.Code] -
		t.told[warning.NoFiniteFit.Code]; n > 0 {
		all.Add(warning.NotConverged, "%d of %d samples did not converge, and are included in the means above; "+
			"raise --max-iter, or --tol if less accuracy is enough, or try another --solver", n, of)
	}
	return all
}

// Doubts are the reasons to doubt the points of a sweep, or its minimum, when it is summed up.
func (r *Swept) Doubts() (all Notes) {
	s, criterion := r.Summary, r.Options.Criterion
	rule, most := criterion.Rule(), 0
	points := func(which func(l *SweepLine) bool) (n int) {
		for i := range r.Lines {
			if which(&r.Lines[i]) {
				n++
			}
		}
		return n
	}
	if points(func(l *SweepLine) bool { return l.Terms().Floored() }) > 0 {
		all.Add(warning.ErrorBarFloor, "%s", ZeroBarText(r.Header.Sigma2RelStdErr != nil))
	}
	if n := points(func(l *SweepLine) bool {
		return Sigma2TooLarge(l.Terms(), l.DivergenceStdErr, l.Sigma2RelStdErr)
	}); n > 0 {
		all.Add(warning.Sigma2TooLarge, tooLargeText, n, s.Points, "points")
	}
	for a, axis := range r.Axes {
		if end := s.Edges[axis.Name]; end != "" {
			all.Add(warning.Edge, "the minimizer is at the edge of the grid, the %s end of --%s: %s", end, axis.Name,
				r.beyond(a, end))
		}
	}
	r.ofGCV(&all)
	if c := r.undefined; c != "" {
		all.Add(warning.FallsBack, "the criterion %s is not defined at any point of the grid, or not next to its "+
			"least: %s; the minimum is that of cross-validation", c, c.Rule().Undefined)
	}
	if n := points(func(l *SweepLine) bool { return l.Unsure(criterion) }); n > 0 {
		all.Add(warning.Unsure, "at %d of %d points the error bar of %s exceeds its value, or most observations have "+
			"leverages near 1: they compete by the sum of value and bar", n, s.Points, rule.Label)
	}
	if n := points(func(l *SweepLine) bool {
		v, _ := l.Value(criterion)
		return rule.Blocks && math.IsNaN(v)
	}); n > 0 {
		all.Add(warning.NoLeaveGroupOut, "leave-group-out is not known at %d of %d points, where groups decide a part "+
			"of their own fit: the minimizer is that of the others; compare --criterion cv", n, s.Points)
	}
	missing := points(func(l *SweepLine) bool {
		most = max(most, l.ALOUnresolved)
		return rule.Diagonal && l.ALOUnresolved > 0
	})
	if missing > 0 && r.besideUnknown() {
		why := "whose leverages are too near to 1 for the probes (--trace exact, more --queries, or another " +
			"--criterion)"
		if r.Header.LossName != "" {
			why = "without which steps from the fit do not tell what it would be (--criterion cv, a larger weight, " +
				"or another parameter of the loss, such as --huber-delta)"
		}
		all.Add(warning.NoLeaveOneOut, "leave-one-out is not known at %d of %d points because of up to %d "+
			"observations, "+why+": the minimizer is that of the others", missing, s.Points, most)
	}
	for _, add := range []func(*Notes){r.doubtfulChoice, r.passedOver, r.rows, r.fewGroups, r.nearData, r.likelihood} {
		add(&all)
	}
	all = append(all, AuditNotes(s.Audits)...)
	doubted := points((*SweepLine).Doubted)
	if doubted > 0 {
		all.Add(warning.Unverified, doubtedText, doubted, s.Points, "points")
	}
	grow := points(func(l *SweepLine) bool {
		return r.untrusted(l) && slices.ContainsFunc(l.Warnings, func(w pipeline.Warning) bool {
			return w.Is(warning.NoFiniteFit)
		})
	})
	if grow > 0 {
		all.Add(warning.NoFiniteFit, "at %d of %d points %s", grow, s.Points, warning.NoFiniteFit.Samples)
	}
	switch n := s.NotConverged - doubted - grow; {
	case n > 0 && r.Header.Exec != "":
		all.Add(warning.NotSmooth, "at %d of %d points %s", n, s.Points, warning.NotSmooth.Samples)
	case n > 0:
		all.Add(warning.NotConverged, "%d of %d points did not converge; raise --max-iter, or --tol if less accuracy "+
			"is enough, or try another --solver", n, s.Points)
	}
	return all
}

// besideUnknown reports whether the criterion is not known at a point next to the minimizer, which may then have less.
// On a grid of several weights it is true.
func (r *Swept) besideUnknown() bool {
	if len(r.Axes) > 1 {
		return true
	}
	best := r.Lines[r.Summary.Minimizer.Index].Swept(r.Axes)[0]
	for _, sign := range []float64{-1, 1} {
		nearest, unknown := math.Inf(1), false
		for _, l := range r.Lines {
			if off := sign * (l.Swept(r.Axes)[0] - best); off > 0 && off < nearest {
				v, _ := l.Value(r.Options.Criterion)
				nearest, unknown = off, math.IsNaN(v)
			}
		}
		if unknown {
			return true
		}
	}
	return false
}

// doubtfulChoice warns where the choice is likely to cost more than is tolerable, or to look better than it is.
func (r *Swept) doubtfulChoice(all *Notes) {
	if s := r.Summary; s.Regret != nil && *s.Regret > risk.Tolerable {
		all.Add(warning.CostlyChoice, "the choice may cost: the squared error at the minimizer is on average %.0f%% "+
			"above that at the best weight, and with a probability of %.0f%% more than %.0f%% above it", 100**s.Regret,
			100**s.RegretBeyond, 100*risk.Tolerable)
	}
	rule := r.Options.Criterion.Rule()
	if r.Header.FewRows && !rule.Refits && !rule.Sigma2 {
		all.Add(warning.FewRows, "there are few observations and as many coefficients, of which fits choose some: the "+
			"least %s over such fits is often far below that of other rows; compare --criterion cv", rule.Label)
	}
	// With another loss a default that leaves out is one without lone rows.
	asked := !r.Options.Fallback || r.Header.LossName == ""
	if rule.Diagonal && asked && r.Estimator != nil && pipeline.LoneRows(r.Estimator.Problem.Solve()) {
		all.Add(warning.LoneRows, "columns of X are nearly 0 but for one row, as those of levels that come once: "+
			"without the row they are out of the fit, which %s does not know: a fit without them seems better; "+
			"compare --criterion cv", rule.Label)
	}
}

// beyond is what is known beyond an end of axis a.
func (r *Swept) beyond(a int, end string) string {
	values := r.Axes[a].Values
	last, sign := values[0], -1.0
	if end == "upper" {
		last, sign = values[len(values)-1], 1
	}
	criterion := r.Options.Criterion
	least, _ := r.Lines[r.Summary.Minimizer.Index].Value(criterion)
	points, same := 0, true
	for i := range r.Lines {
		l := &r.Lines[i]
		if v, _ := l.Value(criterion); sign*(l.Swept(r.Axes)[a]-last) > 0 {
			points, same = points+1, same && v == least
		}
	}
	label := criterion.Rule().Label
	switch {
	case points == 0:
		return "extend the grid"
	case same:
		return fmt.Sprintf("%s is the same beyond it", label)
	}
	return fmt.Sprintf("%d points beyond it were computed, and %s may still be less further on", points, label)
}

// nearShare is the share of the observations beyond which degrees of freedom are those of a fit that follows y.
const nearShare = 0.9

// nearData tells of a choice near y that no fit without some observations has tested.
func (r *Swept) nearData(all *Notes) {
	best := &r.Lines[r.Summary.Minimizer.Index]
	tested := len(r.Summary.Audits) > 0 || r.Options.Criterion.Rule().Refits
	if tested || !(best.Divergence > nearShare*float64(best.Size())) {
		return
	}
	all.Add(warning.NearData, "the minimizer takes %.6g degrees of freedom of %d observations, and was not audited: "+
		"where the noise of neighbours is correlated, or sigma2 is too small, it follows the noise; compare --audit",
		best.Divergence, best.Size())
}

// ofGCV tells where GCV does not hold at the minimizer, which it chose, or of which it chose sigma2.
func (r *Swept) ofGCV(all *Notes) {
	if r.Options.Criterion.Rule().Holds == nil && r.Header.Sigma2Method != problems.MethodGCVResidual {
		return
	}
	for _, w := range r.Lines[r.Summary.Minimizer.Index].Warnings {
		if w.Is(warning.GCVLeverages) {
			all.Add(warning.Find(w.Code), "at the minimizer %s", w.Text)
		}
	}
}

// likelihood tells of coefficients that no penalty bounds, at any weight, of noise whose variance differs, and of a
// likelihood that y does not follow: the fit that is chosen shows them. Points that are read without their data have no
// fit.
func (r *Swept) likelihood(all *Notes) {
	if r.Estimator == nil {
		return
	}
	*all = append(*all, r.Diagnostics.Notes()...)
	for _, w := range r.Chosen.Risk.Warnings() {
		for _, k := range []*warning.Kind{warning.Overdispersed, warning.LossScale} {
			if w.Is(k) {
				all.Add(k, "%s", w.Text)
			}
		}
	}
}

func (r *Swept) passedOver(all *Notes) {
	best, c, passed, overfit := &r.Lines[r.Summary.Minimizer.Index], r.Options.Criterion, 0, 0
	least, _ := best.Value(c)
	for i := range r.Lines {
		l := &r.Lines[i]
		if v, _ := l.Value(c); !(v < least) {
			continue
		}
		if best.Trusted() && !l.Trusted() {
			passed++
		}
		if l.Overfits && !best.Overfits {
			overfit++
		}
	}
	if overfit > 0 {
		all.Add(warning.PassedOver, "at %d of %d points %s is less than at the minimizer, by fits with so many "+
			"degrees of freedom, of %d observations, that it may be so by chance: the minimizer is that of the "+
			"others; compare --criterion cv", overfit, len(r.Lines), c.Rule().Label, best.D)
	}
	if passed > 0 {
		all.Add(warning.PassedOver, "at %d of %d points %s is less than at the minimizer, but is not to be trusted, "+
			"as the warnings of these points say: the minimizer is that of the others", passed, len(r.Lines),
			c.Rule().Label)
	}
}
