//go:build unix

package pipeline_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/vjp"
)

// criteriaDraws is the number of draws of y in the studies below.
const criteriaDraws = 400

// criteriaCase is a problem with a grid of one weight, whose mean is known.
type criteriaCase struct {
	name, size string
	problem    *problems.Problem
	mu         []float64
	sigma2     float64
	grid       []float64
	// shrink is the factor of the weights in a fit to nine tenths of the observations.
	shrink      float64
	regularizer func(w []float64) (prox.Prox, error)
}

// family is that of the case's fits.
func (c *criteriaCase) family() pipeline.Family {
	return pipeline.Family{Problem: c.problem.Solve(), Solver: c.problem.DefaultSolver, Regularizer: c.regularizer}
}

// lowRankMean is an m x n matrix of rank 2 with the singular values a and 0.6 a.
func lowRankMean(rng *rand.Rand, m, n int, a float64) []float64 {
	var u, v mat.QR
	var q, p mat.Dense
	u.Factorize(mat.NewDense(m, 2, gaussian(rng, 2*m)))
	v.Factorize(mat.NewDense(n, 2, gaussian(rng, 2*n)))
	u.QTo(&q)
	v.QTo(&p)
	mu := make([]float64, m*n)
	for i := range mu {
		mu[i] = a*q.At(i/n, 0)*p.At(i%n, 0) + 0.6*a*q.At(i/n, 1)*p.At(i%n, 1)
	}
	return mu
}

// criteriaCases are a LASSO with more variables than observations, matrix completion, robust PCA
// with gamma in proportion to lambda, and, for the errors of differences, singular value
// thresholding.
func criteriaCases(b testing.TB) []*criteriaCase {
	b.Helper()
	rng := rand.New(rand.NewPCG(17, 18))
	sigma2 := 2.0
	lasso, err := problems.GenerateLasso(100, 200, 4)
	if err != nil {
		b.Fatal(err)
	}
	const m, n = 20, 16
	low := lowRankMean(rng, m, n, 40)
	completion := problems.Data{Shape: []int{m, n}, Indices: rng.Perm(m * n)[:m*n*3/5], Sigma2: &sigma2}
	for _, i := range completion.Indices {
		completion.Mu = append(completion.Mu, low[i])
	}
	completion.YShape = []int{len(completion.Mu)}
	svt := problems.Data{YShape: []int{m, n}, Mu: low, Sigma2: &sigma2}
	const k = 16
	outliers := lowRankMean(rng, k, k, 35)
	for _, i := range rng.Perm(k * k)[:k*k/20] {
		outliers[i] += 20 * rng.Float64()
	}
	robust := problems.Data{YShape: []int{k, k}, Mu: outliers, Sigma2: &sigma2}
	cases := []*criteriaCase{
		{name: "lasso", size: "100 x 200", grid: axis(15, 250, 16), shrink: 0.9, sigma2: *lasso.Sigma2, mu: lasso.Mu},
		{name: "matrix-completion", size: "192 of 20 x 16", grid: axis(1.5, 20, 12), shrink: math.Sqrt(0.9),
			sigma2: 2, mu: completion.Mu},
		{name: "robust-pca", size: "16 x 16", grid: axis(2, 16, 12), shrink: math.Sqrt(0.9), sigma2: 2, mu: robust.Mu},
		{name: "svt", size: "20 x 16", grid: axis(2, 25, 16), sigma2: 2, mu: svt.Mu},
	}
	for i, data := range []problems.Data{lasso, completion, robust, svt} {
		c := cases[i]
		data.Y = problems.Sample(c.mu, c.sigma2, 3, 0)
		hyper := problems.Hyper{Lambda: problems.Absolute(1)}
		if c.name == "robust-pca" {
			hyper.Gamma = problems.Absolute(1)
		}
		if c.problem, err = problems.New(c.name, array.NewHost(), data, hyper); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.problem.Release)
		c.regularizer = func(w []float64) (prox.Prox, error) {
			gamma := math.NaN()
			if c.name == "robust-pca" {
				gamma = 1.5 * w[0] / math.Sqrt(k)
			}
			return c.problem.Reweighted(w[0], math.NaN(), gamma)
		}
	}
	return cases
}

// BenchmarkCriteria compares the ways to choose a weight: over draws of y, the loss at the weight
// that each chooses from the same grid, more than the least loss on the grid, and the processors'
// time for all weights. Run it by
//
//	go test ./pipeline -run '^$' -bench Criteria -benchtime 1x | grep '^|'
func BenchmarkCriteria(b *testing.B) {
	fmt.Println("| problem | size | | SURE | SURE, 1se | GCV | ALO | SURE, sigma2 by df | 10-fold CV |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, c := range criteriaCases(b)[:3] {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				c.compareCriteria(b)
			}
		})
	}
}

// tally is what a way to choose has cost.
type tally struct {
	extra, squares, seconds float64
	chosen                  int
}

func (t *tally) add(extra, seconds float64) {
	t.extra, t.squares, t.seconds = t.extra+extra, t.squares+extra*extra, t.seconds+seconds
	t.chosen++
}

func (c *criteriaCase) compareCriteria(b *testing.B) {
	names := []string{"SURE", "1se", "GCV", "ALO", "SURE df", "CV"}
	all := map[string]*tally{}
	for _, n := range names {
		all[n] = &tally{}
	}
	perm := rand.New(rand.NewPCG(1, 1)).Perm(len(c.mu))
	for draw := range criteriaDraws {
		y := problems.Sample(c.mu, c.sigma2, 9, draw)
		o := pipeline.SweepOptions{Mu: c.mu, Refine: -1, Rule: pipeline.OneStdErrRule,
			Options: pipeline.Options{Sigma2: c.sigma2, ALO: true, Parallel: 2}}
		begin := cpuSeconds(b)
		points := sweepPoints(b, y, c.family(), [][]float64{c.grid}, o)
		took := cpuSeconds(b) - begin
		choice := points[len(c.grid)].Choice
		points = points[:len(c.grid)]
		least := math.Inf(1)
		for _, p := range points {
			least = min(least, p.Loss)
		}
		extra := func(i int) float64 { return points[i].Loss/least - 1 }
		all["SURE"].add(extra(choice.Minimizer), took)
		all["1se"].add(extra(choice.Chosen), took)
		gcv := minimizerOf(points, func(p pipeline.SweepPoint) float64 { return p.GCV })
		all["GCV"].add(extra(gcv), took)
		s2 := points[gcv].Sigma2DF
		all["SURE df"].add(extra(minimizerOf(points, func(p pipeline.SweepPoint) float64 {
			t := p.Terms()
			t.Sigma2 = s2
			return t.SURE()
		})), took)
		// Where leave-one-out is not defined in the first draws it is not tried again.
		if draw < 3 || all["ALO"].chosen > 0 {
			if slices.ContainsFunc(points, func(p pipeline.SweepPoint) bool {
				return errors.Is(p.ALOErr,
					pipeline.ErrNoDiagonal)
			}) {
				o.Estimator = hutch.Exact
				begin = cpuSeconds(b)
				points = sweepPoints(b, y, c.family(), [][]float64{c.grid}, o)[:len(c.grid)]
				took = cpuSeconds(b) - begin
			}
			if i := minimizerOf(points, func(p pipeline.SweepPoint) float64 { return p.ALO }); i >= 0 {
				all["ALO"].add(extra(i), took)
			}
		}
		begin = cpuSeconds(b)
		i := c.crossValidate(b, y, perm)
		all["CV"].add(extra(len(c.grid)-1-i), cpuSeconds(b)-begin)
	}
	loss, seconds := fmt.Sprintf("| %s | %s | extra loss, %% |", c.name, c.size), "| | | CPU ms |"
	for _, n := range names {
		t := all[n]
		if t.chosen < criteriaDraws/2 {
			loss, seconds = loss+" not defined |", seconds+" |"
			continue
		}
		k := float64(t.chosen)
		mean := t.extra / k
		loss += fmt.Sprintf(" %.1f ± %.1f |", 100*mean, 100*math.Sqrt((t.squares/k-mean*mean)/k))
		seconds += fmt.Sprintf(" %.0f |", 1000*t.seconds/k)
	}
	fmt.Println(loss)
	fmt.Println(seconds)
}

// minimizerOf is the place of the least value that is defined, -1 if there is none.
func minimizerOf(points []pipeline.SweepPoint, value func(p pipeline.SweepPoint) float64) int {
	best := -1
	for i, p := range points {
		if v := value(p); !math.IsNaN(v) && (best < 0 || v < value(points[best])) {
			best = i
		}
	}
	return best
}

// crossValidate fits all observations but those of one fold, by weights that are 0 there, and
// returns the place in the grid of the least error in the ten folds.
func (c *criteriaCase) crossValidate(b *testing.B, y []float64, perm []int) int {
	const folds = 10
	problem := c.problem.Solve()
	dev := problem.Device
	on := dev.Alloc(1, len(y))
	defer on.Free()
	dev.Upload(on, y)
	sums := make([]float64, len(c.grid))
	for fold := range folds {
		w := make([]float64, len(y))
		for i, at := range perm {
			if i%folds != fold {
				w[at] = 1
			}
		}
		weighted, err := loss.WeightedSquared(dev, w)
		if err != nil {
			b.Fatal(err)
		}
		problem.Loss = weighted
		var base vjp.Solver
		var before array.Batch
		for i, lambda := range slices.Backward(c.grid) {
			r, err := c.regularizer([]float64{c.shrink * lambda})
			if err != nil {
				b.Fatal(err)
			}
			problem.R = r
			var s vjp.Solver
			if base == nil {
				s, err = vjp.NewSolver(b.Context(), c.problem.DefaultSolver, problem, vjp.Options{Derivative: vjp.None})
				base = s
			} else {
				s, err = base.Reweight(b.Context(), r)
			}
			if err != nil {
				b.Fatal(err)
			}
			sol, err := s.SolveFrom(b.Context(), on, vjp.From{B: before})
			if err != nil {
				b.Fatal(err)
			}
			for k, m := range sol.MuHat.ToHost() {
				if w[k] == 0 {
					sums[i] += (m - y[k]) * (m - y[k])
				}
			}
			before.Free()
			before = dev.Alloc(1, sol.B.N())
			dev.Copy(before, sol.B)
			sol.Release()
			if s != base {
				s.Release()
			}
			prox.Release(r)
		}
		before.Free()
		base.Release()
		weighted.Release()
	}
	return slices.Index(sums, slices.Min(sums))
}

// BenchmarkDifferences is a study of how sure a choice is: how often the difference of two losses is
// within 1 and 2 errors of that of SURE, for neighbours on the grid, for far pairs and for all pairs
// with the minimizer; how often the best weight is among those that are alike, and what the rule of
// one standard error costs; and by how much the least SURE is too small, before and after the
// optimism is added. Run it by
//
//	go test ./pipeline -run '^$' -bench Differences -benchtime 1x | grep '^|'
func BenchmarkDifferences(b *testing.B) {
	fmt.Println("| problem | near, 1 and 2 errors | far | to the minimizer | alike | best is alike | 1se: df / " +
		"least SURE's | optimism | estimate | left |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, c := range criteriaCases(b) {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				c.studyDifferences(b)
			}
		})
	}
}

// coverageOf counts how often 1 and 2 errors hold a difference.
type coverageOf struct{ pairs, one, two float64 }

func (n *coverageOf) add(off, stdErr float64) {
	n.pairs++
	if off <= stdErr {
		n.one++
	}
	if off <= 2*stdErr {
		n.two++
	}
}

func (n coverageOf) String() string {
	return fmt.Sprintf("%.1f%%, %.1f%%", 100*n.one/n.pairs, 100*n.two/n.pairs)
}

func (c *criteriaCase) studyDifferences(b *testing.B) {
	var near, far, best coverageOf
	var alike, holds, simpler, estimate float64
	var sure, true0 [][]float64
	var chosen []int
	by := risk.Comparison{Criterion: risk.SURE, Sigma2: c.sigma2}
	last := len(c.grid) - 1
	for draw := range criteriaDraws {
		y := problems.Sample(c.mu, c.sigma2, 9, draw)
		o := pipeline.SweepOptions{Mu: c.mu, Refine: -1, Rule: pipeline.OneStdErrRule,
			Options: pipeline.Options{Sigma2: c.sigma2, Parallel: 2}}
		points := sweepPoints(b, y, c.family(), [][]float64{c.grid}, o)
		choice := points[last+1].Choice
		points = points[:last+1]
		pair := func(n *coverageOf, i, j int) {
			p, q := points[i], points[j]
			d := by.Difference(risk.Fit{Value: p.SURE, Digest: p.Digest}, risk.Fit{Value: q.SURE, Digest: q.Digest})
			n.add(math.Abs(d.Value-(p.Loss-q.Loss)), d.StdErr)
		}
		for i := range last {
			pair(&near, i, i+1)
			if i+last/2 <= last {
				pair(&far, i, i+last/2)
			}
		}
		var values, losses []float64
		for i, p := range points {
			values, losses = append(values, p.SURE), append(losses, p.Loss)
			if i != choice.Minimizer {
				pair(&best, i, choice.Minimizer)
			}
		}
		sure, true0, chosen = append(sure, values), append(true0, losses), append(chosen, choice.Minimizer)
		alike += float64(len(choice.Alike)) / criteriaDraws
		if slices.Contains(choice.Alike, slices.Index(losses, slices.Min(losses))) {
			holds += 100.0 / criteriaDraws
		}
		simpler += points[choice.Chosen].Trace.Trace / points[choice.Minimizer].Trace.Trace / criteriaDraws
		estimate += choice.Optimism.Value / criteriaDraws
	}
	// The error at a fixed weight, the one of least risk, is unbiased, and stands for what all have
	// in common.
	mean := make([]float64, last+1)
	for _, losses := range true0 {
		for i, l := range losses {
			mean[i] += l
		}
	}
	fixed := slices.Index(mean, slices.Min(mean))
	var excess, squares float64
	for k, i := range chosen {
		e := true0[k][i] - sure[k][i] - (true0[k][fixed] - sure[k][fixed])
		excess += e / criteriaDraws
		squares += e * e / criteriaDraws
	}
	fmt.Printf("| %s %s | %s | %s | %s | %.1f of %d | %.0f%% | %.2f | %.1f ± %.1f | %.1f | %.1f |\n", c.name, c.size,
		near, far, best, alike, last+1, holds, simpler,
		excess, math.Sqrt((squares-excess*excess)/criteriaDraws), estimate, excess-estimate)
}
