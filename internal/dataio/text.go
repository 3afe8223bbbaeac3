package dataio

import (
	"bufio"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Texts of numpy have a fixed width: every one is a row of 32-bit code points, with zeros at its end
// (dtype U).

func textWidth(texts []string) int {
	width := 1
	for _, s := range texts {
		width = max(width, utf8.RuneCountInString(s))
	}
	return width
}

func appendText(buf []byte, s string, width int) []byte {
	for _, c := range s {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(c))
		width--
	}
	return append(buf, make([]byte, 4*width)...)
}

// Texts reads an array of texts of fixed width, in C order: code points (numpy's dtype U), or bytes (S).
func (s *Set) Texts(name string) (Array, error) {
	e, ok := s.entry(name)
	if !ok {
		return Array{}, s.Missing(name, "", nil)
	}
	if e.held != nil {
		return *e.held, nil
	}
	if e.load != nil {
		return Array{}, fmt.Errorf("array %q: texts are read from .npz, .npy and tables", name)
	}
	rc, room, err := e.open()
	if err != nil {
		return Array{}, corruptError(name, err)
	}
	defer rc.Close()
	r := bufio.NewReaderSize(rc, 64<<10)
	h, err := readHeader(r)
	if err != nil {
		return Array{}, corruptError(name, err)
	}
	kind := strings.TrimLeft(h.descr, "<>|=")
	digits, isText := strings.CutPrefix(kind, "U")
	letter := 4 // bytes
	if !isText {
		digits, isText = strings.CutPrefix(kind, "S")
		letter = 1
	}
	width, err := strconv.Atoi(digits)
	if !isText || err != nil || width < 1 {
		return Array{}, fmt.Errorf("array %q: %w", name, dtypeError(h.descr, "texts of fixed width"))
	}
	if h.fortran && len(h.shape) > 1 {
		return Array{}, fmt.Errorf("array %q is in Fortran order, expected texts in C order", name)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if h.descr[0] == '>' {
		order = binary.BigEndian
	}
	n, err := h.values(h.shape, room, letter*min(width, math.MaxInt32/4))
	if err != nil {
		return Array{}, corruptError(name, err)
	}
	a := Array{Name: name, Shape: h.shape, Texts: make([]string, n)}
	buf := make([]byte, letter*width)
	for i := range a.Texts {
		if _, err := io.ReadFull(r, buf); err != nil {
			return Array{}, corruptError(name, err)
		}
		if a.Texts[i] = strings.TrimRight(string(buf), "\x00"); letter > 1 {
			a.Texts[i] = textOf(buf, order)
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return Array{}, corruptError(name, err)
	}
	return a, nil
}

// textOf decodes a text; what is no code point becomes U+FFFD.
func textOf(buf []byte, order binary.ByteOrder) string {
	var s strings.Builder
	zeros := 0
	for ; len(buf) > 0; buf = buf[4:] {
		c := order.Uint32(buf)
		if c == 0 {
			zeros++
			continue
		}
		for ; zeros > 0; zeros-- {
			s.WriteByte(0)
		}
		s.WriteRune(rune(min(c, math.MaxInt32)))
	}
	return s.String()
}

// EncodeRecords writes a table of texts as a .csv file; next returns its records one by one, the first the names of
// the columns, and nil at the end.
func EncodeRecords(w io.Writer, next func() []string) error {
	out := csv.NewWriter(w)
	for record := next(); record != nil; record = next() {
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
