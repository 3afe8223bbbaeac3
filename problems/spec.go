package problems

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"surepipe/internal/dataio"
	"surepipe/vjp"
)

// Spec is a problem described in a file, in YAML:
//
//	name: wavelet-denoise            # default: the file's name
//	data:                            # files are relative to this file's folder
//	  file: image.png                # the arrays' file; --data replaces it
//	  mu: truth.npy                  # any array by name, from a file of its own
//	operator: identity               # y = A b + noise
//	synthesis:                       # optional: A = operator synthesis
//	  adjoint: {wavelet: {family: db4, levels: 4}}
//	regularizer:
//	  l1: {weight: lambda, unpenalized: averages}
//	lambda: 0.1                      # and lambda2, gamma: a number, inf, or 0.1max
//	sigma2: auto                     # a number, auto, or a method's name
//	solver: {name: fista, tol: 1e-8, max-iter: 10000, derivative: auto}
//
// [SpecHelp] describes the operators and the regularizers. A Spec is parsed by
// [ParseSpec] or [ReadSpec]; [Spec.Load] reads its files, and [New] builds it.
//
// A weight may be a number, one of the names lambda, lambda2 and gamma, or a
// multiple of one, as 0.5*lambda. A name's value is the first given of: the Hyper of
// New, the Spec, the data file's scalar of that name. A value of 0.1max is a tenth of
// the smallest weight at which every block of b that bears the name is zero at
// b = 0: the dual norm of A*y there, for the norms (l1, elastic-net, l2, group-l2,
// group-linf, sorted-l1, nuclear). Coordinates without any penalty (unpenalized ones,
// those of no group, of zero) are free there: the dual norm is that of A*(y - P y), P the
// projection on their columns of A, of which there may be 256. Where other coordinates
// of b are not held by a norm (a tv1d, whose constants are free; other blocks), a
// maximum is known only if A has orthogonal columns of equal norm, and 0.1max is
// refused elsewhere.
type Spec struct {
	// Name is the problem's, Path that of the file, for errors.
	Name, Path string
	// Sigma2Method is one of Sigma2Methods, or "" where sigma2 is a number or not
	// given.
	Sigma2Method string
	// Solver are options that the file asks for; zero values are not given.
	Solver SpecSolver

	source      []byte
	data        dataSection
	weights     map[string]*specWeight // by name: lambda, lambda2, gamma
	sigma2      *float64
	operator    *operatorNode
	synthesis   *operatorNode
	regularizer *regularizerNode
	refs        []*arrayRef
	images      bool

	loaded map[*arrayRef]*loadedArray
}

// SpecSolver are the options of a solve that a Spec asks for.
type SpecSolver struct {
	// Name is that of vjp.Solvers, or "auto" or "".
	Name       string
	Tol        float64
	MaxIter    int
	Derivative vjp.Derivative
}

// specWeight is the value of lambda, lambda2 or gamma that a file gives.
type specWeight struct {
	line   int
	weight Weight
}

// SpecError is an error at a line of a specification.
type SpecError struct {
	Path string
	Line int
	Err  error
}

func (e *SpecError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }

// Unwrap is the error without the place.
func (e *SpecError) Unwrap() error { return e.Err }

// at gives an error its place, unless it has one.
func (s *Spec) at(line int, err error) error {
	var placed *SpecError
	if err == nil || errors.As(err, &placed) {
		return err
	}
	return &SpecError{s.Path, line, err}
}

func (s *Spec) errorf(line int, format string, args ...any) error {
	return &SpecError{s.Path, line, fmt.Errorf(format, args...)}
}

// weightNames are the names that a specification may give its weights.
var weightNames = []string{"lambda", "lambda2", "gamma"}

// ReadSpec is ParseSpec of a file.
func ReadSpec(path string) (*Spec, error) {
	// More than this is no file that a person wrote.
	const most = 1 << 20
	info, err := os.Stat(path)
	switch {
	case err != nil:
		var reason *os.PathError
		if errors.As(err, &reason) {
			err = reason.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	case info.Size() > most:
		return nil, fmt.Errorf("%s: %d bytes, expected a specification in YAML of at most %d", path, info.Size(), most)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	return ParseSpec(text, path)
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// ParseSpec parses a specification. path names it in errors, and its folder is what
// relative file names in it start from. Errors are SpecErrors and give the line, what
// was found and what was expected.
func ParseSpec(text []byte, path string) (*Spec, error) {
	s := &Spec{Path: path, source: slices.Clone(text), weights: map[string]*specWeight{}}
	s.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		message, line := err.Error(), 1
		if m := yamlLine.FindStringSubmatch(message); m != nil {
			line, _ = strconv.Atoi(m[1])
			message = message[len(m[0]):]
		}
		if at := tabIndent(text, line); at > 0 {
			return nil, s.errorf(at, "not YAML: a tab in the indentation; indent with spaces, not tabs")
		}
		return nil, s.errorf(line, "not YAML: %s", strings.TrimPrefix(message, "yaml: "))
	}
	if len(doc.Content) == 0 {
		return nil, s.errorf(1, "the file is empty, expected a specification with the keys data, operator and regularizer")
	}
	if err := s.parse(doc.Content[0]); err != nil {
		return nil, err
	}
	return s, nil
}

// tabIndent is the line with a tab in its indentation at which YAML's parser stopped,
// which names that line or the one before; 0 if there is none.
func tabIndent(text []byte, line int) int {
	lines := strings.Split(string(text), "\n")
	for at := max(line, 1); at <= min(line+1, len(lines)); at++ {
		content := strings.TrimLeft(lines[at-1], " \t")
		if strings.Contains(strings.TrimSuffix(lines[at-1], content), "\t") && strings.TrimSpace(content) != "" {
			return at
		}
	}
	return 0
}

func (s *Spec) parse(root *yaml.Node) error {
	f, err := s.fields(root, "a specification", "name", "data", "operator", "synthesis", "regularizer", "lambda", "lambda2", "gamma", "sigma2", "solver")
	if err != nil {
		return err
	}
	for _, key := range []string{"data", "operator", "regularizer"} {
		if f.nodes[key] == nil {
			return s.errorf(root.Line, "key %q is missing, expected a specification with data, operator and regularizer", key)
		}
	}
	if n := f.nodes["name"]; n != nil {
		if s.Name, err = s.text(n, "name"); err != nil {
			return err
		}
		if s.Name == "" {
			return s.errorf(n.Line, "name is empty")
		}
	}
	if err := s.parseData(f.nodes["data"]); err != nil {
		return err
	}
	if s.operator, err = s.parseOperator(f.nodes["operator"]); err != nil {
		return err
	}
	if n := f.nodes["synthesis"]; n != nil {
		if s.synthesis, err = s.parseOperator(n); err != nil {
			return err
		}
	}
	if s.regularizer, err = s.parseRegularizer(f.nodes["regularizer"]); err != nil {
		return err
	}
	for _, name := range weightNames {
		n := f.nodes[name]
		if n == nil {
			continue
		}
		text, err := s.text(n, name)
		if err != nil {
			return err
		}
		w, err := ParseWeight(text)
		if err != nil {
			return s.errorf(n.Line, "%s is %w", name, err)
		}
		if !slices.ContainsFunc(s.regularizer.uses(), func(u weightUse) bool { return u.expr.name == name }) {
			return s.errorf(n.Line, "%s has a value, but no weight in regularizer is %s", name, name)
		}
		s.weights[name] = &specWeight{n.Line, w}
	}
	if n := f.nodes["sigma2"]; n != nil {
		if err := s.parseSigma2(n); err != nil {
			return err
		}
	}
	if n := f.nodes["solver"]; n != nil {
		return s.parseSolver(n)
	}
	return nil
}

func (s *Spec) parseSigma2(n *yaml.Node) error {
	text, err := s.text(n, "sigma2")
	if err != nil {
		return err
	}
	if slices.Contains(Sigma2Methods(), text) {
		s.Sigma2Method = text
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return s.errorf(n.Line, "sigma2 is %q, expected a positive number or one of %s", text, strings.Join(Sigma2Methods(), ", "))
	}
	s.sigma2 = &v
	return nil
}

func (s *Spec) parseSolver(n *yaml.Node) error {
	name := n
	if n.Kind == yaml.MappingNode {
		f, err := s.fields(n, "solver", "name", "tol", "max-iter", "derivative")
		if err != nil {
			return err
		}
		if v := f.nodes["tol"]; v != nil {
			if s.Solver.Tol, err = s.number(v, "tol"); err != nil {
				return err
			}
			if !(s.Solver.Tol > 0) || s.Solver.Tol >= 1 {
				return s.errorf(v.Line, "tol is %g, expected a number between 0 and 1 (b = 0 is at 1)", s.Solver.Tol)
			}
		}
		if v := f.nodes["max-iter"]; v != nil {
			if s.Solver.MaxIter, err = s.positive(v, "max-iter"); err != nil {
				return err
			}
		}
		if v := f.nodes["derivative"]; v != nil {
			kinds := []string{}
			for _, d := range vjp.Derivatives() {
				kinds = append(kinds, string(d))
			}
			d, err := s.choice(v, "derivative", kinds)
			if err != nil {
				return err
			}
			s.Solver.Derivative = vjp.Derivative(d)
		}
		if name = f.nodes["name"]; name == nil {
			return nil
		}
	}
	var err error
	s.Solver.Name, err = s.choice(name, "solver", append([]string{"auto"}, vjp.Solvers()...))
	return err
}

// section is a mapping whose keys are known.
type section struct {
	line  int
	nodes map[string]*yaml.Node
}

// fields reads a mapping with some of the known keys. what it is, for errors.
func (s *Spec) fields(n *yaml.Node, what string, known ...string) (section, error) {
	if n.Kind != yaml.MappingNode {
		return section{}, s.errorf(n.Line, "%s is %s, expected a mapping with keys among %s", what, describe(n), strings.Join(known, ", "))
	}
	f := section{n.Line, map[string]*yaml.Node{}}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if err := s.plain(key); err != nil {
			return section{}, err
		}
		if err := s.plain(value); err != nil {
			return section{}, err
		}
		switch {
		case !slices.Contains(known, key.Value):
			if hint := analysisHint(key.Value); hint != "" {
				return section{}, s.errorf(key.Line, "key %q in %s: %s", key.Value, what, hint)
			}
			return section{}, s.errorf(key.Line, "key %q in %s is unknown%s; expected %s", key.Value, what, meant(key.Value, known), oneOf(known))
		case f.nodes[key.Value] != nil:
			return section{}, s.errorf(key.Line, "key %q in %s is there twice", key.Value, what)
		case isNull(value):
			return section{}, s.errorf(key.Line, "key %q in %s has no value", key.Value, what)
		}
		f.nodes[key.Value] = value
	}
	return f, nil
}

// has tells whether a key is there.
func (f section) has(key string) bool { return f.nodes[key] != nil }

// ownShape reads the key "shape"; nil where it is not there.
func (s *Spec) ownShape(f section) ([]int, error) {
	if !f.has("shape") {
		return nil, nil
	}
	return s.shape(f.nodes["shape"], "shape")
}

// specNode is what every node of an operator or a regularizer has.
type specNode struct {
	kind string
	line int
}

// A specKind is one operator, or one regularizer, of a specification. N is the type of
// its nodes.
type specKind[N any] struct {
	name, help string
	parse      func(s *Spec, n *N, args *yaml.Node) error
}

// parseNode parses a node of one of the kinds. what they are, for errors.
func parseNode[N any](s *Spec, n *yaml.Node, what string, kinds []specKind[N], newNode func(specNode) *N) (*N, error) {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	name, args, line, err := s.head(n, what, names)
	if err != nil {
		return nil, err
	}
	node := newNode(specNode{name, line})
	if err := kinds[slices.Index(names, name)].parse(s, node, args); err != nil {
		return nil, err
	}
	return node, nil
}

// required reports arguments that are missing.
func (s *Spec) required(n specNode, args *yaml.Node, expected string) error {
	if args == nil {
		return s.errorf(n.line, "%s has no arguments, expected %s", n.kind, expected)
	}
	return nil
}

// keys reads the arguments of a node that takes a mapping: with known keys, which are
// whole.
func (s *Spec) keys(n specNode, args *yaml.Node, expected string, whole func(section) bool, known ...string) (section, error) {
	if err := s.required(n, args, expected); err != nil {
		return section{}, err
	}
	f, err := s.fields(args, n.kind, known...)
	if err == nil && !whole(f) {
		err = s.errorf(n.line, "%s has the keys %s, expected %s", n.kind, keysOf(args), expected)
	}
	return f, err
}

// plain refuses what a specification has no use for.
func (s *Spec) plain(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return s.errorf(n.Line, "anchors and aliases have no meaning in a specification")
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe says what a node is, for errors.
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
		return "", s.errorf(n.Line, "%s is %s, expected a single value", what, describe(n))
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
		return 0, s.errorf(n.Line, "%s is %.40q, expected a number", what, text)
	}
	return v, nil
}

// parseNumber is a number as YAML and Go write it, .inf and inf among them.
func parseNumber(text string) (float64, error) {
	switch strings.ToLower(text) {
	case ".inf", "+.inf":
		return math.Inf(1), nil
	case "-.inf":
		return math.Inf(-1), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && math.IsNaN(v) {
		err = errors.New("not a number")
	}
	return v, err
}

// positive reads a positive integer.
func (s *Spec) positive(n *yaml.Node, what string) (int, error) {
	text, err := s.text(n, what)
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 || v > math.MaxInt32 {
		return 0, s.errorf(n.Line, "%s is %.40q, expected a positive integer", what, text)
	}
	return v, nil
}

func (s *Spec) choice(n *yaml.Node, what string, among []string) (string, error) {
	text, err := s.text(n, what)
	if err != nil {
		return "", err
	}
	if !slices.Contains(among, text) {
		return "", s.errorf(n.Line, "%s is %.40q%s, expected %s", what, text, meant(text, among), oneOf(among))
	}
	return text, nil
}

// shape reads a positive integer or a list of one or two.
func (s *Spec) shape(n *yaml.Node, what string) ([]int, error) {
	if n.Kind != yaml.SequenceNode {
		v, err := s.positive(n, what)
		return []int{v}, err
	}
	if len(n.Content) < 1 || len(n.Content) > 2 {
		return nil, s.errorf(n.Line, "%s has %d numbers, expected [n] or [m, n]", what, len(n.Content))
	}
	shape := make([]int, len(n.Content))
	for i, c := range n.Content {
		v, err := s.positive(c, what)
		if err != nil {
			return nil, err
		}
		shape[i] = v
	}
	if length(shape) > math.MaxInt32 {
		return nil, s.errorf(n.Line, "%s is %s, expected at most %d entries", what, formatShape(shape), math.MaxInt32)
	}
	return shape, nil
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
		return "", nil, 0, s.errorf(n.Line, "%s has the keys %s, expected a single one, one of %s", what, keysOf(n), strings.Join(known, ", "))
	default:
		return "", nil, 0, s.errorf(n.Line, "%s is %s, expected one of %s", what, describe(n), strings.Join(known, ", "))
	}
	if !slices.Contains(known, name) {
		if hint := analysisHint(name); hint != "" {
			return "", nil, 0, s.errorf(line, "%s %q: %s", what, name, hint)
		}
		return "", nil, 0, s.errorf(line, "%s %.40q is unknown%s; expected %s", what, name, meant(name, known), oneOf(known))
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

// analysisHint answers whoever asks for a penalty of an analysis operator.
func analysisHint(key string) string {
	switch strings.ToLower(strings.NewReplacer("_", "-", " ", "-").Replace(key)) {
	case "analysis", "tv", "tv2d", "tv-2d", "total-variation", "of", "transform", "operator":
		return "a penalty r(D b) of an analysis operator D has no proximal operator in closed form; expected a synthesis form, A = operator synthesis with a penalty on its coefficients b (see synthesis), or tv1d"
	}
	return ""
}

// meant is a suggestion for an unknown word.
func meant(found string, known []string) string {
	nearest := dataio.Nearest(found, known)
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", nearest)
}

func oneOf(known []string) string {
	if len(known) == 1 {
		return known[0]
	}
	return "one of " + strings.Join(known, ", ")
}

// length is the number of entries of an array of that shape.
func length(shape []int) int {
	n := 1
	for _, k := range shape {
		n *= k
	}
	return n
}
