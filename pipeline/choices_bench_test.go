//go:build unix

package pipeline_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// BenchmarkChoices runs every named problem, and some of the specifications that surepipe spec
// prints, with every solver and derivative that applies, and compares the defaults with the best:
// a table of docs/benchmarks.md. Solvers must agree within their error bars. Times are those of the
// processors, user and system, from the making of the solver to the estimate: other work on the
// machine matters little. Run it by
//
//	go test ./pipeline -run '^$' -bench Choices -benchtime 1x | grep '^|'
//
// The ratio is what solve.Default and the rules of package vjp leave on the table.
func BenchmarkChoices(b *testing.B) {
	fmt.Println("| problem | size | default | CPU s | best | CPU s | ratio | others, times the best |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, c := range choiceCases {
		b.Run(c.name+" "+c.size, func(b *testing.B) {
			for range b.N {
				row := newChoiceRow(b, c)
				b.ReportMetric(row.ratio(), "default/best")
				fmt.Println(row)
			}
		})
	}
}

// choiceCase is a row of the table.
type choiceCase struct {
	name, size string
	// data draws the data, in a folder where they may be put; hyper are the weights.
	data  func(dir string) (problems.Data, error)
	hyper problems.Hyper
	tol   float64
}

var choiceCases = []choiceCase{
	{"ols", "300 x 100", lassoData(300, 100), problems.Hyper{}, 0},
	{"ols", "4000 x 400", lassoData(4000, 400), problems.Hyper{}, 0},
	{"ridge", "300 x 600", lassoData(300, 600), problems.Hyper{Lambda: problems.Absolute(100)}, 0},
	{"ridge", "3000 x 800", lassoData(3000, 800), problems.Hyper{Lambda: problems.Absolute(100)}, 0},
	{"lasso", "250 x 500", lassoData(250, 500), problems.Hyper{}, 0},
	{"lasso", "1500 x 3000", lassoData(1500, 3000), problems.Hyper{}, 0},
	{"lasso", "500 x 1000, 0.01max", lassoData(500, 1000), problems.Hyper{Lambda: problems.OfMax(0.01)}, 0},
	{"lasso", "3000 x 300", lassoData(3000, 300), problems.Hyper{}, 0},
	{"elastic-net", "250 x 500", lassoData(250, 500), problems.Hyper{Lambda2: problems.Absolute(50)}, 0},
	{"elastic-net", "1500 x 3000", lassoData(1500, 3000), problems.Hyper{Lambda2: problems.Absolute(50)}, 0},
	{"group-lasso", "250 x 500", specData(250, 500,
		"operator: {matrix: X}\nregularizer: {group-l2: {weight: lambda, size: 5}}\nlambda: 0.2max\n"),
		problems.Hyper{}, 0},
	{"group-lasso", "1000 x 2000", specData(1000, 2000,
		"operator: {matrix: X}\nregularizer: {group-l2: {weight: lambda, size: 5}}\nlambda: 0.2max\n"),
		problems.Hyper{}, 0},
	{"group-lasso", "500 x 1000, 0.02max", specData(500, 1000,
		"operator: {matrix: X}\nregularizer: {group-l2: {weight: lambda, size: 5}}\nlambda: 0.02max\n"),
		problems.Hyper{}, 0},
	{"slope", "250 x 500", specData(250, 500, "operator: {matrix: X}\nregularizer: {sorted-l1: {weight: lambda, "+
		"bh: 0.1}}\nlambda: 0.2max\n"), problems.Hyper{}, 0},
	{"slope", "1000 x 2000", specData(1000, 2000,
		"operator: {matrix: X}\nregularizer: {sorted-l1: {weight: lambda, bh: 0.1}}\nlambda: 0.2max\n"),
		problems.Hyper{}, 0},
	{"svt", "50 x 40", func(string) (problems.Data, error) { return problems.GenerateSVT(50, 40, 1) },
		problems.Hyper{Lambda: problems.OfMax(0.2)}, 0},
	{"svt", "600 x 400", func(string) (problems.Data, error) { return problems.GenerateSVT(600, 400, 1) },
		problems.Hyper{Lambda: problems.OfMax(0.2)}, 0},
	{"matrix-completion", "60 x 40", completionData(60, 40), problems.Hyper{}, 0},
	{"matrix-completion", "400 x 200", completionData(400, 200), problems.Hyper{}, 0},
	{"matrix-completion", "200 x 100, 0.1max", completionData(200, 100), problems.Hyper{Lambda: problems.OfMax(0.1)},
		0},
	{"robust-pca", "40 x 40", pcaData(40), problems.Hyper{}, 0},
	{"robust-pca", "250 x 250", pcaData(250), problems.Hyper{}, 0},
	{"tv1d", "1000", func(string) (problems.Data, error) { return problems.GenerateTV1D(1000, 1) }, problems.Hyper{},
		0},
	{"tv1d", "100000", func(string) (problems.Data, error) { return problems.GenerateTV1D(100000, 1) },
		problems.Hyper{}, 0},
	{"tv2d", "32 x 32", pictureData(32), problems.Hyper{Lambda: problems.Absolute(0.1)}, 0},
	{"tv2d", "128 x 128", pictureData(128), problems.Hyper{Lambda: problems.Absolute(0.1)}, 0},
	{"wavelet-denoise", "64 x 64", imageData(64, "operator: identity\n", 0.1), problems.Hyper{}, 0},
	{"wavelet-denoise", "512 x 512", imageData(512, "operator: identity\n", 0.1), problems.Hyper{}, 0},
	{"deblur", "32 x 32", imageData(32, "operator: {convolution: {gaussian: 1.5, boundary: circular}}\n", 0.01),
		problems.Hyper{}, 1e-5},
	{"deblur", "64 x 64", imageData(64, "operator: {convolution: {gaussian: 1.5, boundary: circular}}\n", 0.01),
		problems.Hyper{}, 1e-5},
}

func lassoData(d, p int) func(string) (problems.Data, error) {
	return func(string) (problems.Data, error) { return problems.GenerateLasso(d, p, 1) }
}

func completionData(m, n int) func(string) (problems.Data, error) {
	return func(string) (problems.Data, error) { return problems.GenerateMatrixCompletion(m, n, 1) }
}

func pcaData(n int) func(string) (problems.Data, error) {
	return func(string) (problems.Data, error) { return problems.GenerateRobustPCA(n, n, 1) }
}

// specData is the data of a LASSO under a specification.
func specData(d, p int, spec string) func(dir string) (problems.Data, error) {
	return func(dir string) (problems.Data, error) {
		data, err := problems.GenerateLasso(d, p, 1)
		if err != nil {
			return data, err
		}
		loaded, err := load(dir, spec,
			dataio.Array{Name: "X", Shape: []int{d, p}, Data: data.X.(*mat.Dense).RawMatrix().Data},
			dataio.Array{Name: "y", Shape: []int{d}, Data: data.Y})
		loaded.Sigma2 = data.Sigma2
		return loaded, err
	}
}

// discs are an image of n x n pixels.
func discs(n int, rng *rand.Rand) []float64 {
	image := make([]float64, n*n)
	for range 12 {
		x, y, r, v := rng.Float64()*float64(n), rng.Float64()*float64(n), (0.05+0.15*rng.Float64())*float64(n),
			rng.Float64()
		for i := range image {
			if math.Hypot(float64(i%n)-x, float64(i/n)-y) < r {
				image[i] = v
			}
		}
	}
	return image
}

// pictureData are discs with noise of standard deviation 0.1.
func pictureData(n int) func(string) (problems.Data, error) {
	return func(string) (problems.Data, error) {
		rng := rand.New(rand.NewPCG(11, 12))
		image := discs(n, rng)
		for i := range image {
			image[i] += 0.1 * rng.NormFloat64()
		}
		sigma2 := 0.01
		return problems.Data{Y: image, YShape: []int{n, n}, Sigma2: &sigma2}, nil
	}
}

// imageData is an image of discs, blurred by the operator or not, with noise of standard deviation
// sigma; b are its wavelet coefficients, and lambda is 1.5 sigma, or a third of that where the image
// is blurred.
func imageData(n int, operator string, sigma float64) func(dir string) (problems.Data, error) {
	return func(dir string) (problems.Data, error) {
		rng := rand.New(rand.NewPCG(11, 12))
		image := discs(n, rng)
		weight := 1.5 * sigma
		if !strings.Contains(operator, "identity") {
			weight /= 3
		}
		for i := range image {
			image[i] += sigma * rng.NormFloat64()
		}
		data, err := load(dir, fmt.Sprintf("%ssynthesis:\n  adjoint:\n    wavelet: {family: sym4, levels: "+
			"4}\nregularizer:\n  l1: {weight: lambda, unpenalized: averages}\nlambda: %g\n", operator, weight),
			dataio.Array{Name: "y", Shape: []int{n, n}, Data: image})
		s := sigma * sigma
		data.Sigma2 = &s
		return data, err
	}
}

// load writes the arrays to a file, and reads it by a specification.
func load(dir, spec string, arrays ...dataio.Array) (problems.Data, error) {
	if err := dataio.WriteNPZ(filepath.Join(dir, "data.npz"), arrays...); err != nil {
		return problems.Data{}, err
	}
	s, err := problems.ParseSpec([]byte("data: data.npz\n"+spec), filepath.Join(dir, "spec.yaml"))
	if err != nil {
		return problems.Data{}, err
	}
	return s.Load(problems.SpecFiles{FS: problems.Disk})
}

// choice is a way to compute the estimate, and what came of it.
type choice struct {
	solver     string
	derivative vjp.Derivative
	seconds    []float64
	risk       pipeline.Risk
	err        error
}

func (c *choice) String() string {
	if c.derivative == vjp.Auto {
		return c.solver
	}
	return fmt.Sprintf("%s, %s", c.solver, c.derivative)
}

// time is that of the fastest run.
func (c *choice) time() float64 { return slices.Min(c.seconds) }

// choiceRow is a problem with all choices; the first is the default.
type choiceRow struct {
	choiceCase
	data problems.Data
	all  []*choice
	b    *testing.B
}

const (
	// A choice is given up after slowest times the default's time, or leastPatience seconds, on the
	// clock.
	slowest       = 3
	leastPatience = 0.3
	// The default and the fastest others are run again, in turn, until each has repeats runs and least
	// seconds are spent, or enough seconds.
	repeats = 5
	least   = 0.3
	enough  = 2
)

func newChoiceRow(b *testing.B, c choiceCase) *choiceRow {
	data, err := c.data(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	r := &choiceRow{b: b, choiceCase: c, data: data}
	p := r.problem()
	r.all = []*choice{{solver: p.DefaultSolver, derivative: vjp.Auto}}
	p.Release()
	for _, s := range vjp.Solvers() {
		for _, d := range []vjp.Derivative{vjp.Implicit, vjp.Unrolled} {
			r.all = append(r.all, &choice{solver: s, derivative: d})
		}
		if s == "direct" && r.all[0].solver != s {
			r.all = append(r.all, &choice{solver: s, derivative: vjp.Auto})
		}
	}
	begin := time.Now()
	r.run(r.all[0], math.Inf(1))
	took := time.Since(begin).Seconds()
	if r.all[0].err != nil {
		b.Fatalf("%s: %v", r.all[0], r.all[0].err)
	}
	// Auto is one of the derivatives that are given by name.
	r.all = slices.DeleteFunc(r.all, func(c *choice) bool {
		return c != r.all[0] && c.solver == r.all[0].solver && string(c.derivative) == r.all[0].risk.Derivative
	})
	for _, other := range r.all[1:] {
		r.run(other, max(slowest*took, leastPatience))
	}
	r.compare(b)
	r.again()
	return r
}

// problem builds the problem. Every run has its own, because operators keep what was computed for
// them, such as Gram matrices.
func (r *choiceRow) problem() *problems.Problem {
	p, err := problems.New(r.name, array.NewHost(), r.data, r.hyper)
	if err != nil {
		r.b.Fatal(err)
	}
	return p
}

// cpuSeconds is the time that all processors have spent on this program.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// run times one choice, from the solver's making to the estimate.
func (r *choiceRow) run(c *choice, patience float64) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if !math.IsInf(patience, 1) {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(patience*float64(time.Second)))
	}
	defer cancel()
	problem := r.problem()
	defer problem.Release()
	begin := cpuSeconds(r.b)
	s, err := vjp.NewSolver(ctx, c.solver, problem.Solve(),
		vjp.Options{Derivative: c.derivative, Sigma2: *r.data.Sigma2, Tol: r.tol})
	if err == nil {
		defer s.Release()
		var p *pipeline.Pipeline
		if p, err = pipeline.New(s, pipeline.Options{Sigma2: *r.data.Sigma2}); err == nil {
			c.risk, err = p.Estimate(ctx, r.data.Y)
		}
	}
	if err == nil && !c.risk.Trusted() {
		err = errUntrusted
	}
	if c.err = err; errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.err = context.DeadlineExceeded
	}
	c.seconds = append(c.seconds, cpuSeconds(r.b)-begin)
}

var errUntrusted = errors.New("not converged")

// compare holds the results against the default's.
func (r *choiceRow) compare(b *testing.B) {
	d := r.all[0].risk
	for _, c := range r.all[1:] {
		if c.err != nil {
			continue
		}
		probes := 2 * d.Sigma2 * math.Hypot(d.Trace.Error(), c.risk.Trace.Error())
		if off := math.Abs(c.risk.SURE - d.SURE); off > 4*probes+0.05*d.StdErr {
			b.Errorf("%s %s: SURE %g by %s, %g by %s: %.2g of its error bar", r.name, r.size, c.risk.SURE, c, d.SURE,
				r.all[0], off/d.StdErr)
		}
	}
}

// again repeats the default and the fastest others in turn.
func (r *choiceRow) again() {
	list := []*choice{r.all[0]}
	for _, c := range r.all[1:] {
		if c.err == nil && c.time() < 2*r.all[0].time() {
			list = append(list, c)
		}
	}
	begin := time.Now()
	for n := 1; ; n++ {
		if spent := time.Since(begin).Seconds(); spent > enough || n >= repeats && spent > least {
			return
		}
		for _, c := range list {
			r.run(c, math.Inf(1))
		}
	}
}

// best is the fastest choice.
func (r *choiceRow) best() *choice {
	done := slices.DeleteFunc(slices.Clone(r.all), func(c *choice) bool { return c.err != nil })
	return slices.MinFunc(done, func(a, b *choice) int { return cmp.Compare(a.time(), b.time()) })
}

func (r *choiceRow) ratio() float64 { return r.all[0].time() / r.best().time() }

// String is the row of the table.
func (r *choiceRow) String() string {
	best := r.best()
	var others []string
	for _, c := range r.all[1:] {
		switch {
		case c == best:
		case errors.Is(c.err, context.DeadlineExceeded):
			others = append(others, fmt.Sprintf("%s > %.2g", c, c.time()/best.time()))
		case errors.Is(c.err, errUntrusted):
			others = append(others, fmt.Sprintf("%s not converged", c))
		case c.err == nil:
			others = append(others, fmt.Sprintf("%s %.2g", c, c.time()/best.time()))
		}
	}
	mark := ""
	if r.ratio() > 1.5 {
		mark = " **slow**"
	}
	return fmt.Sprintf("| %s | %s | %s | %.2g | %s | %.2g | %.2f%s | %s |", r.name, r.size, r.all[0], r.all[0].time(),
		best, best.time(), r.ratio(), mark, strings.Join(others, "; "))
}
