package draw

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
	"surepipe/internal/figure"
	"surepipe/pipeline"
	"surepipe/problems/spec"
	"surepipe/study"
)

// symbols are the symbols of the weights in figures.
var symbols = spec.ByWeight("λ", "λ2", "γ")

type sweep struct {
	*study.Swept
	photograph bool
}

// Sweep draws the points of a sweep: curves over one weight, or a map over two. The map shows the grid's
// points and the minimizer, which may lie between them. name is that
// of the data; photograph says that y was read from an image, which is then shown with the curves.
func Sweep(path string, swept *study.Swept, name string, photograph bool, o Origin) error {
	return o.save(path, sweep{swept, photograph}.figure(name))
}

func (r sweep) figure(name string) figure.Figure {
	best, criterion := r.Summary.Minimizer, r.Options.Criterion
	about := r.Lines[0]
	title := fmt.Sprintf("%s, %s, d = %d", about.Problem, filepath.Base(name), about.D)
	if about.Sigma2 > 0 {
		title += fmt.Sprintf(", σ² = %.4g", about.Sigma2)
	}
	if about.Sigma2Method != "" {
		title += " (" + about.Sigma2Method + ")"
	}
	if len(r.Axes) == 2 {
		h := figure.HeatMap{Title: title, XName: symbols[r.Axes[0].Name], YName: symbols[r.Axes[1].Name],
			X: r.Axes[0].Values, Y: r.Axes[1].Values, Label: criterion.Rule().Label, OpenLabel: r.openLabel()}
		if best.Stage == pipeline.RefineStage {
			l := r.Lines[best.Index]
			w := l.Swept(r.Axes)
			h.HasMin, h.MinX, h.MinY = true, w[0], w[1]
			h.MinValue, _ = l.Value(criterion)
		}
		n, most := len(h.X)*len(h.Y), math.Inf(-1)
		for i := range n {
			l := r.Lines[n-1-i] // they are in the order of decreasing weights
			value, stdErr := l.Value(criterion)
			if value > most {
				most = value
			}
			h.Values, h.Err = append(h.Values, value), append(h.Err, stdErr)
			h.Converged = append(h.Converged, l.Plain(criterion) && !math.IsNaN(value))
		}
		for i, value := range h.Values {
			if math.IsNaN(value) { // a value that is not defined is marked like one that did not converge
				h.Values[i] = most
			}
		}
		if sum := floats.Sum(h.Err); math.IsNaN(sum) || math.IsInf(sum, 0) { // not all are known
			h.Err = nil
		}
		return h
	}
	s := figure.Sweep{Title: title, Parameter: symbols[r.Axes[0].Name], Label: criterion.Rule().Label,
		OpenLabel: r.openLabel()}
	if !criterion.Rule().Sigma2 {
		s.LossLabel = "true loss"
	}
	byWeight := func(a, b study.SweepLine) int {
		return cmp.Compare(a.Swept(r.Axes)[0], b.Swept(r.Axes)[0])
	}
	for _, l := range slices.SortedStableFunc(slices.Values(r.Lines), byWeight) {
		value, stdErr := l.Value(criterion)
		if math.IsNaN(value) {
			continue
		}
		s.Lambda = append(s.Lambda, l.Swept(r.Axes)...)
		s.SURE = append(s.SURE, value)
		if !math.IsNaN(stdErr) {
			s.StdErr = append(s.StdErr, stdErr)
		}
		if e := r.Summary.DifferenceStdErr[l.Index]; e != nil {
			s.DifferenceErr = append(s.DifferenceErr, *e)
		}
		s.Divergence = append(s.Divergence, l.Divergence)
		s.Converged = append(s.Converged, l.Plain(criterion))
		if l.Loss != nil {
			s.Loss = append(s.Loss, *l.Loss)
		}
	}
	for _, known := range []*[]float64{&s.StdErr, &s.DifferenceErr, &s.Loss} {
		if len(*known) < len(s.SURE) {
			*known = nil
		}
	}
	if r.Summary.Rule != pipeline.MinimumRule && r.Summary.Chosen.Index != best.Index {
		s.Chosen, s.ChosenName = r.Lines[r.Summary.Chosen.Index].Swept(r.Axes)[0], string(r.Summary.Rule)
	}
	return r.picture(s)
}

func (r sweep) openLabel() string {
	if r.Summary.NotConverged > 0 {
		return ""
	}
	return "not to be relied on"
}

// picture puts the images of a denoised image above the curve: y, the estimate, and the
// truth where it is known. Other curves remain as they are.
func (r sweep) picture(curve figure.Sweep) figure.Figure {
	if r.Estimator == nil || !r.photograph || !IsImage(r.Estimator.Problem.MuShape) {
		return curve
	}
	p, best := r.Estimator.Problem, r.Chosen
	estimate := dataio.Array{Shape: p.MuShape, Data: best.MuHat}
	if p.Signal != nil {
		if !best.HasB() || !IsImage(p.SignalShape) {
			return curve
		}
		signal, err := study.Synthesize(p, best.DenseB())
		if err != nil {
			return curve
		}
		estimate = signal
	}
	show := func(caption string, shape []int, pixels []float64) figure.Panel {
		return figure.Panel{Image: newView(shape, false).take(pixels, 0, caption)}
	}
	images := []figure.Panel{show("y", p.MuShape, r.Data.Y), show("the estimate", estimate.Shape, estimate.Data)}
	if r.Data.Mu != nil {
		images = append(images, show("the truth", p.MuShape, r.Data.Mu))
	}
	title := curve.Title
	curve.Title, curve.Divergence = "", nil // the page has no room for it
	return figure.Images{Title: title, Rows: [][]figure.Panel{images}, Curve: &curve}
}
