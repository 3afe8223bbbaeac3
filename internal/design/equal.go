package design

import (
	"fmt"
	"slices"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/internal/lists"
)

// decimal is the shortest writing of a plain decimal number, without a sign +, zeros at either end
// or a point before nothing: "1" for "01" and "1.0"; ok is false for other texts. All digits count,
// so that long numbers stay different.
func decimal(text string) (short string, ok bool) {
	sign := ""
	if rest, cut := strings.CutPrefix(text, "-"); cut {
		text, sign = rest, "-"
	} else {
		text = strings.TrimPrefix(text, "+")
	}
	whole, part, _ := strings.Cut(text, ".")
	if strings.Trim(whole, "0123456789") != "" || strings.Trim(part, "0123456789") != "" || whole+part == "" {
		return "", false
	}
	whole, part = strings.TrimLeft(whole, "0"), strings.TrimRight(part, "0")
	if whole == "" {
		whole = "0"
	}
	if part != "" {
		part = "." + part
	}
	if short = whole + part; short == "0" {
		sign = ""
	}
	return sign + short, true
}

func allDecimal(texts []string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool { _, ok := decimal(s); return !ok })
}

// unify makes one level of the texts of a column that are equal numbers, where all texts are plain
// decimal numbers: "1", "01" and "1.0" are one identifier written in different ways, as by programs
// that turn integers with missing values into floating point numbers. The level keeps the text that is
// among the known ones, or else the first. merged says which texts became one, for a note; it is
// empty where none did.
func unify(c dataio.Column, known []string) (_ dataio.Column, merged string) {
	if c.Levels == nil || known == nil && !allDecimal(c.Levels) || !allDecimal(known) {
		return c, ""
	}
	text := map[string]string{}
	for _, list := range [][]string{known, c.Levels} {
		for _, s := range list {
			short, ok := decimal(s)
			if !ok {
				continue
			}
			first, seen := text[short]
			if !seen {
				text[short] = s
			} else if first != s && merged == "" {
				merged = fmt.Sprintf("column %q: %.40q and %.40q", c.Name, first, s)
			}
		}
	}
	if merged == "" {
		return c, ""
	}
	of := func(s string) string {
		if short, ok := decimal(s); ok {
			return text[short]
		}
		return s
	}
	names := lists.Map(c.Levels, of)
	slices.Sort(names)
	names = slices.Compact(names)
	codes := slices.Clone(c.Codes)
	for i, k := range codes {
		if k >= 0 {
			codes[i], _ = slices.BinarySearch(names, of(c.Levels[k]))
		}
	}
	c.Levels, c.Codes = names, codes
	return c, merged
}

// Unify is a column of texts in which those that are plain decimal numbers have the writing that the
// equal number has among the known texts, where these are such numbers.
func Unify(c dataio.Column, known []string) dataio.Column {
	if len(known) > 0 {
		c, _ = unify(c, known)
	}
	return c
}
