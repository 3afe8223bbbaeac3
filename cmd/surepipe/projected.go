package main

import (
	"errors"
	"fmt"
	"io"

	"surepipe/pipeline"
)

// projectedResult is the part of --image-risk, absent without it, and where the operator is too
// ill-conditioned.
type projectedResult struct {
	// ProjectedSURE estimates ||A^+ (mu_hat - mu)||^2, the risk of the image in what the operator sees.
	ProjectedSURE *float64 `json:"projected_sure,omitempty"`
	// ProjectedSUREProbeStdErr is the part of its standard error that the choice of probes causes.
	ProjectedSUREProbeStdErr *float64 `json:"projected_sure_probe_stderr,omitempty"`
	// ProjectedLoss is ||A^+ (mu_hat - mu)||^2 where mu is known.
	ProjectedLoss *float64 `json:"projected_loss,omitempty"`
}

// The codes of notes on the projected risk.
const (
	noteProjected = "projected-risk" // it favours small weights
	noteIllPosed  = "ill-posed"      // there is none
)

// checkImageRisk rejects problems without a projected risk.
func (r *runJob) checkImageRisk() error {
	switch p := r.problem.Solve(); {
	case !r.f.imageRisk:
		return nil
	case r.solver == nil || r.problem.Measurement == nil:
		return usagef("--image-risk needs an operator, which a command of --exec does not have")
	case p.Loss != nil || p.Intercept:
		return usagef("--image-risk is for the squared loss without weights of the observations and without an intercept")
	case r.sigma2 == 0:
		return usagef("--image-risk needs sigma2, the variance of the noise: give --sigma2")
	}
	return nil
}

// projected computes the projected risk, if asked for.
func (r *runJob) projected(to *result) error {
	if !r.f.imageRisk {
		return nil
	}
	p, err := pipeline.ProjectedSURE(r.cmd.Context(), r.solver, r.problem.Measurement, r.file.Y, r.file.Mu, r.sigma2, pipeline.ProjectedOptions{Seed: r.f.seed})
	note := func(code, text string) {
		r.f.note(r.cmd, code, "%s", text)
		to.Warnings = append(to.Warnings, pipeline.Warning{Code: code, Text: text})
	}
	if errors.Is(err, pipeline.ErrIllPosed) {
		note(noteIllPosed, fmt.Sprintf("--image-risk: %v", err))
		return nil
	}
	if err != nil {
		return err
	}
	to.projectedResult = projectedResult{&p.SURE, &p.ProbeStdErr, defined(p.Loss)}
	if p.Iterations > 0 {
		note(noteProjected, "projected SURE divides by the singular values of the operator: it favours small weights where some of them are small. To choose a weight prefer SURE, the predicted risk (Ramani et al. 2012)")
	}
	return nil
}

// writeLosses prints the true loss, where it is known, and the projected risk.
func (r *result) writeLosses(w io.Writer) {
	if r.Loss != nil {
		fmt.Fprintf(w, "true loss\t%.6g\t%.6g per coordinate\n", *r.Loss, *r.Loss/float64(r.D))
	}
	p := r.projectedResult
	if p.ProjectedSURE == nil {
		return
	}
	fmt.Fprintf(w, "image risk\t%.6g ± %.2g\tprojected SURE: the squared error of the image in what the operator sees; ± is that of the probes alone\n", *p.ProjectedSURE, *p.ProjectedSUREProbeStdErr)
	if p.ProjectedLoss != nil {
		fmt.Fprintf(w, "true loss\t%.6g\tof the image, in what the operator sees\n", *p.ProjectedLoss)
	}
}
