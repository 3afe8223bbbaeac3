package spec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/array"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/lowrank"
)

var zeroRegularizer = RegularizerKind{
	Name:  "zero",
	Forms: []Form{{"zero", "0"}},
	None:  true,
	Build: func(_ *Arguments, in Block) (Penalty, error) {
		return Penalty{Free: true, Make: fixed(prox.Zero()), Unpenalized: lists.Upto(in.Len())}, nil
	},
}

// weight is the first parameter of most norms.
var weight = Parameter{Name: "weight", Read: PositiveWeight}

// someFree are the parameters of norms that leave some entries without a penalty.
var someFree = []Parameter{weight, {Name: "weights", Read: Numbers, Optional: true},
	{Name: "unpenalized", Read: readUnpenalized, Optional: true}}

var l1Regularizer = RegularizerKind{
	Name:       "l1",
	Forms:      []Form{{"l1: {weight: W, weights: w, unpenalized: [0] or averages}", "W sum_j w_j |b_j|"}},
	Parameters: someFree,
	Sparse:     true,
	Build: func(a *Arguments, in Block) (Penalty, error) {
		w := a.Weight("weight")
		p := Penalty{Norm: w, Dual: dualOfL1}
		weights, err := a.each(in)
		if err != nil || weights == nil {
			p.Make = w.Of(prox.NewL1)
			return p, err
		}
		p.Unpenalized = lists.Places(len(weights), func(j int) bool { return weights[j] == 0 })
		p.Free = p.Unpenalized != nil
		p.Dual = func(g []float64) (float64, error) {
			m := 0.0
			for j, x := range g {
				if weights[j] > 0 {
					m = max(m, math.Abs(x)/weights[j])
				}
			}
			return m, nil
		}
		p.Make, err = scalable(a, w, func(w float64) (prox.Prox, error) {
			return prox.NewWeightedL1(a.dev, w, weights)
		})
		return p, err
	},
}

func dualOfL1(g []float64) (float64, error) { return lists.MaxAbs(g), nil }

// averages stands for the coordinates that are the coarsest averages of a transform.
const averages = "averages"

func readUnpenalized(c *Call, v *yaml.Node, what string) (any, error) {
	if v.Value == averages {
		return averages, nil
	}
	return c.spec.ref(v, what)
}

// each computes a weight for each coordinate from the arguments weights and unpenalized; nil where both are missing.
func (a *Arguments) each(in Block) ([]float64, error) {
	if !a.Given("weights") && !a.Given("unpenalized") {
		return nil, nil
	}
	p := in.Len()
	each := slices.Repeat([]float64{1}, p)
	if a.Given("weights") {
		own, err := a.Each("weights", "weights have", p, "entry of b")
		if err != nil {
			return nil, err
		}
		copy(each, own)
	}
	var places []int
	var err error
	switch {
	case a.Text("unpenalized", "") == averages:
		if places = in.Averages; places == nil {
			return nil, a.Errorf("unpenalized", "unpenalized is averages, but b is not the coefficients of a "+
				"wavelet or dct: expected the operator, or synthesis, to end in adjoint: wavelet or adjoint: dct")
		}
	case a.Given("unpenalized"):
		if places, err = a.Integers("unpenalized"); err != nil {
			return nil, err
		}
	}
	for _, j := range places {
		if j < 0 || j >= p {
			return nil, a.Errorf("unpenalized", "unpenalized holds %d, expected 0 to %d", j, p-1)
		}
		each[j] = 0
	}
	return each, nil
}

var complexL1Regularizer = RegularizerKind{
	Name: "complex-l1",
	Forms: []Form{{"complex-l1: {weight: W, unpenalized: averages}",
		"W sum_j |b_j| of complex b_j, pairs of real and imaginary part: groups of two, shrunk in\n" +
			"absolute value with their phase kept"}},
	Parameters: []Parameter{weight, {Name: "unpenalized", Read: readUnpenalized, Optional: true}},
	Build: func(a *Arguments, in Block) (Penalty, error) {
		if shape := in.Shape; len(shape) < 2 || shape[len(shape)-1] != 2 {
			return Penalty{}, fmt.Errorf("complex-l1 of b of shape %s, expected complex numbers, a last axis "+
				"of 2 entries", ndarray.ShapeString(shape))
		}
		weights, err := a.each(in)
		if err != nil {
			return Penalty{}, err
		}
		var pairs [][]int
		for j := 0; j < in.Len(); j += 2 {
			if weights == nil || weights[j] > 0 {
				pairs = append(pairs, []int{j, j + 1})
			}
		}
		if pairs == nil {
			return Penalty{}, errors.New("complex-l1 penalizes no entry of b: all of them are unpenalized")
		}
		ones := slices.Repeat([]float64{1}, len(pairs))
		return a.overGroups(in.Len(), pairs, ones, prox.NewGroupL2, norm2)
	},
}

var squaredL2Regularizer = RegularizerKind{
	Name:       "squared-l2",
	Forms:      []Form{{"squared-l2: W", "W/2 ||b||^2"}},
	Parameters: []Parameter{{Name: "weight", Read: FiniteWeight}},
	Build: func(a *Arguments, _ Block) (Penalty, error) {
		return Penalty{Free: true, Make: a.Weight("weight").Of(prox.NewSquaredL2)}, nil
	},
}

var elasticNetRegularizer = RegularizerKind{
	Name:       "elastic-net",
	Forms:      []Form{{"elastic-net: {weight: W, weight2: W2}", "W ||b||_1 + W2/2 ||b||^2"}},
	Parameters: []Parameter{weight, {Name: "weight2", Read: FiniteWeightOrZero}},
	Build: func(a *Arguments, _ Block) (Penalty, error) {
		w, w2 := a.Weight("weight"), a.Weight("weight2")
		return Penalty{Norm: w, Dual: dualOfL1, Make: func(v Weights) (prox.Prox, error) {
			return prox.NewElasticNet(w.Value(v), w2.Value(v)), nil
		}}, nil
	},
}

func norm2(x []float64) float64 { return floats.Norm(x, 2) }
func norm1(x []float64) float64 { return floats.Norm(x, 1) }

var l2Regularizer = RegularizerKind{
	Name:       "l2",
	Forms:      []Form{{"l2: W", "W ||b||_2"}},
	Parameters: []Parameter{weight},
	Build: func(a *Arguments, in Block) (Penalty, error) {
		return a.overGroups(in.Len(), [][]int{lists.Upto(in.Len())}, []float64{1}, prox.NewGroupL2, norm2)
	},
}

var sortedL1Regularizer = RegularizerKind{
	Name: "sorted-l1",
	Forms: []Form{
		{"sorted-l1: {weight: W, bh: q}", "SLOPE, W sum_i s_i |b|_(i), s_i = Phi^-1(1 - i q / (2 p))"},
		{"sorted-l1: {weight: W, sequence: s}", "the same, with a nonincreasing array s"},
	},
	Parameters: []Parameter{weight, {Name: "bh", Read: share, Optional: true},
		{Name: "sequence", Read: Numbers, Optional: true}},
	Check: func(c *Call) error {
		if c.Given("bh") == c.Given("sequence") {
			return c.Errorf("", "sorted-l1 needs bh, a level such as 0.1, or sequence, a nonincreasing "+
				"array of weights")
		}
		return nil
	},
	Build: func(a *Arguments, in Block) (Penalty, error) {
		w, p := a.Weight("weight"), in.Len()
		weights := make([]float64, p)
		if q := a.Number("bh", 0); q > 0 {
			for i := range weights {
				weights[i] = distuv.UnitNormal.Quantile(1 - float64(i+1)*q/(2*float64(p)))
			}
		} else {
			var err error
			if weights, err = a.Each("sequence", "sequence has", p, "entry of b"); err != nil {
				return Penalty{}, err
			}
		}
		if !(weights[0] > 0) || math.IsInf(weights[0], 0) {
			return Penalty{}, fmt.Errorf("sorted-l1 has a first weight of %g, expected a positive number", weights[0])
		}
		return Penalty{
			Norm: w,
			Dual: func(g []float64) (float64, error) { return dualOfSortedL1(g, weights), nil },
			Make: func(v Weights) (prox.Prox, error) {
				scaled := lists.Map(weights, func(x float64) float64 { return w.Value(v) * x })
				return a.Keep(clustered.NewSortedL1(scaled))
			},
		}, nil
	},
}

// dualOfSortedL1 is the least c such that every partial sum of |g| in decreasing order is at most c times that
// of the weights.
func dualOfSortedL1(g, weights []float64) float64 {
	size := lists.Map(g, math.Abs)
	slices.SortFunc(size, func(a, b float64) int { return cmp.Compare(b, a) })
	m, above, below := 0.0, 0.0, 0.0
	for i, x := range size {
		above += x
		below += weights[i]
		m = max(m, above/below)
	}
	return m
}

var tv1dRegularizer = RegularizerKind{
	Name:       "tv1d",
	Forms:      []Form{{"tv1d: W", "W sum_i |b_{i+1} - b_i|, of each row of a matrix"}},
	Parameters: []Parameter{weight},
	Sequences:  true,
	Build: func(a *Arguments, in Block) (Penalty, error) {
		n := in.Shape[len(in.Shape)-1]
		w, rows := a.Weight("weight"), in.Len()/n
		return Penalty{
			Norm: w, Free: true,
			Dual: func(g []float64) (float64, error) { return maxVariation(g, n), nil },
			Make: w.Of(func(w float64) prox.Prox { return newTV1D(rows, n, w) }),
		}, nil
	},
}

func newTV1D(m, n int, lambda float64) prox.Prox {
	one := clustered.NewTV1D(n, lambda)
	if m == 1 {
		return one
	}
	return prox.NewSeparable(slices.Repeat([]prox.Prox{one}, m)...)
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

var nuclearRegularizer = RegularizerKind{
	Name:       "nuclear",
	Forms:      []Form{{"nuclear: {weight: W, shape: [m, n]}", "W ||B||_*"}},
	Parameters: []Parameter{weight, {Name: "shape", Read: Shape, Optional: true}},
	LowRank:    true,
	Build: func(a *Arguments, in Block) (Penalty, error) {
		shape := in.Shape
		if own := a.Shape("shape"); own != nil {
			shape = own
		}
		if len(shape) != 2 || lists.Product(shape) != in.Len() {
			return Penalty{}, fmt.Errorf("nuclear of an array of shape %s, expected a matrix with %d entries, as "+
				"nuclear: {weight: lambda, shape: [m, n]}", ndarray.ShapeString(shape), in.Len())
		}
		w, size := a.Weight("weight"), array.Shape{Rows: shape[0], Cols: shape[1]}
		return Penalty{
			Norm: w,
			Dual: func(g []float64) (float64, error) { return spectralNorm(g, size) },
			DualAt: func(dev array.Device, y []float64, places []int) (float64, error) {
				return sampledNorm(dev, y, places, size)
			},
			Make: w.Of(func(w float64) prox.Prox { return lowrank.NewNuclear(size, w) }),
		}, nil
	},
}
