package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"surepipe/pipeline"
	"surepipe/risk"
	"surepipe/study"
)

// chooseCriterion fills in the default, when sigma2 is known or known to be unknown.
func (f *sweepFlags) chooseCriterion(sigma2 float64) error {
	if err := f.chooseForLoss(); err != nil {
		return err
	}
	if f.criterion == "" {
		f.criterion = risk.DefaultCriterion(sigma2, true)
	}
	rule := f.criterion.Rule()
	if rule.Sigma2 && sigma2 == 0 {
		return usagef("--sigma2 is missing and %s holds no sigma2, which --criterion %s needs: give the variance "+
			"of the noise, or --sigma2 auto to estimate it, or choose another criterion", f.Name(), f.criterion)
	}
	f.alo = f.alo || rule.Diagonal
	return nil
}

// writeCriterion says what is minimized, and what the numbers are about where that needs to be said.
func (f *sweepFlags) writeCriterion(w io.Writer, r study.Result) {
	other := !f.criterion.Rule().Sigma2
	if other {
		fmt.Fprintf(w, "criterion\t%s\n", f.criterion)
	}
	if r.SUREEstimates != "" {
		fmt.Fprintf(w, "\tSURE is about %s\n", r.SUREEstimates)
	}
	if r.ALOEstimates != "" && other {
		fmt.Fprintf(w, "\tGCV and leave-one-out aim at %s\n", r.ALOEstimates)
	}
}

// columns are the criteria that the table shows: SURE where it is known, and the one that is
// minimized.
func (f *sweepFlags) columns(sigma2 float64) []risk.Criterion {
	if sigma2 == 0 {
		return []risk.Criterion{f.criterion}
	}
	return slices.Compact([]risk.Criterion{risk.DefaultCriterion(sigma2, true), f.criterion})
}

// cell is a value with its standard error as columns of the table.
func cell(value, stdErr float64) string {
	switch {
	case math.IsNaN(value):
		return fmt.Sprintf(" %12s   %-8s", unknown, "")
	case math.IsNaN(stdErr):
		return fmt.Sprintf(" %12.6g   %-8s", value, "")
	}
	return fmt.Sprintf(" %12.6g ± %-8.2g", value, stdErr)
}

// valuesOf are those of the lines of the --jsonl file.
func (f *sweepFlags) valuesOf(lines []study.SweepLine) ([]pipeline.SweepValue, error) {
	var values []pipeline.SweepValue
	for i, line := range lines {
		if line.Index != i {
			return nil, usagef("--resume: %s holds point %d where point %d is expected", f.jsonl, line.Index, i)
		}
		values = append(values, study.KnownPoint(f.criterion, f.axes, line))
	}
	return values, nil
}

// criteriaColumns are the columns of a .csv file for what is known at any point; leave-one-out that was
// not asked for must be known at all.
func (r *sweepReport) criteriaColumns() []string {
	var names []string
	add := func(asked bool, keys ...string) {
		for _, key := range keys {
			known := 0
			for _, l := range r.lines {
				if l.Number(key) != nil {
					known++
				}
			}
			if known == len(r.lines) || known > 0 && asked {
				names = append(names, key)
			}
		}
	}
	for _, rule := range risk.Rules() {
		name := string(rule.Name)
		add(!rule.Diagonal || r.f.alo, append([]string{name, name + "_stderr"}, rule.Keys...)...)
	}
	add(true, "sigma2_df")
	return names
}
