package cones

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// secondOrder is the indicator of a product of second-order cones.
type secondOrder struct {
	p     int
	cones [][]int
	work  sync.Pool // of *[]float64
	prox.Known
}

// NewSecondOrderCones returns the constraint that b is in a product of second-order cones,
//
//	b_{c_0} >= ||(b_{c_1}, b_{c_2}, ...)||_2   for each cone c = cones[i],
//
// r(b) = 0 there and +Inf elsewhere, on vectors of length p. The cones list disjoint entries, the bound
// first, as the cones of CVXPY, ECOS and SCS do; entries that are in none are free, and a cone of one
// entry is b >= 0. With s the bound of v in a cone, x the other entries, w = x/||x|| and
// e = (1 + s/||x||)/2, the projection is
//
//	v where ||x|| <= s,    0 where ||x|| <= -s,    else e (||x||, x),
//
// and in the last case, with the unit vectors a = (1, w)/sqrt(2) and o = (1, -w)/sqrt(2),
//
//	J = e I + (1 - e) a a* - e o o*
//
// (Fukushima, Luo and Tseng 2001). The model there is the cone's surface: T is what is orthogonal to o,
// and its curvature (1/e - 1)/t (I - a a*) depends on the subgradient. A v on the surface counts as
// inside, and one on that of the polar cone as in it.
//
// Value allows a relative error of 1e-9. An empty cone and an entry out of range or in two cones are
// errors.
func NewSecondOrderCones(p int, cones [][]int) (prox.Prox, error) {
	if p <= 0 {
		return nil, fmt.Errorf("prox: second-order cones: dimension %d, want > 0", p)
	}
	owner := make([]int, p)
	q := &secondOrder{p: p, cones: make([][]int, len(cones))}
	for i, c := range cones {
		if len(c) == 0 {
			return nil, fmt.Errorf("prox: second-order cones: cone %d is empty", i)
		}
		for _, j := range c {
			if j < 0 || j >= p {
				return nil, fmt.Errorf("prox: second-order cones: cone %d has entry %d, want 0 to %d", i, j, p-1)
			}
			if owner[j] > 0 {
				return nil, fmt.Errorf("prox: second-order cones: entry %d is in cone %d and in cone %d, want "+
					"disjoint cones", j, owner[j]-1, i)
			}
			owner[j] = i + 1
		}
		q.cones[i] = append([]int(nil), c...)
	}
	q.Is = prox.Structure{Value: q.value, Support: q.support}
	return q, nil
}

func (p *secondOrder) Dim() int { return p.p }

// split returns the bound of a cone and the norm of its other entries.
func split(x []float64, cone []int) (s, norm float64) {
	for _, j := range cone[1:] {
		norm = math.Hypot(norm, x[j])
	}
	return x[cone[0]], norm
}

// share is the e of a cone: 1 inside, 0 in the polar cone. At the apex it is 0.
func share(s, norm float64) float64 {
	switch {
	case norm <= -s:
		return 0
	case norm <= s:
		return 1
	}
	return math.Min(math.Max((1+s/norm)/2, 0), 1)
}

func (p *secondOrder) project(x []float64) {
	for _, c := range p.cones {
		s, norm := split(x, c)
		e := share(s, norm)
		if e == 1 {
			continue
		}
		x[c[0]] = vector.Times(e, norm)
		for _, j := range c[1:] {
			x[j] = vector.Times(e, x[j])
		}
	}
}

func (p *secondOrder) memory() *[]float64 {
	w, ok := p.work.Get().(*[]float64)
	if !ok {
		w = new([]float64)
	}
	*w = lists.Resize(*w, p.p)
	return w
}

func (p *secondOrder) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("second-order cones", p.p, dst, v, t)
	w := p.memory()
	defer p.work.Put(w)
	return vector.OnEach("second-order cones", dst, v, *w, func() { p.project(*w) })
}

func (p *secondOrder) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize("second-order cones", p.p, dst, v, t)
	w := p.memory()
	defer p.work.Put(w)
	j := &coneDerivative{p: p, t: t, e: make([]float64, len(p.cones))}
	diagonal := make([]float64, p.p)
	err := vector.OnEach("second-order cones", dst, v, *w, func() {
		for i := range diagonal {
			diagonal[i] = 1
		}
		j.read(*w, diagonal)
		p.project(*w)
	})
	if err != nil {
		return nil, err
	}
	dev := v.Device()
	j.diagonal = dev.Alloc(1, p.p)
	dev.Upload(j.diagonal, diagonal)
	if len(j.factors) == 0 {
		d := prox.NewDiagonal(j.diagonal, j.build)
		return d, nil
	}
	on, of := j.rows().BothWays(dev, p.p)
	scale := dev.Alloc(1, len(j.factors))
	dev.Upload(scale, j.factors)
	j.apply = func(dst, z array.Batch) {
		dev := dst.Device()
		part, back := dev.Alloc(z.K(), len(j.factors)), dev.Alloc(z.K(), p.p)
		dev.MulCSR(part, on, z)
		dev.Mul(part, scale, part)
		dev.MulCSR(back, of, part)
		dev.Mul(dst, j.diagonal, z)
		dev.Lin(dst, 1, dst, 1, back)
		array.Free(part, back)
	}
	return prox.NewDerivative("second-order cones", p.p, j.apply, j.build, j.diagonal, on, of, scale), nil
}

func (p *secondOrder) value(b array.Batch) float64 {
	vector.CheckValue("second-order cones", p.p, b)
	x := b.Read()
	for _, c := range p.cones {
		if s, norm := split(x, c); !(norm <= s+onTheSet*math.Abs(s)) {
			return math.Inf(1)
		}
	}
	return 0
}

// margin is the least distance of a cone's part of v to its surface and to that of its polar cone.
func (p *secondOrder) margin(v array.Batch) float64 {
	least, x := math.Inf(1), v.Read()
	for _, c := range p.cones {
		s, norm := split(x, c)
		if len(c) == 1 {
			least = math.Min(least, math.Abs(s))
			continue
		}
		least = math.Min(least, math.Min(math.Abs(norm-s), math.Abs(norm+s))/math.Sqrt2)
	}
	return least
}

// coneDerivative is J = diag(d) + R* diag(f) R, where R has the rows a and o of each cone on whose
// surface the point is.
type coneDerivative struct {
	p       *secondOrder
	t       float64
	e       []float64   // of each cone
	tight   []int       // the cones on whose surface the point is
	w       [][]float64 // x/||x|| of those
	factors []float64   // f: 1 - e and -e of each

	diagonal array.Batch
	apply    func(dst, z array.Batch) // J; nil where R has no rows
}

// read takes what the derivative needs of v and sets d.
func (j *coneDerivative) read(v, diagonal []float64) {
	for i, c := range j.p.cones {
		s, norm := split(v, c)
		e := share(s, norm)
		j.e[i] = e
		for _, k := range c {
			diagonal[k] = e
		}
		if e == 0 || e == 1 {
			continue
		}
		w := lists.Make(len(c)-1, func(k int) float64 { return v[c[1+k]] / norm })
		j.tight, j.w, j.factors = append(j.tight, i), append(j.w, w), append(j.factors, 1-e, -e)
	}
}

// rows is R.
func (j *coneDerivative) rows() space.Rows {
	r := space.Rows{Indptr: []int{0}}
	for k, i := range j.tight {
		for _, sign := range []float64{1, -1} {
			r = j.row(r, i, k, sign)
		}
	}
	return r
}

// row adds (1, sign w)/sqrt(2) of cone i, the k-th on whose surface the point is.
func (j *coneDerivative) row(r space.Rows, i, k int, sign float64) space.Rows {
	c := j.p.cones[i]
	r.Indices, r.Values = append(r.Indices, c[0]), append(r.Values, math.Sqrt2/2)
	for u, at := range c[1:] {
		r.Indices, r.Values = append(r.Indices, at), append(r.Values, sign*j.w[k][u]*math.Sqrt2/2)
	}
	r.Indptr = append(r.Indptr, len(r.Indices))
	return r
}

// build has the surfaces of the cones as manifold, on the coordinates that are not held at 0.
func (j *coneDerivative) build() *prox.Model {
	dev := j.diagonal.Device()
	if dev.Err() != nil {
		return nil
	}
	in := slices.Repeat([]bool{true}, j.p.p)
	for i, c := range j.p.cones {
		for _, k := range c {
			in[k] = j.e[i] > 0
		}
	}
	var set []int
	for k, ok := range in {
		if ok {
			set = append(set, k)
		}
	}
	m := &prox.Model{Margin: j.p.margin}
	if len(j.tight) == 0 {
		m.Space = space.Coordinates(dev, j.p.p, set)
		return m
	}
	normals := space.Rows{Indptr: []int{0}}
	for k, i := range j.tight {
		normals = j.row(normals, i, k, -1)
	}
	m.Space = space.Orthogonal(dev, j.p.p, set, normals)
	c := &coneCurvature{j: j, s: m.Space, dev: dev}
	c.Sum, c.Squares, c.Summed = float64(m.Space.Dim()), float64(m.Space.Dim()), true
	nonzero := false
	for _, i := range j.tight {
		e, rest := j.e[i], float64(len(j.p.cones[i])-2)
		c.Sum -= rest * (1 - e)
		c.Squares -= rest * (1 - e*e)
		nonzero = nonzero || rest > 0
	}
	if nonzero {
		m.Curvature = c
	}
	return m
}

// coneCurvature is the curvature of the cones' surfaces, (I + t Q)^{-1} = E* J E. It holds no memory
// besides the derivative's.
type coneCurvature struct {
	prox.Plain
	j   *coneDerivative
	s   space.Space
	dev array.Device
}

func (c *coneCurvature) Precondition(dst, image, z array.Batch) {
	dev, p := dst.Device(), c.j.p.p
	t := dev.Alloc(z.K(), p)
	defer t.Free()
	c.s.Embed(t, z)
	c.j.apply(t, t)
	c.s.Coordinates(dst, t)
	vector.Rest(image, z, dst)
}

// Matrix is E* Q E, where Q in R^p is that of each cone.
func (c *coneCurvature) Matrix() []float64 {
	_, n := c.s.Dims()
	full := vector.SquareMatrix(n)
	if full == nil || n == 0 {
		return full
	}
	p := c.j.p.p
	units, basis := c.dev.Alloc(n, n), c.dev.Alloc(n, p)
	defer array.Free(units, basis)
	c.dev.Fill(units, 0)
	c.dev.Fill(units.Diagonal(), 1)
	c.s.Embed(basis, units)
	e := basis.ToHost() // n x p
	for k, i := range c.j.tight {
		cone, w := c.j.p.cones[i], c.j.w[k]
		q := (1/c.j.e[i] - 1) / c.j.t
		var touched []int // coordinates of the cone
		along := make([]float64, n)
		for u := range n {
			row, any := e[u*p:(u+1)*p], false
			along[u] = row[cone[0]] * math.Sqrt2 / 2
			any = row[cone[0]] != 0
			for v, at := range cone[1:] {
				along[u] += w[v] * row[at] * math.Sqrt2 / 2
				any = any || row[at] != 0
			}
			if any {
				touched = append(touched, u)
			}
		}
		for _, u := range touched {
			for _, v := range touched {
				sum := 0.0
				for _, at := range cone {
					sum += e[u*p+at] * e[v*p+at]
				}
				full[u*n+v] += q * (sum - along[u]*along[v])
			}
		}
	}
	return full
}

func (p *secondOrder) support(g array.Batch) float64 { return polar(p, g) }
