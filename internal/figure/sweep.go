package figure

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Sweep is SURE against a hyperparameter on a logarithmic axis: the curve with a
// band of one standard error, of the values or of their differences to the minimum, the
// minimizer with its value, and, where they are given, the true loss, and the divergence
// (degrees of freedom) in a panel below. The axis of SURE is logarithmic too where all values are
// positive and the greatest is more than thirty times the least: on a linear one the minimum is flat.
// Points that did not converge, and single ones far from all others, do not set the scale: they are
// marked at the edge of the frame, and the legend says how far they are.
type Sweep struct {
	Title     string
	Parameter string
	// Label names the values of SURE. SURE has the units of y^2: say so here, or
	// "SURE / d" for values per coordinate.
	Label string
	// Lambda has the values of the hyperparameter, positive and increasing.
	Lambda []float64
	// SURE has one value for each lambda.
	SURE   []float64
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
	// OpenLabel says what open markers are. "": not converged.
	OpenLabel string
}

func openLabel(given string) string { return cmp.Or(given, "not converged") }

func (s Sweep) check() error {
	n := len(s.Lambda)
	return cmp.Or(
		checkPositive("Lambda", s.Lambda, n),
		check("SURE", s.SURE, n, false),
		check("StdErr", s.StdErr, n, true),
		check("DifferenceErr", s.DifferenceErr, n, true),
		check("Loss", s.Loss, n, true),
		check("Divergence", s.Divergence, n, true),
	)
}

func (s Sweep) draw(c *page) (end vg.Length, err error) {
	b, err := s.block()
	if err != nil {
		return 0, err
	}
	return b.draw(c, 0, -edge), nil
}

// sweepHeight is that of the first panel.
const sweepHeight vg.Length = 205

// dotted is the line through a minimum.
var dotted = stroke(ink, 0.8, 1.5, 2)

// block is the sweep with its panels.
func (s Sweep) block() (*block, error) {
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
	loss := curve{x: s.Lambda, y: s.Loss, closed: s.Converged, line: stroke(vermillion, 1.4, 5, 2.5), shape: 1}
	if s.LossLabel != "" {
		loss.y = nil
	}
	best := Minimizer(s.SURE, s.Converged)
	minimum := "minimum " + number(s.SURE[best], 3)
	if s.StdErr != nil {
		minimum += " ± " + number(s.StdErr[best], 2)
	}
	b := &block{title: s.Title, column: pageWidth}
	y, cut := s.values(low, high, loss.y)
	p := b.panel(logAxis(s.Parameter, s.Lambda[0], s.Lambda[len(s.Lambda)-1]), y, sweepHeight)
	sure := curve{x: s.Lambda, y: s.SURE, closed: s.Converged, line: stroke(blue, 1.6)}
	b.label(s.Label, sure.samples()...)
	if bars != nil {
		b.band(errorName, cut, blue, s.Lambda, low, high)
	}
	p.vertical(dotted, s.Lambda[best])
	if s.DifferenceErr != nil {
		p.horizontal(dotted, s.SURE[best])
	}
	p.grid()
	if loss.y != nil {
		loss.draw(p)
		b.label("true loss", loss.samples()...)
	}
	sure.draw(p)
	mark := func(name string, shape []vg.Point, i int) {
		b.label(name+s.Parameter+" = "+short(s.Lambda[i], 4), p.marks(marker(shape, 4, orange, stroke(black, 0.8)),
			s.Lambda[i:i+1], s.SURE[i:i+1]))
	}
	mark(minimum+" at ", star, best)
	if s.Chosen != 0 {
		mark("chosen by "+s.ChosenName+", ", square, slices.Index(s.Lambda, s.Chosen))
	}
	if slices.Contains(s.Converged, false) {
		b.label(openLabel(s.OpenLabel), &plotter.Line{LineStyle: sure.line}, &plotter.Scatter{GlyphStyle: sure.open()})
	}
	b.labelBeyond(y, "frame", blue, s.SURE, loss.y)
	if s.Loss != nil && s.LossLabel != "" {
		s.below(b, s.LossLabel, s.Loss, math.Inf(1), curve{line: stroke(vermillion, 1.4), shape: 1})
	}
	if s.Divergence != nil {
		s.below(b, "degrees of freedom", s.Divergence, 0, curve{line: stroke(green, 1.6)})
	}
	return b, nil
}

// values is the axis of SURE, its band from low to high and the curve beside it, of the values that
// set its scale.
func (s Sweep) values(low, high, beside []float64) (y *axis, cut bool) {
	shown, band := settled(s.SURE, s.Converged, s.SURE), settled(s.SURE, s.Converged, low, high)
	if beside != nil {
		beside = settled(beside, s.Converged, beside)
	}
	values := slices.Concat(shown, beside)
	if least, greatest := slices.Min(values), slices.Max(values); least > 0 && greatest > 30*least {
		bandLow, bandHigh := slices.Min(band), slices.Max(band)
		shownLow, shownHigh := max(min(bandLow, least), least/10), min(max(bandHigh, greatest), 10*greatest)
		return logAxis(s.Label, shownLow, shownHigh), bandLow < shownLow || bandHigh > shownHigh
	}
	return bandAxis(s.Label, band, shown, beside)
}

// below adds a panel that is half as high: the loss, where its units are its own, or the degrees of freedom, whose axis
// reaches down to the floor unless all are far above it.
func (s Sweep) below(b *block, label string, values []float64, floor float64, k curve) {
	shown := settled(values, s.Converged, values)
	low, high := slices.Min(shown), slices.Max(shown)
	if low > floor && low < 0.5*high {
		low = floor
	}
	p := b.panel(b.panels[0].x, linearAxis(label, low, high), sweepHeight/2)
	p.vertical(dotted, s.Lambda[Minimizer(s.SURE, s.Converged)])
	p.grid()
	k.x, k.y, k.closed = s.Lambda, values, s.Converged
	k.draw(p)
}

// Running is the mean of the first n values against n, on a logarithmic axis, with a band of one standard
// error, s/sqrt(n), from the second value on.
type Running struct {
	Title string
	Label string
	// Values has one value for each sample, in order.
	Values []float64
	// Zero names a line at 0, the mean's expected value. "": none.
	Zero string
}

// runningPoints is the approximate number of means that are drawn.
const runningPoints = 400

func (r Running) draw(c *page) (end vg.Length, err error) {
	if err := check("Values", r.Values, len(r.Values), false); err != nil {
		return 0, err
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
	var zero []float64
	if r.Zero != "" {
		zero = []float64{0}
	}
	last := len(n) - 1
	y, cut := bandAxis(r.Label, slices.Concat(low, high), mean, zero)
	b := &block{title: r.Title, column: pageWidth}
	x := logAxis("number of samples n", 1, n[last])
	x.whole = true
	p := b.panel(x, y, 220)
	k := curve{x: n, y: mean, line: stroke(blue, 1.6)}
	b.label(r.Label+", last "+number(mean[last], 3), k.samples()...)
	if last > 0 {
		b.band("± standard error, last "+number(high[last]-mean[last], 2), cut, blue, n[1:], low[1:], high[1:])
	}
	p.grid()
	if r.Zero != "" {
		b.label(r.Zero, p.horizontal(stroke(black, 1.2, 4, 2), 0))
	}
	k.draw(p)
	return b.draw(c, 0, -edge), nil
}
