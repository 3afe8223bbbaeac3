package study

import (
	"math"

	"surepipe/pipeline"
	"surepipe/risk"
)

// SweepChoice is the part of the summary that says how sure the choice is.
type SweepChoice struct {
	Rule pipeline.Rule `json:"rule"`
	// Chosen is the point that the rule chooses.
	Chosen SweepMinimum `json:"chosen"`
	// Difference and DifferenceStdErr are, for each point by its index, its criterion minus the
	// minimum and the standard error of that; null where they are not defined.
	Difference       []*float64 `json:"difference"`
	DifferenceStdErr []*float64 `json:"difference_stderr"`
	// Alike are the indices of the points that cannot be told from the minimizer.
	Alike []int `json:"alike"`
	// Optimism is by how much the minimum understates because it was looked for, absent where it
	// is not known.
	Optimism          *float64 `json:"optimism,omitempty"`
	OptimismStdErr    *float64 `json:"optimism_stderr,omitempty"`
	OptimismLeavesOut string   `json:"optimism_leaves_out,omitempty"`
}

// optimismLeavesOut goes with every optimism.
const optimismLeavesOut = "an estimate to first order, which was 0.9 to 1.5 times the true one in simulations " +
	"(LASSO, matrix completion, robust PCA, singular value thresholding); weights that were looked at outside " +
	"this sweep"

// SweepLine is the line of one point.
type SweepLine struct {
	Index int                 `json:"index"`
	Stage pipeline.SweepStage `json:"stage"`
	Result
	// Digest is what the summary and --resume compare points by.
	Digest *risk.Digest `json:"digest,omitempty"`
}

// SweepSummary is the last line of a sweep's JSON.
type SweepSummary struct {
	Summary      bool              `json:"summary"`
	Criterion    risk.Criterion    `json:"criterion"`
	Points       int               `json:"points"`
	NotConverged int               `json:"not_converged"`
	Minimizer    SweepMinimum      `json:"minimizer"`
	Edges        map[string]string `json:"edges,omitempty"`
	SweepChoice
	LeastLoss *SweepMinimum `json:"least_loss,omitempty"`
	Seconds   float64       `json:"seconds"`
	StorageResult
	// Audits compare the criterion with fits without some observations, at the chosen point.
	Audits []*pipeline.Audit `json:"audit,omitempty"`
	// Warnings are those printed on standard error, of all points together.
	Warnings []pipeline.Warning `json:"warnings,omitempty"`
}

// SweepMinimum is a point in the summary.
type SweepMinimum struct {
	Index int                 `json:"index"`
	Stage pipeline.SweepStage `json:"stage"`
	WeightsResult
	Intercept  *float64 `json:"intercept,omitempty"`
	SURE       *float64 `json:"sure,omitempty"`
	SUREStdErr *float64 `json:"sure_stderr,omitempty"`
	CriteriaResult
	Divergence float64  `json:"divergence"`
	Loss       *float64 `json:"loss,omitempty"`
	SignalLoss *float64 `json:"signal_loss,omitempty"` // of the chosen point alone
	Converged  bool     `json:"converged"`
	CoefficientsResult
}

// Trusted is the result of Trusted for the point's risk.
func (l SweepLine) Trusted() bool {
	return l.Solver.Converged && l.DerivativeConverged && !l.Doubted()
}

// Unsure says that the criterion competes by the sum of its value and its error there ([risk.Rule.Unsure]).
func (l SweepLine) Unsure(c risk.Criterion) bool {
	value, stdErr := l.Value(c)
	var loss *pipeline.LossTerms
	if l.LossValue != nil {
		loss = &pipeline.LossTerms{Value: *l.LossValue, Deviance: math.NaN()}
		if l.Deviance != nil {
			loss.Deviance = *l.Deviance
		}
	}
	return c.Rule().Unsure(value, stdErr, valueOr(l.LeveragesNearOne), loss.FromZero())
}

// Doubted says that --verify disagrees.
func (r Result) Doubted() bool { return r.Verification != nil && !r.Verification.Passed() }

// Minimum is the point in the summary.
func (l SweepLine) Minimum() SweepMinimum {
	return SweepMinimum{
		Index: l.Index, Stage: l.Stage, WeightsResult: l.WeightsResult,
		SURE: l.SURE, SUREStdErr: l.SUREStdErr, CriteriaResult: l.CriteriaResult, Divergence: l.Divergence,
		Loss: l.Loss, Converged: l.Trusted(),
	}
}

// Terms are the numbers from which the risk was computed.
func (l Result) Terms() risk.Terms {
	return risk.Terms{D: l.D, Sigma2: l.Sigma2, Residual: valueOr(l.Residual), Divergence: l.Divergence,
		Correlated: l.Correlated, Frobenius2: l.JacobianFro2}
}
