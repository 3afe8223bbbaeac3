package pipeline

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/risk/folds"
)

// Folds of an image are fits to the other pixels: ADMM on these alone finds the same minimum, from weight to weight.
// (What is left out is not unique where its neighbours differ.)
func TestFoldsOfAnImageAreFitsToTheOtherPixels(t *testing.T) {
	const m, n = 14, 11
	rng := rand.New(rand.NewPCG(2, 5))
	y := make([]float64, m*n)
	for i := range y {
		y[i] = 50 + 8*float64(i%n/5) + rng.NormFloat64()
	}
	q, err := problems.New("tv2d", array.NewHost(), problems.Data{Y: y, YShape: []int{m, n}},
		problems.Hyper{Lambda: problems.Absolute(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Release()
	f := Family{Problem: q.Solve(), Solver: q.DefaultSolver,
		Regularizer: func(w []float64) (prox.Prox, error) { return q.Reweighted(w[0], 0, 0) }}
	splits := folds.Folds{K: 4}.Splits(len(y), 0)[:2]
	objective := func(s folds.Split, b []float64, w float64) (sum float64) {
		for i := range b {
			right, down := 0.0, 0.0
			if i%n < n-1 {
				right = b[i+1] - b[i]
			}
			if i+n < len(b) {
				down = b[i+n] - b[i]
			}
			sum += w * float64(len(s.Keep)) / float64(len(y)) * math.Hypot(right, down)
		}
		for _, i := range s.Keep {
			sum += (b[i] - y[i]) * (b[i] - y[i]) / 2
		}
		return sum
	}
	minima := func(solver string) (all []float64) {
		s, err := newSweep(y, f, [][]float64{{0.5, 1, 4}}, SweepOptions{Criterion: "cv", Chain: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		release, err := s.openAll(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		err = s.instances[0].without(t.Context(), splits, 1, func(ctx context.Context, k int, r *refit) error {
			if r.fills != true {
				t.Error("the solver serves the kept pixels")
			}
			if solver != "" {
				r.fills, r.on.f.Solver, r.on.f.Settings.Tol = false, solver, 1e-6
			}
			var from start
			for i := range s.total {
				_, b, err := r.at(ctx, s.weights(i), from)
				if err != nil {
					return err
				}
				all = append(all, objective(splits[k], b.list(), s.weights(i)[0]))
				from.held = b
			}
			if r.failed > 0 {
				t.Errorf("%q: %d fits have not converged", solver, r.failed)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := minima("admm")
	for i, got := range minima("") {
		if !(math.Abs(got-want[i]) <= 1e-3*want[i]) {
			t.Errorf("fit %d: %g, expected %g", i, got, want[i])
		}
	}
}

// An audit of a large image leaves out a part of its patches, one of a small one all.
func TestAuditsOfManyValuesLeaveOutAPart(t *testing.T) {
	for side, fits := range map[int]int{64: runFolds, 90: runFolds, 128: 3, 512: 1} {
		d, wide := side*side, side/patchSide
		f := folds.Folds{K: runFolds, Groups: folds.Patches([]int{side, side}, patchSide)}
		splits := everyFifth(f, d, wide)
		out := 0
		for _, s := range splits {
			out += len(s.Out)
		}
		if len(splits) != fits || out < min(d, mostPatched) {
			t.Errorf("%d x %d: %d fits without %d values, expected %d", side, side, len(splits), out, fits)
		}
	}
}
