package problems_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/problems"
	"surepipe/vjp"
)

func value(x float64) *float64 { return &x }

// fractions are the paper's weights, as parts of lambda_max and gamma_max.
var fractions = map[string][2]float64{
	"lasso": {0.1, 0}, "elastic-net": {0.1, 0}, "group-lasso": {0.1, 0}, "svt": {0.1, 0},
	"matrix-completion": {0.25, 0}, "robust-pca": {0.16, 0.057},
}

// ofMax are weights relative to their maxima; only robust PCA has a gamma.
func ofMax(name string, lambda, gamma float64) problems.Hyper {
	hyper := problems.Hyper{Lambda: problems.OfMax(lambda)}
	if name == "robust-pca" {
		hyper.Gamma = problems.OfMax(gamma)
	}
	return hyper
}

// generated draws one data set of each kind with its problem's name.
func generated(t *testing.T, seed uint64) map[string]problems.Data {
	t.Helper()
	all := map[string]problems.Data{}
	for name, draw := range map[string]func() (problems.Data, error){
		"lasso":             func() (problems.Data, error) { return problems.GenerateLasso(60, 120, seed) },
		"matrix-completion": func() (problems.Data, error) { return problems.GenerateMatrixCompletion(30, 20, seed) },
		"robust-pca":        func() (problems.Data, error) { return problems.GenerateRobustPCA(20, 20, seed) },
		"svt":               func() (problems.Data, error) { return problems.GenerateSVT(30, 20, seed) },
		"local-low-rank":    func() (problems.Data, error) { return problems.GenerateLocalLowRank(4, 10, 9, seed) },
		"tv1d":              func() (problems.Data, error) { return problems.GenerateTV1D(300, seed) },
	} {
		data, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = data
	}
	all["ols"], all["ridge"], all["elastic-net"] = all["lasso"], all["lasso"], all["lasso"]
	net := all["elastic-net"]
	net.Lambda2 = value(3)
	all["elastic-net"] = net
	grouped := all["lasso"]
	_, p := grouped.X.Dims()
	for j := range p {
		grouped.Groups = append(grouped.Groups, j%(p/4))
	}
	all["group-lasso"] = grouped
	return all
}

func solve(t *testing.T, dev array.Device, p *problems.Problem, y []float64) []float64 {
	t.Helper()
	b, _ := solution(t, dev, p, y)
	return b
}

// solution is b and mu_hat, with the mean of y where there is an intercept.
func solution(t *testing.T, dev array.Device, p *problems.Problem, y []float64) (coefficients, mu []float64) {
	t.Helper()
	s, err := vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(),
		vjp.Options{Tol: 1e-10, Derivative: vjp.None})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	b := dev.Alloc(1, len(y))
	defer b.Free()
	dev.Upload(b, y)
	sol, err := s.Solve(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	if !sol.Converged {
		t.Fatalf("%s: %+v", p.Name, sol.Convergence)
	}
	mu = sol.MuHat.ToHost()
	if p.Solve().Origin != nil {
		floats.AddConst(stat.Mean(y, nil), mu)
	}
	return sol.B.ToHost(), mu
}

func TestEveryProblemSolvesItsGeneratedData(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for name, data := range generated(t, 1) {
			p, err := problems.New(name, dev, data, problems.Hyper{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b := solve(t, dev, p, data.Y)
			size := 1
			for _, n := range p.BShape {
				size *= n
			}
			if len(b) != p.P || size != p.P {
				t.Errorf("%s: b has %d values in shape %v, p = %d", name, len(b), p.BShape, p.P)
			}
			p.Release()
			if live := dev.Stats().Live; live != 0 {
				t.Errorf("%s: %d batches leaked", name, live)
			}
		}
	})
}

// Just above its maximum the weight gives b = 0, just below it does not.
func TestWeightsHaveTheirMaximum(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, name := range []string{"lasso", "elastic-net", "svt", "matrix-completion", "robust-pca"} {
			data := generated(t, 2)[name]
			for _, c := range []struct {
				factor float64
				zero   bool
			}{{1 + 1e-6, true}, {1 - 1e-3, false}} {
				p, err := problems.New(name, dev, data, ofMax(name, c.factor, c.factor))
				if err != nil {
					t.Fatal(err)
				}
				if !p.Relative {
					t.Errorf("%s: not marked as relative to y", name)
				}
				zero := true
				for _, b := range solve(t, dev, p, data.Y) {
					zero = zero && b == 0
				}
				if zero != c.zero {
					t.Errorf("%s at %g of the maximum: b = 0 is %t", name, c.factor, zero)
				}
				p.Release()
			}
		}
	})
}

func TestGeneratedDataAreWhatThePaperDescribes(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		all := generated(t, 3)
		lasso := all["lasso"]
		norm2 := 0.0
		for _, m := range lasso.Mu {
			norm2 += m * m
		}
		if share := norm2 / (norm2 + 60*2); math.Abs(share-0.8) > 1e-12 {
			t.Errorf("lasso: signal share %g", share)
		}
		completion := all["matrix-completion"]
		if d := len(completion.Y); d != 60 {
			t.Errorf("matrix completion: %d entries observed", d)
		}
		svt := all["svt"]
		var svd mat.SVD
		svd.Factorize(mat.NewDense(30, 20, append([]float64(nil), svt.Mu...)), mat.SVDNone)
		sigma := svd.Values(nil)
		if sigma[4] < 1e-9 || sigma[5] > 1e-9 || sigma[0] > 20 {
			t.Errorf("svt: singular values %v", sigma[:7])
		}
		for name, data := range all {
			if *data.Sigma2 != 2 {
				t.Errorf("%s: sigma2 = %g", name, *data.Sigma2)
			}
			noise := 0.0
			for i := range data.Y {
				noise += (data.Y[i] - data.Mu[i]) * (data.Y[i] - data.Mu[i])
			}
			d := float64(len(data.Y))
			if z := (noise/2 - d) / math.Sqrt(2*d); math.Abs(z) > 5 {
				t.Errorf("%s: noise %g standard deviations off", name, z)
			}
			// The weights come from another y.
			if name == "ols" || name == "ridge" || name == "tv1d" || name == "local-low-rank" {
				continue
			}
			p, err := problems.New(name, dev, data, ofMax(name, fractions[name][0], fractions[name][1]))
			if err != nil {
				t.Fatal(err)
			}
			if p.Lambda == *data.Lambda {
				t.Errorf("%s: lambda %g is of the same y", name, *data.Lambda)
			}
			p.Release()
		}
	})
}

func TestDataAndSamplesAreFunctionsOfTheSeed(t *testing.T) {
	a, b, c := generated(t, 4), generated(t, 4), generated(t, 5)
	for name := range a {
		if fmt.Sprint(a[name].Y, *a[name].Lambda) != fmt.Sprint(b[name].Y, *b[name].Lambda) {
			t.Errorf("%s: seed 4 gave two data sets", name)
		}
		if a[name].Y[0] == c[name].Y[0] {
			t.Errorf("%s: seeds 4 and 5 gave the same data", name)
		}
	}
	mu := make([]float64, 1000)
	s := problems.Sample(mu, 4, 1, 0)
	if again := problems.Sample(mu, 4, 1, 0); s[17] != again[17] {
		t.Error("sample 0 is not reproducible")
	}
	other := problems.Sample(mu, 4, 1, 1)
	var sum, cross float64
	for i := range s {
		sum += s[i] * s[i]
		cross += s[i] * other[i]
	}
	if math.Abs(sum/4000-1) > 0.2 || math.Abs(cross/4000) > 0.15 {
		t.Errorf("samples have variance %g, covariance %g, expected 4 and 0", sum/1000, cross/1000)
	}
}

// Every pair of neighbouring samples and of neighbouring seeds is uncorrelated
// at equal and at shifted places: PCG's states differ by one there.
func TestSamplesOfNeighbouringNumbersAndSeedsAreIndependent(t *testing.T) {
	const n, length = 4000, 8
	mu := make([]float64, length)
	for name, draw := range map[string]func(i int) []float64{
		"samples": func(i int) []float64 { return problems.Sample(mu, 1, 7, i) },
		"seeds":   func(i int) []float64 { return problems.Sample(mu, 1, uint64(i), 0) },
	} {
		all := make([][]float64, n)
		for i := range all {
			all[i] = draw(i)
		}
		for _, gap := range []int{1, 2, 64} {
			for a := range length {
				for b := range length {
					sum := 0.0
					for i := gap; i < n; i++ {
						sum += all[i-gap][a] * all[i][b]
					}
					// 384 correlations: the largest of so many normals passes 5 once in 4000 seeds.
					if z := sum / math.Sqrt(n-float64(gap)); math.Abs(z) > 5 {
						t.Errorf("%s %d apart, places %d and %d: correlation %g standard deviations from 0", name,
							gap, a, b, z)
					}
				}
			}
		}
	}
}

// The weights in a generated file are those of sample -1, which no other draw
// meets.
func TestGeneratedWeightsComeFromSampleMinusOne(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, name := range []string{"lasso", "matrix-completion", "robust-pca"} {
			data := generated(t, 9)[name]
			tuned := data
			tuned.Y = problems.Sample(data.Mu, *data.Sigma2, 9, -1)
			p, err := problems.New(name, dev, tuned, ofMax(name, fractions[name][0], fractions[name][1]))
			if err != nil {
				t.Fatal(err)
			}
			// The generator sums products row by row, and the problem as its device does: the last bits differ.
			differs := func(got, want float64) bool { return math.Abs(got-want) > 1e-14*want }
			if differs(p.Lambda, *data.Lambda) || data.Gamma != nil && differs(p.Gamma, *data.Gamma) {
				t.Errorf("%s: lambda %g, gamma %g, the file has %g", name, p.Lambda, p.Gamma, *data.Lambda)
			}
			p.Release()
		}
	})
}

func TestGeneratedSparsityAndSizesFollowThePaper(t *testing.T) {
	lasso, err := problems.GenerateLasso(80, 160, 1)
	if err != nil {
		t.Fatal(err)
	}
	// mu = X b with 80/20 equal nonzeros: it lies in the span of 4 columns, each with
	// the same coefficient.
	b := mat.NewVecDense(4, nil)
	var qr mat.QR
	qr.Factorize(lasso.X.(*mat.Dense).Slice(0, 80, 0, 4))
	if err := qr.SolveVecTo(b, false, mat.NewVecDense(80, lasso.Mu)); err != nil {
		t.Fatal(err)
	}
	residual := mat.NewVecDense(80, nil)
	residual.MulVec(lasso.X.(*mat.Dense).Slice(0, 80, 0, 4), b)
	residual.SubVec(residual, mat.NewVecDense(80, lasso.Mu))
	if mat.Norm(residual, 2) > 1e-10 || math.Abs(b.AtVec(0)-b.AtVec(3)) > 1e-12 {
		t.Errorf("lasso: nonzeros %v", b.RawVector().Data)
	}

	// The rank is 0.02 n where that is more than 5, and never above the smaller side.
	for _, c := range []struct{ m, n, rank int }{{20, 400, 8}, {60, 40, 5}, {3, 2, 2}, {1, 7, 1}} {
		svt, err := problems.GenerateSVT(c.m, c.n, 2)
		if err != nil {
			t.Fatal(err)
		}
		var svd mat.SVD
		svd.Factorize(mat.NewDense(c.m, c.n, svt.Mu), mat.SVDNone)
		sigma := svd.Values(nil)
		rank := 0
		for _, s := range sigma {
			if s > 1e-10*sigma[0] {
				rank++
			}
		}
		if rank != c.rank || sigma[0] > float64(c.n) {
			t.Errorf("%d x %d: rank %d, largest singular value %g; expected rank %d and at most %d", c.m, c.n, rank,
				sigma[0], c.rank, c.n)
		}
	}

	// The low-rank part of both is the same draw: what differs is the sparse part.
	for _, n := range []int{2, 10, 400} {
		low, err := problems.GenerateSVT(n, n, 3)
		if err != nil {
			t.Fatal(err)
		}
		both, err := problems.GenerateRobustPCA(n, n, 3)
		if err != nil {
			t.Fatal(err)
		}
		nonzeros := 0
		for i := range low.Mu {
			s := both.Mu[i] - low.Mu[i]
			if s != 0 {
				nonzeros++
			}
			if s < 0 || s > 100 {
				t.Errorf("n = %d: a sparse entry of %g", n, s)
			}
		}
		if want := min(max(10, n*n/10000), n*n); nonzeros != want {
			t.Errorf("n = %d: %d sparse entries, expected %d", n, nonzeros, want)
		}
	}
}

// A vector in memory needs no shape.
func TestVectorsNeedNoShape(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		data := problems.Data{X: mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 7}), Y: []float64{1, 2, 3}}
		p, err := problems.New("ols", dev, data, problems.Hyper{})
		if err != nil {
			t.Fatal(err)
		}
		p.Release()
	})
}

// The elastic net without its quadratic part is the LASSO.
func TestElasticNetWithoutLambda2IsLasso(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		data := generated(t, 6)["lasso"]
		var b [2][]float64
		for i, name := range []string{"lasso", "elastic-net"} {
			hyper := problems.Hyper{}
			if name == "elastic-net" {
				hyper.Lambda2 = problems.Absolute(0)
			}
			p, err := problems.New(name, dev, data, hyper)
			if err != nil {
				t.Fatal(err)
			}
			b[i] = solve(t, dev, p, data.Y)
			p.Release()
		}
		for i := range b[0] {
			if b[0][i] != b[1][i] {
				t.Fatalf("b[%d] is %g and %g", i, b[0][i], b[1][i])
			}
		}
	})
}

func TestBadDataAreRefusedByName(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		x := mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 6})
		y := []float64{1, 2, 3}
		regression := problems.Data{X: x, Y: y, YShape: []int{3}, Lambda: value(0.1), Lambda2: value(1)}
		matrix := problems.Data{Y: []float64{1, 2, 3, 4, 5, 6}, YShape: []int{3, 2}, Lambda: value(0.1),
			Gamma: value(0.1)}
		completion := problems.Data{Y: y, YShape: []int{3}, Indices: []int{0, 3, 5}, Shape: []int{3, 2},
			Lambda: value(0.1)}
		with := func(d problems.Data, change func(*problems.Data)) problems.Data { change(&d); return d }
		for _, c := range []struct {
			name  string
			data  problems.Data
			hyper problems.Hyper
			want  string
		}{
			{"lars", regression, problems.Hyper{}, `problem "lars" is unknown, expected one of ols, ridge, lasso`},
			{"ols", problems.Data{Y: y, YShape: []int{3}}, problems.Hyper{}, `array "X" is missing`},
			{"ols", with(regression, func(d *problems.Data) { d.Y, d.YShape = nil, nil }), problems.Hyper{},
				`array "y" is missing, expected shape (d,)`},
			{"lasso", with(regression, func(d *problems.Data) { d.Y, d.YShape = y[:2], []int{2} }), problems.Hyper{},
				`array "y" has 2 values, expected 3: "X" has shape (3, 2)`},
			{"lasso", with(regression, func(d *problems.Data) { d.Y, d.YShape = []float64{}, []int{0} }),
				problems.Hyper{}, `array "y" is empty (shape (0,))`},
			{"lasso", with(regression, func(d *problems.Data) { d.YShape = []int{3, 1} }), problems.Hyper{},
				`array "y" has shape (3, 1), expected shape (d,)`},
			{"ridge", with(regression, func(d *problems.Data) { d.Y = []float64{1, math.NaN(), 3} }),
				problems.Hyper{}, `array "y" holds NaN at [1], expected finite numbers`},
			{"lasso", with(regression, func(d *problems.Data) {
				d.X = mat.NewDense(3, 2,
					[]float64{1, 2, 3, 4, math.Inf(1), 6})
			}), problems.Hyper{}, `array "X" holds +Inf at [2, 0]`},
			{"lasso", with(regression, func(d *problems.Data) { d.Mu = y[:1] }), problems.Hyper{},
				`array "mu" has 1 values, expected 3`},
			{"lasso", with(regression, func(d *problems.Data) { d.Mu = []float64{1, 2, math.Inf(-1)} }),
				problems.Hyper{}, `array "mu" holds -Inf at [2]`},
			{"lasso", with(regression, func(d *problems.Data) { d.Lambda = nil }), problems.Hyper{},
				`lambda is missing`},
			{"lasso", regression, problems.Hyper{Lambda: problems.Absolute(0)},
				`lambda is 0, expected a positive number`},
			{"lasso", regression, problems.Hyper{Lambda: problems.Absolute(-1)},
				`lambda is -1, expected a positive number`},
			{"lasso", with(regression, func(d *problems.Data) { d.Y = make([]float64, 3) }),
				problems.Hyper{Lambda: problems.OfMax(0.5)}, `lambda is 0.5max, but its maximum is 0 at this y`},
			// X* y is -1.1e-16.
			{"lasso", with(regression, func(d *problems.Data) {
				d.X, d.Y = mat.NewDense(3, 1, []float64{0.7, 0.2, -0.3}), []float64{0.7, 0.1, 1.7}
			}), problems.Hyper{Lambda: problems.OfMax(0.5)},
				`its maximum is 0 at this y: what has no penalty fits y, or nothing in X is correlated with y`},
			{"ridge", regression, problems.Hyper{Lambda: problems.OfMax(0.5)},
				`lambda is 0.5max, but this weight has no maximum`},
			{"ridge", regression, problems.Hyper{Lambda: problems.Absolute(math.Inf(1))}, `lambda is infinite`},
			{"elastic-net", regression, problems.Hyper{Lambda2: problems.OfMax(0.5)},
				`lambda2 is 0.5max, but this weight has no maximum`},
			{"elastic-net", regression, problems.Hyper{Lambda2: problems.Absolute(-1)},
				`lambda2 is -1, expected a positive number`},
			{"ols", regression, problems.Hyper{Lambda: problems.Absolute(1)},
				`lambda is given, but ols has no such weight`},
			{"lasso", regression, problems.Hyper{Gamma: problems.OfMax(1)},
				`gamma is given, but lasso has no such weight`},
			{"svt", matrix, problems.Hyper{Lambda2: problems.Absolute(0)},
				`lambda2 is given, but svt has no such weight`},
			{"svt", with(matrix, func(d *problems.Data) { d.YShape = []int{4, 2} }), problems.Hyper{},
				`array "y" has 6 values, expected 8 for its shape (4, 2)`},
			{"svt", with(matrix, func(d *problems.Data) { d.YShape = []int{-3, -2} }), problems.Hyper{},
				`array "y" has 6 values, expected 0 for its shape (-3, -2)`},
			{"svt", with(matrix, func(d *problems.Data) { d.YShape = nil }), problems.Hyper{},
				`array "y" has shape (6,), expected shape (m, n)`},
			{"svt", with(matrix, func(d *problems.Data) { d.YShape = []int{6} }), problems.Hyper{},
				`array "y" has shape (6,), expected shape (m, n)`},
			{"svt", with(matrix, func(d *problems.Data) { d.Y = []float64{1, 2, 3, 4, 5, math.NaN()} }),
				problems.Hyper{}, `array "y" holds NaN at [2, 1]`},
			{"robust-pca", with(matrix, func(d *problems.Data) { d.Gamma = nil }), problems.Hyper{},
				`gamma is missing`},
			{"robust-pca", with(matrix, func(d *problems.Data) { d.Y = make([]float64, 6) }),
				problems.Hyper{Gamma: problems.OfMax(0.5)}, `gamma is 0.5max, but its maximum is 0`},
			{"matrix-completion", with(completion, func(d *problems.Data) { d.Shape = nil }), problems.Hyper{},
				`array "shape" is missing`},
			{"matrix-completion", with(completion, func(d *problems.Data) { d.Shape = []int{3, -2} }),
				problems.Hyper{}, `array "shape" is [3 -2]`},
			{"matrix-completion", with(completion, func(d *problems.Data) { d.Indices = nil }), problems.Hyper{},
				`array "indices" is missing`},
			{"matrix-completion", with(completion, func(d *problems.Data) { d.Indices = []int{1, 2} }),
				problems.Hyper{}, `array "indices" has 2 values, expected 3`},
			{"matrix-completion", with(completion, func(d *problems.Data) { d.Indices = []int{1, 2, 6} }),
				problems.Hyper{}, `array "indices" holds 6 at [2], expected 0 to 5 for a 3 x 2 matrix`},
			{"matrix-completion", with(completion, func(d *problems.Data) { d.Indices = []int{1, -2, 4} }),
				problems.Hyper{}, `array "indices" holds -2 at [1]`},
			{"matrix-completion", with(completion, func(d *problems.Data) { d.Indices = []int{1, 2, 1} }),
				problems.Hyper{}, `array "indices" holds 1 twice, at [0] and [2]`},
		} {
			_, err := problems.New(c.name, dev, c.data, c.hyper)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, expected %q", c.name, err, c.want)
			}
			if live := dev.Stats().Live; live != 0 {
				t.Errorf("%s: %q left %d batches", c.name, c.want, live)
			}
		}
	})
}

func TestParseWeight(t *testing.T) {
	for text, want := range map[string]problems.Weight{
		"3.5": problems.Absolute(3.5), "1e-3": problems.Absolute(1e-3), "inf": problems.Absolute(math.Inf(1)),
		" 2 ":     problems.Absolute(2),
		"0.25max": problems.OfMax(0.25), "max": problems.OfMax(1), "0": problems.Absolute(0),
	} {
		if got, err := problems.ParseWeight(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "nan", "-1", "-0.5max", "infmax", "0.25 mx", "max0.25", "1,5", "1e400"} {
		if got, err := problems.ParseWeight(text); err == nil ||
			!strings.HasSuffix(err.Error(), ", expected a positive number, inf, or a multiple such as 0.25max") {
			t.Errorf("%q is %+v, error %v", text, got, err)
		}
	}
}

// The maximum of a weight at a y that is constant, but for rounding errors too, or 0 is 0, and the error says why.
func TestMaximumOfAConstantIsZero(t *testing.T) {
	dev := array.NewHost()
	y := make([]float64, 100)
	for i := range y {
		y[i] = 0.3
		if i%3 == 0 {
			y[i] = 0.1 + 0.2 + 0
		}
		if i%7 == 0 {
			y[i] += 0x1p-54
		}
	}
	for _, c := range []struct {
		problem, want string
		y             []float64
	}{
		{"tv1d", "y is constant but for rounding errors, from 0.", y},
		{"trend1d", "y is constant but for rounding errors", y},
		{"svt", "y is 0 everywhere", make([]float64, 100)},
	} {
		data := problems.Data{Y: c.y}
		if c.problem == "svt" {
			data.YShape = []int{20, 5}
		}
		p, err := problems.New(c.problem, dev, data, problems.Hyper{Lambda: problems.Absolute(1)})
		if err != nil {
			t.Fatal(c.problem, err)
		}
		if _, _, err := p.DefaultGrid(t.Context(), func() float64 { return 0 }); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.problem, err, c.want)
		}
		p.Release()
	}
}

// The default path of an image is about its noise, and that of a smoother goes from a polynomial to y itself.
func TestDefaultGridsOfImagesAndSmoothers(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	y := make([]float64, 40*50)
	for i := range y {
		y[i] = float64(i%50/25) + 0.1*rng.NormFloat64()
	}
	order := 3
	for _, c := range []struct {
		problem  string
		data     problems.Data
		from, to float64
	}{
		{"tv2d", problems.Data{Y: y, YShape: []int{40, 50}}, 0.05 * 0.1, 3 * 0.1},
		{"whittaker", problems.Data{Y: y[:100]}, 0.01 / 16, 10 * math.Pow(100/math.Pi, 4)},
		{"whittaker", problems.Data{Y: y[:100], Variant: problems.Variant{Order: &order}}, 0.01 / 64,
			10 * math.Pow(100/math.Pi, 6)},
	} {
		p, err := problems.New(c.problem, dev, c.data, problems.Hyper{Lambda: problems.Absolute(1)})
		if err != nil {
			t.Fatal(c.problem, err)
		}
		g, _, err := p.DefaultGrid(t.Context(), func() float64 { return 0.01 })
		if err != nil || math.Abs(g.From.Value/c.from-1) > 1e-12 || math.Abs(g.To.Value/c.to-1) > 1e-12 || g.Relative() {
			t.Errorf("%s: %+v, %v, expected %g to %g", c.problem, g, err, c.from, c.to)
		}
		p.Release()
	}
}
