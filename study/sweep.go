package study

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"surepipe/pipeline"
	"surepipe/risk"
)

// SweepHeader is the first line of a sweep's JSON: everything that its results depend on. A sweep
// can continue another with the same header.
type SweepHeader struct {
	Sweep bool `json:"sweep"`
	// Criterion is what is minimized, and ALO whether leave-one-out is computed.
	Criterion risk.Criterion `json:"criterion"`
	ALO       bool           `json:"alo,omitempty"`
	TargetsResult
	ExecResult
	Problem string `json:"problem"`
	// LossName and LossParameter are the loss's where it is not squared.
	LossName      string  `json:"loss_name,omitempty"`
	LossParameter float64 `json:"loss_parameter,omitempty"`
	// Intercept is --intercept's value.
	Intercept bool `json:"intercept,omitempty"`
	// Standardize is --standardize's.
	Standardize bool `json:"standardize,omitempty"`
	// Effects are --effects.
	Effects []string    `json:"effects,omitempty"`
	Grid    []SweepGrid `json:"grid"`
	Lambda  *Number     `json:"lambda,omitempty"` // the weights that are not swept
	Lambda2 *Number     `json:"lambda2,omitempty"`
	Gamma   *Number     `json:"gamma,omitempty"`
	Sigma2  float64     `json:"sigma2,omitempty"`
	// Sigma2Method is how sigma2 was estimated, Sigma2RelStdErr its standard error over its value.
	Sigma2Method    string  `json:"sigma2_method,omitempty"`
	Sigma2RelStdErr float64 `json:"sigma2_rel_stderr,omitempty"`
	Solver          string  `json:"solver"`
	Derivative      string  `json:"derivative"`
	Trace           string  `json:"trace"`
	Queries         string  `json:"queries"`
	TraceError      float64 `json:"trace_error,omitempty"`
	Seed            uint64  `json:"seed"`
	Tol             float64 `json:"tol"`
	MaxIter         int     `json:"max_iter"`
	Chain           int     `json:"chain"` // 0 for whole rows
	Refine          int     `json:"refine"`
	Verify          bool    `json:"verify,omitempty"`
	Data            string  `json:"data_sha256"`
	Device          string  `json:"device"`
	BLAS            string  `json:"blas"`
	Version         string  `json:"version"`
}

type SweepGrid struct {
	Weight string  `json:"weight"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Points int     `json:"points"`
}

// unitChain is the number of points in a unit of a shard, 0 for a whole row: a chain of warm starts,
// or one point where there are none.
func (h SweepHeader) unitChain() int {
	if h.Exec != "" || h.Derivative == "unrolled" {
		return 1
	}
	return h.Chain
}

// Chains are the bounds of the units.
func (h SweepHeader) Chains() []int {
	axes := make([]int, len(h.Grid))
	for a, axis := range h.Grid {
		axes[a] = axis.Points
	}
	return pipeline.Chains(axes, h.unitChain())
}

// What names a sweep.
func (h SweepHeader) What() string { return "sweep" }

// Continues rejects the header of a different sweep.
func (h SweepHeader) Continues(line []byte) (doubt string, err error) {
	var found map[string]json.RawMessage
	if err := json.Unmarshal(line, &found); err != nil || string(found["sweep"]) != "true" {
		return "", errors.New("it does not begin with the header of a sweep")
	}
	expected, err := h.Keys()
	if err != nil {
		return "", err
	}
	if key, was, is := DifferentKey(found, expected); key == "data_sha256" {
		return "", errors.New("its sweep had different data")
	} else if key != "" {
		return "", fmt.Errorf("its sweep had a different %s: %s, now %s", key, was, is)
	}
	return "", nil
}

// OpenSweep opens the file of a sweep, which begins with the header, and returns the points that it
// holds, in order. A line is on the disk when it is written. A file that has lines is an error unless
// resume is set; a summary at its end is dropped. See [OpenLog].
func OpenSweep(path string, resume bool, header SweepHeader) (_ *Log, known []SweepLine, err error) {
	log, err := OpenLog(path, header, LogOptions{Resume: resume, Replay: func(line []byte) error {
		// A point and a summary have some keys in common, with different types.
		var end struct {
			Summary bool `json:"summary"`
		}
		if err := json.Unmarshal(line, &end); err != nil {
			return err
		}
		if end.Summary {
			return ErrSummary
		}
		var point SweepLine
		if err := json.Unmarshal(line, &point); err != nil {
			return err
		}
		if point.Stage != pipeline.GridStage && point.Stage != pipeline.RefineStage {
			return LineError("not a point of a sweep")
		}
		known = append(known, point)
		return nil
	}})
	return log, known, err
}

// Keys are the keys of the header's JSON.
func (h SweepHeader) Keys() (keys map[string]json.RawMessage, err error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return keys, json.Unmarshal(text, &keys)
}

// DifferentKey is the first key by which two headers differ, with both values; "" if they agree. Keys
// that ignored holds may differ. Settings that follow from others are named last.
func DifferentKey(found, expected map[string]json.RawMessage, ignored ...string) (key, was, is string) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(found)), maps.Keys(expected))
	derived := []string{"criterion", "alo", "chain", "data_sha256"}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(derived, a), slices.Index(derived, b)), cmp.Compare(a, b))
	})
	for _, key := range keys {
		was, is := string(found[key]), string(expected[key])
		if was != is && !slices.Contains(ignored, key) {
			return key, cmp.Or(was, "not given"), cmp.Or(is, "not given")
		}
	}
	return "", "", ""
}

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
	// Warnings are those printed on standard error, of all points together.
	Warnings []pipeline.Warning `json:"warnings,omitempty"`
}

// SweepMinimum is a point in the summary.
type SweepMinimum struct {
	Index      int                 `json:"index"`
	Stage      pipeline.SweepStage `json:"stage"`
	Lambda     *Number             `json:"lambda,omitempty"`
	Lambda2    *Number             `json:"lambda2,omitempty"`
	Gamma      *Number             `json:"gamma,omitempty"`
	Intercept  *float64            `json:"intercept,omitempty"`
	SURE       *float64            `json:"sure,omitempty"`
	SUREStdErr *float64            `json:"sure_stderr,omitempty"`
	CriteriaResult
	Divergence float64  `json:"divergence"`
	Loss       *float64 `json:"loss,omitempty"`
	SignalLoss *float64 `json:"signal_loss,omitempty"` // of the chosen point alone
	Converged  bool     `json:"converged"`
	CoefficientsResult
}

func (l *SweepLine) LossCells() []float64 {
	if l.Residual == nil {
		return []float64{ValueOr(l.LossValue), ValueOr(l.Deviance)}
	}
	return []float64{*l.Residual}
}

// Cells are the values of columns, NaN where they are not defined.
func (l *SweepLine) Cells(names []string) []float64 {
	var values []float64
	for _, name := range names {
		if v := l.Number(name); v != nil {
			values = append(values, *v)
		} else {
			values = append(values, math.NaN())
		}
	}
	return values
}

// Trusted is the result of Trusted for the point's risk.
func (l SweepLine) Trusted() bool {
	return l.Solver.Converged && l.DerivativeConverged && !l.Doubted()
}

// Doubted says that --verify disagrees.
func (r Result) Doubted() bool { return r.Verification != nil && !r.Verification.Passed() }

func (l SweepLine) Minimum() SweepMinimum {
	return SweepMinimum{
		Index: l.Index, Stage: l.Stage, Lambda: l.Lambda, Lambda2: l.Lambda2, Gamma: l.Gamma,
		SURE: l.SURE, SUREStdErr: l.SUREStdErr, CriteriaResult: l.CriteriaResult, Divergence: l.Divergence,
		Loss: l.Loss, Converged: l.Trusted(),
	}
}

// Terms are the numbers from which the point's risk was computed.
func (l SweepLine) Terms() risk.Terms {
	return risk.Terms{D: l.D, Sigma2: l.Sigma2, Residual: ValueOr(l.Residual), Divergence: l.Divergence,
		Frobenius2: l.JacobianFro2}
}
