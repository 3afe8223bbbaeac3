package figure

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/vg"
)

// Lines is time against size, or any positive numbers against others, on logarithmic
// axes, with the power of the size that fits each series.
type Lines struct {
	Title string
	// XLabel and YLabel name the axes with their units, "size" and "time (s)" by default.
	XLabel, YLabel string
	Series         []Series
}

// Series is one line of [Lines].
type Series struct {
	Name string
	X, Y []float64
	// Fit asks for the least squares line through the logarithms, drawn dashed in place
	// of a line from point to point, and for its slope in the legend. It takes two
	// different X.
	Fit bool
}

var lineColors = []color.RGBA{blue, vermillion, green, purple, orange, sky, black}

// fitPower is the least squares fit y = a x^slope in logarithms, with the standard
// error of the slope from three points on, NaN for fewer.
func fitPower(x, y []float64) (logA, slope, stdErr float64) {
	lx, ly := make([]float64, len(x)), make([]float64, len(y))
	for i := range x {
		lx[i], ly[i] = math.Log10(x[i]), math.Log10(y[i])
	}
	logA, slope = stat.LinearRegression(lx, ly, nil, false)
	if len(x) < 3 {
		return logA, slope, math.NaN()
	}
	var residual, spread float64
	mean := stat.Mean(lx, nil)
	for i := range lx {
		r := ly[i] - logA - slope*lx[i]
		residual += r * r
		spread += (lx[i] - mean) * (lx[i] - mean)
	}
	return logA, slope, math.Sqrt(residual / float64(len(x)-2) / spread)
}

func (l Lines) plan() (*drawing, error) {
	if len(l.Series) == 0 {
		return nil, fmt.Errorf("figure: Series is empty, expected at least one")
	}
	var xs, ys []float64
	for i, s := range l.Series {
		name := fmt.Sprintf("Series[%d]", i)
		if err := checkSeries(name+".X", s.X, -1); err != nil {
			return nil, err
		}
		if err := checkSeries(name+".Y", s.Y, len(s.X)); err != nil {
			return nil, err
		}
		if err := checkSign(name+".X", s.X, true); err != nil {
			return nil, err
		}
		if err := checkSign(name+".Y", s.Y, true); err != nil {
			return nil, err
		}
		if s.Fit && slices.Min(s.X) == slices.Max(s.X) {
			return nil, fmt.Errorf("figure: %s.X has the one value %g, expected two different ones for a fit", name, s.X[0])
		}
		xs, ys = append(xs, s.X...), append(ys, s.Y...)
	}
	p := &panel{
		x: logAxis(orDefault(l.XLabel, "size"), xs, true), y: logAxis(orDefault(l.YLabel, "time (s)"), ys, true),
		height: 260,
	}
	b := &block{title: l.Title, panels: []*panel{p}}
	for i, s := range l.Series {
		color := lineColors[i%len(lineColors)]
		m := marker{shape: shape(i % int(shapes)), radius: 2.8, fill: color, edge: color, width: 0.6}
		line := stroke{color: color, width: 1.4}
		name := plain(s.Name)
		x, y := s.X, s.Y
		if s.Fit {
			line.dashes = []vg.Length{4, 2}
			logA, slope, stdErr := fitPower(s.X, s.Y)
			low, high := slices.Min(s.X), slices.Max(s.X)
			x = []float64{low, high}
			y = []float64{math.Pow(10, logA+slope*math.Log10(low)), math.Pow(10, logA+slope*math.Log10(high))}
			exponent := fmt.Sprintf("%.2f", slope)
			if !math.IsNaN(stdErr) {
				exponent += fmt.Sprintf(" ± %.2f", stdErr)
			}
			name = join(name, text{{s: ", exponent " + minus(exponent)}})
		} else {
			order := make([]int, len(x))
			for k := range order {
				order[k] = k
			}
			slices.SortStableFunc(order, func(i, j int) int { return int(math.Copysign(1, s.X[i]-s.X[j])) })
			x, y = pick(s.X, order), pick(s.Y, order)
		}
		b.legend = append(b.legend, entry{label: name, line: &line, marker: &m})
		p.front = append(p.front, func(c *canvas, p *panel) {
			var points []vg.Point
			for k := range x {
				points = append(points, p.at(x[k], y[k]))
			}
			c.clippedLine(p.frame, line, points...)
			for k := range s.X {
				c.marker(m, p.at(s.X[k], s.Y[k]))
			}
		})
	}
	return b.alone(), nil
}
