package loss

import (
	"fmt"

	"surepipe/array"
)

// Pick is the loss of the observations at some places, on dev; nil is the squared loss. The caller releases it by the
// function. It is an error for a loss that is none of this package.
func Pick(dev array.Device, l Loss, rows []int) (Loss, func(), error) {
	none := func() {}
	switch l := l.(type) {
	case nil:
		return nil, none, nil
	case *Weighted:
		if l.w.IsZero() {
			return l, none, nil
		}
		picked, err := WeightedSquared(dev, Observed{Weights: l.w.ToHost()}.pick(rows).Weights)
		if err != nil {
			return nil, nil, err
		}
		return picked.Each(l.each), picked.Release, nil
	}
	if pick := StructureOf(l).Pick; pick != nil {
		picked, err := pick(rows)
		return picked, none, err
	}
	return nil, nil, fmt.Errorf("loss: a loss of type %T cannot leave observations out", l)
}

func (l *Pointwise) pick(rows []int) (Structured, error) {
	some := Observed{Weights: l.w, Offset: l.offset}.pick(rows)
	largest := l.largest
	if some.Weights != nil {
		var err error
		if largest, err = checkWeights(some.Weights); err != nil {
			return nil, err
		}
	}
	return of(l.f, some.Weights, some.Offset, largest), nil
}
