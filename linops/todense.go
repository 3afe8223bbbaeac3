package linops

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
)

// denseBatch is how many unit vectors ToDense sends through at a time.
const denseBatch = 64

// ToDense writes any operator down as a d x p matrix on the host, for small
// problems and for tests: from its Densifier, or by applying it to the p unit
// vectors. It returns nil when d or p is 0, which package mat cannot hold. The
// caller must not modify the matrix.
func ToDense(dev array.Device, a Operator) *mat.Dense {
	d, p := a.Dims()
	if d == 0 || p == 0 {
		return nil
	}
	if m, ok := a.(Densifier); ok {
		if x := m.Dense(); x != nil {
			return x
		}
	}
	x := mat.NewDense(d, p, nil)
	k := min(p, denseBatch)
	units, images := dev.Alloc(k, p), dev.Alloc(k, d)
	defer units.Free()
	defer images.Free()
	in, out := make([]float64, k*p), make([]float64, k*d)
	for at := 0; at < p; at += k {
		n := min(k, p-at)
		clear(in)
		for i := range n {
			in[i*p+at+i] = 1
		}
		dev.Upload(units, in)
		a.Forward(images, units)
		dev.Download(out, images)
		for i := range n {
			x.SetCol(at+i, out[i*d:(i+1)*d])
		}
	}
	return x
}
