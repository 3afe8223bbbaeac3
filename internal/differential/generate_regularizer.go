package differential

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// share is a weight as a multiple of the largest that matters: of many sizes, and at and around 1.
func (g *draw) share() float64 {
	switch {
	case g.chance(0.03):
		g.feature("at lambda max")
		return 1
	case g.chance(0.03):
		g.feature("at lambda max")
		return 1 + pick(g, []float64{-1e-15, 1e-15, -1e-12, 1e-12}, []float64{1, 1, 1, 1})
	case g.chance(0.04):
		g.feature("near lambda max")
		return 1 + pick(g, []float64{-1e-6, 1e-6, -1e-4, 1e-4}, []float64{1, 1, 1, 1})
	case g.chance(0.05):
		return g.between(1, 3)
	case g.chance(0.1):
		return g.between(1e-6, 1e-3)
	}
	return g.between(1e-3, 1)
}

// correlations is A* y on n coordinates from at.
func (g *draw) correlations(at, n int) []float64 {
	y := slices.Clone(g.c.Y)
	if g.c.Intercept {
		floats.AddConst(-floats.Sum(y)/float64(len(y)), y)
	}
	var c mat.VecDense
	c.MulVec(g.x.T(), mat.NewVecDense(len(y), y))
	return c.RawVector().Data[at : at+n]
}

// weigh is a weight of share times most, at least something where most is 0.
func (g *draw) weigh(most float64) float64 {
	if !(most > 0) {
		most = 1
	}
	return g.share() * most
}

// regularizer draws one of the kind on n coordinates from at.
func (g *draw) regularizer(kind string, at, n int, shape [2]int) Reg {
	r := Reg{Kind: kind, N: n}
	c := g.correlations(at, n)
	size := math.Abs(floats.Max(append(absolute(c), 0)))
	switch kind {
	case "zero", "nonnegative":
	case "ridge":
		top := g.largestColumn(at, n)
		r.Lambda = g.between(1e-8, 10) * top * top
		if r.Lambda == 0 {
			r.Lambda = 1
		}
	case "l1":
		r.Lambda = g.weigh(size)
	case "weightedl1":
		g.weightedL1(&r, c)
	case "elasticnet":
		top := g.largestColumn(at, n)
		r.Lambda, r.Lambda2 = g.weigh(size), g.between(1e-8, 10)*top*top
	case "box", "linfball", "l1ball", "simplex":
		g.constraint(&r, at)
	case "groupl2", "grouplinf":
		g.groups(&r, c)
	case "slope":
		g.slope(&r, c)
	case "l2":
		r.Lambda = g.weigh(floats.Norm(c, 2))
	case "nuclear":
		r.Shape = shape
		var svd mat.SVD
		svd.Factorize(mat.NewDense(shape[0], shape[1], slices.Clone(c)), mat.SVDNone)
		r.Lambda = g.weigh(svd.Values(nil)[0])
	case "tv1d":
		r.Lambda = g.weigh(g.variation(at, n))
	case "separable":
		g.blocks(&r, at)
		return r
	}
	if g.chance(0.05) {
		r.Scale = 2
		r.rescale(0.5, 0.5, 1)
	}
	return r
}

func absolute(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Abs(v)
	}
	return out
}

func (g *draw) largestColumn(at, n int) float64 {
	top := 0.0
	for j := at; j < at+n; j++ {
		top = max(top, mat.Norm(g.x.ColView(j), 2))
	}
	return top
}

func (g *draw) weightedL1(r *Reg, c []float64) {
	for range c {
		w := g.between(0.1, 3)
		if g.chance(0.2) {
			g.feature("zero weight")
			w = 0
		}
		r.Weights = append(r.Weights, w)
	}
	most := 0.0
	for j, w := range r.Weights {
		if w > 0 {
			most = max(most, math.Abs(c[j])/w)
		}
	}
	r.Lambda = g.weigh(most)
}

// fit is a b of about the size of a least-squares fit.
func (g *draw) fit(at, n int) []float64 {
	return slices.Clone(g.signal[at : at+n])
}

// constraint draws the size of a ball, or bounds, around the size of the fit.
func (g *draw) constraint(r *Reg, at int) {
	b := g.fit(at, r.N)
	size := floats.Norm(b, 1)
	if r.Kind == "box" || r.Kind == "linfball" {
		size = floats.Norm(b, math.Inf(1))
	}
	if size == 0 {
		size = 1
	}
	f := g.between(0.05, 2)
	if g.chance(0.15) {
		g.feature("saturated constraint")
		f = g.between(1e-6, 0.05)
	}
	r.Radius = f * size
	if r.Kind != "box" {
		return
	}
	for j := range r.N {
		// Of the size of the coordinate's own signal, where it has one.
		s := r.Radius
		if b[j] != 0 {
			s = f * math.Abs(b[j])
		}
		lo, hi := -s*g.Float64(), s*g.Float64()
		switch g.IntN(8) {
		case 0:
			lo = -math.MaxFloat64
		case 1:
			hi = math.MaxFloat64
		case 2:
			lo, hi = 0, s
		case 3:
			if g.chance(0.3) {
				g.feature("fixed coordinate")
				lo = hi
			}
		case 4:
			lo = hi / 2
		}
		r.Lo, r.Hi = append(r.Lo, lo), append(r.Hi, hi)
	}
	r.Radius = 0
}

// groups divides the coordinates, occasionally leaving some out.
func (g *draw) groups(r *Reg, c []float64) {
	order := g.Perm(r.N)
	if g.chance(0.25) && r.N > 1 {
		g.feature("unpenalized coordinates")
		order = order[:1+g.IntN(r.N-1)]
	}
	for len(order) > 0 {
		k := min(1+g.IntN(4), len(order))
		r.Groups = append(r.Groups, slices.Sorted(slices.Values(order[:k])))
		order = order[k:]
	}
	if g.chance(0.4) {
		for _, group := range r.Groups {
			w := math.Sqrt(float64(len(group)))
			if g.chance(0.15) {
				g.feature("zero weight")
				w = 0
			}
			r.Weights = append(r.Weights, w)
		}
	}
	most := 0.0
	for i, group := range r.Groups {
		part := make([]float64, len(group))
		for k, j := range group {
			part[k] = c[j]
		}
		size := floats.Norm(part, 2)
		if r.Kind == "grouplinf" {
			size = floats.Norm(part, 1)
		}
		if r.Weights != nil {
			if r.Weights[i] == 0 {
				continue
			}
			size /= r.Weights[i]
		}
		most = max(most, size)
	}
	r.Lambda = g.weigh(most)
}

// slope draws decreasing weights: a line, one value, steps, or with zeros at the end.
func (g *draw) slope(r *Reg, c []float64) {
	w := make([]float64, r.N)
	shape := g.IntN(4)
	for i := range w {
		switch shape {
		case 0:
			w[i] = float64(r.N-i) / float64(r.N)
		case 1:
			w[i] = 1
		case 2:
			w[i] = 1 / float64(1+i/2)
		default:
			if w[i] = float64(r.N-i) / float64(r.N); i > r.N/2 {
				w[i] = 0
			}
		}
	}
	if shape == 3 {
		g.feature("zero weight")
	}
	size := absolute(c)
	slices.Sort(size)
	slices.Reverse(size)
	top, bottom, most := 0.0, 0.0, 0.0
	for i, v := range size {
		top += v
		bottom += w[i]
		most = max(most, top/bottom)
	}
	floats.Scale(g.weigh(most), w)
	r.Weights = w
}

// variation is the largest of the steps' multipliers where b is constant.
func (g *draw) variation(at, n int) float64 {
	d, _ := g.x.Dims()
	ones := make([]float64, d)
	for j := at; j < at+n; j++ {
		for i := range d {
			ones[i] += g.x.At(i, j)
		}
	}
	y := slices.Clone(g.c.Y)
	if g.c.Intercept {
		floats.AddConst(-floats.Sum(y)/float64(d), y)
	}
	if s := floats.Dot(ones, ones); s > 0 {
		floats.AddScaled(y, -floats.Dot(ones, y)/s, ones)
	}
	sum, most := 0.0, 0.0
	for j := at; j < at+n-1; j++ {
		for i := range d {
			sum += y[i] * g.x.At(i, j)
		}
		most = max(most, math.Abs(sum))
	}
	return most
}

// blocks draws a separable regularizer of two or three parts.
func (g *draw) blocks(r *Reg, at int) {
	parts := []string{"zero", "ridge", "l1", "weightedl1", "elasticnet", "nonnegative", "box", "groupl2",
		"grouplinf", "slope", "l1ball", "l2", "linfball", "simplex", "tv1d"}
	left := r.N
	for left > 0 {
		n := 1 + g.IntN(left)
		if len(r.Blocks) == 2 {
			n = left
		}
		kind := parts[g.IntN(len(parts))]
		r.Blocks = append(r.Blocks, g.regularizer(kind, at, n, [2]int{}))
		at += n
		left -= n
	}
}
