package faces

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// grouped is a random problem with n coordinates, d rows and groups of 1, 2, 3, ... coordinates that
// are scattered; the last column is a copy of the first, where dependent is set.
func grouped(seed uint64, d, n int, dependent bool) (p *Groups, linear []float64, pen Penalty) {
	rng := rand.New(rand.NewPCG(seed, 2))
	x, y := mat.NewDense(d, n, nil), mat.NewVecDense(d, nil)
	for i := range d {
		for j := range n {
			x.Set(i, j, rng.NormFloat64())
		}
		y.SetVec(i, 3*rng.NormFloat64()+x.At(i, 0)+x.At(i, 1))
	}
	if dependent {
		x.SetCol(n-1, mat.Col(nil, 0, x))
	}
	var g mat.Dense
	g.Mul(x.T(), x)
	var c mat.VecDense
	c.MulVec(x.T(), y)
	pen = Penalty{W: make([]float64, n), Group: make([]int, n)}
	order := rng.Perm(n)
	for at, size := 0, 1; at < n; size++ {
		for range size {
			if at < n {
				pen.Group[order[at]] = 100 + size
				at++
			}
		}
	}
	linear = make([]float64, n)
	for j := range n {
		linear[j] = -c.AtVec(j)
	}
	for j, g := range pen.Group {
		pen.W[j] = 0.3 * math.Sqrt(float64(d)) * float64(1+g%3)
	}
	p = &Groups{Point: Point{Floor: 1e-12, Cut: 1e-12}}
	half := n / 2 // coordinates may come in parts
	for _, part := range [][2]int{{0, half}, {half, n}} {
		from, to := part[0], part[1]
		p.Extend(Penalty{W: pen.W[from:to], Group: pen.Group[from:to]}, linear[from:to])
		for i := from; i < to; i++ {
			for j := range i + 1 {
				p.Set(i, j, g.At(i, j))
			}
		}
		p.Ready()
	}
	return p, linear, pen
}

// checkGroups fails unless the conditions of optimality hold, by a gradient of their own.
func checkGroups(t *testing.T, p *Groups, linear []float64, w []float64) {
	t.Helper()
	grad := make([]float64, len(linear))
	for j := range grad {
		grad[j] = linear[j] + dot(p.Gram(j), p.B)
	}
	for g, list := range p.members {
		b, e := p.part(p.B, g), p.part(grad, g)
		weight, size := w[list[0]], norm(b)
		if math.IsInf(weight, 1) {
			if size != 0 {
				t.Errorf("group %d of infinite weight is %v", g, b)
			}
			continue
		}
		off := max(norm(e)-weight, 0)
		if size > 0 {
			lin(e, weight/size, b)
			off = norm(e)
		}
		if !(off*p.scale[list[0]] <= 1e-9) {
			t.Errorf("group %d is off by %g", g, off*p.scale[list[0]])
		}
	}
}

// Along a path of weights every minimum is one, also with more columns than rows, dependent columns,
// groups without a weight and groups held at 0.
func TestMinimumOverGroups(t *testing.T) {
	for seed := range uint64(30) {
		p, linear, pen := grouped(seed, 10+2*int(seed), 36, seed%3 == 1)
		p.Start(make([]float64, 36))
		rng := rand.New(rand.NewPCG(seed, 3))
		for step := range 8 {
			to := Penalty{W: make([]float64, 36), Group: pen.Group}
			for j, w := range pen.W {
				to.W[j] = w * math.Pow(0.6, float64(step))
			}
			if step == 4 && seed%2 == 0 {
				free, held := pen.Group[rng.IntN(36)], pen.Group[rng.IntN(36)]
				for j, g := range pen.Group {
					switch g {
					case free:
						to.W[j] = 0
					case held:
						to.W[j] = math.Inf(1)
					}
				}
			}
			p.Reweight(to)
			if _, err := p.Minimize(t.Context(), func() {}, 500); err != nil {
				t.Fatal(err)
			}
			checkGroups(t, p, linear, to.W)
		}
	}
}

// The inverse for several outcomes, from the Gram matrix of the columns, is that of the whole matrix: along a path both
// have the same minima, and afterwards the same traces, solutions and forms.
func TestSeveralOutcomes(t *testing.T) {
	const columns, k = 7, 3
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 4))
		x := mat.NewDense(20, columns, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		var gram mat.Dense
		gram.Mul(x.T(), x)
		n := columns * k
		linear, pen := make([]float64, n), Penalty{W: make([]float64, n), Group: make([]int, n)}
		for i := range n {
			pen.Group[i] = min(i/k, columns-2) // the last two columns are a group
			pen.W[i], linear[i] = 2, 8*rng.NormFloat64()
			if i/k == 1 {
				pen.W[i] = 0
			}
		}
		var both [2]*Groups
		for way := range both {
			p := &Groups{Point: Point{Floor: 1e-12, Cut: 1e-12, Outcomes: way * k}}
			for _, part := range [][2]int{{0, n / 2}, {n / 2, n}} { // also of a part of the outcomes of a column
				from, to := part[0], part[1]
				p.Extend(Penalty{W: pen.W[from:to], Group: pen.Group[from:to]}, linear[from:to])
				for i := from; i < to; i++ {
					for j := range i + 1 {
						if p.Set(i, j, 0); i%k == j%k {
							p.Set(i, j, gram.At(i/k, j/k))
						}
					}
				}
				p.Ready()
			}
			p.Start(make([]float64, n))
			for _, share := range []float64{4, 1, 0.3} {
				to := Penalty{W: make([]float64, n), Group: pen.Group}
				for j, w := range pen.W {
					to.W[j] = share * w
				}
				p.Reweight(to)
				if _, err := p.Minimize(t.Context(), func() {}, 500); err != nil {
					t.Fatal(err)
				}
				checkGroups(t, p, linear, to.W)
			}
			both[way] = p
		}
		whole, p := both[0], both[1]
		trace, square, _ := whole.Traces()
		ownTrace, ownSquare, _ := p.Traces()
		if _, ok := p.inverse.(several); !ok || !(p.Condition() >= 1) {
			t.Fatalf("the inverse is a %T, of condition %v", p.inverse, p.Condition())
		}
		if math.Abs(trace-ownTrace) > 1e-9 || math.Abs(square-ownSquare) > 1e-9 {
			t.Errorf("traces %v and %v, want %v and %v", ownTrace, ownSquare, trace, square)
		}
		v := make([]float64, 2*len(p.active))
		for i := range v {
			v[i] = float64(i%5) - 2
		}
		left, right := slices.Clone(v), slices.Clone(v)
		whole.SolveEach(left, 2)
		p.SolveEach(right, 2)
		form := func(w blas64.General) float64 { return dot(w.Data[:w.Cols], w.Data[:w.Cols]) }
		a, b := form(whole.Half(slices.Clone(v), 2)), form(p.Half(slices.Clone(v), 2))
		if !floats.EqualApprox(left, right, 1e-9) || math.Abs(a-b) > 1e-9*a {
			t.Errorf("solutions %v and %v, forms %v and %v", left, right, a, b)
		}
	}
}

// The factor solves the system on the groups that are not 0, and its traces are those of the dense
// matrices.
func TestGroupsFactor(t *testing.T) {
	for seed := range uint64(10) {
		p, _, pen := grouped(seed, 40, 30, false)
		p.Start(make([]float64, 30))
		p.Reweight(Penalty{W: pen.W, Group: pen.Group})
		if _, err := p.Minimize(t.Context(), func() {}, 500); err != nil {
			t.Fatal(err)
		}
		n := len(p.active)
		if n == 0 || n == 30 {
			continue
		}
		g, k := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
		for i, a := range p.active {
			size := norm(p.part(p.B, p.group[a]))
			for c, b := range p.active {
				g.Set(i, c, p.Gram(a)[b])
				q := 0.0
				if p.group[a] == p.group[b] {
					if q = -p.B[a] * p.B[b] / (size * size); a == b {
						q++
					}
					q *= p.w[p.group[a]] / size
				}
				k.Set(i, c, g.At(i, c)+q)
			}
		}
		var inverse, d, d2 mat.Dense
		if err := inverse.Inverse(k); err != nil {
			t.Fatal(err)
		}
		d.Mul(&inverse, g)
		d2.Mul(&d, &d)
		trace, frobenius2, projection := p.Traces()
		if !(math.Abs(trace-mat.Trace(&d)) <= 1e-9) || !(math.Abs(frobenius2-mat.Trace(&d2)) <= 1e-9) || projection {
			t.Errorf("traces %v and %v, want %v and %v", trace, frobenius2, mat.Trace(&d), mat.Trace(&d2))
		}
		x := make([]float64, 2*n)
		for i := range x {
			x[i] = float64(i%7) - 3
		}
		want := mat.NewDense(2, n, nil)
		want.Mul(mat.NewDense(2, n, x), &inverse)
		form := mat.Dot(mat.NewVecDense(n, x[:n]), want.RowView(0))
		var row mat.VecDense
		root := p.Half(Identity(n), n)
		row.MulVec(mat.NewDense(n, root.Cols, root.Data).T(), mat.NewVecDense(n, x[:n]))
		if got := mat.Dot(&row, &row); !(math.Abs(got-form) <= 1e-9*form) {
			t.Errorf("form %v, want %v", got, form)
		}
		p.SolveEach(x, 2)
		if !mat.EqualApprox(mat.NewDense(2, n, x), want, 1e-9) {
			t.Error("the factor does not solve the system")
		}
		norm1 := func(m mat.Matrix) float64 { return mat.Norm(m, 1) }
		for i := range n {
			for c := range n {
				s := p.dense.unit[i] * p.dense.unit[c]
				k.Set(i, c, k.At(i, c)*s)
				inverse.Set(i, c, inverse.At(i, c)/s)
			}
		}
		if got, most := p.Condition(), norm1(k)*norm1(&inverse); !(got >= most/3 && got <= 1.01*most) {
			t.Errorf("condition %v, want %v", got, most)
		}
	}
}

// Of columns that are equal up to a factor one has the coefficients of all at the minimum.
func TestEqualColumnsOfSeveralOutcomes(t *testing.T) {
	const columns, k = 6, 4
	const n = columns * k
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 5))
		x, y := mat.NewDense(20, columns, nil), mat.NewDense(20, k, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		y.Apply(func(i, j int, _ float64) float64 { return x.At(i, 0) - x.At(i, 3) + rng.NormFloat64() }, y)
		for i := range 20 {
			x.Set(i, 1, -x.At(i, 0))
			x.Set(i, 2, x.At(i, 0))
			x.Set(i, 4, x.At(i, 3))
		}
		var gram, c mat.Dense
		gram.Mul(x.T(), x)
		c.Mul(x.T(), y)
		linear, pen := make([]float64, n), Penalty{W: make([]float64, n), Group: make([]int, n)}
		for i := range n {
			pen.Group[i], pen.W[i], linear[i] = i/k, 1, -c.At(i/k, i%k)
		}
		p := &Groups{Point: Point{Floor: 1e-12, Cut: 1e-12, Outcomes: k}}
		p.Extend(pen, linear)
		for i := range n {
			for j := range i + 1 {
				if p.Set(i, j, 0); i%k == j%k {
					p.Set(i, j, gram.At(i/k, j/k))
				}
			}
		}
		p.Ready()
		start := make([]float64, n)
		for i := range 3 * k {
			start[i] = []float64{1, -1, 1}[i/k] * float64(1+i%k) // three columns have them
		}
		p.Start(start)
		if _, err := p.Minimize(t.Context(), func() {}, 500); err != nil {
			t.Fatal(err)
		}
		checkGroups(t, p, linear, pen.W)
		var free []int
		for g := range columns {
			if norm(p.part(p.B, g)) > 0 {
				free = append(free, g)
			}
		}
		if len(free) > 3 || !(p.Condition() < 1e6) {
			t.Errorf("columns %v have coefficients, the condition number is %v", free, p.Condition())
		}
	}
}
