package study

import (
	"context"
	"errors"

	"surepipe/pipeline"
	"surepipe/risk/warning"
)

// CheckProjected rejects estimators without a projected risk.
func (j *Estimator) CheckProjected() error {
	switch p := j.Problem.Solve(); {
	case j.Solver == nil || j.Problem.Measurement == nil:
		return Errorf("--image-risk needs an operator, which a command of --exec does not have")
	case p.Loss != nil || p.Origin != nil:
		return Errorf("--image-risk is for the squared loss without weights of the observations and without an " +
			"intercept")
	case j.Sigma2 == 0:
		return Errorf("--image-risk needs sigma2, the variance of the noise: give --sigma2")
	}
	return nil
}

// Projected is the projected risk at y: see [pipeline.ProjectedSURE]. Where the operator is too ill-conditioned it is
// empty, and a note says so.
func (j *Estimator) Projected(ctx context.Context, y, mu []float64, seed uint64) (r ProjectedResult, n Notes,
	err error) {
	p, err := pipeline.ProjectedSURE(ctx, j.Solver, j.Problem.Measurement, y, mu, j.Sigma2,
		pipeline.ProjectedOptions{Seed: seed})
	if errors.Is(err, pipeline.ErrIllPosed) {
		n.Add(warning.IllPosed, "--image-risk: %w", err)
		return r, n, nil
	}
	if err != nil {
		return r, n, err
	}
	if p.Iterations > 0 {
		n.Add(warning.Projected, "projected SURE divides by the singular values of the operator: it favours "+
			"small weights where some of them are small. To choose a weight prefer SURE, the predicted risk "+
			"(Ramani et al. 2012)")
	}
	return ProjectedResult{ProjectedSURE: &p.SURE, ProjectedSUREProbeStdErr: &p.ProbeStdErr,
		ProjectedLoss: Defined(p.Loss)}, n, nil
}
