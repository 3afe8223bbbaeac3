package noise

import (
	"errors"
	"fmt"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/dataio"
)

// normals are n standard normal numbers, times sigma.
func normals(r *rand.Rand, n int, sigma float64) []float64 {
	y := make([]float64, n)
	for i := range y {
		y[i] = sigma * r.NormFloat64()
	}
	return y
}

func must(t testing.TB) func(Estimate, error) Estimate {
	return func(e Estimate, err error) Estimate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// Over many draws the mean is the truth, but for the bias that the doc states, to four
// standard errors, and the stated standard error is the spread.
func TestMeanAndSpreadOverManyDraws(t *testing.T) {
	const sigma2 = 2.25
	smooth := func(x float64) float64 { return 20 * math.Sin(x/40) }
	x := mat.NewDense(60, 12, nil)
	b := mat.NewVecDense(12, nil)
	for _, test := range []struct {
		name  string
		draws int
		// bias lies between these, relative to sigma2.
		low, high float64
		// spread is the tolerance of the standard error.
		spread float64
		draw   func(r *rand.Rand) (Estimate, error)
	}{
		{"signal of noise", 2000, 2. / 511, 2. / 511, 0.07, func(r *rand.Rand) (Estimate, error) {
			return MADSignal(normals(r, 1025, 1.5))
		}},
		{"signal", 2000, 2. / 511, 2. / 511, 0.07, func(r *rand.Rand) (Estimate, error) {
			y := normals(r, 1024, 1.5)
			for i := range y {
				y[i] += smooth(float64(i))
			}
			return MADSignal(y)
		}},
		// A jump every six values on average, of ten standard deviations.
		{"signal of jumps", 400, -0.02, 0.12, 3.5, func(r *rand.Rand) (Estimate, error) {
			y := normals(r, 1200, 1.5)
			level := 0.0
			for i := range y {
				if r.IntN(6) == 0 {
					level += 15 * float64(1-2*r.IntN(2))
				}
				y[i] += level
			}
			return MADSignal(y)
		}},
		{"image", 1500, 2. / 744, 2. / 744, 0.08, func(r *rand.Rand) (Estimate, error) {
			y := normals(r, 50*65, 1.5)
			for i := range y {
				// Edges along both axes, and a slope.
				row, col := i/65, i%65
				y[i] += float64(row) + 2*float64(col)
				if row > 20 {
					y[i] += 500
				}
				if col > 31 {
					y[i] -= 300
				}
			}
			return MADImage(y, 50, 65)
		}},
		{"square matrix", 600, -0.6 / 60, 0, 0.2, func(r *rand.Rand) (Estimate, error) {
			return MedianSingularValue(normals(r, 60*60, 1.5), 60, 60)
		}},
		{"wide matrix", 600, -0.6 / 30, 0, 0.2, func(r *rand.Rand) (Estimate, error) {
			return MedianSingularValue(normals(r, 30*90, 1.5), 30, 90)
		}},
		{"tall matrix of rank 1", 600, -0.02, 0, 0.2, func(r *rand.Rand) (Estimate, error) {
			y := normals(r, 60*30, 1.5)
			for i := range y {
				y[i] += 40 * math.Cos(float64(i/30)) * math.Sin(float64(i%30))
			}
			return MedianSingularValue(y, 60, 30)
		}},
		{"square matrix of rank 10", 200, -0.02, 0.01, 0.2, func(r *rand.Rand) (Estimate, error) {
			return MedianSingularValue(lowRank(r, 50, 50, 10, 0, 0), 50, 50)
		}},
		{"matrix of rank 5 with outliers", 40, -0.04, 0.01, 0.6, func(r *rand.Rand) (Estimate, error) {
			return RobustLowRank(lowRank(r, 60, 80, 5, 0.1, 15), 60, 80)
		}},
		{"tall matrix of rank 3 without", 40, -0.02, 0.02, 0.6, func(r *rand.Rand) (Estimate, error) {
			return RobustLowRank(lowRank(r, 300, 40, 3, 0, 0), 300, 40)
		}},
		{"regression", 4000, 0, 0, 0.05, func(r *rand.Rand) (Estimate, error) {
			for i := range 60 {
				for j := range 12 {
					// Units that differ are no deficiency of rank.
					x.Set(i, j, r.NormFloat64()*math.Pow(10, float64(2*j-12)))
				}
			}
			for j := range 12 {
				b.SetVec(j, r.NormFloat64()*math.Pow(10, float64(12-2*j)))
			}
			var fit mat.VecDense
			fit.MulVec(x, b)
			y := normals(r, 60, 1.5)
			for i := range y {
				y[i] += fit.AtVec(i)
			}
			return OLSResidual(x, y)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 1))
			estimates := make([]float64, test.draws)
			var e Estimate
			for k := range estimates {
				e = must(t)(test.draw(r))
				estimates[k] = e.Sigma2 / sigma2
			}
			mean, sd := stat.MeanStdDev(estimates, nil)
			error := 4 * stat.StdErr(sd, float64(test.draws))
			if mean-1 < test.low-error || mean-1 > test.high+error {
				t.Errorf("mean %.5f of the truth, expected 1%+.5f to 1%+.5f, each +- %.5f", mean, test.low, test.high,
					error)
			}
			if ratio := e.RelStdErr / sd; math.Abs(ratio-1) > test.spread {
				t.Errorf("standard error %.5f, spread %.5f", e.RelStdErr, sd)
			}
		})
	}
}

// Details of a signal that are all of one magnitude are all within 3 sigma, those of an image their own median.
func TestMADOfKnownDetails(t *testing.T) {
	// The filter on +1, -1, +1, ... gives the sum of its magnitudes with alternating
	// signs undone: (1 - s) + (3 - s) + (3 + s) + (1 + s) = 8, over 4 sqrt 2 and signed.
	y := make([]float64, 40)
	for i := range y {
		y[i] = float64(1 - 2*(i%2))
	}
	want := 2 / (1 - 6*math.Exp(-4.5)/math.Sqrt(2*math.Pi)/math.Erf(3/math.Sqrt2))
	if e := must(t)(MADSignal(y)); math.Abs(e.Sigma2-want) > 1e-12*want {
		t.Errorf("signal: %.15g, want %.15g", e.Sigma2, want)
	}
	board := make([]float64, 11*12)
	for i := range board {
		board[i] = float64(1 - 2*((i/12+i%12)%2))
	}
	want = 4 / (madNormal * madNormal)
	if e := must(t)(MADImage(board, 11, 12)); math.Abs(e.Sigma2-want) > 1e-13*want ||
		e.RelStdErr != madStdErr/math.Sqrt(20) {
		t.Errorf("image: %.15g +- %g, want %.15g", e.Sigma2, e.RelStdErr, want)
	}
}

func TestHighpassIsDaubechies(t *testing.T) {
	sum, moment, norm := 0.0, 0.0, 0.0
	for k, g := range highpass {
		sum += g
		moment += float64(k) * g
		norm += g * g
	}
	shifted := highpass[0]*highpass[2] + highpass[1]*highpass[3]
	for name, v := range map[string]float64{"sum": sum, "first moment": moment, "norm - 1": norm - 1,
		"product with its shift": shifted} {
		if math.Abs(v) > 1e-15 {
			t.Errorf("%s is %g", name, v)
		}
	}
}

// madStdErr is 1/(f m), of the half-normal density f at its median m.
func TestMADStandardError(t *testing.T) {
	f := math.Sqrt(2/math.Pi) * math.Exp(-madNormal*madNormal/2)
	if math.Abs(math.Erf(madNormal/math.Sqrt2)-0.5) > 1e-15 || math.Abs(1/(f*madNormal)-madStdErr) > 1e-6 {
		t.Errorf("median %g, standard error %g", math.Erf(madNormal/math.Sqrt2), 1/(f*madNormal))
	}
}

// Against quadrature of the density itself, the equation of the quarter circle's median,
// and Gavish and Donoho's printed table of the threshold over sqrt(mu), which is good to
// about 1e-4.
func TestMarchenkoPasturMedian(t *testing.T) {
	for _, beta := range []float64{1e-6, 1e-4, 0.0099, 0.0101, 0.1, 0.3, 0.5, 0.9, 0.999, 1} {
		median := MarchenkoPasturMedian(beta)
		// x = 1 + beta + 2 rho cos t takes the square roots at the ends away.
		rho := math.Sqrt(beta)
		t0 := math.Acos((median - 1 - beta) / (2 * rho))
		f := func(s float64) float64 {
			sin, cos := math.Sincos(s)
			return 2 / math.Pi * sin * sin / (1 + beta + 2*rho*cos)
		}
		above := quad.Fixed(f, 0, t0, 60, quad.Legendre{}, 0)
		if math.Abs(above-0.5) > 1e-12 {
			t.Errorf("beta = %g: the law above %.15g is %.15g", beta, median, above)
		}
	}
	// At beta = 1 half the singular value is h, and the quarter circle below it is pi/4 of pi/2.
	h := math.Sqrt(MarchenkoPasturMedian(1)) / 2
	if below := h*math.Sqrt(1-h*h) + math.Asin(h); math.Abs(below-math.Pi/4) > 1e-15 {
		t.Errorf("beta = 1: the quarter circle below the median is %.16g, want pi/4", below)
	}
	for _, test := range []struct{ beta, omega float64 }{{0.05, 1.5194}, {0.1, 1.6089}, {1, 2.8582}} {
		b := test.beta
		threshold := math.Sqrt(2*(b+1) + 8*b/(b+1+math.Sqrt(b*b+14*b+1)))
		if omega := threshold / math.Sqrt(MarchenkoPasturMedian(b)); math.Abs(omega-test.omega) > 2e-4 {
			t.Errorf("beta = %g: omega = %.5f, want %.4f", b, omega, test.omega)
		}
	}
}

// diag(1, ..., 12, 0) of 13 rows: the median is 6.5, or 7 with another singular value.
func TestMedianSingularValueOfADiagonal(t *testing.T) {
	for _, test := range []struct {
		cols   int
		median float64
	}{{12, 6.5}, {13, 7}} {
		y := make([]float64, 13*test.cols)
		for i := range test.cols {
			y[i*test.cols+i] = float64(i + 1)
		}
		want := test.median * test.median / (13 * MarchenkoPasturMedian(float64(test.cols)/13))
		e := must(t)(MedianSingularValue(y, 13, test.cols))
		if math.Abs(e.Sigma2-want) > 1e-12*want {
			t.Errorf("13 x %d: %.15g, want %.15g", test.cols, e.Sigma2, want)
		}
	}
}

func TestCompletionOfAllEntriesIsTheMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	y := normals(r, 12*15, 1)
	want := must(t)(MedianSingularValue(y, 12, 15))
	places := r.Perm(len(y))
	shuffled := make([]float64, len(y))
	for i, p := range places {
		shuffled[i] = y[p]
	}
	if got := must(t)(Completion(shuffled, places, 12, 15)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// With a constant alone it is the sample variance.
func TestOLSResidualOfAConstant(t *testing.T) {
	x := mat.NewDense(4, 1, []float64{1, 1, 1, 1})
	e := must(t)(OLSResidual(x, []float64{1, 2, 3, 6}))
	// The mean is 3: 4 + 1 + 0 + 9 over 3.
	if math.Abs(e.Sigma2-14./3) > 1e-14 || e.RelStdErr != math.Sqrt(2./3) || e.Method != MethodOLSResidual {
		t.Errorf("%+v", e)
	}
}

// numpy's least squares gave the variance in the file; it counts the mean that was taken
// off y as a column more.
func TestOLSResidualOfTheDiabetesData(t *testing.T) {
	s, err := dataio.OpenNPZ("../../testdata/diabetes.npz")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x, err := s.Floats("X")
	if err != nil {
		t.Fatal(err)
	}
	y, err := s.Floats("y")
	if err != nil {
		t.Fatal(err)
	}
	sigma2, err := s.Scalar("sigma2")
	if err != nil {
		t.Fatal(err)
	}
	want := sigma2 * (442 - 11) / (442 - 10)
	if e := must(t)(OLSResidual(mat.NewDense(442, 10, x.Data), y.Data)); math.Abs(e.Sigma2-want) > 1e-12*want {
		t.Errorf("%.15g, want %.15g", e.Sigma2, want)
	}
}

// On the photograph the noise that is added is found: what the photograph has of its
// own texture is measured first.
func TestMADOfAPhotograph(t *testing.T) {
	f, err := os.Open("../../testdata/camera.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	im, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 5))
	const sigma = 20
	clean, noisy := make([]float64, 256*256), make([]float64, 256*256)
	for i := range clean {
		g, _, _, _ := im.At(i%256, i/256).RGBA()
		clean[i] = float64(g >> 8)
		noisy[i] = clean[i] + sigma*r.NormFloat64()
	}
	own := math.Sqrt(must(t)(MADImage(clean, 256, 256)).Sigma2)
	found := math.Sqrt(must(t)(MADImage(noisy, 256, 256)).Sigma2)
	t.Logf("sigma: %.2f of its own, %.2f with %d added", own, found, sigma)
	if !(own < 6 && found > sigma && found < 1.1*sigma) {
		t.Errorf("sigma: %.2f of its own, %.2f with %d added", own, found, sigma)
	}
}

// Scaled by a power of two, every digit stays.
func TestScaleEquivariance(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	y := normals(r, 20*30, 1)
	x := mat.NewDense(20, 5, normals(r, 100, 1))
	for _, c := range []float64{0x1p-400, 0x1p-20, -2, 0x1p+400} {
		scaled := make([]float64, len(y))
		for i := range y {
			scaled[i] = c * y[i]
		}
		for name, f := range map[string]func(y []float64) (Estimate, error){
			"signal": MADSignal,
			"image":  func(y []float64) (Estimate, error) { return MADImage(y, 20, 30) },
			"matrix": func(y []float64) (Estimate, error) { return MedianSingularValue(y, 20, 30) },
			"ols":    func(y []float64) (Estimate, error) { return OLSResidual(x, y[:20]) },
		} {
			a, b := must(t)(f(y)), must(t)(f(scaled))
			if math.Abs(b.Sigma2/(c*c)/a.Sigma2-1) > 1e-12 || a.RelStdErr != b.RelStdErr || a.Method != b.Method {
				t.Errorf("%s times %g: %+v, of %+v", name, c, b, a)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	y := normals(r, 400, 1)
	with := func(i int, v float64) []float64 {
		z := slices.Clone(y)
		z[i] = v
		return z
	}
	constant := make([]float64, 400)
	for i := range constant {
		constant[i] = 0.3
	}
	blank := slices.Clone(y)
	clear(blank[:300])
	x := mat.NewDense(20, 3, slices.Clone(y[:60]))
	deficient := mat.DenseCopyOf(x)
	zero := mat.DenseCopyOf(x)
	nan := mat.DenseCopyOf(x)
	for i := range 20 {
		deficient.Set(i, 2, 3*deficient.At(i, 0)-1e6*deficient.At(i, 1))
		zero.Set(i, 1, 0)
	}
	nan.Set(4, 2, math.NaN())
	var fitted mat.Dense
	fitted.Mul(x, mat.NewDense(3, 1, []float64{1, 2, 3}))
	const noNoise = "half of the finest details of y are zero: y holds no noise, or is constant where it is " +
		"saturated, masked or padded, or is rounded to steps larger than the noise"
	const lowRank = "half of the singular values of y are zero: its rank is too low for the matrix to hold white noise"
	refuse := func(method, want string, e Estimate, err error) {
		t.Helper()
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Method != method || refusal.Reason != want {
			t.Errorf("%s: %+v, error\n%v\nwant\n%s", method, e, err, want)
			return
		}
		if !strings.HasSuffix(err.Error(), "; give sigma2 (--sigma2)") || e != (Estimate{}) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	signal := func(want string, y []float64) {
		t.Helper()
		e, err := MADSignal(y)
		refuse(MethodMAD, want, e, err)
	}
	signal("y holds NaN at [7], expected finite numbers", with(7, math.NaN()))
	signal("y has 33 values, expected at least 34", y[:33])
	signal(noNoise, constant)
	signal(noNoise, blank)
	signal(noNoise, append(make([]float64, len(y)), y...))
	huge := slices.Clone(y)
	for i := range huge {
		huge[i] *= 1e300
	}
	signal("it comes to +Inf; scale the data", huge)

	image := func(want string, y []float64, rows, cols int) {
		t.Helper()
		e, err := MADImage(y, rows, cols)
		refuse(MethodMAD, want, e, err)
	}
	image("y holds -Inf at [1, 3], expected finite numbers", with(23, math.Inf(-1)), 20, 20)
	image("an image of 3 x 100 pixels has 0 diagonal details, expected at least 16", y[:300], 3, 100)
	image("an image of 1 x 400 pixels has 0 diagonal details, expected at least 16", y, 1, 400)
	image(noNoise, constant, 20, 20)
	image(noNoise, blank, 20, 20)
	image("an image of 0 x 0 pixels has 0 diagonal details, expected at least 16", nil, 0, 0)

	matrix := func(want string, y []float64, rows, cols int) {
		t.Helper()
		e, err := MedianSingularValue(y, rows, cols)
		refuse(MethodMedianSingularValue, want, e, err)
	}
	matrix("y holds NaN at [0, 7], expected finite numbers, with no entry missing", with(7, math.NaN()), 20, 20)
	matrix("a matrix of 9 x 20 has 9 singular values, expected at least 10", y[:180], 9, 20)
	matrix(lowRank, constant, 20, 20)
	matrix(lowRank, make([]float64, 400), 20, 20)
	matrix(lowRank, blank, 20, 20)

	completion := func(want string, places []int) {
		t.Helper()
		e, err := Completion(y[:len(places)], places, 20, 20)
		refuse(MethodMedianSingularValue, want, e, err)
	}
	completion("3 of the 400 entries of the matrix are observed, expected all", []int{0, 1, 2})
	twice := r.Perm(400)
	twice[5] = twice[6]
	completion(fmt.Sprintf("entry (%d, %d) is observed twice, so another is missing", twice[5]/20, twice[5]%20), twice)
	twice[5] = 400
	completion("index 5 is 400, expected 0 to 399", twice)

	ols := func(want string, x *mat.Dense, y []float64) {
		t.Helper()
		e, err := OLSResidual(x, y)
		refuse(MethodOLSResidual, want, e, err)
	}
	ols("X is 3 x 20, expected more rows than columns: with d <= p the least-squares fit leaves no residual",
		mat.DenseCopyOf(x.T()), y[:3])
	ols("y holds NaN at [7], expected finite numbers", x, with(7, math.NaN())[:20])
	ols("X holds NaN at [4, 2], expected finite numbers", nan, y[:20])
	ols("column 1 of X is zero: X is not of full rank", zero, y[:20])
	ols("X fits y up to rounding errors: there is no noise in y, or y is zero", x, fitted.RawMatrix().Data)
	ols("X fits y up to rounding errors: there is no noise in y, or y is zero", x, make([]float64, 20))
	_, err := OLSResidual(deficient, y[:20])
	if err == nil || !strings.Contains(err.Error(),
		"X is not of full rank (its reciprocal condition number, columns scaled to norm 1, is ") {
		t.Errorf("rank 2 of 3 columns: %v", err)
	}
}

// X and y stay as they are.
func TestInputsAreNotWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	y := normals(r, 400, 1)
	x := mat.NewDense(20, 20, slices.Clone(y)).Slice(0, 20, 0, 5).(*mat.Dense)
	copyY, copyX := slices.Clone(y), mat.DenseCopyOf(x)
	must(t)(MADSignal(y))
	must(t)(MADImage(y, 20, 20))
	must(t)(MedianSingularValue(y, 20, 20))
	must(t)(OLSResidual(x, y[:20]))
	if !slices.Equal(y, copyY) || !mat.Equal(x, copyX) {
		t.Error("an input was written to")
	}
}

// lowRank is a matrix of that rank, whose entries are of the size of a few times the noise, with noise
// of standard deviation 1.5 and a share of the entries shifted by up to the given size.
func lowRank(r *rand.Rand, rows, cols, rank int, share, size float64) []float64 {
	y := normals(r, rows*cols, 1.5)
	u, v := normals(r, rows*rank, 1.5), normals(r, cols*rank, 1.5)
	for i := range rows {
		for j := range cols {
			for l := range rank {
				y[i*cols+j] += u[i*rank+l] * v[j*rank+l]
			}
			if r.Float64() < share {
				y[i*cols+j] += size * (1 + r.Float64()) * float64(1-2*r.IntN(2))
			}
		}
	}
	return y
}

// Small outliers enlarge the estimate, and its error says so; where too many entries are outliers, or
// there is no low rank, there is none.
func TestRobustLowRankSaysItsLimits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	e := must(t)(RobustLowRank(lowRank(r, 80, 80, 4, 0.1, 3.5), 80, 80))
	if off := e.Sigma2/2.25 - 1; off < 0.1 || off > 4*e.RelStdErr {
		t.Errorf("%+v with small outliers", e)
	}
	for _, y := range [][]float64{lowRank(r, 60, 60, 20, 0.3, 15), make([]float64, 3600)} {
		if e, err := RobustLowRank(y, 60, 60); err == nil && math.Abs(e.Sigma2/2.25-1) > 4*e.RelStdErr {
			t.Errorf("%+v", e)
		}
	}
}
