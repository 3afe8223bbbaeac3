package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/solve"
	"surepipe/study"
)

// chainOf is the number of points in a chain of warm starts, 0 for a whole row.
func (f *sweepFlags) chainOf(solver string) int {
	if e, _ := solve.Lookup(solver); e.Path && f.chain == 0 {
		return 0
	}
	return cmp.Or(f.chain, pipeline.DefaultChain)
}

// header returns the first line of the sweep's JSON.
func (f *sweepFlags) header(j *study.Estimator, data problems.Data) study.SweepHeader {
	h := study.SweepHeader{
		Sweep: true, Criterion: f.criterion, ALO: f.alo, TargetsResult: study.TargetsOf(j.Problem, j.Sigma2),
		Problem: j.Problem.Name, LossName: study.AboutLoss(j.Problem).LossName,
		LossParameter: j.Problem.Loss.Parameter, Intercept: f.Intercept, Standardize: f.Table.Standardize,
		Effects: f.Effects.Names(), Sigma2: j.Sigma2, ExecResult: j.ExecResult(), Solver: j.Name(),
		Derivative: f.derivative,
		Trace:      f.trace, Queries: f.queries.String(), Seed: f.seed, Tol: f.tol, MaxIter: f.maxIter,
		Chain: f.chainOf(j.Name()), Refine: f.refine, Verify: f.verify,
		Data: study.DataHash(data), Device: j.Device(), BLAS: fmt.Sprint(array.BLASInfo()), Version: study.Version(),
	}
	if f.queries.auto {
		h.TraceError = f.traceError
	}
	if f.Estimate != nil {
		h.Sigma2Method, h.Sigma2RelStdErr = f.Estimate.Method, f.Estimate.RelStdErr
	}
	if j.BlackBox != nil {
		h.Derivative = f.exec.divergence
	}
	fixed := study.WeightsOf(j.Problem)
	for _, axis := range f.axes {
		h.Grid = append(h.Grid, study.SweepGrid{
			Weight: axis.Name, From: axis.Values[0], To: axis.Values[len(axis.Values)-1], Points: len(axis.Values),
		})
		fixed[axis.Name] = math.NaN()
	}
	h.Lambda, h.Lambda2, h.Gamma = study.Weight(fixed["lambda"]), study.Weight(fixed["lambda2"]),
		study.Weight(fixed["gamma"])
	return h
}

// openSweepLog opens the --jsonl file, and returns the points that it holds: see [study.OpenSweep].
func openSweepLog(path string, resume bool, header study.SweepHeader) (*study.Log, []study.SweepLine, error) {
	log, known, err := study.OpenSweep(path, resume, header)
	var fault *study.LogError
	if !errors.As(err, &fault) {
		return log, known, err
	}
	switch fault.Fault {
	case study.CannotOpen:
		err = usagef("--jsonl: open %s: %w", path, fault.Err)
	case study.HasLines:
		err = usagef("--jsonl is %q, which exists: continue it with --resume, or remove it", path)
	case study.NotRegular:
		err = usagef("--jsonl is %q, expected a regular file", path)
	case study.Locked:
		err = usagef("--jsonl is %q: %w", path, fault.Err)
	case study.OtherLines:
		err = usagef("--resume: %s: %w", path, fault.Err)
	}
	return nil, nil, err
}
