package pipeline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/risk"
)

// optimismCase are tables of d normal rows of p columns with correlation 1/2, and a response of which the first used
// columns explain signal times the variance of the noise, 1.
type optimismCase struct {
	problem    string
	d, p, used int
	signal     float64
}

func optimismCases() (cases []optimismCase) {
	for _, problem := range []string{"ridge", "lasso"} {
		cases = append(cases,
			optimismCase{problem, 15, 5, 5, 1}, optimismCase{problem, 30, 10, 10, 1}, optimismCase{problem, 30, 10, 1, 0},
			optimismCase{problem, 30, 40, 5, 1}, optimismCase{problem, 60, 10, 10, 1}, optimismCase{problem, 60, 40, 40, 1},
			optimismCase{problem, 200, 20, 5, 1}, optimismCase{problem, 200, 40, 40, 1})
	}
	return cases
}

// searched is what a search for the least value costs: the mean of by how much more the error of new rows exceeds the
// value at the minimizer than at the weight that is best on average, with its error, and the mean of the estimates.
type searched struct {
	excess, stdErr, estimate, spread float64
	value                            float64 // the mean of the least values
}

func (c optimismCase) search(t testing.TB, by risk.Criterion, draws int) (out searched) {
	t.Helper()
	const points = 20
	var values, risks [][]float64
	var chosen []int
	squares, n := 0.0, float64(draws)
	for draw := range draws {
		value, truth, choice := c.sweep(t, by, draw, points)
		values, risks, chosen = append(values, value), append(risks, truth), append(chosen, choice.Minimizer)
		if math.IsNaN(choice.Optimism.Value) || choice.Optimism.LeavesOut == "" {
			t.Fatalf("%v by %s: draw %d without an optimism: %+v", c, by, draw, choice.Optimism)
		}
		out.estimate += choice.Optimism.Value / n
		out.value += value[choice.Minimizer] / n
		squares += choice.Optimism.Value * choice.Optimism.Value / n
	}
	out.spread = math.Sqrt(squares - out.estimate*out.estimate)
	fixed, least := 0, math.Inf(1)
	for i := range points {
		mean := 0.0
		for _, r := range risks {
			mean += r[i]
		}
		if mean < least {
			fixed, least = i, mean
		}
	}
	squares = 0
	for k, i := range chosen {
		e := risks[k][i] - values[k][i] - (risks[k][fixed] - values[k][fixed])
		out.excess += e / n
		squares += e * e / n
	}
	out.stdErr = math.Sqrt((squares - out.excess*out.excess) / n)
	return out
}

// sweep returns the values of the criterion and the mean squared errors of new rows.
func (c optimismCase) sweep(t testing.TB, by risk.Criterion, draw, points int) (values, risks []float64,
	choice *pipeline.Choice) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(draw), 77))
	x, beta, y := make([]float64, c.d*c.p), make([]float64, c.p), make([]float64, c.d)
	for j := range c.used {
		beta[j] = rng.NormFloat64()
	}
	if norm := math.Sqrt(c.error(beta, make([]float64, c.p))); norm > 0 {
		for j := range beta {
			beta[j] *= math.Sqrt(c.signal) / norm
		}
	}
	for i := range c.d {
		common := rng.NormFloat64()
		y[i] = rng.NormFloat64()
		for j := range c.p {
			x[i*c.p+j] = math.Sqrt(0.5) * (common + rng.NormFloat64())
			y[i] += x[i*c.p+j] * beta[j]
		}
	}
	p, err := problems.New(c.problem, array.NewHost(), problems.Data{X: mat.NewDense(c.d, c.p, x), Y: y},
		problems.Hyper{Lambda: problems.Absolute(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	f := pipeline.Family{Problem: p.Solve(), Solver: p.DefaultSolver,
		Regularizer: func(w []float64) (prox.Prox, error) { return p.Reweighted(w[0], math.NaN(), math.NaN()) }}
	grid := axis(0.003*float64(c.d), 3*float64(c.d), points)
	all := sweepPoints(t, y, f, [][]float64{grid},
		pipeline.SweepOptions{Criterion: by, Refine: -1, KeepPath: true, Audit: pipeline.NoAudit})
	for _, point := range all[:points] {
		values = append(values, point.Value(by))
		risks = append(risks, 1+c.error(point.B, beta))
	}
	return values, risks, all[points].Choice
}

// error is the mean square of x (a - b) for new rows x.
func (c optimismCase) error(a, b []float64) (sum float64) {
	total := 0.0
	for j := range a {
		sum += (a[j] - b[j]) * (a[j] - b[j]) / 2
		total += a[j] - b[j]
	}
	return sum + total*total/2
}

// The least value of a criterion of held-out error is too small for having been looked for, and over draws the
// optimism is by how much.
func TestOptimismOfHeldOutError(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	for _, c := range []optimismCase{{"ridge", 15, 5, 5, 1}, {"ridge", 30, 10, 10, 1}, {"lasso", 30, 10, 10, 1}} {
		for _, by := range []risk.Criterion{risk.GCV, risk.ALO, risk.CV} {
			s := c.search(t, by, 200)
			t.Logf("%s: %+v", by, s)
			if s.excess < 3*s.stdErr || s.estimate < s.excess/2-2*s.stdErr || s.estimate > 2*s.excess+2*s.stdErr {
				t.Errorf("%v by %s: the least value is %.3f ± %.3f too small, estimated %.3f", c, by, s.excess, s.stdErr,
					s.estimate)
			}
		}
	}
}

// BenchmarkOptimism compares the optimism of criteria of held-out error with the true one. Run it by
//
//	go test ./pipeline -run '^$' -bench Optimism -benchtime 1x | grep '^|'
func BenchmarkOptimism(b *testing.B) {
	fmt.Println("| problem | rows x columns, signal | criterion | least value | too small by | optimism | spread | " +
		"optimism / true |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	for range b.N {
		for _, c := range optimismCases() {
			for _, by := range []risk.Criterion{risk.GCV, risk.ALO, risk.CV} {
				s := c.search(b, by, 200)
				ratio := s.estimate / s.excess
				fmt.Printf("| %s | %d x %d, %g | %s | %.3f | %.3f ± %.3f | %.3f | %.3f | %.2f ± %.2f |\n", c.problem, c.d,
					c.p, c.signal, by, s.value, s.excess, s.stdErr, s.estimate, s.spread, ratio, ratio*s.stdErr/s.excess)
			}
		}
	}
}
