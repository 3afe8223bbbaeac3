package dataio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"surepipe/internal/stored"
)

// openText prepares to read a table: what stands before its first line is skipped, and the separator
// found. comment is the last comment before the table.
func openText(r io.Reader) (_ *records, comment string, err error) {
	rows := newRows(r)
	buffered := bufio.NewReaderSize(rows, 64<<10)
	mark, err := buffered.Peek(3)
	if err != nil && err != io.EOF {
		return nil, "", readError(err)
	}
	switch {
	case bytes.Equal(mark, []byte("\xef\xbb\xbf")):
		buffered.Discard(3)
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")):
		return nil, "", errors.New("is text in UTF-16, expected UTF-8 (in a spreadsheet: save as \"CSV UTF-8\")")
	case bytes.HasPrefix(mark, []byte("PK")):
		return nil, "", errors.New("is an archive or a spreadsheet, expected text: save it as .csv")
	}
	buffered = bufio.NewReaderSize(&newlines{r: buffered}, 64<<10)
	t := &records{rows: rows, r: buffered}
	if comment, t.line, err = skipComments(buffered); err != nil {
		return nil, "", readError(err)
	}
	if t.comma, err = separatorLine(buffered); err != nil {
		return nil, "", err
	}
	if t.comma != 0 {
		t.line++
	} else {
		text, _ := buffered.Peek(buffered.Size())
		t.comma = separatorOf(text)
	}
	return t, comment, nil
}

// skipComments skips the blank lines and the comments before the table, and returns the last
// comment and the number of lines.
func skipComments(r *bufio.Reader) (comment string, lines int, err error) {
	for {
		next, err := r.Peek(1)
		if err != nil && err != io.EOF {
			return "", 0, err
		}
		blank := bytes.HasPrefix(next, []byte("\n"))
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

func readError(err error) error {
	if ended(err) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end")
	}
	return fmt.Errorf("cannot be read (%w)", stored.Bare(err))
}

// separatorLine takes a first line such as "sep=;", as spreadsheets write it; 0 without one.
func separatorLine(r *bufio.Reader) (comma byte, err error) {
	next, _ := r.Peek(5)
	rest, ok := bytes.CutPrefix(next, []byte("sep="))
	if !ok {
		return 0, nil
	}
	line, err := r.ReadString('\n')
	if len(rest) == 0 || !strings.ContainsRune(",;\t |", rune(rest[0])) {
		return 0, fmt.Errorf("line 1 is %.20q, expected a comma, semicolon, tab, space or | after sep=",
			strings.TrimSpace(line))
	}
	if err == io.EOF {
		err = errors.New("holds no rows")
	}
	return rest[0], err
}

// separatorOf is the separator of a text: the tab if its first line has one outside quotes, else the
// semicolon, the comma, or the space if its second line has one too.
func separatorOf(text []byte) byte {
	var found [2][128]bool // in either line
	line, quoted, spaces := 0, false, false
	for _, c := range bytes.TrimLeft(text, "\n ") {
		if c == '"' {
			quoted = !quoted
		}
		switch {
		case c == ' ' && !quoted:
			spaces = true // those at the end of a line separate nothing
			continue
		case c == '\n' && !quoted:
			line++
		case line < 2 && c < 128 && (!quoted || c == '"'):
			found[line][' '] = found[line][' '] || spaces
			found[line][c] = true
		}
		if spaces = false; line == 2 {
			break
		}
	}
	for _, c := range []byte("\t;,") {
		if found[0][c] {
			return c
		}
	}
	if found[0][' '] && (found[1][' '] || line == 0) {
		return ' '
	}
	return ','
}

// quotedNames reports which cells of the first record name columns because they are quoted and the cell
// below is not: quotes tell texts from numbers there. next is the second record, which may have one cell
// more at its beginning.
func quotedNames(first, next []cell) []bool {
	names := make([]bool, len(first))
	for j := range first {
		below := j + max(len(next)-len(first), 0)
		names[j] = first[j].quoted && below < len(next) && !next[below].quoted
	}
	return names
}
