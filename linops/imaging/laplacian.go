package imaging

import (
	"math"
	"sync"

	"surepipe/array"
	"surepipe/linops/internal/product"
)

// laplacian solves the normal equations of the differences of images with reflecting edges.
type laplacian struct {
	grid func() *DCT // made when first needed; nil for operators without a closed form
	on   *DCT        // that of Load
}

func newLaplacian(rows, cols int) laplacian {
	return laplacian{grid: sync.OnceValue(func() *DCT {
		g := newDCT(rows, cols)
		g.u, g.v = pathSpectrum(rows), pathSpectrum(cols)
		return g
	})}
}

func pathSpectrum(n int) []float64 {
	u := make([]float64, n)
	for k := range u {
		s := math.Sin(math.Pi * float64(k) / float64(2*n))
		u[k] = 4 * s * s
	}
	return u
}

// solve sets dst = (eta D*D + I)^{-1} rhs for vectors of one image or of several, one after the other.
func (l *laplacian) solve(dst, rhs array.Batch, eta float64) bool {
	if eta == 0 {
		product.CopyTo(dst, rhs)
		return true
	}
	g := l.grid()
	images := dst.N() / g.p
	if images == 1 {
		g.apply(dst, rhs, action{doNormal, eta})
		return true
	}
	for i := range dst.K() {
		to, from := dst.Rows(i, i+1), rhs.Rows(i, i+1)
		g.apply(to.Reshape(images, g.p), from.Reshape(images, g.p), action{doNormal, eta})
	}
	return true
}

// Load puts what the normal equations take on a device, unless that computes in the host's memory: their closed
// form then runs there for images with sides of up to 4096. Both products need nothing. It comes before the first
// solution.
func (l *laplacian) Load(dev array.Device) {
	if l.grid != nil && !inHostMemory(dev) {
		l.on = l.grid()
		l.on.Load(dev)
	}
}

func (l *laplacian) Release() {
	if l.on != nil {
		l.on.Release()
		l.on = nil
	}
}
