package spec

import (
	"fmt"
	"slices"

	"surepipe/internal/dataio/ndarray"
	"surepipe/linops/imaging"
)

var complexOperator = operatorKind{
	name: "complex",
	forms: []Form{{"complex: OPERATOR",
		"a real operator, of the real and of the imaginary part of a complex array"}},
	parameters: []Parameter{{Read: operatorValue}},
	complex:    true,
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		return a.interleave(rows, cols, 2, func(shape []int) error {
			if last := len(shape) - 1; last < 1 || shape[last] != 2 {
				return fmt.Errorf("complex acts on an array of shape %s, expected one of complex numbers, whose "+
					"last axis has 2 entries, the real and the imaginary part", ndarray.ShapeString(shape))
			}
			return nil
		})
	},
}

var eachChannelOperator = operatorKind{
	name: "each-channel",
	forms: []Form{{"each-channel: OPERATOR",
		"the same operator for each channel of an image in colours, (m, n, 3)"}},
	parameters: []Parameter{{Read: operatorValue}},
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		return a.interleave(rows, cols, 0, func(shape []int) error {
			if last := len(shape) - 1; last < 1 || shape[last] > MostChannels {
				return fmt.Errorf("each-channel acts on an array of shape %s, expected an image in colours, whose "+
					"last axis has up to %d entries", ndarray.ShapeString(shape), MostChannels)
			}
			return nil
		})
	},
}

// interleave is the operator among the arguments on each of the k vectors that the last axis of an array
// interleaves; the shape says how many where k is 0. check rejects shapes.
func (a *operatorArguments) interleave(rows, cols []int, k int, check func(shape []int) error) (built, error) {
	one := func(shape []int) ([]int, error) {
		if shape == nil {
			return nil, nil
		}
		if err := check(shape); err != nil {
			return nil, err
		}
		last := len(shape) - 1
		if k > 0 && shape[last] != k {
			return nil, fmt.Errorf("%s acts on an array of shape %s, expected %d entries in the last axis, as "+
				"the other side has", a.name, ndarray.ShapeString(shape), k)
		}
		k = shape[last]
		return shape[:last], nil
	}
	rows, err := one(rows)
	if err != nil {
		return built{}, err
	}
	if cols, err = one(cols); err != nil {
		return built{}, err
	}
	if k == 0 {
		return built{}, fmt.Errorf("%s stands where the shape of the image is not known, expected it next to "+
			"y or to an operator that knows its sides", a.name)
	}
	of, err := a.child(0, rows, cols)
	if err != nil {
		return built{}, err
	}
	op, err := imaging.NewInterleaved(a.dev, of.op, k)
	if err != nil {
		return built{}, Trim(err)
	}
	a.parts.Own(op.Release)
	return built{
		op: op, rows: append(slices.Clone(of.rows), k), cols: append(slices.Clone(of.cols), k),
		rowAverages: interleaved(of.rowAverages, k), colAverages: interleaved(of.colAverages, k),
	}, nil
}

// interleaved are the places of the same entries of k interleaved vectors.
func interleaved(places []int, k int) (all []int) {
	for _, j := range places {
		for c := range k {
			all = append(all, k*j+c)
		}
	}
	return all
}
