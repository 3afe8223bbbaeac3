package prox

import "surepipe/array"

// face is the derivative of a projection onto a set with flat faces that have
// one constraint <s, b> = const each, on the coordinates that are not 0:
//
//	J z = s ∘ s ∘ z - s <s, z>/m,   s_j in {-1, 0, 1}, m = ||s||_1 > 0.
//
// It is an orthogonal projection with trace m - 1.
type face struct {
	m       float64
	mask, s array.Batch // mask = s ∘ s; s is the zero Batch where it is equal
}

// Trace is m - 1.
func (j *face) Trace() (trace, frobenius2 float64) { return j.m - 1, j.m - 1 }

// newFace returns the derivative at the one vector v whose coordinates that are
// not 0 have the signs s; it overwrites s.
func newFace(v array.Batch, s []float64) Derivative {
	dev, m, negative := v.Device(), 0, false
	for _, a := range s {
		if a != 0 {
			m++
		}
		negative = negative || a < 0
	}
	if m <= 1 {
		return newMultiple(0, v)
	}
	j := &face{m: float64(m), mask: dev.Alloc(1, len(s))}
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
	checkApply("a projection", j.mask.N(), dst, z)
	dev, s := dst.Device(), j.s
	if s.IsZero() {
		s = j.mask
	}
	c := getScalars(z.K())
	defer scalarsPool.Put(c)
	dev.Dot(c.c, s, z)
	for i := range c.c {
		c.a[i] = 1
		c.c[i] /= -j.m
	}
	dev.Mul(dst, j.mask, z)
	dev.LinEach(dst, c.a, dst, c.c, s)
}

func (j *face) ApplyRange(jz, pz, z array.Batch) {
	j.Apply(jz, z)
	pz.Device().Copy(pz, jz)
}

func (j *face) Bytes() int64 { return j.mask.Bytes() + j.s.Bytes() }

func (j *face) Release() {
	j.mask.Free()
	j.s.Free()
}
