package additive

import (
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// WithoutEffects is (I - Pi) S for the selection S of the entries of a matrix that e was made for:
// what an unpenalized additive model of the entries leaves of them.
//
//	Forward: dst = (I - Pi) S b        Adjoint: dst = S* (I - Pi)* z
//
// Least squares in b and the effects at y is that in b alone with this operator at (I - Pi) y, in the
// norm of the weights. It keeps what a selection knows of low rank. s and e must outlive it.
func WithoutEffects(s *linops.Selection, e *Effects) linops.Operator {
	a := &withoutEffects{without{Operator: s, pi: e}, s, e}
	a.structure.On, a.structure.Parts = a.on, a.parts
	if !e.Weighted() {
		// A A* = I - Pi.
		a.structure.Norm2 = linops.Known(1)
		if d, _ := s.Dims(); e.Rank() == d {
			a.structure.Norm2 = linops.Known(0)
		}
		a.structure.ColumnNorms2, a.structure.ColumnSpread = a.columnNorms2, a.columnSpread
		a.structure.Sampled = linops.StructureOf(s).Sampled
	}
	a.structure.Picked = a.picked
	a.structure = linops.Complete(a, a.structure)
	return a
}

// Parts are those of the selection, split where rows or columns have effects: a constant ties the parts together.
func (a *withoutEffects) parts(shape array.Shape, split bool) []linops.Part {
	e := a.e
	if shape != e.shape {
		return nil
	}
	if split = split && (e.rows || e.cols); !split {
		return a.s.PartsWith(shape, false, func(s *linops.Selection, _ *linops.Part) (linops.Operator, func(), error) {
			return WithoutEffects(s, e), s.Release, nil
		})
	}
	return a.s.PartsWith(shape, true, func(s *linops.Selection, p *linops.Part) (linops.Operator, func(), error) {
		own, err := e.of(s, p)
		if err != nil {
			s.Release()
			return nil, nil, err
		}
		return WithoutEffects(s, own), func() { own.Release(); s.Release() }, nil
	})
}

func (a *withoutEffects) picked(shape array.Shape) *linops.Picked {
	p := linops.StructureOf(a.s).Picked(shape)
	if p == nil {
		return nil
	}
	p.Oblique = a.e.Weighted()
	p.RowEffects, p.ColEffects, p.Rank, p.Diagonal, p.Remove = a.e.rows, a.e.cols, a.e.rank, a.e.diagonal, a.e.Remove
	return p
}

// of are the effects of a part, of which s picks the entries.
func (e *Effects) of(s *linops.Selection, p *linops.Part) (*Effects, error) {
	var w []float64
	if e.Weighted() {
		w = lists.Pick(e.w, p.Entries)
	}
	return NewEffects(e.dev, p.Shape(), s.Indices(), e.rows, e.cols, w)
}

type withoutEffects struct {
	without
	s *linops.Selection
	e *Effects
}

// columnNorms2 is (I - Pi)_ii at the selected coordinates and 0 elsewhere.
func (a *withoutEffects) columnNorms2() []float64 {
	_, p := a.Dims()
	norms, at := make([]float64, p), a.s.Indices()
	for i, v := range a.e.Diagonal() {
		norms[at[i]] = 1 - v
	}
	return norms
}

// columnSpread is the range of the (I - Pi)_ii that are not 0.
func (a *withoutEffects) columnSpread() (least, most float64) {
	least = math.Inf(1)
	for _, v := range a.e.Diagonal() {
		if v = 1 - v; v > 0 {
			least, most = min(least, v), max(most, v)
		}
	}
	return least, most
}

// on is the operator on a tangent space of matrices; nil on other spaces.
func (a *withoutEffects) on(dev array.Device, t space.Space) linops.Restricted {
	r := linops.StructureOf(a.s).On(dev, t)
	if r == nil {
		return nil
	}
	on := &without{Operator: r, pi: a.e}
	if !a.e.Weighted() { // I - Pi is a projection: once is enough
		_, n := r.Dims()
		on.structure.Normal = func(dst, b array.Batch) {
			product.CheckNormal("operator without effects", n, dst, b)
			z := b.Device().Alloc(b.K(), a.e.d)
			on.Forward(z, b)
			r.Adjoint(dst, z)
			z.Free()
		}
	}
	return linops.Owning(on, r)
}

// without is (I - Pi) A.
type without struct {
	linops.Operator // A
	pi              interface {
		Remove(z array.Batch)
		RemoveAdjoint(z array.Batch)
	}
	structure linops.Structure
}

func (w *without) Structure() linops.Structure { return w.structure }

func (w *without) Forward(dst, b array.Batch) {
	w.Operator.Forward(dst, b)
	w.pi.Remove(dst)
}

func (w *without) Adjoint(dst, z array.Batch) {
	d, p := w.Dims()
	product.CheckAdjoint("operator without additive terms", d, p, dst, z)
	dev := z.Device()
	t := dev.Alloc(z.K(), z.N())
	dev.Copy(t, z)
	w.pi.RemoveAdjoint(t)
	w.Operator.Adjoint(dst, t)
	t.Free()
}
