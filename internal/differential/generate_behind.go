package differential

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// behind draws a problem with r(K b): K takes differences along the edges of a graph, of higher order, or
// any combinations, and may have duplicate rows and rows of zeros.
func (g *draw) behind() {
	p := 2 + g.IntN(7)
	k := g.combinations(p)
	switch {
	case g.chance(0.3):
		g.c.Op = identity(p)
	case g.chance(0.2):
		g.c.Op = Op{Kind: "dense", Rows: p, Cols: p, Data: identityData(p)}
	default:
		g.c.Op = g.numbers(pick(g, []string{"dense", "csr"}, []float64{4, 1}), g.length(), p)
	}
	g.observe()
	if g.chance(0.3) { // breakpoints of graphs are then integers
		g.feature("round y")
		for i, v := range g.c.Y {
			g.c.Y[i] = 840 * math.Round(v)
		}
		g.c.Sigma2 *= 840 * 840
	}
	g.c.K = &k
	u := g.multiplier(k)
	kind := pick(g, []string{"l1", "weightedl1", "nonnegative", "slope", "groupl2", "grouplinf"},
		[]float64{12, 3, 1, 1, 1, 1})
	g.c.Reg = g.penalty(kind, u)
	if kind != "nonnegative" && g.chance(0.4) {
		g.nearBreakpoint()
	}
}

func identityData(n int) []float64 {
	x := make([]float64, n*n)
	for i := range n {
		x[i*n+i] = 1
	}
	return x
}

// combinations draws K.
func (g *draw) combinations(p int) Op {
	var rows [][]float64
	add := func(entries ...float64) { // at the places of which the first is where it begins
		row := make([]float64, p)
		for i, v := range entries[1:] {
			row[(int(entries[0])+i)%p] += v
		}
		rows = append(rows, row)
	}
	between := func(i, j int) {
		row := make([]float64, p)
		row[i], row[j] = 1, -1
		rows = append(rows, row)
	}
	switch pick(g, []string{"cycle", "graph", "path", "fused", "second", "third", "any"},
		[]float64{3, 5, 2, 2, 1, 1, 3}) {
	case "cycle":
		for i := range p {
			between(i, (i+1)%p)
		}
	case "graph":
		for range 1 + g.IntN(2*p) {
			if i, j := g.IntN(p), g.IntN(p); i != j {
				between(i, j)
			}
		}
	case "fused":
		f := g.between(0.1, 3)
		for i := range p {
			add(float64(i), f)
		}
		fallthrough
	case "path":
		for i := range p - 1 {
			between(i, i+1)
		}
	case "second":
		for i := range p - 2 {
			add(float64(i), 1, -2, 1)
		}
	case "third":
		for i := range p - 3 {
			add(float64(i), 1, -3, 3, -1)
		}
	case "any":
		integer := g.chance(0.3)
		for range 1 + g.IntN(p+3) {
			row := g.gaussian(p, 1)
			for j := range row {
				if g.chance(0.4) {
					row[j] = 0
				}
				if integer {
					row[j] = math.Round(row[j])
				}
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		between(0, 1)
	}
	if g.chance(0.12) {
		g.feature("duplicate row of K")
		row := rows[g.IntN(len(rows))]
		rows = append(rows, slices.Clone(row))
		if g.chance(0.4) {
			floats.Scale(pick(g, []float64{-1, 2, 0.5}, []float64{1, 1, 1}), rows[len(rows)-1])
		}
	}
	if g.chance(0.06) {
		g.feature("zero row of K")
		add(0, 0)
	}
	o := Op{Kind: pick(g, []string{"dense", "csr"}, []float64{1, 1}), Rows: len(rows), Cols: p}
	for _, row := range rows {
		o.Data = append(o.Data, row...)
	}
	return o
}

// multiplier is about a u with K* u = A* (y - A b) where K b = 0.
func (g *draw) multiplier(k Op) []float64 {
	p := k.Cols
	m := mat.NewDense(k.Rows, p, append([]float64(nil), k.Data...))
	const heavy = 1e6
	gram, rhs := mat.NewDense(p, p, nil), mat.NewVecDense(p, nil)
	gram.Mul(m.T(), m)
	gram.Scale(heavy, gram)
	var a mat.Dense
	a.Mul(g.x.T(), g.x)
	gram.Add(gram, &a)
	for j := range p {
		gram.Set(j, j, gram.At(j, j)+1e-9*(1+gram.At(j, j)))
	}
	rhs.MulVec(g.x.T(), mat.NewVecDense(len(g.c.Y), g.c.Y))
	var b, u mat.VecDense
	if err := b.SolveVec(gram, rhs); err != nil {
		return []float64{1}
	}
	u.MulVec(m, &b)
	u.ScaleVec(heavy, &u)
	return u.RawVector().Data
}

// penalty draws a regularizer of K b, where u is about the subgradient at 0.
func (g *draw) penalty(kind string, u []float64) Reg {
	r := Reg{Kind: kind, N: g.c.K.Rows}
	for len(u) < r.N {
		u = append(u, 1)
	}
	size := floats.Max(absolute(u))
	switch kind {
	case "l1":
		r.Lambda = g.weigh(size)
	case "weightedl1":
		g.weightedL1(&r, u)
	case "groupl2", "grouplinf":
		g.groups(&r, u)
	case "slope":
		g.slope(&r, u)
	}
	return r
}

// scaledBy is the regularizer times f.
func (r Reg) scaledBy(f float64) Reg {
	r = r.clone()
	r.rescale(f, f, 1)
	return r
}

// nearBreakpoint moves the weight to one at which the divergence changes, or near it.
func (g *draw) nearBreakpoint() {
	var faces []weighted // on either side
	lost := false        // the reference does not solve it
	at := func(f float64) float64 {
		if lost {
			return 0
		}
		c := *g.c
		c.Reg = g.c.Reg.scaledBy(f)
		k := newCanonical(&c)
		s, found := k.onFaceOf(faces, f)
		if !found {
			s = k.solve()
			faces = append(faces[max(0, len(faces)-3):], weighted{s, f})
			lost = !(s.gap <= settled*norm2(k.y).Hi)
		}
		return k.differentiate(s, k.strict(s)).trace
	}
	lo, hi := 1.0, 1.0
	from := at(lo)
	step := pick(g, []float64{1.2, 0.8}, []float64{1, 1})
	for range 8 {
		if lo, hi = hi, hi*step; math.Abs(at(hi)-from) > 1e-3 {
			break
		}
	}
	if lost || math.Abs(at(hi)-from) <= 1e-3 {
		return
	}
	for range 40 {
		if middle := (lo + hi) / 2; math.Abs(at(middle)-from) > 1e-3 {
			hi = middle
		} else {
			lo = middle
		}
	}
	if lost {
		return
	}
	weight := &g.c.Reg.Lambda
	if g.c.Reg.Kind == "slope" {
		weight = &g.c.Reg.Weights[0]
	}
	if exact := math.Round(*weight * hi); g.chance(0.4) && exact > 0 && math.Abs(exact-*weight*hi) < 1e-9*exact {
		f := exact / *weight
		g.feature("at a breakpoint")
		g.c.Reg = g.c.Reg.scaledBy(f)
		*weight = exact
		return
	}
	g.feature("near a breakpoint")
	off := g.between(1e-9, 1e-2)
	if g.chance(0.5) {
		off = -off
	}
	g.c.Reg = g.c.Reg.scaledBy(hi * (1 + off))
}

// weighted is a solution at a factor of the weights.
type weighted struct {
	solution
	factor float64
}

// onFaceOf is the solution at the factor f where it is on the face of another one.
func (k *canonical) onFaceOf(others []weighted, f float64) (solution, bool) {
	for i := len(others) - 1; i >= 0; i-- {
		u := slices.Clone(others[i].g)
		for j, v := range u {
			u[j] = v.Mul(num(f / others[i].factor))
		}
		s := k.certifyBehind(others[i].b, others[i].z, u)
		for range 2 {
			if s = k.polishBehind(s); s.gap <= settled*norm2(k.y).Hi {
				return s, true
			}
		}
	}
	return solution{}, false
}
