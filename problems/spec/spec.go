// Package spec describes estimators in YAML: their operator, regularizer, loss and weights, and the arrays that
// they use. A [Spec] is parsed by [Parse], reads its arrays by [Spec.Load], and makes the parts of a problem by
// [Spec.Build], from which package problems makes the problem.
//
// An operator, or a regularizer, is a row of a table with its name, help, parameters and what it makes of them;
// [RegisterRegularizer] adds a regularizer from outside; operators of this module are rows of operator.go. No other
// package asks for one by its name: what depends on it, such as which estimate of sigma^2 suits, is a field of the row.
package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"surepipe/input"
	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/internal/stored"
	"surepipe/vjp"
)

// Spec is a problem described in a file, in YAML, of which surepipe help spec prints all keys:
//
//	data: {file: image.png, mu: truth.npy}  # files are relative to this file's folder
//	operator: identity                      # y = A b + noise
//	regularizer: {l1: {weight: lambda}}     # or terms, a sum of r(K b)
//
// [Help] describes the operators and the regularizers. [Parse] or [Read] parses a Spec,
// [Spec.Load] reads its files, and [New] builds it.
//
// With the key loss the loss is another one ([Loss], package loss), l(A b; y), and A*y below stands
// for -A* l'(0; y). With the key weights the squared loss is 1/2 sum_i w_i ((A b)_i - y_i)^2, and A*y below
// stands for A*(w y).
//
// The weight of a regularizer may be a number, one of the names lambda, lambda2 and gamma, or a
// multiple of one of these, such as 0.5*lambda. The value of a name is the first that is given in
// the Hyper of New, in the Spec, or as a scalar of that name in the data file. A value of 0.1max is
// a tenth of the smallest weight at which every block of b that uses the name is zero: the dual
// norm of A*y on that block, for the norms (l1, elastic-net, l2, group-l2, group-linf, sorted-l1,
// nuclear). Coordinates without any penalty (unpenalized ones, those in no group, those under zero)
// remain free: the dual norm is then that of A*(y - P y), where P is the projection on the span of
// their columns of A, of which there may be at most 256, or of -A* l' at the fit by these columns. Where other
// coordinates of b are not held at zero by a norm (a tv1d, which leaves constants free; other blocks), the
// maximum is known only if the columns of A are orthogonal and of equal norm; otherwise 0.1max is refused. With
// terms the maximum is a weight at which K b = 0, known where one name multiplies norms in all of them: the dual
// norm of the least u with K* u = A*(y - A b). It is the smallest such weight where the rows of K are
// independent, and an upper bound of it elsewhere, as for the gradient of an image.
type Spec struct {
	// Name is the problem's name, and Path that of the file, for errors.
	Name, Path string
	// Sigma2Method is one of the methods of problems.EstimateSigma2, or "" where sigma2 is a number or not given.
	Sigma2Method string
	// Loss is the loss; the zero Loss is the squared one.
	Loss                   Loss
	Intercept, Standardize bool
	// Effects are the unpenalized effects of rows and columns; likewise.
	Effects Effects
	// Solver holds the solver's options that the file sets.
	Solver Solver
	// Layout, if not nil, says which arrays [Spec.Load] reads, by their names, into fields of the data.
	Layout *Layout

	source []byte
	// lines are those of the keys, 0 of the missing ones; there are none in an embedded specification.
	lines       map[string]int
	embedded    bool
	data        dataSection
	weights     map[string]*specWeight // by name: lambda, lambda2, gamma
	sigma2      *float64
	operator    *operatorNode
	synthesis   *operatorNode
	regularizer *regularizerNode
	terms       []term // of which regularizer has the penalties; nil where it penalizes b itself
	// lossWeights are the weights of the loss, nil where there are none.
	lossWeights *arrayRef
	refs        []*arrayRef
	// noise is nil where the noise is white.
	noise *noiseNode
	read
}

// read are the arrays of the references, once they are read, whether y is an image, and its shape before it is
// whitened.
type read struct {
	loaded        map[*arrayRef]*loadedArray
	images        bool
	observedShape []int
}

// Solver holds the options of a solve that a Spec sets. Zero values stand for options that are
// not given.
type Solver struct {
	// Name is one of vjp.Solvers, or "auto".
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

// Error is an error at a line of a specification.
type Error struct {
	Path string
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }

// Unwrap returns the error without the place, which is one of input.
func (e *Error) Unwrap() error {
	var refused *input.Error
	if errors.As(e.Err, &refused) {
		return e.Err
	}
	return input.Bad(e.Err)
}

// At adds the line to an error that has none. An embedded specification has no lines.
func (s *Spec) At(line int, err error) error {
	var placed *Error
	if err == nil || s.embedded || errors.As(err, &placed) {
		return err
	}
	return &Error{s.Path, line, err}
}

// Errorf is At of a new error.
func (s *Spec) Errorf(line int, format string, args ...any) error {
	return s.At(line, fmt.Errorf(format, args...))
}

// weightNames are the names that a specification may give its weights.
var weightNames = []string{"lambda", "lambda2", "gamma"}

// WeightNames are the names of weights: lambda, lambda2 and gamma.
func WeightNames() []string { return slices.Clone(weightNames) }

// ByWeight is what belongs to each weight, by its name.
func ByWeight[T any](lambda, lambda2, gamma T) map[string]T {
	return map[string]T{weightNames[0]: lambda, weightNames[1]: lambda2, weightNames[2]: gamma}
}

// Read parses the specification in a file, or that of [Example] where no file has its name.
func Read(path string) (*Spec, error) {
	// A larger file was not written by hand.
	const most = 1 << 20
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err := Example(path); err == nil {
			return Parse([]byte(text), path)
		} else if filepath.Ext(path) == "" {
			return nil, fmt.Errorf("%s: no such file, and %w", path, err)
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, stored.Bare(err))
	case info.Size() > most:
		return nil, fmt.Errorf("%s: %d bytes, expected a specification in YAML of at most %d", path, info.Size(), most)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	return Parse(text, path)
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// Parse parses a specification. path names it in errors, and file names in it are relative to
// the folder of path. Errors are SpecErrors: they give the line, what was found and what was
// expected.
func Parse(text []byte, path string) (*Spec, error) {
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
			return nil, s.Errorf(at, "not YAML: a tab in the indentation; indent with spaces, not tabs")
		}
		return nil, s.Errorf(line, "not YAML: %s", strings.TrimPrefix(message, "yaml: "))
	}
	if len(doc.Content) == 0 {
		return nil, s.Errorf(1, "the file is empty, expected a specification with the keys data, operator and "+
			"regularizer")
	}
	if err := s.parse(doc.Content[0]); err != nil {
		return nil, err
	}
	return s, nil
}

// tabIndent returns the line with a tab in its indentation at which YAML's parser stopped, 0 if
// there is none. The parser names that line or the one before.
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

// specKey is a key of a specification, and what reads it.
type specKey struct {
	name string
	read func(s *Spec, n *yaml.Node) error
}

// specKeys are read in this order: what a key may say depends on those before it.
var specKeys = []specKey{
	{"name", (*Spec).parseName}, {"data", (*Spec).parseData},
	operatorKey("operator", func(s *Spec) **operatorNode { return &s.operator }),
	operatorKey("synthesis", func(s *Spec) **operatorNode { return &s.synthesis }),
	{"regularizer", func(s *Spec, n *yaml.Node) (err error) {
		s.regularizer, err = s.parseRegularizer(n)
		return err
	}},
	{"terms", (*Spec).parseTerms}, {"loss", (*Spec).parseLoss},
	{"weights", func(s *Spec, n *yaml.Node) (err error) {
		s.lossWeights, err = s.ref(n, "weights")
		return err
	}},
	truthKey("intercept", func(s *Spec) *bool { return &s.Intercept }), {"effects", (*Spec).parseEffects},
	truthKey("standardize", func(s *Spec) *bool { return &s.Standardize }), {"noise", (*Spec).parseNoise},
	weightKey(weightNames[0]), weightKey(weightNames[1]), weightKey(weightNames[2]),
	{"sigma2", (*Spec).parseSigma2}, {"solver", (*Spec).parseSolver},
}

func operatorKey(name string, to func(s *Spec) **operatorNode) specKey {
	return specKey{name, func(s *Spec, n *yaml.Node) (err error) {
		*to(s), err = s.parseOperator(n)
		return err
	}}
}

func truthKey(name string, to func(s *Spec) *bool) specKey {
	return specKey{name, func(s *Spec, n *yaml.Node) (err error) {
		*to(s), err = s.truth(n, name)
		return err
	}}
}

func weightKey(name string) specKey {
	return specKey{name, func(s *Spec, n *yaml.Node) error { return s.parseWeight(n, name) }}
}

func (s *Spec) parse(root *yaml.Node) error {
	f, err := s.fields(root, "a specification", lists.Map(specKeys, func(k specKey) string { return k.name })...)
	if err != nil {
		return err
	}
	s.lines = map[string]int{}
	for key, n := range f {
		s.lines[key] = n.Line
	}
	for _, key := range []string{"data", "operator", "regularizer"} {
		if f[key] == nil && (key != "regularizer" || f["terms"] == nil) {
			return s.Errorf(root.Line, "key %q is missing, expected a specification with data, operator and "+
				"regularizer", key)
		}
	}
	if terms := f["terms"]; terms != nil && f["regularizer"] != nil {
		return s.Errorf(terms.Line, "there are both regularizer and terms, expected one of them: a term without "+
			"an operator is a regularizer of b")
	}
	for _, k := range specKeys {
		if n := f[k.name]; n != nil {
			if err := k.read(s, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Spec) parseName(n *yaml.Node) (err error) {
	if s.Name, err = s.text(n, "name"); err == nil && s.Name == "" {
		err = s.Errorf(n.Line, "name is empty")
	}
	return err
}

func (s *Spec) parseWeight(n *yaml.Node, name string) error {
	text, err := s.text(n, name)
	if err != nil {
		return err
	}
	w, err := ParseWeight(text)
	if err != nil {
		return s.Errorf(n.Line, "%s is %w", name, err)
	}
	if !slices.ContainsFunc(s.regularizer.uses(), func(u Use) bool { return u.Name == name }) {
		return s.Errorf(n.Line, "%s has a value, but no weight in regularizer is %s", name, name)
	}
	s.weights[name] = &specWeight{n.Line, w}
	return nil
}

func (s *Spec) parseSigma2(n *yaml.Node) error {
	text, err := s.text(n, "sigma2")
	if err != nil {
		return err
	}
	if slices.Contains(noise.Names(), text) {
		s.Sigma2Method = text
		return nil
	}
	v, err := parseNumber(text)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return s.Errorf(n.Line, "sigma2 is %q, expected a positive number or one of %s", text,
			strings.Join(noise.Names(), ", "))
	}
	s.sigma2 = &v
	return nil
}

// solverParameters are the arguments of the key solver, of which the name may stand alone.
var solverParameters = []Parameter{
	{Name: "name", Optional: true, Read: func(c *Call, v *yaml.Node, _ string) (any, error) {
		return c.spec.choice(v, c.name, append([]string{"auto"}, vjp.Solvers()...))
	}},
	{Name: "tol", Optional: true, Read: NumberThat(func(x float64) bool { return x > 0 && x < 1 },
		"a number between 0 and 1 (at 1, b = 0 would be accepted)")},
	{Name: "max-iter", Optional: true, Read: Count},
	{Name: "derivative", Optional: true, Read: func(c *Call, v *yaml.Node, what string) (any, error) {
		return c.spec.choice(v, what, lists.Map(vjp.Derivatives(), func(d vjp.Derivative) string { return string(d) }))
	}},
}

func (s *Spec) parseSolver(n *yaml.Node) error {
	c := newCall(s, "solver", n.Line)
	err := c.read(n, solverParameters, "solver: NAME")
	s.Solver = Solver{Name: c.Text("name", ""), Tol: c.Number("tol", 0), MaxIter: c.Count("max-iter", 0),
		Derivative: vjp.Derivative(c.Text("derivative", ""))}
	return err
}
