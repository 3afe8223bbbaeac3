package linops

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/space"
)

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

// GramOf returns the p x p matrix A*A on the host, row-major in a new slice. It takes A's own Gram
// ([Structure].Gram) where there is one, or its entries where they are sparse, else the images of all unit vectors.
func GramOf(dev array.Device, a Operator) []float64 {
	_, p := a.Dims()
	square := dev.Alloc(p, p)
	defer square.Free()
	if direct := StructureOf(a).Gram; direct != nil {
		direct(square)
		return square.ToHost()
	}
	if sparse := sparseProducts(a); sparse != nil && sparse(square, a) {
		return square.ToHost()
	}
	images := Images(dev, a)
	defer images.Free()
	dev.Gemm(false, true, 1, images, images, 0, square)
	return square.ToHost()
}

// Products returns a function that sets the k x n batch dst to A*B, for an A with k columns and any operators B
// with as many rows as A and n columns. The function keeps memory, which the caller frees by free.
func Products(dev array.Device, a Operator) (into func(dst array.Batch, b Operator), free func()) {
	own := StructureOf(a).Products
	if own == nil {
		own = sparseProducts(a)
	}
	if own == nil {
		return productsByImages(dev, a)
	}
	var others func(dst array.Batch, b Operator)
	release := func() {}
	return func(dst array.Batch, b Operator) {
		if own(dst, b) {
			return
		}
		if others == nil {
			others, release = productsByImages(dev, a)
		}
		others(dst, b)
	}, func() { release() }
}

// sparseProducts is A*B from the entries of sparse matrices, or such with one of rank one, alone: a column of A adds up
// the rows of B in which it has entries. It is nil for another A, and reports false for another B.
func sparseProducts(a Operator) func(dst array.Batch, b Operator) bool {
	s := ShiftedOf(a)
	if s == nil {
		return nil
	}
	_, k := a.Dims()
	columns := space.Transpose(s.Rows, k)
	return func(dst array.Batch, b Operator) bool {
		other := ShiftedOf(b)
		if other == nil {
			return false
		}
		out := make([]float64, k*dst.N())
		s.product(out, columns, other, dst.N())
		dst.Device().Upload(dst, out)
		return true
	}
}

func productsByImages(dev array.Device, a Operator) (into func(dst array.Batch, b Operator), free func()) {
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
	d, k := a.Dims()
	if some := max(imagesBytes/(8*max(d, 1)), 1); some < k {
		return func(dst array.Batch, b Operator) { productsInParts(dst, a, b, some) }, func() {}
	}
	images := Images(dev, a)
	return func(dst array.Batch, b Operator) { b.Adjoint(dst, images) }, images.Free
}

// imagesBytes is the size up to which the columns of an operator are written down at once.
const imagesBytes = 32 << 20

// productsInParts sets dst to A*B, for some columns of A at a time, whose images are computed again for every B.
func productsInParts(dst array.Batch, a, b Operator, some int) {
	someImages(dst.Device(), a, some, func(from int, images array.Batch) {
		b.Adjoint(dst.Rows(from, from+images.K()), images)
	})
}

// someImages calls f with the images of all unit vectors, some at a time: row i of images is A e_(from+i).
func someImages(dev array.Device, a Operator, some int, f func(from int, images array.Batch)) {
	d, p := a.Dims()
	some = min(some, p)
	units, images := dev.Alloc(some, p), dev.Alloc(some, d)
	defer array.Free(units, images)
	for from := 0; from < p; from += some {
		n := min(some, p-from)
		dev.Fill(units, 0)
		dev.Fill(units.Cols(from, from+n).Rows(0, n).Diagonal(), 1)
		a.Forward(images.Rows(0, n), units.Rows(0, n))
		f(from, images.Rows(0, n))
	}
}

// products sets the k x n batch dst to A*B for matrices A and B of d rows. Unlike rows of a batch of
// vectors, which have the same bits in any batch, the rows of dst belong to columns of A: a product
// of matrices as a whole is faster.
func products(dst, a, b array.Batch) {
	sa, sb := array.Shape{Rows: a.K(), Cols: a.N()}, array.Shape{Rows: b.K(), Cols: b.N()}
	dst.Device().GemmEach(true, false, 1, a.Reshape(1, sa.Len()), sa, b.Reshape(1, sb.Len()), sb, 0,
		dst.Reshape(1, dst.K()*dst.N()))
}

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
	someImages(dev, a, denseBatch, func(from int, images array.Batch) {
		columns := images.ToHost()
		for i := range images.K() {
			x.SetCol(from+i, columns[i*d:(i+1)*d])
		}
	})
	return x
}
