package pipeline_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/progress"
)

// part computes a part of a sweep, times aside.
func part(t *testing.T, c curve, grid [][]float64, o pipeline.SweepOptions, first,
	end int) (points []pipeline.SweepPoint) {
	t.Helper()
	o.Sigma2 = 1
	for p, err := range pipeline.SweepPart(context.Background(), c.y, c.Family, grid, o, first, end) {
		if err != nil {
			t.Fatal(err)
		}
		p.Solve, p.Divergence, p.Total = 0, 0, 0
		points = append(points, p)
	}
	return points
}

// The points of any parts have the bits of the whole sweep's, also where a part begins within a
// chain or after known points, and the whole sweep goes on after them.
func TestPartsOfASweepAreTheSweep(t *testing.T) {
	c := newCurve(t, array.NewHost())
	grid := [][]float64{axis(0.02*c.max, 2*c.max, 7), axis(0.1, 10, 3)}
	o := pipeline.SweepOptions{Mu: c.mu, Chain: 4, Refine: 3, Options: pipeline.Options{Seed: 3, Queries: 24,
		Estimator: "hutchinson"}}
	whole := collect(t, c, grid, o)
	bounds := pipeline.Chains([]int{7, 3}, 4)
	if want := []int{0, 3, 7, 10, 14, 17, 21}; !slices.Equal(bounds, want) {
		t.Fatalf("chains %v, expected %v", bounds, want)
	}
	var points []pipeline.SweepPoint
	for _, p := range [][2]int{{0, 0}, {0, 7}, {7, 12}, {12, 12}, {12, 21}} {
		points = append(points, part(t, c, grid, o, p[0], p[1])...)
	}
	if !reflect.DeepEqual(points, whole[:21]) {
		t.Fatal("the parts differ from the sweep")
	}
	within := o
	within.Known = known(points[7:9])
	if again := part(t, c, grid, within, 7, 12); !reflect.DeepEqual(again, points[9:12]) {
		t.Error("a part that goes on differs")
	}
	merged := o
	merged.Known = known(points)
	if rest := collect(t, c, grid, merged); !reflect.DeepEqual(rest, whole[21:]) {
		t.Error("the sweep after its parts differs")
	}
	// Without refinement no solve is needed.
	merged.Refine, merged.Sigma2, merged.Criterion = -1, 1, "sure"
	last := collect(t, c, grid, merged)[0]
	choice, edge, err := pipeline.Choose(grid, merged)
	if err != nil || !reflect.DeepEqual(choice, last.Choice) || !slices.Equal(edge, last.Edge) {
		t.Errorf("choice %+v, edge %v, %v, expected %+v, %v", choice, edge, err, last.Choice, last.Edge)
	}
}

func TestBadPartsOfASweep(t *testing.T) {
	c := newCurve(t, array.NewHost())
	grid := [][]float64{axis(0.1, 1, 3)}
	o := pipeline.SweepOptions{Options: pipeline.Options{Sigma2: 1}}
	for _, p := range [][2]int{{-1, 2}, {2, 1}, {0, 4}} {
		for _, err := range pipeline.SweepPart(context.Background(), c.y, c.Family, grid, o, p[0], p[1]) {
			if err == nil || !strings.Contains(err.Error(), "of a grid of 3") {
				t.Errorf("%v: %v", p, err)
			}
		}
	}
	o.Known = make([]pipeline.SweepValue, 2)
	o.Known[0].Weights, o.Known[1].Weights = []float64{1}, []float64{0.1}
	for _, err := range pipeline.SweepPart(context.Background(), c.y, c.Family, grid, o, 0, 1) {
		if err == nil || !strings.Contains(err.Error(), "2 known points of a part of 1") {
			t.Error(err)
		}
	}
	if _, _, err := pipeline.Choose(grid, o); err == nil || !strings.Contains(err.Error(), "criterion") {
		t.Error(err)
	}
	o.Criterion = "sure"
	if _, _, err := pipeline.Choose(grid, o); err == nil ||
		!strings.Contains(err.Error(), "2 known points of a grid of 3") {
		t.Error(err)
	}
}

// Where two points may be in flight the next one of a chain begins before the probes of a point end, no third one does,
// and the results have the bits of one at a time.
func TestTheNextPointIsSolvedBesideTheProbes(t *testing.T) {
	c := newCurve(t, array.NewHost())
	grid := [][]float64{axis(0.02*c.max, 2*c.max, 6), {1}}
	run := func(parallel int, progress func(pipeline.Progress), begun func(i int)) (points []pipeline.SweepPoint) {
		var mu sync.Mutex
		flying, most := 0, 0
		o := pipeline.SweepOptions{Mu: c.mu, Refine: -1, Options: pipeline.Options{Seed: 3, Queries: 24,
			Parallel: parallel, Estimator: "hutchinson", Progress: progress, Observe: func(_ context.Context, e pipeline.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Ended {
					flying--
					return
				}
				flying++
				most = max(most, flying)
				begun(e.Sample)
			}}}
		points = collect(t, c, grid, o)
		if want := min(parallel, 2); most != want {
			t.Errorf("%d points were in flight with Parallel %d, expected %d", most, parallel, want)
		}
		return points
	}
	alone := run(1, nil, func(int) {})
	next := make(chan struct{})
	wait := sync.OnceFunc(func() {
		select {
		case <-next:
		case <-time.After(time.Minute):
			t.Error("point 3 waits for the probes of point 2")
		}
	})
	beside := run(4, func(p pipeline.Progress) {
		if p.Sample == 2 && p.Report.Stage == progress.Probes {
			wait()
		}
	}, func(i int) {
		if i == 3 {
			close(next)
		}
	})
	if !reflect.DeepEqual(beside, alone) {
		t.Error("the points differ from those that are computed one after the other")
	}
}
