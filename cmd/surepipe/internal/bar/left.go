package bar

import (
	"math"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	reports "surepipe/progress"
)

// The time that is left is told only where what has been seen tells it:
//
//   - a stage with a known number of equal steps: at the rate of its steps so far;
//   - iterations and conjugate gradients, whose measure falls geometrically once they have settled:
//     by a line through the logarithms of measure/goal over the last half of the time, if these lie
//     on a line that does not bend. It is the time to the goal at that rate.
//
// Both are for the stage under way alone. How long later stages take, how many probes their spread
// will ask for, and how long smaller weights of a path take is not known in advance.

// trend are the last observations of a stage.
type trend struct {
	begun time.Time
	seen  [trendSize]point
	n     int // observations so far
	last  reports.Report
}

type point struct{ at, excess float64 } // seconds since begun, log(measure/goal)

const (
	trendSize = 64
	// Observations are at least trendStep apart; when there are trendSize, every other one is
	// dropped, and the distance doubles.
	trendStep = 0.05
	// leastPoints observations over leastSpan seconds on a line with at least leastFit as the square
	// of the correlation, and slopes of its two halves that differ by less than the factor steady,
	// give an estimate, which reaches no farther than farthest times the span.
	leastPoints = 8
	leastSpan   = 2.0
	leastFit    = 0.8
	steady      = 1.5
	farthest    = 20
)

func (t *trend) add(now time.Time, r reports.Report) {
	if t.begun.IsZero() {
		t.begun = now
	}
	t.last = r
	if !(r.Goal > 0) || !(r.Measure > 0) || math.IsInf(r.Measure, 1) {
		return
	}
	at := now.Sub(t.begun).Seconds()
	if t.n > 0 && at-t.seen[t.n-1].at < trendStep {
		return
	}
	if t.n == trendSize {
		t.n = 0
		for i := 1; i < trendSize; i += 2 {
			t.seen[t.n] = t.seen[i]
			t.n++
		}
	}
	t.seen[t.n] = point{at, math.Log(r.Measure / r.Goal)}
	t.n++
}

// left is the time until the end of the stage, and where that is; 0 where it is not known.
func (t *task) left(now time.Time) (time.Duration, string) {
	r := t.trend.last
	switch r.Stage {
	case reports.Reverse:
		return share(now.Sub(t.stage), float64(r.Step)/float64(max(r.Steps, 1))), "in this sweep"
	case reports.Gram:
		// A column is multiplied with all columns before it.
		s := float64(r.Step) / float64(max(r.Steps, 1))
		return share(now.Sub(t.stage), s*s), "of it"
	case reports.Iterations:
		return t.trend.left(now), "in the solve at this rate"
	case reports.ConjugateGradients:
		return t.trend.left(now), "in this batch of probes at this rate"
	}
	return 0, ""
}

// share is the time left when a share of the work has taken so long; 0 before a twentieth is done.
func share(took time.Duration, done float64) time.Duration {
	if done < 0.05 || took < time.Second {
		return 0
	}
	return time.Duration(float64(took) * (1 - done) / done)
}

// left is the time until the measure reaches the goal; 0 where that is not known.
func (t *trend) left(now time.Time) time.Duration {
	if t.n == 0 {
		return 0
	}
	seen := t.seen[:t.n]
	end := seen[t.n-1].at
	for len(seen) > 0 && seen[0].at < end/2 {
		seen = seen[1:]
	}
	span := end - seen[0].at
	if len(seen) < leastPoints || span < leastSpan {
		return 0
	}
	slope, ends, fit := line(seen)
	early, _, _ := line(seen[:len(seen)/2])
	late, _, _ := line(seen[len(seen)/2:])
	if !(slope < 0) || fit < leastFit || !(late < early/steady) || !(late > early*steady) {
		return 0
	}
	left := ends - now.Sub(t.begun).Seconds()
	if !(left > 0) || left > farthest*span {
		return 0
	}
	return time.Duration(left * float64(time.Second))
}

// line is the least squares line through the points: its slope, where it is 0, and the square of
// the correlation.
func line(points []point) (slope, zero, fit float64) {
	x, y := make([]float64, len(points)), make([]float64, len(points))
	for i, p := range points {
		x[i], y[i] = p.at, p.excess
	}
	origin, slope := stat.LinearRegression(x, y, nil, false)
	r := stat.Correlation(x, y, nil)
	return slope, -origin / slope, r * r
}

// InWords rounds a time to what a reader needs.
func InWords(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return d.Round(time.Second).String()
	case d < 2*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return strings.TrimSuffix(d.Round(time.Hour).String(), "0m0s")
}
