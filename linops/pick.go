package linops

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops/internal/sparse"
)

// Pick returns the rows of A at increasing places, on dev: a dense or sparse matrix, a selection, or such operators
// beside each other, where A is one, and else A followed by a selection. A must outlive the result. The caller
// releases it by the function.
func Pick(dev array.Device, a Operator, rows []int) (Operator, func(), error) {
	d, p := a.Dims()
	known := StructureOf(a)
	if known.PickRows != nil {
		if picked, free, err := known.PickRows(dev, rows); picked != nil || err != nil {
			return picked, free, err
		}
	}
	switch {
	case known.Beside != nil:
		return pickBeside(dev, known.Beside, rows)
	case known.Identity:
		return selected(dev, p, rows)
	case known.SparseRows != nil:
		picked := newCSRInOrder(dev, sparse.Matrix{D: d, P: p, Rows: known.SparseRows()}.Pick(rows))
		return picked, picked.Release, nil
	case known.Dense != nil && known.Entries == Known(float64(d)*float64(p)):
		x, some := known.Dense(), mat.NewDense(len(rows), p, nil)
		for k, i := range rows {
			copy(some.RawRowView(k), x.RawRowView(i))
		}
		picked := NewDense(dev, some)
		return picked, picked.Release, nil
	}
	picked, free, err := selected(dev, d, rows)
	if err != nil {
		return nil, nil, err
	}
	return Compose(picked, a), free, nil
}

func selected(dev array.Device, p int, at []int) (Operator, func(), error) {
	picked, err := NewSelection(dev, p, at)
	if err != nil {
		return nil, nil, err
	}
	return picked, picked.Release, nil
}

// Picks are the coordinates that A picks, in its order, which the caller must not modify; ok is false where it is no
// selection.
func Picks(a Operator) (places []int, ok bool) {
	if s, selection := a.(*Selection); selection {
		return s.Indices(), true
	}
	return nil, false
}

// pickBeside picks rows of operators beside each other.
func pickBeside(dev array.Device, beside []Operator, rows []int) (Operator, func(), error) {
	var parts []Operator
	var frees []func()
	free := func() {
		for _, f := range frees {
			f()
		}
	}
	for _, a := range beside {
		part, release, err := Pick(dev, a, rows)
		if err != nil {
			free()
			return nil, nil, err
		}
		parts, frees = append(parts, part), append(frees, release)
	}
	return HStack(parts...), free, nil
}
