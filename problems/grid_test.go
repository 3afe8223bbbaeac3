package problems_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/problems"
	"surepipe/vjp"
)

func TestGridIsLogarithmic(t *testing.T) {
	for text, want := range map[string][]float64{
		"1:100:3":            {1, 10, 100},
		"0.5max:max:2":       {5, 10},
		" 0.1 : 0.1max : 2 ": {0.1, 1},
		"0.01max:1e2:4":      {0.1, 1, 10, 100},
		"1,2, 5":             {1, 2, 5},
		"0.1max,0.5max":      {1, 5},
	} {
		g, err := problems.ParseGrid(text)
		if err != nil {
			t.Fatal(err)
		}
		if g.Relative() != strings.Contains(text, "max") {
			t.Errorf("%s: relative %v", text, g.Relative())
		}
		got, err := g.Values(10)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-13*b }) {
			t.Errorf("%s: %v, expected %v", text, got, want)
		}
		if got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("%s: ends %v and %v, expected %v exactly", text, got[0], got[len(got)-1], want)
		}
	}
}

func TestBadGridsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"1:2":           "expected FROM:TO:COUNT",
		"1:2:3:4":       "expected FROM:TO:COUNT",
		"1:2:x":         `the number of points is "x"`,
		"1:2:1":         "a grid of 1 points, expected 2",
		"1:2:-4":        "a grid of -4 points",
		"1:2:100000000": "expected 2 to 100000",
		"0:1:5":         "an end is 0, expected a positive finite number",
		"0max:1:5":      "an end is 0",
		"1:inf:5":       "an end is +Inf",
		"2:1:5":         "from 2 to 1, expected an end larger",
		"1:1:5":         "from 1 to 1",
		"2max:1max:5":   "from 2 to 1",
		"-1:1:5":        `it begins at "-1", expected a positive number`,
		"1,":            `of weight 2 of the list, "", expected`,
		"1,0.1max":      "numbers and multiples of max are mixed",
		"1,3,2":         "3 is followed by 2, expected increasing weights",
		"0,1":           "an end is 0",
		"1:nan:5":       `it ends at "nan", expected a positive number`,
	} {
		if _, err := problems.ParseGrid(text); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), `"`+text+`"`) {
			t.Errorf("%s: error %v, expected one with %q", text, err, want)
		}
	}
	mixed, err := problems.ParseGrid("1max:5:10")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mixed.Values(7); err == nil || !strings.Contains(err.Error(), "from 7 to 5") {
		t.Errorf("error %v", err)
	}
	close, err := problems.ParseGrid("1:1.000000000000001:1000")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := close.Values(0); err == nil || !strings.Contains(err.Error(), "too close") {
		t.Errorf("error %v", err)
	}
}

// A problem with other weights is the problem made with those weights.
func TestReweightedIsTheProblemMadeWithThoseWeights(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		ctx := context.Background()
		for name, data := range generated(t, 4) {
			if name == "ols" {
				continue
			}
			data.Lambda, data.Gamma = value(1), value(2)
			first, err := problems.New(name, dev, data, problems.Hyper{})
			if err != nil {
				t.Fatal(err)
			}
			data.Lambda, data.Lambda2, data.Gamma = value(3), value(5), value(4)
			want, err := problems.New(name, dev, data, problems.Hyper{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := first.Reweighted(3, 5, 4)
			if err != nil {
				t.Fatal(err)
			}
			changed := first.Solve()
			changed.R = r
			var b [2][]float64
			for i, p := range []vjp.Problem{changed, want.Solve()} {
				s, err := vjp.NewSolver(ctx, first.DefaultSolver, p, vjp.Options{Derivative: vjp.None})
				if err != nil {
					t.Fatal(err)
				}
				y := dev.Alloc(1, len(data.Y))
				dev.Upload(y, data.Y)
				sol, err := s.Solve(ctx, y)
				if err != nil {
					t.Fatal(err)
				}
				b[i] = sol.B.ToHost()
				sol.Release()
				y.Free()
				s.Release()
			}
			if !slices.Equal(b[0], b[1]) {
				t.Errorf("%s: the solutions differ", name)
			}
			for _, bad := range []float64{0, -1, math.NaN()} {
				if _, err := first.Reweighted(bad, 5, 4); err == nil || !strings.Contains(err.Error(), "lambda is") {
					t.Errorf("%s: lambda %g gives %v", name, bad, err)
				}
			}
			first.Release()
			want.Release()
		}
		ols, err := problems.New("ols", dev, generated(t, 4)["ols"], problems.Hyper{})
		if err != nil {
			t.Fatal(err)
		}
		defer ols.Release()
		if _, err := ols.Reweighted(1, 1, 1); err == nil || !strings.Contains(err.Error(), "ols has no weight") {
			t.Errorf("ols: %v", err)
		}
	})
}
