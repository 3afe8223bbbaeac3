package prox

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// jointL2 is r(z) = lambda sum_g ||z_g||_2, where group g are the entries g width, ..., (g + 1) width - 1
// of each of some planes of n entries.
type jointL2 struct {
	n, planes, width int
	lambda           float64
	known
}

// NewJointL2 returns the l2 norm across planes: for vectors of planes arrays of n numbers, one after
// the other,
//
//	r(z) = lambda sum_{i<n} ||z_i||_2,    z_i = (z_i, z_{n+i}, ..., z_{(planes-1)n+i}).
//
// Of the differences along the axes of an image (imaging.Gradient) it is the isotropic total
// variation. It is the group LASSO penalty of these groups ([NewGroupL2]), without lists of their
// entries:
//
//	prox_{t r}(v)_i = s_i v_i,    s_i = max(1 - t lambda/||v_i||, 0).
//
// It panics if n or planes is not positive, or lambda is negative or NaN. Norms are taken by
// squaring: values beyond 1e150 overflow.
func NewJointL2(n, planes int, lambda float64) Prox {
	if n < 1 || planes < 1 {
		panic(fmt.Sprintf("prox: joint l2 penalty of %d planes of %d numbers, want positive numbers", planes, n))
	}
	return NewVectorialL2(n, planes, 1, lambda)
}

// NewVectorialL2 is [NewJointL2] for planes of n pixels with some channels each, one after the other,
// such as red, green and blue, or a real and an imaginary part: the channels of a pixel are in one
// group. Of the differences along the axes of an image it is the vectorial total variation (Bresson
// and Chan 2008),
//
//	r(z) = lambda sum_{i<n} sqrt(sum_a sum_c z_{a,i,c}^2),    a < planes, c < channels.
//
// It panics likewise.
func NewVectorialL2(n, planes, channels int, lambda float64) Prox {
	if n < 1 || planes < 1 || channels < 1 {
		panic(fmt.Sprintf("prox: joint l2 penalty of %d planes of %d pixels with %d channels, want positive numbers",
			planes, n, channels))
	}
	vector.CheckLambda("the joint l2 penalty's lambda", lambda)
	p := &jointL2{n: n * channels, planes: planes, width: channels, lambda: lambda}
	p.structure = Structure{Value: p.value, DualScale: p.dualScale, FenchelGap: p.fenchelGap}
	if channels == 1 {
		p.structure.Balls = balls(lambda, planes)
	}
	return p
}

func (p *jointL2) Dim() int { return p.n * p.planes }

// plane is plane c of every vector.
func (p *jointL2) plane(b array.Batch, c int) array.Batch { return b.Cols(c*p.n, (c+1)*p.n) }

// squares sets q_i = ||v_g||^2 for all entries i of a plane, of group g. t is memory of the same shape.
func (p *jointL2) squares(q, t, v array.Batch) {
	dev := q.Device()
	dev.Mul(q, p.plane(v, 0), p.plane(v, 0))
	for c := 1; c < p.planes; c++ {
		dev.Mul(t, p.plane(v, c), p.plane(v, c))
		dev.Lin(q, 1, q, 1, t)
	}
	couple(q, t, p.width)
}

// couple replaces the entries of q by the sums over the groups of width neighbours that they are in.
// t is memory of the same shape.
func couple(q, t array.Batch, width int) {
	if width == 1 || q.K() == 0 {
		return
	}
	dev, groups := q.Device(), q.K()*q.N()/width
	ones := dev.Alloc(width, width)
	dev.Fill(ones, 1)
	dev.Gemm(false, false, 1, q.Reshape(groups, width), ones, 0, t.Reshape(groups, width))
	dev.Copy(q, t)
	ones.Free()
}

func (p *jointL2) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("joint l2", p.Dim(), dst, v, t)
	dev := v.Device()
	q, s := dev.Alloc(v.K(), p.n), dev.Alloc(v.K(), p.n)
	p.squares(q, s, v)
	dev.Shrink(s, q, array.Batch{}, vector.Times(t, p.lambda))
	for c := range p.planes {
		dev.Mul(p.plane(dst, c), p.plane(v, c), s)
	}
	q.Free()
	s.Free()
	return nil
}

func (p *jointL2) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("joint l2", p.Dim(), dst, v, t)
	dev := v.Device()
	j := &jointDerivative{p: p, t: t, u: dev.Alloc(1, p.Dim()), s: dev.Alloc(1, p.n), c: dev.Alloc(1, p.n)}
	p.squares(j.c, j.s, v)
	dev.Shrink(j.s, j.c, array.Batch{}, vector.Times(t, p.lambda))
	dev.ShrinkSlope(j.c, j.c, array.Batch{}, vector.Times(t, p.lambda))
	dev.Copy(j.u, v)
	for c := range p.planes {
		dev.Mul(p.plane(dst, c), p.plane(v, c), j.s)
	}
	return j, nil
}

// Norms are ||b_g||.
func (p *jointL2) norms(b array.Batch) []float64 {
	x := vector.OnHost(b)
	norms := make([]float64, p.n/p.width)
	for c := range p.planes {
		for i, v := range x[c*p.n:][:p.n] {
			norms[i/p.width] += v * v
		}
	}
	for i, v := range norms {
		norms[i] = math.Sqrt(v)
	}
	return norms
}

func (p *jointL2) value(b array.Batch) float64 {
	vector.CheckValue("joint l2", p.Dim(), b)
	sum := 0.0
	for _, v := range p.norms(b) {
		sum += v
	}
	return vector.Times(p.lambda, sum)
}

func (p *jointL2) dualScale(_, g array.Batch, _ float64) float64 {
	if elsewhere(g) {
		return vector.Ratio(p.lambda, p.largestNorm(g))
	}
	return vector.Ratio(p.lambda, vector.Largest(p.norms(g)))
}

// fenchelGap is the sum of lambda ||b_i|| - t <b_i, g_i> over the groups i.
func (p *jointL2) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	if elsewhere(b) && !math.IsInf(p.lambda, 1) {
		return p.gapOnDevice(b, g, t)
	}
	sum := 0.0
	x, h := vector.OnHost(b), vector.OnHost(g)
	for i, norm := range p.norms(b) {
		along := 0.0
		for at := i * p.width; at < len(x); at += p.n {
			for k := at; k < at+p.width; k++ {
				along += x[k] * h[k]
			}
		}
		sum += vector.Surplus(vector.Times(p.lambda, norm), t*along)
	}
	return sum
}

// jointDerivative is J z = s z + c u <u, z> for every i, with the shrinkage factors s, the argument
// u, and c = t lambda/||u||^3, 0 where i is inactive.
type jointDerivative struct {
	p       *jointL2
	t       float64
	u, s, c array.Batch
	LazyModel
}

func (j *jointDerivative) Apply(dst, z array.Batch) {
	p, dev := j.p, dst.Device()
	vector.CheckApply("joint l2", p.Dim(), dst, z)
	along, t := dev.Alloc(z.K(), p.n), dev.Alloc(z.K(), p.n)
	dev.Mul(along, p.plane(z, 0), p.plane(j.u, 0))
	for c := 1; c < p.planes; c++ {
		dev.Mul(t, p.plane(z, c), p.plane(j.u, c))
		dev.Lin(along, 1, along, 1, t)
	}
	couple(along, t, p.width)
	dev.Mul(along, along, j.c)
	for c := range p.planes {
		to := p.plane(dst, c)
		dev.Mul(t, along, p.plane(j.u, c))
		dev.Mul(to, p.plane(z, c), j.s)
		dev.Lin(to, 1, to, 1, t)
	}
	along.Free()
	t.Free()
}

func (j *jointDerivative) Diagonal() array.Batch { return array.Batch{} }
func (j *jointDerivative) Model() *Model         { return j.Get(j.build) }

func (j *jointDerivative) Bytes() int64 {
	return j.u.Bytes() + j.s.Bytes() + j.c.Bytes() + j.ModelBytes()
}

func (j *jointDerivative) Release() {
	j.FreeModel()
	j.u.Free()
	j.s.Free()
	j.c.Free()
}

// build restricts J to the active groups i, where
//
//	Q_i = lambda/||b_i|| (I - v_i v_i*/||v_i||^2),   ||b_i|| = s_i ||v_i||.
func (j *jointDerivative) build() *Model {
	p := j.p
	s, v := vector.OnHost(j.s), vector.OnHost(j.u)
	var active []int
	for i := range p.n / p.width {
		if s[i*p.width] > 0 {
			active = append(active, i)
		}
	}
	n, width := len(active), p.width
	set := make([]int, 0, n*p.planes*width)
	for c := range p.planes {
		for _, i := range active {
			for k := range width {
				set = append(set, c*p.n+i*width+k)
			}
		}
	}
	m := &Model{Space: space.Coordinates(j.u.Device(), p.Dim(), set), Margin: j.margin}
	if p.planes*width < 2 || n == 0 || p.lambda == 0 {
		return m
	}
	c := &jointCurvature{dev: j.u.Device(), t: j.t, n: n, planes: p.planes, width: width, q: make([]float64, n),
		factor: make([]float64, n), unit: make([]float64, len(set))}
	norms := p.norms(j.u)
	for a, i := range active {
		c.factor[a] = s[i*width]
		c.q[a] = p.lambda / (c.factor[a] * norms[i])
		for at := a * width; at < len(set); at += n * width {
			for k := at; k < at+width; k++ {
				c.unit[k] = v[set[k]] / norms[i]
			}
		}
	}
	m.Curvature, m.root = c, c.root
	return m
}

// margin is the least | ||v_i|| - t lambda |.
func (j *jointDerivative) margin(v array.Batch) float64 {
	least := math.Inf(1)
	if j.p.lambda == 0 {
		return least
	}
	for _, norm := range j.p.norms(v) {
		least = min(least, math.Abs(norm-j.t*j.p.lambda))
	}
	return least
}
