package problems

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"

	"surepipe/linops"
)

var gradientOperator = operatorKind{
	name: "gradient",
	forms: []form{{"gradient: {shape: [m, n], axes: [0, 1], edge: reflecting}", "b_{i+1} - b_i along each axis, of the shape of b and one after the other;\n" +
		"the last difference of an axis is 0, or with edge: periodic or grounded\n" +
		"that to the first entry or to 0; of an image in colours, (m, n, 3),\nalong the first two axes"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		f := section{}
		var err error
		var own []int
		if args != nil && args.Kind == yaml.MappingNode {
			if f, err = s.fields(args, n.kind, "shape", "axes", "edge"); err != nil {
				return nil, err
			}
			own, err = s.ownShape(f)
		} else {
			own, err = s.optionalShape(n, args)
		}
		if err != nil {
			return nil, err
		}
		edge := linops.Reflecting
		if v := f.nodes["edge"]; v != nil {
			names := []string{linops.Reflecting.String(), linops.Periodic.String(), linops.Grounded.String()}
			name, err := s.choice(v, "edge", names)
			if err != nil {
				return nil, err
			}
			for i, e := range names {
				if e == name {
					edge = linops.Edge(i)
				}
			}
		}
		var axes *arrayRef
		if v := f.nodes["axes"]; v != nil {
			if axes, err = s.ref(v, "axes"); err != nil {
				return nil, err
			}
		}
		return func(b *specBuilder, rows, cols []int) (built, error) {
			shape := own
			if shape == nil {
				shape = cols
			}
			if shape == nil {
				return built{}, fmt.Errorf("the size of gradient does not follow from its position, expected gradient: {shape: [m, n]}")
			}
			along := gradientAxes(shape)
			if axes != nil {
				if along, err = b.loaded[axes].integers(); err != nil {
					return built{}, b.at(axes.line, err)
				}
				for i, a := range along {
					if a < 0 || a >= len(shape) || i > 0 && a <= along[i-1] {
						return built{}, b.errorf(axes.line, "axes are %v, expected increasing numbers from 0 to %d, the axes of shape %s", along, len(shape)-1, formatShape(shape))
					}
				}
			}
			op := linops.NewGradient(shape, along, edge)
			b.load(op)
			return built{op: op, rows: append([]int{len(along)}, shape...), cols: shape}, nil
		}, nil
	},
}

// gradientAxes are the axes along which differences are taken: all but that of an image's channels.
func gradientAxes(shape []int) []int {
	var axes []int
	for a, n := range shape {
		if len(shape) == 3 && a == 2 && n <= mostChannels {
			break
		}
		axes = append(axes, a)
	}
	return axes
}

var trendOperator = operatorKind{
	name:  "trend",
	forms: []form{{"trend: {order: 1}", "differences of a sequence, order + 1 times: 0 for pieces that are constant, 1 linear, 2 quadratic"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		order, given := 1, false
		var own []int
		if args != nil {
			f, err := s.fields(args, n.kind, "order", "shape")
			if err != nil {
				return nil, err
			}
			if v := f.nodes["order"]; v != nil {
				x, err := s.number(v, "order")
				if err != nil {
					return nil, err
				}
				if x != math.Trunc(x) || x < 0 || x > mostOrder {
					return nil, s.errorf(v.Line, "order is %g, expected an integer from 0 to %d", x, mostOrder)
				}
				order, given = int(x), true
			}
			if own, err = s.ownShape(f); err != nil {
				return nil, err
			}
		}
		return func(b *specBuilder, _, cols []int) (built, error) {
			k := order
			if o := b.data.Order; o != nil && !given {
				k = *o
			}
			shape := own
			if shape == nil {
				shape = cols
			}
			if len(shape) != 1 || k < 0 || k > mostOrder || shape[0] < k+2 {
				return built{}, fmt.Errorf("trend of order %d of an array of shape %s, expected a sequence of at least order + 2 values, and an order from 0 to %d", k, formatShape(shape), mostOrder)
			}
			op, err := b.trend(shape[0], k)
			return built{op: op, rows: []int{shape[0] - k - 1}, cols: shape}, err
		}, nil
	},
}

// mostOrder is the largest order of a trend: the condition of its differences grows like n to twice
// the order.
const mostOrder = 5

// trend is the operator of the differences of n numbers, order + 1 times: rows of binomial
// coefficients with alternating signs.
func (b *specBuilder) trend(n, order int) (linops.Operator, error) {
	row := []float64{1}
	for range order + 1 {
		next := make([]float64, len(row)+1)
		for i, v := range row {
			next[i] -= v
			next[i+1] += v
		}
		row = next
	}
	d := n - order - 1
	indptr, indices, values := make([]int, 1, d+1), make([]int, 0, d*len(row)), make([]float64, 0, d*len(row))
	for i := range d {
		for j, v := range row {
			indices, values = append(indices, i+j), append(values, v)
		}
		indptr = append(indptr, len(values))
	}
	op, err := linops.NewCSR(b.dev, d, n, indptr, indices, values)
	if err != nil {
		return nil, trim(err)
	}
	return b.keep(source{op: op}), nil
}
