package linops

import (
	"surepipe/array"
	"surepipe/space"
)

// Within returns A E on dev where A has a way of its own for the space, else nil. The result owns
// the space, which is released where there is none.
func Within(dev array.Device, a Operator, t space.Space) Restricted {
	op, native := On(dev, a, t)
	if !native {
		op.Release()
		t.Release()
		return nil
	}
	return &combined{Operator: op, parts: []Restricted{op}, spaces: []space.Space{t}}
}

// Restrict returns the columns of A at the coordinates of set, in increasing order, where A has a
// way of its own for them, else nil.
func Restrict(dev array.Device, a Operator, set []int) Restricted {
	_, p := a.Dims()
	return Within(dev, a, space.Coordinates(dev, p, set))
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
