package dataio

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/sbinet/npyio/npy"

	"surepipe/internal/dataio/ndarray"
)

// Rows is a matrix that is written row by row, and so may be larger than memory.
type Rows struct {
	Name       string
	Rows, Cols int
	// Single writes float32, else float64.
	Single bool
	// Each calls write with every row in order. The rows are not kept.
	Each func(write func(row []float64) error) error
}

// WriteNPZRows writes an archive as [WriteNPZ] does, which begins with a matrix that is written row
// by row. The other arrays are asked for when that has been written. The matrix's values begin at a
// multiple of 64 bytes, so that they can be used where they lie ([Set.Map]).
func WriteNPZRows(path string, x Rows, rest func() []Array) error {
	return WriteFile(path, func(w io.Writer) error {
		z := zip.NewWriter(w)
		header := npyHeader(descrOf(x.number()), ndarray.ShapeString([]int{x.Rows, x.Cols}))
		member := &zip.FileHeader{Name: x.Name + ".npy", Method: zip.Store}
		member.Extra = padding(30 + len(member.Name))
		entry, err := z.CreateHeader(member)
		if err != nil {
			return err
		}
		if _, err := entry.Write(header); err != nil {
			return err
		}
		if err := x.write(entry); err != nil {
			return err
		}
		if err := encodeMembers(z, rest()); err != nil {
			return err
		}
		return z.Close()
	})
}

func (x Rows) number() ndarray.Number {
	if x.Single {
		return ndarray.Number{Kind: 'f', Size: 4}
	}
	return ndarray.Number{Kind: 'f', Size: 8}
}

func (x Rows) write(w io.Writer) error {
	t, buf, rows := x.number(), make([]byte, 0, 8*x.Cols), 0
	err := x.Each(func(row []float64) error {
		if len(row) != x.Cols {
			panic(fmt.Sprintf("dataio: a row of %d values of a matrix with %d columns", len(row), x.Cols))
		}
		rows++
		buf = buf[:0]
		for _, v := range row {
			buf = t.Append(buf, v)
		}
		_, err := w.Write(buf)
		return err
	})
	if err == nil && rows != x.Rows {
		panic(fmt.Sprintf("dataio: %d rows of a matrix with %d", rows, x.Rows))
	}
	return err
}

// padding is a field of a zip archive's header that says nothing, such that what begins at begin is
// then followed by values at a multiple of 64 bytes. Readers skip fields that they do not know.
func padding(begin int) []byte {
	const field = 4 // of its kind and its length
	n := (64 - (begin+field)%64) % 64
	return append([]byte{0x50, 0x53, byte(n), 0}, make([]byte, n)...)
}

func descrOf(t ndarray.Number) string {
	if t.Size == 1 {
		return fmt.Sprintf("|%c1", t.Kind)
	}
	return fmt.Sprintf("<%c%d", t.Kind, t.Size)
}

// npyHeader is the header of a .npy file of version 1.0. The values after it begin at a multiple of 64 bytes.
func npyHeader(descr, shape string) []byte {
	// Magic, version and length are 10 bytes.
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape)
	text += strings.Repeat(" ", 63-(10+len(text))%64) + "\n"
	header := append([]byte(nil), npy.Magic[:]...)
	header = append(header, 1, 0)
	header = binary.LittleEndian.AppendUint16(header, uint16(len(text)))
	return append(header, text...)
}
