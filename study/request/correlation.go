package request

import (
	"surepipe/internal/noise"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
)

// mostRelStdErr is the largest relative error of sigma2, and mostRho the largest correlation, two errors up, without a
// warning.
const mostRelStdErr, mostRho = 0.2, 0.93

func (r *Request) correlate(data *problems.Data) error {
	switch {
	case r.Correlation != noise.MethodAR1:
		return study.Errorf("--noise is %q, expected %s", r.Correlation, noise.MethodAR1)
	case r.Program.Given() || len(data.YShape) > 1 || data.X != nil || len(data.Shape) > 1:
		return study.Errorf("--noise %s is for a sequence y that a problem smooths, such as whittaker, trend1d or tv1d",
			r.Correlation)
	case !r.LossOf().Squared():
		return study.Errorf("--noise is that of the squared loss, found --loss %s", r.LossOf().Name)
	}
	e, err := noise.AR1(data.Y, 2)
	if err != nil {
		return study.Bad(err)
	}
	if slow := e.RelStdErr > mostRelStdErr || e.Rho+2*e.RhoStdErr > mostRho; slow {
		r.note(study.NewNote(warning.SlowNoise, "the noise is so slow, with a correlation of %.2f ± %.2g of "+
			"neighbours and a variance known to %.0f%%, that it cannot be told well from a trend", e.Rho, e.RhoStdErr,
			100*e.RelStdErr))
	}
	r.noise = pipeline.Autoregression{Rho: e.Rho, RhoStdErr: e.RhoStdErr}
	if r.Sigma2 == 0 {
		r.Estimate, data.Sigma2 = &e.Estimate, &e.Sigma2
	}
	return nil
}

// checkSequence rejects a problem that does not observe its sequence itself.
func (r *Request) checkSequence(j *study.Estimator) error {
	if r.Correlation == "" || linops.StructureOf(j.Problem.Solve().A).Identity {
		return nil
	}
	return study.Errorf("--noise %s is for a sequence without gaps that is observed itself, and the operator of %s "+
		"is not the identity", r.Correlation, j.Problem.Name)
}
