package study

import (
	"context"
	"errors"

	"surepipe/pipeline"
	"surepipe/risk/warning"
)

// Audit compares what a criterion says of the estimate r at y with fits without some observations: see
// [pipeline.Family.Audit]. The estimate is at the weights of the axes, or without axes at the estimator's own.
func (j *Estimator) Audit(ctx context.Context, axes []Axis, weights, y []float64, r pipeline.Risk,
	o pipeline.SweepOptions) ([]*pipeline.Audit, error) {
	all, err := j.Family(axes).Audit(ctx, y, weights, r, o)
	if errors.Is(err, pipeline.ErrNothingToAudit) {
		return nil, Because(err, "--audit compares the error of observations that a fit is without with what alo or "+
			"gcv says of them: neither is defined at this fit, or the observations are too few to leave some out")
	}
	return all, err
}

// AuditNotes are the warnings of audits.
func AuditNotes(all []*pipeline.Audit) (n Notes) {
	for _, a := range all {
		for _, w := range a.Warnings() {
			n.Add(warning.Find(w.Code), "%s", w.Text)
		}
	}
	return n
}
