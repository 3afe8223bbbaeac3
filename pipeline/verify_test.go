package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/cones"
	"surepipe/verify"
	"surepipe/vjp"
)

// checked is a problem whose result is verified.
type checked struct {
	name, solver string
	data         problems.Data
	hyper        problems.Hyper
	options      vjp.Options
	trace        string
}

// verified estimates the risk with the check on.
func (c checked) verified(t testing.TB, dev array.Device) pipeline.Risk {
	t.Helper()
	p, err := problems.New(c.name, dev, c.data, c.hyper)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	name := c.solver
	if name == "" {
		name = p.DefaultSolver
	}
	s, err := vjp.NewSolver(context.Background(), name, p.Solve(), c.options)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	o := pipeline.Options{Sigma2: *c.data.Sigma2, Estimator: c.trace, ALO: true,
		Verify: &verify.Options{Problem: p.Solve()}}
	pipe, err := pipeline.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	risk, err := pipe.Estimate(context.Background(), c.data.Y)
	if err != nil {
		t.Fatal(err)
	}
	return risk
}

func (c checked) String() string {
	return fmt.Sprintf("%s/%s/%s/%s", c.name, c.solver, c.options.Derivative, c.trace)
}

// smallProblems are the named problems, small.
func smallProblems(t testing.TB, seed uint64) []checked {
	t.Helper()
	var all []checked
	add := func(name string, data problems.Data, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, checked{name: name, data: data})
	}
	lasso, err := problems.GenerateLasso(20, 30, seed)
	add("lasso", lasso, err)
	wide, err := problems.GenerateLasso(60, 90, seed)
	add("lasso", wide, err)
	half := *lasso.Lambda / 2
	net := lasso
	net.Lambda2 = &half
	add("elastic-net", net, nil)
	tall, err := problems.GenerateLasso(40, 12, seed)
	add("ols", tall, err)
	add("ridge", tall, nil)
	add("ridge", wide, nil)
	centered := tall
	centered.Intercept = true
	centered.Y = append([]float64(nil), tall.Y...)
	for i := range centered.Y {
		centered.Y[i] += 100
	}
	add("lasso", centered, nil)
	svt, err := problems.GenerateSVT(6, 5, seed)
	add("svt", svt, err)
	mc, err := problems.GenerateMatrixCompletion(12, 10, seed)
	add("matrix-completion", mc, err)
	rpca, err := problems.GenerateRobustPCA(6, 5, seed)
	add("robust-pca", rpca, err)
	tv, err := problems.GenerateTV1D(60, seed)
	add("tv1d", tv, err)
	return all
}

func TestVerifyPassesWhatIsRight(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		variants := []checked{{}, {solver: "fista"}, {solver: "admm"}, {solver: "ista"}, {trace: "exact"},
			{options: vjp.Options{Derivative: vjp.Unrolled}, solver: "fista"}}
		emulated := arraytest.Emulated(t, dev)
		if emulated {
			variants = variants[:1]
		}
		for _, base := range smallProblems(t, 1) {
			if emulated && len(base.data.Y) > 30 {
				continue // hundreds of solves
			}
			for _, c := range variants {
				c.name, c.data, c.hyper = base.name, base.data, base.hyper
				risk := c.verified(t, dev)
				v := risk.Verification
				t.Logf("%-40v d=%d %6.2f bars (%s) %d probes, %d boundaries, %d unresolved, other %q, %.3f s", c,
					len(risk.MuHat), v.Largest, v.Check, v.Probes, v.Boundaries, v.Unresolved, v.Other, v.Seconds)
				if !v.Passed() || !risk.Trusted() {
					t.Errorf("%v: %v", c, risk.Warnings())
					t.Logf("%+v", v)
				}
			}
		}
	})
}

// randomProblem is well posed: Gaussian columns, and a regularizer at a weight that leaves
// something of y.
func randomProblem(t testing.TB, dev array.Device, rng *rand.Rand) (name string, p vjp.Problem, y []float64,
	sigma2 float64, release func()) {
	t.Helper()
	d, n := 3+rng.IntN(28), 2+rng.IntN(40)
	x := mat.NewDense(d, n, gaussian(rng, d*n))
	truth := make([]float64, n)
	for j := range truth {
		if rng.IntN(3) == 0 {
			truth[j] = 2 * rng.NormFloat64()
		}
	}
	sigma := math.Exp(2 * rng.NormFloat64())
	y = make([]float64, d)
	for i := range y {
		y[i] = sigma*rng.NormFloat64() + mat.Dot(x.RowView(i), mat.NewVecDense(n, truth))
	}
	var c mat.VecDense
	c.MulVec(x.T(), mat.NewVecDense(d, y))
	most := max(mat.Max(&c), -mat.Min(&c))
	lambda := most * math.Pow(10, -2*rng.Float64())
	var groups [][]int
	for j := 0; j < n; {
		end := min(j+1+rng.IntN(4), n)
		var g []int
		for ; j < end; j++ {
			g = append(g, j)
		}
		groups = append(groups, g)
	}
	falling := make([]float64, n)
	for j := range falling {
		falling[j] = lambda * (1 - float64(j)/float64(2*n))
	}
	size := 0.0
	for _, b := range truth {
		size += math.Abs(b)
	}
	var r prox.Prox
	var err error
	switch k := rng.IntN(9); k {
	case 0, 1:
		name, r = "l1", prox.NewL1(lambda)
	case 2:
		name, r = "elastic net", prox.NewElasticNet(lambda, lambda/10)
	case 3:
		name, r = "ridge", prox.NewSquaredL2(lambda)
	case 4:
		name = "group l2"
		r, err = prox.NewGroupL2(dev, n, lambda, groups, nil)
	case 5:
		name = "sorted l1"
		r, err = clustered.NewSortedL1(falling)
	case 6:
		name, r = "l1 ball", cones.NewL1Ball(n, (0.1+rng.Float64())*(size+0.1))
	case 7:
		name, r = "simplex", cones.NewSimplex(n, size+0.1)
	case 8:
		name, r = "nonnegative", prox.NonNegative()
	}
	if err != nil {
		t.Fatal(err)
	}
	a := linops.NewDense(dev, x)
	return fmt.Sprintf("%s %d x %d", name, d, n), vjp.Problem{A: a, R: r, Device: dev}, y, sigma * sigma, func() {
		a.Release()
		prox.Release(r)
	}
}

func TestVerifyRaisesNoFalseAlarm(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		cases := 120
		if arraytest.Emulated(t, dev) {
			cases = 4
		}
		rng := rand.New(rand.NewPCG(11, 12))
		alarms, refits, boundaries, unresolved, probes := 0, 0, 0, 0, 0
		for i := range cases {
			name, p, y, sigma2, release := randomProblem(t, dev, rng)
			solver := []string{"fista", "ista", "admm"}[rng.IntN(3)]
			s, err := vjp.NewSolver(context.Background(), solver, p, vjp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			pipe, err := pipeline.New(s, pipeline.Options{Sigma2: sigma2, ALO: true,
				Verify: &verify.Options{Problem: p}})
			if err != nil {
				t.Fatal(err)
			}
			risk, err := pipe.Estimate(context.Background(), y)
			if err != nil {
				t.Fatal(err)
			}
			s.Release()
			release()
			v := risk.Verification
			boundaries, unresolved, probes = boundaries+v.Boundaries, unresolved+v.Unresolved, probes+v.Probes
			bare := risk
			bare.Verification = nil
			if v.Check == verify.LeaveOneOut && v.Largest > verify.Limit {
				refits++ // few observations: refits have other supports, and are far from one Newton step
			} else if !v.Passed() && bare.Trusted() {
				alarms++
				t.Errorf("%d: %s by %s: %s", i, name, solver, v.Describe())
				t.Logf("  %+v div %g", *v, risk.Trace.Trace)
			}
		}
		if 20*(boundaries+unresolved) > probes {
			t.Errorf("of %d probes %d were at boundaries and %d unresolved: the check says little", probes,
				boundaries, unresolved)
		}
		if 40*refits > cases {
			t.Errorf("leave-one-out is off refits in %d of %d", refits, cases)
		}
		t.Logf("%d problems: %d alarms; of %d probes %d at boundaries, %d unresolved", cases, alarms, probes,
			boundaries, unresolved)
	})
}

// The check knows the loss: the fit of weighted observations is right, and is found wrong for the
// squared loss without weights.
func TestVerifyKnowsTheLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		// With differences along all unit vectors, and along random signs, which the derivative of
		// the whitened problem maps to others than D mu_hat does.
		for _, d := range []int{40, 80} {
			if d > verify.MaxUnits && arraytest.Emulated(t, dev) {
				continue
			}
			t.Run(fmt.Sprint(d), func(t *testing.T) { verifyKnowsTheLoss(t, dev, d) })
		}
	})
}

func verifyKnowsTheLoss(t *testing.T, dev array.Device, d int) {
	const p = 12
	rng := rand.New(rand.NewPCG(21, 2))
	x := linops.NewDense(dev, mat.NewDense(d, p, gaussian(rng, d*p)))
	defer x.Release()
	w := make([]float64, d)
	for i := range w {
		w[i] = []float64{0.25, 1, 9}[i%3]
	}
	l, err := loss.WeightedSquared(dev, w)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	problem := vjp.Problem{A: x, Loss: l, R: prox.NewL1(5), Device: dev}
	s, err := vjp.NewSolver(t.Context(), "fista", problem, vjp.Options{Sigma2: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	y := gaussian(rng, d)
	floats.Scale(3, y)
	unweighted := problem
	unweighted.Loss = nil
	for _, c := range []struct {
		problem vjp.Problem
		right   bool
	}{{vjp.Problem{}, true}, {unweighted, false}} {
		pipe, err := pipeline.New(s, pipeline.Options{Sigma2: 1, Estimator: hutch.Exact,
			Verify: &verify.Options{Problem: c.problem}})
		if err != nil {
			t.Fatal(err)
		}
		risk, err := pipe.Estimate(t.Context(), y)
		if err != nil {
			t.Fatal(err)
		}
		if v := risk.Verification; v.Passed() != c.right {
			t.Errorf("passed %v, expected %v: %s", v.Passed(), c.right, v.Describe())
		}
	}
}
