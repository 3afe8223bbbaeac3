package pipeline

import (
	"fmt"
	"math"
	"slices"

	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/vjp"
)

// Rule says which point of a sweep is chosen.
type Rule string

const (
	// MinimumRule chooses the minimizer of the criterion.
	MinimumRule Rule = "min"
	// OneStdErrRule chooses the simplest point whose criterion is within one standard error of the
	// minimum: the error is that of the difference to the minimizer, not that of the value. The
	// simplest is the one with the least divergence, the degrees of freedom, whatever the number of
	// weights; among equal ones that with the largest first weight, then second. (Breiman, Friedman,
	// Olshen, Stone 1984 have the rule for cross-validation.)
	OneStdErrRule Rule = "1se"
)

// Rules lists the rules.
func Rules() []Rule { return []Rule{MinimumRule, OneStdErrRule} }

// Choice says how sure the choice of a sweep's weights is.
type Choice struct {
	// Criterion is that of the sweep.
	Criterion risk.Criterion
	// Minimizer and Chosen are the indices of the point with the least value and of the one that
	// the Rule chooses.
	Minimizer, Chosen int
	// Differences are, for each point by its index, its value minus the minimizer's with the error
	// of that difference ([risk.Comparison.Difference]); NaN where they are not defined.
	Differences []risk.Difference
	// Alike are the indices of the points that cannot be told from the minimizer: their difference
	// is at most its error. The minimizer is one of them. Points that are not Trusted, or Unsure, are left out.
	Alike []int
	// Optimism is by how much the minimum understates, on average, because it was looked for
	// ([risk.Comparison.Optimism]); NaN where it is not known.
	Optimism risk.Optimism
	// Regret is what the choice of the minimizer is likely to cost ([risk.Comparison.Regret]) where the noise is
	// correlated; nil elsewhere, and where it is not known.
	Regret *risk.Regret
	// Incomparable is the number of points whose value is defined and whose difference has no
	// error: every one where the criterion has no such error, and those of SweepOptions.Known
	// without a digest.
	Incomparable int
}

// Choose finds the minimizer on a grid of which all points are known, and says how sure the choice
// is: what a [Sweep] with these Options.Known, all of the grid's points, finds without refinement and
// without a solve. edge is SweepPoint.Edge. Options.Criterion must be set.
func Choose(grid [][]float64, o SweepOptions) (c *Choice, edge []int, err error) {
	if _, err := risk.ParseCriterion(string(o.Criterion)); err != nil {
		return nil, nil, refuse("Criterion", o.Criterion, "the criterion is %v", err)
	}
	if err := o.checkRule(); err != nil {
		return nil, nil, err
	}
	total, err := checkGrid(grid)
	if err != nil {
		return nil, nil, err
	}
	if len(o.Known) != total {
		return nil, nil, fmt.Errorf("pipeline: %d known points of a grid of %d", len(o.Known), total)
	}
	s := &sweep{grid: grid, o: o, total: total, part: chain{0, total}, best: candidate{index: -1}}
	if err := s.offerKnown(); err != nil {
		return nil, nil, err
	}
	if !s.best.defined() {
		return nil, nil, s.undefined()
	}
	return s.choice(s.best.index), s.edge(s.place(s.best.index)), nil
}

func (o *SweepOptions) checkRule() error {
	if o.Rule == "" {
		o.Rule = MinimumRule
	}
	switch o.Rule {
	case MinimumRule:
	case OneStdErrRule:
		if c := o.Criterion; !c.Rule().Compares(o.Sigma2) {
			return refuse("Rule", o.Rule, "the rule %s needs the standard errors of differences, which %s does "+
				"not have: choose another criterion, or the rule %s", o.Rule, c, MinimumRule)
		}
	default:
		return refuse("Rule", o.Rule, "the rule is %q, expected one of %q", o.Rule, Rules())
	}
	if !(o.Sigma2RelStdErr >= 0) || math.IsInf(o.Sigma2RelStdErr, 0) {
		return refuse("Sigma2RelStdErr", o.Sigma2RelStdErr,
			"the relative standard error of sigma2 is %g, expected 0 or a positive number", o.Sigma2RelStdErr)
	}
	return nil
}

// chooseCriterion fills in the default, and what the criterion needs. It reports whether the problem is wide
// ([ChoosesAmongMany]).
func (f Family) chooseCriterion(o *SweepOptions, grid [][]float64) (wide bool, err error) {
	p := f.Problem
	if o.Folds.Each = loss.StructureOf(p.Loss).Each; o.Folds.K == 0 && corrects(p, o.Folds) {
		o.Folds.K = folds.CorrectedK
	}
	if f.BlackBox == nil {
		if p.R, err = f.regularizer(grid); err != nil {
			return false, err
		}
		defer prox.Release(p.R)
	}
	if o.Criterion == "" {
		o.Criterion, o.Fallback = SweepCriterion(p, o.Sigma2, o.Folds.Groups != nil), true
	}
	return ChoosesAmongMany(p), o.checkCriterion(p)
}

func (o *SweepOptions) checkCriterion(p vjp.Problem) error {
	if _, err := risk.ParseCriterion(string(o.Criterion)); err != nil {
		return refuse("Criterion", o.Criterion, "the criterion is %v", err)
	}
	if err := checkCriterion(p, o.Criterion); err != nil {
		return err
	}
	rule := o.Criterion.Rule()
	if o.Noise.Rho != 0 && !rule.Sigma2 && !rule.Refits {
		return refuse("Criterion", o.Criterion, "the criterion %s takes the noise as independent, expected %s, or %s "+
			"with blocks longer than the correlation", o.Criterion, risk.SURE, risk.CV)
	}
	if rule.Sigma2 && o.Sigma2 == 0 {
		return refuse("Criterion", o.Criterion, "the criterion %s needs sigma2, which is 0: not known", o.Criterion)
	}
	o.ALO, o.LeaveOut = o.ALO || rule.Diagonal, nil
	if rule.Blocks {
		o.LeaveOut = &o.Folds
	}
	return nil
}

func (o *SweepOptions) checkFolds(d int) error {
	rule := o.Criterion.Rule()
	if rule.Refits {
		o.Refine = -1
	} else if !rule.Blocks {
		return nil
	}
	if rule.Blocks && o.Folds.Groups == nil && o.Folds.Blocks == 0 {
		return refuse("Folds", o.Folds, "the criterion %s leaves out groups or blocks of observations, expected either",
			o.Criterion)
	}
	if err := o.Folds.Check(d); err != nil {
		return refuse("Folds", o.Folds, "%v", err)
	}
	return nil
}

func (s *sweep) comparison() risk.Comparison {
	return risk.Comparison{Criterion: s.o.Criterion, Sigma2: s.o.Sigma2, RelStdErr: s.o.Sigma2RelStdErr,
		Noise: risk.AR1(s.o.Noise.Rho)}
}

func (v SweepValue) fit() risk.Fit { return risk.Fit{Value: v.Value, Digest: v.Digest} }

// choice compares all points with the minimizer.
func (s *sweep) choice(best int) *Choice {
	by := s.comparison()
	c := &Choice{Criterion: s.o.Criterion, Minimizer: best, Chosen: best}
	fits := lists.Map(s.values, SweepValue.fit)
	for i, v := range s.values {
		diff := by.Difference(fits[i], fits[best])
		c.Differences = append(c.Differences, diff)
		if v.defined() && math.IsNaN(diff.StdErr) {
			c.Incomparable++
		}
		if plain := v.Trusted && !v.Unsure && !v.Overfits; i != best && !(plain && diff.Value <= diff.StdErr) {
			if !plain {
				fits[i].Digest = nil
			}
			continue
		}
		c.Alike = append(c.Alike, i)
		if s.o.Rule == OneStdErrRule && simpler(v, s.values[c.Chosen]) {
			c.Chosen = i
		}
	}
	c.Optimism = by.Optimism(fits, best)
	if by.Noise != 0 {
		c.Regret = by.Regret(fits, best)
	}
	return c
}

// simpler reports whether a rather than b is chosen by OneStdErrRule.
func simpler(a, b SweepValue) bool {
	if a.Digest == nil || b.Digest == nil {
		return false
	}
	if a.Digest.Divergence != b.Digest.Divergence {
		return a.Digest.Divergence < b.Digest.Divergence
	}
	return slices.Compare(a.Weights, b.Weights) > 0
}

func (v SweepValue) competes() float64 {
	if v.Unsure {
		return v.Value + v.StdErr
	}
	return v.Value
}

// DefaultCriterion is [risk.DefaultCriterion] for a problem, whose observations are left out in groups or alone.
func DefaultCriterion(p vjp.Problem, sigma2 float64, groups bool) risk.Criterion {
	return risk.DefaultCriterion(sigma2, lossName(p) == "", Completes(p), false, groups && p.A != nil)
}

// mostSteps is the number of observations up to which a sweep leaves each out where they do not stand alone. The steps
// to the fits without one take time that grows with its square: 0.1 s at each weight for 457 and 1.5 s for 1988.
const mostSteps = 1 << 8

// SweepCriterion is the default of a sweep: DefaultCriterion, but CV for a table or signal of [FewRows], where it would
// be GCV or ALO, where it would be ALO of columns that single rows decide ([LoneRows]), and for a loss whose
// observations do not stand alone where these are more than mostSteps, or left out in groups.
func SweepCriterion(p vjp.Problem, sigma2 float64, groups bool) risk.Criterion {
	d := 0
	if p.A != nil {
		d, _ = p.A.Dims()
	}
	joint := loss.StructureOf(p.Loss).Joint
	refits := FewRows(p) || joint != nil && (d > mostSteps || groups) || lossName(p) != "" && LoneRows(p)
	return risk.DefaultCriterion(sigma2, lossName(p) == "", Completes(p), refits, groups && joint == nil && p.A != nil)
}

// ChoosesAmongMany reports whether some columns are chosen of a table with no fewer columns than rows. The least of a
// criterion over such fits may be far below the error of predicting another row, unless its fits were made without
// these rows.
func ChoosesAmongMany(p vjp.Problem) bool {
	if p.A == nil || p.R == nil {
		return false
	}
	d, columns := p.A.Dims()
	r, a := prox.StructureOf(p.R), linops.StructureOf(p.A)
	some := (r.Sparse != nil || r.Groups != nil) && !r.Quadratic.Known
	return columns >= d && some && a.Entries.Known && !a.Identity
}

// LoneRows reports whether in a column of a table that an l1 penalty may leave out a row has nearly all of the sum of
// squares, as the only one of a level has. Without this row the column is out of the fit. Steps from the fit to all
// rows do not know that: they lead far beyond 0, and by leave-one-out no such column is worth choosing.
func LoneRows(p vjp.Problem) bool {
	if p.A == nil || p.R == nil {
		return false
	}
	d, columns := p.A.Dims()
	a, sparse := linops.StructureOf(p.A), prox.StructureOf(p.R).Sparse
	if sparse == nil || a.Identity || d > mostRefit {
		return false
	}
	weights, _, _ := sparse(columns)
	if weights.List == nil && weights.One == 0 {
		return false
	}
	most, sums := make([]float64, columns), make([]float64, columns)
	add := func(j int, v float64) { most[j], sums[j] = max(most[j], v*v), sums[j]+v*v }
	all := float64(d) * float64(columns)
	if of := linops.ShiftedOf(p.A); of != nil {
		for k, j := range of.Indices {
			add(j, of.Values[k])
		}
	} else if a.Dense != nil && (a.Entries == linops.Known(all) || all <= mostZeros) {
		x := a.Dense()
		for i := range d {
			for j, v := range x.RawRowView(i) {
				add(j, v)
			}
		}
	}
	for j, v := range most {
		if v > mostOfColumn*sums[j] && weights.At(j) > 0 {
			return true
		}
	}
	return false
}

const (
	// mostRefit is the number of rows up to which cross-validation takes the place of leave-one-out there, and
	// mostOfColumn the share of a column's sum of squares that is nearly all of it.
	mostRefit, mostOfColumn = 5000, 0.9
	// mostZeros is the number of entries of the largest matrix that is filled with zeros to be looked at.
	mostZeros = 1 << 23
)

// FewRows reports whether that table has at most 200 rows, or a signal as few values, which a penalty that is not a
// sum of squares joins to levels, lines or regions.
func FewRows(p vjp.Problem) bool {
	if !ChoosesAmongMany(p) && !joinsValues(p) {
		return false
	}
	d, _ := p.A.Dims()
	return d <= fewRows
}

// joinsValues reports whether a signal is observed itself, and its values penalized together.
func joinsValues(p vjp.Problem) bool {
	if p.A == nil || p.R == nil || !linops.StructureOf(p.A).Identity {
		return false
	}
	r := prox.StructureOf(p.R)
	if r.Quadratic.Known || r.Nuclear.Known {
		return false
	}
	return p.K != nil || r.Value != nil && r.Sparse == nil && r.Groups == nil && r.Free == nil && !r.L1.Known &&
		r.Blocks == nil
}

// fewRows is the number of rows up to which cross-validation is the default of a table with as many columns: of 15
// tables of 20 x 50 GCV was beyond four bars in 9, of 50 x 200 in 5, of 100 x 200 in 2 and of 300 x 600 in none, and
// cross-validation in one, one and none. Of 12 of a logistic loss leave-one-out was beyond three bars at 20 x 50 in 1,
// at 30 x 100 in 3 to 5, at 50 x 200 in 3 to 7 and at 100 x 300 in 2 to 5, where the printed loss was 0.6 and that of
// new rows 0.7 to 1.0; cross-validation in 1, 2, none and 1.
//
// Of 10 signals of 64 values of white noise tv1d by GCV was beyond three bars in 4, with up to 62 degrees of freedom
// and a mean squared error of 0.49; by cross-validation in none, with at most 4 and 0.03. Of 120 values it was alike.
const fewRows = 200

// Completes reports whether a problem is a matrix completion: its fit is for the entries that are not observed.
func Completes(p vjp.Problem) bool {
	if p.A == nil || p.R == nil {
		return false // a black box
	}
	picked, r := linops.StructureOf(p.A).Picked, prox.StructureOf(p.R)
	return picked != nil && r.Nuclear.Known && picked(r.Shape) != nil
}
