package prox

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/prox/internal/vector"
)

// planeGroups divides vectors of count planes of n entries each into groups: group g are the entries
// g width, ..., (g + 1) width - 1 of each plane. What belongs to a group stands at each of its entries
// in a plane, in a vector of length n.
type planeGroups struct{ n, count, width int }

func (p planeGroups) of(b array.Batch, k int) array.Batch { return b.Cols(k*p.n, (k+1)*p.n) }
func (p planeGroups) groups() int                         { return p.n / p.width }
func (p planeGroups) sums() int                           { return p.n }
func (p planeGroups) at(g int) int                        { return g * p.width }
func (p planeGroups) load(array.Device, *array.Held)      {}

func (p planeGroups) spread(sums, numbers []float64) {
	for i := range sums {
		sums[i] = numbers[i/p.width]
	}
}

func (p planeGroups) some(active []int) ([]int, partition) {
	set := make([]int, 0, len(active)*p.count*p.width)
	for k := range p.count {
		for _, g := range active {
			for c := range p.width {
				set = append(set, k*p.n+g*p.width+c)
			}
		}
	}
	return set, planeGroups{len(active) * p.width, p.count, p.width}
}

func (p planeGroups) members(all []int, g int) []int {
	all = all[:0]
	for k := range p.count {
		for c := range p.width {
			all = append(all, k*p.n+g*p.width+c)
		}
	}
	return all
}

func (p planeGroups) inner(dst, a, b array.Batch) {
	if dst.K() == 0 {
		return
	}
	dev := dst.Device()
	t := dev.Alloc(dst.K(), p.n)
	defer t.Free()
	dev.Mul(dst, p.of(a, 0), p.of(b, 0))
	for k := 1; k < p.count; k++ {
		dev.Mul(t, p.of(a, k), p.of(b, k))
		dev.Lin(dst, 1, dst, 1, t)
	}
	if p.width > 1 { // add up the neighbours of a plane
		ones := dev.Alloc(p.width, p.width)
		defer ones.Free()
		dev.Fill(ones, 1)
		rows := dst.K() * p.groups()
		dev.Gemm(false, false, 1, dst.Reshape(rows, p.width), ones, 0, t.Reshape(rows, p.width))
		dev.Copy(dst, t)
	}
}

func (p planeGroups) scale(dst, v, s array.Batch) {
	for k := range p.count {
		dst.Device().Mul(p.of(dst, k), p.of(v, k), s)
	}
}

func (p planeGroups) scaleAlong(dst, z, s, c, u array.Batch) {
	dev := dst.Device()
	along, t := dev.Alloc(z.K(), p.n), dev.Alloc(z.K(), p.n)
	defer array.Free(along, t)
	p.inner(along, z, u)
	dev.Mul(along, along, c)
	for k := range p.count {
		to := p.of(dst, k)
		dev.Mul(t, along, p.of(u, k))
		dev.Mul(to, p.of(z, k), s)
		dev.Lin(to, 1, to, 1, t)
	}
}

// jointL2 is r(z) = lambda sum_g ||z_g||_2.
type jointL2 struct {
	euclidean
	planeGroups
	lambda float64
}

// NewVectorialL2 returns the l2 norm across planes and channels: for vectors of planes arrays of n pixels, one after
// the other, with some channels for each pixel, such as red, green and blue, or a real and an imaginary part,
//
//	r(z) = lambda sum_{i<n} ||z_i||_2,    z_i = (z_{a,i,c}; a < planes, c < channels).
//
// Of the differences along the axes of an image (imaging.Gradient) it is the isotropic total variation with one
// channel, and the vectorial total variation with several (Bresson and Chan 2008). It is the group LASSO penalty of
// these groups ([NewGroupL2]), without lists of their entries:
//
//	prox_{t r}(v)_i = s_i v_i,    s_i = max(1 - t lambda/||v_i||, 0).
//
// It panics if n, planes or channels is not positive, or lambda is negative or NaN. Norms are taken by squaring:
// values beyond 1e150 overflow.
func NewVectorialL2(n, planes, channels int, lambda float64) Prox {
	if n < 1 || planes < 1 || channels < 1 {
		panic(fmt.Sprintf("prox: joint l2 penalty of %d planes of %d pixels with %d channels, want positive numbers",
			planes, n, channels))
	}
	vector.CheckLambda("the joint l2 penalty's lambda", lambda)
	by := planeGroups{n * channels, planes, channels}
	p := &jointL2{euclidean{name: "joint l2", p: by.n * planes, by: by, w: uniform(lambda)}, by, lambda}
	p.Is = Structure{Value: p.value, DualScale: p.dualScale, FenchelGap: p.fenchelGap,
		Balls: balls(lambda, planes, channels)}
	return p
}

// blockOf is the number of groups that are taken at a time, in the cache of a processor.
const blockOf = 256

// products calls do with <a_g, a_g> and <a_g, b_g> of the groups lo to hi-1 of one vector each, on the host, some
// groups at a time.
func (p planeGroups) products(a, b []float64, lo, hi int, do func(squares, along []float64)) {
	var memory [2 * blockOf]float64
	for from := lo; from < hi; from += blockOf {
		n := min(blockOf, hi-from)
		squares, along := memory[:n], memory[blockOf:blockOf+n]
		clear(memory[:])
		for k := range p.count {
			x, y := a[k*p.n+from*p.width:][:n*p.width], b[k*p.n+from*p.width:][:n*p.width]
			for i, v := range x {
				g := i
				if p.width > 1 {
					g = i / p.width
				}
				squares[g] += v * v
				along[g] += v * y[i]
			}
		}
		do(squares, along)
	}
}

func (p *jointL2) dualScale(_, g array.Batch, _ float64) float64 {
	if !elsewhere(g) {
		x := g.Read()
		squares := parallel.Shares(p.groups(), func(lo, hi int) (most float64) {
			p.products(x, x, lo, hi, func(squares, _ []float64) { most = max(most, lists.MaxAbs(squares)) })
			return most
		})
		return vector.Ratio(p.lambda, math.Sqrt(lists.MaxAbs(squares)))
	}
	q := g.Device().Alloc(1, p.n)
	defer q.Free()
	p.inner(q, g, g)
	return vector.Ratio(p.lambda, math.Sqrt(q.MaxAbs()))
}

// fenchelGap is the sum of lambda ||b_i|| - t <b_i, g_i> over the groups i.
func (p *jointL2) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	if elsewhere(b) && !math.IsInf(p.lambda, 1) {
		return p.gapOnDevice(b, g, t)
	}
	x, h := b.Read(), g.Read()
	return floats.Sum(parallel.Shares(p.groups(), func(lo, hi int) (sum float64) {
		p.products(x, h, lo, hi, func(squares, along []float64) {
			for i, v := range squares {
				sum += vector.Surplus(vector.Times(p.lambda, math.Sqrt(v)), t*along[i])
			}
		})
		return sum
	}))
}

func (p *jointL2) gapOnDevice(b, g array.Batch, t float64) float64 {
	dev := b.Device()
	along, norms := dev.Alloc(1, p.n), dev.Alloc(1, p.n)
	defer array.Free(along, norms)
	p.inner(along, b, b)
	squareRoots(norms, along)
	p.inner(along, b, g)
	return sumOfSurplus(norms, along, p.lambda, t) / float64(p.width)
}
