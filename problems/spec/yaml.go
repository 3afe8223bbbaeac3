package spec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/internal/stored"
)

// fields are those of a mapping with some of the known keys. what names it in errors.
func (s *Spec) fields(n *yaml.Node, what string, known ...string) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, s.Errorf(n.Line, "%s is %s, expected a mapping with keys among %s", what, describe(n),
			strings.Join(known, ", "))
	}
	f := map[string]*yaml.Node{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if err := s.plain(key); err != nil {
			return nil, err
		}
		if err := s.plain(value); err != nil {
			return nil, err
		}
		switch {
		case !slices.Contains(known, key.Value):
			if hint := analysisHint(key.Value); hint != "" {
				return nil, s.Errorf(key.Line, "key %q in %s: %s", key.Value, what, hint)
			}
			return nil, s.Errorf(key.Line, "key %q in %s is unknown%s; expected %s", key.Value, what,
				ndarray.Meant(key.Value, known), oneOf(known))
		case f[key.Value] != nil:
			return nil, s.Errorf(key.Line, "key %q in %s occurs twice", key.Value, what)
		case isNull(value):
			return nil, s.Errorf(key.Line, "key %q in %s has no value", key.Value, what)
		}
		f[key.Value] = value
	}
	return f, nil
}

func (s *Spec) plain(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return s.Errorf(n.Line, "anchors and aliases are not allowed in a specification")
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if isNull(n) {
			return "empty"
		}
		return fmt.Sprintf("%.40q", n.Value)
	}
	return "an alias"
}

func (s *Spec) text(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		return "", s.Errorf(n.Line, "%s is %s, expected a single value", what, describe(n))
	}
	return n.Value, s.plain(n)
}

func (s *Spec) number(n *yaml.Node, what string) (float64, error) {
	text, err := s.text(n, what)
	if err != nil {
		return 0, err
	}
	v, err := parseNumber(text)
	if err != nil {
		return 0, s.Errorf(n.Line, "%s is %.40q, expected a number", what, text)
	}
	return v, nil
}

// asNumber is the number that a scalar is, if it is one.
func asNumber(v *yaml.Node) (x float64, number bool) {
	x, err := parseNumber(v.Value)
	return x, v.Kind == yaml.ScalarNode && err == nil
}

func parseNumber(text string) (float64, error) {
	if v, ok := dataio.ParseNumber(text); ok {
		return v, nil
	}
	rest, negative := strings.CutPrefix(text, "-")
	if rest = strings.TrimPrefix(strings.TrimPrefix(rest, "+"), "."); strings.EqualFold(rest, "inf") {
		return math.Inf(map[bool]int{false: 1, true: -1}[negative]), nil
	}
	return 0, errors.New("not a number")
}

func (s *Spec) positive(n *yaml.Node, what string) (int, error) {
	text, err := s.text(n, what)
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 || v > math.MaxInt32 {
		return 0, s.Errorf(n.Line, "%s is %.40q, expected a positive integer", what, text)
	}
	return v, nil
}

func (s *Spec) truth(n *yaml.Node, what string) (bool, error) {
	text, err := s.choice(n, what, []string{"true", "false"})
	return text == "true", err
}

func (s *Spec) choice(n *yaml.Node, what string, among []string) (string, error) {
	text, err := s.text(n, what)
	if err != nil {
		return "", err
	}
	if !slices.Contains(among, text) {
		return "", s.Errorf(n.Line, "%s is %.40q%s, expected %s", what, text, ndarray.Meant(text, among), oneOf(among))
	}
	return text, nil
}

// shape reads a positive integer or a list of one or two, of an array that memory can hold.
func (s *Spec) shape(n *yaml.Node, what string) (shape []int, err error) {
	if n.Kind != yaml.SequenceNode {
		v, err := s.positive(n, what)
		if err == nil {
			err = s.fits(n.Line, []int{v}, what)
		}
		return []int{v}, err
	}
	if len(n.Content) < 1 || len(n.Content) > 2 {
		return nil, s.Errorf(n.Line, "%s has %d numbers, expected [n] or [m, n]", what, len(n.Content))
	}
	for _, c := range n.Content {
		v, err := s.positive(c, what)
		if err != nil {
			return nil, err
		}
		shape = append(shape, v)
	}
	if lists.Product(shape) > math.MaxInt32 {
		return nil, s.Errorf(n.Line, "%s is %s, expected at most %d entries", what, ndarray.ShapeString(shape),
			math.MaxInt32)
	}
	return shape, s.fits(n.Line, shape, what)
}

// vectors is the least number of vectors, such as b and the gradient, that a solver holds at once.
const vectors = 4

// fits is the error for arrays that take more than the memory there is.
func (s *Spec) fits(line int, shape []int, what string) error {
	if err := fits(shape, what); err != nil {
		return s.Errorf(line, "%w", err)
	}
	return nil
}

func fits(shape []int, what string) error {
	if n := lists.Product(shape); n > 1<<20 {
		return stored.Fits(fmt.Sprintf("an estimate with %s %s", what, ndarray.ShapeString(shape)),
			8*vectors*float64(n))
	}
	return nil
}

// head reads a node that is a name with arguments: "name", or "name: arguments".
func (s *Spec) head(n *yaml.Node, what string, known []string) (name string, args *yaml.Node, line int, err error) {
	if err := s.plain(n); err != nil {
		return "", nil, 0, err
	}
	switch {
	case n.Kind == yaml.ScalarNode && !isNull(n):
		name, line = n.Value, n.Line
	case n.Kind == yaml.MappingNode && len(n.Content) == 2:
		name, args, line = n.Content[0].Value, n.Content[1], n.Content[0].Line
		if err := s.plain(args); err != nil {
			return "", nil, 0, err
		}
		if isNull(args) {
			args = nil
		}
	case n.Kind == yaml.MappingNode && len(n.Content) > 2:
		return "", nil, 0, s.Errorf(n.Line, "%s has the keys %s, expected a single one, one of %s", what, keysOf(n),
			strings.Join(known, ", "))
	default:
		return "", nil, 0, s.Errorf(n.Line, "%s is %s, expected one of %s", what, describe(n),
			strings.Join(known, ", "))
	}
	if !slices.Contains(known, name) {
		if hint := analysisHint(name); hint != "" {
			return "", nil, 0, s.Errorf(line, "%s %q: %s", what, name, hint)
		}
		return "", nil, 0, s.Errorf(line, "%s %.40q is unknown%s; expected %s", what, name,
			ndarray.Meant(name, known), oneOf(known))
	}
	return name, args, line, nil
}

func keysOf(n *yaml.Node) string {
	keys := []string{}
	for i := 0; i < len(n.Content); i += 2 {
		keys = append(keys, strconv.Quote(n.Content[i].Value))
	}
	return strings.Join(keys, ", ")
}

// analysisHint is the hint for a key that asks for the penalty of an analysis operator, "" for
// other keys.
func analysisHint(key string) string {
	switch strings.ToLower(strings.NewReplacer("_", "-", " ", "-").Replace(key)) {
	case "analysis", "tv", "tv2d", "tv-2d", "total-variation", "of", "transform", "operator":
		return "a penalty r(D b) of an analysis operator D is a term: expected terms: in place of regularizer:, " +
			"such as terms: [{operator: gradient, regularizer: {joint-l2: lambda}}], which is total variation"
	}
	return ""
}

func oneOf(known []string) string {
	if len(known) == 1 {
		return known[0]
	}
	return "one of " + strings.Join(known, ", ")
}
