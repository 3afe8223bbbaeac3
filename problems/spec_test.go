package problems_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/dataio"
	"surepipe/internal/noise"
	"surepipe/linops"
	"surepipe/problems"
	"surepipe/problems/spec"
)

// load parses a specification whose file would be in dir, and reads its data.
func load(t *testing.T, dir, text string) (problems.Data, error) {
	t.Helper()
	s, err := problems.ParseSpec([]byte(text), filepath.Join(dir, "problem.yaml"))
	if err != nil {
		return problems.Data{}, err
	}
	return s.Load(problems.SpecFiles{FS: problems.Disk})
}

// built is load, then New. The problem is released when the test ends, those built last first.
func built(t *testing.T, dev array.Device, dir, text string, hyper problems.Hyper) (*problems.Problem, problems.Data) {
	t.Helper()
	data, err := load(t, dir, text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	before := dev.Stats().Live
	p, err := problems.New("", dev, data, hyper)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	t.Cleanup(func() {
		p.Release()
		if live := dev.Stats().Live; live != before {
			t.Errorf("%d batches left by\n%s", live-before, text)
		}
	})
	return p, data
}

// Each operator is the matrix that its formula says.
func TestOperatorsAreTheirMatrices(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		dir := t.TempDir()
		for name, a := range map[string]dataio.Array{
			"m":       {Shape: []int{2, 3}, Data: []float64{1, 2, 3, 4, 5, 6}},
			"s":       {Shape: []int{1, 1, 1, 2}, Data: []float64{3, 4}, Complex: true},
			"complex": {Shape: []int{1, 2, 2}, Data: []float64{1, 2, 3, 4}, Complex: true},
			"coil":    {Shape: []int{1, 1, 1, 2}, Data: []float64{1, 2}, Complex: true},
			"colours": {Shape: []int{1, 1, 3}, Data: []float64{1, 2, 3}},
		} {
			if err := dataio.WriteNPY(filepath.Join(dir, name+".npy"), a); err != nil {
				t.Fatal(err)
			}
		}
		sparse := "%%MatrixMarket matrix coordinate real general\n2 3 2\n1 1 1\n2 3 6\n"
		if err := os.WriteFile(filepath.Join(dir, "c.mtx"), []byte(sparse), 0o600); err != nil {
			t.Fatal(err)
		}
		r, seen := math.Sqrt(0.5), map[string]bool{}
		defer func() {
			for _, name := range spec.Operators() {
				if !seen[name] {
					t.Errorf("the matrix of the operator %s is not compared", name)
				}
			}
		}()
		for _, c := range []struct {
			y, operator string
			want        [][]float64
		}{
			{"[1, 2]", "identity", [][]float64{{1, 0}, {0, 1}}},
			{"[1, 2]", "dense: X", [][]float64{{1, 2, 3}, {4, 5, 6}}},
			{"[1, 2, 3]", "adjoint: {dense: X}", [][]float64{{1, 4}, {2, 5}, {3, 6}}},
			{"[1, 2]", "selection: {indices: [3, 0], shape: [2, 2]}", [][]float64{{0, 0, 0, 1}, {1, 0, 0, 0}}},
			{"[1, 2]", "selection: {where: [[0, 1], [1, 0]]}", [][]float64{{0, 1, 0, 0}, {0, 0, 1, 0}}},
			{"[1, 2]", "selection: {indices: [2, 1], shape: 3}", [][]float64{{0, 0, 1}, {0, 1, 0}}},
			{"[1, 2]", "diagonal: [3, 4]", [][]float64{{3, 0}, {0, 4}}},
			{"[1, 2]", "difference", [][]float64{{-1, 1, 0}, {0, -1, 1}}},
			{"[1, 2, 3, 4]", "difference: {shape: [2, 2]}", [][]float64{{-1, 0, 1, 0}, {0, -1, 0, 1}, {-1, 1, 0, 0},
				{0, 0, -1, 1}}},
			{"[1, 2, 3]", "convolution: {kernel: [1, 2, 0], boundary: circular}",
				[][]float64{{2, 1, 0}, {0, 2, 1}, {1, 0, 2}}},
			{"[1, 2, 3]", "convolution: {kernel: [1, 2, 0], boundary: zero-padded}",
				[][]float64{{2, 1, 0}, {0, 2, 1}, {0, 0, 2}}},
			{"[1, 2]", "dct", [][]float64{{r, r}, {r, -r}}},
			{"[1, 2]", "wavelet: {family: haar, levels: 1}", [][]float64{{r, r}, {r, -r}}},
			{"[1, 2]", "adjoint: {wavelet: {family: haar, levels: 1}}", [][]float64{{r, r}, {r, -r}}},
			{"[1, 2]", "scale: {by: -3, operator: identity}", [][]float64{{-3, 0}, {0, -3}}},
			{"[1, 2]", "product: [identity, diagonal: [3, 4], dense: X]", [][]float64{{3, 6, 9}, {16, 20, 24}}},
			{"[1, 2]", "sum: [identity, diagonal: [3, 4]]", [][]float64{{4, 0}, {0, 5}}},
			{"[1, 2]", "hstack: [identity, dense: X]", [][]float64{{1, 0, 1, 2, 3}, {0, 1, 4, 5, 6}}},
			{"[1, 2, 3, 4, 5]", "vstack: [dense: X, identity]", [][]float64{{1, 2, 3}, {4, 5, 6}, {1, 0, 0},
				{0, 1, 0}, {0, 0, 1}}},
			{"[1, 2, 3]", "blockdiag: [dense: X, identity: 1]", [][]float64{{1, 2, 3, 0}, {4, 5, 6, 0}, {0, 0, 0, 1}}},
			{"[1, 2]", "matrix: X", [][]float64{{1, 2, 3}, {4, 5, 6}}},
			{"[1, 2]", "csr: C", [][]float64{{1, 0, 0}, {0, 0, 6}}},
			{"[1, 2, 3]", "gradient: {shape: 3}", [][]float64{{-1, 1, 0}, {0, -1, 1}, {0, 0, 0}}},
			{"[1, 2, 3]", "gradient: {shape: 3, edge: grounded}", [][]float64{{-1, 1, 0}, {0, -1, 1}, {0, 0, -1}}},
			{"[1, 2]", "trend: {shape: 4, order: 1}", [][]float64{{1, -2, 1, 0}, {0, 1, -2, 1}}},
			{"[1, 2]", "differences: {shape: 4, order: 2}", [][]float64{{1, -2, 1, 0}, {0, 1, -2, 1}}},
			{"[[1, 2]]", "projection: {angles: [0], detectors: 2, shape: [2, 2]}",
				[][]float64{{1, 0, 1, 0}, {0, 1, 0, 1}}},
			{"complex.npy", "fourier: {mask: M, image: real}", [][]float64{{r, r}, {0, 0}, {r, -r}, {0, 0}}},
			{"coil.npy", "coils: S", [][]float64{{3, -4}, {4, 3}}},
			{"complex.npy", "complex: {diagonal: [3, 4]}",
				[][]float64{{3, 0, 0, 0}, {0, 3, 0, 0}, {0, 0, 4, 0}, {0, 0, 0, 4}}},
			{"colours.npy", "each-channel: {scale: {by: 2, operator: identity}}",
				[][]float64{{2, 0, 0}, {0, 2, 0}, {0, 0, 2}}},
		} {
			seen[regexp.MustCompile(`^[a-z-]+`).FindString(c.operator)] = true
			text := fmt.Sprintf("data: {X: m.npy, y: %s, M: [[1, 1]], S: s.npy, C: c.mtx}\noperator: {%s}\n"+
				"regularizer: zero\n", c.y, c.operator)
			if !strings.Contains(c.operator, ":") {
				text = strings.Replace(text, "{"+c.operator+"}", c.operator, 1)
			}
			p, _ := built(t, dev, dir, text, problems.Hyper{})
			got := linops.ToDense(dev, p.Operator)
			want := mat.NewDense(len(c.want), len(c.want[0]), nil)
			for i, row := range c.want {
				want.SetRow(i, row)
			}
			if !mat.EqualApprox(got, want, 1e-14) {
				t.Errorf("%s is\n%v\nexpected\n%v", c.operator, mat.Formatted(got), mat.Formatted(want))
			}
		}
	})
}

// norms are regularizers of 6 coefficients whose weight has a maximum under any
// operator, or (second) under one with orthogonal columns.
var norms = []struct {
	regularizer string
	orthogonal  bool
}{
	{"l1: lambda", false},
	{"l1: {weight: 0.5*lambda, weights: [1, 2, 3, 1, 2, 3]}", false},
	{"l1: {weight: lambda, unpenalized: [0]}", false},
	{"l1: {weight: lambda, weights: [0, 0, 3, 1, 2, 3]}", false},
	{"blocks: [{zero: {}, size: 1}, {l1: lambda, size: 5}]", false},
	{"elastic-net: {weight: lambda, weight2: 3}", false},
	{"l2: 2*lambda", false},
	{"group-l2: {weight: lambda, size: 2}", false},
	{"group-l2: {weight: lambda, groups: [7, 7, 3, 3, -1, 3], weights: [1, 2]}", false},
	{"blocks: [{l1: {weight: lambda, unpenalized: [1]}, size: 2}, {group-l2: {weight: lambda, groups: [1, -1, 1, " +
		"2]}, size: 4}]", false},
	{"group-linf: {weight: lambda, groups: [0, 1, 0, 1, 0, 1]}", false},
	{"sorted-l1: {weight: lambda, bh: 0.3}", false},
	{"sorted-l1: {weight: lambda, sequence: [6, 5, 2, 2, 1, 0]}", false},
	{"tv1d: lambda", true},
	{"nuclear: {weight: lambda, shape: [2, 3]}", false},
	{"scaled: {by: 3, regularizer: {l1: lambda}}", false},
	{"blocks: [{l1: lambda, size: 2}, {l2: 2*lambda, size: 4}]", false},
	{"blocks: [{l1: lambda, size: 2}, {squared-l2: 1, size: 4}]", true},
}

// At its maximum a weight holds at zero what it weighs, just below it does not.
func TestSpecWeightsHaveTheirMaximum(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, orthogonal := range []bool{true, false} {
			operator, y := "dense: [[2, 0, 1, 1, 0, 3], [1, 1, 0, 2, 1, 0], [0, 1, 4, 1, 2, 1], [1, 0, 2, 0, 1, 1]]",
				"[3, -1, 2, 4]"
			if orthogonal {
				operator, y = "scale: {by: 2, operator: {identity: 6}}", "[3, -1, 2, 4, 0.5, -2]"
			}
			for _, n := range norms {
				if n.orthogonal && !orthogonal {
					continue
				}
				text := fmt.Sprintf("data: {y: %s}\noperator: {%s}\nregularizer: {%s}\n", y, operator, n.regularizer)
				at := func(factor float64) []float64 {
					p, data := built(t, dev, "", text, problems.Hyper{Lambda: problems.OfMax(factor)})
					if !p.Relative {
						t.Error("not marked as relative to y")
					}
					return solve(t, dev, p, data.Y)
				}
				at1, above, below := at(1+1e-6), at(1e6), at(1-1e-3)
				change := func(a, b []float64) float64 {
					d := 0.0
					for i := range a {
						d = max(d, math.Abs(a[i]-b[i]))
					}
					return d
				}
				if d := change(at1, above); d > 1e-9 {
					t.Errorf("%s: b changes by %g above the maximum", n.regularizer, d)
				}
				if d := change(below, above); d < 1e-6 {
					t.Errorf("%s: b does not change below the maximum", n.regularizer)
				}
			}
		}
	})
}

// Where coordinates stay free the maximum is refused, not guessed.
func TestUnknownMaximumIsRefused(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, n := range norms {
			if !n.orthogonal {
				continue
			}
			data, err := load(t, "", fmt.Sprintf("data: {y: [1, 2]}\noperator: {dense: [[2, 0, 1, 1, 0, 3], [1, "+
				"1, 0, 2, 1, 0]]}\nregularizer: {%s}\nlambda: 0.5max\n", n.regularizer))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := problems.New("", dev, data, problems.Hyper{}); err == nil ||
				!strings.Contains(err.Error(), "problem.yaml:4: lambda is given as a multiple of its maximum, "+
					"which is not known") {
				t.Errorf("%s: error %v", n.regularizer, err)
			}
		}
	})
}

// Unpenalized columns that depend on each other count once. Where they fit y, or are
// too many, there is no maximum.
func TestMaximumBesideUnpenalizedColumns(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		build := func(y, operator, unpenalized string) (float64, error) {
			data, err := load(t, "", fmt.Sprintf("data: {y: %s}\noperator: {%s}\nregularizer: {l1: {weight: "+
				"lambda, unpenalized: %s}}\nlambda: 1max\n", y, operator, unpenalized))
			if err != nil {
				t.Fatal(err)
			}
			p, err := problems.New("", dev, data, problems.Hyper{})
			if err != nil {
				return 0, err
			}
			defer p.Release()
			return p.Lambda, nil
		}
		// Without the mean y is (-2, 1, 1), and (1, 0, 4) is (-2/3, -5/3, 7/3).
		const dense = "dense: [[1, 1, 2], [1, 0, 2], [1, 4, 2]]"
		if got, err := build("[0, 3, 3]", dense, "[2, 0]"); err != nil || math.Abs(got-2) > 1e-14 {
			t.Errorf("%g, %v, expected 2", got, err)
		}
		if _, err := build("[0.7, 0.7, 0.7]", dense, "[0]"); err == nil ||
			!strings.Contains(err.Error(), "its maximum is 0 at this y") {
			t.Errorf("y in the span: error %v", err)
		}
		many := strings.TrimSuffix(strings.Repeat("1, ", 300), ", ")
		indices := make([]string, 299)
		for i := range indices {
			indices[i] = fmt.Sprint(i)
		}
		if _, err := build("["+many+"]", "convolution: {kernel: ["+many+"], boundary: circular}",
			"["+strings.Join(indices, ", ")+"]"); err == nil ||
			!strings.Contains(err.Error(), "not known for 299 coordinates of b without a penalty and 300 values "+
				"in y: expected a number, or at most 256") {
			t.Errorf("many: error %v", err)
		}
	})
}

// The first given of flag, specification and data file is the weight.
func TestWhoGivesTheWeight(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		dir := t.TempDir()
		arrays := []dataio.Array{{Name: "y", Shape: []int{2}, Data: []float64{3, 1}},
			{Name: "lambda", Data: []float64{0.25}}}
		if err := dataio.WriteNPZ(filepath.Join(dir, "data.npz"), arrays...); err != nil {
			t.Fatal(err)
		}
		text := "data: data.npz\noperator: identity\nregularizer: {l1: 2*lambda}\n"
		for _, c := range []struct {
			own   string
			hyper problems.Hyper
			want  float64
		}{
			{"", problems.Hyper{}, 0.25},
			{"lambda: 0.5\n", problems.Hyper{}, 0.5},
			{"lambda: 0.5\n", problems.Hyper{Lambda: problems.Absolute(0.25)}, 0.25},
			{"lambda: 0.5\n", problems.Hyper{Lambda: problems.OfMax(0.5)}, 0.75},
		} {
			p, data := built(t, dev, dir, text+c.own, c.hyper)
			if p.Lambda != c.want {
				t.Errorf("lambda is %g, expected %g", p.Lambda, c.want)
			}
			if b := solve(t, dev, p, data.Y); math.Abs(b[0]-(3-2*c.want)) > 1e-12 {
				t.Errorf("lambda %g: b is %v", c.want, b)
			}
			if !math.IsNaN(p.Gamma) || p.Name != "problem" {
				t.Errorf("gamma %g, name %q", p.Gamma, p.Name)
			}
		}
	})
}

func TestErrorsNameTheLine(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const head = "data: {y: [1, 2, 3, 4], m: [[1, 2], [3, 4]], w: [-1, 2]}\n"
		for _, c := range []struct{ text, want string }{
			{"", "problem.yaml:1: the file is empty"},
			{"[1, 2", "problem.yaml:1: not YAML"},
			{"a: 1\n\tb: 2", "problem.yaml:2: not YAML: a tab in the indentation; indent with spaces, not tabs"},
			{"a:\n  b: 1\n \tc: 2\n", "problem.yaml:3: not YAML: a tab in the indentation; indent with " +
				"spaces, not tabs"},
			{"a: [1,\n\t2]\nb: {\n", "problem.yaml:3: not YAML: did not"},
			{"- x", "a specification is a list, expected a mapping"},
			{head + "operator: identity", `problem.yaml:1: key "regularizer" is missing`},
			{head + "operator: identity\nregulariser: zero",
				`problem.yaml:3: key "regulariser" in a specification is unknown (did you mean "regularizer"?)`},
			{head + "operator: identity\noperator: identity\nregularizer: zero", "problem.yaml:3"},
			{head + "operator: identiti\nregularizer: zero",
				`problem.yaml:2: operator "identiti" is unknown (did you mean "identity"?)`},
			{head + "operator: {dense: Q}\nregularizer: zero", `problem.yaml:2: array "Q" is missing`},
			{head + "operator: {dense: y}\nregularizer: zero", "problem.yaml:2: dense is y"},
			{head + "operator: {dense: m}\nregularizer: zero", "problem.yaml:2: dense has 2 rows, expected 4"},
			{head + "operator:\n  hstack:\n  - identity\n  - dense: m\nregularizer: zero",
				"problem.yaml:5: dense has 2 rows"},
			{head + "operator: {csr: m}\nregularizer: zero", "problem.yaml:2"},
			{head + "operator: {selection: {indices: [1, 1, 2, 3], shape: 5}}\nregularizer: zero", "problem.yaml:2"},
			{head + "operator: {selection: {indices: [1.5, 1, 2, 3], shape: 5}}\nregularizer: zero",
				"1.5 at [0], expected integers"},
			{head + "operator: {selection: {indices: [1, 7, 2, 3], shape: 5}}\nregularizer: zero", "problem.yaml:2"},
			{head + "operator: {wavelet: {family: db4, levels: 3}}\nregularizer: zero", "problem.yaml:2"},
			{head + "operator: {wavelet: {family: db44, levels: 1}}\nregularizer: zero", `family "db44"`},
			{head + "operator: {convolution: {kernel: [1], boundary: periodic}}\nregularizer: zero",
				`boundary is "periodic", expected one of circular, zero-padded`},
			{head + "operator: {vstack: [identity, identity]}\nregularizer: zero",
				"the size of identity does not follow"},
			{head + "operator: {product: []}\nregularizer: zero", "product has no list of operators"},
			{head + "operator: identity\nregularizer: {tv2d: 1}",
				"problem.yaml:3: regularizer \"tv2d\": a penalty r(D b) of an analysis operator"},
			{head + "operator: identity\nregularizer: {l1: {weight: 1, analysis: dct}}",
				"analysis operator D is a term"},
			{head + "operator: identity\nregularizer: {l1: lamda}",
				`weight is "lamda", expected a positive number, lambda`},
			{head + "operator: identity\nregularizer: {l1: -1}", `weight is "-1"`},
			{head + "operator: identity\nregularizer: {l1: nan}", `weight is "nan"`},
			{head + "operator: identity\nregularizer: {l1: 0.1max}",
				"expected a name here, such as lambda, and lambda: 0.1max"},
			{head + "operator: identity\nregularizer: {l1: lambda}", "problem.yaml:3: lambda has no value"},
			{head + "operator: identity\nregularizer: {l1: lambda}\nlambda: -2", "problem.yaml:4: lambda is"},
			{head + "operator: identity\nregularizer: {l1: 1}\nlambda: 2",
				"problem.yaml:4: lambda has a value, but no weight"},
			{head + "operator: identity\nregularizer: {squared-l2: lambda}\nlambda: inf",
				"problem.yaml:4: lambda is infinite"},
			{head + "operator: identity\nregularizer: {squared-l2: lambda}\nlambda: 0.1max",
				"problem.yaml:4: lambda is 0.1max, but this weight has no maximum"},
			{head + "operator: identity\nregularizer: {l1: {weight: 1, weights: w}}",
				"weights have 2 values, expected 4"},
			{head + "operator: identity\nregularizer: {l1: {weight: 1, unpenalized: [4]}}",
				"unpenalized holds 4, expected 0 to 3"},
			{head + "operator: identity\nregularizer: {l1: {weight: 1, unpenalized: averages}}",
				"b is not the coefficients of a wavelet"},
			{head + "operator: identity\nregularizer: {blocks: [l1: 1, {l2: 1, size: 2}]}",
				"the size of block 1 does not follow"},
			{head + "operator: identity\nregularizer: {blocks: [{l1: 1, size: 1}, {l2: 1, size: 2}]}",
				"blocks have 3 entries, expected 4"},
			{head + "operator: identity\nregularizer: {group-l2: {weight: 1, size: 3}}",
				"size is 3, expected a divisor of b's length 4"},
			{head + "operator: identity\nregularizer: {sorted-l1: {weight: 1, sequence: [1, 2, 3, 4]}}",
				"problem.yaml:3"},
			{head + "operator: identity\nregularizer: {nuclear: 1}",
				"problem.yaml:3: nuclear of an array of shape (4,), expected a matrix"},
			{head + "operator: identity\nregularizer: {box: {lo: 2, hi: 1}}", "problem.yaml:3"},
			{head + "operator: identity\nregularizer: {simplex: {sum: 1e300*lambda}}\nlambda: 1e300",
				"problem.yaml:3: a weight is +Inf"},
			{head + "operator: identity\nregularizer: {scaled: {by: 0, regularizer: zero}}",
				"by is 0, expected a positive finite number"},
			{head + "operator: identity\nregularizer: zero\nsigma2: -1",
				`problem.yaml:4: sigma2 is "-1", expected a positive number or one of auto, ols-residual`},
			{head + "operator: identity\nregularizer: zero\nsolver: fist",
				`problem.yaml:4: solver is "fist" (did you mean "fista"?)`},
			{head + "operator: identity\nregularizer: zero\nsolver: {tol: 2}", "problem.yaml:4: tol is 2"},
			{head + "operator: &a identity\nregularizer: zero", "anchors and aliases are not allowed"},
			{"data: {y: [1, .nan]}\noperator: identity\nregularizer: zero", "y"},
			{"data: {y: []}\noperator: identity\nregularizer: zero", "problem.yaml:1: array \"y\" is an empty list"},
			{"data: {y: [1, 2], mu: [1]}\noperator: identity\nregularizer: zero",
				`array "mu" has shape (1,), expected (2,)`},
			{"data: {y: [[1, 2], [3]]}\noperator: identity\nregularizer: zero", "rows of different lengths"},
			{"data: {lambda: 3}\noperator: identity\nregularizer: zero", "lambda is not an array of data"},
			{"data: none.npz\noperator: identity\nregularizer: zero", "none.npz: no such file"},
			{"data: {}\noperator: identity\nregularizer: zero", `array "y" is missing`},
		} {
			data, err := load(t, "", c.text)
			if err == nil {
				before := dev.Stats().Live
				_, err = problems.New("", dev, data, problems.Hyper{})
				if live := dev.Stats().Live; live != before {
					t.Errorf("%d batches left by\n%s", live-before, c.text)
				}
			}
			var placed *problems.SpecError
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &placed) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, expected %q with a line, for\n%s", err, c.want, c.text)
			}
		}
	})
}

// The hash changes with the text and with the arrays of the operator.
func TestHashTellsSpecificationsApart(t *testing.T) {
	dir := t.TempDir()
	hash := func(text string, x ...float64) string {
		if err := dataio.WriteNPY(filepath.Join(dir, "x.npy"), dataio.Array{Shape: []int{2, 2}, Data: x}); err != nil {
			t.Fatal(err)
		}
		data, err := load(t, dir, text)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(data.Spec.Hashed()...)
	}
	const text = "data: {y: [1, 2], X: x.npy}\noperator: {dense: X}\nregularizer: {l1: 1}\n"
	first := hash(text, 1, 2, 3, 4)
	if hash(text, 1, 2, 3, 4) != first {
		t.Error("the hash is not reproducible")
	}
	if hash(text, 1, 2, 3, 5) == first || hash(strings.Replace(text, "l1: 1", "l1: 2", 1), 1, 2, 3, 4) == first {
		t.Error("the hash does not change")
	}
}

// The mask takes the same entries from y and mu, and the signal is the whole image.
func TestMaskSelectsWhatWasObserved(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		dir := t.TempDir()
		arrays := []dataio.Array{{Name: "y", Shape: []int{2, 2}, Data: []float64{1, 2, 3, 4}},
			{Name: "mu", Shape: []int{2, 2}, Data: []float64{5, 6, 7, 8}}}
		if err := dataio.WriteNPZ(filepath.Join(dir, "data.npz"), arrays...); err != nil {
			t.Fatal(err)
		}
		p, data := built(t, dev, dir, `
data:
  file: data.npz
  mask: [[0, 1], [2, 0]]
  y: {where: mask}
  mu: {where: mask}
operator: {selection: {where: mask}}
synthesis: {adjoint: dct}
regularizer: {l1: {weight: 0.5, unpenalized: averages}}
`[1:], problems.Hyper{})
		if fmt.Sprint(data.Y, data.Mu) != "[2 3] [6 7]" {
			t.Errorf("y %v, mu %v, expected the entries of the mask", data.Y, data.Mu)
		}
		if fmt.Sprint(p.D, p.P, p.MuShape, p.BShape, p.SignalShape) != "2 4 [2] [2 2] [2 2]" {
			t.Errorf("d = %d, p = %d, shapes %v, %v, %v", p.D, p.P, p.MuShape, p.BShape, p.SignalShape)
		}
		sample := dataio.Array{Shape: []int{2}, Data: []float64{9, 8}}
		if other, err := data.Spec.Load(problems.SpecFiles{FS: problems.Disk, Sample: &sample}); err != nil ||
			fmt.Sprint(other.Y, other.Mu) != "[9 8] [6 7]" {
			t.Errorf("y %v, mu %v, %v, expected the sample", other.Y, other.Mu, err)
		}
		signal, a := linops.ToDense(dev, p.Signal), linops.ToDense(dev, p.Operator)
		for j := range 4 {
			if a.At(0, j) != signal.At(1, j) || a.At(1, j) != signal.At(2, j) {
				t.Fatalf("the operator is\n%v\nof the signal\n%v", mat.Formatted(a), mat.Formatted(signal))
			}
		}
	})
}

func TestSigma2IsEstimatedByTheMethodThatSuits(t *testing.T) {
	all := generated(t, 8)
	wide, err := problems.GenerateLasso(40, 60, 1)
	if err != nil {
		t.Fatal(err)
	}
	tall, err := problems.GenerateLasso(400, 60, 1)
	if err != nil {
		t.Fatal(err)
	}
	picture := problems.Data{Y: problems.Sample(make([]float64, 160*128), 2, 1, 0), YShape: []int{160, 128}}
	for i := range picture.Y {
		r, c := float64(i/128), float64(i%128)
		picture.Y[i] += 30*math.Sin(r*c/300) + 200*math.Exp(-math.Hypot(r-40, c-30)/20)
	}
	for _, c := range []struct {
		method, name string
		data         problems.Data
		want         string
	}{
		{"auto", "lasso", tall, noise.MethodOLSResidual},
		{"auto", "svt", all["svt"], noise.MethodMedianSingularValue},
		{"auto", "robust-pca", all["robust-pca"], noise.MethodRobustLowRank},
		{"auto", "tv1d", all["tv1d"], noise.MethodMAD},
		{"mad", "svt", all["svt"], noise.MethodMAD},
		{"smooth-blocks", "svt", picture, noise.MethodSmoothBlocks},
		// A smooth picture has few singular values that stand out.
		{"auto", "svt", picture, noise.MethodMedianSingularValue},
	} {
		e, err := problems.EstimateSigma2(c.method, c.name, c.data)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if e.Method != c.want || c.method == "auto" && math.Abs(e.Sigma2/2-1) > 4*e.RelStdErr+0.5 {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
	for _, c := range []struct {
		method, name string
		data         problems.Data
		want         string
	}{
		{"median-singular-value", "lasso", tall, "is not a matrix"},
		{"ols-residual", "svt", all["svt"], "no design matrix"},
		{"ols-residual", "lasso", wide, "expected more rows than columns"},
		{"mad", "lasso", tall, "may be in any order"},
		{"smooth-blocks", "lasso", tall, "may be in any order"},
		{"mad", "matrix-completion", all["matrix-completion"], "a selection of entries"},
		{"smooth-blocks", "tv1d", problems.Data{Y: make([]float64, 100)}, "is not an image"},
	} {
		var refused *noise.Refusal
		if _, err := problems.EstimateSigma2(c.method, c.name, c.data); !errors.As(err, &refused) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s by %s: error %v, expected a refusal with %q", c.name, c.method, err, c.want)
		}
	}
	for name, data := range map[string]problems.Data{"lasso": wide, "matrix-completion": all["matrix-completion"]} {
		if _, err := problems.EstimateSigma2("auto", name, data); !errors.Is(err, problems.ErrNeedsFits) {
			t.Errorf("%s: error %v, expected %v", name, err, problems.ErrNeedsFits)
		}
	}
}

// A sparse X gives what the dense one does.
func TestSparseDesignIsTheDenseOne(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		data := generated(t, 9)["lasso"]
		d, p := data.X.Dims()
		x := &dataio.Sparse{Rows: d, Cols: p, IndPtr: []int{0}}
		for i := range d {
			for j := range p {
				if (i+2*j)%5 != 0 {
					data.X.(*mat.Dense).Set(i, j, 0)
					continue
				}
				x.Indices = append(x.Indices, j)
				x.Values = append(x.Values, data.X.At(i, j))
			}
			x.IndPtr = append(x.IndPtr, len(x.Indices))
		}
		sparse := data
		sparse.X = problems.Matrix{Sparse: x}
		for _, name := range []string{"ridge", "lasso"} {
			hyper := problems.Hyper{Lambda: problems.OfMax(0.3)}
			if name == "ridge" {
				hyper.Lambda = problems.Absolute(2)
			}
			var b [2][]float64
			for i, data := range []problems.Data{data, sparse} {
				q, err := problems.New(name, dev, data, hyper)
				if err != nil {
					t.Fatal(err)
				}
				b[i] = solve(t, dev, q, data.Y)
				q.Release()
			}
			for j := range b[0] {
				if math.Abs(b[0][j]-b[1][j]) > 1e-8 {
					t.Fatalf("%s: b[%d] is %g and %g", name, j, b[0][j], b[1][j])
				}
			}
		}
	})
}

// writeText writes a text file.
func writeText(path, text string) error { return os.WriteFile(path, []byte(text), 0o666) }
