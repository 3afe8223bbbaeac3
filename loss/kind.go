package loss

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"surepipe/internal/lists"
)

// Kind is all that is known of a loss by its name: flags, help, specifications and reports read it.
type Kind struct {
	// Name is its name in flags, specifications and JSON. Help says in a few words what y is.
	Name, Help string
	// Parameter is the parameter that it needs, nil for none.
	Parameter *Parameter
	// Levels is how many levels a response of texts may have, whose places are then y; 0 where it must be numbers.
	Levels int
	// Transforms says that the expectation of y is not z, but a function of it.
	Transforms bool
	// Unbounded reports that y with the given least and largest value has no least intercept; nil where every y
	// has one.
	Unbounded func(least, most float64) bool
	// Columns says that y has several columns, and so has z. Classes says that they are those of classes: of a response
	// of labels those of its levels, and a constant in all of them changes nothing.
	Columns, Classes bool
	// Counts says that y, times the weights of the observations, are counts.
	Counts bool
	// Trials says that y may be numbers of successes among so many trials of each observation.
	Trials bool
	// Timed says that y are events at times, which a constant in z does not change: there is no intercept.
	Timed bool
	// New makes the loss with what is known of the observations, and the value of its parameter. It is nil for the
	// squared losses, which are [Squared] or [WeightedSquared].
	New func(o Observed, parameter float64) (Structured, error)
}

// Observed is what is known of the observations beside y: their weights, nil for ones, what z has besides A b, nil for
// nothing, their times, and the number of their classes, where the loss has such.
type Observed struct {
	Weights, Offset []float64
	Times
	Classes int
}

func (o Observed) pick(rows []int) Observed {
	for _, v := range []*[]float64{&o.Weights, &o.Offset, &o.Time, &o.Start, &o.Strata} {
		*v = lists.Pick(*v, rows)
	}
	return o
}

// Of is the loss of a function of one observation, as [Kind].New.
func Of(f Function) func(o Observed, _ float64) (Structured, error) {
	return func(o Observed, _ float64) (Structured, error) {
		l, err := New(f, o.Weights)
		if err != nil {
			return nil, err
		}
		return l.Shifted(o.Offset)
	}
}

// Parameter is a positive number that a loss needs. It has no default: one computed from y would make the estimator
// depend on y in a way that no derivative and no leave-one-out sees.
type Parameter struct {
	// Name is its key in specifications; its flag is that of the loss, a hyphen, and this.
	Name string
	// Help is that of the flag, and Unit what its values are, such as "in units of y, such as ...".
	Help, Unit string
}

// kinds is the table of losses. The squared loss is the first.
var kinds = []Kind{
	{Name: "squared"},
	{
		Name: "logistic", Help: "y is 0 or 1, or a proportion", Transforms: true, Levels: 2, Trials: true,
		Unbounded: func(least, most float64) bool { return most == 0 || least == 1 },
		New:       Of(logistic{}),
	},
	{
		Name: "multinomial", Help: "y is one of several classes", Transforms: true, Levels: mostClasses,
		Columns: true, Classes: true,
		New: func(o Observed, _ float64) (Structured, error) { return NewMultinomial(o) },
	},
	{
		Name: "mgaussian", Columns: true,
		Help: "several responses, squared, one lambda for all; group-lasso: one support",
	},
	{
		Name: "poisson", Help: "counts, log link", Transforms: true, Counts: true,
		Unbounded: func(_, most float64) bool { return most == 0 },
		New:       Of(poisson{}),
	},
	{
		Name: "huber", Help: "with --huber-delta",
		Parameter: &Parameter{
			Name: "delta",
			Help: "where the Huber loss turns from a square into a line, in units of y; 1.345 standard deviations " +
				"of the noise have 95% of least squares' efficiency under normal noise. It has no default: one " +
				"computed from y would make the estimator depend on y unseen",
			Unit: "in units of y, such as 1.345 standard deviations of the noise",
		},
		New: func(o Observed, delta float64) (Structured, error) { return Of(huber{delta})(o, 0) },
	},
	{
		Name: "cox", Help: "y is 1 for an event at --time, else 0; Breslow's ties", Levels: 2, Timed: true,
		New: func(o Observed, _ float64) (Structured, error) { return NewCox(o, false) },
	},
	{
		Name: "cox-efron", Help: "the same with Efron's ties", Levels: 2, Timed: true,
		New: func(o Observed, _ float64) (Structured, error) { return NewCox(o, true) },
	},
}

// Register adds a loss, which flags, help, specifications and reports then have too. It is for init functions: nothing
// may read the table at the same time. It panics at a row without a name, help or New, and at a name that is taken.
func Register(k Kind) {
	switch {
	case k.Name == "" || k.Help == "" || k.New == nil:
		panic(fmt.Sprintf("loss: %q without a name, help or New", k.Name))
	case slices.Contains(Names(), k.Name):
		panic(fmt.Sprintf("loss: a second loss %q", k.Name))
	}
	kinds = append(kinds, k)
}

// Kinds lists the losses, the squared one first.
func Kinds() []Kind { return slices.Clone(kinds) }

// Names lists the names of the losses.
func Names() []string {
	return lists.Map(kinds, func(k Kind) string { return k.Name })
}

// NamesThat lists the names of the losses of which something holds, separated by commas.
func NamesThat(holds func(Kind) bool) string {
	var names []string
	for _, k := range kinds {
		if holds(k) {
			names = append(names, k.Name)
		}
	}
	return strings.Join(names, ", ")
}

// KindOf is the loss of that name, the squared one for "".
func KindOf(name string) (Kind, bool) {
	for _, k := range kinds {
		if k.Name == name || name == "" {
			return k, true
		}
	}
	return Kind{}, false
}

// Squared reports that it is the squared loss, of one or several columns.
func (k Kind) Squared() bool { return k.New == nil }

// Check reports a parameter that is missing, not positive, or not the loss's; 0 stands for none.
func (k Kind) Check(parameter float64) error {
	switch {
	case k.Parameter != nil && (!(parameter > 0) || math.IsInf(parameter, 0)):
		return fmt.Errorf("%s of the %s loss is %g, expected a positive number %s", k.Parameter.Name, k.Name,
			parameter, k.Parameter.Unit)
	case k.Parameter == nil && parameter != 0:
		return fmt.Errorf("the parameter of the loss is %g, but the %s loss has none", parameter, k.Name)
	}
	return nil
}
