package dataio

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"surepipe/internal/lists"
)

// tableText reads a Table row by row.
type tableText struct {
	opts    TableOptions
	records *records
	comment string // the last comment before the table
	marks   marks

	table   Table
	columns []*columnText
	// lead is 1 where the rows begin with a name that is not among the names of columns.
	lead int
	// previous is the line on which the row before began.
	previous int
	// point and decimal are the places of the first number with a decimal point and with a decimal
	// comma.
	point, decimal string
	// blank are the rows of empty cells since the last other row.
	blank []int
}

func (t *tableText) read() (*Table, error) {
	first, err := t.records.next()
	if err == io.EOF {
		return nil, errors.New("holds no rows")
	}
	if err != nil {
		return nil, err
	}
	first, line := slices.Clone(first), t.records.at
	row, err := t.records.next()
	if err != nil && err != io.EOF {
		return nil, err
	}
	names, named, refused := t.names(first, row, line)
	switch {
	case refused != nil:
		return nil, refused
	case named && err == io.EOF:
		return nil, fmt.Errorf("holds a header line, line %d, and no rows", line)
	case named:
		t.previous = line
		refused = t.header(names, line, row)
	default:
		if refused = t.header(names, line-1, first); refused == nil {
			refused = t.row(first, line)
		}
	}
	for refused == nil && err == nil {
		rows := len(t.table.Lines)
		refused = cmp.Or(t.row(row, t.records.at), t.records.rows.next(rows, rows*(len(t.columns)+1)))
		if refused == nil {
			row, err = t.records.next()
		}
	}
	if err = cmp.Or(refused, err); err != io.EOF {
		return nil, err
	}
	return t.finish()
}

// names finds the names of the columns: named says that they are the first record, of that line; else they
// are in the last comment before it, or, for a table without names, their places. next is the second
// record.
func (t *tableText) names(first, next []cell, line int) (names []string, named bool, err error) {
	names = texts(first)
	words, numbers := t.classify(first)
	if numbers == 0 {
		return names, true, nil
	}
	if inComment := t.commentNames(); len(inComment) == len(first) {
		return inComment, false, nil
	}
	quoted := quotedNames(first, next)
	plain, word := 0, -1
	for j, c := range first {
		if _, ok, _ := t.parse(c.text); !ok && c.text != "" && !t.marks.has(c.text) && word < 0 {
			word = j
		} else if ok && !quoted[j] {
			plain++
		}
	}
	switch {
	case plain == 0, words > 0 && !t.opts.Unnamed:
		return names, true, nil
	case word < 0 && !corner(first) && !t.opts.Unnamed:
		return nil, false, fmt.Errorf("line %d holds numbers only, expected the names of the columns", line)
	case word < 0 && !corner(first):
		t.table.Unnamed = true
		return lists.Make(len(names), strconv.Itoa), false, nil
	}
	// A number may be a name, such as a year, where it is an integer and at least as many names are words.
	for j, c := range first {
		_, number, _ := t.parse(c.text)
		if number && !quoted[j] && !corner(first) && (words < numbers || strings.Trim(c.text, "0123456789") != "") {
			return nil, false, fmt.Errorf(
				"line %d, column %d: found %.40q among numbers; expected numbers, or a header line, "+
					"where a name that is a number is quoted", line, word+1, first[word].text)
		}
	}
	return names, true, nil
}

// parse reads a number, with a decimal point or, where cells are not separated by commas, a decimal comma;
// decimal says which it is.
func (t *tableText) parse(text string) (v float64, ok, decimal bool) {
	v, ok = ParseNumber(text)
	if ok || t.records.comma == ',' || strings.Count(text, ",") != 1 || strings.Contains(text, ".") {
		return v, ok, false
	}
	v, ok = ParseNumber(strings.Replace(text, ",", ".", 1))
	return v, ok, true
}

// classify counts the cells that are numbers, and those that are words: possible names, as opposed
// to missing or malformed numbers.
func (t *tableText) classify(cells []cell) (words, numbers int) {
	for _, c := range cells {
		if _, ok, _ := t.parse(c.text); ok {
			numbers++
			continue
		}
		first, _ := utf8.DecodeRuneInString(c.text)
		if !t.marks.has(c.text) && (unicode.IsLetter(first) || first == '_') {
			words++
		}
	}
	return words, numbers
}

// corner reports whether the first cell is empty before different integers, as pandas writes columns and
// rows that are counted.
func corner(first []cell) bool {
	seen := map[float64]bool{}
	for _, c := range first[1:] {
		v, ok := ParseNumber(c.text)
		if !ok || v != math.Trunc(v) || seen[v] {
			return false
		}
		seen[v] = true
	}
	return len(first) > 1 && first[0].text == ""
}

// commentNames are the cells of the last comment before the table, as numpy.savetxt writes names; nil
// where they are none.
func (t *tableText) commentNames() (names []string) {
	text := strings.TrimSpace(strings.TrimPrefix(t.comment, "#"))
	if text == "" {
		return nil
	}
	in, _, err := openText(strings.NewReader(text))
	if err != nil {
		return nil
	}
	in.comma = t.records.comma
	cells, err := in.next()
	if err != nil {
		return nil
	}
	if _, numbers := t.classify(cells); numbers > 0 {
		return nil
	}
	return texts(cells)
}

func texts(cells []cell) []string { return lists.Map(cells, func(c cell) string { return c.text }) }

func (t *tableText) header(names []string, line int, row []cell) error {
	if first := names[0]; len(row) == len(names)+1 {
		if last := row[len(row)-1]; last.text == "" && !last.quoted {
			names = append(names, "") // every line ends with a separator
		} else {
			t.lead = 1
		}
	} else if len(names) > 1 && (first == "" || first == "Unnamed: 0") && !t.table.Unnamed {
		t.lead, names = 1, names[1:]
	}
	var found []string
	taken := make(map[string]bool, len(names))
	for j, name := range names {
		switch {
		case !utf8.ValidString(name):
			return fmt.Errorf("line %d, column %d: the name %.40q is not in UTF-8", line, j+t.lead+1, name)
		case taken[name]:
			return fmt.Errorf("line %d: two columns are named %.40q", line, name)
		}
		if name != "" {
			found, taken[name] = append(found, name), true
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
		c.begin(t.opts.Text != nil && t.opts.Text(c.Name))
		if c.skip && c.Name != "" {
			t.table.Unread = append(t.table.Unread, c.Name)
		}
	}
	return nil
}

// row appends a row. Rows of empty cells are held back until another row follows.
func (t *tableText) row(cells []cell, line int) error {
	if len(cells) != len(t.columns)+t.lead {
		hint := ""
		commas := slices.ContainsFunc(cells, func(c cell) bool { return strings.Contains(c.text, ",") })
		if t.records.comma != ',' && commas || t.records.comma == ',' && len(cells) > len(t.columns)+t.lead {
			hint = "; a cell with a separator or a decimal comma in it must be quoted, or the separator be another"
		}
		as := "the header line and the first row"
		if t.table.Unnamed {
			as = "the first row"
		}
		return fmt.Errorf("line %d has %d cells, expected %d as in %s%s",
			line, len(cells), len(t.columns)+t.lead, as, hint)
	}
	if len(cells) == 1 {
		// A blank line is no row, but in a single column it is an empty cell.
		for k := t.records.blank; k > 0 && t.previous > 0; k-- {
			t.blank = append(t.blank, line-k)
		}
	}
	t.previous = line
	if !slices.ContainsFunc(cells, func(c cell) bool { return c.text != "" }) {
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
		t.table.RowNames = append(t.table.RowNames, strings.Clone(cells[0].text))
	}
	for j, c := range t.columns {
		if err := t.cell(c, cells[j+t.lead], line); err != nil && err == c.suspect {
			return err
		} else if err != nil {
			return t.at(c, line, err)
		}
	}
	return nil
}

func (t *tableText) at(c *columnText, line int, err error) error {
	if c.Name == "" || t.table.Unnamed {
		return fmt.Errorf("line %d, column %d: %w", line, slices.Index(t.columns, c)+t.lead+1, err)
	}
	return fmt.Errorf("line %d, column %q: %w", line, c.Name, err)
}

func (t *tableText) cell(c *columnText, cell cell, line int) error {
	switch {
	case c.Name == "" && cell.text != "":
		return fmt.Errorf("found %.40q, but the column has no name in the header line", cell.text)
	case c.skip:
		return nil
	case cell.text == "" || t.marks.has(cell.text) && (!cell.quoted || c.place == nil):
		c.miss()
		return nil
	case t.marks.has(cell.text):
		if c.numbers { // it is missing, and else a text
			c.Values = append(c.Values, math.NaN())
		}
		return c.level(cell.text)
	case !c.numbers && c.first == "": // categories
		return c.level(cell.text)
	}
	v, number, err := t.number(cell.text, line, c.Name)
	switch {
	case err != nil:
		return err
	case number && !cell.quoted && slices.Contains(t.marks.numbers, v):
		c.miss()
		return nil
	}
	first := c.first == ""
	if first {
		c.first, c.line = strings.Clone(cell.text), line
	}
	switch {
	case number && c.numbers:
		c.Values = append(c.Values, v)
		if !cell.quoted && c.place != nil {
			c.place, c.Levels, c.Codes = nil, nil, nil
		}
		if c.place == nil {
			return nil
		}
	case number && !cell.quoted && !c.word && c.suspect != nil:
		return c.suspect
	case number && !cell.quoted:
		return fmt.Errorf("found the number %.40q in a column of texts such as %.40q (line %d); expected one "+
			"kind (--na names texts that stand for missing values), or the column to be "+
			"categorical, or dropped", cell.text, c.first, c.line)
	case number:
	case looksNumeric.MatchString(cell.text):
		err := notNumber(cell.text)
		if c.place == nil {
			return err
		}
		if !t.opts.Unnamed {
			err = fmt.Errorf("%w, or the column to be categorical, or dropped", err)
		}
		if c.suspect == nil {
			c.suspect = t.at(c, line, err)
		}
		c.texts()
	case c.place == nil:
		return fmt.Errorf("found %.40q in a column of numbers such as %s (line %d); expected a number, an "+
			"empty cell or NA where one is missing (--na names other texts), or the column to be "+
			"categorical, or dropped", cell.text, c.first, c.line)
	default:
		if c.texts(); !c.word {
			c.word, c.first, c.line = true, strings.Clone(cell.text), line
		}
	}
	return c.level(cell.text)
}

// number reads a number. A table must not have both decimal points and decimal commas.
func (t *tableText) number(cell string, line int, column string) (v float64, ok bool, err error) {
	place, other := &t.point, &t.decimal
	v, ok, decimal := t.parse(cell)
	if decimal {
		place, other = other, place
	}
	if !ok || *place != "" && *other == "" || !strings.ContainsAny(cell, ".,") {
		return v, ok, nil
	}
	if *place == "" {
		*place = fmt.Sprintf("%s (line %d, column %q)", strconv.Quote(cell), line, column)
	}
	if *other != "" {
		return 0, false, fmt.Errorf("found %.40q, but also %s: expected decimal points or decimal commas, not both",
			cell, *other)
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
		if c.suspect != nil && !c.word {
			return nil, c.suspect // no cell is a word: they are meant for numbers
		}
		t.table.Columns = append(t.table.Columns, c.finish())
	}
	return &t.table, nil
}
