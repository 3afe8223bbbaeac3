package problems

import (
	"fmt"
	"math"
)

// WithoutGaps is the data without the values of y that are NaN: Indices are the places of the others, and Shape is the
// shape that y had. Both are nil where there is no gap. The data must have neither before.
func (d Data) WithoutGaps() (Data, error) {
	var places []int
	for i, v := range d.Y {
		if !math.IsNaN(v) {
			places = append(places, i)
		}
	}
	switch {
	case len(places) == len(d.Y):
		return d, nil
	case places == nil:
		return d, fmt.Errorf("array \"y\" holds no number: all of its %d values are missing", len(d.Y))
	}
	shape := d.YShape
	if shape == nil {
		shape = []int{len(d.Y)}
	}
	at := func(v []float64) []float64 {
		if v == nil {
			return nil
		}
		out := make([]float64, len(places))
		for i, c := range places {
			out[i] = v[c]
		}
		return out
	}
	if d.Mu != nil && len(d.Mu) != len(d.Y) {
		return d, fmt.Errorf("array \"mu\" has %d values, expected %d, as many as \"y\"", len(d.Mu), len(d.Y))
	}
	d.Y, d.Mu = at(d.Y), at(d.Mu)
	d.YShape, d.Indices, d.Shape = []int{len(places)}, places, shape
	return d, nil
}

// selects reports whether y is a selection of entries.
func (s *Spec) selects() bool {
	return s.operator.selects() && (s.places != nil || !s.operator.contains("observed"))
}
