package problems

import (
	"cmp"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
)

// Generator draws data sets: those of the paper, and others like them.
type Generator struct {
	// Name is that of a named problem, or of a specification of [SpecNames] that Scanner says it is of.
	Name    string
	Scanner bool
	// Sizes names the sizes that Draw takes, and Optional those that may follow, 0 for the default.
	Sizes, Optional []string
	// Help describes the data.
	Help string
	// Draw returns the arrays of a data file. Equal seeds give equal data.
	Draw func(sizes []int, seed uint64) ([]dataio.Array, error)

	numbers func(n []float64) float64 // nil for the product of the sizes
}

// Numbers is about how many numbers Draw holds.
func (g Generator) Numbers(sizes []int) float64 {
	n, product := make([]float64, len(sizes)), 1.0
	for i, size := range sizes {
		n[i] = float64(size)
		product *= n[i]
	}
	if g.numbers == nil {
		return product
	}
	return g.numbers(n)
}

// Generators is the table of them: those of named problems, and then those of specifications.
func Generators() []Generator {
	sides := []string{"rows", "cols"}
	return []Generator{
		{
			Name: "lasso", Sizes: []string{"d", "p"}, Draw: ofTwo(GenerateLasso),
			Help: "d x p standard normal X, d/20 equal nonzeros, 80% of E||y||^2\n" +
				"is signal; lambda = 0.1 lambda_max. Serves all regressions.",
		},
		{
			Name: "svt", Sizes: sides, Draw: ofTwo(GenerateSVT),
			Help: "a matrix as in matrix-completion, all observed;\nlambda = sigma (sqrt m + sqrt n)",
		},
		{
			Name: "matrix-completion", Sizes: sides, Optional: []string{"entries", "rank"}, Draw: drawEntries,
			Help: "rank max(5, 0.02 n), singular values uniform in [0, n], 10% of\n" +
				"the m x n entries observed; lambda = 0.25 lambda_max. With --entries,\n" +
				"like a table of ratings of any size: as many entries, in rows and\n" +
				"columns of power-law degrees, of a matrix of --rank (10); lambda is\n" +
				"about 0.6 times the norm of the noise",
			numbers: func(n []float64) float64 {
				if n[2] == 0 {
					return n[0] * n[1]
				}
				// The factors and lists of rows and columns, and the arrays with their text or bytes.
				return (n[0]+n[1])*(cmp.Or(n[3], ratingsRank)+2) + 5*n[2]
			},
		},
		{
			Name: "robust-pca", Sizes: sides, Draw: ofTwo(GenerateRobustPCA),
			Help: "a matrix as in matrix-completion plus max(10, 1e-4 m n) entries\n" +
				"uniform in [0, 100]; lambda = 0.16 lambda_max, gamma = 0.057 gamma_max",
		},
		{
			Name: "local-low-rank", Sizes: sides, numbers: func(n []float64) float64 { return 60 * n[0] * n[1] },
			Help: "20 images of rows x cols pixels, each pixel a mixture of three courses\n" +
				"in time with weights that are smooth in space; lambda = sigma (sqrt 20 + 8)",
			Draw: ofTwo(func(m, n int, seed uint64) (Data, error) { return GenerateLocalLowRank(20, m, n, seed) }),
		},
		{
			Name: "tv1d", Sizes: []string{"d"},
			Help: "d values, constant on d/50 pieces (at least 2), levels uniform in\n" +
				"[0, 10]; lambda = sigma sqrt(d / pieces) / 2",
			Draw: func(n []int, seed uint64) ([]dataio.Array, error) { return arraysOf(GenerateTV1D(n[0], seed)) },
		},
		{
			Name: "ct", Scanner: true, Sizes: []string{"d", "rows"},
			Help: "a sinogram of d angles in 180 degrees of the Shepp-Logan phantom\n" +
				"of rows x rows pixels; sigma is 1% of the largest projection",
			numbers: func(n []float64) float64 { return (8*n[0] + 2*n[1]) * n[1] },
			Draw:    func(n []int, seed uint64) ([]dataio.Array, error) { return GenerateCT(n[0], n[1], seed) },
		},
		{
			Name: "mri", Scanner: true, Sizes: []string{"rows"},
			Help: "complex samples of the Fourier transform of that phantom with a smooth\n" +
				"phase, on the middle lines and some others, 40% in all; sigma = 0.05",
			numbers: func(n []float64) float64 { return 8 * n[0] * n[0] },
			Draw:    func(n []int, seed uint64) ([]dataio.Array, error) { return GenerateMRI(n[0], seed) },
		},
	}
}

func ofTwo(draw func(m, n int, seed uint64) (Data, error)) func([]int, uint64) ([]dataio.Array, error) {
	return func(n []int, seed uint64) ([]dataio.Array, error) { return arraysOf(draw(n[0], n[1], seed)) }
}

func drawEntries(n []int, seed uint64) ([]dataio.Array, error) {
	switch {
	case n[2] > 0:
		return arraysOf(GenerateRatings(n[0], n[1], n[2], cmp.Or(n[3], ratingsRank), seed))
	case n[3] > 0:
		return nil, fmt.Errorf("--rank is %d, but --entries is missing: without it the rank follows from the size",
			n[3])
	}
	return arraysOf(GenerateMatrixCompletion(n[0], n[1], seed))
}

// arraysOf passes an error on.
func arraysOf(d Data, err error) ([]dataio.Array, error) { return Arrays(d), err }

// Arrays are the arrays of a data file with these data, whose X is dense.
func Arrays(d Data) []dataio.Array {
	arrays := []dataio.Array{{Name: "y", Shape: d.YShape, Data: d.Y}, {Name: "mu", Shape: d.YShape, Data: d.Mu}}
	if d.X != nil {
		rows, cols := d.X.Dims()
		x := dataio.Array{Name: "X", Shape: []int{rows, cols}, Data: d.X.(*mat.Dense).RawMatrix().Data}
		arrays = append(arrays, x)
	}
	if d.Indices != nil {
		arrays = append(arrays, ndarray.OfIntegers("indices", d.Indices), ndarray.OfIntegers("shape", d.Shape))
	}
	for _, s := range []struct {
		name  string
		value *float64
	}{{"sigma2", d.Sigma2}, {"lambda", d.Lambda}, {"gamma", d.Gamma}} {
		if s.value != nil {
			arrays = append(arrays, dataio.Array{Name: s.name, Data: []float64{*s.value}})
		}
	}
	return arrays
}
