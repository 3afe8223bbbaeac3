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
	"surepipe/problems"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/prox/lowrank"
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

// A third point of a chain does not begin while two are in flight, and of active sets, whose derivatives read what the
// path holds, no second one does. Results have the bits of one point at a time.
func TestTheNextPointIsSolvedBesideTheProbes(t *testing.T) {
	dev := array.NewHost()
	lasso := newCurve(t, dev)
	active := lasso
	active.Solver = "active-set"
	data := ratings(80, 70, 0.5, false)
	problem, _ := completionAt(t, dev, data, problems.OfMax(0.3))
	matrix := array.Shape{Rows: 80, Cols: 70}
	completion := curve{pipeline.Family{Problem: problem.Solve(), Solver: problem.DefaultSolver,
		Regularizer: func(w []float64) (prox.Prox, error) { return lowrank.NewNuclear(matrix, w[0]), nil },
	}, data.Y, data.Y, 20}
	for _, of := range []struct {
		name   string
		c      curve
		beside int
	}{{"lasso", lasso, 2}, {"active sets", active, 1}, {"completion", completion, 2}} {
		alone, beside := inFlight(t, of.c, 1, 1), inFlight(t, of.c, 4, of.beside)
		if !reflect.DeepEqual(beside, alone) {
			t.Errorf("%s: the points differ from those that are computed one after the other", of.name)
		}
	}
}

// inFlight is a sweep in which the probes of point 0 wait for point 1 where that is expected to be begun beside them.
func inFlight(t *testing.T, c curve, parallel, expected int) []pipeline.SweepPoint {
	t.Helper()
	var mu sync.Mutex
	flying, most, next := 0, 0, make(chan struct{})
	wait := sync.OnceFunc(func() {
		select {
		case <-next:
		case <-time.After(time.Minute):
			t.Error("point 1 waits for the probes of point 0")
		}
	})
	o := pipeline.SweepOptions{Mu: c.mu, Refine: -1, Options: pipeline.Options{Seed: 3, Parallel: parallel}}
	o.Estimator, o.Queries = "hutchinson", 24
	o.Observe = func(_ context.Context, e pipeline.Event) {
		mu.Lock()
		defer mu.Unlock()
		if flying++; e.Ended {
			flying -= 2
		} else if e.Sample == 1 && e.Stage == pipeline.GridStage {
			close(next)
		}
		most = max(most, flying)
	}
	o.Progress = func(p pipeline.Progress) {
		if p.Sample == 0 && p.Report.Stage == progress.Probes && expected > 1 {
			wait()
		}
	}
	points := collect(t, c, [][]float64{axis(0.05*c.max, 0.9*c.max, 6)}, o)
	if most != expected {
		t.Errorf("%d points were in flight with Parallel %d, expected %d", most, parallel, expected)
	}
	return points
}
