package problems

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/problems/internal/check"
	"surepipe/problems/spec"
)

// Named is a problem with a name: its embedded specification, with a second one, specs/NAME-gaps.yaml, where
// Layout.Gaps, and the information needed to read its data. A named problem is registered in one place, the table of
// [Registered].
type Named struct {
	// Name is the name that [New] takes. The specification is specs/NAME.yaml.
	Name string
	// Layout describes the arrays of the problem.
	Layout
	// Mixed is the regularizer of a specification with the alpha of Data.Mix; nil where there is none.
	Mixed func(alpha float64) string
}

var (
	regression = Layout{Arrays: "X (d x p), y (d)", Design: true, YRank: 1, YShape: "(d,)"}
	grouped    = Layout{Arrays: "X (d x p), y (d), groups (p, a label for\neach column of X)", Design: true,
		Groups: true, YRank: 1, YShape: "(d,)"}
	matrix = Layout{Arrays: "y (m x n)", YRank: 2, YShape: "(m, n)"}
	video  = Layout{Arrays: "y (m x n), or a video's frames (f x h x w),\nwhich are the columns of a matrix",
		YRank: 2, YShape: "(m, n)", Frames: true}
	completion = Layout{Arrays: "y (d), indices (d, places in the row-major\nm x n matrix), shape (m, n)",
		Selection: true, YRank: 1, YShape: "(d,)"}
	picture = Layout{Arrays: "y (m x n), or m x n x 3 in colours; with gaps y (d),\nindices (d, the places of its " +
		"values, row by row),\nshape (m, n) or (m, n, 3)",
		YRank: 2, YShape: "(m, n)", Colours: true, Isotropic: true, Gaps: true}
	analyzed = Layout{Arrays: "X (d x p), y (d), D (q x p; a sparse one by --D)",
		Design: true, Analysis: true, YRank: 1, YShape: "(d,)"}
	oneSequence = Layout{Arrays: "y (n); with gaps y (d), indices (d, the places\nof its values), shape (n)",
		YRank: 1, YShape: "(n,)", Gaps: true}
	trend  = ofOrders(oneSequence, 0, spec.MostDifferences-1)
	placed = Layout{
		Arrays: oneSequence.Arrays + "; at (n), the\nplaces of all values, if they are not evenly spaced",
		YRank:  1, YShape: "(n,)", Gaps: true, Places: true, Orders: Orders{Least: 1, Most: spec.MostDifferences},
	}
	sequence = Layout{Arrays: "y (n), or y (m x n), m sequences; with gaps\ny (d), indices (d, the places of its " +
		"values), shape (n)", YRank: 1, YShape: "(n,)", Gaps: true, Rows: true}
	series = Layout{Arrays: "y (f x h x w), a series of f images", YRank: 3, YShape: "(f, h, w)"}
)

func ofOrders(l Layout, least, most int) Layout {
	l.Orders = Orders{Least: least, Most: most}
	return l
}

var registered = []Named{
	{Name: "ols", Layout: regression},
	{Name: "ridge", Layout: regression},
	{Name: "lasso", Layout: regression},
	{Name: "elastic-net", Layout: regression, Mixed: mixedNet},
	{Name: "group-lasso", Layout: grouped},
	{Name: "svt", Layout: matrix},
	{Name: "matrix-completion", Layout: completion},
	{Name: "robust-pca", Layout: video},
	{Name: "local-low-rank", Layout: series},
	{Name: "tv1d", Layout: sequence},
	{Name: "tv2d", Layout: picture},
	{Name: "trend1d", Layout: trend},
	{Name: "whittaker", Layout: placed},
	{Name: "fused-lasso", Layout: regression},
	{Name: "generalized-lasso", Layout: analyzed},
}

// Tol is the tolerance that suits the problem; 0 for the default.
func (n Named) Tol() float64 { return n.parse(n.Name).Solver.Tol }

// Unpenalized reports whether nothing is penalized.
func (n Named) Unpenalized() bool { return n.parse(n.Name).Unpenalized() }

// Registered lists the named problems.
func Registered() []Named { return slices.Clone(registered) }

// Lookup returns the named problem; ok is false where there is none of that name.
func Lookup(name string) (n Named, ok bool) {
	return lists.Find(registered, func(n Named) bool { return n.Name == name })
}

// Names lists the names of the named problems.
func Names() []string {
	return lists.Map(registered, func(n Named) string { return n.Name })
}

// SpecNames lists the examples of [SpecExample]: the named problems, and then the others in alphabetical order.
func SpecNames() []string {
	names := Names()
	for _, name := range spec.Names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// parsed are the specifications that have been parsed, by their names.
var (
	parsed  = map[string]*spec.Spec{}
	parsing sync.Mutex
)

func (n *Named) parse(name string) *spec.Spec {
	parsing.Lock()
	defer parsing.Unlock()
	if parsed[name] == nil {
		s, err := spec.Embedded(name)
		if err != nil {
			panic(fmt.Sprintf("problems: the specification %s: %v", name, err))
		}
		s.Name, s.Layout, parsed[name] = n.Name, &n.Layout, s
	}
	return parsed[name]
}

// SpecOf is the specification of a named problem. [Spec.Load] reads its arrays into the fields of the data, which then
// have no specification.
func SpecOf(name string) (*Spec, error) {
	n, ok := Lookup(name)
	if !ok {
		return nil, errUnknown(name)
	}
	return n.parse(name), nil
}

func errUnknown(name string) error {
	return fmt.Errorf("problem %q is unknown, expected one of %s", name, strings.Join(Names(), ", "))
}

// specification returns the specification of the data, or else that of the named problem with the
// data's arrays; named is nil in the former case.
func specification(name string, d Data) (s *spec.Spec, named *Named, err error) {
	if d.Spec != nil {
		return d.Spec, nil, nil
	}
	i := slices.Index(Names(), name)
	if i < 0 {
		return nil, nil, errUnknown(name)
	}
	n := &registered[i]
	if name = n.Name; n.Gaps && d.Indices != nil {
		name += "-gaps"
	}
	s = n.parse(name)
	if d.Mix != nil && n.Mixed != nil {
		if s, err = n.mixed(*d.Mix); err != nil {
			return nil, nil, err
		}
	}
	return s.With(d), n, nil
}

func mixedNet(alpha float64) string {
	if alpha == 1 {
		return "l1: lambda"
	}
	return fmt.Sprintf("elastic-net: {weight: %g*lambda, weight2: %g*lambda}", alpha, 1-alpha)
}

func (n *Named) mixed(alpha float64) (*spec.Spec, error) {
	if !(alpha > 0 && alpha <= 1) {
		return nil, fmt.Errorf("alpha is %g, expected a number above 0 and up to 1; ridge is that of 0", alpha)
	}
	s, err := spec.Parse([]byte("data: data.npz\noperator: {matrix: X}\nregularizer: {"+n.Mixed(alpha)+"}\n"), n.Name)
	if err == nil {
		s.Name = n.Name
	}
	return s, err
}

// check rejects data from which the named problem cannot be built. The error names the array, what
// was found and what was expected.
func (n *Named) check(data Data) error {
	for _, a := range []struct {
		needed, there  bool
		name, expected string
	}{
		{n.Design, data.X != nil, "X", "the d x p design matrix"},
		{n.Groups, data.Groups != nil, "groups", "a label for each column of \"X\""},
		{n.Selection, data.Shape != nil, "shape", "the matrix's 2 dimensions"},
		{n.Selection, data.Indices != nil, "indices", "the places of the values of \"y\""},
	} {
		if a.needed && !a.there {
			return fmt.Errorf("array %q is missing, expected %s", a.name, a.expected)
		}
	}
	several, gaps := outcomesOf(data.Loss, data), n.Gaps && data.Indices != nil
	if err := n.checkAsked(data, several > 0); err != nil {
		return err
	}
	switch {
	case n.Design && spec.MatrixOf(data.X).Empty():
		return fmt.Errorf("array \"X\" is empty, expected the d x p design matrix")
	case n.Selection && len(data.Shape) != 2:
		return fmt.Errorf("array \"shape\" is %v, expected 2 positive integers", data.Shape)
	case n.Analysis:
		if err := checkD(data); err != nil {
			return err
		}
	}
	rank, expected := n.YRank, "shape "+n.YShape
	switch {
	case gaps:
		rank, expected = 1, "shape (d,), the values at \"indices\""
	case several > 0:
		rank, expected = n.YRank+1, "shape (d, K), a column for each class"
	case n.Rows:
		expected = "shape (n,), or (m, n) for m sequences"
	case n.Colours:
		expected = "shape (m, n) of an image, or (m, n, 3) in colours"
	}
	if (n.Rows || n.Colours) && !gaps && len(data.YShape) == n.YRank+1 {
		rank++
	}
	if err := check.Vector("y", data.Y, data.YShape, rank, expected); err != nil {
		return err
	}
	switch {
	case n.Design:
		d, p := data.X.Dims()
		if len(data.Y) != d*max(several, 1) {
			return fmt.Errorf("array \"y\" has %d values, expected %d: \"X\" has shape (%d, %d)", len(data.Y), d, d, p)
		}
	case gaps && (len(data.Indices) != len(data.Y) ||
		len(data.Shape) != n.YRank && !(n.Colours && len(data.Shape) == n.YRank+1)):
		return fmt.Errorf("arrays \"indices\" of %d values and \"shape\" of %d, expected %d, as many as \"y\", "+
			"and %d, the axes of the whole", len(data.Indices), len(data.Shape), len(data.Y), n.YRank)
	case gaps:
		if err := checkGaps(data); err != nil {
			return err
		}
	case n.Selection && len(data.Indices) != len(data.Y):
		return fmt.Errorf("array \"indices\" has %d values, expected %d, as many as \"y\"", len(data.Indices),
			len(data.Y))
	case n.Rows && data.YShape[rank-1] < 2:
		return fmt.Errorf("array \"y\" has shape %s, expected sequences of at least 2 values",
			ndarray.ShapeString(data.YShape))
	}
	return checkMu(data)
}

// checkGaps rejects a shape that is too large, as all of its values are estimated, and an image in colours with a
// channel of which nothing is known.
func checkGaps(data Data) error {
	if err := check.Dims("shape", data.Shape); err != nil {
		return err
	}
	if lists.Product(data.Shape) > math.MaxInt32 {
		return fmt.Errorf("array \"shape\" is %v, expected at most %d values in all", data.Shape, math.MaxInt32)
	}
	if err := check.Places("indices", data.Indices, data.Shape); err != nil || len(data.Shape) < 3 {
		return err
	}
	seen := make([]bool, data.Shape[2])
	for _, at := range data.Indices {
		seen[at%len(seen)] = true
	}
	if c := slices.Index(seen, false); c >= 0 {
		return fmt.Errorf("channel %d of the image, counted from 0, has no values, expected some of each", c)
	}
	return nil
}

// checkAsked rejects what is asked for that the problem cannot have; several says that the loss has several outcomes.
func (n *Named) checkAsked(d Data, several bool) error {
	design, isotropic := func(l Layout) bool { return l.Design }, func(l Layout) bool { return l.Isotropic }
	for _, a := range []struct {
		asked bool
		what  string
		by    func(Layout) bool
	}{
		{d.Standardize, "standardized columns are", design},
		{d.Intercept, "an intercept is", design},
		{several, "the loss " + d.Loss.Name + " is", design},
		{d.Vectorial, "vectorial total variation is", isotropic},
		{d.Anisotropic, "anisotropic total variation is", isotropic},
		{d.Order != nil, "an order of differences is", func(l Layout) bool { return l.Orders != Orders{} }},
		{d.At != nil, "places of the values of y are", func(l Layout) bool { return l.Places }},
	} {
		if a.asked && !a.by(n.Layout) {
			return fmt.Errorf("%s asked for, but %s cannot have that: expected %s, or a specification", a.what, n.Name,
				strings.Join(Those(a.by), ", "))
		}
	}
	switch {
	case d.Vectorial && d.Anisotropic:
		return errors.New("vectorial total variation is asked for, and anisotropic one, expected one of them")
	case d.Mix != nil && n.Mixed == nil:
		return fmt.Errorf("alpha is %g, but %s is not elastic-net", *d.Mix, n.Name)
	}
	return nil
}

// Those lists the names of the problems with some layouts.
func Those(are func(Layout) bool) (names []string) {
	for _, n := range registered {
		if are(n.Layout) {
			names = append(names, n.Name)
		}
	}
	return names
}

// List is [Those] for errors and help: "trend1d or whittaker".
func List(are func(Layout) bool) string { return strings.Join(Those(are), " or ") }

func checkD(d Data) error {
	rows, cols := spec.MatrixOf(d.D).Dims()
	if cols == 0 {
		return fmt.Errorf("array \"D\" is missing, expected the q x p matrix behind which the penalty stands")
	}
	if _, p := d.X.Dims(); cols != p {
		return fmt.Errorf("array \"D\" has shape (%d, %d), expected (q, %d): \"X\" has %d columns", rows, cols, p, p)
	}
	return nil
}
