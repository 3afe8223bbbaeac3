package problems

import (
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/prox"
	"surepipe/prox/cones"
)

var nonnegativeRegularizer = regularizerKind{
	name:  "nonnegative",
	forms: []form{{"nonnegative", "b >= 0"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		return func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
			return n.single(penalty{n: length(in.shape), free: true, make: func(map[string]float64) (prox.Prox,
				error) {
				return prox.NonNegative(), nil
			}}), nil
		}, s.noArguments(n, args)
	},
}

var boxRegularizer = regularizerKind{
	name:  "box",
	forms: []form{{"box: {lo: a, hi: c}", "a <= b <= c, numbers or arrays"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		if args == nil || args.Kind != yaml.MappingNode {
			return nil, s.errorf(n.line, "box has no bounds, expected box: {lo: 0, hi: 1}")
		}
		f, err := s.fields(args, n.kind, "lo", "hi")
		if err != nil {
			return nil, err
		}
		lo, err := s.parseBound(f, "lo", math.Inf(-1))
		if err != nil {
			return nil, err
		}
		hi, err := s.parseBound(f, "hi", math.Inf(1))
		if err != nil {
			return nil, err
		}
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			p := penalty{n: length(in.shape), free: true}
			low, err := lo(b, p.n)
			if err != nil {
				return nil, err
			}
			high, err := hi(b, p.n)
			if err != nil {
				return nil, err
			}
			r, err := prox.NewBox(b.dev, low, high)
			if r, err = b.kept(n.line, r, err); err != nil {
				return nil, err
			}
			p.make = func(map[string]float64) (prox.Prox, error) { return r, nil }
			return n.single(p), nil
		}, nil
	},
}

// parseBound reads a bound of box, a number or an array; none is its value where it is missing.
func (s *Spec) parseBound(f section, key string, none float64) (func(b *specBuilder, p int) ([]float64, error), error) {
	constant := func(x float64) func(*specBuilder, int) ([]float64, error) {
		return func(_ *specBuilder, p int) ([]float64, error) { return slices.Repeat([]float64{x}, p), nil }
	}
	v := f.nodes[key]
	if v == nil {
		return constant(none), nil
	}
	if v.Kind == yaml.ScalarNode {
		if x, err := parseNumber(v.Value); err == nil {
			return constant(x), nil
		}
	}
	ref, err := s.ref(v, key)
	return func(b *specBuilder, p int) ([]float64, error) {
		return b.each(ref, key+" has", p, "entry of b")
	}, err
}

// ball is the parser of a constraint with one positive number, the key.
func ball(key string, newProx func(n int, w float64) prox.Prox) func(*Spec, *regularizerNode,
	*yaml.Node) (regularizerBuild, error) {
	return weighted(key, true, func(w weightExpr, in part) penalty {
		n := length(in.shape)
		return penalty{free: true, make: w.at(func(w float64) prox.Prox { return newProx(n, w) })}
	})
}

var linfBallRegularizer = regularizerKind{
	name:  "linf-ball",
	forms: []form{{"linf-ball: {radius: W}", "||b||_inf <= W"}},
	parse: ball("radius", func(n int, w float64) prox.Prox { return prox.NewLinfBall(n, w) }),
}

var l1BallRegularizer = regularizerKind{
	name:  "l1-ball",
	forms: []form{{"l1-ball: {radius: W}", "||b||_1 <= W"}},
	parse: ball("radius", func(n int, w float64) prox.Prox { return cones.NewL1Ball(n, w) }),
}

var simplexRegularizer = regularizerKind{
	name:  "simplex",
	forms: []form{{"simplex: {sum: W}", "b >= 0, sum_j b_j = W"}},
	parse: ball("sum", func(n int, w float64) prox.Prox { return cones.NewSimplex(n, w) }),
}
