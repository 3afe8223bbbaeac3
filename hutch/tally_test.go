package hutch

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
)

func TestTallyDoesNotDependOnOrderGroupingOrConcurrency(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, rank = 300, 29
		rng := rand.New(rand.NewPCG(4, 1))
		p := plan(t, HutchPP, 102, d)
		v, mv := upload(dev, 34, d, gaussian(rng, 34*d)), upload(dev, 34, d, gaussian(rng, 34*d))
		whole := newTally(p, rank, 7)
		whole.AddProjected(0, v.Rows(0, rank), mv.Rows(0, rank), nil)
		whole.AddResidual(0, v, mv, nil, nil)
		want, err := whole.Estimate()
		if err != nil {
			t.Fatal(err)
		}
		if want.Queries != 34+29+34 || want.Seed != 7 || want.Estimator != HutchPP {
			t.Errorf("estimate %+v", want)
		}
		for range 5 {
			pieces := newTally(p, rank, 7)
			var wg sync.WaitGroup
			for _, first := range rng.Perm(17) {
				wg.Go(func() {
					i, j := 2*first, 2*first+2
					pieces.AddResidual(i, v.Rows(i, j), mv.Rows(i, j), nil, nil)
					if j = min(j, rank); i < j {
						pieces.AddProjected(i, v.Rows(i, j), mv.Rows(i, j), nil)
					}
				})
			}
			wg.Wait()
			if got, err := pieces.Estimate(); err != nil || got != want {
				t.Errorf("in pieces %+v, %v; at once %+v", got, err, want)
			}
		}
	})
}

// A tally that grew gives the same as one planned with that size from the start, except for the
// standard error, which is based on the spread of the first probes.
func TestGrownTallyIsTheTallyOfALargerPlan(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 300
		rng := rand.New(rand.NewPCG(6, 1))
		v, mv := upload(dev, 34, d, gaussian(rng, 34*d)), upload(dev, 34, d, gaussian(rng, 34*d))
		planned := newTally(plan(t, Hutchinson, 34, d), 0, 7)
		planned.AddResidual(0, v, mv, nil, nil)
		want, err := planned.Estimate()
		if err != nil {
			t.Fatal(err)
		}
		grown := newTally(plan(t, Hutchinson, 10, d), 0, 7)
		grown.AddResidual(0, v.Rows(0, 10), mv.Rows(0, 10), nil, nil)
		first, err := grown.Estimate()
		if err != nil {
			t.Fatal(err)
		}
		grown.Grow(24)
		if _, err := grown.Estimate(); err == nil ||
			!strings.Contains(err.Error(), "residual vector 10 of 34 is missing") {
			t.Errorf("error %v", err)
		}
		grown.AddResidual(10, v.Rows(10, 34), mv.Rows(10, 34), nil, nil)
		want.StdErr = first.StdErr * math.Sqrt(10./34)
		if got, err := grown.Estimate(); err != nil || math.Abs(got.StdErr-want.StdErr) > 1e-14*want.StdErr {
			t.Errorf("standard error %v, expected %v", got.StdErr, want.StdErr)
		} else if want.StdErr = got.StdErr; got != want {
			t.Errorf("grown %+v, %v; planned %+v", got, err, want)
		}
	})
}

func TestTallyReportsWhatIsMissingOrNotFinite(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 200
		p := plan(t, HutchPP, 6, d)
		v := upload(dev, 2, d, gaussian(rand.New(rand.NewPCG(5, 1)), 2*d))

		tally := newTally(p, 2, 0)
		tally.AddProjected(0, v, v, nil)
		tally.AddResidual(1, v.Rows(1, 2), v.Rows(1, 2), nil, nil)
		if _, err := tally.Estimate(); err == nil ||
			!strings.Contains(err.Error(), "residual vector 0 of 2 is missing") {
			t.Errorf("error %v", err)
		}

		bad := dev.Alloc(1, d)
		dev.Fill(bad, math.NaN())
		tally.AddResidual(0, v.Rows(0, 1), bad, nil, nil)
		if _, err := tally.Estimate(); err == nil ||
			!strings.Contains(err.Error(), "residual vector 0: <v, M v> = NaN") {
			t.Errorf("error %v", err)
		}

		for name, misuse := range map[string]func(){
			"twice":        func() { tally.AddProjected(1, v.Rows(1, 2), v.Rows(1, 2), nil) },
			"beyond":       func() { tally.AddResidual(1, v, v, nil, nil) },
			"negative":     func() { tally.AddResidual(-1, v, v, nil, nil) },
			"rank too big": func() { newTally(p, 3, 0) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				misuse()
			}()
		}
	})
}
