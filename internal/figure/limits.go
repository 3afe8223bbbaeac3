package figure

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// wildGap is how many times the range of all others a value lies apart from them to be wild.
const wildGap = 2

// settled says which values set the scale of an axis: those that converged (closed nil: all), or all
// if fewer than two did, without the wild ones, and those that have not converged if they lie no
// further from the others' range than its length. A wild value is the least or the greatest and
// further from the next one than wildGap times the range of the others, in logarithms where all are
// positive; at most a tenth of the values, and one of five, are.
func settled(values []float64, closed []bool) []bool {
	keep := make([]bool, len(values))
	var order []int
	for i := range values {
		if closed == nil || closed[i] {
			order = append(order, i)
		}
	}
	if len(order) < 2 {
		order = order[:0]
		for i := range values {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		if values[i] < values[j] {
			return -1
		}
		if values[i] > values[j] {
			return 1
		}
		return i - j
	})
	apart := func(i, j int) float64 { // values[i] <= values[j]
		if values[order[0]] > 0 {
			return math.Log(values[j]) - math.Log(values[i])
		}
		return values[j] - values[i]
	}
	for most := max(len(order)/10, 1); most > 0 && len(order) >= 5; most-- {
		n := len(order)
		first, second, before, last := order[0], order[1], order[n-2], order[n-1]
		switch {
		case apart(before, last) > wildGap*apart(first, before) && apart(first, before) > 0:
			order = order[:n-1]
		case apart(first, second) > wildGap*apart(second, last) && apart(second, last) > 0:
			order = order[1:]
		default:
			most = 0
		}
	}
	for _, i := range order {
		keep[i] = true
	}
	if closed != nil {
		low, high := values[order[0]], values[order[len(order)-1]]
		for i, v := range values {
			keep[i] = keep[i] || !closed[i] && v >= low-(high-low) && v <= high+(high-low)
		}
	}
	return keep
}

// kept are the values that keep says.
func kept(values []float64, keep []bool) []float64 {
	var k []float64
	for i, v := range values {
		if keep[i] {
			k = append(k, v)
		}
	}
	return k
}

// downward is a triangle that points down. It is not among the shapes of [Lines].
const downward = shapes + 1

// beyond is the mark of a point outside of the frame, at its edge, and its place; ok is false for a
// point that is inside or beside the frame.
func (k curve) beyond(p *panel, i int) (m marker, at vg.Point, ok bool) {
	at = p.at(k.x[i], k.y[i])
	if at.X < p.frame.Min.X || at.X > p.frame.Max.X || p.inside(at) {
		return m, at, false
	}
	m = k.mark()
	if k.closed != nil && !k.closed[i] {
		m = k.open()
	}
	m.radius, m.shape = 3, triangle
	if at.Y < p.frame.Min.Y {
		m.shape, at.Y = downward, p.frame.Min.Y+3
	} else {
		at.Y = p.frame.Max.Y - 3
	}
	return m, at, true
}

// within is the nearest point in the frame.
func (p *panel) within(at vg.Point) vg.Point {
	return pt(max(p.frame.Min.X, min(p.frame.Max.X, at.X)), max(p.frame.Min.Y, min(p.frame.Max.Y, at.Y)))
}

// beyondEntry is the legend of the values that the axis does not hold; of is what they are beyond.
func beyondEntry(y *axis, of string, color color.Color, values ...[]float64) (entry, bool) {
	low, high, count := math.Inf(1), math.Inf(-1), 0
	for _, v := range slices.Concat(values...) {
		if v < y.min || v > y.max {
			low, high, count = min(low, v), max(high, v), count+1
		}
	}
	if count == 0 {
		return entry{}, false
	}
	m := marker{shape: triangle, radius: 3, fill: color, edge: color, width: 0.5}
	label := text{{s: "beyond the " + of + ", up to "}}
	value := high
	if high <= y.max {
		m.shape, label, value = downward, text{{s: "beyond the " + of + ", down to "}}, low
	} else if low < y.min {
		label = join(text{{s: "beyond the " + of + ", from "}}, number(low, 3), text{{s: " to "}})
	}
	return entry{label: join(label, number(value, 3)), marker: &m}, true
}
