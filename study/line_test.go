package study

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Two first lines are told apart by their keys, the options of settings and flags one by one; keys that follow from
// others are named last, and free ones may differ.
func TestFirstLinesAreToldApart(t *testing.T) {
	const line = `{"run":1,"settings":{"tol":"1e-8"},"flags":{"drop":["a","b"]},"seed":3,"chain":2,"data":"sha256:12","grid":[1]}`
	want, err := parseFirst([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, text string }{
		{`"1e-8"`, `"1e-3"`, `it was begun with --tol "1e-3", expected "1e-8"`},
		{`["a","b"]`, `["a"]`, `it was begun with --drop "a", expected "a","b"`},
		{`,"seed":3`, ``, `it was begun with seed none, expected 3`},
		{`:2,"data"`, `:1,"data"`, `it was begun with chain 1, expected 2`},
		{`3,"chain":2`, `4,"chain":1`, `it was begun with seed 4, expected 3`},
		{`sha256:12","grid":[1]`, `sha256:13","grid":[2]`, `it was begun with other data (sha256:13..., expected sha256:12...)`},
		{`"run":1`, `"run": 2`, ``},
	} {
		found, err := parseFirst([]byte(strings.Replace(line, c.old, c.new, 1)))
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		if err := found.differs(want, "run"); err != nil {
			text = Text(err, func(o Option) string { return "--" + string(o) })
		}
		if text != c.text {
			t.Errorf("%s in place of %s: %q, expected %q", c.new, c.old, text, c.text)
		}
	}
}

// A line must be of its kind and have its number; the summary of a sweep is told from its points.
func TestLinesHaveTheirPlaces(t *testing.T) {
	one := 1
	for _, c := range []struct {
		at         position
		line, text string
	}{
		{sampleAt(5, 2, 1), `{"sample":6}`, ``},
		{sampleAt(5, 2, 1), `{"sample":5}`, `it is sample 5, expected sample 6`},
		{sampleAt(5, 2, 3), `{"sample":5,"repeat":1}`, ``},
		{sampleAt(5, 2, 3), `{"sample":5,"repeat":2}`, `it is repetition 2 of sample 5, expected repetition 1 of sample 5`},
		{pointAt(1), `{"index":1,"stage":"refine"}`, ``},
		{position{Index: &one, Stage: "grid"}, `{"index":1,"stage":"refine"}`,
			`it is a point of the stage "refine", expected "grid"`},
		{pointAt(1), `{"sample":1}`, `it has no "index"`},
	} {
		text := ""
		if err := c.at.check([]byte(c.line)); err != nil {
			text = err.Error()
		}
		if text != c.text {
			t.Errorf("%s: %q, expected %q", c.line, text, c.text)
		}
	}
	if err := pointAt(1).check([]byte(`{"summary":true,"points":1}`)); !errors.Is(err, errSummary) {
		t.Errorf("a summary: %v", err)
	}
}

// Weights that cannot be told apart are ranges without a hole.
func TestRangesOfAlikePointsHaveNoHoles(t *testing.T) {
	axes := []Axis{{Name: "lambda"}}
	var lines []SweepLine
	for _, v := range []float64{1, 2, 3, 4, 5, 2.5} {
		l := SweepLine{}
		*l.Named("lambda") = Weight(v)
		lines = append(lines, l)
	}
	if got := ranges(axes, lines, []int{0, 1, 3, 5}); !slices.Equal(got, [][2]Number{{1, 2.5}, {4, 4}}) {
		t.Errorf("%v", got)
	}
	if got := ranges(append(axes, axes...), lines, []int{0}); got != nil {
		t.Errorf("of two weights: %v", got)
	}
}
