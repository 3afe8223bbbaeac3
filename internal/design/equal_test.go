package design

import (
	"slices"
	"testing"

	"surepipe/internal/dataio"
)

func TestDecimal(t *testing.T) {
	for text, want := range map[string]string{
		"1": "1", "01": "1", "1.0": "1", "+1.": "1", "-01.50": "-1.5", "0": "0", "-0.0": "0", ".5": "0.5", "000": "0",
		"9007199254740993": "9007199254740993", "1e3": "", "": "", ".": "", "-": "", "a1": "", "1.2.3": "", "1,5": "",
	} {
		if got, ok := decimal(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q %t, expected %q", text, got, ok, want)
		}
	}
}

// Texts that are equal numbers are one level, under the first of them, or under the known one; a
// column with any other text keeps all of its levels.
func TestUnify(t *testing.T) {
	column := func(levels ...string) dataio.Column {
		c := dataio.Column{Name: "id", Levels: levels}
		for k := range levels {
			c.Codes = append(c.Codes, k, -1)
		}
		return c
	}
	for _, c := range []struct {
		levels, known, want []string
		codes               []int
	}{
		{[]string{"01", "1", "1.0", "2"}, nil, []string{"01", "2"}, []int{0, -1, 0, -1, 0, -1, 1, -1}},
		{[]string{"01", "1", "x"}, nil, []string{"01", "1", "x"}, []int{0, -1, 1, -1, 2, -1}},
		{[]string{"1.0", "3"}, []string{"1", "2"}, []string{"1", "3"}, []int{0, -1, 1, -1}},
		{[]string{"1.0", "x"}, []string{"1", "2"}, []string{"1", "x"}, []int{0, -1, 1, -1}},
		{[]string{"1.0"}, []string{"1", "b"}, []string{"1.0"}, []int{0, -1}},
	} {
		got, _ := unify(column(c.levels...), c.known)
		if !slices.Equal(got.Levels, c.want) || !slices.Equal(got.Codes, c.codes) {
			t.Errorf("%q by %q: %q %v, expected %q %v", c.levels, c.known, got.Levels, got.Codes, c.want, c.codes)
		}
	}
}
