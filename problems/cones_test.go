package problems_test

import (
	"math"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/prox/cones"
	solving "surepipe/solve"
	"surepipe/vjp"
)

// Specifications with constraints are the estimators of their formulas, built by hand.
func TestConstraintsOfSpecificationsAreTheirFormulas(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		must := func(p prox.Prox, err error) prox.Prox {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		const head = "data: {y: [3, 1, 2, -1, 4, 0.5], c: [1, 2, 3, 4, 5, 6]}\noperator: identity\n"
		rows := imaging.NewDifference1D(6)
		inf := math.Inf(1)
		for _, c := range []struct {
			text string
			k    linops.Operator
			r    prox.Prox
		}{
			{"regularizer: {l2-ball: {radius: 2}}", nil, cones.NewL2Ball(6, 2)},
			{"regularizer: {shifted: {to: c, regularizer: {l2-ball: 2}}}", nil,
				must(prox.NewShifted(dev, cones.NewL2Ball(6, 2), []float64{1, 2, 3, 4, 5, 6}))},
			{"regularizer: second-order-cone", nil, must(cones.NewSecondOrderCones(6, [][]int{{0, 1, 2, 3, 4, 5}}))},
			{"regularizer: {second-order-cone: {size: 3}}", nil,
				must(cones.NewSecondOrderCones(6, [][]int{{0, 1, 2}, {3, 4, 5}}))},
			{"regularizer: {second-order-cone: {planes: 3}}", nil,
				must(cones.NewSecondOrderCones(6, [][]int{{0, 2, 4}, {1, 3, 5}}))},
			{"regularizer: {equal: {to: c}}", nil,
				must(prox.NewBox(dev, []float64{1, 2, 3, 4, 5, 6}, []float64{1, 2, 3, 4, 5, 6}))},
			{"terms: [{operator: {trend: {order: 0}}, regularizer: nonnegative}]", rows, prox.NonNegative()},
			{"terms: [{operator: {trend: {order: 0}}, regularizer: {box: {lo: 0.2}}}]", rows,
				must(prox.NewBox(dev, []float64{.2, .2, .2, .2, .2}, []float64{inf, inf, inf, inf, inf}))},
			{"terms: [{operator: {trend: {order: 0}}, regularizer: {shifted: {to: 0.2, regularizer: nonnegative}}}]",
				rows, must(prox.NewBox(dev, []float64{.2, .2, .2, .2, .2}, []float64{inf, inf, inf, inf, inf}))},
		} {
			data, err := load(t, t.TempDir(), head+c.text)
			if err != nil {
				t.Fatal(err)
			}
			built, err := problems.New("", dev, data, problems.Hyper{})
			if err != nil {
				t.Fatalf("%s: %v", c.text, err)
			}
			o := vjp.Options{Tol: 1e-12}
			got, trace := muHatOf(t, built.Solve(), data.Y, o)
			want, wantTrace := muHatOf(t, vjp.Problem{A: linops.Identity(6), K: c.k, R: c.r, Device: dev}, data.Y, o)
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-9 {
					t.Errorf("%s: mu_hat %v, want %v", c.text, got, want)
					break
				}
			}
			if math.Abs(trace-wantTrace) > 1e-9 {
				t.Errorf("%s: trace %g, want %g", c.text, trace, wantTrace)
			}
			if _, err := solving.New(t.Context(), "fista", built.Solve(),
				solving.Options{}); (err != nil) != (c.k != nil) {
				t.Errorf("%s: fista: %v", c.text, err)
			}
			built.Release()
			prox.Release(c.r)
		}
	})
}

// Constraints that cannot be are refused by name.
func TestConstraintsRefuse(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range []struct{ regularizer, want string }{
			{"{box: {lo: 1, hi: 0}}", "bounds [1, 0], want a nonempty interval"},
			{"{box: {hi: -inf}}", "bounds [-Inf, -Inf]"},
			{"{simplex: {sum: 0}}", "sum is \"0\", expected a positive number"},
			{"{l2-ball: {radius: -1}}", "radius is \"-1\", expected a positive number"},
			{"{equal: {to: inf}}", "entry 1 of to is +Inf, expected a finite number"},
			{"{equal: {to: c}}", "to has 3 values, expected 4"},
			{"equal", "equal has no arguments, expected equal: {to: c}"},
			{"{second-order-cone: {size: 3}}", "second-order-cone of 3 entries, expected a divisor of the number " +
				"of entries, 4"},
			{"{second-order-cone: {size: 2, planes: 2}}", "size and planes, expected one of them"},
			{"{semidefinite: {weight: 1}}", "semidefinite has arguments"},
			{"{blocks: [{semidefinite: {}, size: 3}, {zero: {}, size: 1}]}",
				"a block of shape (3,), expected a square matrix"},
			{"{shifted: {to: 1}}", "expected shifted: {to: c, regularizer: R}"},
			{"{shifted: {to: c, regularizer: nonnegative}}", "to has 3 values, expected 4"},
		} {
			data, err := load(t, t.TempDir(), "data: {y: [1, 2, 3, 4], c: [1, 2, 3]}\noperator: "+
				"identity\nregularizer: "+c.regularizer+"\n")
			if err == nil {
				_, err = problems.New("", dev, data, problems.Hyper{})
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: error %v, want one with %q", c.regularizer, err, c.want)
			}
		}
	})
}
