package dataio

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tableText reads a Table row by row.
type tableText struct {
	text    *bounded
	opts    TableOptions
	cells   *csv.Reader
	comma   rune
	comment string // the last comment before the table
	skipped int    // the lines before the table

	table   Table
	columns []*columnText
	// lead is 1 where the rows begin with a name that is not among the names of columns.
	lead int
	// point and decimal are the places of the first number with a decimal point and with a decimal
	// comma.
	point, decimal string
	// blank are the rows of empty cells since the last other row.
	blank []int
}

// columnText is a column while it is read. Without a name, all its cells must be empty.
type columnText struct {
	Column
	skip, text bool
	place      map[string]int // of each level
	// first is the first cell that is not missing, and line its line.
	first string
	line  int
}

// newTableText reads what stands before the header line.
func newTableText(r io.Reader, opts TableOptions) (*tableText, error) {
	rows := newRows(r)
	buffered := bufio.NewReaderSize(rows, 64<<10)
	mark, err := buffered.Peek(3)
	if err != nil && err != io.EOF {
		return nil, readError(err)
	}
	switch {
	case bytes.Equal(mark, []byte("\xef\xbb\xbf")):
		buffered.Discard(3)
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")):
		return nil, errors.New("is text in UTF-16, expected UTF-8 (in a spreadsheet: save as \"CSV UTF-8\")")
	case bytes.HasPrefix(mark, []byte("PK")):
		return nil, errors.New("is an archive or a spreadsheet, expected text: save it as .csv")
	}
	t := &tableText{text: rows, opts: opts}
	if t.comment, t.skipped, err = skipComments(buffered); err != nil {
		return nil, readError(err)
	}
	if t.comma, err = separatorLine(buffered); err != nil {
		return nil, err
	}
	if t.comma != 0 {
		t.skipped++
	} else {
		t.comma = tableComma(buffered)
	}
	t.cells = newTable(buffered, t.comma)
	if t.comma == ' ' {
		t.cells.TrimLeadingSpace = true
	}
	return t, nil
}

// separatorLine takes a first line such as "sep=;", as spreadsheets write it; 0 without one.
func separatorLine(r *bufio.Reader) (rune, error) {
	next, _ := r.Peek(8)
	rest, ok := bytes.CutPrefix(next, []byte("sep="))
	if !ok {
		return 0, nil
	}
	comma, _ := utf8.DecodeRune(rest)
	if !strings.ContainsRune(",;\t |", comma) {
		return 0, fmt.Errorf("line 1 is %q, expected a comma, semicolon, tab, space or | after sep=", bytes.TrimSpace(next))
	}
	_, err := r.ReadString('\n')
	if err == io.EOF {
		err = errors.New("holds no rows")
	}
	return comma, err
}

// tableComma is the separator of the first line: see [ReadTable].
func tableComma(r *bufio.Reader) rune {
	if comma := detectComma(r); comma != ',' {
		return comma
	}
	text, _ := r.Peek(r.Size())
	line, _, _ := bytes.Cut(bytes.TrimLeft(text, "\r\n"), []byte("\n"))
	quoted, space := false, false
	for _, c := range bytes.TrimSpace(line) {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',':
			return ','
		case c == ' ':
			space = true
		}
	}
	if space {
		return ' '
	}
	return ','
}

func (t *tableText) read() (*Table, error) {
	names, line, err := t.next()
	if err == io.EOF {
		return nil, errors.New("holds no rows")
	}
	if err != nil {
		return nil, err
	}
	names = slices.Clone(names)
	row, at, err := t.next()
	if err != nil && err != io.EOF {
		return nil, err
	}
	none := err == io.EOF
	if _, numbers := classify(names); numbers > 0 {
		// The names may stand in a comment.
		inComment := commentNames(t.comment, CSVOptions{Comma: t.comma})
		if len(inComment) != len(names) {
			inComment = nil
		}
		switch {
		case inComment != nil:
			first := names
			if err := t.header(inComment, t.skipped, len(names)); err != nil {
				return nil, err
			}
			if err := t.row(first, line); err != nil {
				return nil, err
			}
		case numbers == len(names) && !t.opts.Unnamed:
			return nil, fmt.Errorf("line %d holds numbers only, expected the names of the columns", line)
		}
	}
	if t.columns == nil && t.opts.Unnamed && unnamed(names) {
		if err := t.header(places(len(names)), line, len(names)); err != nil {
			return nil, err
		}
		if err := t.row(names, line); err != nil {
			return nil, err
		}
	}
	if t.columns == nil {
		if none {
			return nil, fmt.Errorf("holds a header line, line %d, and no rows", line)
		}
		if err := t.header(names, line, len(row)); err != nil {
			return nil, err
		}
	}
	for ; err != io.EOF; row, at, err = t.next() {
		if err != nil {
			return nil, err
		}
		if err := t.row(row, at); err != nil {
			return nil, err
		}
	}
	return t.finish()
}

// next is the next record and its line. The cells are valid until the next call.
func (t *tableText) next() ([]string, int, error) {
	rows := len(t.table.Lines)
	if err := t.text.next(rows, rows*(len(t.columns)+1)); err != nil {
		return nil, 0, err
	}
	cells, err := t.cells.Read()
	if err != nil {
		var parse *csv.ParseError
		switch {
		case err == io.EOF:
			return nil, 0, err
		case errors.As(err, &parse):
			return nil, 0, quoteError(parse, t.skipped)
		}
		return nil, 0, readError(err)
	}
	line, _ := t.cells.FieldPos(0)
	return cells, line + t.skipped, nil
}

// header takes the names of the columns, for rows of the given number of cells.
func (t *tableText) header(names []string, line, cells int) error {
	if cells == len(names)+1 {
		t.lead = 1
	} else if first := strings.TrimSpace(names[0]); len(names) > 1 && (first == "" || first == "Unnamed: 0") {
		t.lead, names = 1, names[1:]
	}
	var found []string
	seen := make(map[string]bool, len(names))
	for j, name := range names {
		name = strings.TrimSpace(name)
		switch {
		case !utf8.ValidString(name):
			return fmt.Errorf("line %d, column %d: the name %.40q is not in UTF-8", line, j+t.lead+1, name)
		case name != "" && seen[name]:
			return fmt.Errorf("line %d: two columns are named %.40q", line, name)
		}
		if name != "" {
			found, seen[name] = append(found, name), true
		}
		t.columns = append(t.columns, &columnText{Column: Column{Name: strings.Clone(name)}})
	}
	if t.opts.Columns != nil {
		if err := t.opts.Columns(found); err != nil {
			return err
		}
	}
	for _, c := range t.columns {
		c.skip = c.Name == "" || t.opts.Read != nil && !t.opts.Read(c.Name)
		c.text = t.opts.Text != nil && t.opts.Text(c.Name)
		if c.skip && c.Name != "" {
			t.table.Unread = append(t.table.Unread, c.Name)
		}
	}
	return nil
}

// row appends a row. Rows of empty cells are held back until another row follows.
func (t *tableText) row(cells []string, line int) error {
	if len(cells) != len(t.columns)+t.lead {
		hint := ""
		if t.comma != ',' && strings.Count(strings.Join(cells, ""), ",") > 0 || t.comma == ',' && len(cells) > len(t.columns)+t.lead {
			hint = "; a cell with a separator or a decimal comma in it must be quoted, or the separator be another"
		}
		return fmt.Errorf("line %d has %d cells, expected %d as in the header line and the first row%s", line, len(cells), len(t.columns)+t.lead, hint)
	}
	if !slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) != "" }) {
		t.blank = append(t.blank, line)
		return nil
	}
	for _, at := range t.blank {
		t.table.Lines = append(t.table.Lines, at)
		if t.lead > 0 {
			t.table.RowNames = append(t.table.RowNames, "")
		}
		for _, c := range t.columns {
			c.miss()
		}
	}
	t.blank = t.blank[:0]
	t.table.Lines = append(t.table.Lines, line)
	if t.lead > 0 {
		t.table.RowNames = append(t.table.RowNames, strings.Clone(strings.TrimSpace(cells[0])))
	}
	for j, c := range t.columns {
		if err := t.cell(c, strings.TrimSpace(cells[j+t.lead]), line); err != nil {
			if c.Name == "" {
				return fmt.Errorf("line %d, column %d: %w", line, j+t.lead+1, err)
			}
			return fmt.Errorf("line %d, column %q: %w", line, c.Name, err)
		}
	}
	return nil
}

// cell appends a cell to a column.
func (t *tableText) cell(c *columnText, cell string, line int) error {
	switch {
	case c.Name == "" && cell != "":
		return fmt.Errorf("found %.40q, but the column has no name in the header line", cell)
	case c.skip:
		return nil
	case missingMark(cell):
		c.miss()
		return nil
	}
	if c.text {
		return c.level(cell)
	}
	v, number, err := t.number(cell, line, c.Name)
	if err != nil {
		return err
	}
	if c.first == "" {
		c.first, c.line = strings.Clone(cell), line
	}
	if number && c.place == nil {
		c.Values = append(c.Values, v)
		return nil
	}
	switch {
	case number:
		return fmt.Errorf("found the number %.40q in a column of texts such as %.40q (line %d); expected one kind, or the column to be categorical, or dropped", cell, c.first, c.line)
	case looksNumeric.MatchString(cell):
		_, err := parseCell(cell)
		return err
	case c.place == nil && slices.ContainsFunc(c.Values, func(v float64) bool { return !math.IsNaN(v) }):
		return fmt.Errorf("found %.40q in a column of numbers such as %s (line %d); expected a number, an empty cell or NA where one is missing, or the column to be categorical, or dropped", cell, c.first, c.line)
	}
	return c.level(cell)
}

// miss appends a missing cell.
func (c *columnText) miss() {
	switch {
	case c.skip:
	case c.place != nil:
		c.Codes = append(c.Codes, -1)
	default:
		c.Values = append(c.Values, math.NaN())
	}
}

// level appends a text.
func (c *columnText) level(cell string) error {
	if c.place == nil {
		// The cells so far are missing.
		c.place = map[string]int{}
		for range c.Values {
			c.Codes = append(c.Codes, -1)
		}
		c.Values = nil
	}
	k, known := c.place[cell]
	if !known {
		if !utf8.ValidString(cell) {
			return fmt.Errorf("the text %.40q is not in UTF-8", cell)
		}
		k = len(c.Levels)
		cell = strings.Clone(cell)
		c.Levels = append(c.Levels, cell)
		c.place[cell] = k
	}
	c.Codes = append(c.Codes, k)
	return nil
}

// looksNumeric matches texts that are probably numbers, but not in a form that is read.
var looksNumeric = regexp.MustCompile(`^[-+]?[$€£]?[-+]?[.,]?[0-9][0-9.,' ]*([eE][-+]?[0-9]+)?\s*[%$€£]?$|^(?i:[-+]?inf(inity)?|nan)$`)

// number reads a number, with a decimal point or, where cells are not separated by commas, a decimal
// comma. A table must not have both.
func (t *tableText) number(cell string, line int, column string) (v float64, ok bool, err error) {
	place, other := &t.point, &t.decimal
	v, ok = parseNumber(cell)
	if !ok && t.comma != ',' && strings.Count(cell, ",") == 1 && !strings.Contains(cell, ".") {
		place, other = other, place
		v, ok = parseNumber(strings.Replace(cell, ",", ".", 1))
	}
	if !ok || !strings.ContainsAny(cell, ".,") {
		return v, ok, nil
	}
	if *place == "" {
		*place = fmt.Sprintf("%s (line %d, column %q)", strconv.Quote(cell), line, column)
	}
	if *other != "" {
		return 0, false, fmt.Errorf("found %.40q, but also %s: expected decimal points or decimal commas, not both", cell, *other)
	}
	return v, true, nil
}

// finish returns the table, with columns of TRUE and FALSE as numbers.
func (t *tableText) finish() (*Table, error) {
	if len(t.table.Lines) == 0 {
		return nil, errors.New("holds a header line and no rows")
	}
	for _, c := range t.columns {
		if c.skip {
			continue
		}
		if c.place != nil && !c.text && !slices.ContainsFunc(c.Levels, func(level string) bool { return !isLogical(level) }) {
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
		}
		if c.Codes != nil {
			c.sortLevels()
		}
		t.table.Columns = append(t.table.Columns, c.Column)
	}
	return &t.table, nil
}

func isLogical(cell string) bool {
	switch cell {
	case "TRUE", "FALSE", "True", "False", "true", "false":
		return true
	}
	return false
}

// missingMark reports whether a cell of a table stands for a missing value.
func missingMark(cell string) bool {
	switch cell {
	case "", "?", ".", "#N/A":
		return true
	}
	return missing(cell)
}
