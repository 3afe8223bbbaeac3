package linops

import "surepipe/array"

// Images returns A e_j for all unit vectors e_j, one batch of p vectors of length d on dev, which
// the caller frees.
func Images(dev array.Device, a Operator) array.Batch {
	d, p := a.Dims()
	identity, images := dev.Alloc(p, p), dev.Alloc(p, d)
	done := false
	defer func() {
		identity.Free()
		if !done { // a has panicked
			images.Free()
		}
	}()
	dev.Fill(identity, 0)
	dev.Fill(identity.Diagonal(), 1)
	a.Forward(images, identity)
	done = true
	return images
}

// GramOf returns the p x p matrix A*A on the host, row-major in a new slice, by A's own Gram where
// it has one.
func GramOf(dev array.Device, a Operator) []float64 {
	_, p := a.Dims()
	square := dev.Alloc(p, p)
	defer square.Free()
	if direct := StructureOf(a).Gram; direct != nil {
		direct(square)
		return square.ToHost()
	}
	images := Images(dev, a)
	defer images.Free()
	dev.Gemm(false, true, 1, images, images, 0, square)
	return square.ToHost()
}
