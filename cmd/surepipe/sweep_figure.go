package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"surepipe/internal/figure"
	"surepipe/pipeline"
	"surepipe/study"
)

// symbols are the symbols of the weights in figures.
var symbols = map[string]string{"lambda": "λ", "lambda2": "λ2", "gamma": "γ"}

// figure draws the points: curves over one weight, or a map over two. The map shows the grid's
// points and the minimizer, which may lie between them.
func (r *sweepReport) figure(summary study.SweepSummary) figure.Figure {
	f, best := r.f, summary.Minimizer
	title := fmt.Sprintf("%s, %s, d = %d", r.about.Problem, filepath.Base(f.Name()), r.about.D)
	if r.about.Sigma2 > 0 {
		title += fmt.Sprintf(", σ² = %.4g", r.about.Sigma2)
	}
	if r.about.Sigma2Method != "" {
		title += " (" + r.about.Sigma2Method + ")"
	}
	if len(f.axes) == 2 {
		rows, cols := len(f.axes[1].Values), len(f.axes[0].Values)
		h := figure.HeatMap{Title: title, XName: symbols[f.axes[0].Name], YName: symbols[f.axes[1].Name],
			X: f.axes[0].Values, Y: f.axes[1].Values, Label: label(f.criterion)}
		if best.Stage == pipeline.RefineStage {
			l := r.lines[best.Index]
			w := study.WeightsAt(f.axes, l)
			h.HasMin, h.MinX, h.MinY = true, w[0], w[1]
			h.MinValue, _ = l.Value(f.criterion)
		}
		for y := range rows {
			for x := range cols {
				// The sweep's points are in the order of decreasing weights.
				l := r.lines[(rows-1-y)*cols+cols-1-x]
				value, _ := l.Value(f.criterion)
				usable := l.Trusted() && !math.IsNaN(value)
				if math.IsNaN(value) {
					value = r.largest()
				}
				h.Values, h.Converged = append(h.Values, value), append(h.Converged, usable)
			}
		}
		r.mapErrors(&h)
		return h
	}
	s := figure.Sweep{Title: title, Parameter: symbols[f.axes[0].Name], Label: label(f.criterion)}
	if !f.criterion.Rule().Sigma2 {
		s.LossLabel = "true loss"
	}
	byWeight := func(a, b study.SweepLine) int {
		return cmp.Compare(study.WeightsAt(f.axes, a)[0], study.WeightsAt(f.axes, b)[0])
	}
	for _, l := range slices.SortedStableFunc(slices.Values(r.lines), byWeight) {
		value, stdErr := l.Value(f.criterion)
		if math.IsNaN(value) {
			continue
		}
		s.Lambda = append(s.Lambda, study.WeightsAt(f.axes, l)...)
		s.SURE = append(s.SURE, value)
		if !math.IsNaN(stdErr) {
			s.StdErr = append(s.StdErr, stdErr)
		}
		if e := summary.DifferenceStdErr[l.Index]; e != nil {
			s.DifferenceErr = append(s.DifferenceErr, *e)
		}
		s.Divergence = append(s.Divergence, l.Divergence)
		s.Converged = append(s.Converged, l.Trusted())
		if l.Loss != nil {
			s.Loss = append(s.Loss, *l.Loss)
		}
	}
	if len(s.DifferenceErr) < len(s.SURE) {
		s.DifferenceErr = nil
	}
	if summary.Rule != pipeline.MinimumRule && summary.Chosen.Index != best.Index {
		s.Chosen, s.ChosenName = study.WeightsAt(f.axes, r.lines[summary.Chosen.Index])[0], string(summary.Rule)
	}
	return r.picture(s)
}

// largest is the largest value of the criterion. It stands for values that are not defined, whose
// cells of the map are marked like those that did not converge.
func (r *sweepReport) largest() float64 {
	most := math.Inf(-1)
	for _, l := range r.lines {
		if v, _ := l.Value(r.f.criterion); v > most {
			most = v
		}
	}
	return most
}

// mapErrors gives the map the standard errors of its values, where all are known, and that of the
// minimum.
func (r *sweepReport) mapErrors(h *figure.HeatMap) {
	rows, cols := len(h.Y), len(h.X)
	for y := range rows {
		for x := range cols {
			_, stdErr := r.lines[(rows-1-y)*cols+cols-1-x].Value(r.f.criterion)
			if math.IsNaN(stdErr) || math.IsInf(stdErr, 0) {
				h.Err = nil
				return
			}
			h.Err = append(h.Err, stdErr)
		}
	}
	if i := figure.Minimizer(h.Values, h.Converged); i >= 0 {
		h.MinErr = h.Err[i]
	}
}
