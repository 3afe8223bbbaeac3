package request

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/internal/lists"
	"surepipe/problems"
	"surepipe/study"
)

// scope are options that some problems have.
type scope struct {
	options []string
	serves  func(l problems.Layout) bool
	// instead is what a specification has in their place, "" where the options are for specifications too.
	instead string
}

func hasDesign(l problems.Layout) bool    { return l.Design }
func hasIsotropic(l problems.Layout) bool { return l.Isotropic }

// scopes are the options that not all problems have.
var scopes = []scope{
	{[]string{"D"}, func(l problems.Layout) bool { return l.Analysis },
		"a specification names the files of its matrices"},
	{[]string{"standardize"}, func(l problems.Layout) bool { return l.Design || l.Selection }, ""},
	{[]string{"intercept", "storage", "success", "factors", "lower", "upper"}, hasDesign, ""},
	{[]string{"weights"}, func(l problems.Layout) bool { return l.Design || l.Selection },
		"a specification has the key weights"},
	{(design.Beside{}).Options()[1:], hasDesign, ""}, // all but the weights
	{[]string{"vectorial"}, hasIsotropic, "in a specification, joint-l2: {weight: lambda, vectorial: true} has it"},
	{[]string{"anisotropic"}, hasIsotropic,
		"in a specification, give the gradient the regularizer l1 in place of joint-l2"},
	{[]string{"order"}, func(l problems.Layout) bool { return l.Orders != problems.Orders{} },
		"in a specification, trend: {order: 1} or differences: {order: 1} has it"},
	{[]string{"effects"}, func(l problems.Layout) bool { return l.Selection }, ""},
	{[]string{"column-groups"}, func(l problems.Layout) bool { return l.Groups },
		"a specification names the array of its groups"},
	{[]string{"index"}, problems.Layout.Sequence, ""},
}

// checkScopes rejects options that the problem does not have. Those that are switched off are not asked for.
func (r *Request) checkScopes(l problems.Layout) error {
	if r.StandardizeAuto && (!l.Selection || r.Spec != "") {
		return study.Errorf("--standardize is auto, which is for %s, expected true or false",
			problems.List(func(l problems.Layout) bool { return l.Selection }))
	}
	on := map[string]bool{"standardize": r.Standardize, "intercept": r.Intercept, "vectorial": r.Vectorial,
		"anisotropic": r.Anisotropic, "effects": r.Effects.Some()}
	for _, s := range scopes {
		found, served, also, but := "--problem "+r.Problem, s.serves(l), " and specifications", ""
		if s.instead != "" {
			also, but = "", "; "+s.instead
		}
		if r.Spec != "" {
			found, served = "--spec", s.instead == ""
		}
		for _, option := range s.options {
			asked, switched := on[option]
			if !switched {
				asked = r.Given(option)
			}
			if asked && !served {
				return study.Errorf("--%s is for %s%s, found %s%s", option,
					strings.Join(problems.Those(s.serves), ", "), also, found, but)
			}
		}
	}
	return nil
}

// value is that of an option, whether it is one that the option may have, and what is expected.
type value struct {
	option   string
	found    any
	holds    bool
	expected string
}

// checkValues rejects the first value that the option may not have.
func checkValues(all ...value) error {
	for _, v := range all {
		if !v.holds {
			return study.Errorf("--%s is %v, expected %s", v.option, v.found, v.expected)
		}
	}
	return nil
}

// chosen is a value that is one of some texts.
func chosen[T ~string](option string, found T, among ...T) value {
	texts := lists.Map(among, func(t T) string { return string(t) })
	return value{option, strconv.Quote(string(found)), slices.Contains(among, found),
		"one of " + strings.Join(texts, ", ") + ndarray.Meant(string(found), texts)}
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
