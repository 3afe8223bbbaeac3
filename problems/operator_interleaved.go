package problems

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/linops/imaging"
)

var complexOperator = operatorKind{
	name:  "complex",
	forms: []form{{"complex: OPERATOR", "a real operator, of the real and of the imaginary part of a complex array"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		n.complexOut, n.complexIn = true, true
		return parseInterleaved(s, n, args, 2, func(shape []int) error {
			if last := len(shape) - 1; last < 1 || shape[last] != 2 {
				return fmt.Errorf("complex acts on an array of shape %s, expected one of complex numbers, whose "+
					"last axis has 2 entries, the real and the imaginary part", formatShape(shape))
			}
			return nil
		})
	},
}

var eachChannelOperator = operatorKind{
	name:  "each-channel",
	forms: []form{{"each-channel: OPERATOR", "the same operator for each channel of an image in colours, (m, n, 3)"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		return parseInterleaved(s, n, args, 0, func(shape []int) error {
			if last := len(shape) - 1; last < 1 || shape[last] > mostChannels {
				return fmt.Errorf("each-channel acts on an array of shape %s, expected an image in colours, whose "+
					"last axis has up to %d entries", formatShape(shape), mostChannels)
			}
			return nil
		})
	},
}

// parseInterleaved parses an operator that acts on each of the vectors that the last axis of an array
// interleaves: of so many vectors, or 0 where the shape says how many. check rejects shapes.
func parseInterleaved(s *Spec, n *operatorNode, args *yaml.Node, vectors int,
	check func(shape []int) error) (operatorBuild, error) {
	err := s.required(n.node, args, "an operator, as in "+n.kind+": {wavelet: {family: db4, levels: 4}}")
	if err != nil {
		return nil, err
	}
	child, err := s.parseOperator(args)
	n.children = []*operatorNode{child}
	return func(b *specBuilder, rows, cols []int) (built, error) {
		k := vectors
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
					"the other side has", n.kind, formatShape(shape), k)
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
				"y or to an operator that knows its sides", n.kind)
		}
		a, err := b.operator(child, rows, cols)
		if err != nil {
			return built{}, err
		}
		op, err := imaging.NewInterleaved(b.dev, a.op, k)
		if err != nil {
			return built{}, trim(err)
		}
		b.p.own(op.Release)
		return built{
			op: op, rows: append(slices.Clone(a.rows), k), cols: append(slices.Clone(a.cols), k),
			rowAverages: interleaved(a.rowAverages, k), colAverages: interleaved(a.colAverages, k),
		}, nil
	}, err
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
