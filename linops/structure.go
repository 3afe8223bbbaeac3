package linops

import (
	"fmt"
	"math"

	"surepipe/array"
)

// known is a number that an operator may or may not know.
type known struct {
	value float64
	ok    bool
}

// structure is what a combination knows of itself. It is worked out once, when
// the combination is built, from what its parts say.
type structure struct {
	row   known // c where A A* = c I
	col   known // c where A*A = c I
	norm2 known
}

// RowGram returns c and true when A A* = c I.
func (s structure) RowGram() (c float64, ok bool) { return s.row.value, s.row.ok }

// Norm2 returns ||A||_2^2 and true when it is known exactly.
func (s structure) Norm2() (norm2 float64, ok bool) {
	if s.row.ok {
		return s.row.value, true
	}
	if s.col.ok {
		return s.col.value, true
	}
	return s.norm2.value, s.norm2.ok
}

func (s structure) colGram() known { return s.col }

// rowGram is a's c where A A* = c I. An operator with no rows or no columns has
// c = 0, so that c is the squared norm in every case.
func rowGram(a Operator) known {
	if d, p := a.Dims(); d == 0 || p == 0 {
		return known{0, true}
	}
	if g, ok := a.(RowGram); ok {
		if c, ok := g.RowGram(); ok {
			return known{c, true}
		}
	}
	return known{}
}

// colGram is a's c where A*A = c I.
func colGram(a Operator) known {
	d, p := a.Dims()
	if d == 0 || p == 0 {
		return known{0, true}
	}
	if g, ok := a.(interface{ colGram() known }); ok {
		if c := g.colGram(); c.ok {
			return c
		}
	}
	// A square A with A A* = c I has A*A = c I.
	if c := rowGram(a); c.ok && (d == p || c.value == 0) {
		return c
	}
	return known{}
}

// norm2 is a's squared norm where something short of an iteration tells it.
func norm2(a Operator) known {
	if n, ok := a.(Normer); ok {
		if v, ok := n.Norm2(); ok {
			return known{v, true}
		}
	}
	if c := rowGram(a); c.ok {
		return c
	}
	return colGram(a)
}

// sumOfGrams is the squared norm of blocks side by side (or, with gram =
// colGram, on top of each other), where all but one have orthogonal rows:
// ||A A* + c I|| = ||A||^2 + c.
func sumOfGrams(ops []Operator, gram func(Operator) known) (total, norm known) {
	total = known{0, true}
	norm = known{0, true}
	others := 0
	for _, a := range ops {
		if c := gram(a); c.ok {
			total.value += c.value
			norm.value += c.value
			continue
		}
		n := norm2(a)
		if others++; others > 1 || !n.ok {
			return known{}, known{}
		}
		norm.value += n.value
	}
	if others > 0 {
		return known{}, norm
	}
	return total, norm
}

// equalGrams is the c that all blocks on a diagonal share, where they do. Blocks
// without rows do not count.
func equalGrams(ops []Operator, gram func(Operator) known, rows func(Operator) int) known {
	var c known
	for _, a := range ops {
		if rows(a) == 0 {
			continue
		}
		g := gram(a)
		if !g.ok || (c.ok && c.value != g.value) {
			return known{}
		}
		c = g
	}
	c.ok = true
	return c
}

// closedForm reports whether solveNormal will succeed on a; for an operator
// from elsewhere that implements NormalSolver, whether it may.
func closedForm(a Operator) bool {
	if s, ok := a.(interface{ closedForm() bool }); ok {
		return s.closedForm()
	}
	if _, ok := a.(NormalSolver); ok {
		return true
	}
	return rowGram(a).ok
}

// solveNormal sets dst = (eta A*A + I)^{-1} rhs where A has a closed form, and
// returns false, having done nothing, where it has none.
func solveNormal(dst, rhs array.Batch, a Operator, eta float64) bool {
	if n, ok := a.(NormalSolver); ok && n.SolveNormal(dst, rhs, eta) {
		return true
	}
	if c := rowGram(a); c.ok {
		rowGramSolve(dst, rhs, a, c.value, eta)
		return true
	}
	return false
}

// rowGramSolve is the closed form for A A* = c I,
//
//	(eta A*A + I)^{-1} = I - eta/(1 + eta c) A*A.
func rowGramSolve(dst, rhs array.Batch, a Operator, c, eta float64) {
	if c == 0 || eta == 0 {
		copyTo(dst, rhs)
		return
	}
	d, _ := a.Dims()
	t := dst.Device().Alloc(rhs.K(), d)
	a.Forward(t, rhs)
	copyTo(dst, rhs)
	addAdjoint(dst, -eta/(1+eta*c), a, t)
	t.Free()
}

// scaleSolve is the closed form for A*A = c I.
func scaleSolve(dst, rhs array.Batch, c, eta float64) {
	if c == 0 || eta == 0 {
		copyTo(dst, rhs)
		return
	}
	dst.Device().Lin(dst, 1/(1+eta*c), rhs, 0, array.Batch{})
}

func copyTo(dst, src array.Batch) {
	if dst != src {
		dst.Device().Copy(dst, src)
	}
}

// adder is an operator that adds to what dst holds without a temporary batch.
type adder interface {
	// addForward sets dst += alpha A b.
	addForward(dst array.Batch, alpha float64, b array.Batch)
	// addAdjoint sets dst += alpha A* z.
	addAdjoint(dst array.Batch, alpha float64, z array.Batch)
}

// addForward sets dst += alpha A b.
func addForward(dst array.Batch, alpha float64, a Operator, b array.Batch) {
	if x, ok := a.(adder); ok {
		x.addForward(dst, alpha, b)
		return
	}
	dev := dst.Device()
	t := dev.Alloc(dst.K(), dst.N())
	a.Forward(t, b)
	dev.Lin(dst, 1, dst, alpha, t)
	t.Free()
}

// addAdjoint sets dst += alpha A* z.
func addAdjoint(dst array.Batch, alpha float64, a Operator, z array.Batch) {
	if x, ok := a.(adder); ok {
		x.addAdjoint(dst, alpha, z)
		return
	}
	dev := dst.Device()
	t := dev.Alloc(dst.K(), dst.N())
	a.Adjoint(t, z)
	dev.Lin(dst, 1, dst, alpha, t)
	t.Free()
}

func checkForward(name string, d, p int, dst, b array.Batch) {
	if b.N() != p || dst.N() != d || b.K() != dst.K() {
		panic(fmt.Sprintf("linops: Forward of a %d x %d %s: %s into %s", d, p, name, b, dst))
	}
}

func checkAdjoint(name string, d, p int, dst, z array.Batch) {
	if z.N() != d || dst.N() != p || z.K() != dst.K() {
		panic(fmt.Sprintf("linops: Adjoint of a %d x %d %s: %s into %s", d, p, name, z, dst))
	}
}

func checkNormal(name string, d, p int, dst, rhs array.Batch, eta float64) {
	if rhs.N() != p || dst.N() != p || rhs.K() != dst.K() {
		panic(fmt.Sprintf("linops: SolveNormal of a %d x %d %s: %s into %s", d, p, name, rhs, dst))
	}
	if !(eta >= 0) || math.IsInf(eta, 1) {
		panic(fmt.Sprintf("linops: SolveNormal of a %d x %d %s: eta = %v, want 0 or more", d, p, name, eta))
	}
}

func checkSize(name string, d, p int) {
	if d < 0 || p < 0 {
		panic(fmt.Sprintf("linops: %s of size %d x %d", name, d, p))
	}
}

func checkSome(name string, ops []Operator) {
	if len(ops) == 0 {
		panic("linops: " + name + " of no operators")
	}
}
