package problems_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/problems"
)

// Where there is no full model, as with weights, columns that depend on each other, or more columns than rows, uneven
// noise and wrong values are told by least squares without weights, of columns that do not depend on each other, or of
// those that the fit has. Even noise is not.
func TestDoubtsWithoutAFullModel(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for _, c := range []struct {
		name, problem     string
		lambda            problems.Weight
		columns           int
		weights, depend   bool
		uneven, unweighed float64 // how often at least it is told, in 20 draws
	}{
		{"weights", "ridge", problems.Absolute(40), 8, true, false, 19, 19},
		{"dependent columns", "ridge", problems.Absolute(40), 8, false, true, 19, 0},
		{"more columns than rows", "lasso", problems.OfMax(0.4), 300, false, false, 15, 0},
	} {
		told := map[string]int{}
		for seed := range uint64(20) {
			for _, flaw := range []string{"", "column", "weight", "typos"} {
				rng := rand.New(rand.NewPCG(seed, 8))
				x, y, _ := drawn(rng, 240, c.columns, 1)
				w := make([]float64, len(y))
				for i := range y {
					w[i] = math.Exp(rng.NormFloat64())
					switch flaw {
					case "column":
						y[i] += 3 * x.At(i, 0) * rng.NormFloat64()
					case "weight":
						y[i] += 3 / w[i] * rng.NormFloat64()
					case "typos":
						if i < 4 {
							y[i] += 100
						}
					}
					if c.depend {
						x.Set(i, 7, 2*x.At(i, 0)-x.At(i, 3))
					}
				}
				data := problems.Data{X: x, Y: y, Intercept: true, Standardize: true}
				if c.weights {
					data.Weights = w
				}
				p, err := problems.New(c.problem, dev, data, problems.Hyper{Lambda: c.lambda})
				if err != nil {
					t.Fatal(err)
				}
				b, _ := solution(t, dev, p, y)
				if _, err := p.FullModel(y); err == nil {
					t.Fatalf("%s: there is a full model", c.name)
				}
				d := p.Plain(y, func() []float64 { return b }).Doubts()
				if d.Uneven.Sure() {
					told[flaw]++
				}
				if n := len(d.Outliers); n != 0 && flaw == "" || n != 4 && flaw == "typos" {
					t.Errorf("%s, %q, seed %d: %+v", c.name, flaw, seed, d.Outliers)
				}
				p.Release()
			}
		}
		if told[""] > 0 || float64(told["column"]) < c.uneven || float64(told["weight"]) < c.unweighed {
			t.Errorf("%s: uneven noise is told %v times", c.name, told)
		}
	}
}

// Rows of the same columns are of one group: by rounding errors of their fitted values, which are larger where
// residuals are, even noise would be uneven.
func TestEqualRowsHaveEqualFittedValues(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for seed := range uint64(20) {
		for _, weighed := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(seed, 9))
			x, y, w := mat.NewDense(1000, 4, nil), make([]float64, 1000), make([]float64, 1000)
			for i := range y {
				for j := range 4 {
					x.Set(i, j, float64(rng.IntN(10)/9))
				}
				y[i], w[i] = 2*x.At(i, 0)-x.At(i, 1)+rng.NormFloat64(), math.Exp(rng.NormFloat64())
			}
			data := problems.Data{X: x, Y: y, Intercept: true}
			if weighed {
				data.Weights = w
			}
			p, err := problems.New("ridge", dev, data, problems.Hyper{Lambda: problems.Absolute(1)})
			if err != nil {
				t.Fatal(err)
			}
			if u := p.Plain(y, nil).Doubts().Uneven; u.Sure() {
				t.Errorf("seed %d, weights %v: %+v", seed, weighed, u)
			}
			p.Release()
		}
	}
}

// With more columns than rows a fit is chosen that meets the value that most rows have: these seem to have less noise.
func TestAValueOfMostRowsIsNoDoubt(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 10))
		x, y := mat.NewDense(100, 300, nil), make([]float64, 100)
		for i := range y {
			for j := range 300 {
				x.Set(i, j, float64(rng.IntN(10)/7+rng.IntN(10)/7))
			}
			y[i] = 2 * math.Round((0.7*x.At(i, 0)-0.5*x.At(i, 1)+rng.NormFloat64())/2)
		}
		p, err := problems.New("lasso", dev, problems.Data{X: x, Y: y, Intercept: true},
			problems.Hyper{Lambda: problems.OfMax(0.25)})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := solution(t, dev, p, y)
		if m := p.Plain(y, func() []float64 { return b }); m != nil && m.Doubts().Uneven.Sure() {
			t.Errorf("seed %d: %+v", seed, m.Doubts().Uneven)
		}
		p.Release()
	}
}
