package problems

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"

	"surepipe/linops"
)

var trendOperator = operatorKind{
	name: "trend",
	forms: []form{{"trend: {order: 1}",
		"differences of a sequence, order + 1 times: 0 for pieces that are constant, 1 linear, 2 quadratic"}},
	parse: parseDifferences(1, 1),
}

var differencesOperator = operatorKind{
	name: "differences",
	forms: []form{{"differences: {order: 2, at: x}",
		"differences of a sequence, so many times. at: places of its values, increasing,\n" +
			"if they are not evenly spaced: divided differences, in units of the mean distance,\n" +
			"whose squares add up to the integral of the squared derivative"}},
	parse: parseDifferences(2, 0),
}

// MostDifferences is how often differences are taken at most: their condition grows like n to twice that.
const MostDifferences = 6

// parseDifferences parses differences that are taken order + more times.
func parseDifferences(usual, more int) func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
	return func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		order, given := usual, false
		var own []int
		var at *arrayRef
		if args != nil {
			keys := []string{"order", "shape"}
			if more == 0 {
				keys = append(keys, "at")
			}
			f, err := s.fields(args, n.kind, keys...)
			if err != nil {
				return nil, err
			}
			if v := f.nodes["order"]; v != nil {
				x, err := s.number(v, "order")
				if err != nil {
					return nil, err
				}
				if x != math.Trunc(x) || x < float64(1-more) || x > float64(MostDifferences-more) {
					return nil, s.errorf(v.Line, "order is %g, expected an integer from %d to %d", x, 1-more,
						MostDifferences-more)
				}
				order, given = int(x), true
			}
			if v := f.nodes["at"]; v != nil {
				if at, err = s.ref(v, "at"); err != nil {
					return nil, err
				}
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
			switch {
			case k < 1-more || k > MostDifferences-more:
				return built{}, fmt.Errorf("%s of order %d, expected an order from %d to %d",
					n.kind, k, 1-more, MostDifferences-more)
			case len(shape) != 1 || shape[0] < k+more+1:
				return built{}, fmt.Errorf("%s of order %d of an array of shape %s, expected a sequence of at "+
					"least %d values",
					n.kind, k, formatShape(shape), k+more+1)
			}
			var places []float64
			name := "at"
			if at != nil {
				places, name = b.array(at).Data, at.name
			} else if more == 0 {
				places = b.data.At
			}
			if err := checkIncreasing(name, places, shape[0]); err != nil {
				return built{}, err
			}
			op, err := b.differences(shape[0], k+more, places)
			return built{op: op, rows: []int{shape[0] - k - more}, cols: shape}, err
		}, nil
	}
}

// checkIncreasing rejects places of a sequence of n values that are not increasing numbers.
func checkIncreasing(name string, at []float64, n int) error {
	if at == nil {
		return nil
	}
	if len(at) != n {
		return fmt.Errorf("array %q has %d values, expected %d, the place of each value of the sequence", name,
			len(at), n)
	}
	for i, v := range at {
		if math.IsNaN(v) || math.IsInf(v, 0) || i > 0 && !(v > at[i-1]) {
			return fmt.Errorf("array %q holds %g at [%d], expected increasing numbers, the places of the sequence",
				name, v, i)
		}
	}
	return nil
}

// differences is the operator of the differences of n numbers, so many times: rows of binomial
// coefficients with alternating signs. For numbers b at places x, in units of their mean distance,
// they are divided differences,
//
//	(D^m b)_i = m! [x_i, ..., x_{i+m}] b sqrt((x_{i+m} - x_i)/m),
//
// the m-th derivative times the root of the length of x for which it stands.
func (b *specBuilder) differences(n, order int, x []float64) (linops.Operator, error) {
	d := n - order
	indptr, indices, values := make([]int, 1, d+1), make([]int, 0, d*(order+1)), make([]float64, 0, d*(order+1))
	unit, even := 1.0, differenceRow(order, nil)
	if x != nil {
		unit = (x[n-1] - x[0]) / float64(n-1)
	}
	for i := range d {
		row := even
		if x != nil {
			at := make([]float64, order+1)
			for j := range at {
				at[j] = (x[i+j] - x[i]) / unit
			}
			row = differenceRow(order, at)
			for j := range row {
				row[j] *= math.Sqrt(at[order] / float64(order))
			}
		}
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

// differenceRow are the coefficients of order! times a divided difference at places; of ones a
// distance of 1 apart where they are nil.
func differenceRow(order int, at []float64) []float64 {
	rows := make([][]float64, order+1) // of the differences of a lower order that begin at each place
	for i := range rows {
		rows[i] = make([]float64, order+1)
		rows[i][i] = 1
	}
	for k := 1; k <= order; k++ {
		for i := range order + 1 - k {
			over := 1.0
			if at != nil {
				over = float64(k) / (at[i+k] - at[i])
			}
			for j := range rows[i] {
				rows[i][j] = (rows[i+1][j] - rows[i][j]) * over
			}
		}
	}
	return rows[0]
}
