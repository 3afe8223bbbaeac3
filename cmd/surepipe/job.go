package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/verify"
	"surepipe/vjp"
)

// openDevice has gonum use a native BLAS, and opens the device that --device names. memory bounds
// the bytes that a card may hold; 0 stands for nearly all that is free. Once the context is done the
// device's operations end.
func openDevice(ctx context.Context, name string, memory int64) (array.Device, error) {
	if err := array.UseNative(); err != nil {
		return nil, usageError{err}
	}
	dev, err := array.Open(name, memory)
	var unknown *array.UnknownDevice
	switch {
	case err == nil:
		context.AfterFunc(ctx, func() { dev.Stop(context.Cause(ctx)) })
		return dev, nil
	case !errors.As(err, &unknown):
		return nil, usagef("--device is %q: %w", name, err)
	case (name == "cuda" || strings.HasPrefix(name, "cuda:")) && !slices.Contains(unknown.Kinds, "cuda"):
		return nil, usagef("--device is %q, but this build has no GPU support: expected auto or cpu, or a build "+
			"with a CUDA toolkit, go build -tags cuda ./cmd/surepipe (see go doc surepipe/cuda)", name)
	}
	return nil, usagef("--device is %q, expected auto or %s", name, strings.Join(unknown.Kinds, " or "))
}

// lost says that a device has failed.
func lost(cmd *cobra.Command) func(device string, fault error) {
	return func(device string, fault error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s has failed, and what it had in work is computed again "+
			"elsewhere: %v\n", device, fault)
	}
}

// open builds the estimator that the flags and the data describe. Multiples of lambda_max refer to
// y. Its work, including what is done once for all samples, is shown on bar.
func (f *estimatorFlags) open(cmd *cobra.Command, dev array.Device, data problems.Data,
	bar *progress) (_ *study.Estimator, err error) {
	if f.exec.given() {
		return f.openExec(cmd, dev, data, bar)
	}
	sigma2, hyper, err := f.prepare(cmd, dev, &data, bar)
	if err != nil {
		f.closeDevices(dev)
		return nil, err
	}
	o := study.Options{
		Problem: f.Problem, Data: data, Hyper: hyper, Devices: append([]array.Device{dev}, f.others...),
		Solver:   f.solver,
		Settings: func(on array.Device) (vjp.Options, error) { return f.solverOptions(on, sigma2) },
		Pipeline: f.pipelineOptions(cmd, data, sigma2), Variance: f.Estimate,
		Check: func(d int) error { return f.checkScale(data, sigma2, d) }, Lost: lost(cmd),
	}
	o.Pipeline.Progress = bar.follower()
	j, err := study.Open(bar.preparing(cmd.Context()), o)
	var failed *study.OpenError
	switch {
	case errors.As(err, &failed) && failed.Stage == study.MakingProblem:
		return nil, f.dataError(failed.Err)
	case errors.As(err, &failed) && failed.Stage == study.MakingSolver:
		return nil, usagef("--solver %s: %w", failed.Solver, failed.Err)
	case errors.As(err, &failed):
		return nil, planError(failed.Err)
	case err != nil:
		return nil, err
	}
	f.alo = f.alo || !j.Problem.Loss.Squared()
	return j, nil
}

// prepare settles the weights and sigma2, which it sets in the data: 0 stands for a variance that is not
// known.
func (f *estimatorFlags) prepare(
	cmd *cobra.Command, dev array.Device, data *problems.Data, bar *progress,
) (sigma2 float64, hyper problems.Hyper, err error) {
	f.forgetNoise(cmd, data)
	if f.Fits {
		if err := f.varianceOfFits(cmd, dev, data, bar); err != nil {
			return 0, hyper, err
		}
	}
	sigma2 = f.noise(*data)
	if (data.Sigma2 != nil || sigma2 != 0) && !(sigma2 > 0) || math.IsInf(sigma2, 0) {
		return 0, hyper, usagef("%s: sigma2 is %g, expected a positive number", f.Name(), sigma2)
	}
	if sigma2 > 0 {
		data.Sigma2 = &sigma2 // some regularizers depend on it
	}
	hyper, err = f.hyper()
	return sigma2, hyper, err
}

// pipelineOptions are those of a pipeline.
func (f *estimatorFlags) pipelineOptions(cmd *cobra.Command, data problems.Data, sigma2 float64) pipeline.Options {
	o := pipeline.Options{
		Sigma2: sigma2, Parallel: f.parallel, Batch: f.probeBatch, Logger: f.logger(cmd),
		KeepB: f.keep.b || f.Intercept || f.Effects.Some(), NoMuHat: f.keep.noMuHat && data.Mu == nil,
	}
	f.traceFlags.options(&o)
	if f.verify {
		o.Verify = &verify.Options{}
	}
	return o
}
