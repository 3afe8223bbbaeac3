package draw

import (
	"fmt"
	"path/filepath"

	"surepipe/internal/figure"
	"surepipe/internal/lists"
	"surepipe/study"
)

const (
	namedPaths = 7   // have a colour and a name
	drawnPaths = 500 // are drawn
)

// Path draws the coefficients of a sweep along its only weight, those of standardized columns in their units.
func Path(path string, r *study.Swept, name string, o Origin) error {
	if len(r.Axes) != 1 {
		return study.Errorf("--path %s: coefficients are drawn along one weight, found %d: expected a .csv file", path,
			len(r.Axes))
	}
	order, scales := r.Largest()
	f := figure.Lines{Title: fmt.Sprintf("%s, %s, d = %d", r.Lines[0].Problem, filepath.Base(name), r.Lines[0].D),
		XLabel: symbols[r.Axes[0].Name], YLabel: "coefficient", Paths: true, Named: min(namedPaths, len(order))}
	if r.Estimator.Problem.Scales() != nil {
		f.YLabel = "coefficient × standard deviation of its column"
	}
	points, names := r.PathOrder(), r.PathNames()
	var weights []float64
	for _, i := range points {
		weights = append(weights, r.Lines[i].Swept(r.Axes)...)
	}
	for _, j := range order[:min(drawnPaths, len(order))] {
		f.Series = append(f.Series, figure.Series{Name: names[j], X: weights,
			Y: lists.Map(points, func(i int) float64 { return r.Path[i].Coefficients[j] * scales[j] })})
	}
	return o.save(path, f)
}
