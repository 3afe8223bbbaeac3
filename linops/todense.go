package linops

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
)

// denseBatch is the number of unit vectors that ToDense applies an operator to at a time.
const denseBatch = 64

// ToDense returns any operator as a d x p matrix on the host, for small problems and for tests: the
// matrix of its structure, or the images of the p unit vectors. It returns nil where d or p is 0,
// which package mat does not represent. The caller must not modify the matrix.
func ToDense(dev array.Device, a Operator) *mat.Dense {
	d, p := a.Dims()
	if d == 0 || p == 0 {
		return nil
	}
	if dense := StructureOf(a).Dense; dense != nil {
		return dense()
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
