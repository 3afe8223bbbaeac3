package dataio

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// columnText is a column while it is read. It has Values as long as it may be one of numbers, and Levels
// and Codes as long as it may be one of texts: quoted numbers are either, until a cell is a number without
// quotes or no number. Without a name, all its cells must be empty.
type columnText struct {
	Column
	skip    bool
	numbers bool           // it may be a column of numbers
	place   map[string]int // of each level; nil in a column of numbers
	// first is the first cell that shows the kind of the column, and line its line.
	first string
	line  int
	// word says that a cell is neither a number nor looks like one, and suspect is the error of the first
	// that looks like one among texts.
	word    bool
	suspect error
}

func (c *columnText) texts() { c.numbers, c.Values = false, nil }

func (c *columnText) begin(text bool) { c.numbers, c.place = !text, map[string]int{} }

func (c *columnText) miss() {
	if c.skip {
		return
	}
	if c.numbers {
		c.Values = append(c.Values, math.NaN())
	}
	if c.place != nil {
		c.Codes = append(c.Codes, -1)
	}
}

func (c *columnText) level(text string) error {
	k, known := c.place[text]
	if !known {
		if !utf8.ValidString(text) {
			return fmt.Errorf("the text %.40q is not in UTF-8", text)
		}
		k = len(c.Levels)
		text = strings.Clone(text)
		c.Levels = append(c.Levels, text)
		c.place[text] = k
	}
	c.Codes = append(c.Codes, k)
	return nil
}

// logicals are the texts that stand for 1 and 0.
var logicals = []string{"TRUE", "FALSE", "True", "False", "true", "false"}

// finish is the column when all cells have been read. A column in which no cell shows its kind is one of
// numbers, all missing, unless it has texts in quotes.
func (c *columnText) finish() Column {
	quotedMarks := c.numbers && c.first == "" && len(c.Levels) > 0
	other := func(level string) bool { return !slices.Contains(logicals, level) }
	logical := !c.numbers && c.first != "" && !slices.ContainsFunc(c.Levels, other)
	switch {
	case logical:
		c.Values = make([]float64, len(c.Codes))
		for i, k := range c.Codes {
			switch {
			case k < 0:
				c.Values[i] = math.NaN()
			case strings.EqualFold(c.Levels[k], "true"):
				c.Values[i] = 1
			}
		}
		c.Levels, c.Codes = nil, nil
	case c.numbers && !quotedMarks:
		c.Levels, c.Codes = nil, nil
	default:
		c.Values = nil
		c.sortLevels()
	}
	return c.Column
}

func (c *Column) sortLevels() {
	order := slices.Clone(c.Levels)
	slices.Sort(order)
	rank := make([]int, len(order))
	for k, level := range c.Levels {
		rank[k], _ = slices.BinarySearch(order, level)
	}
	for i, k := range c.Codes {
		if k >= 0 {
			c.Codes[i] = rank[k]
		}
	}
	c.Levels = order
}
