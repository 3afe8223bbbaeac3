package solve_test

import (
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// A solve works on the view of the device that its y is on: where that has failed the solve fails,
// and with it no other and not the device.
func TestFaultsBelongToTheRequest(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		free, bounded := dev.Available()
		if !bounded {
			t.Skip("memory has no bound")
		}
		rng := rand.New(rand.NewPCG(13, 14))
		const d = 20
		shape := array.Shape{Rows: 70, Cols: 66}
		sampled, err := linops.NewSelection(dev, shape.Len(), rng.Perm(shape.Len())[:d])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sampled.Release)
		values := solvetest.Gaussian(rng, d)
		for name, p := range map[string]solve.Problem{
			"fista": {A: roomtest.Dense(t, dev, d, 8, solvetest.Gaussian(rng, d*8)), R: prox.NewL1(1), Device: dev},
			"admm":  {A: roomtest.Dense(t, dev, d, 8, solvetest.Gaussian(rng, d*8)), R: prox.NewL1(1), Device: dev},
			"direct": {A: roomtest.Dense(t, dev, d, 8, solvetest.Gaussian(rng, d*8)), R: prox.NewSquaredL2(1),
				Device: dev},
			"ista": {A: roomtest.Dense(t, dev, d, 300, solvetest.Gaussian(rng, d*300)), R: prox.NewL1(8), Device: dev},
			"low":  {A: sampled, R: lowrank.NewNuclear(shape, 1), Device: dev},
		} {
			solver := name
			if name == "low" {
				solver = "fista"
			}
			s := roomtest.NewSolver(t, solver, p, solve.Options{MaxIter: 300})
			failed, sound := dev.Request(), dev.Request()
			y := failed.Alloc(1, d)
			failed.Upload(y, values)
			failed.Alloc(1, int(free)).Free()
			if failed.Err() == nil {
				t.Fatal("no fault")
			}
			if sol, err := s.Solve(t.Context(), y, solve.From{}); err == nil {
				sol.Release()
				t.Errorf("%s: no error on a view that has failed", name)
			}
			y.Free()
			roomtest.At(t, s, roomtest.On(t, sound, values))
			if sound.Err() != nil || dev.Err() != nil {
				t.Errorf("%s: faults %v of another view, %v of the device", name, sound.Err(), dev.Err())
			}
		}
	})
}
