package stages_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"surepipe/hutch"
	"surepipe/risk/warning"
	"surepipe/stages"
	"surepipe/vjp"
)

// The report has the number, its parts, and what its error bar leaves out; it has no newline at the
// end.
func TestRiskPrintsItself(t *testing.T) {
	r := stages.Risk{
		SURE: 12.5, StdErr: 3, Residual: 40, D: 20, Sigma2: 2,
		Trace: hutch.Estimate{Estimator: hutch.Hutchinson, Trace: 3.125, StdErr: 0.3, Truncation: 0.4,
			Queries: 24, Seed: 7, Frobenius2: 2},
		Convergence: vjp.Convergence{Iterations: 17, Optimality: 2e-9, Error: 3e-5, Converged: true},
		Derivative:  "implicit", Total: 1500 * time.Millisecond,
	}
	r.DivergenceLow, r.DivergenceHigh = r.Trace.Trace, r.Trace.Trace
	want := `SURE 12.5 ± 3, 0.625 per coordinate, for d = 20 and sigma2 = 2
residual 40, divergence 3.125 ± 0.5 by hutchinson, 24 queries, seed 7
17 iterations, optimality 2.0e-09, mu_hat within 3.0e-05 of the exact estimate; implicit derivative; 1.5 s
± leaves out: the error of the trace, 2; an error of sigma2, 0.28 for each per cent; weights chosen by looking at y`
	if got := r.String(); got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
	r.Trace = hutch.Known(3, 3, 0)
	r.Floored, r.Converged, r.Convergence.Error = true, false, math.NaN()
	got := r.String()
	for _, part := range []string{"divergence 3, exact\n", "error bar is its floor",
		"\nwarning: not converged after 17 iterations"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	if strings.Contains(got, "error of the trace") || strings.Contains(got, "mu_hat within") {
		t.Errorf("too much in\n%s", got)
	}
}

// The limit of mu_hat's error has the weights of the observations, as the error itself has.
func TestErrorsAreHeldAgainstTheNoiseInTheirOwnNorm(t *testing.T) {
	for _, c := range []struct {
		meanWeight, off float64
		warned          bool
		text            string
	}{
		{0, 0.09, false, ""},
		{0, 0.11, true, "mu_hat may be off the exact estimate by 0.11, more than a hundredth of sigma sqrt(d):"},
		{1e4, 9, false, ""},
		{1e4, 11, true, "sqrt(w) mu_hat may be off the exact estimate by 11, more than a hundredth of sigma " +
			"sqrt(sum w), with"},
		{0.25, 0.06, true, "sqrt(w) mu_hat may be off"},
		{0.25, 0.04, false, ""},
	} {
		r := stages.Risk{D: 100, Sigma2: 1, StdErr: 14, MeanWeight: c.meanWeight,
			Convergence: vjp.Convergence{Converged: true, Error: c.off}}
		warnings := r.Warnings()
		if (len(warnings) > 0) != c.warned || r.Trusted() == c.warned {
			t.Errorf("%+v: %v", c, warnings)
		}
		if c.warned && (!warnings[0].Is(warning.NotConverged) || !strings.Contains(warnings[0].Text, c.text)) {
			t.Errorf("%+v: %v", c, warnings)
		}
	}
}

// A small margin of the tangent space is a warning where the divergence beyond is not known, and
// no reason not to trust the result.
func TestNearBoundaryIsSaid(t *testing.T) {
	for _, c := range []struct {
		margin              float64
		neighbours          bool
		reported, nearlyOff bool
	}{{0, false, false, false}, {0.5, false, true, true}, {0.5, true, true, false}, {2, false, true, false},
		{99, false, true, false}, {101, false, false, false}} {
		r := stages.Risk{D: 100, Sigma2: 1, StdErr: 14, SpaceMargin: c.margin, Neighbours: c.neighbours,
			Convergence: vjp.Convergence{Converged: true, Error: math.NaN()}}
		w := r.Warnings()
		if !r.Trusted() || len(w) > 1 || (len(w) == 1) != c.nearlyOff || len(w) == 1 &&
			!w[0].Is(warning.NearBoundary) {
			t.Errorf("%+v: trusted %v, %v", c, r.Trusted(), w)
		}
		if strings.Contains(r.String(), "tangent space by a margin of") != c.reported {
			t.Errorf("%+v: %s", c, r)
		}
		// Another warning counts as it does without this one.
		r.Unsolved = 1
		if r.Trusted() {
			t.Errorf("%+v: trusted with a derivative that has not converged", c)
		}
	}
}
