package imaging

import (
	"math"

	"surepipe/array"
	"surepipe/linops"
)

// cosines are those of the differences along both axes of one image.
func (g *Gradient) cosines() linops.Spectrum {
	if g.edge != Reflecting || len(g.axes) != 2 || len(g.shape) != 2 {
		return linops.Spectrum{}
	}
	return gridCosines(g.length[0], g.length[1])
}

// gridCosines are those of the differences of a grid with reflecting borders.
func gridCosines(rows, cols int) linops.Spectrum {
	return linops.Spectrum{Shape: array.Shape{Rows: rows, Cols: cols}, Values: func() []float64 {
		return outerSums(pathSpectrum(rows), pathSpectrum(cols))
	}}
}

// waves are the eigenvalues of D*D with periodic differences of one image: sums of 4 sin(pi k/n)^2.
func (g *Gradient) waves() linops.Spectrum {
	if g.edge != Periodic || len(g.shape) > 2 {
		return linops.Spectrum{}
	}
	shape := array.Shape{Rows: g.n / g.line, Cols: g.line}
	return linops.Spectrum{Shape: shape, Values: func() []float64 {
		values := make([]float64, g.n)
		for a, n := range g.length {
			for i := range values {
				s := math.Sin(math.Pi * float64(i/g.inner[a]%n) / float64(n))
				values[i] += 4 * s * s
			}
		}
		return values
	}}
}

// Impulses, and the distance of the farthest ones from the centre as a share of a side.
const (
	mostImpulses = 9
	impulseShare = 1. / 16
	// leastCosine is the least eigenvalue that is believed, as a share of their mean.
	leastCosine = 1e-3
)

// NearCosines returns positive numbers v, one for each coefficient of the cosine transform C of images
// of a shape, for which C* diag(v) C is near A*A where A*A is about the same at all places of the image,
// and even: as that of a convolution or of the projections of a scanner (after Chan, An optimal circulant
// preconditioner for Toeplitz systems, SIAM J. Sci. Stat. Comput. 9, 1988). They are the eigenvalues of the
// convolution, with a reflecting boundary, by the mean of A*A's responses h to impulses near the centre:
// with h made even, its response to an impulse in the corner is
//
//	g_{ij} = h_{ij} + h_{i+1,j} + h_{i,j+1} + h_{i+1,j+1},    v = (C g)/(C e_00),
//
// where h_{ij} stands for the distances i and j from the impulse. dct is C.
func NearCosines(dev array.Device, a linops.Operator, shape array.Shape, dct *DCT) []float64 {
	rows, cols := shape.Rows, shape.Cols
	d, p := a.Dims()
	places := impulses(shape)
	e, z, h := dev.Alloc(len(places), p), dev.Alloc(len(places), d), dev.Alloc(len(places), p)
	defer func() {
		for _, b := range []array.Batch{e, z, h} {
			b.Free()
		}
	}()
	host := make([]float64, len(places)*p)
	for i, at := range places {
		host[i*p+at[0]*cols+at[1]] = 1
	}
	dev.Upload(e, host)
	a.Forward(z, e)
	a.Adjoint(h, z)
	even := make([]float64, (rows+1)*(cols+1)) // h, with zeros beyond
	count := make([]float64, len(even))
	for i, at := range places {
		host := h.Rows(i, i+1).ToHost()
		for r := range rows {
			for c := range cols {
				to := max(r-at[0], at[0]-r)*(cols+1) + max(c-at[1], at[1]-c)
				even[to] += host[r*cols+c]
				count[to]++
			}
		}
	}
	for i, n := range count {
		if n > 0 {
			even[i] /= n
		}
	}
	both := make([]float64, 2*p)
	for r := range rows {
		for c := range cols {
			from := r*(cols+1) + c
			both[r*cols+c] = even[from] + even[from+1] + even[from+cols+1] + even[from+cols+2]
		}
	}
	both[p] = 1
	corner, spectrum := dev.Alloc(2, p), dev.Alloc(2, p)
	defer corner.Free()
	defer spectrum.Free()
	dev.Upload(corner, both)
	dct.Forward(spectrum, corner)
	values := spectrum.ToHost()
	mean := even[0] // the trace over p
	for i := range p {
		values[i] = math.Max(values[i]/values[p+i], leastCosine*mean)
	}
	return values[:p:p]
}

// impulses are places near the centre, on a grid of up to 3 x 3.
func impulses(shape array.Shape) [][2]int {
	places := make([][2]int, 0, mostImpulses)
	for _, r := range near(shape.Rows) {
		for _, c := range near(shape.Cols) {
			places = append(places, [2]int{r, c})
		}
	}
	return places
}

// near are the middle of n places and two on either side of it, where n is not small.
func near(n int) []int {
	by := int(impulseShare * float64(n))
	if by == 0 {
		return []int{n / 2}
	}
	return []int{n/2 - by, n / 2, n/2 + by - 1}
}
