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

// Products returns a function that sets a k x n batch dst to A*B for operators B with as many rows as
// A, which has k columns and B has n. The caller frees what that keeps.
func Products(dev array.Device, a Operator) (into func(dst array.Batch, b Operator), free func()) {
	if stored := StructureOf(a).Stored; !stored.IsZero() && stored.Contiguous() && stored.K() > 0 {
		return func(dst array.Batch, b Operator) {
			if other := StructureOf(b).Stored; !other.IsZero() && other.Contiguous() {
				products(dst, stored, other)
				return
			}
			images := Images(dev, a)
			b.Adjoint(dst, images)
			images.Free()
		}, func() {}
	}
	images := Images(dev, a)
	return func(dst array.Batch, b Operator) { b.Adjoint(dst, images) }, images.Free
}

// products sets the k x n batch dst to A*B for matrices A and B of d rows. Unlike rows of a batch of
// vectors, which have the same bits in any batch, the rows of dst belong to columns of A: a product
// of matrices as a whole is faster.
func products(dst, a, b array.Batch) {
	sa, sb := array.Shape{Rows: a.K(), Cols: a.N()}, array.Shape{Rows: b.K(), Cols: b.N()}
	dst.Device().GemmEach(true, false, 1, a.Reshape(1, sa.Len()), sa, b.Reshape(1, sb.Len()), sb, 0, dst.Reshape(1, dst.K()*dst.N()))
}
