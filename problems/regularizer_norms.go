package problems

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/lowrank"
)

var l1Regularizer = regularizerKind{
	name:  "l1",
	forms: []form{{"l1: {weight: W, weights: w, unpenalized: [0] or averages}", "W sum_j w_j |b_j|"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, w, err := s.weighted(n, args, "weight", "weights", "unpenalized")
		if err != nil {
			return nil, err
		}
		each, err := s.parseEach(f)
		if err != nil {
			return nil, err
		}
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			p := penalty{n: length(in.shape), norm: w, dual: dualOfL1}
			if each == nil {
				p.make = w.at(prox.NewL1)
				return n.single(p), nil
			}
			weights, err := each(b, in)
			if err != nil {
				return nil, err
			}
			for j, w := range weights {
				if w == 0 {
					p.unpenalized = append(p.unpenalized, j)
				}
			}
			p.free = p.unpenalized != nil
			p.dual = func(g []float64) (float64, error) {
				m := 0.0
				for j, x := range g {
					if weights[j] > 0 {
						m = max(m, math.Abs(x)/weights[j])
					}
				}
				return m, nil
			}
			p.make, err = b.scalable(n.line, w, func(w float64) (prox.Prox, error) {
				return prox.NewWeightedL1(b.dev,
					w, weights)
			})
			return n.single(p), err
		}, nil
	},
}

func dualOfL1(g []float64) (float64, error) { return maxAbs(g), nil }

// parseEach reads the keys weights and unpenalized of l1, and returns a function that computes a
// weight for each coordinate; nil where both keys are missing.
func (s *Spec) parseEach(f section) (func(b *specBuilder, in part) ([]float64, error), error) {
	var weights, indices *arrayRef
	var err error
	if v := f.nodes["weights"]; v != nil {
		if weights, err = s.ref(v, "weights"); err != nil {
			return nil, err
		}
	}
	free := f.nodes["unpenalized"]
	averages := free != nil && free.Value == "averages"
	if free != nil && !averages {
		if indices, err = s.ref(free, "unpenalized"); err != nil {
			return nil, err
		}
	}
	if weights == nil && free == nil {
		return nil, nil
	}
	return func(b *specBuilder, in part) ([]float64, error) {
		p := length(in.shape)
		each := slices.Repeat([]float64{1}, p)
		if weights != nil {
			own, err := b.each(weights, "weights have", p, "entry of b")
			if err != nil {
				return nil, err
			}
			copy(each, own)
		}
		var places []int
		switch {
		case indices != nil:
			if places, err = b.loaded[indices].integers(); err != nil {
				return nil, b.at(indices.line, err)
			}
		case averages:
			if places = in.averages; places == nil {
				return nil, b.errorf(free.Line, "unpenalized is averages, but b is not the coefficients of a "+
					"wavelet or dct: expected the operator, or synthesis, to end in adjoint: wavelet or adjoint: dct")
			}
		}
		for _, j := range places {
			if j < 0 || j >= p {
				return nil, b.errorf(free.Line, "unpenalized holds %d, expected 0 to %d", j, p-1)
			}
			each[j] = 0
		}
		return each, nil
	}, nil
}

var squaredL2Regularizer = regularizerKind{
	name:  "squared-l2",
	forms: []form{{"squared-l2: W", "W/2 ||b||^2"}},
	parse: weighted("weight", true, func(w weightExpr, _ part) penalty {
		return penalty{free: true, make: w.at(prox.NewSquaredL2)}
	}),
}

var elasticNetRegularizer = regularizerKind{
	name:  "elastic-net",
	forms: []form{{"elastic-net: {weight: W, weight2: W2}", "W ||b||_1 + W2/2 ||b||^2"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, err := s.arguments(n, args, "weight", "weight2")
		if err != nil {
			return nil, err
		}
		if f.nodes["weight2"] == nil {
			return nil, s.errorf(n.line, "elastic-net has no weight2, expected elastic-net: {weight: lambda, "+
				"weight2: lambda2}")
		}
		w, err := s.weight(n, f.nodes["weight"], "weight", false, false)
		if err != nil {
			return nil, err
		}
		w2, err := s.weight(n, f.nodes["weight2"], "weight2", true, true)
		return func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
			return n.single(penalty{n: length(in.shape), norm: w, dual: dualOfL1,
				make: func(v map[string]float64) (prox.Prox, error) {
					return prox.NewElasticNet(w.value(v), w2.value(v)), nil
				}}), nil
		}, err
	},
}

var l2Regularizer = regularizerKind{
	name:  "l2",
	forms: []form{{"l2: W", "W ||b||_2"}},
	parse: weighted("weight", false, func(w weightExpr, _ part) penalty {
		return penalty{norm: w, dual: func(g []float64) (float64, error) { return norm2(g), nil },
			make: w.at(prox.NewL2)}
	}),
}

var sortedL1Regularizer = regularizerKind{
	name: "sorted-l1",
	forms: []form{
		{"sorted-l1: {weight: W, bh: q}", "SLOPE, W sum_i s_i |b|_(i), s_i = Phi^-1(1 - i q / (2 p))"},
		{"sorted-l1: {weight: W, sequence: s}", "the same, with a nonincreasing array s"},
	},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, err := s.arguments(n, args, "weight", "bh", "sequence")
		if err != nil {
			return nil, err
		}
		w, err := s.weight(n, f.nodes["weight"], "weight", false, true)
		if err != nil {
			return nil, err
		}
		sequence, err := s.parseSequence(n, f)
		if err != nil {
			return nil, err
		}
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			weights, err := sequence(b, length(in.shape))
			if err != nil {
				return nil, err
			}
			if !(weights[0] > 0) || math.IsInf(weights[0], 0) {
				return nil, fmt.Errorf("sorted-l1 has a first weight of %g, expected a positive number", weights[0])
			}
			return n.single(penalty{
				n: len(weights), norm: w,
				dual: func(g []float64) (float64, error) { return dualOfSortedL1(g, weights), nil },
				make: func(v map[string]float64) (prox.Prox, error) {
					scaled := make([]float64, len(weights))
					for i, x := range weights {
						scaled[i] = w.value(v) * x
					}
					r, err := clustered.NewSortedL1(scaled)
					return b.kept(n.line, r, err)
				},
			}), nil
		}, nil
	},
}

// parseSequence reads the weights of sorted-l1: those of Benjamini and Hochberg's procedure, or an
// array.
func (s *Spec) parseSequence(n *regularizerNode, f section) (func(b *specBuilder, p int) ([]float64, error), error) {
	if (f.nodes["bh"] == nil) == (f.nodes["sequence"] == nil) {
		return nil, s.errorf(n.line, "sorted-l1 needs bh, a level such as 0.1, or sequence, a nonincreasing "+
			"array of weights")
	}
	if v := f.nodes["sequence"]; v != nil {
		sequence, err := s.ref(v, "sequence")
		return func(b *specBuilder, p int) ([]float64, error) {
			return b.each(sequence, "sequence has", p, "entry of b")
		}, err
	}
	q, err := s.number(f.nodes["bh"], "bh")
	if err != nil {
		return nil, err
	}
	if !(q > 0 && q < 1) {
		return nil, s.errorf(f.nodes["bh"].Line, "bh is %g, expected a number between 0 and 1", q)
	}
	return func(_ *specBuilder, p int) ([]float64, error) {
		weights := make([]float64, p)
		for i := range weights {
			weights[i] = distuv.UnitNormal.Quantile(1 - float64(i+1)*q/(2*float64(p)))
		}
		return weights, nil
	}, nil
}

// dualOfSortedL1 is the least c with b = 0 at c times the weights: every partial sum of |g| in
// decreasing order is then at most c times that of the weights.
func dualOfSortedL1(g, weights []float64) float64 {
	size := make([]float64, len(g))
	for j, x := range g {
		size[j] = math.Abs(x)
	}
	slices.SortFunc(size, func(a, b float64) int { return cmp.Compare(b, a) })
	m, above, below := 0.0, 0.0, 0.0
	for i, x := range size {
		above += x
		below += weights[i]
		m = max(m, above/below)
	}
	return m
}

var tv1dRegularizer = regularizerKind{
	name:  "tv1d",
	forms: []form{{"tv1d: W", "W sum_i |b_{i+1} - b_i|, of each row of a matrix"}},
	parse: weighted("weight", false, func(w weightExpr, in part) penalty {
		n := in.shape[len(in.shape)-1]
		rows := length(in.shape) / n
		return penalty{
			norm: w, free: true,
			dual: func(g []float64) (float64, error) { return maxVariation(g, n), nil },
			make: w.at(func(w float64) prox.Prox { return newTV1D(rows, n, w) }),
		}
	}),
}

// newTV1D is the total variation of m sequences of n values.
func newTV1D(m, n int, lambda float64) prox.Prox {
	one := clustered.NewTV1D(n, lambda)
	if m == 1 {
		return one
	}
	rows := make([]prox.Prox, m)
	for i := range rows {
		rows[i] = one
	}
	return prox.NewSeparable(rows...)
}

// maxVariation is max_k |sum_{i<=k} (v_i - mean v)| over the sequences of n values in v: the
// smallest weight at which the total variation makes each of them constant.
func maxVariation(v []float64, n int) float64 {
	m := 0.0
	for ; len(v) >= n; v = v[n:] {
		mean := 0.0
		for _, x := range v[:n] {
			mean += x / float64(n)
		}
		sum := 0.0
		for _, x := range v[:n-1] {
			sum += x - mean
			m = max(m, math.Abs(sum))
		}
	}
	return m
}

var nuclearRegularizer = regularizerKind{
	name:  "nuclear",
	forms: []form{{"nuclear: {weight: W, shape: [m, n]}", "W ||B||_*"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, w, err := s.weighted(n, args, "weight", "shape")
		if err != nil {
			return nil, err
		}
		own, err := s.ownShape(f)
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			shape := in.shape
			if own != nil {
				shape = own
			}
			if len(shape) != 2 || length(shape) != length(in.shape) {
				return nil, fmt.Errorf("nuclear of an array of shape %s, expected a matrix with %d entries, as "+
					"nuclear: {weight: lambda, shape: [m, n]}", formatShape(shape), length(in.shape))
			}
			size := array.Shape{Rows: shape[0], Cols: shape[1]}
			return n.single(penalty{
				n: length(shape), norm: w,
				dual: func(g []float64) (float64, error) { return spectralNorm(g, size) },
				dualAt: func(dev array.Device, y []float64, places []int) (float64, error) {
					return sampledNorm(dev, y, places, size)
				},
				make: w.at(func(w float64) prox.Prox { return lowrank.NewNuclear(size, w) }),
			}), nil
		}, err
	},
}
