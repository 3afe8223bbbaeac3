package problems

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/problems/spec"
)

// paperSigma2 is the noise variance of the paper's data sets.
const paperSigma2 = 2

// Random streams. Each ingredient of a data set has its own, so that none depends on how many
// numbers another has drawn.
const (
	streamDesign uint64 = iota + 1
	streamFactors
	streamValues
	streamPlaces
	streamNoise
	streamTuning // the independent y that the weights are computed from: sample -1
	streamSample // and the following ones: the samples of Sample
)

func stream(seed, s uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, s)) }

// Sample returns y_i = mu + sqrt(sigma2) eps_i with standard normal eps_i, a pure function of
// (seed, i). The samples i >= 0 are independent of the noise in a generated data set of the same
// seed. Sample
// -1 is that set's independent draw, from which its weights are computed.
func Sample(mu []float64, sigma2 float64, seed uint64, i int) []float64 {
	return noisy(mu, sigma2, stream(seed, streamSample+uint64(i)))
}

func noisy(mu []float64, sigma2 float64, rng *rand.Rand) []float64 {
	sigma := math.Sqrt(sigma2)
	return lists.Map(mu, func(m float64) float64 { return m + sigma*rng.NormFloat64() })
}

// finish draws y around mu, and resolves weights that are multiples of their maxima at another,
// independent y. The estimator is then fixed before y is drawn, and SURE is exactly unbiased.
func finish(name string, data Data, seed uint64, hyper Hyper) (Data, error) {
	sigma2 := float64(paperSigma2)
	data.Sigma2 = &sigma2
	data.Y = noisy(data.Mu, sigma2, stream(seed, streamTuning))
	dev := array.NewHost()
	defer dev.Close()
	p, err := New(name, dev, data, hyper)
	if err != nil {
		return Data{}, err
	}
	defer p.Release()
	if hyper.Lambda.Given {
		data.Lambda = &p.Lambda
	}
	if hyper.Gamma.Given {
		data.Gamma = &p.Gamma
	}
	data.Y = noisy(data.Mu, sigma2, stream(seed, streamNoise))
	return data, nil
}

// GenerateLasso draws the paper's LASSO data set (section III-A): a d x p matrix X of standard
// normal entries, b with d/20 equal nonzeros (at least one) such that ||mu||^2 / (||mu||^2 + d
// sigma2) = 0.8, sigma2 = 2, lambda = 0.1 lambda_max. It serves every regression problem.
func GenerateLasso(d, p int, seed uint64) (Data, error) {
	var x []float64
	data, err := LassoRows{D: d, P: p, Seed: seed}.Draw(func(row []float64) error {
		if x == nil {
			x = make([]float64, 0, d*p)
		}
		x = append(x, row...)
		return nil
	})
	if err == nil {
		data.X = mat.NewDense(d, p, x)
	}
	return data, err
}

// GenerateMatrixCompletion draws the paper's matrix completion data set (section III-B): a low-rank
// m x n matrix, 10% of its entries observed at random without replacement, sigma2 = 2,
// lambda = 0.25 lambda_max.
func GenerateMatrixCompletion(m, n int, seed uint64) (Data, error) {
	low, err := lowRank(m, n, seed)
	if err != nil {
		return Data{}, err
	}
	d := max(m*n/10, 1)
	data := Data{Shape: []int{m, n}, YShape: []int{d}, Indices: choose(m*n, d, seed)}
	data.Mu = lists.Pick(low, data.Indices)
	return finish("matrix-completion", data, seed, Hyper{Lambda: OfMax(0.25)})
}

// GenerateRobustPCA draws the paper's robust PCA data set (section III-C): a low-rank m x n matrix
// plus max(10, 1e-4 m n) entries uniform in [0, 100], sigma2 = 2, lambda = 0.16 lambda_max,
// gamma = 0.057 gamma_max.
func GenerateRobustPCA(m, n int, seed uint64) (Data, error) {
	mu, err := lowRank(m, n, seed)
	if err != nil {
		return Data{}, err
	}
	rng := stream(seed, streamValues)
	for _, c := range choose(m*n, min(max(10, m*n/10000), m*n), seed) {
		mu[c] += 100 * rng.Float64()
	}
	data := Data{YShape: []int{m, n}, Mu: mu}
	return finish("robust-pca", data, seed, Hyper{Lambda: OfMax(0.16), Gamma: OfMax(0.057)})
}

// GenerateSVT draws a low-rank m x n matrix like that of matrix completion, with all entries
// observed and sigma2 = 2. lambda is sqrt(sigma2) (sqrt(m) + sqrt(n)), about the largest singular
// value of the noise: a smaller one keeps noise, and a much larger one removes signal.
func GenerateSVT(m, n int, seed uint64) (Data, error) {
	mu, err := lowRank(m, n, seed)
	if err != nil {
		return Data{}, err
	}
	lambda := math.Sqrt(paperSigma2) * (math.Sqrt(float64(m)) + math.Sqrt(float64(n)))
	data := Data{YShape: []int{m, n}, Mu: mu}
	return finish("svt", data, seed, Hyper{Lambda: Absolute(lambda)})
}

// GenerateLocalLowRank draws a series of f images of m x n pixels with noise: each pixel is a mixture
// of three courses in time, of independent normal values with variance 25, with weights that are
// sinusoids of the place, so that a patch is nearly of rank 3. sigma2 = 2 and lambda = sqrt(sigma2)
// (sqrt(f) + 8), about the largest singular value of the noise in a patch of 8 x 8 pixels.
func GenerateLocalLowRank(f, m, n int, seed uint64) (Data, error) {
	if f < 1 || m < 1 || n < 1 {
		return Data{}, fmt.Errorf("a series of %d images of %d x %d pixels, expected positive sizes", f, m, n)
	}
	if max(m, n) < spec.PatchSide {
		return Data{}, fmt.Errorf("a series of images of %d x %d pixels, expected a side of at least %d, "+
			"that of a patch", m, n, spec.PatchSide)
	}
	const courses, amplitude = 3, 5
	rng := stream(seed, streamFactors)
	times := lists.Make(courses*f, func(int) float64 { return amplitude * rng.NormFloat64() })
	waves := lists.Make(3*courses, func(int) float64 { return 2 * math.Pi * rng.Float64() })
	mu := make([]float64, f*m*n)
	for i := range mu {
		t, r, c := i/(m*n), float64(i/n%m)/float64(m), float64(i%n)/float64(n)
		for k := range courses {
			w := waves[3*k:]
			mu[i] += times[k*f+t] * math.Sin(w[0]*r+w[1]*c+w[2])
		}
	}
	lambda := math.Sqrt(paperSigma2) * (math.Sqrt(float64(f)) + spec.PatchSide)
	return finish("local-low-rank", Data{YShape: []int{f, m, n}, Mu: mu}, seed, Hyper{Lambda: Absolute(lambda)})
}

// GenerateTV1D draws a piecewise constant sequence of n values with noise: n/50 pieces (at least 2)
// between breaks that are drawn without replacement, levels uniform in [0, 10], sigma2 = 2, lambda
// = sqrt(sigma2 n / pieces) / 2, half the standard deviation of the noise's sum over one piece.
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

// lowRank is U diag(s) V* with max(5, 0.02 n) singular values uniform in [0, n] and the leading
// singular vectors of a matrix of entries uniform in [0, 1].
func lowRank(m, n int, seed uint64) ([]float64, error) {
	if m < 1 || n < 1 {
		return nil, fmt.Errorf("a matrix of %d x %d, expected positive dimensions", m, n)
	}
	rng := stream(seed, streamFactors)
	x := lists.Make(m*n, func(int) float64 { return rng.Float64() })
	u, _, v, err := numerics.SVD(mat.NewDense(m, n, x))
	if err != nil {
		return nil, err
	}
	rank := min(max(5, n/50), m, n)
	left := mat.DenseCopyOf(u.Slice(0, m, 0, rank))
	for j := range rank {
		s := float64(n) * rng.Float64()
		for i := range m {
			left.Set(i, j, left.At(i, j)*s)
		}
	}
	var low mat.Dense
	low.Mul(left, v.Slice(0, n, 0, rank).T())
	return low.RawMatrix().Data, nil
}

func choose(n, k int, seed uint64) []int {
	rng := stream(seed, streamPlaces)
	places := lists.Upto(n)
	for i := range k {
		j := i + rng.IntN(n-i)
		places[i], places[j] = places[j], places[i]
	}
	return places[:k:k]
}
