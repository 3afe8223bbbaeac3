package risk

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"surepipe/internal/digits"
	"surepipe/internal/lists"
)

// Rule is all that is known of a criterion: who computes, prints, draws or explains one reads its rule.
type Rule struct {
	// Name is the criterion's name in flags and its key in JSON, at the top for the oldest of the table and below
	// "criteria" for the others; its standard error has the key Name_stderr. Label is that of tables and figures.
	Name  Criterion
	Label string
	// Help explains it in a line or more of at most 80 columns.
	Help string
	// Sigma2 says that it needs sigma2, and estimates the squared error ||mu_hat - mu||^2.
	Sigma2 bool
	// Diagonal says that it needs the diagonal of D mu_hat, or at least 24 probes that show it.
	Diagonal bool
	// Blocks says that it needs the blocks of D mu_hat of the observations that are left out together.
	Blocks bool
	// Refits says that it needs fits without some of the observations, which a sweep makes for it.
	Refits bool
	// Asked says how one asks for it at every weight of a sweep, where that is work of its own; "" for one that comes
	// with every fit.
	Asked string
	// Predicts says that it estimates the error of predicting an observation that was not made.
	Predicts bool
	// Proviso ends a sentence that says what it aims at.
	Proviso string
	// Losses are those for which it is defined.
	Losses Losses
	// Keys are the keys of further numbers that belong to it, in JSON and as columns.
	Keys  []string
	Holds func(f Fitted) []Warning
	// Undefined says why it may not be defined at any weight; "" where no fit leaves degrees of freedom.
	Undefined string
	// Value is its value and standard error, each NaN where it is not defined.
	Value func(f Fitted) (value, stdErr float64)
	// Text says in a line what the value is, or why there is none; nil for nothing.
	Text func(f Fitted) string
	// Unit is the factor u by which u times the criterion is SURE and a constant, at this sigma2 (0: not
	// known); 0 where there is none. Nil is 0.
	Unit func(sigma2 float64) float64
	// Difference is the standard error of the difference of two values where Unit is 0, see
	// [Comparison.Difference]; nil where the criterion has none, since it estimates no risk.
	Difference func(a, b Fit) float64
	// LeftOut are the errors of prediction of which it is the mean, as far as the digest of a fit has them, for
	// [Comparison.Optimism]; nil where it is no such mean.
	LeftOut func(*Digest) []float64
}

// Losses are the losses for which a criterion is defined.
type Losses int

// The squared loss alone; with it all that are negative log-likelihoods; all losses.
const (
	SquaredLoss Losses = iota
	Likelihoods
	AllLosses
)

// Fitted is what is known of one fit.
type Fitted struct {
	// Terms are those of a fit with the squared loss.
	Terms Terms
	// Loss has those of another loss, else nil.
	Loss             *LossTerms
	SURE, SUREStdErr float64
	// Criteria are the numbers that were computed with the fit.
	Criteria Criteria
	// CV is the result of refits, nil where there were none, and LGO the same by leaving out groups.
	CV, LGO *CrossValidation
	// Unresolved is the number of observations because of which leave-one-out is not known, and
	// NotLeftOut that of observations over which its mean does not go.
	Unresolved, NotLeftOut int
	// Leverages are those of the observations, nil where they are not known.
	Leverages *Leverages
}

// Information is an information criterion: minus twice the logarithm of the likelihood plus penalty for
// each degree of freedom, as in [Terms.AIC] and [LossTerms.AIC]; NaN where it is not defined.
func (f Fitted) Information(penalty float64) float64 {
	if f.Loss != nil {
		return f.Loss.information(penalty)
	}
	return f.Terms.information(penalty)
}

// rules is the table of criteria, in the order in which they are printed.
var rules = []Rule{
	{
		Name: SURE, Label: "SURE", Sigma2: true,
		Help:  `-d sigma2 + RSS + 2 sigma2 df: the squared error of mu_hat`,
		Value: func(f Fitted) (float64, float64) { return f.SURE, f.SUREStdErr },
		Text:  func(f Fitted) string { return fmt.Sprintf("%.6g per coordinate", f.SURE/float64(f.Terms.D)) },
		Unit:  func(sigma2 float64) float64 { return 1 },
	},
	{
		Name: GCV, Label: "GCV", Predicts: true, Proviso: ", as far as leverages are alike",
		Help: `d RSS / (d - df)^2, generalized cross-validation: the mean squared error of
predicting one more observation, noise included. gcv_stderr includes the error
that the trace causes, gcv_trace_stderr`,
		Value:      Fitted.gcv,
		Text:       func(Fitted) string { return "mean squared error of prediction, noise included" },
		Difference: ofGCV,
		LeftOut:    (*Digest).ofAlikeLeverages,
		Holds:      holdsGCV,
	},
	{
		Name: ALO, Label: "ALO", Diagonal: true, Predicts: true, Losses: AllLosses, Keys: []string{"alo_probe_stderr"},
		Asked: "--alo or --criterion alo",
		Help: `leave-one-out: the mean of ((y_i - mu_hat_i)/(1 - D_ii))^2, with D the derivative of
mu_hat; exact for ols and ridge. With a --loss it is the mean loss of an observation
one Newton step towards the fit without it. Those that carry the mean are left out by
fits without them, and so are all of up to 64 in a regression of one response, where
that is cheap. The probes of the trace show the diagonal of D too: alo is then an
estimate (RandALO), and alo_probe_stderr the part of alo_stderr that is due to the
probes; it takes at least 24, and not those of --trace hutch++. Where observations
have leverages (D_ii) too near to 1 for the probes alo is left out, and
alo_unresolved is their number. Where the trace takes no probes alo
comes with --alo: from the exact diagonal where that is cheap or --trace is exact, else
from 48 probes`,
		Undefined: "there some observation determines its own fit, rests on too few probes, or moves the fit to " +
			"another curvature of the loss",
		Value:      Fitted.alo,
		Text:       textOfALO,
		Difference: ofALO,
		LeftOut:    (*Digest).leftOut,
	},
	{
		Name: LGO, Label: "LGO", Blocks: true, Predicts: true, Losses: AllLosses,
		Help: `leave-group-out: the mean error of observations whose group (--groups, --blocks) is
left out, residuals (I - D_GG)^{-1} (y - mu_hat)_G by the group's block of D; exact
for ols and ridge, else one Newton step towards each refit, as alo, and refits of up
to 64 groups where alo would have them. lgo_stderr goes over groups. It needs D from
factors or its exact trace; the default with --groups`,
		Undefined: "at each of them some group determines a part of its own fit, or the blocks of the derivative are " +
			"not known",
		Value:      func(f Fitted) (float64, float64) { return f.withoutUnits(f.LGO) },
		Text:       textOfLGO,
		Difference: ofALO,
		LeftOut:    (*Digest).leftOut,
	},
	{
		Name: CV, Label: "CV", Refits: true, Predicts: true, Losses: AllLosses,
		Help: `cross-validation: the mean error of predicting observations from fits without them,
--folds by --folds, in proportion to which lambda is smaller. The error of the mean,
and that of differences, go over observations, or over the groups and blocks that are
left out together (--groups, --blocks). In a sweep that asks for it`,
		Value: func(f Fitted) (float64, float64) { return f.withoutUnits(f.CV) },
		Text: func(f Fitted) string {
			if f.CV == nil {
				return ""
			}
			return fmt.Sprintf("the same by fits without folds, over %d units", f.CV.Units)
		},
		Difference: paired,
		LeftOut:    (*Digest).leftOut,
	},
	{
		Name: AIC, Label: "AIC", Losses: Likelihoods,
		Help: `minus twice the logarithm of the likelihood, plus 2 df; without sigma2, which then
counts as a parameter, plus 2 (df + 1)`,
		Value: func(f Fitted) (float64, float64) { return f.Criteria.AIC, math.NaN() },
		Unit:  func(sigma2 float64) float64 { return sigma2 },
	},
	{
		Name: BIC, Label: "BIC", Losses: Likelihoods,
		Help:  `the same with log d in the place of 2`,
		Value: func(f Fitted) (float64, float64) { return f.Criteria.BIC, math.NaN() },
	},
}

// Register adds a criterion, which flags, help, sweeps, figures and JSON then have too. It is for init
// functions: nothing may read the table at the same time. It panics at a rule without a name, a label, help or a
// value, and at a name that is taken.
func Register(r Rule) {
	switch {
	case r.Name == "" || r.Label == "" || r.Help == "" || r.Value == nil:
		panic(fmt.Sprintf("risk: criterion %q without a name, a label, help or a value", r.Name))
	case slices.Contains(CriterionNames(), r.Name):
		panic(fmt.Sprintf("risk: a second criterion %q", r.Name))
	}
	rules = append(rules, r)
}

// Rules are the criteria.
func Rules() iter.Seq[Rule] { return slices.Values(rules) }

// CriterionNames lists the names of the criteria.
func CriterionNames() []Criterion {
	return lists.Map(rules, func(r Rule) Criterion { return r.Name })
}

// ParseCriterion is the criterion of that name.
func ParseCriterion(name string) (Criterion, error) {
	if c := Criterion(name); slices.Contains(CriterionNames(), c) {
		return c, nil
	}
	return "", fmt.Errorf("%q, expected one of %s", name, JoinCriteria(CriterionNames()))
}

// JoinCriteria is the names with commas.
func JoinCriteria(names []Criterion) string {
	texts := lists.Map(names, func(n Criterion) string { return string(n) })
	return strings.Join(texts, ", ")
}

// Rule is the rule of a criterion. One that is not in the table has a rule without a name, whose value is not
// defined.
func (c Criterion) Rule() Rule {
	for _, r := range rules {
		if r.Name == c {
			return r
		}
	}
	return Rule{Value: func(Fitted) (float64, float64) { return math.NaN(), math.NaN() }}
}

// DefaultCriterion is LGO where groups are left out together; else, for the squared loss, SURE where sigma2 is known;
// else ALO if observations that were not made are to be predicted, as by a completion; CV if columns of a small wide
// table are chosen; GCV for the squared loss and ALO for others. The least of GCV, and of leave-one-out, over fits that
// choose among many columns is far below the error of predicting another row, where rows are few.
func DefaultCriterion(sigma2 float64, squared, completes, chooses, groups bool) Criterion {
	switch {
	case groups:
		return LGO
	case squared && sigma2 > 0:
		return SURE
	case completes:
		return ALO
	case chooses:
		return CV
	case squared:
		return GCV
	}
	return ALO
}

// Serves reports that the criterion is defined for a loss, squared or, if likelihood is set, a negative
// log-likelihood.
func (r Rule) Serves(squared, likelihood bool) bool {
	return squared || r.Losses == AllLosses || r.Losses == Likelihoods && likelihood
}

// Unasked says why a sweep by criterion c has no value of this one at its points, "" where it may have one: free says
// that it costs nothing there, or is asked for.
func (r Rule) Unasked(c Criterion, free bool) string {
	if r.Asked == "" || r.Name == c || free {
		return ""
	}
	return "work of its own at every weight: " + r.Asked + " asks for it"
}

// Compares reports that differences of the criterion have standard errors.
func (r Rule) Compares(sigma2 float64) bool { return r.unit(sigma2) > 0 || r.Difference != nil }

func (r Rule) unit(sigma2 float64) float64 {
	if r.Unit == nil {
		return 0
	}
	return r.Unit(sigma2)
}

func textOfALO(f Fitted) string {
	d := f.Terms.D
	if f.Unresolved > 0 {
		return fmt.Sprintf("because of %d of %d observations", f.Unresolved, d)
	}
	if math.IsNaN(f.Criteria.ALO) {
		return ""
	}
	text := "the same by leaving out one observation"
	if f.Loss != nil {
		text = "mean loss of an observation that is left out"
	}
	if f.Criteria.ALOProbesErr > 0 {
		text += fmt.Sprintf(", from probes: ± %s", digits.Error(f.Criteria.ALOProbesErr))
	}
	if f.NotLeftOut > 0 {
		text += fmt.Sprintf("; %d of %d observations determine an effect alone and are not left out", f.NotLeftOut, d)
	}
	return text
}
