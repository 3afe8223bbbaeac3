package spec

import (
	"fmt"
	"math"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/linops"
)

// MostDifferences is how often differences are taken at most: their condition grows like n to twice that.
const MostDifferences = 6

var trendOperator = differencesKind("trend", 1, 1, []Form{{"trend: {order: 1}",
	"differences of a sequence, order + 1 times: 0 for pieces that are constant, 1 linear, 2 quadratic"}})

var differencesOperator = differencesKind("differences", 2, 0, []Form{{"differences: {order: 2, at: x}",
	"differences of a sequence, so many times. at: places of its values, increasing,\n" +
		"if they are not evenly spaced: divided differences, in units of the mean distance,\n" +
		"whose squares add up to the integral of the squared derivative"}},
	Parameter{Name: "at", Read: Numbers, Optional: true})

// differencesKind is a kind of differences that are taken order + more times, of the usual order where none is
// given. They depend on the places of the sequence where at is among the parameters.
func differencesKind(name string, usual, more int, forms []Form, at ...Parameter) operatorKind {
	least, most := 1-more, MostDifferences-more
	return operatorKind{
		name: name, forms: forms, placed: len(at) > 0,
		parameters: append([]Parameter{
			{Name: "order", Read: integerFrom(least, most), Optional: true}, ownShape}, at...),
		build: func(a *operatorArguments, _, cols []int) (built, error) {
			k := int(a.Number("order", float64(usual)))
			if o := a.builder.data.Order; o != nil && !a.Given("order") {
				k = *o
			}
			shape, err := a.input(cols)
			switch {
			case err != nil:
				return built{}, err
			case k < least || k > most:
				return built{}, fmt.Errorf("%s of order %d, expected an order from %d to %d", name, k, least, most)
			case len(shape) != 1 || shape[0] < k+more+1:
				return built{}, fmt.Errorf("%s of order %d of an array of shape %s, expected a sequence of at "+
					"least %d values", name, k, ndarray.ShapeString(shape), k+more+1)
			}
			var places []float64
			if len(at) > 0 {
				places = a.builder.data.At
			}
			from := "at"
			if v, ok := a.Array("at"); ok {
				places, from = v.Data, v.Name
			}
			if err := checkIncreasing(from, places, shape[0]); err != nil {
				return built{}, err
			}
			op, err := a.differences(shape[0], k+more, places)
			return built{op: op, rows: []int{shape[0] - k - more}, cols: shape}, err
		},
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
func (b *builder) differences(n, order int, x []float64) (linops.Operator, error) {
	d := n - order
	indptr, indices, values := make([]int, 1, d+1), make([]int, 0, d*(order+1)), make([]float64, 0, d*(order+1))
	unit, even := 1.0, differenceRow(order, nil)
	if x != nil {
		unit = (x[n-1] - x[0]) / float64(n-1)
	}
	for i := range d {
		row := even
		if x != nil {
			at := lists.Make(order+1, func(j int) float64 { return (x[i+j] - x[i]) / unit })
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
		return nil, Trim(err)
	}
	return b.keep(&Source{Operator: op}), nil
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
