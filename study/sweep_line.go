package study

import (
	"context"
	"slices"
	"sync"

	"math"

	"surepipe/pipeline"
	"surepipe/problems"
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
	// AlikeRanges are their weights as ranges, within which all points are alike; absent for two weights.
	AlikeRanges [][2]Number `json:"alike_ranges,omitempty"`
	// Optimism is by how much the minimum understates because it was looked for, absent where it
	// is not known.
	Optimism          *float64 `json:"optimism,omitempty"`
	OptimismStdErr    *float64 `json:"optimism_stderr,omitempty"`
	OptimismLeavesOut string   `json:"optimism_leaves_out,omitempty"`
	// Regret is how much more than at the best weight the squared error at the minimizer is likely to be, over that,
	// and RegretBeyond the probability that it is more than a tenth: of noise with a memory, where they are known.
	Regret       *float64 `json:"regret,omitempty"`
	RegretBeyond *float64 `json:"regret_beyond_tenth,omitempty"`
}

// SweepLine is the line of one point.
type SweepLine struct {
	Index int                 `json:"index"`
	Stage pipeline.SweepStage `json:"stage"`
	Result
	// Overfits says that the criterion is likely to be small by chance: [pipeline.SweepPoint].
	Overfits bool `json:"overfits,omitempty"`
	// Digest is what the summary and --resume compare points by.
	Digest *risk.Digest `json:"digest,omitempty"`
	// Look is what a page shows of the fit, where one was asked for.
	Look *Look `json:"look,omitempty"`
}

// SweepSummary is the last line of a sweep's JSON.
type SweepSummary struct {
	Summary      bool              `json:"summary"`
	Response     string            `json:"response,omitempty"`
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
	// EffectsChoice says how the effects of a completion were chosen.
	EffectsChoice *problems.EffectsChoice `json:"effects_choice,omitempty"`
	// Warnings are those printed on standard error, of all points together.
	Warnings []pipeline.Warning `json:"warnings,omitempty"`
}

// SweepMinimum is a point in the summary.
type SweepMinimum struct {
	Index int                 `json:"index"`
	Stage pipeline.SweepStage `json:"stage"`
	WeightsResult
	InterceptResult
	SURE       *float64 `json:"sure,omitempty"`
	SUREStdErr *float64 `json:"sure_stderr,omitempty"`
	CriteriaResult
	Divergence       float64  `json:"divergence"`
	DivergenceStdErr float64  `json:"divergence_stderr"` // that of the trace's estimate, 0 where it is exact
	Loss             *float64 `json:"loss,omitempty"`
	SignalLoss       *float64 `json:"signal_loss,omitempty"` // of the chosen point alone
	Converged        bool     `json:"converged"`
	CoefficientsResult
}

// Value is that of a criterion with its standard error, NaN where they are absent.
func (m SweepMinimum) Value(c risk.Criterion) (value, stdErr float64) {
	r := Result{SURE: m.SURE, SUREStdErr: m.SUREStdErr, CriteriaResult: m.CriteriaResult}
	return r.Value(c)
}

func (l *SweepLine) Trusted() bool { return !l.Untrusted }

// Plain says that the point competes by the value of the criterion alone.
func (l *SweepLine) Plain(c risk.Criterion) bool { return l.Trusted() && !l.Overfits && !l.Unsure(c) }

// Unsure says that the criterion competes by the sum of its value and its error there ([risk.Rule.Unsure]).
func (l *SweepLine) Unsure(c risk.Criterion) bool {
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

func (r *Result) Doubted() bool { return r.Verification != nil && !r.Verification.Passed() }

func (l *SweepLine) Minimum() SweepMinimum {
	return SweepMinimum{
		Index: l.Index, Stage: l.Stage, WeightsResult: l.WeightsResult,
		SURE: l.SURE, SUREStdErr: l.SUREStdErr, CriteriaResult: l.CriteriaResult, Divergence: l.Divergence,
		DivergenceStdErr: l.DivergenceStdErr, Loss: l.Loss, Converged: l.Trusted(),
	}
}

func (l *Result) Terms() risk.Terms {
	return risk.Terms{D: l.Size(), Sigma2: l.Sigma2, Residual: valueOr(l.Residual), Divergence: l.Divergence,
		Correlated: l.Correlated, Frobenius2: l.JacobianFro2}
}

// Look is what a page shows of a fit besides its numbers, small enough for a line of a file.
type Look struct {
	// Fit is mu_hat, or the matrix of a completion; Signal is the signal where that is not mu_hat.
	Fit    *Picture `json:"fit,omitempty"`
	Signal *Picture `json:"signal,omitempty"`
	// Data is y, in the form of Fit. All points share it: the first of each chain of warm starts has it.
	Data *Picture `json:"data,omitempty"`
	// Correlation is the autocorrelation of the residual y - mu_hat.
	Correlation *Correlation `json:"correlation,omitempty"`
	// Coefficients are those that are not 0, without errors, and CoefficientsLeftOut the number of smaller ones that
	// are not among them.
	Coefficients        []Coefficient `json:"coefficients,omitempty"`
	CoefficientsLeftOut int           `json:"coefficients_left_out,omitempty"`
}

// Picture is an array in few numbers.
type Picture struct {
	// Kind is image, matrix, sequence or rows (of a table), and Shape (rows, columns), (rows, columns, 3) or (length).
	Kind  string `json:"kind"`
	Shape []int  `json:"shape"`
	// Means is the side of the blocks of which a value is the mean, and Every k says that of k rows and columns one is
	// there: 1 for all that there is.
	Means int `json:"means,omitempty"`
	Every int `json:"every,omitempty"`
	// Low and High are the values of the codes 0 and Codes - 1. What is beyond has the code of the end, and the code
	// Codes stands for a value that is missing.
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Codes int     `json:"codes"`
	// Pixels are the codes, row by row, compressed (zlib): bytes, or where Codes exceeds 255 first the low bytes of
	// all and then the high ones.
	Pixels []byte `json:"pixels"`
}

// Correlation is that of an array with itself, at the lags from -L to L in both directions, row by row, or of a
// sequence at the lags from 0 to L.
type Correlation struct {
	Shape  []int     `json:"shape"`
	Values []float64 `json:"values"`
	// Of is the number of values: the correlations of white noise have the standard deviation 1/sqrt(Of).
	Of int `json:"of"`
}

// looks are those of points that are computed, until their lines are written. Points end in any order.
type looks struct {
	mu   sync.Mutex
	made map[int]*Look
}

// follow makes a sweep keep what its Look makes of each new point.
func (l *looks) follow(s *Sweep) {
	if s.Look == nil {
		return
	}
	l.made = map[int]*Look{}
	s.Options.Observe = func(_ context.Context, e pipeline.Event) {
		if e.Risk == nil {
			return
		}
		look := s.Look(*e.Risk)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.made[e.Sample] = look
	}
}

// take is the look of a point, nil for none: with the data where it begins a chain.
func (l *looks) take(s *Sweep, point int) *Look {
	l.mu.Lock()
	defer l.mu.Unlock()
	look := l.made[point]
	delete(l.made, point)
	if look != nil && !slices.Contains(s.Header.Chains(), point) {
		look.Data = nil
	}
	return look
}
