package problems

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/problems/spec"
	"surepipe/prox"
)

// checkY rejects y at which a loss is not defined, or is least at an infinite intercept.
func checkY(l Loss, p loss.Structured, data Data) error {
	if err := p.Structure().Check(data.Y); err != nil {
		return fmt.Errorf("array %w", err)
	}
	if !data.Intercept {
		return nil
	}
	least, most := data.Y[0], data.Y[0]
	for _, v := range data.Y {
		least, most = min(least, v), max(most, v)
	}
	if k := l.Row(); k.Unbounded != nil && k.Unbounded(least, most) {
		return fmt.Errorf("array \"y\" is %g everywhere: the %s loss has no least intercept", most, l.Name)
	}
	return nil
}

// unpenalize puts an unpenalized column of ones beside the operator: [A 1], where the columns of A
// have been centered. Where they are those of a matrix, so is the result.
func (p *Problem) unpenalize() {
	d, n := p.Operator.Dims()
	p.constant = n
	var a linops.Operator
	if matrix := matrixOf(p.Operator, smallSparse); matrix != nil {
		dense := linops.NewDense(p.dev, withOnes(matrix()))
		p.parts.Own(dense.Release)
		a = dense
	} else if s := linops.StructureOf(p.Operator).Shifted; s != nil {
		with := linops.NewShifted(p.dev, s.Sparse, s.Left, append(slices.Clone(s.Right), 1))
		p.parts.Own(with.Release)
		a = with
	} else {
		one := mat.NewDense(d, 1, slices.Repeat([]float64{1}, d))
		ones := linops.NewDense(p.dev, one)
		p.parts.Own(ones.Release)
		a = linops.HStack(p.Operator, ones)
	}
	p.Operator = a
}

func withOnes(x *mat.Dense) *mat.Dense {
	d, p := x.Dims()
	with := mat.NewDense(d, p+1, nil)
	for i := range d {
		row := with.RawRowView(i)
		copy(row, x.RawRowView(i))
		row[p] = 1
	}
	return with
}

func intercept(n int) *spec.Penalty {
	all := lists.Upto(n)
	return &spec.Penalty{
		N: n, Factor: 1, Free: true, Unpenalized: all,
		Make: func(spec.Weights) (prox.Prox, error) { return prox.NewSquaredL2(0), nil },
	}
}

// extra is the number of coordinates that the intercept has added. The last of several classes has none, because a
// constant in all of them changes nothing.
func (p *Problem) extra() int {
	switch {
	case p.constant == 0:
		return 0
	case p.classes:
		return p.outcomes - 1
	}
	return p.each()
}
