package problems

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"

	"surepipe/prox"
)

var complexL1Regularizer = regularizerKind{
	name: "complex-l1",
	forms: []form{{"complex-l1: {weight: W, unpenalized: averages}",
		"W sum_j |b_j| of complex b_j, pairs of real and imaginary part: groups of two, shrunk in\n" +
			"absolute value with their phase kept"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, w, err := s.weighted(n, args, "weight", "unpenalized")
		if err != nil {
			return nil, err
		}
		each, err := s.parseEach(f)
		if err != nil {
			return nil, err
		}
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			p := penalty{n: length(in.shape), norm: w}
			if shape := in.shape; len(shape) < 2 || shape[len(shape)-1] != 2 {
				return nil, fmt.Errorf("complex-l1 of b of shape %s, expected complex numbers, a last axis "+
					"of 2 entries", formatShape(shape))
			}
			held := func(int) bool { return true }
			if each != nil {
				weights, err := each(b, in)
				if err != nil {
					return nil, err
				}
				held = func(pair int) bool { return weights[2*pair] > 0 }
			}
			var pairs [][]int
			for j := range p.n / 2 {
				if held(j) {
					pairs = append(pairs, []int{2 * j, 2*j + 1})
				} else {
					p.unpenalized = append(p.unpenalized, 2*j, 2*j+1)
				}
			}
			if pairs == nil {
				return nil, fmt.Errorf("complex-l1 penalizes no entry of b: all of them are unpenalized")
			}
			ones := make([]float64, len(pairs))
			for i := range ones {
				ones[i] = 1
			}
			p.free = p.unpenalized != nil
			p.dual = func(g []float64) (float64, error) {
				m := 0.0
				for _, pair := range pairs {
					m = max(m, math.Hypot(g[pair[0]], g[pair[1]]))
				}
				return m, nil
			}
			p.make, err = b.scalable(n.line, w, func(w float64) (prox.Prox, error) {
				return prox.NewGroupL2(b.dev, p.n, w, pairs, ones)
			})
			return n.single(p), err
		}, nil
	},
}
