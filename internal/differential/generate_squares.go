package differential

import (
	"math"
	"slices"
)

// squares occasionally adds squares behind operators to a case, or makes it a sum of squares alone, or
// Whittaker smoothing. It draws last, so that the other cases are what they would be without it.
func (g *draw) squares() {
	if g.c.Name != "" || !g.chance(0.15) {
		return
	}
	switch {
	case g.chance(0.2):
		g.whittaker()
	case g.chance(0.6):
		g.smoother()
	default:
		g.besideSquares()
	}
}

// smoother is a sum of squares alone: all linear in y, and exact.
func (g *draw) smoother() {
	*g.c = Case{Seed: g.c.Seed, Index: g.c.Index, Sigma2: 1}
	g.c.Op = g.operator()
	p := g.c.Op.Cols
	g.observe()
	g.c.Reg = Reg{Kind: "zero", N: p}
	for range 1 + g.IntN(3) {
		g.c.Squares = append(g.c.Squares, g.square(p, 1e-8, 1e12))
	}
	g.scales()
	g.options()
	g.c.Solver, g.c.MaxIter = pick(g, []string{"direct", "", "admm"}, []float64{5, 4, 1}), 0
	if g.c.Solver != "admm" {
		g.c.Derivative = "auto"
	}
}

// besideSquares adds squares to the regularizer of the case.
func (g *draw) besideSquares() {
	p := g.c.Op.Cols
	for range 1 + g.IntN(2) {
		g.c.Squares = append(g.c.Squares, g.square(p, 1e-3, 1e2))
	}
	g.c.Solver = pick(g, []string{"", "admm"}, []float64{5, 3})
	if kind := g.c.Reg.Kind; kind == "zero" || kind == "ridge" {
		g.c.Derivative = "auto"
	}
}

// square is one term on p coordinates; its weight is between shares of the size of A's columns.
func (g *draw) square(p int, least, most float64) Square {
	top := g.largestColumn(0, p)
	if top == 0 {
		top = 1
	}
	k := g.squared(p)
	m, _ := k.matrix()
	size := slices.Max(append(m.columnNorms(), 0))
	if size == 0 {
		size = 1
	}
	return Square{k, g.between(least, most) * (top / size) * (top / size)}
}

// squared is an operator on p coordinates for a square to stand behind.
func (g *draw) squared(p int) Op {
	kinds := []string{"differences", "identity", "difference2d", "csr", "dense", "band"}
	switch pick(g, kinds, []float64{8, 2, 3, 2, 2, 2}) {
	case "differences":
		if order := 1 + g.IntN(3); order < p {
			return Op{Kind: "differences", Rows: p - order, Cols: p}
		}
	case "difference2d":
		for rows := 2 + g.IntN(4); rows > 0; rows-- {
			if cols := p / rows; cols*rows == p && cols > 1 {
				return Op{Kind: "difference2d", Rows: (rows-1)*cols + rows*(cols-1), Cols: p, Shape: [2]int{rows, cols}}
			}
		}
	case "csr":
		return g.numbers("csr", g.length(), p)
	case "dense":
		return g.numbers("dense", g.length(), p)
	case "band":
		o := Op{Kind: "csr", Rows: g.length(), Cols: p}
		o.Data = make([]float64, o.Rows*p)
		for i := range o.Rows {
			for j := i; j < min(i+3, p); j++ {
				o.Data[i*p+j] = g.NormFloat64()
			}
		}
		return o
	}
	return identity(p)
}

// whittaker is the named problem, with gaps and uneven places.
func (g *draw) whittaker() {
	order := 1 + g.IntN(4)
	n := order + 1 + g.IntN(20)
	k := Op{Kind: "differences", Rows: n - order, Cols: n}
	if g.chance(0.4) {
		x := g.between(1e-3, 1e3)
		for i := range n {
			k.Data = append(k.Data, x*(float64(i)+0.95*g.Float64()))
		}
	}
	*g.c = Case{Seed: g.c.Seed, Index: g.c.Index, Name: "whittaker", Sigma2: 1, Op: identity(n)}
	if g.chance(0.5) {
		g.c.Op = g.selection(n)
		slices.Sort(g.c.Op.Index)
		if g.c.Op.Rows == n {
			g.c.Op = identity(n)
		}
	}
	g.observe()
	g.c.Reg = Reg{Kind: "zero", N: n}
	g.c.Squares = []Square{{k, g.between(1e-6, 1e12)}}
	if g.chance(0.1) {
		g.scaleY(math.Pow(10, float64(g.IntN(101)-50)))
	}
	g.options()
	g.c.Solver, g.c.Derivative, g.c.MaxIter = "", "auto", 0
}
