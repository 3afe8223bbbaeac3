package direct

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/solve/engine"
)

// gramNormal is N where A*A is known of an A that is not in memory, by its inverse.
type gramNormal struct {
	dev       array.Device
	gram      *mat.SymDense // A*A
	inverse   *mat.SymDense
	on        array.Batch // the same, p x p
	norms     []float64
	condition float64 // of N with columns of about unit length
}

// mostCondition is that of an N whose inverse has eight correct digits.
const mostCondition = 1e8

// known reports that A*A is, and that the penalty is a sum of squares of b.
func (s *quadratic) known() bool {
	known := linops.StructureOf(s.p.A)
	return s.p.K == nil && known.Passes.Bytes > 0 && known.Gram != nil
}

func newGramNormal(s *quadratic) (closedForm, engine.Choice, error) {
	f := &gramNormal{dev: s.p.Device, gram: numerics.Symmetrized(linops.GramOf(s.p.Device, s.p.A), len(s.q))}
	if f.invert(s.q); !(f.condition <= mostCondition) {
		return nil, engine.Choice{}, f.dev.Err()
	}
	f.upload()
	return newNormal(s.p, f), engine.Choice{}, nil
}

func (f *gramNormal) invert(q []float64) {
	p := len(q)
	f.inverse, f.norms = mat.NewSymDense(p, nil), make([]float64, p)
	f.inverse.CopySym(f.gram)
	for j, v := range q {
		v += f.gram.At(j, j)
		f.inverse.SetSym(j, j, v)
		f.norms[j] = math.Sqrt(v)
	}
	scale := numerics.EvenDiagonal(f.inverse)
	f.condition = numerics.Invert(f.inverse)
	numerics.ScaleSym(f.inverse, scale)
}

func (f *gramNormal) upload() {
	p := len(f.norms)
	f.on = f.dev.Put(mat.DenseCopyOf(f.inverse).RawMatrix().Data, p, p)
}

// reweight leaves it to the optimality, and to the traces' rounding errors, to tell of a condition.
func (f *gramNormal) reweight(q []float64) (normalFactor, error) {
	other := &gramNormal{dev: f.dev, gram: f.gram}
	if other.invert(q); math.IsNaN(other.condition) || math.IsInf(other.condition, 1) {
		return nil, nil
	}
	other.upload()
	return other, nil
}

func (f *gramNormal) Release()           { f.on.Free() }
func (f *gramNormal) lengths() []float64 { return f.norms }

func (f *gramNormal) solve(dst, g array.Batch) { f.dev.Gemm(false, false, 1, g, f.on, 0, dst) }

func (f *gramNormal) traces() hatOf {
	var h mat.Dense // has the eigenvalues of H
	h.Mul(f.inverse, f.gram)
	hat := hatOf{HatTraces: engine.HatTraces{Trace: mat.Trace(&h), Margin: math.Inf(1)}}
	for i := range f.norms {
		hat.Frobenius2 += mat.Dot(h.RowView(i), h.ColView(i))
	}
	hat.doubt(f.condition)
	return hat
}
