package prox

import (
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/space"
)

// This file keeps the names that package vjp still uses, as adapters on [Structure] and [Model]. It
// goes when vjp does not use them any more.

type Quadratic interface {
	Prox
	Curvature() float64
}

func (p *squaredL2) Curvature() float64 { return p.lambda }

type Releaser interface {
	Prox
	Release()
}

type Restrictor interface {
	Prox
	Closure(s []int) []int
	Restrict(s []int) (Prox, error)
}

type legacyRestrictor struct {
	Prox
	s Structure
}

func (p legacyRestrictor) Structure() Structure  { return p.s }
func (p legacyRestrictor) Closure(s []int) []int { return p.s.Closure(s) }
func (p legacyRestrictor) Restrict(s []int) (Prox, error) {
	return p.s.On(subset{p: p.Dim(), set: s})
}

func AsRestrictor(p Prox) (Restrictor, bool) {
	s := StructureOf(p)
	return legacyRestrictor{p, s}, s.Closure != nil
}

type Rescaler interface {
	Prox
	Units(s []float64)
	Rescale(dev array.Device, s []float64) (Prox, error)
}

type legacyRescaler struct {
	Prox
	s Structure
}

func (p legacyRescaler) Structure() Structure { return p.s }
func (p legacyRescaler) Units(s []float64)    { p.s.Units(s) }
func (p legacyRescaler) Rescale(dev array.Device, s []float64) (Prox, error) {
	return p.s.Rescale(dev, s)
}

func AsRescaler(p Prox) (Rescaler, bool) {
	s := StructureOf(p)
	return legacyRescaler{p, s}, s.Rescale != nil
}

type Conjugate interface {
	Prox
	DualScale(b, g array.Batch, near float64) float64
	FenchelGap(b, g array.Batch, t, near float64) float64
}

type legacyConjugate struct {
	Prox
	s Structure
}

func (p legacyConjugate) Structure() Structure { return p.s }
func (p legacyConjugate) DualScale(b, g array.Batch, near float64) float64 {
	return p.s.DualScale(b, g, near)
}
func (p legacyConjugate) FenchelGap(b, g array.Batch, t, near float64) float64 {
	return p.s.FenchelGap(b, g, t, near)
}

func AsConjugate(p Prox) (Conjugate, bool) {
	s := StructureOf(p)
	return legacyConjugate{p, s}, s.DualScale != nil
}

func AsNuclear(p Prox) (shape array.Shape, lambda float64, ok bool) {
	s := StructureOf(p)
	return s.Shape, s.Nuclear.Value, s.Nuclear.Known
}

func FreeCoordinates(p Prox, n int) []int {
	if free := StructureOf(p).Free; free != nil {
		return free(n)
	}
	return nil
}

func Follow(p Prox) Follower {
	if follow := StructureOf(p).Follow; follow != nil {
		return follow()
	}
	return nil
}

// Masked is a derivative that is diagonal.
type Masked interface {
	Derivative
	masked()
}

func (j *diagonal) masked() {}
func (j *multiple) masked() {}

type Tracer interface {
	Derivative
	Trace() (trace, frobenius2 float64)
}

func (j *diagonal) Trace() (trace, frobenius2 float64) {
	for _, v := range j.d.ToHost() {
		trace += v
		frobenius2 += v * v
	}
	return trace, frobenius2
}

func (j *multiple) Trace() (trace, frobenius2 float64) {
	return float64(j.n) * j.s, float64(j.n) * j.s * j.s
}

func (j *averaging) Trace() (trace, frobenius2 float64) {
	blocks, _ := j.mean.Dims()
	return float64(blocks), float64(blocks)
}

func (j *face) Trace() (trace, frobenius2 float64)              { return j.m - 1, j.m - 1 }
func (j *nuclearDerivative) Trace() (trace, frobenius2 float64) { return j.trace, j.frobenius2 }

// TraceOf is tr J and ||J||_F^2.
func TraceOf(j Derivative) (trace, frobenius2 float64, ok bool) {
	if t, ok := j.(Tracer); ok {
		trace, frobenius2 = t.Trace()
		return trace, frobenius2, true
	}
	m := j.Model()
	switch {
	case m == nil:
		return 0, 0, false
	case m.Curvature != nil:
		return m.Curvature.Trace()
	}
	n := float64(m.Space.Dim())
	return n, n, true
}

type LowRank interface {
	Derivative
	Tangent() (Tangent, bool)
}

type Blocked interface {
	Derivative
	Blocks() []Derivative
}

func (j *separableDerivative) Blocks() []Derivative { return j.blocks }

type Tangent struct {
	Shape array.Shape
	Rank  int
	U, V  array.Batch
	J     Derivative
}

func (t Tangent) Len() int { return (t.Shape.Rows + t.Shape.Cols) * t.Rank }

func (j *nuclearDerivative) Tangent() (Tangent, bool) {
	m := j.Model()
	f := m.Space.Form()
	if f.Kind != space.FixedRank {
		return Tangent{}, false
	}
	return Tangent{f.Shape, f.Rank, f.U, f.V, legacyTangent{m.Curvature.(nuclearTangent)}}, true
}

// legacyTangent is J in the coordinates, as a derivative.
type legacyTangent struct{ t nuclearTangent }

func (l legacyTangent) Apply(dst, z array.Batch) {
	if z.K() > 0 {
		l.t.apply(dst, z)
	}
}
func (l legacyTangent) Diagonal() array.Batch { return array.Batch{} }
func (l legacyTangent) Model() *Model         { return nil }
func (l legacyTangent) Bytes() int64          { return 0 }
func (l legacyTangent) Release()              {}

// ApplyRange sets jz = J z and pz to the projection of z on the range of J, as far as it is known.
func ApplyRange(j Derivative, jz, pz, z array.Batch) {
	dev := z.Device()
	switch j := j.(type) {
	case legacyTangent:
		j.applyRange(jz, pz, z)
		return
	case *separableDerivative:
		for i, d := range j.blocks {
			lo, hi := j.at[i], j.at[i+1]
			ApplyRange(d, jz.Cols(lo, hi), pz.Cols(lo, hi), z.Cols(lo, hi))
		}
		return
	}
	j.Apply(jz, z)
	if d := j.Diagonal(); !d.IsZero() {
		support := dev.Alloc(1, d.N())
		defer support.Free()
		dev.SoftMask(support, d, array.Batch{}, 0x1p-1074)
		dev.Mul(pz, support, z)
		return
	}
	if m := j.Model(); m != nil {
		if m.Curvature == nil {
			dev.Copy(pz, jz)
		} else {
			m.Space.Project(pz, z)
		}
		return
	}
	dev.Copy(pz, z)
}

func (l legacyTangent) applyRange(jz, pz, z array.Batch) {
	j := l.t.j
	m, r := j.m, j.r
	dev, k := z.Device(), z.K()
	l.Apply(jz, z)
	ru, cu, rr := array.Shape{Rows: r, Cols: m}, array.Shape{Rows: m, Cols: r}, array.Shape{Rows: r, Cols: r}
	u1t := j.ut.Cols(0, r*m)
	inner := dev.Alloc(k, r*r)
	dev.GemmEach(false, false, 1, u1t, ru, z.Cols(0, r*m), cu, 0, inner)
	if pz != z {
		dev.Copy(pz, z)
	}
	dev.GemmEach(true, false, -1, u1t, ru, inner, rr, 1, pz.Cols(0, r*m))
	inner.Free()
}

// NewDiagonal returns the derivative J z = d ∘ z, which owns d.
func NewDiagonal(d array.Batch) Derivative { return &diagonal{d: d, unknown: true} }

// Join returns J = diag(J_1, J_2, ...), J_i being n_i x n_i, which owns the blocks.
func Join(n []int, blocks []Derivative) Derivative {
	if len(n) != len(blocks) {
		panic(fmt.Sprintf("prox: Join of %d derivatives of %d lengths", len(blocks), len(n)))
	}
	j := &separableDerivative{at: make([]int, 1, len(n)+1), blocks: slices.Clone(blocks)}
	for i, n := range n {
		j.at = append(j.at, j.at[i]+n)
	}
	return j
}
