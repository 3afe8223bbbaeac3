package array_test

import (
	"math/rand/v2"
	"testing"

	"surepipe/array"
)

// Rays that follow each other along every line are one run, those of two angles are two, and a ray
// that misses the image ends none.
func TestRayRunsAreThoseOfAnglesAndKeepTheOrderInEveryLine(t *testing.T) {
	s := array.Shape{Rows: 20, Cols: 30}
	var rays []array.Ray
	for a := range 5 {
		for i := range 40 {
			r := array.Ray{At: float64(i) - 4, Slope: 0.1 * float64(a), To: 20, Level: a == 3}
			if a == 2 {
				r.At = 30 - r.At
			}
			if !(r.At >= 0 && r.Place(19) < 31 && r.Place(19) >= 0) || r.Level && !(r.At < 21 && r.Place(19) < 21) {
				r.To = 0
			}
			rays = append(rays, r)
		}
	}
	given := append([]array.Ray(nil), rays...)
	if runs := array.RayRuns(s, rays); len(runs) != 5 || !runs[2].Falling || runs[1].Falling || !runs[3].Level {
		t.Errorf("5 angles are the runs %+v", runs)
	}
	for i, r := range rays {
		if g := given[i]; g.To > 0 && g != r {
			t.Errorf("ray %d was %+v and is %+v", i, g, r)
		}
	}
	// Of rays without an order each run has one.
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range rays {
		rays[i] = array.Ray{At: 30 * rng.Float64(), Slope: rng.NormFloat64() / 20, To: 1, Level: rng.IntN(9) == 0}
	}
	next := 0
	for _, run := range array.RayRuns(s, rays) {
		if run.First != next || run.Last <= run.First {
			t.Fatalf("run %+v does not begin at ray %d", run, next)
		}
		next = run.Last
		for line := range 20 {
			for i := run.First; i+1 < run.Last; i++ {
				step := rays[i+1].Place(line) - rays[i].Place(line)
				if run.Falling {
					step = -step
				}
				if step < -array.PlaceMargin/2 || rays[i].Level != run.Level {
					t.Fatalf("run %+v: from ray %d to the next the place in line %d moves by %v", run, i, line, step)
				}
			}
		}
	}
	if next != len(rays) {
		t.Errorf("the runs end at %d of %d", next, len(rays))
	}
}
