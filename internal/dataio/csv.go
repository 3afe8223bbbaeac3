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
	"unicode"
	"unicode/utf8"
)

// CSVOptions are the settings that [ReadCSV] otherwise detects.
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
	// DetectHeader takes the first line as names if none of its cells is a number. A name may be a
	// number, such as 2019, if it is quoted and the next line has no quotes, or if it is an integer
	// and at least as many names are words.
	DetectHeader Header = iota
	NoHeader
	WithHeader
)

// ReadCSV reads a table of numbers: an array of shape (rows, columns), with Columns set where there
// is a header line. Numbers have a decimal point, cells may be quoted as in RFC 4180, spaces around
// them and a byte order mark are ignored (but a table separated by tabs may have no space before a
// quote). Lines before the table that begin with # are comments; the last of them names the columns
// if it has as many names as there are columns and the table has no other header, as numpy.savetxt
// writes it. A first column without a name is left out if it counts the rows from 0, like the index
// of pandas. A cell that is missing, not a number, NaN or Inf is an error that names the line and
// the column.
func ReadCSV(r io.Reader, opts CSVOptions) (Array, error) {
	rows := newRows(r)
	buffered := bufio.NewReaderSize(rows, 64<<10)
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
	comment, skipped, err := skipComments(buffered)
	if err != nil {
		return Array{}, readError(err)
	}
	if opts.Comma == 0 {
		opts.Comma = detectComma(buffered)
	}
	t := tableReader{text: rows, opts: opts, comment: comment, skipped: skipped, top: topLines(buffered), array: Array{Data: []float64{}}}
	t.cells = newTable(buffered, opts.Comma)
	return t.read()
}

// tableReader reads a table row by row.
type tableReader struct {
	text  *bounded
	cells *csv.Reader
	opts  CSVOptions
	// comment is the last comment before the table, skipped the number of lines before it, top
	// its first two lines.
	comment string
	skipped int
	top     []byte

	array Array
	// cols is the number of cells in a row; the first is an index's where indexed is set.
	rows, cols int
	indexed    bool
	header     int // the line with the names
	previous   int // the line of the row before
}

func (t *tableReader) read() (Array, error) {
	for first := true; ; first = false {
		cells, err := t.cells.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			var parse *csv.ParseError
			if errors.As(err, &parse) {
				return Array{}, quoteError(parse, t.skipped)
			}
			return Array{}, readError(err)
		}
		line, _ := t.cells.FieldPos(0)
		line += t.skipped
		if first {
			names, err := t.begin(cells, line)
			if err != nil {
				return Array{}, err
			}
			if names {
				continue
			}
		}
		if err := t.row(cells, line); err != nil {
			return Array{}, err
		}
		if err := t.text.next(t.rows, len(t.array.Data)); err != nil {
			return Array{}, err
		}
	}
	if t.rows == 0 {
		return Array{}, errors.New("holds no numbers")
	}
	cols := t.cols
	if t.indexed {
		cols, t.array.Columns = cols-1, t.array.Columns[1:]
	}
	t.array.Shape = []int{t.rows, cols}
	return t.array, nil
}

// begin reports whether the first row has the names of the columns, and if so takes them.
func (t *tableReader) begin(cells []string, line int) (isNames bool, err error) {
	t.cols = len(cells)
	names, at := cells, line
	named, err := isHeader(cells, quotedCells(t.cells, t.top, t.cols), t.opts.Header)
	if err != nil {
		return false, fmt.Errorf("line %d, %w", line, err)
	}
	_, numbers := classify(cells)
	inComment := false
	if c := commentNames(t.comment, t.opts); numbers == t.cols && len(c) == t.cols {
		names, at, named, inComment = c, t.skipped, true, true
	}
	if !named {
		return false, nil
	}
	t.indexed = t.cols > 1 && strings.TrimSpace(names[0]) == ""
	if t.array.Columns, err = columnNames(names, t.indexed); err != nil {
		return false, fmt.Errorf("line %d: %w", at, err)
	}
	t.header = at
	return !inComment, nil
}

// row appends a row of numbers.
func (t *tableReader) row(cells []string, line int) error {
	if len(cells) != t.cols {
		return fmt.Errorf("line %d has %d cells, expected %d as on the first line", line, len(cells), t.cols)
	}
	// A blank line is not a row, but in a single column it may be a missing number.
	if t.cols == 1 && t.rows > 0 && line != t.previous+1 {
		return fmt.Errorf("line %d is blank, expected a number", t.previous+1)
	}
	t.previous = line
	if t.indexed {
		if v, err := parseCell(cells[0]); err != nil || v != float64(t.rows) {
			return fmt.Errorf("line %d: column 1 has no name, and on line %d holds %.40q, expected a name (an index counts the rows from 0; pandas leaves it out with index=False)", t.header, line, strings.TrimSpace(cells[0]))
		}
	}
	for j, cell := range cells {
		if t.indexed && j == 0 {
			continue
		}
		v, err := parseCell(cell)
		if err != nil {
			column := ""
			if t.array.Columns != nil {
				column = fmt.Sprintf(" (%q)", t.array.Columns[j])
			}
			return fmt.Errorf("line %d, column %d%s: %w", line, j+1, column, err)
		}
		t.array.Data = append(t.array.Data, v)
	}
	t.rows++
	return nil
}

// newTable reads records of cells. Space before a quote is skipped, unless the separator is itself
// a space, where empty cells would be skipped too.
func newTable(r io.Reader, comma rune) *csv.Reader {
	table := csv.NewReader(r)
	table.Comma = comma
	table.FieldsPerRecord = -1
	table.ReuseRecord = true
	table.TrimLeadingSpace = !unicode.IsSpace(comma)
	return table
}

// skipComments skips the blank lines and the comments before the table, and returns the last
// comment and the number of lines.
func skipComments(r *bufio.Reader) (comment string, lines int, err error) {
	for {
		next, err := r.Peek(2)
		if err != nil && err != io.EOF {
			return "", 0, err
		}
		blank := bytes.HasPrefix(next, []byte("\n")) || bytes.Equal(next, []byte("\r\n"))
		if !blank && !bytes.HasPrefix(next, []byte("#")) {
			return comment, lines, nil
		}
		text, err := r.ReadString('\n')
		if err != nil && err != io.EOF {
			return "", 0, err
		}
		if lines++; !blank {
			comment = text
		}
	}
}

// commentNames are the cells of a comment that may name the columns, nil if it does not.
func commentNames(comment string, opts CSVOptions) []string {
	text := strings.TrimSpace(strings.TrimPrefix(comment, "#"))
	if text == "" || opts.Header == NoHeader {
		return nil
	}
	cells, err := newTable(strings.NewReader(text), opts.Comma).Read()
	if err != nil {
		return nil
	}
	if named, err := isHeader(cells, make([]bool, len(cells)), opts.Header); err != nil || !named {
		return nil
	}
	return cells
}

// quoteError explains an error in the quotes.
func quoteError(err *csv.ParseError, skipped int) error {
	if errors.Is(err, csv.ErrBareQuote) {
		return fmt.Errorf("line %d: a quote (\") stands inside an unquoted cell, expected quotes around the whole cell, next to the separators", skipped+err.Line)
	}
	return fmt.Errorf("line %d: a quoted cell does not end in a quote (\") followed by a separator; a quote within it is written twice (\"\")", skipped+err.StartLine)
}

func readError(err error) error {
	if ended(err) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end")
	}
	return fmt.Errorf("cannot be read (%w)", bareError(err))
}

// detectComma detects the separator on the first line that is not blank, outside quotes.
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

// quotedCells reports which cells of the first record are quoted, if no cell of the next line is:
// where all lines are quoted, quotes do not distinguish names. top is the table's first two lines.
func quotedCells(table *csv.Reader, top []byte, cols int) []bool {
	quoted := make([]bool, cols)
	first, next, _ := bytes.Cut(top, []byte("\n"))
	if bytes.IndexByte(next, '"') >= 0 {
		return quoted
	}
	firstLine, _ := table.FieldPos(0)
	for j := range quoted {
		line, column := table.FieldPos(j)
		quoted[j] = line == firstLine && column <= len(first) && first[column-1] == '"'
	}
	return quoted
}

// topLines are the first two lines, as far as they are in the buffer.
func topLines(r *bufio.Reader) []byte {
	text, _ := r.Peek(r.Size())
	end := 0
	for range 2 {
		i := bytes.IndexByte(text[end:], '\n')
		if i < 0 {
			return slices.Clone(text)
		}
		end += i + 1
	}
	return slices.Clone(text[:end])
}

// classify counts the cells that are numbers, and those that are words: possible names, as opposed
// to missing or malformed numbers.
func classify(cells []string) (words, numbers int) {
	for _, cell := range cells {
		cell = strings.TrimSpace(cell)
		if _, ok := parseNumber(cell); ok {
			numbers++
			continue
		}
		if _, err := strconv.ParseFloat(cell, 64); err == nil || missing(cell) {
			continue
		}
		if c, _ := utf8.DecodeRuneInString(cell); unicode.IsLetter(c) || c == '_' {
			words++
		}
	}
	return words, numbers
}

func isHeader(cells []string, quoted []bool, h Header) (bool, error) {
	if h != DetectHeader {
		return h == WithHeader, nil
	}
	words, numbers := classify(cells)
	if numbers == 0 || numbers == len(cells) {
		return numbers == 0, nil
	}
	word, names := -1, words+numbers == len(cells)
	for j, cell := range cells {
		cell = strings.TrimSpace(cell)
		if _, ok := parseNumber(cell); !ok {
			if word < 0 {
				word = j
			}
		} else if !quoted[j] && (words < numbers || strings.Trim(cell, "0123456789") != "") {
			names = false
		}
	}
	if !names {
		return false, fmt.Errorf("column %d: found %.40q among numbers; expected numbers, or a header line, where a name that is a number is quoted", word+1, cells[word])
	}
	return true, nil
}

// columnNames checks the names. The first may be empty where it is an index's.
func columnNames(cells []string, indexed bool) ([]string, error) {
	names, at := make([]string, len(cells)), make(map[string]int, len(cells))
	for j, cell := range cells {
		cell = strings.TrimSpace(cell)
		if cell == "" && !(indexed && j == 0) {
			return nil, fmt.Errorf("column %d has no name", j+1)
		}
		if !utf8.ValidString(cell) {
			return nil, fmt.Errorf("column %d: the name %.40q is not in UTF-8", j+1, cell)
		}
		if k, twice := at[cell]; twice {
			return nil, fmt.Errorf("columns %d and %d are both named %.40q", k+1, j+1, cell)
		}
		names[j], at[cell] = cell, j
	}
	return names, nil
}

// missing reports whether the cell is a common mark for a missing value.
func missing(cell string) bool {
	switch strings.ToLower(cell) {
	case "nan", "na", "n/a", "null", "none":
		return true
	}
	return false
}

// parseCell reads a finite decimal number.
func parseCell(cell string) (float64, error) {
	cell = strings.TrimSpace(cell)
	if v, ok := parseNumber(cell); ok {
		return v, nil
	}
	switch {
	case cell == "":
		return 0, errors.New("the cell is empty, expected a number")
	case missing(cell):
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
