package hutch

import (
	"errors"
	"testing"
)

func TestNewPlanLaysOutTheQueries(t *testing.T) {
	for _, c := range []struct {
		estimator  string
		queries, d int
		want       Plan
	}{
		{HutchPP, 102, 103, Plan{hutchPP{}, 103, Layout{Sketch: 34, Basis: SketchBasis, Residual: 34,
			Needs: Forms}}},
		{HutchPP, 6, 1000, Plan{hutchPP{}, 1000, Layout{Sketch: 2, Basis: SketchBasis, Residual: 2,
			Needs: Forms}}},
		{HutchPP, 102, 102, Plan{exact{}, 102, Layout{Basis: UnitBasis}}},
		{Hutchinson, 100, 101, Plan{hutchinson{}, 101, Layout{Residual: 100, Needs: Forms}}},
		{Hutchinson, 100, 7, Plan{exact{}, 7, Layout{Basis: UnitBasis}}},
		{Exact, 0, 5000, Plan{exact{}, 5000, Layout{Basis: UnitBasis}}},
		{Exact, 100, 5000, Plan{exact{}, 5000, Layout{Basis: UnitBasis}}},
	} {
		got, err := NewPlan(c.estimator, c.queries, c.d)
		if err != nil || got != c.want {
			t.Errorf("NewPlan(%q, %d, %d) = %+v, %v, want %+v", c.estimator, c.queries, c.d, got, err, c.want)
		}
	}
}

func TestNewPlanErrorsNameTheArgumentAndTheRule(t *testing.T) {
	const names = "hutch++, hutchinson, exact"
	const three = "hutch++ takes a multiple of 3 (it has three phases of equal size)"
	for _, c := range []struct {
		estimator  string
		queries, d int
		argument   string
		text       string
	}{
		{HutchPP, 100, 1000, "queries", "queries 100: " + three + ", such as 99 or 102"},
		{HutchPP, 100, 10, "queries", "queries 100: " + three + ", such as 99 or 102"},
		{HutchPP, 7, 1000, "queries", "queries 7: " + three + ", such as 6 or 9"},
		{HutchPP, 3, 1000, "queries", "queries 3: " + three + ", at least 6"},
		{HutchPP, 0, 1000, "queries", "queries 0: " + three + ", at least 6"},
		{HutchPP, -3, 1000, "queries", "queries -3: " + three + ", at least 6"},
		{Hutchinson, 1, 1000, "queries", "queries 1: hutchinson takes 2 or more: fewer have no standard error"},
		{"hutch", 102, 1000, "estimator", `estimator "hutch": expected one of ` + names},
		{"", 102, 1000, "estimator", `estimator "": expected one of ` + names},
		{HutchPP, 102, 0, "dimension", "dimension 0: a matrix has at least one row"},
	} {
		_, err := NewPlan(c.estimator, c.queries, c.d)
		var refused *PlanError
		if !errors.As(err, &refused) || refused.Argument != c.argument || err.Error() != c.text {
			t.Errorf("NewPlan(%q, %d, %d): error %q, want %q", c.estimator, c.queries, c.d, err, c.text)
		}
	}
}

func TestEveryListedEstimatorHasAPlan(t *testing.T) {
	for _, name := range Estimators() {
		if p, err := NewPlan(name, DefaultQueries, 1000); err != nil || p.Estimator.Name() != name {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestFewerProbesBeginALooserEstimate(t *testing.T) {
	for share, want := range map[float64]int{0.001: 24, 0.2: 24, 0.22: 20, 0.3: 11, 0.4: 6, 0.66: 6, 100: 6} {
		for _, e := range []struct {
			name string
			want int
		}{{Hutchinson, want}, {HutchPP, 3 * want}, {Exact, 0}} {
			estimator, _ := ByName(e.name)
			if got := estimator.First(share); got != e.want {
				t.Errorf("%s begins with %d queries at a share of %g, expected %d", e.name, got, share, e.want)
			}
			if _, err := NewPlan(e.name, estimator.First(share), 1000); e.want > 0 && err != nil {
				t.Error(err)
			}
		}
	}
}
