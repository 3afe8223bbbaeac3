package draw

import (
	"path/filepath"
	"testing"

	"surepipe/pipeline"
	"surepipe/study"
)

// A curve of which some errors are not known is drawn without a band.
func TestErrorsThatArePartlyKnown(t *testing.T) {
	r := &study.Swept{Sweep: &study.Sweep{Axes: []study.Axis{{Name: "lambda"}},
		Options: pipeline.SweepOptions{Criterion: "sure"}}}
	for i := range 3 {
		var l study.SweepLine
		l.Index, l.Lambda, l.SURE = i, new(study.Number(3-i)), new(float64(i+1))
		if i > 0 {
			l.SUREStdErr = new(0.5)
		}
		r.Lines = append(r.Lines, l)
	}
	r.Summary.DifferenceStdErr, r.Summary.Rule = make([]*float64, 3), pipeline.MinimumRule
	if err := Sweep(filepath.Join(t.TempDir(), "curve.svg"), r, "y.csv", false, Origin{}); err != nil {
		t.Error(err)
	}
}
