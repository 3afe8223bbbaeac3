package problems_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/problems"
)

// drawn is a regression with normal, correlated columns in many units, whose first coefficients are
// 1 / unit.
func drawn(rng *rand.Rand, d, p, active int) (x *mat.Dense, y, beta []float64) {
	x, y, beta = mat.NewDense(d, p, nil), make([]float64, d), make([]float64, p)
	for i := range d {
		before := 0.0
		y[i] = 5 + rng.NormFloat64()
		for j := range p {
			unit := math.Pow(10, float64(j%3))
			before = 0.3*before + math.Sqrt(1-0.09)*rng.NormFloat64()
			x.Set(i, j, unit*before)
			if j%7 == 0 && j/7 < active {
				beta[j] = 1 / unit
				y[i] += before
			}
		}
	}
	return x, y, beta
}

// With more columns than rows, the intervals of Bellec and Zhang cover coefficients of the model as
// often as they say; without the adjustment for the degrees of freedom they do so far less often.
func TestDebiasedCoefficientsCoverTheTruth(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	dev := array.NewHost()
	defer dev.Close()
	count, covered, unadjusted, mean := 0, 0, 0, 0.0
	for range 14 {
		const d, p = 60, 90
		x, y, beta := drawn(rng, d, p, 12)
		problem, err := problems.New("lasso", dev, problems.Data{X: x, Y: y, Intercept: true, Standardize: true},
			problems.Hyper{Lambda: problems.Absolute(0.4 * math.Sqrt(2*d*math.Log(p)))})
		if err != nil {
			t.Fatal(err)
		}
		b, mu := solution(t, dev, problem, y)
		if _, err := problem.FullModel(y); !errors.Is(err, problems.ErrTooFewRows) {
			t.Fatalf("error %v", err)
		}
		df := 1.0
		for _, v := range b {
			if v != 0 {
				df++
			}
		}
		of, err := problem.DebiasedByScores(context.Background(), y, mu, b, df)
		if err != nil {
			t.Fatal(err)
		}
		debiased, stdErrs := of.Values, of.Factors
		coefficients := problem.Coefficients(b)
		for j := range b {
			if (b[j] == 0) != math.IsNaN(debiased[j]) {
				t.Fatalf("coefficient %d is %g, debiased %g", j, b[j], debiased[j])
			}
			if b[j] == 0 || beta[j] == 0 {
				continue
			}
			count++
			mean += (debiased[j] - beta[j]) / stdErrs[j]
			if math.Abs(debiased[j]-beta[j]) < 1.96*stdErrs[j] {
				covered++
			}
			// The same without the factor 1/(1 - df/d) of the shift.
			plain := coefficients[j] + (debiased[j]-coefficients[j])*(1-df/d)
			if math.Abs(plain-beta[j]) < 1.96*stdErrs[j]*math.Sqrt(1-df/d) {
				unadjusted++
			}
		}
		problem.Release()
	}
	// The standard error of the share covered is about 0.02.
	share, plain := float64(covered)/float64(count), float64(unadjusted)/float64(count)
	if mean /= float64(count); count < 150 || share < 0.89 || plain > share-0.04 || math.Abs(mean) > 0.35 {
		t.Errorf("%d intervals cover %.3f, without adjustment %.3f; mean %.2f standard errors off", count, share,
			plain, mean)
	}
}

// With more rows than columns the debiased coefficients are those of least squares, whatever the
// units; those of constant columns are not defined.
func TestDebiasedCoefficientsAreLeastSquares(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		x, y, _ := drawn(rand.New(rand.NewPCG(1, 1)), 40, 9, 2)
		for i := range 40 {
			x.Set(i, 4, 3)
		}
		ols := mat.NewDense(40, 9, nil)
		ols.Copy(x) // the constant column is the intercept
		var want mat.VecDense
		if err := want.SolveVec(ols, mat.NewVecDense(40, y)); err != nil && want.Len() != 9 {
			t.Fatal(err)
		}
		for _, standardize := range []bool{true, false} {
			p, err := problems.New("lasso", dev, problems.Data{X: x, Y: y, Intercept: true, Standardize: standardize},
				problems.Hyper{Lambda: problems.OfMax(0.2)})
			if err != nil {
				t.Fatal(err)
			}
			b, mu := solution(t, dev, p, y)
			full, err := p.FullModel(y)
			if err != nil {
				t.Fatal(err)
			}
			d := full.Debiased(mu, b)
			debiased, factors := d.Values, d.Factors
			for j := range 9 {
				if j == 4 {
					if !math.IsNaN(debiased[j]) || !math.IsNaN(factors[j]) {
						t.Errorf("the constant column has %g, %g", debiased[j], factors[j])
					}
				} else if math.Abs(debiased[j]-want.AtVec(j)) > 1e-9*(math.Abs(want.AtVec(j))+1e-3) ||
					!(factors[j] > 0) {
					t.Errorf("standardized %t: coefficient %d is %g, least squares %g", standardize, j, debiased[j],
						want.AtVec(j))
				}
			}
			p.Release()
		}
	})
}

// Noise that grows with |x| of a column is told, with the column and places in its units, whatever the penalty; equal
// noise is not.
func TestNoiseThatDependsOnAColumn(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(5, 9))
		for _, uneven := range []bool{false, true} {
			x, y, _ := drawn(rng, 400, 8, 1)
			for i := range y {
				if uneven {
					y[i] += 3 * x.At(i, 4) / 10 * rng.NormFloat64()
				}
				x.Set(i, 4, 1000+x.At(i, 4))
			}
			p, err := problems.New("lasso", dev, problems.Data{X: x, Y: y, Intercept: true, Standardize: true},
				problems.Hyper{Lambda: problems.OfMax(0.5)})
			if err != nil {
				t.Fatal(err)
			}
			full, err := p.FullModel(y)
			if err != nil {
				t.Fatal(err)
			}
			doubts := full.Doubts()
			u, column := doubts.Uneven, doubts.Column
			if told := u.Sure(); told != uneven || told && (column != 4 || !(u.Greatest > 3*u.Least) ||
				math.Abs(u.LeastAt-1000) > 3 || math.Abs(u.GreatestAt-1000) < 8) {
				t.Errorf("uneven %t: %+v, column %d", uneven, u, column)
			}
			p.Release()
		}
	})
}

// Errors of a Poisson regression by the residuals are those of the formula, with the refits' leverages.
func TestErrorsOfCountsByResiduals(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const d, n = 60, 3
	x, _, _ := drawn(rand.New(rand.NewPCG(6, 1)), d, n, 1)
	y := make([]float64, d)
	for i := range y {
		y[i] = float64((i*i*7 + 3*i) % 11)
	}
	p, err := problems.New("ols", dev, problems.Data{X: x, Y: y, Intercept: true,
		Loss: problems.Loss{Name: "poisson"}}, problems.Hyper{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	b, z := solution(t, dev, p, y)
	got, err := p.DebiasedByInformation(y, z, b)
	if err != nil {
		t.Fatal(err)
	}
	a, weighed := mat.NewDense(d, n+1, nil), mat.NewDense(d, n+1, nil)
	for i := range d {
		a.SetRow(i, append(x.RawRowView(i)[:n:n], 1))
		for j := range n + 1 {
			weighed.Set(i, j, math.Exp(z[i])*a.At(i, j))
		}
	}
	var m, inverse, maps, hat mat.Dense
	m.Mul(a.T(), weighed)
	if err := inverse.Inverse(&m); err != nil {
		t.Fatal(err)
	}
	maps.Mul(&inverse, a.T())
	hat.Mul(weighed, &maps)
	for j := range n {
		want := 0.0
		for i := range d {
			want += math.Pow(maps.At(j, i)*(y[i]-math.Exp(z[i]))/(1-hat.At(i, i)), 2)
		}
		if math.Abs(got.Robust[j]/math.Sqrt(want)-1) > 1e-6 {
			t.Errorf("coefficient %d: %g, expected %g", j, got.Robust[j], math.Sqrt(want))
		}
	}
}

// Errors of coefficients by the information know columns that nearly depend on each other as far as a factor of the
// columns does, whose condition is the root of the information's: those of x and x + t u are those of x and u, in other
// units.
func TestErrorsOfNearlyDependentColumns(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const d = 60
	x, _, _ := drawn(rand.New(rand.NewPCG(6, 1)), d, 2, 1)
	for name, at := range map[string]func(i int) float64{
		"poisson":  func(i int) float64 { return float64((i*i*7 + 3*i) % 11) },
		"logistic": func(i int) float64 { return float64((i*i*7 + 3*i) % 11 % 2) },
	} {
		y := make([]float64, d)
		for i := range y {
			y[i] = at(i)
		}
		made := func(x *mat.Dense) *problems.Problem {
			p, err := problems.New("ols", dev, problems.Data{X: x, Y: y, Intercept: true,
				Loss: problems.Loss{Name: name}}, problems.Hyper{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Release)
			return p
		}
		p := made(x)
		b, z := solution(t, dev, p, y)
		want, err := p.DebiasedByInformation(y, z, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []float64{0x1p-10, 0x1p-20, 0x1p-26} {
			near := mat.DenseCopyOf(x)
			for i := range d {
				near.Set(i, 1, x.At(i, 0)+step*x.At(i, 1))
			}
			got, err := made(near).DebiasedByInformation(y, z, []float64{b[0] - b[1]/step, b[1] / step, b[2]})
			if err != nil {
				t.Errorf("%s, %g: %v", name, step, err)
				continue
			}
			for k, v := range [][2]float64{{got.Factors[1], want.Factors[1] / step}, {got.Robust[1], want.Robust[1] / step},
				{got.Values[1], want.Values[1] / step}} {
				if math.Abs(v[0]/v[1]-1) > 1e-6 {
					t.Errorf("%s, %g: number %d is %.10g, expected %.10g", name, step, k, v[0], v[1])
				}
			}
		}
	}
}

// Noise that grows with the length of the rows is told by their leverages: no column and no fitted value shows it.
func TestNoiseThatDependsOnTheLeverage(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const d, n = 300, 40
	for seed := range uint64(8) {
		for _, uneven := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(seed, 3))
			x, y := mat.NewDense(d, n, nil), make([]float64, d)
			for i := range y {
				length := math.Exp(0.3 * rng.NormFloat64())
				for j := range n {
					x.Set(i, j, length*rng.NormFloat64())
					y[i] += x.At(i, j) / n
				}
				if !uneven {
					length = 1
				}
				y[i] += length * length * rng.NormFloat64()
			}
			p, err := problems.New("lasso", dev, problems.Data{X: x, Y: y}, problems.Hyper{Lambda: problems.OfMax(0.5)})
			if err != nil {
				t.Fatal(err)
			}
			full, err := p.FullModel(y)
			if err != nil {
				t.Fatal(err)
			}
			if u := full.Doubts().Uneven; u.Sure() != uneven || uneven && !(u.By == "leverage" && u.Greatest > 2*u.Least) {
				t.Errorf("seed %d, uneven %t: %+v", seed, uneven, u)
			}
			p.Release()
		}
	}
}
