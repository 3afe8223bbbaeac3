package space

import "surepipe/array"

// Preimage returns the vectors u with K u in T, for an orthogonal matrix K of the given products,
// forward z -> K z and backward z -> K* z. Column i of its E is K* times that of T. T is still the
// caller's, and must outlive the result, as must K.
func Preimage(t Space, forward, backward func(dst, z array.Batch)) Space {
	p, n := t.Dims()
	within := func(dst array.Batch, f func(x array.Batch)) {
		x := dst.Device().Alloc(dst.K(), p)
		defer x.Free()
		f(x)
	}
	return &space{name: "a preimage", p: p, n: n, dim: t.Dim(), form: Form{Orthonormal: t.Form().Orthonormal},
		embed: func(dst, c array.Batch) {
			within(dst, func(x array.Batch) { t.Embed(x, c); backward(dst, x) })
		},
		coordinates: func(dst, z array.Batch) {
			within(dst, func(x array.Batch) { forward(x, z); t.Coordinates(dst, x) })
		},
		project: func(dst, z array.Batch) {
			within(dst, func(x array.Batch) { forward(x, z); t.Project(x, x); backward(dst, x) })
		}}
}
