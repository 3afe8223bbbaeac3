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
		return nil, usagef("--device is %q, but this build has no GPU support: expected auto or cpu, or a build with a CUDA toolkit, go build -tags cuda ./cmd/surepipe (see go doc surepipe/cuda)", name)
	}
	return nil, usagef("--device is %q, expected auto or %s", name, strings.Join(unknown.Kinds, " or "))
}

// lost says that a device has failed.
func lost(cmd *cobra.Command) func(device string, fault error) {
	return func(device string, fault error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s has failed, and what it had in work is computed again elsewhere: %v\n", device, fault)
	}
}

// open builds the estimator that the flags and the data describe. Multiples of lambda_max refer to
// y. Its work, including what is done once for all samples, is shown on bar.
func (f *estimatorFlags) open(cmd *cobra.Command, dev array.Device, data problems.Data, bar *progress) (_ *study.Estimator, err error) {
	if f.exec.given() {
		return f.openExec(cmd, dev, data, bar)
	}
	ctx := bar.preparing(cmd.Context())
	j := &study.Estimator{Instance: study.Instance{On: dev}}
	for _, other := range f.others {
		j.Others = append(j.Others, study.Instance{On: other})
	}
	defer func() {
		if err != nil {
			j.Close()
		}
	}()
	f.forgetNoise(cmd, &data)
	if f.Fits {
		if err := f.varianceOfFits(cmd, dev, &data, bar); err != nil {
			return nil, err
		}
	}
	if j.Sigma2 = f.noise(data); (data.Sigma2 != nil || j.Sigma2 != 0) && !(j.Sigma2 > 0) || math.IsInf(j.Sigma2, 0) {
		return nil, usagef("%s: sigma2 is %g, expected a positive number", f.Name(), j.Sigma2)
	}
	if j.Sigma2 > 0 {
		data.Sigma2 = &j.Sigma2 // some regularizers depend on it
	}
	var members []*pipeline.Pipeline
	for i := range 1 + len(j.Others) {
		on := &j.Instance
		if i > 0 {
			on = &j.Others[i-1]
		}
		if err := f.build(ctx, on, data, j.Sigma2); err != nil {
			return nil, err
		}
		o := f.pipelineOptions(cmd, data, j.Sigma2)
		if i == 0 || f.parallel > 1 {
			o.Progress = bar.follower()
		}
		member, err := pipeline.New(on.Solver, o)
		if err != nil {
			return nil, planError(err)
		}
		members = append(members, member)
	}
	j.Variance = f.Estimate
	j.Pipeline, err = pipeline.NewPool(lost(cmd), members...)
	return j, err
}

// build makes the problem and its solver on the instance's device.
func (f *estimatorFlags) build(ctx context.Context, on *study.Instance, data problems.Data, sigma2 float64) error {
	hyper, err := f.hyper()
	if err != nil {
		return err
	}
	if on.Problem, err = problems.New(f.Problem, on.On, data, hyper); err != nil {
		if fault := on.On.Err(); fault != nil {
			return fault
		}
		return f.dataError(err)
	}
	f.alo = f.alo || !on.Problem.Loss.Squared()
	if err := f.checkScale(data, sigma2, on.Problem.D); err != nil {
		return err
	}
	name := f.solver
	if name == "auto" {
		name = on.Problem.DefaultSolver
	}
	if on.Options, err = f.solverOptions(on.On, sigma2); err != nil {
		return err
	}
	if on.Solver, err = vjp.NewSolver(ctx, name, on.Problem.Solve(), on.Options); err != nil {
		if ctx.Err() != nil {
			return err
		}
		if fault := on.On.Err(); fault != nil {
			return fault
		}
		return usagef("--solver %s: %w", name, err)
	}
	return nil
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
