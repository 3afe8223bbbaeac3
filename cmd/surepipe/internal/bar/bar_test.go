package bar

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"surepipe/pipeline"
	reports "surepipe/progress"
)

// shown is a line on a terminal of 200 columns that began at start.
func shown(out *bytes.Buffer, start time.Time) *Line {
	return &Line{out: out, started: start, width: func() int { return 200 }, tasks: map[int]*task{},
		stop: make(chan struct{})}
}

// The line says what is under way and for how long, also where nothing is reported; it leaves with
// what is written past it, and is cut to the terminal.
func TestLineShowsWhatIsUnderWay(t *testing.T) {
	var out bytes.Buffer
	start := time.Now()
	p := shown(&out, start)
	p.follow(pipeline.Progress{Sample: 0, Report: reports.Report{Stage: reports.Factorization, Steps: 3000}})
	p.draw(start.Add(500 * time.Millisecond))
	if out.Len() > 0 {
		t.Errorf("%q is shown within the first second", out.String())
	}
	for _, after := range []time.Duration{5 * time.Second, 6 * time.Second} {
		out.Reset()
		p.draw(start.Add(after))
		if got := out.String(); !strings.Contains(got, "factorization of 3000 rows, for "+after.String()) ||
			!strings.Contains(got, "\r"+after.String()+"; ") {
			t.Errorf("after %v: %q", after, got)
		}
	}
	p.unit = "samples"
	p.Set(3, 12, 3)
	p.follow(pipeline.Progress{Sample: 4, Report: reports.Report{Stage: reports.Iterations, Step: 7, Measure: 1e-3,
		Goal: 1e-8}})
	p.follow(pipeline.Progress{Sample: 3, Done: 24, Total: 48,
		Report: reports.Report{Stage: reports.ConjugateGradients, Step: 9, Measure: 0.02, Goal: 0.001, Active: 24}})
	out.Reset()
	p.draw(start.Add(8 * time.Second))
	want := "[#####---------------] 3 of 12 samples in 8s; sample 3: 24 of 48 probes, conjugate gradients, step " +
		"9, residual 2.0e-02, goal 1.0e-03, 24 probes under way"
	if got := out.String(); !strings.Contains(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	out.Reset()
	beside{p, &out}.Write([]byte("a result\n"))
	if got := out.String(); !strings.HasSuffix(got, " \ra result\n") {
		t.Errorf("%q, expected the line to be cleared first", got)
	}
	p.width = func() int { return 40 }
	out.Reset()
	p.draw(start.Add(9 * time.Second))
	if got := out.String(); len(got) != 40 || !strings.HasSuffix(got, "...") {
		t.Errorf("%q has %d bytes on a terminal of 40 columns", got, len(got))
	}
}

// The time left is told where a measure falls geometrically, and only there.
func TestTimeLeftIsToldWhereItIsKnown(t *testing.T) {
	start := time.Now()
	run := func(measure func(s float64) float64) time.Duration {
		tk := &task{}
		now := start
		for s := 0.0; s < 20; s += 0.01 {
			now = start.Add(time.Duration(s * float64(time.Second)))
			tk.note(now, pipeline.Progress{Report: reports.Report{Stage: reports.Iterations, Step: int(100 * s),
				Measure: measure(s), Goal: 1e-8}})
		}
		left, _ := tk.left(now)
		return left
	}
	// exp(-s/2) is 1e-8 at s = 36.8.
	if left := run(func(s float64) float64 { return math.Exp(-s / 2) }); left < 16500*time.Millisecond ||
		left > 17200*time.Millisecond {
		t.Errorf("%v left, expected 16.8 s", left)
	}
	// A slow beginning does not matter.
	if left := run(func(s float64) float64 { return math.Exp(-math.Max(s-5, 0) / 2) }); left < 21*time.Second ||
		left > 23*time.Second {
		t.Errorf("%v left after a slow beginning, expected 21.8 s", left)
	}
	for name, measure := range map[string]func(float64) float64{
		"a plateau":     func(s float64) float64 { return 1e-3 },
		"growth":        func(s float64) float64 { return 1e-6 * math.Exp(s/10) },
		"oscillation":   func(s float64) float64 { return 1e-4 * math.Exp(-s/100+2*math.Sin(3*s)) },
		"no goal":       func(s float64) float64 { return math.Inf(1) },
		"the goal past": func(s float64) float64 { return math.Exp(-2 * s) },
	} {
		if left := run(measure); left != 0 {
			t.Errorf("%s: %v left, expected none to be told", name, left)
		}
	}
	tk := &task{}
	for i := range 50 {
		tk.note(start.Add(time.Duration(i)*100*time.Millisecond),
			pipeline.Progress{Report: reports.Report{Stage: reports.Reverse, Step: i, Steps: 100}})
	}
	if left, _ := tk.left(start.Add(5 * time.Second)); left < 4900*time.Millisecond || left > 5500*time.Millisecond {
		t.Errorf("%v left in a sweep, expected 5 s", left)
	}
}

// note keeps the time of day, so that a test may run at any speed: a report costs no allocation.
func TestReportsAllocateNothing(t *testing.T) {
	tk := &task{}
	now := time.Now()
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		i++
		now = now.Add(time.Second)
		tk.note(now, pipeline.Progress{Report: reports.Report{Stage: reports.Iterations, Step: i, Measure: 1,
			Goal: 1e-8}})
	}); n > 0 {
		t.Errorf("%g allocations a report", n)
	}
}

func TestTimesInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		12400 * time.Millisecond: "12s", 119 * time.Second: "1m59s", 200 * time.Second: "3m",
		65 * time.Minute: "1h5m", 5*time.Hour + 20*time.Minute: "5h",
	} {
		if got := InWords(d); got != want {
			t.Errorf("%v in words is %q, expected %q", d, got, want)
		}
	}
}
