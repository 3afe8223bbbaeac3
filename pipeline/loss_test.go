package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/solve"
	"surepipe/verify"
	"surepipe/vjp"
)

// lossData is a design and y for a loss.
type lossData struct {
	x *mat.Dense
	y []float64
}

// drawLoss draws d observations with six columns, two of which do not matter.
func drawLoss(name string, d int) lossData {
	rng := rand.New(rand.NewPCG(11, uint64(d)))
	const p = 6
	data := lossData{mat.NewDense(d, p, nil), make([]float64, d)}
	for i := range d {
		z := 0.3
		for j := range p {
			v := rng.NormFloat64()
			data.x.Set(i, j, v)
			z += v * []float64{1, -0.7, 0.5, 0.4, 0, 0}[j]
		}
		switch name {
		case "logistic":
			if rng.Float64() < 1/(1+math.Exp(-z)) {
				data.y[i] = 1
			}
		case "poisson":
			for product := rng.Float64(); product > math.Exp(-math.Exp(z)); product *= rng.Float64() {
				data.y[i]++
			}
		default:
			data.y[i] = z + rng.NormFloat64()
			if i%8 == 0 {
				data.y[i] += 10 * rng.NormFloat64()
			}
		}
	}
	return data
}

func makeLoss(t *testing.T, name string, w []float64) *loss.Pointwise {
	t.Helper()
	make := map[string]func([]float64) (*loss.Pointwise, error){
		"logistic": loss.Logistic, "poisson": loss.Poisson,
		"huber": func(w []float64) (*loss.Pointwise, error) { return loss.Huber(1.345, w) },
	}[name]
	l, err := make(w)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// refitted is the loss of observation i by a fit to all others, which starts at b; weighted is the loss
// with weights.
func refitted(t *testing.T, p vjp.Problem, weighted func(w []float64) *loss.Pointwise, i int, y, b []float64) float64 {
	t.Helper()
	v, converged := refit(t, p, weighted, i, y, b)
	if !converged {
		t.Fatalf("the refit without observation %d has not converged", i)
	}
	return v
}

func refit(t *testing.T, p vjp.Problem, weighted func(w []float64) *loss.Pointwise, i int, y, b []float64) (float64,
	bool) {
	t.Helper()
	w := make([]float64, len(y))
	for k := range w {
		w[k] = 1
	}
	w[i] = 0
	full := p.Loss
	p.Loss = weighted(w)
	s, err := vjp.NewSolver(t.Context(), solve.Default(p), p, vjp.Options{Tol: 1e-10, Derivative: vjp.None})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	at, from := p.Device.Alloc(1, len(y)), p.Device.Alloc(1, len(b))
	defer at.Free()
	defer from.Free()
	p.Device.Upload(at, y)
	p.Device.Upload(from, b)
	sol, err := s.SolveFrom(t.Context(), at, vjp.From{B: from})
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	return loss.StructureOf(full).At(i, sol.MuHat.ToHost()[i], y[i]), sol.Converged
}

// Leave-one-out of a loss that is not quadratic is near the losses of refits without each
// observation, and nearer the more observations there are; of few it is that of refits. SURE, GCV and the residual
// variance are not defined; AIC and BIC are those of the likelihood.
func TestLeaveOneOutOfLossesAgainstRefits(t *testing.T) {
	dev := array.NewHost()
	group := func(d float64) prox.Prox {
		r, err := prox.NewGroupL2(dev, 6, 0.02*d, [][]int{{0, 1}, {2, 3}, {4, 5}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	sizes := []int{40, 100, 400}
	var sum [3]float64
	for _, name := range []string{"logistic", "poisson", "huber"} {
		for kind, r := range map[string]func(d float64) prox.Prox{
			"lasso":       func(d float64) prox.Prox { return prox.NewL1(0.03 * d) },
			"elastic net": func(d float64) prox.Prox { return prox.NewElasticNet(0.02*d, 0.05*d) },
			"group":       group,
		} {
			var gaps [3]float64
			for k, d := range sizes {
				data := drawLoss(name, d)
				a := linops.NewDense(dev, data.x)
				p := vjp.Problem{A: a, Loss: makeLoss(t, name, nil), R: r(float64(d)), Device: dev}
				s, err := vjp.NewSolver(t.Context(), solve.Default(p), p, vjp.Options{Tol: 1e-10})
				if err != nil {
					t.Fatal(err)
				}
				pipe, err := pipeline.New(s, pipeline.Options{ALO: true, KeepB: true})
				if err != nil {
					t.Fatal(err)
				}
				got, err := pipe.Estimate(t.Context(), data.y)
				if err != nil {
					t.Fatal(err)
				}
				want := 0.0
				for i := range d {
					want += refitted(t, p, func(w []float64) *loss.Pointwise { return makeLoss(t, name, w) }, i,
						data.y, got.B) / float64(d)
				}
				gaps[k] = math.Abs(got.ALO/want - 1)
				sum[k] += gaps[k] / 9
				checkLossTerms(t, name, kind, data.y, got)
				s.Release()
				prox.Release(p.R)
				a.Release()
			}
			t.Logf("%s, %s: gaps %.5f with %d observations", name, kind, gaps, sizes)
			if gaps[0] > 1e-6 || gaps[2] > 0.01 {
				t.Errorf("%s, %s: leave-one-out is off by %.4f of refits with %d observations", name, kind, gaps, sizes)
			}
		}
	}
	if sum[2] > sum[1]/3 {
		t.Errorf("the mean gaps are %.4f with %d observations", sum, sizes)
	}
}

// Groups of which all rows but one agree: without that one the fit runs away from it, further than one Newton step
// tells. Leave-one-out is then that of refits.
func TestLeaveOneOutWhereOneStepIsNotEnough(t *testing.T) {
	dev := array.NewHost()
	const groups, rows = 15, 4
	x, y := mat.NewDense(groups*rows, groups, nil), make([]float64, groups*rows)
	for i := range y {
		x.Set(i, i/rows, 1)
		if y[i] = 1; i%rows == 0 && i/rows%2 == 0 {
			y[i] = 0
		}
	}
	a := linops.NewDense(dev, x)
	defer a.Release()
	for kind, r := range map[string]prox.Prox{"ridge": prox.NewSquaredL2(0.01), "l1": prox.NewL1(0.01)} {
		p := vjp.Problem{A: a, Loss: makeLoss(t, "logistic", nil), R: r, Device: dev}
		s, err := vjp.NewSolver(t.Context(), solve.Default(p), p, vjp.Options{Tol: 1e-10})
		if err != nil {
			t.Fatal(err)
		}
		pipe, err := pipeline.New(s, pipeline.Options{ALO: true, KeepB: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pipe.Estimate(t.Context(), y)
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for i := range y {
			weighted := func(w []float64) *loss.Pointwise { return makeLoss(t, "logistic", w) }
			want += refitted(t, p, weighted, i, y, got.B) / float64(len(y))
		}
		t.Logf("%s: leave-one-out %g ± %g, refits %g, %d unresolved", kind, got.ALO, got.ALOStdErr, want, got.Unresolved)
		if !(math.Abs(got.ALO/want-1) < 0.01) {
			t.Errorf("leave-one-out %g, refits %g", got.ALO, want)
		}
		s.Release()
	}
}

// Leave-one-out of the Huber loss agrees with refits, or is not known: from a delta with which no
// observation has curvature to one with which all have. Where in some direction none has any the fit is
// not unique, which is said, and its divergence may be any part of that direction.
func TestLeaveOneOutOfHuberIsRightOrNotKnown(t *testing.T) {
	dev := array.NewHost()
	known, unknown := 0, 0
	for _, n := range []int{12, 40} {
		for _, columns := range []int{1, 4} {
			for _, delta := range []float64{1e-4, 0.02, 0.1, 0.3, 1, 3} {
				for kind, r := range map[string]prox.Prox{"ridge": prox.NewSquaredL2(1e-6 * delta),
					"lasso": prox.NewL1(0.02 * float64(n) * min(delta, 1))} {
					label := fmt.Sprintf("%s, %d x %d, delta %g", kind, n, columns, delta)
					x, y := huberData(n, columns)
					huber := func(w []float64) *loss.Pointwise {
						l, err := loss.Huber(delta, w)
						if err != nil {
							t.Fatal(err)
						}
						return l
					}
					p := vjp.Problem{A: linops.NewDense(dev, x), Loss: huber(nil), R: r, Device: dev}
					got := estimated(t, p, y)
					if got.Undetermined > 0 {
						if got.Trusted() || !math.IsNaN(got.ALO) || math.Round(got.Undetermined) < 1 ||
							got.DivergenceLow > got.Trace.Trace-got.Undetermined+1e-3 {
							t.Errorf("%s: undetermined %g, leave-one-out %g, divergence %g from %g", label,
								got.Undetermined, got.ALO, got.Trace.Trace, got.DivergenceLow)
						}
						unknown++
						continue
					}
					if math.IsNaN(got.ALO) {
						if got.Unresolved == 0 && !errors.Is(got.ALOErr, risk.ErrLeverage) || delta > 0.3 {
							t.Errorf("%s: %d unresolved, %v", label, got.Unresolved, got.ALOErr)
						}
						unknown++
						continue
					}
					want, converged := 0.0, true
					for i := range n {
						v, ok := refit(t, p, huber, i, y, got.B)
						want, converged = want+v/float64(n), converged && ok
					}
					if !converged {
						continue
					}
					known++
					if off := math.Abs(got.ALO - want); off > 0.2*got.ALOStdErr {
						t.Errorf("%s: leave-one-out %g ± %g, refits %g", label, got.ALO, got.ALOStdErr, want)
					}
				}
			}
		}
	}
	if t.Logf("%d known, %d not", known, unknown); known < 40 || unknown == 0 {
		t.Errorf("%d are known, %d not", known, unknown)
	}
}

// huberData has a constant column, normal ones, and outliers among the observations.
func huberData(n, columns int) (*mat.Dense, []float64) {
	rng := rand.New(rand.NewPCG(5, uint64(n*10+columns)))
	x, y := mat.NewDense(n, columns, nil), make([]float64, n)
	for i := range n {
		y[i] = rng.NormFloat64()
		x.Set(i, 0, 1)
		for j := 1; j < columns; j++ {
			x.Set(i, j, rng.NormFloat64())
			y[i] += 0.7 * x.At(i, j)
		}
		if i%8 == 3 {
			y[i] += 8 * rng.NormFloat64()
		}
	}
	return x, y
}

// estimated is the estimate of a problem with leave-one-out.
func estimated(t *testing.T, p vjp.Problem, y []float64) pipeline.Risk {
	t.Helper()
	s, err := vjp.NewSolver(t.Context(), solve.Default(p), p, vjp.Options{Tol: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	pipe, err := pipeline.New(s, pipeline.Options{ALO: true, KeepB: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := pipe.Estimate(t.Context(), y)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The median of +-1, ..., +-5 is any number from -1 to 1: with a delta of 0.01 next to no derivative is
// determined, nor the losses of refits.
func TestHuberWithoutCurvatureIsNotDetermined(t *testing.T) {
	dev := array.NewHost()
	x, y := mat.NewDense(10, 1, nil), make([]float64, 10)
	for i := range y {
		x.Set(i, 0, 1)
		y[i] = float64(i/2+1) * float64(1-2*(i%2))
	}
	l, err := loss.Huber(0.01, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := estimated(t, vjp.Problem{A: linops.NewDense(dev, x), Loss: l, R: prox.NewL1(0), Device: dev}, y)
	codes := ""
	for _, w := range got.Warnings() {
		codes += w.Code + " "
	}
	if !math.IsNaN(got.ALO) || got.DivergenceLow != 0 || math.Abs(got.DivergenceHigh-1) > 1e-6 || got.Trusted() ||
		codes != "loss-scale not-determined no-leave-one-out " {
		t.Errorf("leave-one-out %g, divergence from %g to %g, trusted %t, %s", got.ALO, got.DivergenceLow,
			got.DivergenceHigh, got.Trusted(), codes)
	}
}

// checkLossTerms checks what does not depend on leaving out.
func checkLossTerms(t *testing.T, name, kind string, y []float64, r pipeline.Risk) {
	t.Helper()
	for what, v := range map[string]float64{"SURE": r.SURE, "its error": r.StdErr, "GCV": r.GCV,
		"sigma2_df": r.Sigma2DF, "residual": r.Residual} {
		if !math.IsNaN(v) {
			t.Errorf("%s, %s: %s is %g, expected none", name, kind, what, v)
		}
	}
	l, df := r.LossTerms, r.Trace.Trace
	if l == nil || l.Name != name || !r.Converged || !(df > 1 && df <= 6+1e-9) || !(r.ALOStdErr > 0) {
		t.Fatalf("%s, %s: %+v, df %g, leave-one-out ± %g", name, kind, l, df, r.ALOStdErr)
	}
	if name == "huber" {
		if !math.IsNaN(r.AIC) || !math.IsNaN(r.BIC) {
			t.Errorf("AIC %g and BIC %g of a loss that is no likelihood", r.AIC, r.BIC)
		}
		return
	}
	deviance := 2 * l.Value
	for i := 0; name == "poisson" && i < len(y); i++ { // the likelihood's constant, log y!
		factorial, _ := math.Lgamma(y[i] + 1)
		deviance += 2 * factorial
	}
	if a, b := deviance+2*df, deviance+math.Log(float64(r.D))*df; math.Abs(r.AIC-a) > 1e-9 ||
		math.Abs(r.BIC-b) > 1e-9 {
		t.Errorf("%s, %s: AIC %g and BIC %g, want %g and %g", name, kind, r.AIC, r.BIC, a, b)
	}
	for i, m := range l.Fitted {
		want := math.Exp(r.MuHat[i])
		if name == "logistic" {
			want = 1 / (1 + math.Exp(-r.MuHat[i]))
		}
		if math.Abs(m-want) > 1e-12*want {
			t.Fatalf("%s: fitted mean %d is %g, want %g", name, i, m, want)
		}
	}
}

// What is defined for the squared loss alone is refused by name, and a sweep minimizes
// leave-one-out.
func TestSweepOfALoss(t *testing.T) {
	dev := array.NewHost()
	data := drawLoss("logistic", 60)
	a := linops.NewDense(dev, data.x)
	defer a.Release()
	f := pipeline.Family{
		Problem:     vjp.Problem{A: a, Loss: makeLoss(t, "logistic", nil), Device: dev},
		Regularizer: func(w []float64) (prox.Prox, error) { return prox.NewL1(w[0]), nil },
		Solver:      "active-set",
	}
	grid := [][]float64{{0.5, 1, 2, 4, 8, 16}}
	refused := func(o pipeline.SweepOptions, want string) {
		for _, err := range pipeline.Sweep(context.Background(), data.y, f, grid, o) {
			var option *pipeline.OptionError
			if !errors.As(err, &option) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, expected %q", err, want)
			}
		}
	}
	refused(pipeline.SweepOptions{Options: pipeline.Options{Sigma2: 1}}, "leave-one-out")
	refused(pipeline.SweepOptions{Criterion: risk.SURE}, "not defined for the logistic loss")
	refused(pipeline.SweepOptions{Criterion: risk.GCV}, "not defined for the logistic loss")
	refused(pipeline.SweepOptions{Options: pipeline.Options{Verify: &verify.Options{}}}, "squared loss")
	var last pipeline.SweepPoint
	least := math.Inf(1)
	for point, err := range pipeline.Sweep(context.Background(), data.y, f, grid, pipeline.SweepOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, point.ALO)
		last = point
	}
	if last.Stage != pipeline.MinimizerStage || last.ALO != least || !(least < math.Log(2)) {
		t.Errorf("the last point, in stage %s, has leave-one-out %g, the least is %g", last.Stage, last.ALO, least)
	}

	p := f.Problem
	p.R = prox.NewL1(1)
	s, err := vjp.NewSolver(t.Context(), "active-set", p, vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	pipe, err := pipeline.New(s, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]float64(nil), data.y...)
	bad[3] = -1
	if _, err := pipe.Estimate(t.Context(), bad); err == nil ||
		!strings.Contains(err.Error(), "code labels of -1 and 1") {
		t.Errorf("error %v for labels of -1 and 1", err)
	}
}
