package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sweep is SURE against a hyperparameter on a logarithmic axis: the curve with a
// band of one standard error, of the values or of their differences to the minimum, the
// minimizer with its value, and, where they are given, the true loss, and the divergence
// (degrees of freedom) in a panel below. The axis of SURE is logarithmic too where all values are
// positive and the greatest is more than thirty times the least: on a linear one the minimum is flat.
// Points that did not converge, and single ones far from all others, do not set the scale: they are
// marked at the edge of the frame, and the legend says how far they are.
type Sweep struct {
	Title string
	// Parameter names the hyperparameter.
	Parameter string
	// Label names the values of SURE. SURE has the units of y^2: say so here, or
	// "SURE / d" for values per coordinate.
	Label string
	// Lambda has the values of the hyperparameter, positive and increasing.
	Lambda []float64
	// SURE has one value for each lambda.
	SURE []float64
	// StdErr is SURE's standard error. Nil: no band.
	StdErr []float64
	// DifferenceErr is the standard error of each value's difference to the minimum. It takes the
	// place of StdErr as the band, and a line marks the minimum's height: where the band reaches
	// below it a value cannot be told from the minimum. Nil: not known.
	DifferenceErr []float64
	// Chosen is the hyperparameter of a point that was chosen by the rule ChosenName and is not the
	// minimizer. 0: none.
	Chosen     float64
	ChosenName string
	// Loss is ||mu_hat - mu||^2 in SURE's units. Nil: not known.
	Loss []float64
	// LossLabel, unless it is "", says that the values named SURE are those of another criterion, with
	// other units than the loss: that is drawn in a panel of its own, with this label.
	LossLabel string
	// Divergence is the trace of the Jacobian. Nil: no second panel.
	Divergence []float64
	// Converged says where the solver converged. Other points have open markers, and the minimizer
	// is not one of them unless all are. Nil: everywhere.
	Converged []bool
}

func (s Sweep) check() error {
	n := len(s.Lambda)
	err := cmp.Or(
		checkSeries("Lambda", s.Lambda, -1, increasing),
		checkSeries("SURE", s.SURE, n, anySign),
		checkSeries("StdErr", s.StdErr, n, notNegative|optional),
		checkSeries("DifferenceErr", s.DifferenceErr, n, notNegative|optional),
		checkSeries("Loss", s.Loss, n, optional),
		checkSeries("Divergence", s.Divergence, n, optional),
	)
	switch {
	case err == nil && s.Chosen != 0 && !slices.Contains(s.Lambda, s.Chosen):
		return fmt.Errorf("figure: Chosen is %g, expected a value of Lambda", s.Chosen)
	case err == nil && s.Converged != nil && len(s.Converged) != n:
		return fmt.Errorf("figure: Converged has %d values, expected %d", len(s.Converged), n)
	}
	return err
}

func (s Sweep) plan() (*drawing, error) {
	b, err := s.block(pageWidth, 205, false)
	if err != nil {
		return nil, err
	}
	return b.alone(), nil
}

// block lays the sweep out, or with narrow its upper panel for a narrow column.
func (s Sweep) block(column, height vg.Length, narrow bool) (*block, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	bars, errorName := s.StdErr, "± standard error"
	if s.DifferenceErr != nil {
		bars, errorName = s.DifferenceErr, "± standard error of the difference to the minimum"
	}
	low, high := slices.Clone(s.SURE), slices.Clone(s.SURE)
	for i := range bars {
		low[i] -= bars[i]
		high[i] += bars[i]
	}
	beside := s.Loss
	if s.LossLabel != "" {
		beside = nil
	}
	x := logAxis(s.Parameter, s.Lambda[0], s.Lambda[len(s.Lambda)-1])
	y, cut := s.values(low, high, beside)
	sure := curve{x: s.Lambda, y: s.SURE, closed: s.Converged, line: stroke(blue, 1.6)}
	top := newPanel(x, y, column, height)
	b := &block{title: s.Title, panels: []*panel{top}}
	name := s.Label
	if narrow {
		// The axis has the label already.
		name, errorName = "SURE", "± s.e."
	}
	b.legend = append(b.legend, sure.entry(name))
	if bars != nil {
		if cut {
			errorName += " (cut off at the frame)"
		}
		b.legend = append(b.legend, bandEntry(errorName, top.band(blue, s.Lambda, low, high)))
	}
	best := Minimizer(s.SURE, s.Converged)
	top.vertical(dotted, s.Lambda[best])
	if s.DifferenceErr != nil {
		top.horizontal(dotted, s.SURE[best])
	}
	top.grid()
	if beside != nil {
		loss := curve{x: s.Lambda, y: s.Loss, closed: s.Converged, line: stroke(vermillion, 1.4, 5, 2.5), shape: 1}
		loss.on(top)
		b.legend = append(b.legend, loss.entry("true loss"))
	}
	sure.on(top)
	s.minimum(b, best, narrow)
	if slices.Contains(s.Converged, false) {
		open := lineEntry("not converged", sure.line)
		open.samples = append(open.samples, &plotter.Scatter{GlyphStyle: sure.open()})
		b.legend = append(b.legend, open)
	}
	b.legend = append(b.legend, beyondEntry(y, "frame", blue, s.SURE, beside)...)
	if !narrow {
		s.below(b, column, best)
	}
	return b, nil
}

// dotted is the line through a minimum.
var dotted = stroke(ink, 0.8, 1.5, 2)

// minimum marks the minimizer and the chosen point in the first panel of b.
func (s Sweep) minimum(b *block, best int, narrow bool) {
	mark := func(shape []vg.Point, i int) draw.GlyphStyle {
		g := marker(shape, 4, orange, stroke(black, 0.8))
		b.panels[0].marks(g, s.Lambda[i:i+1], s.SURE[i:i+1])
		return g
	}
	stdErr := 0.0
	if s.StdErr != nil && !narrow {
		stdErr = s.StdErr[best]
	}
	b.legend = append(b.legend, minimumEntry(s.SURE[best], stdErr, s.Parameter+" = "+short(s.Lambda[best], 4), mark(star, best)))
	if s.Chosen != 0 {
		label := fmt.Sprintf("chosen by %s, %s = %s", s.ChosenName, s.Parameter, short(s.Chosen, 4))
		b.legend = append(b.legend, markEntry(label, mark(square, slices.Index(s.Lambda, s.Chosen))))
	}
}

// minimumEntry is the legend of a minimum and its place.
func minimumEntry(value, stdErr float64, at string, g draw.GlyphStyle) entry {
	label := "minimum " + number(value, 3)
	if stdErr != 0 {
		label += " ± " + number(stdErr, 2)
	}
	return markEntry(label+" at "+at, g)
}

// values is the axis of SURE, its band from low to high and the curve beside it, of the values that
// set its scale.
func (s Sweep) values(low, high, beside []float64) (y *axis, cut bool) {
	values, band := settled(s.SURE, s.Converged, s.SURE), settled(s.SURE, s.Converged, low, high)
	if beside != nil {
		values = append(values, settled(beside, s.Converged, beside)...)
	}
	if least, greatest := slices.Min(values), slices.Max(values); least > 0 && greatest > 30*least {
		bandLow, bandHigh := slices.Min(band), slices.Max(band)
		shownLow, shownHigh := max(min(bandLow, least), least/10), min(max(bandHigh, greatest), 10*greatest)
		return logAxis(s.Label, shownLow, shownHigh), bandLow < shownLow || bandHigh > shownHigh
	}
	return bandAxis(s.Label, band, values)
}

// below adds the panels below the first of b, each half as high: the loss, where its units are its
// own, and the degrees of freedom.
func (s Sweep) below(b *block, column vg.Length, best int) {
	add := func(label string, values []float64, low float64, k curve) {
		shown := settled(values, s.Converged, values)
		least, greatest := slices.Min(shown), slices.Max(shown)
		if least > low && least < 0.5*greatest {
			least = low
		}
		p := newPanel(b.panels[0].x, linearAxis(label, least, greatest), column, 0.5*b.panels[0].height)
		p.vertical(dotted, s.Lambda[best])
		p.grid()
		k.x, k.y, k.closed = s.Lambda, values, s.Converged
		k.on(p)
		b.panels = append(b.panels, p)
	}
	if s.Loss != nil && s.LossLabel != "" {
		add(s.LossLabel, s.Loss, math.Inf(1), curve{line: stroke(vermillion, 1.4), shape: 1})
	}
	if s.Divergence != nil {
		add("degrees of freedom", s.Divergence, 0, curve{line: stroke(green, 1.6)})
	}
}

// Running is the mean of the first n values against n, on a logarithmic axis, with a band of one
// standard error, s/sqrt(n), from the second value on. For SURE - loss it shows whether SURE is
// unbiased.
type Running struct {
	Title string
	// Label names the mean.
	Label string
	// Values has one value for each sample, in order.
	Values []float64
	// Zero names a line at 0, the mean's expected value. "": none.
	Zero string
}

// runningPoints is the approximate number of means that are drawn.
const runningPoints = 400

func (r Running) plan() (*drawing, error) {
	if err := checkSeries("Values", r.Values, -1, anySign); err != nil {
		return nil, err
	}
	var n, mean, low, high []float64
	var m, squares float64
	next := 1.0
	for i, v := range r.Values {
		k := float64(i + 1)
		d := v - m
		m += d / k
		squares += d * (v - m)
		if k < next && i < len(r.Values)-1 {
			continue
		}
		next = max(k+1, k*math.Pow(float64(len(r.Values)), 1.0/runningPoints))
		se := 0.0
		if i > 0 {
			se = math.Sqrt(squares / (k - 1) / k)
		}
		n, mean, low, high = append(n, k), append(mean, m), append(low, m-se), append(high, m+se)
	}
	values := slices.Clone(mean)
	if r.Zero != "" {
		values = append(values, 0)
	}
	last := len(n) - 1
	y, cut := bandAxis(r.Label, slices.Concat(low, high), values)
	x := logAxis("number of samples n", 1, n[last])
	x.whole = true
	p := newPanel(x, y, pageWidth, 220)
	k := curve{x: n, y: mean, line: stroke(blue, 1.6)}
	b := &block{title: r.Title, panels: []*panel{p}, legend: []entry{k.entry(r.Label + ", last " + number(mean[last], 3))}}
	if last > 0 {
		name := "± standard error, last " + number(high[last]-mean[last], 2)
		if cut {
			name += " (cut off at the frame)"
		}
		b.legend = append(b.legend, bandEntry(name, p.band(blue, n[1:], low[1:], high[1:])))
	}
	p.grid()
	if r.Zero != "" {
		dashed := stroke(black, 1.2, 4, 2)
		p.horizontal(dashed, 0)
		b.legend = append(b.legend, lineEntry(r.Zero, dashed))
	}
	k.on(p)
	return b.alone(), nil
}
