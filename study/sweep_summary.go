package study

import (
	"surepipe/pipeline"
	"surepipe/risk"
)

// Summarize sums up the points of a sweep, of which the first grid are those of the grid. best is the
// minimizer, with the choice and the edges.
func Summarize(
	lines []SweepLine, grid int, axes []Axis, criterion risk.Criterion, rule pipeline.Rule, best pipeline.SweepPoint,
) SweepSummary {
	s := SweepSummary{
		Summary: true, Criterion: criterion, Points: len(lines), Minimizer: lines[best.Index].Minimum(),
		SweepChoice: choiceOf(lines, best.Choice, rule),
	}
	for a, end := range best.Edge {
		if end != 0 && s.Edges == nil {
			s.Edges = map[string]string{}
		}
		switch end {
		case -1:
			s.Edges[axes[a].Name] = "lower"
		case 1:
			s.Edges[axes[a].Name] = "upper"
		}
	}
	for i, line := range lines {
		if !line.Trusted() {
			s.NotConverged++
		}
		if i < grid && line.Loss != nil && (s.LeastLoss == nil || *line.Loss < *s.LeastLoss.Loss) {
			m := line.Minimum()
			s.LeastLoss = &m
		}
	}
	return s
}

// choiceOf says how sure the choice is.
func choiceOf(lines []SweepLine, c *pipeline.Choice, rule pipeline.Rule) SweepChoice {
	s := SweepChoice{
		Rule: rule, Chosen: lines[c.Chosen].Minimum(), Alike: c.Alike,
		Optimism: Defined(c.Optimism.Value), OptimismStdErr: Defined(c.Optimism.StdErr),
	}
	if s.Optimism != nil {
		s.OptimismLeavesOut = optimismLeavesOut
	}
	for _, d := range c.Differences {
		s.Difference = append(s.Difference, Defined(d.Value))
		s.DifferenceStdErr = append(s.DifferenceStdErr, Defined(d.StdErr))
	}
	return s
}
