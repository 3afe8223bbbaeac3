package problems_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/vjp"
)

// fitted is mu_hat and its divergence, by probes at all unit vectors.
func fitted(t *testing.T, dev array.Device, s vjp.Solver, y []float64) (mu []float64, divergence float64) {
	t.Helper()
	d := len(y)
	at, probes, images := dev.Alloc(1, d), dev.Alloc(d, d), dev.Alloc(d, d)
	defer at.Free()
	defer probes.Free()
	defer images.Free()
	dev.Upload(at, y)
	sol, err := s.Solve(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	dev.Fill(probes, 0)
	dev.Fill(probes.Diagonal(), 1)
	if err := sol.Linearization.VJP(context.Background(), images, probes); err != nil {
		t.Fatal(err)
	}
	for i, v := range images.ToHost() {
		if i%(d+1) == 0 {
			divergence += v
		}
	}
	return sol.MuHat.ToHost(), divergence
}

// The mean of SURE over draws of coloured noise is the mean of the error in the norm of the inverse
// covariance, computed here from mu and C in the units of y.
func TestSUREIsUnbiasedForColouredNoise(t *testing.T) {
	const d, draws = 12, 400
	mu := make([]float64, d)
	for i := range mu {
		mu[i] = 3 * math.Sin(float64(i)/2)
	}
	// C = diag(v), and C = L L* of a matrix for all entries, or of two channels.
	variances := make([]float64, d)
	factor := make([]float64, d*d)
	for i := range d {
		variances[i] = 0.2 + 0.3*float64(i%4)
		factor[i*d+i] = 1
		if i > 0 {
			factor[i*d+i-1] = 0.7
		}
	}
	product := func(l []float64, k int) []float64 {
		c := make([]float64, k*k)
		for i := range k {
			for j := range k {
				for u := range k {
					c[i*k+j] += l[i*k+u] * l[j*k+u]
				}
			}
		}
		return c
	}
	two := []float64{1, 0, 0.8, 0.5}
	for name, c := range map[string]struct {
		noise string
		array dataio.Array
		draw  func(e []float64) []float64 // from white to coloured noise
		white func(x []float64) []float64
	}{
		"variances": {
			"{variances: v}", dataio.Array{Name: "v", Shape: []int{2, 6}, Data: variances},
			func(e []float64) []float64 { return scaled(e, variances, 0.5) },
			func(x []float64) []float64 { return scaled(x, variances, -0.5) },
		},
		"covariance": {
			"{covariance: v}", dataio.Array{Name: "v", Shape: []int{d, d}, Data: product(factor, d)},
			func(e []float64) []float64 { return lower(factor, d, 1, e) },
			func(x []float64) []float64 { return solveLower(factor, d, 1, x) },
		},
		"channels": {
			"{covariance: v}", dataio.Array{Name: "v", Shape: []int{2, 2}, Data: product(two, 2)},
			func(e []float64) []float64 { return lower(two, 2, 6, e) },
			func(x []float64) []float64 { return solveLower(two, 2, 6, x) },
		},
		"whitening": {
			"{whitening: {diagonal: v}}", dataio.Array{Name: "v", Shape: []int{2, 6},
				Data: scaled(constant(d, 1), variances, -0.5)},
			func(e []float64) []float64 { return scaled(e, variances, 0.5) },
			func(x []float64) []float64 { return scaled(x, variances, -0.5) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			dev := array.NewHost()
			defer dev.Close()
			rng := rand.New(rand.NewPCG(4, 4))
			y := func() []float64 {
				e := make([]float64, d)
				for i := range e {
					e[i] = rng.NormFloat64()
				}
				out := c.draw(e)
				for i := range out {
					out[i] += mu[i]
				}
				return out
			}
			text := "data: d.npz\noperator: identity\nnoise: " + c.noise +
				"\nsynthesis: {adjoint: dct}\nregularizer: {l1: 0.9}"
			load := func(y []float64) problems.Data {
				data, err := scanned(t, text, c.array, dataio.Array{Name: "y", Shape: []int{2, 6}, Data: y},
					dataio.Array{Name: "mu", Shape: []int{2, 6}, Data: mu})
				if err != nil {
					t.Fatal(err)
				}
				return data
			}
			data := load(y())
			p, err := problems.New("", dev, data, problems.Hyper{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Release()
			if *data.Sigma2 != 1 || p.Targets.Noise == "" {
				t.Errorf("sigma2 is %g, the noise %q", *data.Sigma2, p.Targets.Noise)
			}
			s, err := vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(), vjp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			sum, squares := 0.0, 0.0
			for i := range draws {
				one := y()
				if i == 0 { // once through the file, whose whitening is then this test's
					got := load(one).Y
					for j, v := range c.white(one) {
						if math.Abs(got[j]-v) > 1e-12 {
							t.Fatalf("y[%d] whitened is %g, want %g", j, got[j], v)
						}
					}
				}
				z := c.white(one)
				fit, divergence := fitted(t, dev, s, z)
				sure, loss := -float64(d)+2*divergence, 0.0
				for j, m := range c.white(mu) {
					sure += (z[j] - fit[j]) * (z[j] - fit[j])
					loss += (fit[j] - m) * (fit[j] - m)
				}
				sum += sure - loss
				squares += (sure - loss) * (sure - loss)
			}
			mean, stderr := sum/draws, math.Sqrt(squares)/draws
			if math.Abs(mean) > 3*stderr || !(stderr < 1) {
				t.Errorf("the mean of SURE minus the loss is %.3g ± %.2g", mean, stderr)
			}
		})
	}
}

func constant(n int, v float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = v
	}
	return x
}

// scaled is x v^power.
func scaled(x, v []float64, power float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] * math.Pow(v[i], power)
	}
	return out
}

// lower is L x for k channels of n values.
func lower(l []float64, k, n int, x []float64) []float64 {
	out := make([]float64, k*n)
	for i := range k {
		for j := range i + 1 {
			for u := range n {
				out[i*n+u] += l[i*k+j] * x[j*n+u]
			}
		}
	}
	return out
}

func solveLower(l []float64, k, n int, x []float64) []float64 {
	out := append([]float64(nil), x...)
	for i := range k {
		for u := range n {
			for j := range i {
				out[i*n+u] -= l[i*k+j] * out[j*n+u]
			}
			out[i*n+u] /= l[i*k+i]
		}
	}
	return out
}

// A complex covariance of coils whitens noise with E n n* = C, to a variance of 1/2 of either part.
func TestComplexCovarianceWhitens(t *testing.T) {
	const n = 3000
	// L = [1 0; 0.6-0.5i 0.4]
	rng := rand.New(rand.NewPCG(6, 6))
	y := make([]float64, 4*n)
	for i := range n {
		e := [2]complex128{}
		for j := range e {
			e[j] = complex(rng.NormFloat64(), rng.NormFloat64()) * complex(math.Sqrt(0.5), 0)
		}
		second := (0.6-0.5i)*e[0] + 0.4*e[1]
		y[2*i], y[2*i+1] = real(e[0]), imag(e[0])
		y[2*(n+i)], y[2*(n+i)+1] = real(second), imag(second)
	}
	c := dataio.Array{Name: "c", Shape: []int{2, 2, 2}, Data: []float64{1, 0, 0.6, 0.5, 0.6, -0.5, 0.36 + 0.25 + 0.16,
		0}, Complex: true}
	data, err := scanned(t, "data: d.npz\noperator: {complex: identity}\nnoise: {covariance: c}\nregularizer: "+
		"{complex-l1: 1}",
		c, dataio.Array{Name: "y", Shape: []int{2, n, 2}, Data: y, Complex: true})
	if err != nil {
		t.Fatal(err)
	}
	var moments [4][4]float64
	for i := range n {
		x := []float64{data.Y[2*i], data.Y[2*i+1], data.Y[2*(n+i)], data.Y[2*(n+i)+1]}
		for a := range 4 {
			for b := range 4 {
				moments[a][b] += x[a] * x[b] / n
			}
		}
	}
	for a := range 4 {
		for b := range 4 {
			want := 0.0
			if a == b {
				want = *data.Sigma2
			}
			if math.Abs(moments[a][b]-want) > 4*0.5/math.Sqrt(n) || *data.Sigma2 != 0.5 {
				t.Errorf("moment (%d, %d) of the whitened noise is %.3g, want %.3g", a, b, moments[a][b], want)
			}
		}
	}
}

// With counts of mean 4 to 40 the transformed SURE is near the loss, and the inverse is nearly
// unbiased.
func TestAnscombeIsApproximatelyUnbiased(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const d, draws = 16, 400
	mu := make([]float64, d)
	for i := range mu {
		mu[i] = 22 + 18*math.Sin(float64(i)/3)
	}
	rng := rand.New(rand.NewPCG(8, 8))
	sum, squares := 0.0, 0.0
	mean := make([]float64, d)
	var solver vjp.Solver
	for range draws {
		y := make([]float64, d)
		for i, m := range mu { // Knuth's method
			limit, p := math.Exp(-m), rng.Float64()
			for p > limit {
				y[i]++
				p *= rng.Float64()
			}
		}
		transform := func(x []float64) []float64 {
			z := make([]float64, d)
			for i, v := range x {
				z[i] = 2 * math.Sqrt(v+0.375)
			}
			return z
		}
		if solver == nil {
			data, err := scanned(t, "data: d.npz\noperator: identity\nnoise: anscombe\nsynthesis: {adjoint: "+
				"dct}\nregularizer: {l1: {weight: 1, unpenalized: averages}}",
				dataio.Array{Name: "y", Shape: []int{d}, Data: y}, dataio.Array{Name: "mu", Shape: []int{d}, Data: mu})
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range transform(y) {
				if math.Abs(data.Y[i]-v) > 1e-14 {
					t.Fatalf("y[%d] is transformed to %g, want %g", i, data.Y[i], v)
				}
			}
			p, err := problems.New("", dev, data, problems.Hyper{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Release()
			if solver, err = vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(),
				vjp.Options{}); err != nil {
				t.Fatal(err)
			}
			defer solver.Release()
			if p.Original == nil || !strings.Contains(p.Targets.SURE, "is approximate") {
				t.Errorf("no inverse, or SURE is said to be %q", p.Targets.SURE)
			}
			// Without shrinkage the inverse of the transform's mean is the mean.
			defer func() {
				p.Original(mean)
				for i, m := range mu {
					if math.Abs(mean[i]-m) > 4*math.Sqrt(m/draws)+0.05 {
						t.Errorf("the inverse of the mean transform of counts of mean %.3g is %.3g", m, mean[i])
					}
				}
			}()
		}
		z := transform(y)
		fit, divergence := fitted(t, dev, solver, z)
		sure, loss := -float64(d)+2*divergence, 0.0
		for j, m := range transform(mu) {
			sure += (z[j] - fit[j]) * (z[j] - fit[j])
			loss += (fit[j] - m) * (fit[j] - m)
			mean[j] += z[j] / draws
		}
		sum += sure - loss
		squares += (sure - loss) * (sure - loss)
	}
	if bias, stderr := sum/draws, math.Sqrt(squares)/draws; math.Abs(bias) > 3*stderr+0.05*d {
		t.Errorf("the mean of SURE minus the loss is %.3g ± %.2g", bias, stderr)
	}
}

func TestNoiseRefusesWhatDoesNotFit(t *testing.T) {
	y := dataio.Array{Name: "y", Shape: []int{4}, Data: []float64{1, 2, 3, 4}}
	named := func(shape []int, data ...float64) dataio.Array {
		return dataio.Array{Name: "v", Shape: shape, Data: data}
	}
	for _, c := range []struct {
		text, want string
		array      dataio.Array
	}{
		{"noise: {variances: v}", `array "v" holds 0 at [1]`, named([]int{4}, 1, 0, 1, 1)},
		{"noise: {variances: v}", "has shape (2,), expected (4,)", named([]int{2}, 1, 1)},
		{"noise: {covariance: v}", "expected (4, 4)", named([]int{2, 2}, 1, 0, 0, 1)},
		{"noise: {covariance: v}", "not positive definite: pivot 1", named([]int{4, 4}, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0,
			1, 0, 0, 0, 0, 1)},
		{"noise: {covariance: v}", "not Hermitian", named([]int{4, 4}, 1, 1, 0, 0, 2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1)},
		{"noise: {variances: v, covariance: v}", "expected a single one, one of variances", named([]int{4}, 1, 1, 1, 1)},
		{"noise: poisson", "expected one of variances, covariance, whitening, anscombe", named([]int{4}, 1, 1, 1, 1)},
		{"noise: anscombe", "expected Poisson counts", named([]int{4}, 1, 1, 1, 1)},
		{"noise: {variances: v}\nweights: v", "exclude each other", named([]int{4}, 1, 1, 1, 1)},
		{"noise: {variances: v}\nintercept: true", "excludes intercept", named([]int{4}, 1, 1, 1, 1)},
		{"noise: {variances: v}\nloss: {name: huber, delta: 1}", "that of the squared loss",
			named([]int{4}, 1, 1, 1, 1)},
	} {
		if strings.Contains(c.want, "Poisson") {
			y.Data = []float64{1, 2, -3, 4}
		} else {
			y.Data = []float64{1, 2, 3, 4}
		}
		_, err := scanned(t, "data: d.npz\noperator: identity\nregularizer: {l1: 1}\n"+c.text, y, c.array)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}
