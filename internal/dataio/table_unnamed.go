package dataio

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// unnamed reports whether the first line is a row of a matrix and not one of names: every cell is a
// number or missing, and some are numbers. A first cell that is empty before different integers is
// that of a corner, as pandas writes columns and rows that are counted.
func unnamed(cells []string) bool {
	numbers, seen := 0, map[float64]bool{}
	corner := len(cells) > 1 && strings.TrimSpace(cells[0]) == ""
	for j, cell := range cells {
		cell = strings.TrimSpace(cell)
		v, ok := parseNumber(cell)
		if !ok {
			v, ok = parseNumber(strings.Replace(cell, ",", ".", 1))
		}
		switch {
		case ok:
			numbers++
		case !missingMark(cell):
			return false
		}
		if j > 0 && (!ok || v != math.Trunc(v) || seen[v]) {
			corner = false
		}
		seen[v] = true
	}
	return numbers > 0 && !corner
}

// places are names of so many columns, counted from 0.
func places(n int) []string {
	names := make([]string, n)
	for j := range names {
		names[j] = strconv.Itoa(j)
	}
	return names
}

// Matrix is the matrix of the columns of a table, all of which must be of numbers. Missing cells are
// NaN. It returns an error where a column holds texts.
func (t *Table) Matrix() (Array, error) {
	a := Array{Shape: []int{t.Rows(), len(t.Columns)}, Data: make([]float64, t.Rows()*len(t.Columns))}
	for j, c := range t.Columns {
		if c.Values == nil && slices.ContainsFunc(c.Codes, func(k int) bool { return k >= 0 }) {
			return Array{}, &TextColumnError{c.Name, c.Levels[0]}
		}
		for i := range t.Rows() {
			a.Data[i*len(t.Columns)+j] = math.NaN()
			if c.Values != nil {
				a.Data[i*len(t.Columns)+j] = c.Values[i]
			}
		}
	}
	return a, nil
}

// TextColumnError is the error of a column that holds texts where numbers are expected.
type TextColumnError struct {
	Column, Text string
}

func (e *TextColumnError) Error() string {
	return "column " + strconv.Quote(e.Column) + " holds texts such as " + strconv.Quote(e.Text) + ", expected numbers"
}
