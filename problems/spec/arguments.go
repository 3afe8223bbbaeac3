package spec

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/prox"
)

// Form is one way to write an operator or a regularizer, and what it means, in lines of at most 95 columns.
type Form struct{ Syntax, Meaning string }

// Parameter is an argument of an operator or a regularizer: a key of the mapping behind its name. A parameter
// without a name is the only one, and what stands behind the name is its value.
type Parameter struct {
	Name string
	// Read reads the value: [Number], [Count] and the others of its type.
	Read     Reader
	Optional bool
}

// Reader reads the value of a parameter. what names it in errors.
type Reader func(c *Call, v *yaml.Node, what string) (any, error)

// Call is a name with arguments in a specification, such as an operator or a regularizer. The arguments have been
// read.
type Call struct {
	spec   *Spec
	name   string
	line   int
	values map[string]any
	lines  map[string]int
	// uses are the weights among the arguments.
	uses []Use
}

func newCall(s *Spec, name string, line int) Call {
	return Call{spec: s, name: name, line: line, values: map[string]any{}, lines: map[string]int{}}
}

// Given reports whether an argument is there.
func (c *Call) Given(key string) bool { return c.lines[key] > 0 }

// Errorf is an error at the line of an argument, or of the call where that is missing.
func (c *Call) Errorf(key, format string, args ...any) error {
	line := c.line
	if c.Given(key) {
		line = c.lines[key]
	}
	return c.spec.Errorf(line, format, args...)
}

func argument[T any](c *Call, key string, missing T) T {
	if v, ok := c.values[key].(T); ok {
		return v
	}
	return missing
}

func (c *Call) ref(key string) *arrayRef { return argument[*arrayRef](c, key, nil) }

// Number is the value of an argument read by [Number], or another number where it is missing.
func (c *Call) Number(key string, missing float64) float64 { return argument(c, key, missing) }

// Count is the value of an argument read by [Count], or another number where it is missing.
func (c *Call) Count(key string, missing int) int { return argument(c, key, missing) }

// Truth is the value of an argument read by [Truth], false where it is missing.
func (c *Call) Truth(key string) bool { return argument(c, key, false) }

// Text is the value of an argument read by [Text] or [Choice], or another text where it is missing.
func (c *Call) Text(key, missing string) string { return argument(c, key, missing) }

// Shape is the value of an argument read by [Shape], nil where it is missing.
func (c *Call) Shape(key string) []int { return argument[[]int](c, key, nil) }

// Weight is the value of an argument read by [PositiveWeight] or its like.
func (c *Call) Weight(key string) Expr { return argument(c, key, Expr{}) }

// Arguments are those of a call whose arrays have been read, for data on a device.
type Arguments struct {
	*Call
	*builder
}

// Device is where operators and regularizers are to hold their arrays.
func (a *Arguments) Device() array.Device { return a.dev }

// Errorf is that of the call.
func (a *Arguments) Errorf(key, format string, args ...any) error {
	return a.Call.Errorf(key, format, args...)
}

// Array is the array of an argument read by [Numbers], alone or in [NumberOr]; ok is false where it is none.
func (a *Arguments) Array(key string) (v dataio.Array, ok bool) {
	ref := a.ref(key)
	if ref == nil {
		return v, false
	}
	return a.loaded[ref].Array, true
}

// Each is an array with a number for each of n things; what begins the error for another one: "weights have".
func (a *Arguments) Each(key, what string, n int, thing string) ([]float64, error) {
	v, _ := a.Array(key)
	if len(v.Data) != n {
		return nil, a.Errorf(key, "%s %d values, expected %d, one for each %s", what, len(v.Data), n, thing)
	}
	return v.Data, nil
}

// Repeated is the array of an argument read by [Numbers] in [NumberOr], or its number n times.
func (a *Arguments) Repeated(key string, n int, missing float64) ([]float64, error) {
	if _, ok := a.Array(key); ok {
		return a.Each(key, key+" has", n, "entry of b")
	}
	return slices.Repeat([]float64{a.Number(key, missing)}, n), nil
}

// Integers is an array of integers.
func (a *Arguments) Integers(key string) ([]int, error) {
	v, err := a.loaded[a.ref(key)].integers()
	if err != nil {
		return nil, a.Errorf(key, "%w", err)
	}
	return v, nil
}

// Keep hands a regularizer that may hold device memory over to the problem, which alone releases it.
func (a *Arguments) Keep(r prox.Prox, err error) (prox.Prox, error) {
	if err != nil {
		return nil, a.Errorf("", "%w", Trim(err))
	}
	a.parts.Own(func() { prox.Release(r) })
	return prox.Lent(r), nil
}

func noneGiven(args *yaml.Node) bool {
	return args == nil || args.Kind == yaml.MappingNode && len(args.Content) == 0
}

// read reads the arguments of a call; syntax is how it is written, for errors. A value that is no mapping stands
// for the first parameter.
func (c *Call) read(args *yaml.Node, parameters []Parameter, syntax string) error {
	s := c.spec
	needed := slices.IndexFunc(parameters, func(p Parameter) bool { return !p.Optional })
	switch {
	case len(parameters) == 0 && !noneGiven(args):
		return s.Errorf(args.Line, "%s has arguments, expected none", c.name)
	case args == nil && needed >= 0:
		return s.Errorf(c.line, "%s has no arguments, expected %s", c.name, syntax)
	case noneGiven(args) && needed < 0:
		return nil
	}
	first := parameters[0]
	if args.Kind != yaml.MappingNode || first.Name == "" {
		what := first.Name
		if what == "" {
			what = c.name
		}
		if err := c.readOne(first, args, what); err != nil {
			return err
		}
	} else {
		names := lists.Map(parameters, func(p Parameter) string { return p.Name })
		f, err := s.fields(args, c.name, names...)
		if err != nil {
			return err
		}
		for _, p := range parameters {
			if v := f[p.Name]; v != nil {
				if err := c.readOne(p, v, p.Name); err != nil {
					return err
				}
			}
		}
	}
	for _, p := range parameters {
		if !p.Optional && !c.Given(p.Name) {
			return s.Errorf(c.line, "%s has no %s, expected %s", c.name, p.Name, syntax)
		}
	}
	return nil
}

func (c *Call) readOne(p Parameter, v *yaml.Node, what string) error {
	value, err := p.Read(c, v, what)
	if err != nil {
		return err
	}
	c.values[p.Name], c.lines[p.Name] = value, v.Line
	return nil
}

var (
	// Number reads a number.
	Number Reader = func(c *Call, v *yaml.Node, what string) (any, error) { return c.spec.number(v, what) }
	// Count reads a positive integer.
	Count Reader = func(c *Call, v *yaml.Node, what string) (any, error) { return c.spec.positive(v, what) }
	// Truth reads true or false.
	Truth Reader = func(c *Call, v *yaml.Node, what string) (any, error) { return c.spec.truth(v, what) }
	// Text reads a text.
	Text Reader = func(c *Call, v *yaml.Node, what string) (any, error) { return c.spec.text(v, what) }
	// Shape reads a positive integer or a list of two.
	Shape Reader = func(c *Call, v *yaml.Node, what string) (any, error) { return c.spec.shape(v, what) }
	// Numbers reads the name of an array, or a list of numbers.
	Numbers Reader = func(c *Call, v *yaml.Node, what string) (any, error) { return c.spec.ref(v, what) }
	// PositiveWeight reads a weight: a number, one of the names of weights, or a multiple of it. It may be inf.
	PositiveWeight = weightReader(false, false)
	// FiniteWeight is PositiveWeight without inf, and FiniteWeightOrZero may be 0.
	FiniteWeight       = weightReader(false, true)
	FiniteWeightOrZero = weightReader(true, true)
)

// Choice reads one of some texts.
func Choice(among ...string) Reader {
	return func(c *Call, v *yaml.Node, what string) (any, error) { return c.spec.choice(v, what, among) }
}

// NumberThat reads a number that satisfies a condition; expected says which, for errors.
func NumberThat(satisfies func(x float64) bool, expected string) Reader {
	return func(c *Call, v *yaml.Node, what string) (any, error) {
		x, err := c.spec.number(v, what)
		if err == nil && !satisfies(x) {
			err = c.spec.Errorf(v.Line, "%s is %g, expected %s", what, x, expected)
		}
		return x, err
	}
}

var (
	// Positive reads a positive finite number.
	Positive = NumberThat(func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }, "a positive finite number")
	notZero  = NumberThat(func(x float64) bool { return x != 0 && !math.IsInf(x, 0) },
		"a finite number that is not 0")
	share = NumberThat(func(x float64) bool { return x > 0 && x < 1 }, "a number between 0 and 1")
)

func integerFrom(least, most int) Reader {
	return NumberThat(func(x float64) bool {
		return x == math.Trunc(x) && x >= float64(least) && x <= float64(most)
	}, fmt.Sprintf("an integer from %d to %d", least, most))
}

// NumberOr reads a number, or else what another reader does.
func NumberOr(other Reader) Reader {
	return func(c *Call, v *yaml.Node, what string) (any, error) {
		if x, number := asNumber(v); number {
			return x, nil
		}
		return other(c, v, what)
	}
}

func weightReader(zero, finite bool) Reader {
	return func(c *Call, v *yaml.Node, what string) (any, error) {
		e, err := c.spec.weight(v, what, zero, finite)
		c.uses = append(c.uses, Use{e, v.Line, zero, finite})
		return e, err
	}
}

// table finds the row of a name in the table of operators or regularizers.
type table[K any] struct {
	what string
	rows []K
	name func(K) string
}

func (t *table[K]) find(s *Spec, at *yaml.Node) (row K, c Call, args *yaml.Node, err error) {
	names := lists.Map(t.rows, t.name)
	name, args, line, err := s.head(at, t.what, names)
	if err != nil {
		return row, c, nil, err
	}
	return t.rows[slices.Index(names, name)], newCall(s, name, line), args, nil
}

func (t *table[K]) add(row K, complete bool) {
	if !complete || slices.ContainsFunc(t.rows, func(k K) bool { return t.name(k) == t.name(row) }) {
		panic(fmt.Sprintf("spec: %s %q without a name, help or Build, or a second one of that name", t.what,
			t.name(row)))
	}
	t.rows = append(t.rows, row)
}

// help lists forms. A syntax that is too long for its column has a line of its own.
func help(forms []Form) string {
	const column = 35
	var s strings.Builder
	for _, f := range forms {
		if len(f.Syntax) > column {
			fmt.Fprintf(&s, "  %s\n", f.Syntax)
			f.Syntax = ""
		}
		if f.Meaning == "" {
			continue
		}
		for line := range strings.SplitSeq(f.Meaning, "\n") {
			fmt.Fprintf(&s, "  %-*s %s\n", column, f.Syntax, line)
			f.Syntax = ""
		}
	}
	return s.String()
}
