package linops

import (
	"surepipe/array"
	"surepipe/space"
)

// Restrict returns the columns of A at the coordinates of set, in increasing order, where A has a
// way of its own for them ([On]), else nil.
func Restrict(dev array.Device, a Operator, set []int) Restricted {
	_, p := a.Dims()
	t := space.Coordinates(dev, p, set)
	op, native := On(dev, a, t)
	if !native {
		op.Release()
		t.Release()
		return nil
	}
	return &combined{Operator: op, parts: []Restricted{op}, spaces: []space.Space{t}}
}

// Restricts reports whether Restrict returns an operator.
func Restricts(dev array.Device, a Operator) bool {
	op := Restrict(dev, a, nil)
	if op == nil {
		return false
	}
	op.Release()
	return true
}
