package additive

import (
	"math"

	"surepipe/array"
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
	a := &withoutEffects{s: s, e: e}
	a.structure.On, a.structure.Parts = a.on, a.parts
	if !e.Weighted() {
		// A A* = I - Pi.
		a.structure.Norm2 = linops.Known(1)
		if d, _ := s.Dims(); e.Rank() == d {
			a.structure.Norm2 = linops.Known(0)
		}
		a.structure.ColumnNorms2, a.structure.ColumnSpread = a.columnNorms2, a.columnSpread
		a.structure.Sampled, a.structure.Project = linops.StructureOf(s).Sampled, e.Remove
	}
	a.structure = linops.Complete(a, a.structure)
	return a
}

// Parts are those of the selection, split only where both rows and columns have effects: a constant or the effects
// of one of them tie the parts together.
func (a *withoutEffects) parts(shape array.Shape, split bool) []linops.Part {
	e := a.e
	if shape != e.shape {
		return nil
	}
	if split = split && e.rows && e.cols; !split {
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

// of are the effects of a part, of which s picks the entries.
func (e *Effects) of(s *linops.Selection, p *linops.Part) (*Effects, error) {
	var w []float64
	if e.Weighted() {
		for _, i := range p.Entries {
			w = append(w, e.w[i])
		}
	}
	return NewEffects(e.dev, p.Shape(), s.Indices(), true, true, w)
}

type withoutEffects struct {
	structure linops.Structure
	s         *linops.Selection
	e         *Effects
}

func (a *withoutEffects) Structure() linops.Structure { return a.structure }

func (a *withoutEffects) Dims() (d, p int) { return a.s.Dims() }

func (a *withoutEffects) Forward(dst, b array.Batch) {
	a.s.Forward(dst, b)
	a.e.Remove(dst)
}

func (a *withoutEffects) Adjoint(dst, z array.Batch) {
	d, p := a.Dims()
	product.CheckAdjoint("selection without effects", d, p, dst, z)
	t := a.removed(z)
	a.s.Adjoint(dst, t)
	t.Free()
}

// removed is (I - Pi)* z.
func (a *withoutEffects) removed(z array.Batch) array.Batch {
	dev := z.Device()
	t := dev.Alloc(z.K(), z.N())
	dev.Copy(t, z)
	a.e.RemoveAdjoint(t)
	return t
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
	return &withoutEffectsOn{r, a}
}

// withoutEffectsOn is the operator on a tangent space.
type withoutEffectsOn struct {
	linops.Restricted // the selection there
	a                 *withoutEffects
}

func (o *withoutEffectsOn) Forward(dst, b array.Batch) {
	o.Restricted.Forward(dst, b)
	o.a.e.Remove(dst)
}

func (o *withoutEffectsOn) Adjoint(dst, z array.Batch) {
	d, n := o.Dims()
	product.CheckAdjoint("selection without effects on a tangent space", d, n, dst, z)
	t := o.a.removed(z)
	o.Restricted.Adjoint(dst, t)
	t.Free()
}
