package product

import (
	"fmt"

	"surepipe/array"
)

// OnHost gives access to the vectors of a product in the host's memory: the i-th of dst and of src, in their own
// memory there, else in copies, of which done takes those of dst back. There is at least one vector.
func OnHost(dst, src array.Batch) (vectors func(i int) (d, s []float64), done func()) {
	_, onHost := src.HostRow(0)
	if _, ok := dst.HostRow(0); ok != onHost {
		panic(fmt.Sprintf("linops: %s is on device %q and %s on device %q, want one device", src, src.Device().Name(),
			dst, dst.Device().Name()))
	}
	if onHost {
		return func(i int) (d, s []float64) {
			d, _ = dst.HostRow(i)
			s, _ = src.HostRow(i)
			return d, s
		}, func() {}
	}
	n, m := dst.N(), src.N()
	in, out := src.ToHost(), make([]float64, dst.K()*n)
	return func(i int) (d, s []float64) { return out[i*n : (i+1)*n : (i+1)*n], in[i*m : (i+1)*m : (i+1)*m] },
		func() { dst.Device().Upload(dst, out) }
}
