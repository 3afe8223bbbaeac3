package problems

import (
	"fmt"
	"slices"

	"surepipe/internal/dataio"
)

// isComplex reports whether y holds complex numbers: a file has them, or real numbers whose last axis
// is the real and imaginary part.
func (l *specLoader) isComplex(y *dataio.Array) (bool, error) {
	out, _ := l.operator.complexSides()
	if y.Complex && !out {
		return false, l.errorf(l.lineOf("y"), "array \"y\" holds complex numbers, but the operator's output is "+
			"real: expected fourier, coils or complex, or real numbers")
	}
	n := len(y.Shape)
	return y.Complex || out && n > 0 && y.Shape[n-1] == 2, nil
}

// pickComplex takes the complex numbers at the places of a mask that are not 0, from an array of the
// mask's shape or from each of several. An array that holds only these is returned as it is.
func pickComplex(a, mask dataio.Array, places []int) (dataio.Array, error) {
	rank := len(a.Shape) - 1
	from := rank - len(mask.Shape)
	if from < 0 || !slices.Equal(a.Shape[from:rank], mask.Shape) {
		if rank >= 1 && a.Shape[rank-1] == len(places) {
			return a, nil
		}
		return a, fmt.Errorf("array %q has shape %s, expected %s, the shape of \"where\", or several of these",
			a.Name, formatShape(a.Shape[:rank]), formatShape(mask.Shape))
	}
	whole := length(mask.Shape)
	picked := a
	picked.Shape = append(slices.Clone(a.Shape[:from]), len(places), 2)
	picked.Data = make([]float64, 0, length(picked.Shape))
	for at := 0; at < len(a.Data); at += 2 * whole {
		for _, c := range places {
			picked.Data = append(picked.Data, a.Data[at+2*c], a.Data[at+2*c+1])
		}
	}
	return picked, nil
}
