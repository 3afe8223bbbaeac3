//go:build cuda

package main

import (
	"context"
	"reflect"
	"testing"

	"surepipe/array"
	"surepipe/cuda/emulator"
)

// Solvers on a card may use half of what is free there, shared by the samples or points in flight:
// those of a sweep too.
func TestSweepOnACardIsBounded(t *testing.T) {
	if cards, err := array.Cards(); err != nil || len(cards) == 0 {
		t.Skip("no card")
	}
	if !emulator.Present() {
		t.Skip("the bound is that of an emulated card")
	}
	emulator.Reset()
	const memory, parallel = 8 << 20, 4
	f := new(sweepCommand)
	cmd := f.command()
	cmd.SetContext(context.Background())
	args := []string{"--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "0.1max:max:3",
		"--device", "cuda", "--memory", "8MiB", "--parallel", "4", "--sigma2", "3000"}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	job := f.sweep.Estimator
	family := job.Family(f.sweep.Axes)
	if bound := family.Settings.Memory; bound > memory/2/parallel || bound < memory/8/parallel {
		t.Errorf("a point's solver may use %d bytes of a card with %d, %d points in flight", bound, memory, parallel)
	}
	if !reflect.DeepEqual(family.Settings, job.Options) {
		t.Errorf("the sweep's solvers have the options %+v, the job's %+v", family.Settings, job.Options)
	}
}
