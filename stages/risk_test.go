package stages_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"surepipe/hutch"
	"surepipe/stages"
	"surepipe/vjp"
)

// The report has the number, its parts, and what its error bar leaves out; it has no newline at the
// end.
func TestRiskPrintsItself(t *testing.T) {
	r := stages.Risk{
		SURE: 12.5, StdErr: 3, Residual: 40, D: 20, Sigma2: 2,
		Trace:       hutch.Estimate{Estimator: hutch.Hutchinson, Trace: 3.125, StdErr: 0.3, Truncation: 0.4, Queries: 24, Seed: 7, Frobenius2: 2},
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
	for _, part := range []string{"divergence 3, exact\n", "error bar is its floor", "\nwarning: not converged after 17 iterations"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	if strings.Contains(got, "error of the trace") || strings.Contains(got, "mu_hat within") {
		t.Errorf("too much in\n%s", got)
	}
}
