package pipeline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/problems"
)

// With several responses in one fit an observation is a row: leave-one-out is near refits without each, exact without a
// penalty, far nearer than the fit is that has seen it. The degrees of freedom are those of the second derivative as a
// matrix, and of central differences.
func TestSeveralResponsesInOneFit(t *testing.T) {
	const d, p, k = 50, 5, 3
	for n, c := range []struct {
		problem  string
		lambda   float64
		weighted bool
		off      float64 // of the optimism
	}{{"ols", 0, false, 1e-6}, {"ridge", 3, true, 1e-6}, {"lasso", 6, false, 0.12}, {"group-lasso", 5, false, 0.12},
		{"group-lasso", 5, true, 0.12}} {
		t.Run(fmt.Sprintf("%s %t", c.problem, c.weighted), func(t *testing.T) {
			data := responses(rand.New(rand.NewPCG(11, uint64(n))), d, p, k, c.weighted)
			q, all := rowsFitted(t, c.problem, c.lambda, data)
			want, plain := 0.0, floats.Distance(all.MuHat, data.Y, 2)
			plain *= plain / (d * k)
			for i := range d {
				_, r := rowsFitted(t, c.problem, c.lambda, withoutRow(data, i))
				off := floats.Distance(r.MuHat[i*k:][:k], data.Y[i*k:][:k], 2)
				want += off * off / (d * k)
			}
			if math.Abs(all.ALO-want) > c.off*(want-plain) || !(want > plain) {
				t.Errorf("leave-one-out is %g, by refits %g, without leaving out %g", all.ALO, want, plain)
			}
			t.Logf("leave-one-out %.6g, refits %.6g, without leaving out %.4g", all.ALO, want, plain)
			if df := trace(t, q, data, all.B, c.problem, c.lambda); math.Abs(df-all.Trace.Trace) > 1e-6 {
				t.Errorf("%g degrees of freedom, by the second derivative %g", all.Trace.Trace, df)
			}
			df, step := 0.0, 1e-4
			for i := range data.Y {
				moved := data
				moved.Y = slices.Clone(data.Y)
				moved.Y[i] += step
				above := solvedRisk(t, q, moved.Y, true).MuHat[i]
				moved.Y[i] -= 2 * step
				df += (above - solvedRisk(t, q, moved.Y, true).MuHat[i]) / (2 * step)
			}
			if math.Abs(df-all.Trace.Trace) > 1e-5 {
				t.Errorf("%g degrees of freedom, by central differences %g", all.Trace.Trace, df)
			}
		})
	}
}

// A column that is another one with the opposite sign, as an indicator and its complement are, changes no number of
// several responses in one fit; that it could have coefficients too, which a rough fit cannot exclude, changes none either.
func TestSeveralResponsesOfEqualColumns(t *testing.T) {
	const d, p, k = 60, 40, 8
	data := responses(rand.New(rand.NewPCG(12, 1)), d, p, k, false)
	more := data
	x := mat.NewDense(d, p+1, nil)
	for i := range d {
		for j := range p + 1 {
			if x.Set(i, j, -data.X.At(i, 0)); j < p {
				x.Set(i, j, data.X.At(i, j))
			}
		}
	}
	more.X, more.Groups = x, lists.Upto(p+1)
	for _, lambda := range []float64{12, 5, 2.5} {
		_, one := rowsFitted(t, "group-lasso", lambda, data)
		_, both := rowsFitted(t, "group-lasso", lambda, more)
		if off := floats.Distance(one.MuHat, both.MuHat, math.Inf(1)); off > 1e-7 {
			t.Errorf("lambda %g: fits differ by %g", lambda, off)
		}
		if math.Abs(one.Trace.Trace-both.Trace.Trace) > 1e-6 || math.Abs(one.ALO-both.ALO) > 1e-7 {
			t.Errorf("lambda %g: %g degrees of freedom and a leave-one-out of %g, want %g and %g", lambda,
				both.Trace.Trace, both.ALO, one.Trace.Trace, one.ALO)
		}
		q, err := problems.New("group-lasso", array.NewHost(), more, problems.Hyper{Lambda: problems.Absolute(lambda)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(q.Release)
		rough := riskWithin(t, q, more.Y, false, 1e-4)
		if !rough.Neighbours || rough.DivergenceHigh-rough.DivergenceLow > 1e-6 {
			t.Errorf("lambda %g, roughly: between %g and %g degrees of freedom by other supports, known %t, margin %g",
				lambda, rough.DivergenceLow, rough.DivergenceHigh, rough.Neighbours, rough.SpaceMargin)
		}
	}
}

// responses draws several that depend on the first columns of X.
func responses(r *rand.Rand, d, p, k int, weighted bool) problems.Data {
	x := mat.NewDense(d, p, nil)
	data := problems.Data{X: x, Y: make([]float64, d*k), YShape: []int{d, k}, Loss: problems.Loss{Name: "mgaussian"},
		Intercept: true, Groups: lists.Upto(p)}
	for i := range d {
		for j := range p {
			x.Set(i, j, r.NormFloat64())
		}
		for c := range k {
			data.Y[i*k+c] = 2 + x.At(i, 0)*float64(1+c)/2 - x.At(i, 1) + r.NormFloat64()
		}
		if weighted {
			data.Weights = append(data.Weights, float64(1+i%3))
		}
	}
	return data
}

// trace is that of A E (E* (A*W A + Q) E)^-1 E* A*W, on the coordinates E of the solution b that are not 0.
func trace(t *testing.T, q *problems.Problem, data problems.Data, b []float64, problem string, lambda float64) float64 {
	d, k := data.YShape[0], data.YShape[1]
	_, p := data.X.Dims()
	n := p*k + k
	a, rooted, h := mat.NewDense(d*k, n, nil), mat.NewDense(d*k, n, nil), mat.NewDense(n, n, nil)
	for i := range d * k {
		for j := range p {
			if b[j*k+i%k] != 0 {
				a.Set(i, j*k+i%k, data.X.At(i/k, j)-q.Means()[j])
			}
		}
		a.Set(i, p*k+i%k, 1)
		for j := range n {
			rooted.Set(i, j, a.At(i, j))
			if data.Weights != nil {
				rooted.Set(i, j, a.At(i, j)*math.Sqrt(data.Weights[i/k]))
			}
		}
	}
	h.Mul(rooted.T(), rooted)
	m := mat.DenseCopyOf(h)
	for j := range p * k {
		column := b[j/k*k:][:k]
		norm := floats.Norm(column, 2)
		switch {
		case b[j] == 0:
			m.Set(j, j, 1)
		case problem == "ridge":
			m.Set(j, j, m.At(j, j)+lambda)
		case problem == "group-lasso":
			by := lambda * math.Sqrt(float64(k)) / norm
			m.Set(j, j, m.At(j, j)+by)
			for l, v := range column {
				m.Set(j, j/k*k+l, m.At(j, j/k*k+l)-by*b[j]*v/(norm*norm))
			}
		}
	}
	var s mat.Dense
	if err := s.Solve(m, h); err != nil {
		t.Fatal(err)
	}
	return mat.Trace(&s)
}
