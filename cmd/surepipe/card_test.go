//go:build cuda

package main

import (
	"context"
	"reflect"
	"testing"

	"github.com/spf13/cobra"

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
	var f sweepFlags
	cmd := &cobra.Command{Use: "sweep"}
	cmd.SetContext(context.Background())
	f.register(cmd, 1)
	args := []string{"--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "0.1max:max:3",
		"--device", "cuda", "--memory", "8MiB", "--parallel", "4", "--sigma2", "3000"}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if err := f.checkSweep(cmd); err != nil {
		t.Fatal(err)
	}
	dev, err := f.openDevice(cmd)
	if err != nil {
		t.Fatal(err)
	}
	file, err := f.readData(cmd)
	if err != nil {
		t.Fatal(err)
	}
	job, err := f.open(cmd, dev, file.Data, &progress{})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	family, _ := f.sweep(cmd, job, file.Data)
	if bound := family.Settings.Memory; bound > memory/2/parallel || bound < memory/8/parallel {
		t.Errorf("a point's solver may use %d bytes of a card with %d, %d points in flight", bound, memory, parallel)
	}
	if !reflect.DeepEqual(family.Settings, job.Options) {
		t.Errorf("the sweep's solvers have the options %+v, the job's %+v", family.Settings, job.Options)
	}
}
