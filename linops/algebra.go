package linops

import (
	"context"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"slices"

	"surepipe/array"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// This file has the rules by which the structure of a combination follows from the structures of
// its parts. They run once, when a combination is built.

// (eta A A* + I)^{-1} = I - eta A (eta A*A + I)^{-1} A*.
func adjointStructure(t *adjoint) Structure {
	a := &t.a
	d, p := t.d, t.p
	s := Structure{Rows: a.s.Columns, Columns: a.s.Rows, Norm2: a.s.Norm2}
	s.adding(&t.base, func(w product.Direction, dst array.Batch, alpha float64, x array.Batch) {
		a.add(!w, dst, alpha, x)
	})
	if a.s.SolveNormal != nil && !s.Columns.Known {
		s.SolveNormal = func(dst, rhs array.Batch, eta float64) bool {
			product.CheckSolve(t.name, d, p, dst, rhs, eta)
			u := dst.Device().Alloc(rhs.K(), d)
			defer u.Free()
			t.Forward(u, rhs)
			if !a.s.SolveNormal(u, u, eta) {
				return false
			}
			product.CopyTo(dst, rhs)
			a.add(product.Forward, dst, -eta, u)
			return true
		}
	}
	return s
}

func scaledStructure(c *scaled) Structure {
	a, alpha := &c.a, c.alpha
	square := alpha * alpha
	s := Structure{
		Rows: a.s.Rows.times(Known(square)), Columns: a.s.Columns.times(Known(square)),
		Norm2: a.s.Norm2.times(Known(square)), Pairs: scaledPairs(alpha, a.s.Pairs),
	}
	s.adding(&c.base, func(w product.Direction, dst array.Batch, beta float64, x array.Batch) {
		a.add(w, dst, alpha*beta, x)
	})
	s.Cosines, s.Circulant = a.s.Cosines.times(alpha), a.s.Circulant.times(alpha)
	s.Commutes = a.s.Commutes
	s.ColumnNorms2 = scaledNorms(a.s.ColumnNorms2, func(int) float64 { return square })
	if solve := a.s.SolveNormal; solve != nil {
		s.SolveNormal = func(dst, rhs array.Batch, eta float64) bool { return solve(dst, rhs, eta*square) }
	}
	if normal := a.s.Normal; normal != nil {
		s.Normal = func(dst, b array.Batch) {
			normal(dst, b)
			dst.Device().Lin(dst, square, dst, 0, array.Batch{})
		}
	}
	if gram := a.s.Gram; gram != nil {
		s.Gram = func(dst array.Batch) {
			gram(dst)
			dst.Device().Lin(dst, square, dst, 0, array.Batch{})
		}
	}
	if a.s.On != nil {
		s.On = func(dev array.Device, t space.Space) Restricted {
			return joined(restrict(dev, a, t), func(b Operator) Operator { return Scale(alpha, b) })
		}
	}
	s.Listed = c.entries
	if norms := a.s.RowNorms2; norms != nil {
		s.RowNorms2 = func(units []float64) []float64 {
			n := norms(units)
			floats.Scale(square, n)
			return n
		}
	}
	return s
}

func columnsStructure(c *columns) Structure {
	s := Structure{ColumnNorms2: scaledNorms(c.a.s.ColumnNorms2, func(j int) float64 { return c.host[j] * c.host[j] })}
	if normal := c.a.s.Normal; normal != nil {
		s.Normal = func(dst, b array.Batch) {
			product.CheckNormal(c.name, c.p, dst, b)
			dev := dst.Device()
			t := dev.Alloc(b.K(), c.p)
			defer t.Free()
			dev.Mul(t, b, c.s)
			normal(dst, t)
			dev.Mul(dst, dst, c.s)
		}
	}
	if dense := c.a.s.Dense; dense != nil {
		s.Dense = func() *mat.Dense { return scaledColumns(dense(), c.host) }
	}
	if c.a.s.On != nil {
		s.On = c.on
	}
	return s
}

// scaledNorms multiplies squared column norms by squares; nil for nil.
func scaledNorms(norms2 func() []float64, square func(j int) float64) func() []float64 {
	if norms2 == nil {
		return nil
	}
	return func() []float64 {
		norms := norms2()
		for j := range norms {
			norms[j] *= square(j)
		}
		return norms
	}
}

func sumStructure(c *sum) Structure {
	var s Structure
	s.adding(&c.base, c.add)
	if every(c.parts, canRestrict) {
		s.On = func(dev array.Device, t space.Space) Restricted {
			return restrictEach(dev, c.parts, func(int) space.Space { return t }, nil, Sum)
		}
	}
	return s
}

// composeStructure is that of A1 A2 ... An. Numbers multiply, and the structure of a factor M
// carries over to L M R where L*L = l I and R R* = r I.
func composeStructure(c *compose) Structure {
	s := Structure{Rows: Known(1), Columns: Known(1), Spectra: wavesOfProduct(c.parts),
		Storage: Storage{Listed: c.entries}}
	for _, a := range c.parts {
		s.Rows = s.Rows.times(a.s.Rows)
		s.Columns = s.Columns.times(a.s.Columns)
	}
	if c.middle != nil {
		s.Norm2 = Known(c.l * c.r).times(c.middle.s.Norm2)
	}
	if c.middle != nil && c.middle.s.SolveNormal != nil && !s.Rows.Known && !s.Columns.Known {
		s.SolveNormal = c.solveNormal
	}
	if normal := c.parts[0].s.Normal; normal != nil {
		rest := Compose(operators(c.parts[1:])...)
		n, p := rest.Dims()
		s.Normal = func(dst, b array.Batch) {
			product.CheckNormal(c.name, p, dst, b)
			t, u := dst.Device().Alloc(b.K(), n), dst.Device().Alloc(b.K(), n)
			defer array.Free(t, u)
			rest.Forward(t, b)
			normal(u, t)
			rest.Adjoint(dst, u)
		}
	}
	if last := &c.parts[len(c.parts)-1]; canRestrict(last) {
		s.On = func(dev array.Device, t space.Space) Restricted {
			return joined(restrict(dev, last, t), func(b Operator) Operator {
				return Compose(append(operators(c.parts[:len(c.parts)-1]), b)...)
			})
		}
	}
	return s
}

func stackStructure(a *stack) Structure {
	var s Structure
	switch {
	case a.rows == nil:
		s = besideStructure(a)
	case a.cols == nil:
		s = aboveStructure(a)
	default:
		s = diagonalStructure(a)
	}
	s.adding(&a.base, a.add)
	if every(a.parts, func(k *known) bool { return k.s.ColumnNorms2 != nil }) {
		s.ColumnNorms2 = a.columnNorms2
	}
	s.On, s.Listed = a.on(), a.entries
	return s
}

// columnNorms2 lists those of blocks with columns of their own, or adds up those of blocks that share them.
func (a *stack) columnNorms2() []float64 {
	norms := make([]float64, a.p)
	for i := range a.parts {
		own := norms
		if a.cols != nil {
			own = norms[a.cols[i]:]
		}
		for j, x := range a.parts[i].s.ColumnNorms2() {
			own[j] += x
		}
	}
	return norms
}

func besideStructure(a *stack) Structure {
	s := Structure{Beside: operators(a.parts), Entries: Known(0)}
	s.Rows, s.Norm2 = sumOfGrams(a.parts, rowsOf)
	for _, part := range a.parts {
		n := part.s.Entries
		s.Entries = Number{s.Entries.Value + n.Value, s.Entries.Known && n.Known}
		s.Passes.Bytes += part.s.Passes.Bytes
	}
	if s.Passes.Bytes > 0 {
		s.Passes = a.passesBeside(s.Passes.Bytes)
	}
	return s
}

// passesBeside are those of [A1 A2 ...], of which some are not in memory.
func (a *stack) passesBeside(bytes int64) Passes {
	return Passes{
		Bytes: bytes,
		ColumnBytes: func(j int) int64 {
			i, found := slices.BinarySearch(a.cols, j)
			if !found {
				i--
			}
			if size := a.parts[i].s.Passes.ColumnBytes; size != nil {
				return size(j - a.cols[i])
			}
			return 8 * int64(a.d)
		},
		Adjoint: func(ctx context.Context, dst, z array.Batch) error {
			for i := range a.parts {
				part, to := &a.parts[i], cut(dst, a.cols, i)
				if part.s.Passes.Bytes == 0 {
					part.Adjoint(to, z)
				} else if err := part.s.Passes.Adjoint(ctx, to, z); err != nil {
					return err
				}
			}
			return ctx.Err()
		},
		Columns: func(ctx context.Context, dev array.Device, t space.Space) (Restricted, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			op, _ := On(dev, a, t)
			return op, ctx.Err()
		},
		Count: func() (passes, bytes int64) {
			for i := range a.parts {
				if count := a.parts[i].s.Passes.Count; count != nil {
					n, b := count()
					passes, bytes = max(passes, n), bytes+b
				}
			}
			return passes, bytes
		},
	}
}

func aboveStructure(a *stack) Structure {
	s := Structure{Storage: Storage{RowNorms2: a.rowNorms2}, Pairs: stackedPairs(a.parts), SolveNormal: a.solveAbove(),
		Spectra: Spectra{Cosines: a.cosinesAbove()}}
	s.Columns, s.Norm2 = sumOfGrams(a.parts, columnsOf)
	return s
}

// solveAbove is the closed form of [A1; A2; ...] where A_i*A_i = c_i I but for one block A, which has one:
// with the sum c of the others'
//
//	(eta (A*A + c I) + I)^{-1} = (I + eta/(1 + eta c) A*A)^{-1}/(1 + eta c);
//
// nil for any other.
func (a *stack) solveAbove() func(dst, rhs array.Batch, eta float64) bool {
	var one *known
	c := 0.0
	for i := range a.parts {
		part := &a.parts[i]
		switch {
		case part.s.Columns.Known:
			c += part.s.Columns.Value
		case one != nil || part.s.SolveNormal == nil:
			return nil
		default:
			one = part
		}
	}
	if one == nil {
		return nil // all are multiples of the identity
	}
	return func(dst, rhs array.Batch, eta float64) bool {
		product.CheckSolve(a.name, a.d, a.p, dst, rhs, eta)
		by := 1 + eta*c
		if !one.s.SolveNormal(dst, rhs, eta/by) {
			return false
		}
		dst.Device().Lin(dst, 1/by, dst, 0, array.Batch{})
		return true
	}
}

func diagonalStructure(a *stack) Structure {
	s := Structure{Norm2: Known(0)}
	for _, part := range a.parts {
		n := part.s.Norm2
		s.Norm2 = Number{max(s.Norm2.Value, n.Value), s.Norm2.Known && n.Known}
	}
	s.Rows = equalGrams(a.parts, rowsOf, a.rows)
	s.Columns = equalGrams(a.parts, columnsOf, a.cols)
	s.Identity = every(a.parts, func(k *known) bool { return k.s.Identity })
	if !every(a.parts, func(k *known) bool { return k.s.SolveNormal != nil }) {
		return s
	}
	s.SolveNormal = func(dst, rhs array.Batch, eta float64) bool {
		product.CheckSolve(a.name, a.d, a.p, dst, rhs, eta)
		// A block may turn out to have no solution, and then dst must be unchanged.
		t := dst.Device().Alloc(rhs.K(), a.p)
		defer t.Free()
		for i := range a.parts {
			if !a.parts[i].s.SolveNormal(cut(t, a.cols, i), cut(rhs, a.cols, i), eta) {
				return false
			}
		}
		dst.Device().Copy(dst, t)
		return true
	}
	return s
}

func every(parts []known, has func(k *known) bool) bool {
	for i := range parts {
		if !has(&parts[i]) {
			return false
		}
	}
	return true
}

func rowsOf(k *known) Number    { return k.s.Rows }
func columnsOf(k *known) Number { return k.s.Columns }

// sumOfGrams is c with A A* = c I, and ||A||^2, of blocks side by side (or, with columnsOf, of
// blocks on top of each other). The norm is known where all blocks but one have orthogonal rows:
// ||A A* + c I|| = ||A||^2 + c.
func sumOfGrams(parts []known, gram func(*known) Number) (total, norm Number) {
	total, norm = Known(0), Known(0)
	for i := range parts {
		if c := gram(&parts[i]); c.Known {
			norm.Value += c.Value
			continue
		}
		n := parts[i].s.Norm2
		if !total.Known || !n.Known {
			return Number{}, Number{}
		}
		total.Known = false
		norm.Value += n.Value
	}
	if !total.Known {
		return Number{}, norm
	}
	return norm, norm
}

// equalGrams is the c that all blocks on a diagonal share, where they do. Blocks without rows of
// their own do not count.
func equalGrams(parts []known, gram func(*known) Number, ends []int) Number {
	var c Number
	for i := range parts {
		if ends[i] == ends[i+1] {
			continue
		}
		g := gram(&parts[i])
		if !g.Known || c.Known && c.Value != g.Value {
			return Number{}
		}
		c = g
	}
	c.Known = true
	return c
}
