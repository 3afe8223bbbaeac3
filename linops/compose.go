package linops

import (
	"fmt"

	"surepipe/array"
)

// compose is A1 A2 ... An. Where A = L M R with L*L = l I and R R* = r I, what
// is known of M is known of A; l, M and R are worked out once.
type compose struct {
	structure
	ops []Operator

	middle Operator // M, nil where A has no such form
	right  Operator // R, nil where there is none
	l, r   float64
}

// Compose returns the product A1 A2 ... An: the last operator acts first, as in
// the formula.
//
//	Forward: dst = A1 (A2 (... b))        Adjoint: dst = An* (... (A1* z))
//
// A closed form for a factor M carries over to L M R when L*L = l I and
// R R* = r I:
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
	for _, a := range ops {
		if c := rowGram(a); c.ok && c.value == 0 {
			d, _ := ops[0].Dims()
			_, p := ops[len(ops)-1].Dims()
			return Zero(d, p)
		}
	}
	c := &compose{ops: append([]Operator(nil), ops...)}
	c.row, c.col = known{1, true}, known{1, true}
	for _, a := range ops {
		c.row = times(c.row, rowGram(a))
		c.col = times(c.col, colGram(a))
	}
	c.split()
	return c
}

func times(a, b known) known {
	if !a.ok || !b.ok {
		return known{}
	}
	return known{a.value * b.value, true}
}

// split finds l, M, R with M a single factor.
func (c *compose) split() {
	l, r := 1.0, 1.0
	i, j := 0, len(c.ops)
	for ; i < j-1; i++ {
		g := colGram(c.ops[i])
		if !g.ok {
			break
		}
		l *= g.value
	}
	for ; j > i+1; j-- {
		g := rowGram(c.ops[j-1])
		if !g.ok {
			break
		}
		r *= g.value
	}
	if j > i+1 {
		return
	}
	c.middle, c.l, c.r = c.ops[i], l, r
	if j < len(c.ops) {
		c.right = Compose(c.ops[j:]...)
	}
	c.norm2 = times(known{l * r, true}, norm2(c.middle))
}

func (c *compose) Dims() (d, p int) {
	d, _ = c.ops[0].Dims()
	_, p = c.ops[len(c.ops)-1].Dims()
	return d, p
}

func (c *compose) Forward(dst, b array.Batch) {
	d, p := c.Dims()
	checkForward("Compose", d, p, dst, b)
	x := b
	for i := len(c.ops) - 1; i > 0; i-- {
		n, _ := c.ops[i].Dims()
		t := dst.Device().Alloc(dst.K(), n)
		c.ops[i].Forward(t, x)
		if i < len(c.ops)-1 {
			x.Free()
		}
		x = t
	}
	c.ops[0].Forward(dst, x)
	x.Free()
}

func (c *compose) Adjoint(dst, z array.Batch) {
	d, p := c.Dims()
	checkAdjoint("Compose", d, p, dst, z)
	last := len(c.ops) - 1
	x := z
	for i := range last {
		_, n := c.ops[i].Dims()
		t := dst.Device().Alloc(dst.K(), n)
		c.ops[i].Adjoint(t, x)
		if i > 0 {
			x.Free()
		}
		x = t
	}
	c.ops[last].Adjoint(dst, x)
	x.Free()
}

func (c *compose) closedForm() bool {
	return c.row.ok || c.col.ok || (c.middle != nil && closedForm(c.middle))
}

func (c *compose) SolveNormal(dst, rhs array.Batch, eta float64) bool {
	d, p := c.Dims()
	checkNormal("Compose", d, p, dst, rhs, eta)
	switch {
	case c.col.ok:
		scaleSolve(dst, rhs, c.col.value, eta)
		return true
	case c.row.ok:
		rowGramSolve(dst, rhs, c, c.row.value, eta)
		return true
	case c.middle == nil || !closedForm(c.middle):
		return false
	case c.right == nil:
		return solveNormal(dst, rhs, c.middle, eta*c.l)
	}
	dev := dst.Device()
	n, _ := c.right.Dims()
	t, u := dev.Alloc(rhs.K(), n), dev.Alloc(rhs.K(), n)
	defer t.Free()
	defer u.Free()
	c.right.Forward(t, rhs)
	if !solveNormal(u, t, c.middle, eta*c.l*c.r) {
		return false
	}
	dev.Lin(u, 1, u, -1, t)
	copyTo(dst, rhs)
	addAdjoint(dst, 1/c.r, c.right, u)
	return true
}
