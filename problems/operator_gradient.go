package problems

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"surepipe/linops/imaging"
)

var gradientOperator = operatorKind{
	name: "gradient",
	forms: []form{{"gradient: {shape: [m, n], axes: [0, 1], edge: reflecting}",
		"b_{i+1} - b_i along each axis, of the shape of b and one after the other;\n" +
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
		edge := imaging.Reflecting
		if v := f.nodes["edge"]; v != nil {
			names := []string{imaging.Reflecting.String(), imaging.Periodic.String(), imaging.Grounded.String()}
			name, err := s.choice(v, "edge", names)
			if err != nil {
				return nil, err
			}
			for i, e := range names {
				if e == name {
					edge = imaging.Edge(i)
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
				return built{}, fmt.Errorf("the size of gradient does not follow from its position, expected " +
					"gradient: {shape: [m, n]}")
			}
			along := gradientAxes(shape)
			if axes != nil {
				if along, err = b.loaded[axes].integers(); err != nil {
					return built{}, b.at(axes.line, err)
				}
				for i, a := range along {
					if a < 0 || a >= len(shape) || i > 0 && a <= along[i-1] {
						return built{}, b.errorf(axes.line,
							"axes are %v, expected increasing numbers from 0 to %d, the axes of shape %s", along,
							len(shape)-1, formatShape(shape))
					}
				}
			}
			op := imaging.NewGradient(shape, along, edge)
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
