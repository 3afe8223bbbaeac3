package problems

import (
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/prox"
	"surepipe/prox/cones"
)

var l2BallRegularizer = regularizerKind{
	name:  "l2-ball",
	forms: []form{{"l2-ball: {radius: W}", "||b||_2 <= W"}},
	parse: ball("radius", func(n int, w float64) prox.Prox { return cones.NewL2Ball(n, w) }),
}

var equalRegularizer = regularizerKind{
	name:  "equal",
	forms: []form{{"equal: {to: c}", "b = c, a number or an array; of a term with an operator: K b = c"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, err := s.arguments(n, args, "to")
		if err != nil {
			return nil, err
		}
		to, err := s.parseBound(f, "to", math.NaN())
		if err != nil {
			return nil, err
		}
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			p := penalty{n: length(in.shape), free: true}
			c, err := to(b, p.n)
			if err != nil {
				return nil, err
			}
			for j, x := range c {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					return nil, b.errorf(n.line, "equal: entry %d of to is %v, expected a finite number", j+1, x)
				}
			}
			r, err := prox.NewBox(b.dev, c, c)
			if r, err = b.kept(n.line, r, err); err != nil {
				return nil, err
			}
			p.make = func(map[string]float64) (prox.Prox, error) { return r, nil }
			return n.single(p), nil
		}, nil
	},
}

var secondOrderRegularizer = regularizerKind{
	name: "second-order-cone",
	forms: []form{{"second-order-cone: {size: k}",
		"b_1 >= ||(b_2, ..., b_k)||_2 for each k entries, one after the other\n(default: all of them); or planes: " +
			"k, across k arrays of n numbers,\n" +
			"one after the other: b_i >= ||(b_{n+i}, b_{2n+i}, ...)||_2"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		size, planes := 0, 0
		if args != nil {
			f, err := s.fields(args, n.kind, "size", "planes")
			if err != nil {
				return nil, err
			}
			if f.nodes["size"] != nil && f.nodes["planes"] != nil {
				return nil, s.errorf(n.line, "second-order-cone has size and planes, expected one of them")
			}
			for key, to := range map[string]*int{"size": &size, "planes": &planes} {
				if v := f.nodes[key]; v != nil {
					if *to, err = s.positive(v, key); err != nil {
						return nil, err
					}
				}
			}
		}
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			all := length(in.shape)
			sets, err := conesOf(all, size, planes)
			if err != nil {
				return nil, b.errorf(n.line, "%v", err)
			}
			r, err := cones.NewSecondOrderCones(all, sets)
			if err != nil {
				return nil, b.at(n.line, trim(err))
			}
			return n.single(penalty{n: all, free: true, make: func(map[string]float64) (prox.Prox, error) {
				return r,
					nil
			}}), nil
		}, nil
	},
}

// conesOf are cones of size consecutive entries, or across planes; of all entries where both are 0.
func conesOf(all, size, planes int) ([][]int, error) {
	stride := 1
	switch {
	case planes > 0 && all%planes != 0:
		return nil, fmt.Errorf("second-order-cone across %d arrays, expected a divisor of the number of entries, %d",
			planes, all)
	case planes > 0:
		size, stride = planes, all/planes
	case size == 0:
		size = all
	case all%size != 0:
		return nil, fmt.Errorf("second-order-cone of %d entries, expected a divisor of the number of entries, %d",
			size, all)
	}
	cones := make([][]int, all/size)
	for i := range cones {
		first := i * size
		if stride > 1 {
			first = i
		}
		for k := range size {
			cones[i] = append(cones[i], first+k*stride)
		}
	}
	return cones, nil
}

var semidefiniteRegularizer = regularizerKind{
	name:  "semidefinite",
	forms: []form{{"semidefinite", "b is a symmetric positive semidefinite m x m matrix, row-major"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			all := length(in.shape)
			m := int(math.Round(math.Sqrt(float64(all))))
			if m*m != all || len(in.shape) == 2 && in.shape[0] != in.shape[1] {
				return nil, b.errorf(n.line, "semidefinite: a block of shape %s, expected a square matrix",
					dimensions(in.shape))
			}
			r := cones.NewSemidefinite(m)
			return n.single(penalty{n: all, free: true, make: func(map[string]float64) (prox.Prox, error) {
				return r,
					nil
			}}), nil
		}, s.noArguments(n, args)
	},
}

// dimensions writes a shape.
func dimensions(shape []int) string {
	text := ""
	for i, n := range shape {
		if i > 0 {
			text += " x "
		}
		text += fmt.Sprint(n)
	}
	return text
}

var shiftedRegularizer = regularizerKind{
	name: "shifted",
	forms: []form{{"shifted: {to: c, regularizer: R}",
		"R(b - c): a ball around c, or the constraint b - c in a cone;\nc is a number or an array"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		const expected = "{to: c, regularizer: R}"
		if args == nil || args.Kind != yaml.MappingNode {
			return nil, s.errorf(n.line, "shifted has no arguments, expected shifted: %s", expected)
		}
		complete := func(f section) bool { return f.has("to") && f.has("regularizer") }
		f, err := s.keys(n.node, args, expected, complete, "to", "regularizer")
		if err != nil {
			return nil, err
		}
		to, err := s.parseBound(f, "to", 0)
		if err != nil {
			return nil, err
		}
		child, err := s.parseRegularizer(f.nodes["regularizer"])
		if err != nil {
			return nil, err
		}
		n.children = []*regularizerNode{child}
		return func(b *specBuilder, in part, parts []part) ([]*penalty, error) {
			c, err := to(b, length(in.shape))
			if err != nil {
				return nil, err
			}
			ps, err := b.regularizer(child, in, parts)
			if err != nil {
				return nil, err
			}
			for _, p := range ps {
				own := slices.Clone(c[:p.n])
				c = c[p.n:]
				make := p.make
				// Where c is not 0 no weight leads to 0.
				p.dual, p.dualAt, p.norm, p.free = nil, nil, weightExpr{}, true
				p.make = func(weights map[string]float64) (prox.Prox, error) {
					inner, err := make(weights)
					if err != nil {
						return nil, err
					}
					r, err := prox.NewShifted(b.dev, inner, own)
					return b.kept(n.line, r, err)
				}
			}
			return ps, nil
		}, nil
	},
}
