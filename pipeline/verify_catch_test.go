package pipeline_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/risk/warning"
	"surepipe/verify"
	"surepipe/vjp"
)

// spoiled is a solver whose solutions somebody has changed.
type spoiled struct {
	vjp.Solver
	spoil func(s *vjp.Solution)
}

func (b spoiled) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	s, err := b.Solver.Solve(ctx, y)
	if err == nil {
		b.spoil(s)
	}
	return s, err
}

// scaledJacobian is a derivative of the wrong size, whose trace is as wrong, or, with only the
// trace spoiled, a derivative that is right.
type scaledJacobian struct {
	vjp.Linearization
	images, trace float64
}

func (j scaledJacobian) VJP(ctx context.Context, dst, v array.Batch) error {
	err := j.Linearization.VJP(ctx, dst, v)
	dst.Device().Lin(dst, j.images, dst, 0, array.Batch{})
	return err
}

func (j scaledJacobian) Apply(ctx context.Context, dst, v array.Batch, _ hutch.Accuracy, left []float64) error {
	clear(left)
	return j.VJP(ctx, dst, v)
}

func (j scaledJacobian) Closed() vjp.Closed {
	c := j.Linearization.Closed()
	c.Trace, c.Low, c.High = j.trace*c.Trace, j.trace*c.Low, j.trace*c.High
	if diagonal := c.Diagonal; diagonal != nil {
		c.Diagonal = func() ([]float64, error) {
			values, err := diagonal()
			if err == nil {
				floats.Scale(j.images, values)
			}
			return values, err
		}
	}
	return c
}

// halvedLeverages is a derivative whose diagonal is right when it is shown to a check, and half as large
// when leave-one-out takes it.
type halvedLeverages struct{ vjp.Linearization }

func (l halvedLeverages) Closed() vjp.Closed {
	c := l.Linearization.Closed()
	c.Leverages = func() []float64 {
		values, err := c.Diagonal()
		if err != nil {
			panic(err)
		}
		floats.Scale(0.5, values)
		return values
	}
	return c
}

// above are the names of the comparisons that fail.
func above(v *verify.Verification) []string {
	var names []string
	for _, c := range v.Comparisons {
		if c.Bars > verify.Limit {
			names = append(names, c.Name)
		}
	}
	return names
}

func scale(dev array.Device, b array.Batch, by float64) { dev.Lin(b, by, b, 0, array.Batch{}) }

func TestVerifyCatchesWhatIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for name, c := range map[string]struct {
			spoil func(s *vjp.Solution)
			by    []string // the first finds it, and one of them is the worst
		}{
			"nothing": {func(*vjp.Solution) {}, nil},
			"derivative 1.1 times too large": {func(s *vjp.Solution) {
				s.Linearization = scaledJacobian{s.Linearization, 1.1, 1.1}
			}, []string{verify.Derivative, verify.Divergence, verify.Diagonal}},
			"derivative 5% too small": {func(s *vjp.Solution) {
				s.Linearization = scaledJacobian{s.Linearization, 0.95, 0.95}
			}, []string{verify.Derivative, verify.Divergence, verify.Diagonal}},
			"trace": {func(s *vjp.Solution) {
				s.Linearization = scaledJacobian{s.Linearization, 1, 1.1}
			}, []string{verify.Divergence, verify.Diagonal}},
			"leverages half as large": {func(s *vjp.Solution) {
				s.Linearization = halvedLeverages{s.Linearization}
			}, []string{verify.LeaveOneOut}},
			"mu_hat": {func(s *vjp.Solution) { scale(dev, s.MuHat, 1+1e-6) }, []string{verify.Fit}},
			"b":      {func(s *vjp.Solution) { scale(dev, s.B, 1+1e-6) }, []string{verify.Fit}},
			"b and mu_hat": {func(s *vjp.Solution) {
				scale(dev, s.B, 0.999)
				scale(dev, s.MuHat, 0.999)
			}, []string{verify.Optimality, verify.Solution, verify.OtherSolver}},
		} {
			t.Run(name, func(t *testing.T) {
				var risk pipeline.Risk
				leaks(t, dev, func() {
					const d, p = 24, 32
					x := linops.NewDense(dev, mat.NewDense(d, p, gaussian(rand.New(rand.NewPCG(5, 6)), d*p)))
					defer x.Release()
					problem := vjp.Problem{A: x, R: prox.NewL1(20), Device: dev}
					s, err := vjp.NewSolver(context.Background(), "fista", problem, vjp.Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Release()
					pipe := newPipeline(t, spoiled{s, c.spoil},
						pipeline.Options{ALO: true, Verify: &verify.Options{Problem: problem}})
					if risk, err = pipe.Estimate(context.Background(),
						gaussian(rand.New(rand.NewPCG(7, 9)), d)); err != nil {
						t.Fatal(err)
					}
				})
				v := risk.Verification
				t.Logf("%.3g bars (%s)", v.Largest, v.Check)
				if c.by == nil {
					if !v.Passed() || !risk.Trusted() {
						t.Errorf("a right result did not pass: %s", v.Describe())
					}
					return
				}
				warnings := risk.Warnings()
				if v.Passed() || len(warnings) != 1 || !warnings[0].Is(warning.Unverified) ||
					!strings.Contains(warnings[0].Text, v.Check) {
					t.Fatalf("not caught: %+v, %v", v, warnings)
				}
				if caught := above(v); !slices.Contains(c.by, v.Check) || !slices.Contains(caught, c.by[0]) {
					t.Errorf("caught by %v, the worst %s, expected one of %v and the first of these", caught, v.Check,
						c.by)
				}
			})
		}
	})
}

// At a y where the derivative is not unique whatever element of it was taken is no error, and the
// check says how many probes it could not compare.
func TestVerifyKnowsABoundary(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		y := []float64{3, 1, -1, 0.5, 1 + 1e-10, -4}
		p := vjp.Problem{A: linops.Identity(6), R: prox.NewL1(1), Device: dev}
		s, err := vjp.NewSolver(context.Background(), "ista", p, vjp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		pipe, err := pipeline.New(s, pipeline.Options{Sigma2: 1, Verify: &verify.Options{Problem: p}})
		if err != nil {
			t.Fatal(err)
		}
		risk, err := pipe.Estimate(context.Background(), y)
		if err != nil {
			t.Fatal(err)
		}
		if v := risk.Verification; !v.Passed() || v.Boundaries != 3 || v.Probes != 6 || v.Unresolved != 0 {
			t.Errorf("%+v", v)
		}
	})
}

// A verification ends within a second of its context, and leaves nothing behind.
func TestVerifyCanBeCancelled(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if arraytest.Emulated(t, dev) {
			t.Skip("the host's is as good")
		}
		rng := rand.New(rand.NewPCG(1, 2))
		const d, p = 64, 400
		leaks(t, dev, func() {
			x := linops.NewDense(dev, mat.NewDense(d, p, gaussian(rng, d*p)))
			defer x.Release()
			problem := vjp.Problem{A: x, R: prox.NewL1(1), Device: dev}
			s, err := vjp.NewSolver(context.Background(), "fista", problem, vjp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			pipe := newPipeline(t, s, pipeline.Options{Verify: &verify.Options{Problem: problem}})
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(60*time.Millisecond, cancel)
			begin := time.Now()
			_, err = pipe.Estimate(ctx, gaussian(rng, d))
			if took := time.Since(begin); !errors.Is(err, context.Canceled) || took > time.Second {
				t.Errorf("ended with %v after %v", err, took)
			}
		})
	})
}

// Under a sweep every point is checked with its own weights.
func TestVerifyUnderASweep(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		grid := [][]float64{{0.02 * c.max, 0.1 * c.max, 0.5 * c.max}}
		o := pipeline.SweepOptions{Refine: 2, Options: pipeline.Options{Sigma2: 1, Verify: &verify.Options{}}}
		for range pipeline.Sweep(context.Background(), c.y, c.Family, grid, o) {
			// The other solver's factors stay with the operator.
		}
		leaks(t, dev, func() {
			for point, err := range pipeline.Sweep(context.Background(), c.y, c.Family, grid, o) {
				if err != nil {
					t.Fatal(err)
				}
				if v := point.Verification; v == nil || !v.Passed() || v.Probes == 0 {
					t.Errorf("point %d: %+v", point.Index, v)
				}
			}
		})
	})
}

// A check of another problem than the solver's is refused.
func TestVerifyRefusesAnotherProblem(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	s, d := quick(t, dev)
	for _, p := range []vjp.Problem{{A: linops.Identity(d), Device: dev}, {A: linops.Identity(d), R: prox.NewL1(1),
		Device: dev}} {
		if _, err := pipeline.New(s, pipeline.Options{Sigma2: 1, Verify: &verify.Options{Problem: p}}); err == nil ||
			!strings.Contains(err.Error(), "verify: a problem") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
