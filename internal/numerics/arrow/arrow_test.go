package arrow_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/numerics/arrow"
)

// solution is a completion's minimum by singular value thresholding, with effects by alternation, to rounding.
func solution(t *testing.T, m, n, rank int, share, lambda float64, rows, cols, weighted bool) arrow.Completion {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	c := arrow.Completion{Rows: m, Cols: n, RowEffects: rows, ColEffects: cols, Lambda: lambda}
	truth := mat.NewDense(m, n, nil)
	var l, r mat.Dense
	random := func(k int) *mat.Dense {
		x := mat.NewDense(k, rank, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		return x
	}
	l.CloneFrom(random(m))
	r.CloneFrom(random(n))
	truth.Mul(&l, r.T())
	var y, w []float64
	for i := range m {
		for j := range n {
			if rng.Float64() < share || j == i%n {
				c.Row, c.Col = append(c.Row, int32(i)), append(c.Col, int32(j))
				y = append(y, truth.At(i, j)+rng.NormFloat64()+3*float64(i%3)+float64(j%2))
				w = append(w, 1)
				if weighted {
					w[len(w)-1] = 0.2 + rng.Float64()
				}
			}
		}
	}
	rng.Shuffle(len(y), func(a, b int) {
		c.Row[a], c.Row[b] = c.Row[b], c.Row[a]
		c.Col[a], c.Col[b] = c.Col[b], c.Col[a]
		y[a], y[b] = y[b], y[a]
		w[a], w[b] = w[b], w[a]
	})
	b, a, s := mat.NewDense(m, n, nil), make([]float64, m), make([]float64, n)
	fit := func(of []int32, to, other []float64, others []int32) {
		sum, weight := make([]float64, len(to)), make([]float64, len(to))
		for e, i := range of {
			sum[i] += w[e] * (y[e] - b.At(int(c.Row[e]), int(c.Col[e])) - other[others[e]])
			weight[i] += w[e]
		}
		for i := range to {
			to[i] = sum[i] / weight[i]
		}
	}
	var u, v mat.Dense
	var values []float64
	k := 0
	for range 20000 {
		for range 5 {
			if rows {
				fit(c.Row, a, s, c.Col)
			}
			if cols {
				fit(c.Col, s, a, c.Row)
			}
		}
		x := mat.DenseCopyOf(b)
		for e, i := range c.Row {
			j := c.Col[e]
			at := b.At(int(i), int(j))
			x.Set(int(i), int(j), at-w[e]*(at+a[i]+s[j]-y[e]))
		}
		var svd mat.SVD
		svd.Factorize(x, mat.SVDThin)
		values = svd.Values(nil)
		svd.UTo(&u)
		svd.VTo(&v)
		for k = 0; k < len(values) && values[k] > lambda; k++ {
		}
		left, right := mat.NewDense(m, len(values), nil), mat.NewDense(n, len(values), nil)
		left.Apply(func(_, j int, x float64) float64 { return x * math.Sqrt(max(values[j]-lambda, 0)) }, &u)
		right.Apply(func(_, j int, x float64) float64 { return x * math.Sqrt(max(values[j]-lambda, 0)) }, &v)
		var next mat.Dense
		next.Mul(left, right.T())
		x.Sub(&next, b)
		b.CloneFrom(&next)
		c.K = k
		c.L = mat.DenseCopyOf(left.Slice(0, m, 0, max(k, 1))).RawMatrix().Data
		c.R = mat.DenseCopyOf(right.Slice(0, n, 0, max(k, 1))).RawMatrix().Data
		if mat.Norm(x, 2) < 1e-15*mat.Norm(b, 2) {
			break
		}
	}
	if weighted {
		c.Weights = w
	}
	for e, i := range c.Row {
		c.Misfit = append(c.Misfit, b.At(int(i), int(c.Col[e]))+a[i]+s[c.Col[e]]-y[e])
	}
	return c
}

// dense is D mu_hat by the pseudo-inverse of the whole second derivative.
func dense(c arrow.Completion) *mat.Dense {
	k, total := c.K, (c.Rows+c.Cols)*(c.K+1)
	at := func(column bool, i int) int {
		if column {
			i += c.Rows
		}
		return i * (k + 1)
	}
	h, g := mat.NewSymDense(total, nil), mat.NewDense(len(c.Row), total, nil)
	add := func(i, j int, v float64) { h.SetSym(i, j, h.At(i, j)+v) }
	for e := range c.Row {
		i, j, w := int(c.Row[e]), int(c.Col[e]), 1.0
		if c.Weights != nil {
			w = c.Weights[e]
		}
		row := g.RawRowView(e)
		for t := range k {
			row[at(false, i)+t] = c.R[j*k+t] * math.Sqrt(w)
			row[at(true, j)+t] = c.L[i*k+t] * math.Sqrt(w)
			add(at(false, i)+t, at(true, j)+t, w*c.Misfit[e])
		}
		if c.RowEffects {
			row[at(false, i)+k] = math.Sqrt(w)
		}
		if c.ColEffects {
			row[at(true, j)+k] = math.Sqrt(w)
		}
	}
	for i := range c.Rows + c.Cols {
		for t := range k {
			add(i*(k+1)+t, i*(k+1)+t, c.Lambda)
		}
	}
	var gg mat.SymDense
	gg.SymOuterK(1, g.T())
	h.AddSym(h, &gg)
	var eig mat.EigenSym
	eig.Factorize(h, true)
	var v, image mat.Dense
	eig.VectorsTo(&v)
	values := eig.Values(nil)
	image.Mul(g, &v)
	image.Apply(func(_, s int, x float64) float64 {
		if values[s] < 1e-9*values[total-1] {
			return 0
		}
		return x / math.Sqrt(values[s])
	}, &image)
	var out mat.Dense
	out.Mul(&image, image.T())
	return &out
}

// Leverages, squares and images are those of the dense pseudo-inverse: tall and wide, with effects and weights.
func TestArrowAgainstDenseAlgebra(t *testing.T) {
	for _, shape := range [][2]int{{12, 7}, {7, 12}, {9, 9}, {30, 4}} {
		for _, effects := range [][2]bool{{}, {true, false}, {false, true}, {true, true}} {
			for _, weighted := range []bool{false, true} {
				for _, lambda := range []float64{0.7, 2.5} {
					name := fmt.Sprint(shape, effects, weighted, lambda)
					c := solution(t, shape[0], shape[1], 3, 0.7, lambda, effects[0], effects[1], weighted)
					if c.K == 0 {
						continue
					}
					compare(t, name, c)
				}
			}
		}
	}
}

func compare(t *testing.T, name string, c arrow.Completion) {
	t.Helper()
	want := dense(c)
	a, err := arrow.New(context.Background(), c)
	if err != nil {
		t.Errorf("%s: rank %d: %v", name, c.K, err)
		return
	}
	h, err := a.Leverages(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	off, d := 0.0, len(h)
	for e, v := range h {
		off = max(off, math.Abs(v-want.At(e, e)))
	}
	squares, err := a.Squares(context.Background())
	if norm := mat.Norm(want, 2); err != nil || !(math.Abs(squares-norm*norm) < 1e-9*norm*norm) {
		t.Errorf("%s: ||D||_F^2 = %g, want %g (%v)", name, squares, norm*norm, err)
	}
	v, image := make([]float64, 3*d), make([]float64, 3*d)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	if err := a.Images(context.Background(), image, v, 3); err != nil {
		t.Fatal(err)
	}
	wrong := 0.0
	for i := range 3 {
		var x mat.VecDense
		x.MulVec(want, mat.NewVecDense(d, v[i*d:(i+1)*d]))
		for e := range d {
			wrong = max(wrong, math.Abs(x.AtVec(e)-image[i*d+e]))
		}
	}
	t.Logf("%s: rank %d, trace %.4f of %d, leverages off %.1e, images %.1e", name, c.K, mat.Trace(want), d, off, wrong)
	if !(off < 1e-9) || !(wrong < 1e-9) {
		t.Errorf("%s: leverages off by %g, images by %g", name, off, wrong)
	}
}
