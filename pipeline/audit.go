package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"surepipe/internal/digits"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/risk/warning"
)

// Auditing says whether the chosen point of a sweep is audited.
type Auditing int

// Not at all; where it is cheap beside the sweep; always.
const (
	NoAudit Auditing = iota
	CheapAudit
	AlwaysAudit
)

// Audit compares what a criterion says of some observations with fits without them, which start at the solution.
type Audit struct {
	// Criterion is the one that is compared: that of the sweep, or where that is about the fitted observations alo or
	// gcv.
	Criterion risk.Criterion `json:"criterion"`
	// Error is the mean error of the observations in fits without them, and StdErr its standard error over the units
	// that were left out together. Says is what the criterion says of the same observations.
	Error  float64 `json:"error"`
	StdErr float64 `json:"error_stderr"`
	Says   float64 `json:"criterion_says"`
	// Bars is log(Error/Says)/bar: the bar has the standard error of the mean difference over the larger of the two,
	// and the share of the data that a fit is without, since fits to fewer data are a little worse. Where the loss of a
	// perfect fit is not 0 it is the difference over its bar, with that share of the mean excess over it.
	Bars float64 `json:"bars"`
	// Observations are those that were left out, in so many Units and Fits.
	Observations int `json:"observations"`
	Units        int `json:"units"`
	Fits         int `json:"fits"`
	// By is what was left out together: "" for single observations; groups, blocks, runs or patches.
	By string `json:"by,omitempty"`
}

const (
	auditShare = 0.05 // of the observations that a fit is without
	auditFits  = 4
	// auditPoints is the number of points of a sweep for each fit that is cheap beside it.
	auditPoints = 6
	// mostBars are the bars by which an audit and a criterion may differ.
	mostBars = 3
	// runLength is the length of the runs that an audit of a sequence leaves out, one in runFolds at a time.
	// Of an image it leaves out patches of patchSide x patchSide.
	runLength, runFolds, patchSide = 4, 5, 2
	// mostRun and mostPatched are the numbers of observations up to which runs and patches are left out without being
	// asked for.
	mostRun, mostPatched = 5000, 1 << 13
	// runRatio and runBars are the ratio of the errors of runs and of single observations, and the bars of their
	// difference, beyond which they disagree. On white noise about a smooth mean the ratio is about 1.1 at 100
	// observations, under AR(0.5) 2.
	runRatio, runBars = 1.3, 2
)

// Disagrees reports that the criterion is not to be believed.
func (a *Audit) Disagrees() bool { return math.Abs(a.Bars) > mostBars }

// Together reports that neighbours were left out together.
func (a *Audit) Together() bool { return a.By == "runs" || a.By == "patches" }

// Correlates reports that neighbours that are left out together are predicted much worse than single ones.
func (a *Audit) Correlates() bool {
	return a.Together() && a.Bars > runBars && a.Error > runRatio*a.Says
}

// Warnings are those of the result that was audited.
func (a *Audit) Warnings() []Warning {
	label := a.Criterion.Rule().Label
	switch {
	case a.Together() && !a.Correlates():
	case a.Together():
		return []Warning{warning.Correlated.With("%s of %d observations that are left out are predicted with an error "+
			"of %.4g, %.2g times what %s says of single ones: noise or signal is correlated, and if it "+
			"is the noise the criterion chooses too little smoothing; compare cv by blocks longer than the "+
			"correlation, or describe the noise", a.By, a.Observations/a.Units, a.Error, a.Error/a.Says, label)}
	case a.Disagrees():
		return []Warning{warning.CriterionDisagrees.With("the error of prediction is %.4g ± %s by fits without %d "+
			"observations, and %s says %.4g of these, off by %.2g bars: the former is to be believed; choose by "+
			"the criterion cv, with groups or blocks where observations belong together", a.Error,
			digits.Error(a.StdErr), a.Observations, label, a.Says, math.Abs(a.Bars))}
	}
	return nil
}

func (s *sweep) auditFits() int {
	n := len(s.values) / auditPoints
	a := s.f.Problem.A
	switch {
	case s.o.Audit == AlwaysAudit:
		return auditFits
	case s.o.Audit == NoAudit || a == nil || s.o.Criterion.Rule().Refits || linops.StructureOf(a).Passes.Bytes > 0:
		return 0
	}
	_, picks := linops.Picks(a)
	known := linops.StructureOf(a)
	if picks || known.Sampled != nil || known.Identity || known.Entries.Known && known.Entries.Value <= mostCopied/4 {
		return min(auditFits, n)
	}
	return 0
}

// audits audit the chosen point, whose solution is at hand. An audit that nobody asked for does not end a sweep: where
// its fits fail there is none, which the Logger is told.
func (s *sweep) audits(ctx context.Context, p *SweepPoint) ([]*Audit, error) {
	all, err := s.audited(ctx, p)
	if err == nil || s.o.Audit == AlwaysAudit || ctx.Err() != nil {
		return all, err
	}
	if s.o.Logger != nil {
		s.o.Logger.WarnContext(ctx, "audit failed", "err", err)
	}
	return nil, nil
}

func (s *sweep) audited(ctx context.Context, p *SweepPoint) ([]*Audit, error) {
	// Folds of single observations say of a sequence what leave-one-out says.
	n, single := s.auditFits(), s.validated != nil && s.o.Folds.Blocks == 0 && !s.o.Folds.Time
	if n == 0 && !single {
		return nil, nil
	}
	criterion, says := s.said(p)
	if says == nil {
		return nil, nil
	}
	d := len(s.y)
	f := s.o.Folds
	// The observations of a sequence or an image stand in order: the regularizer is behind differences. Those of a
	// sequence with gaps are picked in order.
	places, picks := linops.Picks(s.f.Problem.A)
	inOrder := s.f.Problem.K != nil && (linops.StructureOf(s.f.Problem.A).Identity || picks && slices.IsSorted(places))
	var all []*Audit
	if inOrder && s.o.Audit != NoAudit && s.o.Folds.Groups == nil {
		runs, by, wide := s.neighbours(d)
		if (s.o.Audit == AlwaysAudit || d <= mostRun || wide < d && d <= mostPatched) && runs.Check(d) == nil {
			a, err := s.audit(ctx, p, criterion, says, runs, everyFifth(runs, d, wide))
			if err != nil {
				return nil, err
			}
			a.By = by
			all = append(all, a)
		}
	}
	if s.validated != nil || inOrder && s.o.Audit != AlwaysAudit {
		return all, nil // single observations are exact, or nearly so
	}
	if s.o.Criterion.Rule().Sigma2 && !criterion.Rule().Diagonal && s.o.Audit != AlwaysAudit {
		return all, nil // leverages that differ, which GCV takes for equal, are no doubt about SURE
	}
	splits := f.Samples(d, auditShare, n)
	if len(splits) == 0 {
		return all, nil
	}
	a, err := s.audit(ctx, p, criterion, says, f, splits)
	if err != nil {
		return nil, err
	}
	if a.Units < 2 || math.IsNaN(a.Bars) {
		return all, nil // one group, or one block, has no bar
	}
	if f.Groups != nil {
		a.By = "groups"
	} else if f.Blocks > 0 {
		a.By = "blocks"
	}
	return append(all, a), nil
}

// neighbours are what an audit leaves out together: runs of a sequence, patches of an image with so many beside each
// other.
func (s *sweep) neighbours(d int) (f folds.Folds, by string, wide int) {
	shape := linops.StructureOf(s.f.Problem.K).Cosines.Shape
	if s.o.Folds.Blocks == 0 && min(shape.Rows, shape.Cols) > 1 && shape.Len() == d {
		return folds.Folds{K: runFolds, Groups: folds.Patches([]int{shape.Rows, shape.Cols}, patchSide)}, "patches",
			(shape.Cols + patchSide - 1) / patchSide
	}
	return folds.Folds{K: runFolds, Blocks: max(s.o.Folds.Blocks, runLength)}, "runs", d
}

// everyFifth leaves out runs that are far apart, or patches, of which wide are beside each other, a knight's move
// apart. A part of many observations tells as much as all: there are as many fits as leave out mostPatched of them.
func everyFifth(f folds.Folds, d, wide int) []folds.Split {
	of, _ := f.Units(d)
	return lists.Make(min(f.K, (mostPatched*f.K+d-1)/d), func(k int) folds.Split {
		return folds.Without(d, func(i int) bool { return (of[i]%wide+2*(of[i]/wide))%f.K == k })
	})
}

func (s *sweep) said(p *SweepPoint) (risk.Criterion, []float64) {
	rule := s.o.Criterion.Rule()
	if rule.Blocks && p.LGO != nil {
		return rule.Name, p.LeftOutTogether
	}
	if byDiagonal := rule.Diagonal || !rule.Predicts; byDiagonal && p.LeftOut != nil && !math.IsNaN(p.ALO) {
		return risk.ALO, p.LeftOut
	}
	if math.IsNaN(p.GCV) || p.MuHat == nil {
		return "", nil
	}
	says := make([]float64, len(s.y))
	share := float64(p.D) / p.Terms().ResidualDF()
	for i, y := range s.y {
		r := (y - p.MuHat[i]) * share
		says[i] = r * r
	}
	return risk.GCV, says
}

func (s *sweep) audit(ctx context.Context, p *SweepPoint, criterion risk.Criterion, says []float64, f folds.Folds,
	splits []folds.Split) (*Audit, error) {
	errs := make([]float64, len(s.y))
	err := s.onDevice(ctx, func(on *instance) error {
		workers := max(s.o.Parallel, runtime.GOMAXPROCS(0))
		return on.without(ctx, splits, workers,
			func(ctx context.Context, _ int, r *refit) error {
				some, _, err := r.errors(ctx, p.Weights, start{held: p.solved})
				for k, i := range r.split.Out {
					if err == nil {
						errs[i] = some[k]
					}
				}
				return err
			})
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("pipeline: audit: %w", err)
	}
	a := &Audit{Criterion: criterion, Fits: len(splits)}
	unit, n := f.Units(len(s.y))
	place := make([]int, n)
	var sums, differences []float64
	for _, split := range splits {
		for _, i := range split.Out {
			if place[unit[i]] == 0 {
				sums, differences = append(sums, 0), append(differences, 0)
				place[unit[i]] = len(sums)
			}
			sums[place[unit[i]]-1] += errs[i]
			differences[place[unit[i]]-1] += errs[i] - says[i]
			a.Says += says[i]
			a.Observations++
		}
	}
	mean, difference := risk.OverUnits(sums, a.Observations), risk.OverUnits(differences, a.Observations)
	a.Says /= float64(a.Observations)
	a.Observations /= max(f.Each, 1)
	a.Error, a.StdErr, a.Units = mean.Mean, mean.StdErr, mean.Units
	share := float64(len(splits[0].Out)) / float64(len(s.y))
	excess := a.Says // of which the share is what fewer data cost
	if t := p.LossTerms; !t.FromZero() && !math.IsNaN(t.Deviance) {
		excess = t.Deviance / 2 / float64(p.D)
	}
	a.Bars = difference.Mean / math.Hypot(difference.StdErr, share*excess)
	if most := max(a.Error, a.Says); p.LossTerms.FromZero() && a.Error > 0 && a.Says > 0 {
		a.Bars = math.Log(a.Error/a.Says) / math.Hypot(difference.StdErr/most, share)
	}
	return a, nil
}

// ErrNothingToAudit says that neither leave-one-out nor GCV is known of the observations, or that they are too few to
// leave some out.
var ErrNothingToAudit = errors.New("pipeline: nothing to audit: neither alo nor gcv is defined at the estimate, or " +
	"the observations are too few to leave some out")

// Audit compares what a criterion says of the family's estimate r at the weights with fits without some observations,
// as a [Sweep] does at the point that it chooses. A family with one regularizer alone takes no weights. Fits start at
// the solution where r has it (Options.KeepB).
func (f Family) Audit(ctx context.Context, y, weights []float64, r Risk, o SweepOptions) ([]*Audit, error) {
	grid := [][]float64{{1}} // an axis that the regularizer does not read
	if len(weights) > 0 {
		grid = nil
	}
	for _, w := range weights {
		grid = append(grid, []float64{w})
	}
	o.Audit, o.Known, o.Rule, o.Chain = AlwaysAudit, nil, MinimumRule, 2
	s, err := newSweep(y, f, grid, o, nil)
	if err != nil {
		return nil, err
	}
	release, err := s.openAll(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer release()
	point := &SweepPoint{Risk: r, Weights: s.weights(0), solved: written(r.B, true)}
	point.solved.factors = r.Factors
	all, err := s.audits(ctx, point)
	if err == nil && len(all) == 0 {
		err = ErrNothingToAudit
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return all, err
}
