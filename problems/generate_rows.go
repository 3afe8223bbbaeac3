package problems

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// LassoRows is the data set of [GenerateLasso] with a matrix X that need not fit into memory: its rows
// are handed out one after the other.
type LassoRows struct {
	// D and P are the numbers of rows and columns.
	D, P int
	// Nonzeros is the number of nonzero coefficients; 0 for d/20, at least one.
	Nonzeros int
	// Single rounds X to float32.
	Single bool
	Seed   uint64
}

// Draw hands the rows of X to write, of which none is kept, and returns the rest of the data. The weight is computed
// from an independent y, so that the estimator is fixed before y is drawn, and SURE is exactly unbiased.
func (l LassoRows) Draw(write func(row []float64) error) (Data, error) {
	if err := l.Check(); err != nil {
		return Data{}, err
	}
	rng, tuning := stream(l.Seed, streamDesign), stream(l.Seed, streamTuning)
	nonzeros := l.nonzeros()
	mu, row := make([]float64, l.D), make([]float64, l.P)
	// X* (s + t eps) = X* s + t X* eps, where s are the sums of the nonzeros' columns: t is known at the end.
	signal, noise := make([]float64, l.P), make([]float64, l.P)
	norm2 := 0.0
	for i := range mu {
		for j := range row {
			row[j] = rng.NormFloat64()
			if l.Single {
				row[j] = float64(float32(row[j]))
			}
		}
		for _, v := range row[:nonzeros] {
			mu[i] += v
		}
		norm2 += mu[i] * mu[i]
		s, eps := mu[i], tuning.NormFloat64()
		for j, v := range row {
			signal[j] += v * s
			noise[j] += v * eps
		}
		if err := write(row); err != nil {
			return Data{}, err
		}
	}
	sigma2, most := float64(paperSigma2), 0.0
	scale := signalScale(l.D, norm2)
	floats.Scale(scale, mu)
	for j, s := range signal {
		most = max(most, math.Abs(scale*s+math.Sqrt(sigma2)*noise[j]))
	}
	lambda := 0.1 * most
	return Data{
		YShape: []int{l.D}, Y: noisy(mu, sigma2, stream(l.Seed, streamNoise)), Mu: mu, Sigma2: &sigma2, Lambda: &lambda,
	}, nil
}

func (l LassoRows) Bytes() float64 {
	if l.Single {
		return 4 * float64(l.D) * float64(l.P)
	}
	return 8 * float64(l.D) * float64(l.P)
}

func (l LassoRows) nonzeros() int {
	if l.Nonzeros > 0 {
		return l.Nonzeros
	}
	return min(max(l.D/20, 1), l.P)
}

// Check rejects sizes that no data set has.
func (l LassoRows) Check() error {
	if l.D < 1 || l.P < 1 {
		return fmt.Errorf("a design matrix of %d x %d, expected positive dimensions", l.D, l.P)
	}
	if l.Nonzeros > l.P {
		return fmt.Errorf("%d nonzero coefficients of %d", l.Nonzeros, l.P)
	}
	return nil
}

// signalScale is the factor that makes 80% of E||y||^2 signal, of a mu whose squared norm it is given.
func signalScale(d int, norm2 float64) float64 {
	return math.Sqrt(0.8 / 0.2 * float64(d) * paperSigma2 / norm2)
}
