package linops

import (
	"fmt"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops/internal/product"
)

// compose is A1 A2 ... An. Where A = L M R with a single factor M, L*L = l I and R R* = r I, the
// structure of A follows from that of M.
type compose struct {
	base
	parts []known

	middle *known // M, nil where A has no such form
	right  *known // R, nil where M acts first
	l, r   float64
}

// Compose returns the product A1 A2 ... An: the last operator acts first, as in the formula.
//
//	Forward: dst = A1 (A2 (... b))        Adjoint: dst = An* (... (A1* z))
//
// A closed form for a factor M carries over to L M R where L*L = l I and R R* = r I:
//
//	(eta A*A + I)^{-1} = I + R* ((eta l r M*M + I)^{-1} - I) R / r.
func Compose(ops ...Operator) Operator {
	checkSome("Compose", ops)
	for i, a := range ops[1:] {
		d1, p1 := ops[i].Dims()
		if d2, p2 := a.Dims(); p1 != d2 {
			panic(fmt.Sprintf("linops: Compose of operators of size %d x %d and %d x %d", d1, p1, d2, p2))
		}
	}
	if len(ops) == 1 {
		return ops[0]
	}
	c := &compose{parts: lists.Map(ops, know)}
	d, _ := ops[0].Dims()
	_, p := ops[len(ops)-1].Dims()
	for i := range c.parts {
		if rows := c.parts[i].s.Rows; rows.Known && rows.Value == 0 {
			return Zero(d, p)
		}
	}
	c.base = base{name: "Compose", d: d, p: p, run: c.multiply}
	c.split()
	c.structure = Complete(c, composeStructure(c))
	return c
}

func (c *compose) split() {
	l, r := 1.0, 1.0
	i, j := 0, len(c.parts)
	for ; i < j-1 && c.parts[i].s.Columns.Known; i++ {
		l *= c.parts[i].s.Columns.Value
	}
	for ; j > i+1 && c.parts[j-1].s.Rows.Known; j-- {
		r *= c.parts[j-1].s.Rows.Value
	}
	if j > i+1 {
		return
	}
	c.middle, c.l, c.r = &c.parts[i], l, r
	if j < len(c.parts) {
		right := know(Compose(operators(c.parts[j:])...))
		c.right = &right
	}
}

func operators(parts []known) []Operator {
	return lists.Make(len(parts), func(i int) Operator { return parts[i].Operator })
}

func (c *compose) multiply(w product.Direction, dst, x array.Batch) {
	var from, to array.Batch // products in use, freed also where a factor panics
	defer func() {
		array.Free(from, to)
	}()
	last := len(c.parts) - 1
	for i := range last {
		part := &c.parts[i]
		_, n := part.Dims()
		if w == product.Forward {
			part = &c.parts[last-i]
			n, _ = part.Dims()
		}
		to = dst.Device().Alloc(dst.K(), n)
		part.apply(w, to, x)
		from.Free()
		x, from, to = to, to, array.Batch{}
	}
	end := &c.parts[last]
	if w == product.Forward {
		end = &c.parts[0]
	}
	end.apply(w, dst, x)
}

func (c *compose) solveNormal(dst, rhs array.Batch, eta float64) bool {
	product.CheckSolve(c.name, c.d, c.p, dst, rhs, eta)
	if c.right == nil {
		return c.middle.s.SolveNormal(dst, rhs, eta*c.l)
	}
	dev := dst.Device()
	n, _ := c.right.Dims()
	t, u := dev.Alloc(rhs.K(), n), dev.Alloc(rhs.K(), n)
	defer array.Free(t, u)
	c.right.Forward(t, rhs)
	if !c.middle.s.SolveNormal(u, t, eta*c.l*c.r) {
		return false
	}
	dev.Lin(u, 1, u, -1, t)
	product.CopyTo(dst, rhs)
	c.right.add(product.Adjoint, dst, 1/c.r, u)
	return true
}
