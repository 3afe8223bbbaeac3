package additive

import (
	"errors"
	"slices"

	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/internal/sublist"
	"surepipe/linops"
)

// Picked is what remains of (I - Pi) A where only some observations are fitted.
type Picked struct {
	// A is (I - Pi') R A, with the rows R that are fitted and the projection Pi' on their terms.
	A  linops.Operator
	Pi Projection
	// Whole is A, without a projection, for all observations.
	Whole linops.Operator
	// Terms are Z g at all observations, for the g that fits z, of the length of R's rows, best. A term that no
	// row of R has is 0.
	Terms func(z []float64) []float64
	// Determines says whether the rows of R have the terms of observation i; nil where they have all.
	Determines func(i int) bool
	// Means are the means of the columns of R A, where Pi' subtracts means from the columns of A; else nil.
	Means   []float64
	Release func()
}

func (c constant) Pick(dev array.Device, a linops.Operator, rows []int) (*Picked, error) {
	some, release, err := linops.Pick(dev, a, rows)
	if err != nil {
		return nil, err
	}
	p := &Picked{Pi: Constant(len(rows)), Whole: a, Terms: func(z []float64) []float64 {
		return slices.Repeat([]float64{stat.Mean(z, nil)}, int(c))
	}}
	d, q := some.Dims()
	if x := linops.StructureOf(some); x.Dense != nil && x.Entries == linops.Known(float64(d)*float64(q)) {
		picked := x.Dense() // a copy of the rows
		release()
		p.Means, _ = center(picked)
		on := linops.NewDense(dev, picked)
		p.A, p.Release = on, on.Release
		return p, nil
	}
	on := NewCentered(dev, some)
	p.A, p.Release = on, func() { on.Release(); release() }
	return p, nil
}

// Pick is that of WithoutEffects.
func (e *Effects) Pick(dev array.Device, a linops.Operator, rows []int) (*Picked, error) {
	whole, ok := a.(*withoutEffects)
	if !ok {
		return nil, errors.New("linops: the operator is not one without effects of rows and columns")
	}
	all, places, w := whole.s.Indices(), make([]int, len(rows)), []float64(nil)
	for k, i := range rows {
		if places[k] = all[i]; e.Weighted() {
			w = append(w, e.w[i])
		}
	}
	_, p := whole.s.Dims()
	s, err := linops.NewSelection(dev, p, places)
	if err != nil {
		return nil, err
	}
	own, err := NewEffects(dev, e.shape, places, e.rows, e.cols, w)
	if err != nil {
		s.Release()
		return nil, err
	}
	terms := func(z []float64) []float64 {
		c, byRow, byColumn := own.Of(z)
		rowsAt, columnsAt := own.Lines()
		f := make([]float64, len(all))
		for i, at := range all {
			row, column := at/e.shape.Cols, at%e.shape.Cols
			f[i] = c + sublist.Value(byRow, rowsAt, row) + sublist.Value(byColumn, columnsAt, column)
		}
		return f
	}
	byRow, byColumn := make([]bool, e.shape.Rows), make([]bool, e.shape.Cols)
	for _, at := range places {
		byRow[at/e.shape.Cols], byColumn[at%e.shape.Cols] = true, true
	}
	determines := func(i int) bool {
		return (!e.rows || byRow[all[i]/e.shape.Cols]) && (!e.cols || byColumn[all[i]%e.shape.Cols])
	}
	return &Picked{A: WithoutEffects(s, own), Pi: own, Whole: whole.s, Terms: terms, Determines: determines,
		Release: func() { own.Release(); s.Release() }}, nil
}
