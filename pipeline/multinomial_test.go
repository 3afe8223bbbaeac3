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
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
)

// classified draws classes that depend on the first columns of X.
func classified(r *rand.Rand, d, p, k int) problems.Data {
	data := problems.Data{X: mat.NewDense(d, p, nil), Y: make([]float64, d*k), YShape: []int{d, k},
		Loss: problems.Loss{Name: "multinomial"}, Intercept: true}
	x := data.X.(*mat.Dense)
	for i := range d {
		z := make([]float64, k)
		for j := range p {
			x.Set(i, j, r.NormFloat64())
		}
		for c := range z {
			z[c] = x.At(i, c%p)*float64(1+c)/2 - math.Log(r.ExpFloat64())
		}
		data.Y[i*k+floats.MaxIdx(z)] = 1
	}
	return data
}

// rowsFitted is a problem at a weight, which is 0 where it has none, with its risk and leave-one-out.
func rowsFitted(t *testing.T, name string, lambda float64, data problems.Data) (*problems.Problem, pipeline.Risk) {
	t.Helper()
	h := problems.Hyper{}
	if lambda > 0 {
		h.Lambda = problems.Absolute(lambda)
	}
	q, err := problems.New(name, array.NewHost(), data, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Release)
	return q, solvedRisk(t, q, data.Y, true)
}

// withoutRow gives row i the weight 0.
func withoutRow(data problems.Data, i int) problems.Data {
	if data.Weights = slices.Clone(data.Weights); data.Weights == nil {
		data.Weights = slices.Repeat([]float64{1}, data.YShape[0])
	}
	data.Weights[i] = 0
	return data
}

// Leave-one-out of a multinomial loss leaves the entries of an observation out together: it is near refits without each,
// also with weights, far nearer than the fit is that has seen it. The degrees of freedom are those of the second
// derivative as a matrix.
func TestLeaveOneOutOfMultinomialAgainstRefits(t *testing.T) {
	const d, p, k = 60, 4, 3
	for n, c := range []struct {
		problem  string
		lambda   float64
		weighted bool
		off      float64 // of the optimism
	}{{"ridge", 3, false, 0.1}, {"ridge", 3, true, 0.1}, {"lasso", 3, false, 0.1}, {"ols", 0, false, 0.15},
		{"group-lasso", 2, false, 0.1}} {
		t.Run(fmt.Sprintf("%s %t", c.problem, c.weighted), func(t *testing.T) {
			data := classified(rand.New(rand.NewPCG(7, uint64(n))), d, p, k)
			if c.weighted {
				for i := range d {
					data.Weights = append(data.Weights, float64(1+i%3))
				}
			}
			for j := range p {
				data.Groups = append(data.Groups, j)
			}
			q, all := rowsFitted(t, c.problem, c.lambda, data)
			l, err := loss.NewMultinomial(loss.Observed{Classes: k, Weights: data.Weights})
			if err != nil {
				t.Fatal(err)
			}
			parts := func(z []float64) []float64 {
				v := make([]float64, len(z))
				l.Structure().Parts(v, z, data.Y)
				return v
			}
			seen, want := parts(all.MuHat), 0.0
			for i := range d {
				_, r := rowsFitted(t, c.problem, c.lambda, withoutRow(data, i))
				want += parts(r.MuHat)[i*k] / d
			}
			plain := floats.Sum(seen) / float64(len(seen))
			if math.Abs(all.ALO-want) > c.off*(want-plain) || !(want > plain) {
				t.Errorf("leave-one-out is %g, by refits %g, without leaving out %g", all.ALO, want, plain)
			}
			t.Logf("leave-one-out %.4g, refits %.4g, without leaving out %.4g", all.ALO, want, plain)
			if c.problem == "group-lasso" {
				return
			}
			// A on the support, with the columns of ones of all classes but the last.
			dev, a := array.NewHost(), mat.DenseCopyOf(mat.NewDense(d*k, p*k+k-1, nil))
			for i := range d * k {
				for j := range p {
					if all.B[j*k+i%k] != 0 {
						a.Set(i, j*k+i%k, data.X.At(i/k, j)-q.Means()[j])
					}
				}
				if i%k < k-1 {
					a.Set(i, p*k+i%k, 1)
				}
			}
			h := mat.NewDense(p*k+k-1, p*k+k-1, nil)
			z, y, v := dev.Put(all.MuHat, 1, d*k), dev.Put(data.Y, 1, d*k), dev.Alloc(1, d*k)
			for j := range p*k + k - 1 {
				dev.Upload(v, mat.Col(nil, j, a))
				l.Product(v, v, z, y)
				var column mat.VecDense
				column.MulVec(a.T(), mat.NewVecDense(d*k, v.ToHost()))
				h.SetCol(j, column.RawVector().Data)
			}
			m := mat.DenseCopyOf(h)
			for j := range p * k {
				if c.problem == "ridge" || all.B[j] == 0 {
					m.Set(j, j, m.At(j, j)+c.lambda)
				}
			}
			df := float64((p + 1) * (k - 1)) // of ols, where a constant in the coefficients of a column is not determined
			if c.problem != "ols" {
				var s mat.Dense
				if err := s.Solve(m, h); err != nil {
					t.Fatal(err)
				}
				df = mat.Trace(&s)
			}
			if math.Abs(df-all.Trace.Trace) > 1e-6 {
				t.Errorf("%g degrees of freedom, expected %g", all.Trace.Trace, df)
			}
		})
	}
}
