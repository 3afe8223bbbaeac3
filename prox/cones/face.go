package cones

import (
	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// face is the derivative of a projection onto a set with flat faces that have one constraint <s,
// b> = const each, on the coordinates that are not 0:
//
//	J z = s ∘ s ∘ z - s <s, z>/m,   s_j in {-1, 0, 1}, m = ||s||_1 > 0.
//
// It is an orthogonal projection with trace m - 1.
type face struct {
	m       float64
	mask, s array.Batch // mask = s ∘ s; s is the zero Batch where it is equal
	margin  func(v array.Batch) float64
	prox.LazyModel
}

// newFace returns the derivative at the one vector v whose coordinates that are not 0 have the
// signs s; it overwrites s.
func newFace(v array.Batch, s []float64, margin func(v array.Batch) float64) prox.Derivative {
	dev, m, negative := v.Device(), 0, false
	for _, a := range s {
		if a != 0 {
			m++
		}
		negative = negative || a < 0
	}
	if m <= 1 {
		return prox.NewMultiple(0, v, margin)
	}
	j := &face{m: float64(m), mask: dev.Alloc(1, len(s)), margin: margin}
	if negative {
		j.s = dev.Alloc(1, len(s))
		dev.Upload(j.s, s)
	}
	for i, a := range s {
		s[i] = a * a
	}
	dev.Upload(j.mask, s)
	return j
}

func (j *face) Apply(dst, z array.Batch) {
	vector.CheckApply("a projection", j.mask.N(), dst, z)
	dev, s := dst.Device(), j.s
	if s.IsZero() {
		s = j.mask
	}
	c := vector.GetScalars(z.K())
	defer vector.ScalarsPool.Put(c)
	dev.Dot(c.C, s, z)
	for i := range c.C {
		c.A[i] = 1
		c.C[i] /= -j.m
	}
	dev.Mul(dst, j.mask, z)
	dev.LinEach(dst, c.A, dst, c.C, s)
}

func (j *face) Diagonal() array.Batch { return array.Batch{} }
func (j *face) Model() *prox.Model    { return j.Get(j.build) }

// build finds the hyperplane, among the coordinates that are not 0, whose normal has the signs as
// entries.
func (j *face) build() *prox.Model {
	s := j.s
	if s.IsZero() {
		s = j.mask
	}
	var set []int
	var normal []float64
	for i, a := range vector.OnHost(s) {
		if a != 0 {
			set, normal = append(set, i), append(normal, a)
		}
	}
	dev := s.Device()
	if len(set) == 0 { // after a fault of the device
		return nil
	}
	all := space.Coordinates(dev, s.N(), set)
	return &prox.Model{Space: space.HyperplaneOf(dev, all, normal), Margin: j.margin}
}

func (j *face) Bytes() int64 { return j.mask.Bytes() + j.s.Bytes() + j.ModelBytes() }

func (j *face) Release() {
	j.FreeModel()
	j.mask.Free()
	j.s.Free()
}
