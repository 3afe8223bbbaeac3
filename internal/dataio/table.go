package dataio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
)

// Table is a table of named columns, each of numbers or of texts.
type Table struct {
	Columns []Column
	// RowNames are the names of the rows, from a first column without a name; nil where there is
	// none. Lines are the lines of the file on which the rows begin, counted from 1.
	RowNames []string
	Lines    []int
	// Unread names the columns that were not asked for, in the file's order.
	Unread []string
	// Unnamed says that the columns have no names: those of Columns are their places, counted from 0.
	Unnamed bool
}

type Column struct {
	Name string
	// Values are the numbers, NaN where one is missing; nil in a column of texts.
	Values []float64
	// Levels are the different texts in increasing order of their bytes, and Codes their places in
	// Levels, -1 where a text is missing; nil in a column of numbers.
	Levels []string
	Codes  []int
}

func (c Column) Missing(i int) bool {
	if c.Values != nil {
		return math.IsNaN(c.Values[i])
	}
	return c.Codes[i] < 0
}

func (t *Table) Rows() int { return len(t.Lines) }

// Column returns the column of that name; the error lists the columns, and suggests one that may be
// meant.
func (t *Table) Column(name string) (Column, error) {
	c, ok := lists.Find(t.Columns, func(c Column) bool { return c.Name == name })
	if !ok {
		return c, ndarray.MissingColumn(name, t.Names())
	}
	return c, nil
}

// Names lists all columns, also those that were not read.
func (t *Table) Names() []string {
	names := lists.Map(t.Columns, func(c Column) string { return c.Name })
	return append(names, t.Unread...)
}

// TableOptions say how [ReadTable] reads the columns.
type TableOptions struct {
	Files
	// Read reports whether to read the column of that name; nil reads all. Columns is called before
	// with the names of all columns, and may refuse them; nil accepts all.
	Columns func(names []string) error
	Read    func(name string) bool
	// Text reports whether the column of that name holds texts even where they look like numbers;
	// nil stands for none.
	Text func(name string) bool
	// NA are the texts that stand for a missing value, besides an empty cell; nil for [MissingMarks].
	NA []string
	// Missing takes missing cells of an array for NaN, where else they are errors.
	Missing bool
	// Unnamed accepts a table without a header line, whose first line has numbers and missing values
	// only: the columns are then named by their places, counted from 0.
	Unnamed bool
}

// IsTable reports whether the path has the extension of a table: .csv, .tsv or .txt, or one of
// these followed by .gz.
func IsTable(path string) bool {
	return slices.Contains(tableExtensions, strings.ToLower(filepath.Ext(strings.TrimSuffix(path, ".gz"))))
}

// OpenTable is [ReadTable] for a file, which may be compressed with gzip. Errors name the file.
func OpenTable(path string, opts TableOptions) (*Table, error) {
	t, err := openTable(path, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func openTable(path string, opts TableOptions) (*Table, error) {
	const expected = "a table with a header line (.csv or .tsv)"
	if !IsTable(path) {
		return nil, fmt.Errorf("is no table by its name, expected %s", expected)
	}
	f, err := opts.open(path, expected)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.size == 0 {
		return nil, fmt.Errorf("is empty (0 bytes), expected %s", expected)
	}
	buffered := bufio.NewReaderSize(f, 64<<10)
	if magic, _ := buffered.Peek(2); !bytes.Equal(magic, []byte("\x1f\x8b")) {
		return ReadTable(buffered, opts)
	}
	z, err := unpack(buffered)
	if err != nil {
		return nil, err
	}
	return ReadTable(z, opts)
}

// ReadTable reads a table with a header line, as R, pandas and spreadsheets write it.
//
// Cells are separated by tabs if the header line has one, else by semicolons, commas or spaces, in
// this order, or by what a first line such as "sep=;" says. They may be quoted as in RFC 4180.
// Spaces around cells and a byte order mark are ignored, and so are empty lines (but in a single column,
// where they are empty cells), lines before the header that begin with #, rows at the end and columns
// without a name in which all cells are empty. The last line that begins with # has the names of the
// columns where the first line has numbers alone, as numpy.savetxt writes it. Where the separator is not
// a comma, numbers may have decimal commas.
//
// A first column without a name, or named "Unnamed: 0", holds the names of the rows; so does the
// first column where the header line has one cell less than the others, as write.table of R writes
// it.
//
// A column in which every cell is a number or missing is one of numbers; so is one in which every
// cell is TRUE or FALSE or missing, as 1 and 0. In any other column no cell without quotes may be a
// number, and none look like one with a typing error. Empty cells are missing, and so are those of NA, in
// a column of texts where they are not quoted. Infinite numbers are errors. Errors name the line and the
// column.
func ReadTable(r io.Reader, opts TableOptions) (*Table, error) {
	in, comment, err := openText(r)
	if err != nil {
		return nil, err
	}
	t := &tableText{opts: opts, records: in, comment: comment, marks: marksOf(opts.NA)}
	return t.read()
}

// ReadCSV reads a table of numbers, with or without a header line, as [ReadTable] does: an array of shape
// (rows, columns), with the names of rows and columns where there are some. A missing cell is an error.
func ReadCSV(r io.Reader, opts TableOptions) (Array, error) {
	opts.Unnamed = true
	t, err := ReadTable(r, opts)
	if err != nil {
		return Array{}, err
	}
	a, err := t.Matrix()
	if err != nil {
		return Array{}, err
	}
	for i, v := range a.Data {
		if math.IsNaN(v) && !opts.Missing {
			return Array{}, &MissingCellError{t.Place(i/a.Shape[1], t.Columns[i%a.Shape[1]].Name)}
		}
	}
	return a, nil
}

type MissingCellError struct{ Place string }

func (e *MissingCellError) Error() string {
	return e.Place + ": the value is missing, expected a number"
}

// Place names a cell of a column, for errors.
func (t *Table) Place(row int, column string) string {
	name := fmt.Sprintf("column %q", column)
	if place, err := strconv.Atoi(column); err == nil && t.Unnamed {
		name = fmt.Sprintf("column %d", place+1)
	}
	if t.RowNames != nil && t.RowNames[row] != "" {
		return fmt.Sprintf("line %d (%.40q), %s", t.Lines[row], t.RowNames[row], name)
	}
	return fmt.Sprintf("line %d, %s", t.Lines[row], name)
}

// Matrix is the matrix of the columns of a table, all of which must be of numbers. Missing cells are
// NaN. It returns an error where a column holds texts.
func (t *Table) Matrix() (Array, error) {
	a := Array{
		Shape: []int{t.Rows(), len(t.Columns)}, Data: make([]float64, t.Rows()*len(t.Columns)),
		Labels: Labels{RowNames: t.RowNames},
	}
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
	if len(t.Columns) == 0 {
		return Array{}, errors.New("holds no columns of numbers")
	}
	if !t.Unnamed {
		a.Columns = t.Names()
	}
	return a, nil
}

type TextColumnError struct {
	Column, Text string
}

func (e *TextColumnError) Error() string {
	return fmt.Sprintf("column %q holds texts such as %.40q, expected numbers: a table with other columns "+
		"needs --response, and names of rows stand in a first column without a name", e.Column, e.Text)
}

// HoldTable is the set of the given arrays in memory, as if they were those of a file of named
// arrays.
func HoldTable(arrays ...Array) *Set {
	s := &Set{format: "table"}
	s.Hold(arrays...)
	return s
}

// Hold adds arrays in memory, which take the place of those of their names.
func (s *Set) Hold(arrays ...Array) {
	if s.entries == nil {
		s.entries = map[string]entry{}
	}
	for i := range arrays {
		a := &arrays[i]
		if !s.Has(a.Name) {
			s.names = append(s.names, a.Name)
		}
		s.entries[a.Name] = entry{held: a}
	}
}

// Held is an array in memory of that name.
func (s *Set) Held(name string) (a Array, ok bool) {
	e := s.entries[name]
	if e.held == nil {
		return a, false
	}
	return *e.held, true
}

// Named reports whether the file's arrays have names of their own.
func (s *Set) Named() bool { return (s.Archive() || s.format == "table") && !s.IsSparse() }
