package differential

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/problems"
)

// names are the named problems that are drawn. Groups are drawn with the regularizers; for patches of low
// rank, and regularizers behind an operator, there is no reference here.
var names = []string{"ols", "ridge", "lasso", "elastic-net", "svt", "matrix-completion", "robust-pca", "tv1d"}

// named draws a problem that problems.New makes, and describes its operator and regularizer as an
// Op and a Reg.
func (g *draw) named() {
	g.c.Name = names[g.IntN(len(names))]
	switch g.c.Name {
	case "ols", "ridge", "lasso", "elastic-net":
		d, p := g.length(), g.length()
		kind := pick(g, []string{"dense", "csr"}, []float64{3, 1})
		if g.c.Intercept = d > 1 && g.chance(0.4); g.c.Intercept {
			g.c.Op = Op{Kind: "centered", Rows: d, Cols: p, Parts: []Op{g.numbers(kind, d, p)}}
		} else {
			g.c.Op = g.numbers(kind, d, p)
		}
		g.observe()
		as := map[string]string{"ols": "zero", "ridge": "ridge", "lasso": "l1", "elastic-net": "elasticnet"}
		g.c.Reg = g.regularizer(as[g.c.Name], 0, p, [2]int{})
	case "svt", "matrix-completion":
		shape := [2]int{g.side(), g.side()}
		n := shape[0] * shape[1]
		if g.c.Op = identity(n); g.c.Name == "matrix-completion" {
			g.c.Op = g.selection(n)
		}
		g.observe()
		g.clusters(shape)
		g.c.Reg = g.regularizer("nuclear", 0, n, shape)
	case "robust-pca":
		shape := [2]int{1 + g.IntN(5), 1 + g.IntN(5)}
		n := shape[0] * shape[1]
		g.c.Op = Op{Kind: "hstack", Rows: n, Cols: 2 * n, Parts: []Op{identity(n), identity(n)}}
		g.observe()
		g.c.Reg = Reg{Kind: "separable", N: 2 * n, Blocks: []Reg{
			g.regularizer("nuclear", 0, n, shape), g.regularizer("l1", n, n, shape)}}
	case "tv1d":
		rows, n := 1, max(g.length(), 2)
		if g.chance(0.3) {
			rows = 1 + g.IntN(4)
			n = 2 + g.IntN(5)
		}
		g.c.Op = identity(rows * n)
		g.observe()
		one := g.regularizer("tv1d", 0, n, [2]int{})
		g.c.Reg = one
		if rows > 1 {
			g.c.Reg = Reg{Kind: "separable", N: rows * n}
			for range rows {
				g.c.Reg.Blocks = append(g.c.Reg.Blocks, one)
			}
		}
	}
	unscaled(&g.c.Reg)
}

// unscaled writes the factor of prox.NewScaled into the weights.
func unscaled(r *Reg) {
	if r.Scale != 0 {
		f := r.Scale
		r.Scale = 0
		r.rescale(f, f, 1)
	}
	for i := range r.Blocks {
		unscaled(&r.Blocks[i])
	}
}

// clusters occasionally makes y a matrix with repeated or nearly repeated singular values.
func (g *draw) clusters(shape [2]int) {
	if g.c.Name != "svt" || !g.chance(0.25) {
		return
	}
	g.feature("clustered singular values")
	m, n := shape[0], shape[1]
	clear(g.c.Y)
	apart := pick(g, []float64{0, 1e-12, 1e-6}, []float64{2, 1, 1})
	for i := range min(m, n) {
		g.c.Y[i*n+i] = 5 + apart*float64(i)
	}
	if g.chance(0.5) {
		// The same after a rotation from the left.
		var q mat.QR
		q.Factorize(mat.NewDense(m, m, g.gaussian(m*m, 1)))
		var u, r mat.Dense
		q.QTo(&u)
		r.Mul(&u, mat.NewDense(m, n, append([]float64(nil), g.c.Y...)))
		copy(g.c.Y, r.RawMatrix().Data)
	}
}

// problem is the named problem on a device.
func (c *Case) problem(dev array.Device) (*problems.Problem, error) {
	data := problems.Data{Y: c.Y, Intercept: c.Intercept}
	hyper := problems.Hyper{}
	x := c.Op
	if x.Kind == "centered" {
		x = x.Parts[0]
	}
	absolute := func(w float64) problems.Weight { return problems.Absolute(w) }
	switch c.Name {
	case "ols", "ridge", "lasso", "elastic-net":
		if x.Kind == "csr" {
			data.X = problems.Matrix{Sparse: x.sparse()}
		} else {
			data.X = mat.NewDense(x.Rows, x.Cols, append([]float64(nil), x.Data...))
		}
		if c.Name != "ols" {
			hyper.Lambda = absolute(c.Reg.Lambda)
		}
		if c.Name == "elastic-net" {
			hyper.Lambda2 = absolute(c.Reg.Lambda2)
		}
	case "whittaker":
		order := c.Op.Cols - c.Squares[0].Op.Rows
		data.Order, data.At, data.YShape = &order, c.Squares[0].Op.Data, []int{len(c.Y)}
		hyper.Lambda = absolute(c.Squares[0].Lambda)
		if c.Op.Index != nil {
			data.Indices, data.Shape = c.Op.Index, []int{c.Op.Cols}
		}
	case "svt":
		data.YShape = c.Reg.Shape[:]
		hyper.Lambda = absolute(c.Reg.Lambda)
	case "matrix-completion":
		data.Indices, data.Shape = x.Index, c.Reg.Shape[:]
		hyper.Lambda = absolute(c.Reg.Lambda)
	case "robust-pca":
		data.YShape = c.Reg.Blocks[0].Shape[:]
		hyper.Lambda, hyper.Gamma = absolute(c.Reg.Blocks[0].Lambda), absolute(c.Reg.Blocks[1].Lambda)
	case "tv1d":
		hyper.Lambda = absolute(c.Reg.Lambda)
		if c.Reg.Kind == "separable" {
			data.YShape = []int{len(c.Reg.Blocks), c.Reg.Blocks[0].N}
			hyper.Lambda = absolute(c.Reg.Blocks[0].Lambda)
		}
	}
	return problems.New(c.Name, dev, data, hyper)
}
