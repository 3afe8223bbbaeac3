package differential

import (
	"math"
	"slices"
)

// operator draws an operator on vectors.
func (g *draw) operator() Op {
	d, p := g.length(), g.length()
	kind := pick(g, []string{"dense", "csr", "identity", "selection", "hstack", "compose", "scale", "difference1d",
		"difference2d", "centered"},
		[]float64{45, 14, 6, 5, 6, 6, 5, 2, 2, 11})
	switch kind {
	case "identity":
		return identity(d)
	case "selection":
		return g.selection(p)
	case "hstack":
		switch g.IntN(3) {
		case 0:
			return Op{Kind: kind, Rows: d, Cols: 2 * d, Parts: []Op{identity(d), identity(d)}}
		case 1:
			return Op{Kind: kind, Rows: d, Cols: d + p, Parts: []Op{identity(d), g.numbers("dense", d, p)}}
		}
		q := g.length()
		return Op{Kind: kind, Rows: d, Cols: p + q, Parts: []Op{g.numbers("dense", d, p), g.numbers("csr", d, q)}}
	case "compose":
		return g.composition(d, p)
	case "scale":
		part := g.numbers("dense", d, p)
		if g.chance(0.3) {
			part = identity(d)
		}
		return Op{Kind: kind, Rows: part.Rows, Cols: part.Cols, Alpha: g.between(1e-3, 1e3), Parts: []Op{part}}
	case "difference1d":
		p = max(p, 2)
		return Op{Kind: kind, Rows: p - 1, Cols: p}
	case "difference2d":
		shape := [2]int{1 + g.IntN(4), 2 + g.IntN(3)}
		rows := (shape[0]-1)*shape[1] + shape[0]*(shape[1]-1)
		return Op{Kind: kind, Rows: rows, Cols: shape[0] * shape[1], Shape: shape}
	case "centered":
		d = max(d, 2)
		g.c.Intercept = true
		x := g.numbers(pick(g, []string{"dense", "csr"}, []float64{3, 1}), d, p)
		return Op{Kind: kind, Rows: d, Cols: p, Parts: []Op{x}}
	}
	return g.numbers(kind, d, p)
}

// composition is a product of two operators.
func (g *draw) composition(d, p int) Op {
	switch g.IntN(3) {
	case 0:
		q := max(p, 2)
		return Op{Kind: "compose", Rows: d, Cols: q, Parts: []Op{
			g.numbers("dense", d, q-1), {Kind: "difference1d", Rows: q - 1, Cols: q}}}
	case 1:
		s := g.selection(d)
		return Op{Kind: "compose", Rows: s.Rows, Cols: p, Parts: []Op{s, g.numbers("dense", d, p)}}
	}
	q := g.length()
	return Op{Kind: "compose", Rows: d, Cols: p, Parts: []Op{g.numbers("dense", d, q), g.numbers("csr", q, p)}}
}

// selection picks some of n coordinates, at least one, in any order.
func (g *draw) selection(n int) Op {
	index := g.Perm(n)[:1+g.IntN(n)]
	if g.chance(0.7) {
		slices.Sort(index)
	}
	return Op{Kind: "selection", Rows: len(index), Cols: n, Index: index}
}

// matrixOperator is one on matrices of a shape.
func (g *draw) matrixOperator(shape [2]int) Op {
	n := shape[0] * shape[1]
	switch pick(g, []string{"selection", "identity", "dense", "scale", "csr"}, []float64{6, 2, 2, 1, 1}) {
	case "selection":
		if g.chance(0.2) {
			// One entry in every row.
			g.feature("one entry a row")
			var index []int
			for i := range shape[0] {
				index = append(index, i*shape[1]+g.IntN(shape[1]))
			}
			return Op{Kind: "selection", Rows: len(index), Cols: n, Index: index}
		}
		return g.selection(n)
	case "identity":
		return identity(n)
	case "scale":
		s := g.selection(n)
		return Op{Kind: "scale", Rows: s.Rows, Cols: n, Alpha: g.between(1e-3, 1e3), Parts: []Op{s}}
	case "csr":
		return g.numbers("csr", 1+g.IntN(12), n)
	}
	return g.numbers("dense", 1+g.IntN(12), n)
}

// numbers is a dense or sparse matrix with hostile features.
func (g *draw) numbers(kind string, d, p int) Op {
	o := Op{Kind: kind, Rows: d, Cols: p, Data: g.gaussian(d*p, 1)}
	if kind == "csr" {
		share := g.between(0.15, 0.8)
		for i := range o.Data {
			if !g.chance(share) {
				o.Data[i] = 0
			}
		}
	}
	if g.chance(0.15) {
		g.feature("integer X")
		for i, v := range o.Data {
			o.Data[i] = math.Round(1.5 * v)
		}
	}
	if g.chance(0.05) {
		g.feature("one entry a row")
		for i := range d {
			at := g.IntN(p)
			for j := range p {
				if j != at {
					o.Data[i*p+j] = 0
				}
			}
		}
	}
	if g.chance(0.08) {
		g.feature("empty row")
		row := g.IntN(d)
		clear(o.Data[row*p : (row+1)*p])
	}
	if p > 1 {
		g.dependence(o)
	}
	g.columns(o)
	return o
}

// set writes column j as f of the row.
func (o Op) set(j int, f func(row []float64, i int) float64) {
	for i := range o.Rows {
		row := o.Data[i*o.Cols : (i+1)*o.Cols]
		row[j] = f(row, i)
	}
}

// dependence makes columns that depend on each other, exactly or nearly.
func (g *draw) dependence(o Op) {
	three := g.Perm(o.Cols)
	a, b := three[0], three[1]
	c := three[len(three)-1]
	if g.chance(0.10) {
		g.feature("duplicate columns")
		f := pick(g, []float64{1, -1, 2, 0.125}, []float64{4, 2, 1, 1})
		o.set(a, func(row []float64, _ int) float64 { return f * row[b] })
	}
	if g.chance(0.08) && o.Cols > 2 {
		g.feature("dependent columns")
		for i, v := range o.Data {
			o.Data[i] = math.Round(v*1024) / 1024 // sums are exact
		}
		o.set(a, func(row []float64, _ int) float64 { return row[b] + row[c] })
	}
	if g.chance(0.01) && o.Cols > 2 {
		g.feature("dependent to rounding")
		o.set(a, func(row []float64, _ int) float64 { return 0.1*row[b] + 0.3*row[c] })
	}
	if g.chance(0.04) {
		g.feature("near duplicates")
		f := g.between(1e-7, 1e-2)
		o.set(a, func(row []float64, _ int) float64 { return row[b] + f*g.NormFloat64() })
	}
}

// columns gives columns units, constants and zeros.
func (g *draw) columns(o Op) {
	if g.chance(0.08) {
		g.feature("zero column")
		o.set(g.IntN(o.Cols), func([]float64, int) float64 { return 0 })
	}
	switch {
	case g.chance(0.08):
		g.feature("units over 16 decades")
		for j := range o.Cols {
			f := g.between(1e-8, 1e8)
			o.set(j, func(row []float64, _ int) float64 { return f * row[j] })
		}
	case g.chance(0.08):
		g.feature("units over 4 decades")
		for j := range o.Cols {
			f := g.between(1e-2, 1e2)
			o.set(j, func(row []float64, _ int) float64 { return f * row[j] })
		}
	case g.chance(0.05):
		g.feature("one large column")
		j, f := g.IntN(o.Cols), g.between(1e3, 1e12)
		o.set(j, func(row []float64, _ int) float64 { return f * row[j] })
	}
	if centered := g.c.Intercept; centered && g.chance(0.25) || g.chance(0.04) {
		g.feature("uncentred column")
		j, f := g.IntN(o.Cols), math.Round(g.between(1e2, 1e9))
		o.set(j, func(row []float64, _ int) float64 { return f + row[j] })
	}
	if g.chance(0.02) {
		g.feature("constant column")
		f := math.Round(g.between(1, 1e9))
		o.set(g.IntN(o.Cols), func([]float64, int) float64 { return f })
	}
}
