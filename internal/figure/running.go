package figure

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// Running is the mean of the first n values against n, on a logarithmic axis, with a band of one
// standard error, s/sqrt(n), from the second value on. For SURE - loss it shows whether SURE is
// unbiased.
type Running struct {
	Title string
	// Label names the mean, "mean of SURE − loss" by default.
	Label string
	// Values has one value for each sample, in order.
	Values []float64
	// Reference is the mean's expected value, drawn where ReferenceName is not empty.
	Reference     float64
	ReferenceName string
}

// runningPoints is the approximate number of means that are drawn.
const runningPoints = 400

func (r Running) plan() (*drawing, error) {
	if err := checkSeries("Values", r.Values, -1); err != nil {
		return nil, err
	}
	if err := checkValue(r.Reference); err != nil {
		return nil, fmt.Errorf("figure: Reference %w", err)
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
		n, mean = append(n, k), append(mean, m)
		low, high = append(low, m-se), append(high, m+se)
	}
	label := orDefault(r.Label, "mean of SURE − loss")
	var reference []float64
	if r.ReferenceName != "" {
		reference = []float64{r.Reference}
	}
	y, cut := valueAxis(label, slices.Concat(low, high), mean, reference)
	x := logAxis("number of samples n", n, true)
	x.whole = true
	p := &panel{x: x, y: y, height: 220}
	b := &block{title: r.Title, panels: []*panel{p}}
	k := curve{x: n, y: mean, line: stroke{color: blue, width: 1.6}, marker: circle}
	b.legend = append(b.legend, k.entry(join(plain(label), text{{s: ", last "}}, number(mean[len(mean)-1], 3))))
	if len(n) > 1 {
		fill := tint(blue, bandTint)
		p.behind = append(p.behind, func(c *canvas, p *panel) { p.band(c, n[1:], low[1:], high[1:], fill) })
		name := join(text{{s: "± standard error, last "}}, number(high[len(high)-1]-mean[len(mean)-1], 2))
		if cut {
			name = join(name, text{{s: " (cut off at the frame)"}})
		}
		b.legend = append(b.legend, entry{label: name, band: fill})
	}
	if r.ReferenceName != "" {
		s := stroke{color: black, width: 1.2, dashes: []vg.Length{4, 2}}
		p.front = append(p.front, func(c *canvas, p *panel) {
			c.line(s, p.at(p.x.min, r.Reference), p.at(p.x.max, r.Reference))
		})
		b.legend = append(b.legend, entry{label: plain(r.ReferenceName), line: &s})
	}
	p.front = append(p.front, k.draw)
	return b.alone(), nil
}
