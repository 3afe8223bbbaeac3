package loss

import (
	"fmt"

	"surepipe/array"
)

// Pick is the loss of the observations at some places, on dev; nil is the squared loss. The caller releases it by the
// function. It is an error for a loss that is none of this package.
func Pick(dev array.Device, l Loss, rows []int) (Loss, func(), error) {
	some := func(w []float64) (picked []float64) {
		for _, i := range rows {
			picked = append(picked, w[i])
		}
		return picked
	}
	none := func() {}
	switch l := l.(type) {
	case nil:
		return nil, none, nil
	case *Weighted:
		if l.w.IsZero() {
			return l, none, nil
		}
		picked, err := WeightedSquared(dev, some(l.w.ToHost()))
		if err != nil {
			return nil, nil, err
		}
		return picked, picked.Release, nil
	case *Pointwise:
		w, offset := l.w, l.offset
		if offset != nil {
			offset = some(offset)
		}
		if w == nil {
			return of(l.f, nil, offset, l.largest), none, nil
		}
		w = some(w)
		largest, err := checkWeights(w)
		return of(l.f, w, offset, largest), none, err
	}
	return nil, nil, fmt.Errorf("loss: a loss of type %T cannot leave observations out", l)
}
