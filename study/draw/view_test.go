package draw

import (
	"fmt"
	"math"
	"testing"

	"surepipe/internal/figure"
)

// A scale belongs to the values that it shows: y does not set that of the images, and differences are
// around 0.
func TestScalesOfPictures(t *testing.T) {
	v := newView([]int{2, 2}, false)
	rows := v.compare(NoFrame, "estimate", []float64{-50, 0, 1, 50}, []float64{0, 0.1, 0.9, 1},
		[]float64{0, 0.2, 0.8, 2})
	if len(rows) != 2 || len(rows[0]) != 3 || len(rows[1]) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	if s := rows[0][0].Scale; s.Low != 0 || s.High != 2 || rows[0][2].Scale != s {
		t.Errorf("the images' scale is %+v", s)
	}
	if s := rows[1][0].Scale; s.Map != figure.Diverging || s.Low != -50 || s.High != 50 || rows[1][1].Scale != s {
		t.Errorf("the differences' scale is %+v", s)
	}
	if got := fmt.Sprint(rows[1][1].Pixels); got != fmt.Sprint([]float64{0, -0.1, 0.1, -1}) &&
		math.Abs(rows[1][1].Pixels[3]+1) > 1e-15 {
		t.Errorf("the error is %s", got)
	}
	c := newView([]int{1, 2, 2}, true)
	rows = c.compare(NoFrame, "estimate", nil, []float64{3, 4, 0, -1}, []float64{3, 4, 0, 1})
	if len(rows) != 1 || fmt.Sprint(rows[0][0].Pixels, rows[0][2].Pixels) != "[5 1] [0 2]" ||
		rows[0][2].Scale.Map != figure.Sequential {
		t.Errorf("complex numbers: %+v", rows)
	}
	if flat := newView([]int{1, 2}, false).compare(NoFrame, "estimate", []float64{7, 7}, []float64{7, 7},
		nil); !(flat[0][0].Scale.High > 7 && flat[0][2].Scale.High == 1) {
		t.Errorf("constant images: %+v, %+v", flat[0][0].Scale, flat[0][2].Scale)
	}
	if newView([]int{7}, false) != nil || newView([]int{7, 2}, true) != nil ||
		newView([]int{4, 5, 6, 3}, false).frames != 4 {
		t.Error("wrong views")
	}
}
