package dataio

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ParseNumber reads a finite decimal number, such as 12, -0.5 or 3e-4: every number that a user writes,
// in a file or a flag, is read by it. ok is false for other texts, among them those that package strconv
// takes for numbers too: 0x10, 1_000, NaN and Inf.
func ParseNumber(text string) (v float64, ok bool) {
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default:
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	// Below the least float64 it is 0 or near it without an error, beyond the largest Inf.
	return v, err == nil && !math.IsInf(v, 0)
}

func notNumber(cell string) error {
	if cell == "" {
		return errors.New("the cell is empty, expected a number")
	}
	if _, ok := ParseNumber(strings.Replace(cell, ",", ".", 1)); ok {
		return fmt.Errorf("found %.40q, expected a number with a decimal point, and without separators of thousands",
			cell)
	}
	if parts := strings.Fields(cell); len(parts) > 1 {
		if _, ok := ParseNumber(parts[0]); ok {
			return fmt.Errorf("found %.40q, expected cells separated by commas, semicolons or tabs", cell)
		}
	}
	return fmt.Errorf("found %.40q, expected a finite number", cell)
}

// looksNumeric matches texts that are probably numbers, but not in a form that is read: with a unit of
// money, a percent sign or separators of thousands, in hexadecimal or other digits, or not finite.
var looksNumeric = regexp.MustCompile(`^\(?['’]?[-+−]?[$€£]?[-+−]?[.,]?\p{Nd}[\p{Nd}.,_'’ \x{a0}\x{2009}\x{202f}]*` +
	`([eEdD][-+]?[0-9_]+)?\s*[%$€£]?\)?$|^[-+]?0[xX][0-9a-fA-F]+$|^(?i:[-+]?inf(inity)?|nan)$`)

// MissingMarks are the texts that stand for a missing value in a table, besides an empty cell.
var MissingMarks = []string{"NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "?", "."}

// marks are texts that stand for a missing value.
type marks struct {
	texts   []string
	numbers []float64
	begins  [256]bool // the first bytes
}

func marksOf(na []string) marks {
	if na == nil {
		na = MissingMarks
	}
	na = slices.DeleteFunc(slices.Clone(na), func(text string) bool { return text == "" })
	m := marks{texts: na}
	for _, text := range na {
		m.begins[text[0]] = true
		if v, ok := ParseNumber(text); ok {
			m.numbers = append(m.numbers, v)
		}
	}
	return m
}

func (m *marks) has(text string) bool {
	return text != "" && m.begins[text[0]] && slices.Contains(m.texts, text)
}
