package dataio

import (
	"archive/zip"
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/stored"
)

// WriteNPZ writes the arrays as numpy.savez does. The same arrays give the same bytes. Like all
// files written here, it gets its name when it is complete; until then an existing file of that
// name is unchanged. Errors name the file.
func WriteNPZ(path string, arrays ...Array) error {
	return WriteFile(path, func(w io.Writer) error { return EncodeNPZ(w, arrays...) })
}

// WriteNPY writes one array as numpy.save does.
func WriteNPY(path string, a Array) error {
	return WriteFile(path, func(w io.Writer) error { return EncodeNPY(w, a) })
}

// WriteCSV writes a vector, one value a line, or a matrix, as [EncodeCSV] does.
func WriteCSV(path string, a Array) error {
	return WriteFile(path, func(w io.Writer) error { return EncodeCSV(w, a) })
}

// WriteImage writes what encode writes, which returns how many values it had to clamp, as [WriteFile] does.
func WriteImage(path string, encode func(io.Writer) (int, error)) (clamped int, err error) {
	err = WriteFile(path, func(w io.Writer) (err error) {
		clamped, err = encode(w)
		return err
	})
	return clamped, err
}

// EncodeNPYOfDepth is [EncodeNPY] of numbers in [0, 1] as unsigned integers of 8 or 16 bits, the
// inverse of [Array.ScaleToUnit], rounded and clamped as [images.EncodePNG] does.
func EncodeNPYOfDepth(w io.Writer, a Array, bits int) (clamped int, err error) {
	if err := a.CheckFinite(); err != nil {
		return 0, err
	}
	q := ndarray.NewQuantizer(bits)
	levels := Array{Name: a.Name, Shape: a.Shape, Ints: make([]int64, len(a.Data))}
	for i, v := range a.Data {
		levels.Ints[i] = int64(q.Level(v))
	}
	return q.Clamped, encodeNPY(w, levels, ndarray.Number{Kind: 'u', Size: bits / 8})
}

// EncodeNPZ is WriteNPZ to a stream.
func EncodeNPZ(w io.Writer, arrays ...Array) error {
	z := zip.NewWriter(w)
	if err := encodeMembers(z, arrays); err != nil {
		return err
	}
	return z.Close()
}

func encodeMembers(z *zip.Writer, arrays []Array) error {
	for _, a := range arrays {
		// Stored without compression, as numpy does: noisy data hardly compress.
		entry, err := z.CreateHeader(&zip.FileHeader{Name: a.Name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		if err := EncodeNPY(entry, a); err != nil {
			return err
		}
	}
	return nil
}

// EncodeNPY writes an array as a .npy file of version 1.0, of type float64 or float32, complex128, int64 or
// text of fixed width.
func EncodeNPY(w io.Writer, a Array) error {
	t := ndarray.Number{Kind: 'f', Size: 8}
	switch {
	case a.Ints != nil:
		t.Kind = 'i'
	case a.Single:
		t.Size = 4
	}
	return encodeNPY(w, a, t)
}

func encodeNPY(w io.Writer, a Array, t ndarray.Number) error {
	// The writer of package npyio does not support three axes.
	a.Check()
	descr, n := descrOf(t), len(a.Data)
	appendValue := func(buf []byte, i int) []byte { return t.Append(buf, a.Data[i]) }
	switch {
	case a.Ints != nil:
		n = len(a.Ints)
		appendValue = func(buf []byte, i int) []byte { return t.AppendBits(buf, uint64(a.Ints[i])) }
	case a.Texts != nil:
		width := textWidth(a.Texts)
		descr, n = fmt.Sprintf("<U%d", width), len(a.Texts)
		appendValue = func(buf []byte, i int) []byte { return appendText(buf, a.Texts[i], width) }
	}
	shape := a.Shape
	if a.Complex {
		descr, shape = "<c16", shape[:len(shape)-1]
	}
	buf := npyHeader(descr, ndarray.ShapeString(shape))
	for i := range n {
		buf = appendValue(buf, i)
		if len(buf) >= 64<<10 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	_, err := w.Write(buf)
	return err
}

// AppendCell appends a text as a cell of a .csv file.
func AppendCell(buf []byte, text string) []byte {
	if text != "" && !strings.ContainsAny(text, ",\"\r\n") && strings.TrimSpace(text) == text {
		return append(buf, text...)
	}
	buf = append(buf, '"')
	buf = append(buf, strings.ReplaceAll(text, `"`, `""`)...)
	return append(buf, '"')
}

// EncodeCSV writes a vector, one value a line, or a matrix, one row a line, with commas, and with the
// names of the rows and the columns; without names of columns there is no header line. Every number has
// the fewest digits from which it can be read back; Inf is an error, and so is NaN unless Absent is set, when
// its cell is empty.
func EncodeCSV(w io.Writer, a Array) error {
	a.Check()
	if len(a.Shape) != 1 && len(a.Shape) != 2 {
		return fmt.Errorf("array %q has shape %s, expected one axis or two in a .csv file", a.Name,
			ndarray.ShapeString(a.Shape))
	}
	if !a.Absent || slices.ContainsFunc(a.Data, func(v float64) bool { return math.IsInf(v, 0) }) {
		if err := a.CheckFinite(); err != nil {
			return err
		}
	}
	cols := 1
	if len(a.Shape) == 2 {
		cols = a.Shape[1]
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	n := max(len(a.Data), len(a.Ints))
	if a.Columns != nil && len(a.Columns) != cols || a.RowNames != nil && len(a.RowNames) != n/cols {
		panic(fmt.Sprintf("dataio: array %q of shape %s has %d names of rows and %d of columns",
			a.Name, ndarray.ShapeString(a.Shape), len(a.RowNames), len(a.Columns)))
	}
	var buf []byte
	if a.Columns != nil {
		names := a.Columns
		if a.RowNames != nil {
			names = append([]string{a.Corner}, names...)
		}
		for _, name := range names {
			buf = append(AppendCell(buf, name), ',')
		}
		if _, err := buffered.Write(append(buf[:len(buf)-1], '\n')); err != nil {
			return err
		}
	}
	for i := range n {
		buf = buf[:0]
		if i%cols == 0 && a.RowNames != nil {
			buf = append(AppendCell(buf, a.RowNames[i/cols]), ',')
		}
		switch {
		case a.Ints != nil:
			buf = strconv.AppendInt(buf, a.Ints[i], 10)
		case math.IsInf(a.Data[i], 0):
			return a.CheckFinite()
		case !math.IsNaN(a.Data[i]):
			buf = strconv.AppendFloat(buf, a.Data[i], 'g', -1, 64)
		}
		end := byte(',')
		if (i+1)%cols == 0 {
			end = '\n'
		}
		if _, err := buffered.Write(append(buf, end)); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// WriteFile writes a file beside path and renames it into place: a reader sees either the file that
// was there or all of the new one. Errors begin with path.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, target, err := createBeside(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, stored.Bare(err))
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, stored.Bare(err))
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), target)
}
