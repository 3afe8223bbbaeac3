package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/verify"
	"surepipe/vjp"
)

// threshold checks soft thresholding of y at 1, whose Jacobian is said to be diag(jacobian), with
// the regularizer r in the check.
func threshold(t *testing.T, ctx context.Context, dev array.Device, y, jacobian []float64,
	r prox.Prox) (*verify.Verification, error) {
	t.Helper()
	return thresholdKnowing(t, ctx, dev, y, jacobian, r, vjp.Closed{})
}

// thresholdKnowing is threshold where more is known of the derivative.
func thresholdKnowing(t *testing.T, ctx context.Context, dev array.Device, y, jacobian []float64, r prox.Prox,
	closed vjp.Closed) (*verify.Verification, error) {
	t.Helper()
	d := len(y)
	s, err := vjp.NewSolver(context.Background(), "ista", vjp.Problem{A: linops.Identity(d), R: prox.NewL1(1),
		Device: dev}, vjp.Options{Derivative: vjp.None})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	b, diagonal := dev.Alloc(1, d), dev.Alloc(1, d)
	defer b.Free()
	defer diagonal.Free()
	dev.Upload(b, y)
	dev.Upload(diagonal, jacobian)
	sol, err := s.Solve(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	trace := 0.0
	for _, v := range jacobian {
		trace += v
	}
	return verify.Check(ctx, verify.Result{
		Solver: s, Y: b, B: sol.B, MuHat: sol.MuHat, Convergence: sol.Convergence,
		Images: func(_ context.Context, dst, v array.Batch, _ []float64) error {
			for i := range v.K() {
				dev.Mul(dst.Rows(i, i+1), v.Rows(i, i+1), diagonal)
			}
			return nil
		},
		Closed: closed,
		Trace:  hutch.Estimate{Estimator: hutch.Exact, Trace: trace, Frobenius2: trace, Exact: true}, Sigma2: 1,
		StdErr: 1,
	}, verify.Options{Problem: vjp.Problem{A: linops.Identity(d), R: r, Device: dev}})
}

// A kink within the first step, of 1e-4 sqrt(3), is left behind by smaller ones: nothing is a
// boundary, and what is wrong there is found.
func TestSmallerStepsLeaveAKinkBehind(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		y := []float64{3, 1 + 3e-5, 0.2}
		for _, c := range []struct {
			jacobian []float64
			right    bool
		}{{[]float64{1, 1, 0}, true}, {[]float64{1, 0, 0}, false}, {[]float64{1, 0.9, 0}, false}} {
			v, err := threshold(t, context.Background(), dev, y, c.jacobian, prox.NewL1(1))
			if err != nil {
				t.Fatal(err)
			}
			if v.Passed() != c.right || v.Boundaries != 0 || v.Unresolved != 0 || v.Probes != 3 {
				t.Errorf("%v: %+v", c.jacobian, v)
			}
		}
	})
}

// The diagonal is compared where smaller steps leave a kink behind, and not where there is one at every step.
func TestDiagonalKnowsAKink(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, c := range []struct {
			above    float64 // by how much y_1 exceeds the threshold
			diagonal []float64
			passed   bool
		}{
			{3e-5, []float64{1, 1, 0}, true},
			{3e-5, []float64{1, 0.9, 0.1}, false},
			{1e-10, []float64{1, 1, 0}, true},
			{1e-10, []float64{1, 1, 0}, true},
			{1e-10, []float64{1, 2, -1}, false},
		} {
			closed := vjp.Closed{Known: true, Trace: 2, Frobenius2: 2,
				Diagonal: func() ([]float64, error) { return c.diagonal, nil }}
			v, err := thresholdKnowing(t, context.Background(), dev, []float64{3, 1 + c.above, 0.2},
				[]float64{1, 1, 0}, prox.NewL1(1), closed)
			if err != nil {
				t.Fatal(err)
			}
			made := map[string]bool{}
			for _, comparison := range v.Comparisons {
				made[comparison.Name] = true
			}
			if v.Passed() != c.passed || !made[verify.Diagonal] {
				t.Errorf("%+v: %+v", c, v)
			}
		}
	})
}

// Numbers for another problem are not compared: the check says so.
func TestClosedFormsOfOtherSizes(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	closed := vjp.Closed{Known: true, Diagonal: func() ([]float64, error) { return []float64{1, 1}, nil }}
	v, err := thresholdKnowing(t, context.Background(), dev, []float64{3, 2, 0.2}, []float64{1, 1, 0}, prox.NewL1(1),
		closed)
	if err != nil || v.Passed() || !strings.Contains(v.Failure, "of 2 entries for 3") {
		t.Errorf("%+v, %v", v, err)
	}
}

// What keeps the check from being done is in the result, with words; the end of the context is an
// error.
func TestFailuresOfTheCheck(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	broken := prox.NewFunc(3, func(dst, v []float64, t float64) error { return errors.New("out of order") },
		func(dst, v, z []float64, t float64) {}, nil)
	y, jacobian := []float64{3, 2, 0.2}, []float64{1, 1, 0}
	v, err := threshold(t, context.Background(), dev, y, jacobian, broken)
	if err != nil || v.Passed() || !strings.Contains(v.Failure, "out of order") ||
		!strings.Contains(v.Describe(), "out of order") {
		t.Errorf("%+v, %v", v, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := threshold(t, ctx, dev, y, jacobian, prox.NewL1(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := threshold(t, context.Background(), dev, y, jacobian, nil); err == nil {
		t.Error("a problem without a regularizer")
	}
}

// Numbers that are none count as the worst, and JSON can hold them.
func TestNaNIsTheWorst(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	v, err := threshold(t, context.Background(), dev, []float64{3, 2, 0.2}, []float64{1, math.NaN(), 0}, prox.NewL1(1))
	if err != nil || v.Passed() {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := json.Marshal(v); err != nil {
		t.Error(err)
	}
}

// A problem with r(K b) is solved again by methods for such problems, and a wrong derivative is found.
func TestPenaltyBehindAnOperator(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		ctx := context.Background()
		const d = 12
		p := vjp.Problem{A: linops.Identity(d), K: imaging.NewDifference1D(d), R: prox.NewL1(0.8), Device: dev}
		s, err := vjp.NewSolver(ctx, "admm", p, vjp.Options{Sigma2: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		y := dev.Alloc(1, d)
		defer y.Free()
		dev.Upload(y, []float64{1.1, 0.8, 1.2, 0.9, 5.1, 5.2, 4.7, 5, -2, -2.2, -1.7, -2.1})
		sol, err := s.Solve(ctx, y)
		if err != nil {
			t.Fatal(err)
		}
		defer sol.Release()
		for wrong, passes := range map[float64]bool{0: true, 0.05: false} {
			v, err := verify.Check(ctx, verify.Result{
				Solver: s, Y: y, B: sol.B, MuHat: sol.MuHat, Convergence: sol.Convergence,
				Images: func(ctx context.Context, dst, v array.Batch, left []float64) error {
					err := sol.Linearization.Apply(ctx, dst, v, hutch.Accuracy{}, left)
					dev.Lin(dst, 1, dst, wrong, v)
					return err
				},
				Trace:  hutch.Estimate{Estimator: hutch.Exact, Trace: 3 + wrong*d, Frobenius2: 3, Exact: true},
				Sigma2: 0.1, StdErr: 0.5,
			}, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if v.Passed() != passes || v.Solver != "interior-point" || v.Other != "dual" || v.Unresolved > 0 {
				t.Errorf("off by %g: %+v", wrong, v)
			}
		}
	})
}
