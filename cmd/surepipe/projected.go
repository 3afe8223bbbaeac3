package main

import (
	"errors"
	"fmt"
	"io"

	"surepipe/pipeline"
	"surepipe/study"
)

// checkImageRisk rejects problems without a projected risk.
func (r *runJob) checkImageRisk() error {
	switch p := r.Problem.Solve(); {
	case !r.f.imageRisk:
		return nil
	case r.Solver == nil || r.Problem.Measurement == nil:
		return usagef("--image-risk needs an operator, which a command of --exec does not have")
	case p.Loss != nil || p.Origin != nil:
		return usagef("--image-risk is for the squared loss without weights of the observations and without an " +
			"intercept")
	case r.Sigma2 == 0:
		return usagef("--image-risk needs sigma2, the variance of the noise: give --sigma2")
	}
	return nil
}

// projected computes the projected risk, if asked for.
func (r *runJob) projected(to *study.Result) error {
	if !r.f.imageRisk {
		return nil
	}
	p, err := pipeline.ProjectedSURE(r.cmd.Context(), r.Solver, r.Problem.Measurement, r.file.Y, r.file.Mu,
		r.Sigma2, pipeline.ProjectedOptions{Seed: r.f.seed})
	note := func(code, text string) {
		r.f.note(r.cmd, code, "%s", text)
		to.Warnings = append(to.Warnings, pipeline.Warning{Code: code, Text: text})
	}
	if errors.Is(err, pipeline.ErrIllPosed) {
		note(study.NoteIllPosed, fmt.Sprintf("--image-risk: %v", err))
		return nil
	}
	if err != nil {
		return err
	}
	to.ProjectedResult = study.ProjectedResult{
		ProjectedSURE: &p.SURE, ProjectedSUREProbeStdErr: &p.ProbeStdErr, ProjectedLoss: study.Defined(p.Loss),
	}
	if p.Iterations > 0 {
		note(study.NoteProjected, "projected SURE divides by the singular values of the operator: it favours "+
			"small weights where some of them are small. To choose a weight prefer SURE, the predicted risk "+
			"(Ramani et al. 2012)")
	}
	return nil
}

// writeLosses prints the true loss, where it is known, and the projected risk.
func writeLosses(r *study.Result, w io.Writer) {
	if r.Loss != nil {
		fmt.Fprintf(w, "true loss\t%.6g\t%.6g per coordinate\n", *r.Loss, *r.Loss/float64(r.D))
	}
	p := r.ProjectedResult
	if p.ProjectedSURE == nil {
		return
	}
	fmt.Fprintf(w, "image risk\t%.6g ± %.2g\tprojected SURE: the squared error of the image in what the operator "+
		"sees; ± is that of the probes alone\n", *p.ProjectedSURE, *p.ProjectedSUREProbeStdErr)
	if p.ProjectedLoss != nil {
		fmt.Fprintf(w, "true loss\t%.6g\tof the image, in what the operator sees\n", *p.ProjectedLoss)
	}
}
