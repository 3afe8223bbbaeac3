package steps_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"surepipe/array"
	"surepipe/internal/numerics/steps"
)

func batch(dev array.Device, values ...float64) array.Batch {
	b := dev.Alloc(1, len(values))
	dev.Upload(b, values)
	return b
}

// diagonal is the system with the matrix diag(m) and the preconditioner I; directions carry 2 p beside p.
func diagonal(dev array.Device, m array.Batch) steps.System {
	n := m.N()
	return steps.System{
		Times: func(q, p array.Batch) { dev.Mul(q, m, p.Cols(0, n)) },
		Precondition: func(p, r array.Batch) {
			dev.Copy(p.Cols(0, n), r)
			dev.Lin(p.Cols(n, 2*n), 2, r, 0, array.Batch{})
		},
	}
}

// As many steps as there are different eigenvalues lead to the solution, what is carried along goes with it, and a
// looser tolerance or a bound of the steps ends sooner.
func TestTruncatedCGSolves(t *testing.T) {
	dev := array.NewHost()
	m := batch(dev, 1, 4, 4, 9)
	for _, c := range []struct {
		tol  float64
		most int
		want int
	}{{1e-12, 10, 3}, {0.9, 10, 1}, {1e-12, 2, 2}, {1e-12, 0, 0}} {
		x, r := dev.Alloc(1, 8), batch(dev, 1, 2, -3, 9)
		taken, err := steps.TruncatedCG(t.Context(), x, r, diagonal(dev, m), c.tol, c.most)
		if err != nil || taken != c.want {
			t.Fatalf("tolerance %g: %d steps of %d, expected %d: %v", c.tol, taken, c.most, c.want, err)
		}
		got, left := x.ToHost(), r.ToHost()
		for i, b := range []float64{1, 2, -3, 9} {
			if v := m.ToHost()[i]; math.Abs(got[i]*v+left[i]-b) > 1e-12 || math.Abs(got[4+i]-2*got[i]) > 1e-12 {
				t.Errorf("tolerance %g: x_%d = %g, carried %g, left %g", c.tol, i, got[i], got[4+i], left[i])
			}
			if c.want == 3 && math.Abs(got[i]*m.ToHost()[i]-b) > 1e-12 {
				t.Errorf("x_%d = %g is not the solution", i, got[i])
			}
		}
	}
}

// A direction of negative curvature ends it: at 0 if it is the first, and at a direction of descent later.
func TestTruncatedCGEndsAtNegativeCurvature(t *testing.T) {
	dev := array.NewHost()
	x, r := dev.Alloc(1, 4), batch(dev, 1, 1)
	if taken, err := steps.TruncatedCG(t.Context(), x, r, diagonal(dev, batch(dev, -2, 1)), 0, 9); taken != 0 ||
		err != nil || x.ToHost()[0] != 0 || x.ToHost()[1] != 0 {
		t.Errorf("%d steps to %v: %v", taken, x.ToHost(), err)
	}
	r = batch(dev, 3, 1)
	taken, err := steps.TruncatedCG(t.Context(), x, r, diagonal(dev, batch(dev, 1, -2)), 0, 9)
	if got := x.ToHost(); taken != 1 || err != nil || !(3*got[0]+got[1] > 0) {
		t.Errorf("%d steps to %v: %v", taken, got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := steps.TruncatedCG(ctx, x, r, diagonal(dev, batch(dev, 1, 1)), 0, 9); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func ExampleBacktrack() {
	// 1/2 (3 t - 1)^2 is less than at 0 for t < 2/3.
	t, _ := steps.Backtrack(func(t float64) (bool, error) { return (3*t-1)*(3*t-1) < 1, nil })
	fmt.Println(t)
	// Output: 0.5
}

func TestBacktrackGivesUp(t *testing.T) {
	tries := 0
	if got, err := steps.Backtrack(func(float64) (bool, error) { tries++; return false, nil }); got != 0 ||
		err != nil || tries != 41 {
		t.Errorf("step %g after %d tries: %v", got, tries, err)
	}
	if _, err := steps.Backtrack(func(float64) (bool, error) { return false, errors.ErrUnsupported }); err == nil {
		t.Error("no error")
	}
}

// The slope of a convex function falls to the share that is asked for, and the function is less than at 0.
func TestFlatten(t *testing.T) {
	for _, root := range []float64{0.001, 0.3, 0.999, 2} {
		for _, share := range []float64{0, 0.3} {
			slope := func(t float64) (float64, error) { return math.Exp(t) - math.Exp(root), nil }
			first, _ := slope(0)
			got, err := steps.Flatten(first, share, slope)
			at, _ := slope(got)
			if err != nil || at > 0 || got < 1 && at < share*first-1e-12 || root > 1 && got != 1 {
				t.Errorf("root %g, share %g: step %g with slope %g, %g at 0: %v", root, share, got, at, first, err)
			}
		}
	}
	if got, _ := steps.Flatten(0, 0, nil); got != 0 {
		t.Errorf("step %g uphill", got)
	}
	fail := func(float64) (float64, error) { return 0, errors.ErrUnsupported }
	if _, err := steps.Flatten(-1, 0, fail); err == nil {
		t.Error("no error")
	}
}

// The least value is that of closed forms: of a parabola, of (t^2 - 1)^2 - 1, at the end, and of what grows.
func TestQuartic(t *testing.T) {
	for _, c := range []struct {
		q    steps.Quartic
		want float64
	}{
		{steps.Quartic{-0.6, 1}, 0.3}, {steps.Quartic{0, -2, 0, 1}, 1}, {steps.Quartic{-1}, 2},
		{steps.Quartic{1, 1, 1, 1}, 0}, {steps.Quartic{}, 0},
	} {
		if got := c.q.Least(2); math.Abs(got-c.want) > 1e-7 {
			t.Errorf("%v is least at %g, expected %g", c.q, got, c.want)
		}
	}
}
