package dataio

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CSVOptions says what [ReadCSV] is not to find out by itself.
type CSVOptions struct {
	// Comma separates the cells. If 0, it is the tab if the first line has one, else the
	// semicolon, else the comma.
	Comma rune
	// Header says whether the first line names the columns.
	Header Header
}

// Header says whether the first line of a table names its columns.
type Header int

const (
	// DetectHeader takes the first line for names if none of its cells is a number.
	DetectHeader Header = iota
	NoHeader
	WithHeader
)

// ReadCSV reads a table of numbers: an array of shape (rows, columns), with Columns
// set where there is a header line. Numbers have a decimal point, cells may be quoted
// as in RFC 4180, spaces around them and a byte order mark are passed over. What is
// missing, not a number, NaN or Inf is an error that names the line and the column.
func ReadCSV(r io.Reader, opts CSVOptions) (Array, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	mark, err := buffered.Peek(3)
	if err != nil && err != io.EOF {
		return Array{}, readError(err)
	}
	switch {
	case bytes.Equal(mark, []byte("\xef\xbb\xbf")):
		buffered.Discard(3)
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")):
		return Array{}, errors.New("is text in UTF-16, expected UTF-8")
	}
	if opts.Comma == 0 {
		opts.Comma = detectComma(buffered)
	}
	table := csv.NewReader(buffered)
	table.Comma = opts.Comma
	table.FieldsPerRecord = -1
	table.ReuseRecord = true
	a := Array{Data: []float64{}}
	rows, cols, previous := 0, 0, 0
	for first := true; ; first = false {
		cells, err := table.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return Array{}, readError(err)
		}
		line, _ := table.FieldPos(0)
		if first {
			cols = len(cells)
			named, err := isHeader(cells, opts.Header)
			if err != nil {
				return Array{}, fmt.Errorf("line %d, %w", line, err)
			}
			if named {
				if a.Columns, err = columnNames(cells); err != nil {
					return Array{}, fmt.Errorf("line %d: %w", line, err)
				}
				continue
			}
		}
		if len(cells) != cols {
			return Array{}, fmt.Errorf("line %d has %d cells, expected %d as on the first line", line, len(cells), cols)
		}
		// A blank line is no row, but in a single column it may be a missing number.
		if cols == 1 && rows > 0 && line != previous+1 {
			return Array{}, fmt.Errorf("line %d is blank, expected a number", previous+1)
		}
		previous = line
		for j, cell := range cells {
			v, err := parseCell(cell)
			if err != nil {
				column := ""
				if a.Columns != nil {
					column = fmt.Sprintf(" (%q)", a.Columns[j])
				}
				return Array{}, fmt.Errorf("line %d, column %d%s: %w", line, j+1, column, err)
			}
			a.Data = append(a.Data, v)
		}
		rows++
	}
	if rows == 0 {
		return Array{}, errors.New("holds no numbers")
	}
	a.Shape = []int{rows, cols}
	return a, nil
}

func readError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("line %d: %w", parse.Line, parse.Err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end")
	}
	return fmt.Errorf("cannot be read (%w)", bareError(err))
}

// detectComma looks at the first line that is not blank, outside quotes.
func detectComma(r *bufio.Reader) rune {
	text, _ := r.Peek(r.Size())
	text = bytes.TrimLeft(text, "\r\n")
	quoted, semicolon := false, false
	for _, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\t':
			return '\t'
		case c == ';':
			semicolon = true
		case c == '\n' && semicolon:
			return ';'
		case c == '\n':
			return ','
		}
	}
	if semicolon {
		return ';'
	}
	return ','
}

func isHeader(cells []string, h Header) (bool, error) {
	if h != DetectHeader {
		return h == WithHeader, nil
	}
	numbers, word := 0, -1
	for j, cell := range cells {
		if _, err := parseCell(cell); err == nil {
			numbers++
		} else if word < 0 {
			word = j
		}
	}
	if numbers > 0 && word >= 0 {
		return false, fmt.Errorf("column %d: found %.40q among numbers; expected numbers, or a header line with no number", word+1, cells[word])
	}
	return numbers == 0, nil
}

func columnNames(cells []string) ([]string, error) {
	names := make([]string, len(cells))
	for j, cell := range cells {
		cell = strings.TrimSpace(cell)
		if j == 0 {
			// numpy.savetxt marks its header as a comment.
			cell = strings.TrimSpace(strings.TrimPrefix(cell, "#"))
		}
		if cell == "" {
			return nil, fmt.Errorf("column %d has no name (an index? pandas leaves it out with index=False)", j+1)
		}
		if !utf8.ValidString(cell) {
			return nil, fmt.Errorf("column %d: the name %.40q is not in UTF-8", j+1, cell)
		}
		if k := slices.Index(names[:j], cell); k >= 0 {
			return nil, fmt.Errorf("columns %d and %d are both named %.40q", k+1, j+1, cell)
		}
		names[j] = cell
	}
	return names, nil
}

// parseCell reads a finite decimal number.
func parseCell(cell string) (float64, error) {
	cell = strings.TrimSpace(cell)
	if v, ok := parseNumber(cell); ok {
		return v, nil
	}
	switch strings.ToLower(cell) {
	case "":
		return 0, errors.New("the cell is empty, expected a number")
	case "nan", "na", "n/a", "null", "none":
		return 0, fmt.Errorf("found %q, a missing value, expected a number", cell)
	}
	if _, ok := parseNumber(strings.Replace(cell, ",", ".", 1)); ok {
		return 0, fmt.Errorf("found %.40q, expected a number with a decimal point", cell)
	}
	if parts := strings.Fields(cell); len(parts) > 1 {
		if _, ok := parseNumber(parts[0]); ok {
			return 0, fmt.Errorf("found %.40q, expected cells separated by commas, semicolons or tabs", cell)
		}
	}
	return 0, fmt.Errorf("found %.40q, expected a finite number", cell)
}

// parseNumber reads a finite decimal number. strconv also reads hexadecimal digits,
// underscores, NaN and Inf.
func parseNumber(s string) (float64, bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default:
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	// Below the least float64 it is 0 or near it without an error, beyond the largest Inf.
	return v, err == nil && !math.IsInf(v, 0)
}
