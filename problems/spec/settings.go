package spec

import (
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"surepipe/loss"
)

// Loss names a loss. The zero Loss is that of the specification, the squared one where it names
// none.
type Loss struct {
	// Name is one of [loss.Names].
	Name string
	// Parameter is that of the loss ([loss.Parameter]), such as delta of the Huber loss, in units of y; 0 where it
	// has none.
	Parameter float64
}

// Kind is the loss's row in the table.
func (l Loss) Kind() (loss.Kind, error) {
	k, ok := loss.KindOf(l.Name)
	if !ok {
		return k, fmt.Errorf("the loss is %q, expected one of %s", l.Name, strings.Join(loss.Names(), ", "))
	}
	return k, nil
}

// Squared reports that it is the squared loss.
func (l Loss) Squared() bool {
	k, err := l.Kind()
	return err == nil && k.Squared()
}

// Row is [Loss.Kind], the zero one where there is none of the name.
func (l Loss) Row() loss.Kind {
	k, _ := l.Kind()
	return k
}

// Check reports a name or a parameter that is not one.
func (l Loss) Check() error {
	k, err := l.Kind()
	if err != nil {
		return err
	}
	return k.Check(l.Parameter)
}

// Structure is what is known of the loss without weights, for so many classes where it has such; nothing of the squared
// one.
func (l Loss) Structure(classes int) (loss.Structure, error) {
	if err := l.Check(); err != nil || l.Squared() {
		return loss.Structure{}, err
	}
	f, err := l.New(loss.Observed{Classes: classes})
	if err != nil {
		return loss.Structure{}, err
	}
	return f.Structure(), nil
}

// New is the loss with what is known of the observations; l is not squared.
func (l Loss) New(o loss.Observed) (loss.Structured, error) {
	k, err := l.Kind()
	if err != nil {
		return nil, err
	}
	return k.New(o, l.Parameter)
}

// parseLoss reads the key loss: a name, or a mapping with the name and its parameter, {name: huber, delta: 1.5}.
func (s *Spec) parseLoss(n *yaml.Node) error {
	parameters := []Parameter{{Name: "name", Read: func(c *Call, v *yaml.Node, _ string) (any, error) {
		return c.spec.choice(v, c.name, loss.Names())
	}}}
	for _, k := range loss.Kinds() {
		if k.Parameter != nil {
			parameters = append(parameters, Parameter{Name: k.Parameter.Name, Read: Number, Optional: true})
		}
	}
	c := newCall(s, "loss", n.Line)
	if err := c.read(n, parameters, "one of "+strings.Join(loss.Names(), ", ")); err != nil {
		return err
	}
	s.Loss.Name = c.Text("name", "")
	k := s.Loss.Row()
	for _, p := range parameters[1:] {
		switch own := k.Parameter != nil && k.Parameter.Name == p.Name; {
		case own && !c.Given(p.Name):
			return s.Errorf(n.Line, "the %s loss has no %s, expected loss: {name: %s, %s: NUMBER}, %s", k.Name, p.Name,
				k.Name, p.Name, k.Parameter.Unit)
		case c.Given(p.Name) && !own:
			return c.Errorf(p.Name, "loss has the key %s, but the %s loss has no such parameter", p.Name, k.Name)
		case own:
			s.Loss.Parameter = c.Number(p.Name, 0)
		}
	}
	return s.At(n.Line, s.Loss.Check())
}

// Effects are unpenalized effects of the rows and columns of a matrix of which entries are observed.
// With the zero Effects there are none.
type Effects struct {
	// Mean asks for the constant c alone; Rows and Columns include it.
	Mean, Rows, Columns bool
}

const (
	effectNone    = "none"
	effectMean    = "mean"
	effectRows    = "rows"
	effectColumns = "cols"
)

// EffectNames lists the names that [ParseEffects] takes.
func EffectNames() []string { return []string{effectMean, effectRows, effectColumns, effectNone} }

// ParseEffects reads names of effects: none stands alone.
func ParseEffects(names []string) (Effects, error) {
	var e Effects
	for _, name := range names {
		switch name {
		case effectNone:
			if len(names) > 1 {
				return Effects{}, fmt.Errorf("found %s, expected none alone, or some of the others",
					strings.Join(names, ","))
			}
		case effectMean:
			e.Mean = true
		case effectRows:
			e.Mean, e.Rows = true, true
		case effectColumns:
			e.Mean, e.Columns = true, true
		default:
			return Effects{}, fmt.Errorf("found %q, expected some of %s, separated by commas", name,
				strings.Join(EffectNames(), ", "))
		}
	}
	return e, nil
}

// EffectsChoice says how the effects of a completion were chosen where nothing was said of them.
type EffectsChoice struct {
	// Why is the reason where nothing was compared.
	Why string `json:"why,omitempty"`
	// Tried are the effects that were compared, of which Best is the place of those with the least error, in Entries of
	// the Of entries.
	Tried   []EffectsTried `json:"tried,omitempty"`
	Best    int            `json:"best"`
	Entries int            `json:"entries,omitempty"`
	Of      int            `json:"of,omitempty"`
	// Optimism is about by how much, at most, the least error is too small because it was looked for.
	Optimism float64 `json:"optimism,omitempty"`
}

// EffectsTried are effects with the error of predicting an entry that is left out, the least of what was tried with
// them: Fitted says that it is one of fits, else of the effects alone.
type EffectsTried struct {
	Effects string  `json:"effects"`
	Error   float64 `json:"alo"`
	StdErr  float64 `json:"alo_stderr"`
	Fitted  bool    `json:"fitted"`
}

func (s *Spec) parseEffects(n *yaml.Node) error {
	names, err := s.names(n, "effects")
	if err != nil {
		return err
	}
	if s.Effects, err = ParseEffects(names); err != nil {
		return s.Errorf(n.Line, "effects: %v", err)
	}
	return nil
}

// Some reports whether there are any.
func (e Effects) Some() bool { return e != (Effects{}) }

// Names are the names as [ParseEffects] takes them; nil where there are none.
func (e Effects) Names() []string {
	switch {
	case e.Rows && e.Columns:
		return []string{effectRows, effectColumns}
	case e.Rows:
		return []string{effectRows}
	case e.Columns:
		return []string{effectColumns}
	case e.Mean:
		return []string{effectMean}
	}
	return nil
}

// Weight is the weight of a regularizer: a number, or a multiple of the smallest weight at which
// the estimate is zero, such as lambda_max. The zero Weight stands for one that is not given.
type Weight struct {
	// Value is the number, or with OfMax the factor of the maximum at the data's y.
	Value        float64
	OfMax, Given bool
}

// ParseWeight reads "3.5", "inf", or "0.25max" for a multiple of the maximum.
func ParseWeight(s string) (Weight, error) {
	number, relative := strings.CutSuffix(strings.TrimSpace(s), "max")
	if relative && number == "" {
		number = "1"
	}
	v, err := parseNumber(strings.TrimSpace(number))
	if err != nil || v < 0 || relative && math.IsInf(v, 0) {
		return Weight{}, fmt.Errorf("%q, expected a positive number, inf, or a multiple such as 0.25max", s)
	}
	return Weight{v, relative, true}, nil
}

// Or is w where it is given, and else the file's value, if there is one.
func (w Weight) Or(file *float64) Weight {
	if !w.Given && file != nil {
		return Weight{Value: *file, Given: true}
	}
	return w
}

// WeightError is the error for an invalid weight: its name, and what is wrong with it.
type WeightError struct {
	// Weight is "lambda", "lambda2" or "gamma".
	Weight string
	// Reason continues a sentence that begins with the weight: "is -1, expected a positive number".
	Reason string
}

func (e *WeightError) Error() string { return e.Weight + " " + e.Reason }

// WeightErrorf returns the error for a weight.
func WeightErrorf(weight, format string, args ...any) error {
	return &WeightError{weight, fmt.Sprintf(format, args...)}
}
