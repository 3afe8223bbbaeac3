package dataio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ReadMatrixMarket reads a matrix in the exchange format of Boisvert, Pozo and Remington (NIST
// 1996): dense from an array file, of shape (rows, columns), or sparse from a coordinate file; the
// other is nil. The field may be real, integer or pattern (every entry is 1), the symmetry general,
// symmetric or skew-symmetric: entries that the file omits are filled in.
func ReadMatrixMarket(r io.Reader) (dense *Array, sparse *Triplets, err error) {
	m := mtxReader{lines: bufio.NewScanner(r)}
	m.lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	if dense, sparse, err = m.read(); err != nil && m.line > 0 {
		err = fmt.Errorf("line %d: %w", m.line, err)
	}
	return dense, sparse, err
}

type mtxReader struct {
	lines   *bufio.Scanner
	line    int
	pattern bool
	integer bool
	// mirror is 1 for symmetric, -1 for skew-symmetric, 0 for general.
	mirror float64
	fields [][]byte
}

// next reads the next line that is neither blank nor a comment into its fields.
func (m *mtxReader) next() (bool, error) {
	for m.lines.Scan() {
		m.line++
		text := bytes.TrimSpace(m.lines.Bytes())
		if len(text) == 0 || text[0] == '%' {
			continue
		}
		m.fields = slices.AppendSeq(m.fields[:0], bytes.FieldsSeq(text))
		return true, nil
	}
	if err := m.lines.Err(); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("unexpected end")
		}
		return false, fmt.Errorf("cannot be read further (%w)", err)
	}
	return false, nil
}

func (m *mtxReader) read() (*Array, *Triplets, error) {
	if !m.lines.Scan() {
		if err := m.lines.Err(); err != nil {
			return nil, nil, fmt.Errorf("cannot be read (%w)", err)
		}
		return nil, nil, errors.New("is empty, expected a Matrix Market file")
	}
	m.line++
	banner := strings.Fields(strings.ToLower(m.lines.Text()))
	if len(banner) != 5 || banner[0] != "%%matrixmarket" || banner[1] != "matrix" {
		return nil, nil, errors.New("expected \"%%MatrixMarket matrix\", the format, the field and the symmetry")
	}
	format, field, symmetry := banner[2], banner[3], banner[4]
	if format != "coordinate" && format != "array" {
		return nil, nil, fmt.Errorf("the format is %.20q, expected coordinate or array", format)
	}
	switch {
	case field == "real":
	case field == "integer":
		m.integer = true
	case field == "pattern" && format == "coordinate":
		m.pattern = true
	default:
		return nil, nil, fmt.Errorf("the field is %.20q, expected real, integer, or pattern for coordinates", field)
	}
	switch {
	case symmetry == "general":
	case symmetry == "symmetric":
		m.mirror = 1
	case symmetry == "skew-symmetric" && !m.pattern:
		m.mirror = -1
	default:
		return nil, nil, fmt.Errorf("the symmetry is %.20q of a %s matrix, expected general, symmetric or "+
			"skew-symmetric", symmetry, field)
	}
	ok, err := m.next()
	if err != nil {
		return nil, nil, err
	}
	want := map[string]int{"coordinate": 3, "array": 2}[format]
	if !ok || len(m.fields) != want {
		return nil, nil, fmt.Errorf("found %d numbers, expected the %d of the matrix's size", len(m.fields), want)
	}
	var size [3]int64
	for k, f := range m.fields {
		if size[k], err = strconv.ParseInt(string(f), 10, 64); err != nil {
			return nil, nil, fmt.Errorf("found %.40q, expected an integer of the matrix's size", f)
		}
	}
	if err := checkSize(size[0], size[1]); err != nil {
		return nil, nil, fmt.Errorf("the matrix %w", err)
	}
	rows, cols := int(size[0]), int(size[1])
	if m.mirror != 0 && rows != cols {
		return nil, nil, fmt.Errorf("the matrix is %s and has %d rows and %d columns, expected equal numbers",
			symmetry, rows, cols)
	}
	if format == "array" {
		a, err := m.array(rows, cols)
		return a, nil, err
	}
	if size[2] < 0 {
		return nil, nil, fmt.Errorf("the matrix has %d entries, expected 0 or more", size[2])
	}
	s, err := m.coordinates(rows, cols, size[2])
	return nil, s, err
}

func (m *mtxReader) value(f []byte) (float64, error) {
	v, ok := ParseNumber(string(f))
	if !ok || m.integer && bytes.ContainsAny(f, ".eE") {
		expected := "a finite number"
		if m.integer {
			expected = "an integer"
		}
		return 0, fmt.Errorf("found %.40q, expected %s", f, expected)
	}
	return v, nil
}

func (m *mtxReader) coordinates(rows, cols int, n int64) (*Triplets, error) {
	var row, col []int
	var values []float64
	want := 3
	if m.pattern {
		want = 2
	}
	for k := int64(0); ; k++ {
		ok, err := m.next()
		if err != nil {
			return nil, err
		}
		if !ok && k < n {
			return nil, fmt.Errorf("the file ends after %d entries, expected %d", k, n)
		}
		if !ok {
			return &Triplets{rows, cols, row, col, values}, nil
		}
		if k == n {
			return nil, fmt.Errorf("there are more than the %d entries stated", n)
		}
		if len(m.fields) != want {
			return nil, fmt.Errorf("found %d numbers, expected %d", len(m.fields), want)
		}
		i, err := coordinate(m.fields[0], "row", rows)
		if err != nil {
			return nil, err
		}
		j, err := coordinate(m.fields[1], "column", cols)
		if err != nil {
			return nil, err
		}
		v := 1.0
		if !m.pattern {
			if v, err = m.value(m.fields[2]); err != nil {
				return nil, err
			}
		}
		switch {
		case m.mirror != 0 && j > i:
			return nil, fmt.Errorf("entry (%d, %d) is above the diagonal, expected the lower triangle of a "+
				"symmetric matrix", i+1, j+1)
		case m.mirror < 0 && i == j:
			return nil, fmt.Errorf("entry (%d, %d) is on the diagonal of a skew-symmetric matrix, which is zero", i+1,
				j+1)
		}
		row, col, values = append(row, i), append(col, j), append(values, v)
		if m.mirror != 0 && i != j {
			row, col, values = append(row, j), append(col, i), append(values, m.mirror*v)
		}
	}
}

// coordinate reads an index on an axis of length n, which the file counts from 1.
func coordinate(f []byte, axis string, n int) (int, error) {
	i, err := strconv.Atoi(string(f))
	if err != nil || i < 1 || i > n {
		return 0, fmt.Errorf("found %s %.40q, expected 1 to %d", axis, f, n)
	}
	return i - 1, nil
}

func (m *mtxReader) array(rows, cols int) (*Array, error) {
	var values []float64
	n := rows * cols
	switch {
	case m.mirror > 0:
		n = (n-rows)/2 + rows
	case m.mirror < 0:
		n = (n - rows) / 2
	}
	for {
		ok, err := m.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		for _, f := range m.fields {
			v, err := m.value(f)
			if err != nil {
				return nil, err
			}
			if len(values) == n {
				return nil, fmt.Errorf("there are more than the %d values of the matrix's size", n)
			}
			values = append(values, v)
		}
	}
	if len(values) < n {
		return nil, fmt.Errorf("the file ends after %d values, expected %d", len(values), n)
	}
	a := &Array{Shape: []int{rows, cols}, Data: make([]float64, rows*cols)}
	k := 0
	for j := range cols {
		first := 0
		switch {
		case m.mirror > 0:
			first = j
		case m.mirror < 0:
			first = j + 1
		}
		for i := first; i < rows; i++ {
			a.Data[i*cols+j] = values[k]
			if m.mirror != 0 && i != j {
				a.Data[j*cols+i] = m.mirror * values[k]
			}
			k++
		}
	}
	return a, nil
}
