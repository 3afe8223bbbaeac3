package study

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/solve"
)

// SweepHeader is the first line of a sweep's JSON: everything that its results depend on. A sweep
// can continue another with the same header.
type SweepHeader struct {
	Sweep bool `json:"sweep"`
	// Criterion is what is minimized, and ALO whether leave-one-out is computed.
	Criterion risk.Criterion `json:"criterion"`
	ALO       bool           `json:"alo,omitempty"`
	// NotComputed are criteria that its points do not have, with the reason.
	NotComputed map[risk.Criterion]string `json:"not_computed,omitempty"`
	// Folds are what the criterion leaves out together, absent for one that does not.
	Folds *folds.Folds `json:"folds,omitempty"`
	TargetsResult
	ExecResult
	Response      string   `json:"response,omitempty"`
	Problem       string   `json:"problem"`
	LossName      string   `json:"loss_name,omitempty"`
	LossParameter float64  `json:"loss_parameter,omitempty"`
	Intercept     bool     `json:"intercept,omitempty"`
	Standardize   bool     `json:"standardize,omitempty"`
	Effects       []string `json:"effects,omitempty"`
	// FewRows says that columns are chosen of a table of few rows: [pipeline.FewRows].
	FewRows       bool        `json:"few_rows,omitempty"`
	Grid          []SweepGrid `json:"grid"`
	WeightsResult             // those that are not swept
	Sigma2Result
	Solver     string     `json:"solver"`
	Derivative string     `json:"derivative"`
	Trace      string     `json:"trace"`
	Queries    string     `json:"queries"`
	TraceError float64    `json:"trace_error,omitempty"`
	Seed       uint64     `json:"seed"`
	Tol        float64    `json:"tol"`
	MaxIter    int        `json:"max_iter"`
	Chain      int        `json:"chain"` // 0 for whole rows
	Refine     int        `json:"refine"`
	Verify     bool       `json:"verify,omitempty"`
	Data       DataDigest `json:"data_sha256"`
	Device     string     `json:"device"`
	BLAS       string     `json:"blas"`
	Version    string     `json:"version"`
}

type SweepGrid struct {
	Weight string  `json:"weight"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Points int     `json:"points"`
	// Values are those of a list of weights, absent for a logarithmic grid.
	Values []float64 `json:"values,omitempty"`
}

// text is the grid as [problems.ParseGrid] reads it.
func (g SweepGrid) text() string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	if g.Values != nil {
		return strings.Join(lists.Map(g.Values, number), ",")
	}
	return number(g.From) + ":" + number(g.To) + ":" + strconv.Itoa(g.Points)
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
	axes := lists.Map(h.Grid, func(axis SweepGrid) int { return axis.Points })
	return pipeline.Chains(axes, h.unitChain())
}

func (h SweepHeader) What() string { return "sweep" }

// Continues rejects the header of a different sweep.
func (h SweepHeader) Continues(line []byte) (doubt string, err error) {
	_, _, err = continues(line, h, "sweep")
	return "", err
}

// NewSweepHeader is the header of a sweep of the estimator along the axes.
func NewSweepHeader(j *Estimator, data problems.Data, axes []Axis, o pipeline.SweepOptions) SweepHeader {
	h := SweepHeader{
		Sweep: true, Criterion: o.Criterion, ALO: o.ALO, TargetsResult: TargetsOf(j.Problem, j.Sigma2),
		Response: j.Response,
		Problem:  j.Problem.Name, LossName: AboutLoss(j.Problem).LossName, LossParameter: j.Problem.Loss.Parameter,
		Intercept: data.Intercept, Standardize: j.Problem.Standardized(), Effects: data.Effects.Names(),
		Sigma2Result: j.sigma2Result(), ExecResult: j.ExecResult(), Solver: j.Name(),
		Derivative: string(j.Options.Derivative), Trace: o.Estimator, Queries: strconv.Itoa(o.Queries),
		TraceError: o.TraceError, Seed: o.Seed, Tol: j.Options.Tol, MaxIter: j.Options.MaxIter,
		Chain: o.Chain, Refine: max(o.Refine, 0), Verify: o.Verify != nil,
		Data: newDataDigest(data), Device: j.Device(), BLAS: fmt.Sprint(array.BLASInfo()), Version: Version(),
	}
	if rule := o.Criterion.Rule(); rule.Refits || rule.Blocks {
		h.Folds = &o.Folds
	}
	for rule := range risk.Rules() {
		if why := rule.Unasked(o.Criterion, o.ALO || h.LossName == ""); why != "" && j.BlackBox == nil {
			if h.NotComputed == nil {
				h.NotComputed = map[risk.Criterion]string{}
			}
			h.NotComputed[rule.Name] = why
		}
	}
	if o.TraceError > 0 {
		h.Queries = "auto"
	}
	if e, _ := solve.Lookup(h.Solver); h.Chain == 0 && !e.Path {
		h.Chain = pipeline.DefaultChain
	}
	if j.BlackBox != nil {
		h.Derivative = string(j.BlackBox.Divergence)
	}
	h.WeightsResult = weightsOf(j.Problem)
	h.FewRows = pipeline.FewRows(j.Problem.Solve())
	for _, axis := range axes {
		of := SweepGrid{Weight: axis.Name, From: axis.Values[0], To: axis.Values[len(axis.Values)-1],
			Points: len(axis.Values)}
		if axis.Grid.List != nil {
			of.Values = axis.Values
		}
		h.Grid = append(h.Grid, of)
		*h.Named(axis.Name) = nil
	}
	return h
}

// ReadSweepHeader reads the first line of a sweep.
func ReadSweepHeader(line []byte) (h SweepHeader, err error) {
	if err := json.Unmarshal(line, &h); err != nil {
		return h, err
	}
	if !h.Sweep || len(h.Grid) < 1 || len(h.Grid) > 2 || h.Chain < 0 {
		return h, errors.New("\"whole\" is not the header of a sweep")
	}
	_, err = h.Axes()
	return h, err
}

// Axes are the weights that are swept, with their values.
func (h SweepHeader) Axes() (axes []Axis, err error) {
	for _, g := range h.Grid {
		if !slices.Contains(spec.WeightNames(), g.Weight) {
			return nil, fmt.Errorf("its grid is of %q, expected lambda, lambda2 or gamma", g.Weight)
		}
		axis := Axis{Name: g.Weight}
		if axis.Grid, err = problems.ParseGrid(g.text()); err == nil {
			axis.Values, err = axis.Grid.Values(0)
		}
		if err != nil {
			return nil, fmt.Errorf("its grid of %s is %w", g.Weight, err)
		}
		axes = append(axes, axis)
	}
	return axes, nil
}

func (h SweepHeader) readPoint(i int, line []byte) (point SweepLine, err error) {
	if err := json.Unmarshal(line, &point); err != nil {
		return point, err
	}
	axes, err := h.Axes()
	if err != nil {
		return point, err
	}
	for a, w := range point.Swept(axes) {
		// The first axis varies fastest, from its greatest value to its least.
		values := axes[a].Values
		if want := values[len(values)-1-i%len(values)]; w != want {
			return point, fmt.Errorf("it has %s %g, expected %g", axes[a].Name, w, want)
		}
		i /= len(values)
	}
	return point, nil
}
