package problems

import (
	"fmt"
	"math"

	"surepipe/linops"
	"surepipe/prox"
)

// buildTV1D is A = I, r(b) = lambda sum_i |b_{i+1} - b_i|, the one-dimensional
// total variation; its divergence is the number of constant pieces. Each row of a
// y of m x n is a sequence of its own. b is constant if and only if lambda >=
// lambda_max = max_k |sum_{i<=k} (y_i - mean y)|, the largest over the rows.
func buildTV1D(p *Problem, data Data, hyper Hyper) (err error) {
	rank, expected := 1, "shape (n,), or (m, n) for m sequences"
	if len(data.YShape) == 2 {
		rank = 2
	}
	if err := checkVector("y", data.Y, data.YShape, rank, expected); err != nil {
		return err
	}
	if err := checkMu(data); err != nil {
		return err
	}
	n := data.YShape[rank-1]
	if n < 2 {
		return fmt.Errorf("array \"y\" has shape %s, expected sequences of at least 2 values", formatShape(data.YShape))
	}
	if p.Lambda, err = p.weight("lambda", hyper.Lambda, func() (float64, error) { return maxVariation(data.Y, n), nil }); err != nil {
		return err
	}
	p.D, p.P = len(data.Y), len(data.Y)
	p.MuShape, p.BShape = data.YShape, data.YShape
	p.Operator = linops.Identity(p.D)
	p.reweigh = func(lambda, _, _ float64) (prox.Prox, error) { return newTV1D(p.D/n, n, lambda), nil }
	p.DefaultSolver = "ista"
	p.Regularizer, err = p.reweigh(p.Lambda, 0, 0)
	return err
}

// newTV1D is the total variation of m sequences of n values.
func newTV1D(m, n int, lambda float64) prox.Prox {
	one := prox.NewTV1D(n, lambda)
	if m == 1 {
		return one
	}
	rows := make([]prox.Prox, m)
	for i := range rows {
		rows[i] = one
	}
	return prox.NewSeparable(rows...)
}

// maxVariation is max_k |sum_{i<=k} (v_i - mean v)| over v's sequences of n values.
func maxVariation(v []float64, n int) float64 {
	m := 0.0
	for ; len(v) >= n; v = v[n:] {
		mean := 0.0
		for _, x := range v[:n] {
			mean += x / float64(n)
		}
		sum := 0.0
		for _, x := range v[:n-1] {
			sum += x - mean
			m = max(m, math.Abs(sum))
		}
	}
	return m
}

// GenerateTV1D draws a piecewise constant sequence of n values with noise: n/50
// pieces (at least 2) between breaks drawn without replacement, levels uniform in
// [0, 10], sigma2 = 2, lambda = sqrt(sigma2 n / pieces) / 2: half the size of the
// noise's sum over one piece.
func GenerateTV1D(n int, seed uint64) (Data, error) {
	if n < 2 {
		return Data{}, fmt.Errorf("a sequence of %d values, expected at least 2", n)
	}
	pieces := max(n/50, 2)
	first := make([]bool, n)
	for _, at := range choose(n-1, pieces-1, seed) {
		first[at+1] = true
	}
	rng := stream(seed, streamValues)
	mu := make([]float64, n)
	level := 10 * rng.Float64()
	for i := range mu {
		if first[i] {
			level = 10 * rng.Float64()
		}
		mu[i] = level
	}
	lambda := math.Sqrt(paperSigma2*float64(n)/float64(pieces)) / 2
	return finish("tv1d", Data{YShape: []int{n}, Mu: mu}, seed, Hyper{Lambda: Absolute(lambda)})
}
