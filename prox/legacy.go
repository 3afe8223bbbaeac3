package prox

import "surepipe/array"

// This file keeps the names that the solvers in package vjp still use, as adapters on [Structure].
// It goes with them.

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
