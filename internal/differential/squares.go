package differential

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/vjp"
)

// Square is a term lambda/2 ||K b||^2.
type Square struct {
	Op     Op
	Lambda float64
}

// square appends the rows sqrt(lambda) K of squares to A, and zeros to y: the problem is the same.
func (k *canonical) square(squares []Square) {
	k.observed, k.squared = k.a.r, make([]float64, k.a.c)
	for _, s := range squares {
		m, _ := s.Op.matrix()
		root := num(s.Lambda).Sqrt()
		for i, v := range m.a {
			m.a[i] = v.Mul(root)
		}
		for j, norm := range m.columnNorms() {
			k.squared[j] += norm
		}
		k.a = &matrix{k.a.r + m.r, k.a.c, append(k.a.a, m.a...)}
		k.y = append(k.y, make([]dd, m.r)...)
	}
}

// images are the rows of a that are A's.
func (k *canonical) images() *matrix {
	return &matrix{k.observed, k.a.c, k.a.a[:k.observed*k.a.c]}
}

// overwhelmed reports that squares hide a column of A: where it is a share of 1e-12 of the same column of theirs, the
// Gram matrix of double-doubles does not tell it from 0 along a direction that the squares leave free.
func (k *canonical) overwhelmed() bool {
	if k.observed == k.a.r {
		return false
	}
	all := k.a.columnNorms()
	for j, norm := range k.images().columnNorms() {
		if norm > 0 && norm*norm < 1e3*noRank*all[j]*all[j] {
			return true
		}
	}
	return false
}

// divided are the differences of numbers, as often as there are fewer rows than columns; divided
// differences where the numbers have places: the derivative, times the root of the length for which a
// row stands.
func (o Op) divided(m *matrix) {
	order := o.Cols - o.Rows
	at := func(i int) dd { return num(float64(i)) }
	if o.Data != nil {
		unit := num(o.Data[o.Cols-1]).Sub(num(o.Data[0])).Div(num(float64(o.Cols - 1)))
		at = func(i int) dd { return num(o.Data[i]).Sub(num(o.Data[0])).Div(unit) }
	}
	rows := newMatrix(o.Cols, o.Cols)
	for i := range o.Cols {
		rows.set(i, i, num(1))
	}
	for k := 1; k <= order; k++ {
		for i := range o.Cols - k {
			f := num(float64(k)).Div(at(i + k).Sub(at(i)))
			for j, v := range rows.row(i + 1) {
				rows.set(i, j, v.Sub(rows.at(i, j)).Mul(f))
			}
		}
	}
	for i := range o.Rows {
		f := num(1)
		if order > 0 {
			f = at(i + order).Sub(at(i)).Div(num(float64(order))).Sqrt()
		}
		for j, v := range rows.row(i) {
			m.set(i, j, v.Mul(f))
		}
	}
}

// buildDivided is the operator of differences of numbers at even places.
func (o Op) buildDivided() linops.Operator {
	var parts []linops.Operator
	for n := o.Rows + 1; n <= o.Cols; n++ {
		parts = append(parts, imaging.NewDifference1D(n))
	}
	return linops.Compose(parts...)
}

// addSquares adds Squares to the problem.
func (c *Case) addSquares(dev array.Device, p *vjp.Problem) (release func(), err error) {
	var releases []func()
	release = func() {
		for _, f := range releases {
			f()
		}
	}
	var terms []solve.Term
	switch {
	case p.K != nil:
		terms = append(terms, solve.Term{K: p.K, R: p.R})
	case c.Reg.Kind != "zero":
		terms = append(terms, solve.Term{K: linops.Identity(c.Op.Cols), R: p.R})
	}
	for _, s := range c.Squares {
		op, f, err := s.Op.build(dev)
		if err != nil {
			release()
			return nil, err
		}
		terms, releases = append(terms, solve.Term{K: op, R: prox.NewSquaredL2(s.Lambda)}), append(releases, f)
	}
	p.K, p.R = solve.Terms(terms...)
	return release, nil
}

// rescaleSquares multiplies the weights of squares.
func (c *Case) rescaleSquares(f float64) {
	for i := range c.Squares {
		c.Squares[i].Lambda = min(c.Squares[i].Lambda*f, math.MaxFloat64)
	}
}

// withoutSquare has no square i.
func (c *Case) withoutSquare(i int) *Case {
	next := c.clone()
	next.Squares = slices.Delete(next.Squares, i, i+1)
	return next
}

// narrow is the case, whose operator has lost column j, with squares that have lost it too; nil where
// that is not possible.
func (c *Case) narrow(j int) *Case {
	if c == nil {
		return nil
	}
	for i := range c.Squares {
		var ok bool
		if c.Squares[i].Op, ok = c.Squares[i].Op.without(j); !ok {
			return nil
		}
	}
	return c
}

// without is the operator without column j; false where it is no such operator.
func (o Op) without(j int) (Op, bool) {
	switch o.Kind {
	case "dense", "csr":
		var data []float64
		for i, v := range o.Data {
			if i%o.Cols != j {
				data = append(data, v)
			}
		}
		o.Data = data
	case "identity", "differences":
		if o.Rows < 2 || o.Data != nil {
			return o, false
		}
		o.Rows--
	default:
		return o, false
	}
	o.Cols--
	return o, true
}

// roundSquares rounds the weights of squares.
func (c *Case) roundSquares(digits int) {
	for i, s := range c.Squares {
		weight := []float64{s.Lambda}
		roundTo(weight, digits)
		c.Squares[i].Lambda = weight[0]
	}
}
