package dataio

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// cell is a cell of a table, without the spaces around it.
type cell struct {
	text   string
	quoted bool
}

// records reads the records of a text: cells between separators, quoted or not as in RFC 4180. A quote
// within a quoted cell is written twice, and a quoted cell may have several lines.
type records struct {
	rows  *bounded
	r     *bufio.Reader
	comma byte
	// line is the number of lines read so far. at is the line on which the last record began, and blank
	// the number of blank lines before it.
	line, at, blank int

	long, text []byte
	ends       []int
	cells      []cell
}

// next is the next record, valid until the next call. Spaces separate cells together. Errors name the
// line, but for io.EOF and those of reading.
func (r *records) next() ([]cell, error) {
	r.text, r.ends, r.cells = r.text[:0], r.ends[:0], r.cells[:0]
	line, err := r.nextLine()
	for r.blank = 0; err == nil && isBlank(line, r.comma); line, err = r.nextLine() {
		r.blank++
	}
	if err != nil {
		return nil, err
	}
	r.at = r.line
	for more := true; more; {
		line = bytes.TrimLeft(line, " ")
		quoted := len(line) > 0 && line[0] == '"'
		if quoted {
			if line, err = r.quotedCell(line[1:]); err != nil {
				return nil, err
			}
		} else {
			end := bytes.IndexByte(line, r.comma)
			if end < 0 {
				end = len(line)
			}
			if bytes.IndexByte(line[:end], '"') >= 0 {
				return nil, fmt.Errorf(
					"line %d: a quote (\") stands inside an unquoted cell, expected quotes around the "+
						"whole cell, next to the separators", r.line)
			}
			r.text = append(r.text, line[:end]...)
			line = line[end:]
		}
		r.ends, r.cells = append(r.ends, len(r.text)), append(r.cells, cell{quoted: quoted})
		if more = len(line) > 0; more {
			line = line[1:]
		}
		if more && r.comma == ' ' {
			more = !isBlank(line, 0)
		}
	}
	text, begin := string(r.text), 0
	for j, end := range r.ends {
		r.cells[j].text = strings.TrimSpace(text[begin:end])
		begin = end
	}
	return r.cells, nil
}

// isBlank reports whether a line has no cells: tabs that separate cells make some.
func isBlank(line []byte, comma byte) bool {
	return !slices.ContainsFunc(line, func(c byte) bool { return c != ' ' && (c != '\t' || comma == '\t') })
}

// quotedCell takes a cell whose first quote has been read, and returns the rest of its line, which
// begins with a separator or is empty.
func (r *records) quotedCell(line []byte) (rest []byte, err error) {
	begin := r.line
	unended := func() error {
		return fmt.Errorf("line %d: a quoted cell does not end in a quote (\") followed by a separator; a "+
			"quote within it is written twice (\"\")", begin)
	}
	for {
		end := bytes.IndexByte(line, '"')
		if end < 0 {
			r.text = append(append(r.text, line...), '\n')
			if line, err = r.nextLine(); err == io.EOF {
				return nil, unended()
			} else if err != nil {
				return nil, err
			}
			continue
		}
		r.text = append(r.text, line[:end]...)
		if line = line[end+1:]; len(line) == 0 || line[0] != '"' {
			break
		}
		r.text, line = append(r.text, '"'), line[1:]
	}
	if r.comma != ' ' {
		line = bytes.TrimLeft(line, " ")
	}
	if len(line) > 0 && line[0] != r.comma {
		return nil, unended()
	}
	return line, nil
}

// nextLine is the next line, valid until the next call.
func (r *records) nextLine() ([]byte, error) {
	line, err := r.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		r.long = append(r.long[:0], line...)
		for err == bufio.ErrBufferFull {
			line, err = r.r.ReadSlice('\n')
			r.long = append(r.long, line...)
		}
		line = r.long
	}
	if err != nil && err != io.EOF {
		return nil, readError(err)
	}
	if err == io.EOF && len(line) == 0 {
		return nil, io.EOF
	}
	r.line++
	if bytes.IndexByte(line, 0) >= 0 {
		return nil, fmt.Errorf("line %d holds a byte 0, expected text in UTF-8", r.line)
	}
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// newlines reads a text whose lines end in \n, \r\n or \r as one whose lines end in \n.
type newlines struct {
	r        io.Reader
	carriage bool // the last byte was \r
}

func (n *newlines) Read(p []byte) (int, error) {
	for {
		k, err := n.r.Read(p)
		if !n.carriage && bytes.IndexByte(p[:k], '\r') < 0 {
			return k, err
		}
		to := 0
		for _, c := range p[:k] {
			if c == '\n' && n.carriage {
				n.carriage = false
				continue
			}
			if n.carriage = c == '\r'; n.carriage {
				c = '\n'
			}
			p[to] = c
			to++
		}
		if to > 0 || err != nil || len(p) == 0 {
			return to, err
		}
	}
}
