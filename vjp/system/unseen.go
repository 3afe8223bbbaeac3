package system

import (
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// unseen is the system of the entries of a matrix that are not seen: A = (I - Pi) S for a selection S of entries and
// Pi onto effects of rows and columns, without weights. What A does not see is filled in with what is fitted there.
// With J = D prox_r(v) and the fixed point b = prox_r(v), v = b - A*(A b - y), the fit of a whole matrix, effects and
// b together, has the derivative J' = I - C + J C, where C takes the means of rows and columns off, and with the
// projection M onto the entries that are not seen
//
//	D mu_hat w = A u,   u = J' A* w + J' s,   (I - M J' M) s = M J' A* w,   s = M s.
//
// (Without effects C = I.) Conjugate gradients solve it, preconditioned by the diagonal of I - J. The form is
// <A* w, J' A* w> and what they sum. Outside of M their residual goes on too: it is u - s.
type unseen struct {
	j        prox.Derivative
	picked   *linops.Picked
	shape    array.Shape
	diagonal func() []float64 // of J; it may return nil

	prepare sync.Once
	ones    array.Batch // as many as the longer side
	inverse array.Batch // 1/(1 - J_ii) at the entries that are not seen, else 0
}

// leastApart is the least difference of 1 and J_ii.
const leastApart = 1e-6

// FillsIn reports whether [IterateUnseen] has a system for an A that picks these entries.
func FillsIn(picked *linops.Picked) bool {
	effects := picked.RowEffects || picked.ColEffects
	return picked.Weights == nil && !picked.Oblique && (picked.Remove == nil || effects)
}

// IterateUnseen is the system of an A that picks entries of matrices of the given shape, for the derivative j of the
// proximal operator of r and its diagonal, which is asked for when the system is first applied.
func IterateUnseen(dev array.Device, a linops.Operator, picked *linops.Picked, shape array.Shape, j prox.Derivative,
	diagonal func() []float64, tol float64) *Iterated {
	u := &unseen{j: j, picked: picked, shape: shape, diagonal: diagonal}
	u.ones, u.inverse = dev.Alloc(1, max(shape.Rows, shape.Cols)), dev.Alloc(1, shape.Len())
	dev.Fill(u.ones, 1)
	s := newIterated(dev, a, u, 1, tol)
	s.square, s.first, s.summed, s.work = u.square, u.first, false, 8*int64(s.n)
	s.Hold(u.ones, u.inverse)
	return s
}

func (*unseen) flat() bool { return true }

// apply sets jr to the preconditioned residual.
func (u *unseen) apply(jr, _, r array.Batch) {
	u.prepare.Do(u.invert)
	r.Device().Mul(jr, u.inverse, r)
}

func (u *unseen) invert() {
	inverse, diagonal := make([]float64, u.inverse.N()), u.diagonal()
	for i := range inverse {
		if inverse[i] = 1; diagonal != nil {
			inverse[i] = 1 / max(1-diagonal[i], leastApart)
		}
	}
	for _, place := range u.picked.Places {
		inverse[place] = 0
	}
	u.inverse.Device().Upload(u.inverse, inverse)
}

// square sets dst = (I - J') b = (I - J) C b.
func (u *unseen) square(dst, b array.Batch) {
	c := u.centered(b)
	defer c.Free()
	u.j.Apply(dst, c)
	b.Device().Lin(dst, 1, c, -1, dst)
}

// first sets dst = J' r.
func (u *unseen) first(dst, r array.Batch) {
	u.square(dst, r)
	r.Device().Lin(dst, 1, r, -1, dst)
}

// centered is C b.
func (u *unseen) centered(b array.Batch) array.Batch {
	dev, m, n := b.Device(), u.shape.Rows, u.shape.Cols
	c := dev.Alloc(b.K(), b.N())
	dev.Copy(c, b)
	means := dev.Alloc(b.K(), max(m, n))
	defer means.Free()
	rows, cols := array.Shape{Rows: m, Cols: 1}, array.Shape{Rows: n, Cols: 1}
	if u.picked.RowEffects {
		of, ones := means.Cols(0, m), u.ones.Cols(0, n)
		dev.GemmEach(false, false, 1/float64(n), c, u.shape, ones, cols, 0, of)
		dev.GemmEach(false, true, -1, of, rows, ones, cols, 1, c)
	}
	if u.picked.ColEffects {
		of, ones := means.Cols(0, n), u.ones.Cols(0, m)
		dev.GemmEach(true, false, 1/float64(m), c, u.shape, ones, rows, 0, of)
		dev.GemmEach(false, true, -1, ones, rows, of, cols, 1, c)
	}
	return c
}
