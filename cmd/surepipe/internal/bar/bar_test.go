package bar

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"surepipe/pipeline"
	reports "surepipe/progress"
)

// The line says what is under way and how much is done, also where nothing is reported; it makes room for what is
// written past it, and is cut to the terminal.
func TestLineShowsWhatIsUnderWay(t *testing.T) {
	var out bytes.Buffer
	start := time.Now()
	p := on(&out, start)
	p.width = func() int { return 200 }
	shows := func(after time.Duration) string {
		out.Reset()
		p.draw(start.Add(after))
		text := out.String()
		return text[strings.LastIndex(text, "\r")+1:]
	}
	p.follow(pipeline.Progress{Sample: 0, Report: reports.Report{Stage: reports.Factorization, Steps: 3000}})
	if got := shows(500 * time.Millisecond); got != "" {
		t.Errorf("%q is shown within the first second", got)
	}
	if got := shows(5 * time.Second); !strings.Contains(got, "[0s] factorization of 3000 rows") {
		t.Errorf("%q", got)
	}
	p.Label("figure 1: ", "samples")
	p.Set(3, 12, 3)
	p.follow(pipeline.Progress{Sample: 4, Report: reports.Report{Stage: reports.Iterations, Step: 7, Measure: 1e-3,
		Goal: 1e-8}})
	p.follow(pipeline.Progress{Sample: 3, Done: 24, Total: 48,
		Report: reports.Report{Stage: reports.ConjugateGradients, Step: 9, Measure: 0.02, Goal: 0.001, Active: 24}})
	p.follow(pipeline.Progress{Sample: 3, Done: 24, Total: 48, Report: reports.Report{Stage: reports.Probes}})
	got := shows(8 * time.Second)
	for _, want := range []string{"25% [====>", "] figure 1: 3 of 12 samples; sample 3: 24 of 48 probes, conjugate " +
		"gradients, step 9, residual 2.0e-02, goal 1.0e-03, 24 probes under way"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, expected %q", got, want)
		}
	}
	out.Reset()
	beside{p, &out}.Write([]byte("a result\n"))
	if got := out.String(); got != "\x1b[2K\ra result\n" {
		t.Errorf("%q, expected the line to be cleared first", got)
	}
	p.width = func() int { return 80 }
	if got := strings.TrimRight(strings.TrimSuffix(shows(9*time.Second), "\x1b[0K"), " "); len(got) > 80 ||
		!strings.HasSuffix(got, "...") {
		t.Errorf("%q has %d bytes on a terminal of 80 columns", got, len(got))
	}
	p.width = func() int { return 200 }
	p.Set(12, 12, 12)
	p.Describe("the minimizer")
	if got := shows(10 * time.Second); strings.Contains(got, "%") || !strings.Contains(got, "12 of 12 samples; the mini") {
		t.Errorf("%q, expected no bar after the last sample", got)
	}
}

// A report costs no allocation.
func TestReportsAllocateNothing(t *testing.T) {
	p := on(&bytes.Buffer{}, time.Now())
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		i++
		p.follow(pipeline.Progress{Report: reports.Report{Stage: reports.Iterations, Step: i, Measure: 1, Goal: 1e-8}})
	}); n > 0 {
		t.Errorf("%g allocations a report", n)
	}
}
