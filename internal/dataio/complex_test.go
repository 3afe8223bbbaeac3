package dataio

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sbinet/npyio/npy"
)

// complexNPY is a .npy file of complex numbers: header, then real and imaginary parts.
func complexNPY(descr string, fortran string, parts ...float64) []byte {
	text := "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': (2, 3), }\n"
	file := append(slices.Clone(npy.Magic[:]), 1, 0)
	file = binary.LittleEndian.AppendUint16(file, uint16(len(text)))
	file = append(file, text...)
	for _, v := range parts {
		switch descr {
		case "<c8":
			file = binary.LittleEndian.AppendUint32(file, math.Float32bits(float32(v)))
		case ">c16":
			file = binary.BigEndian.AppendUint64(file, math.Float64bits(v))
		default:
			file = binary.LittleEndian.AppendUint64(file, math.Float64bits(v))
		}
	}
	return file
}

func TestComplexNumbersAreReadInAnyOrder(t *testing.T) {
	rows := []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	columns := []float64{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}
	for _, c := range []struct {
		descr, fortran string
		parts          []float64
	}{{"<c8", "False", rows}, {"<c16", "False", rows}, {">c16", "False", rows}, {"<c16", "True", columns}} {
		file := complexNPY(c.descr, c.fortran, c.parts...)
		s := newNPY("y", bytes.NewReader(file), int64(len(file)))
		a, err := s.Numbers("y")
		if err != nil || !a.Complex || !slices.Equal(a.Shape, []int{2, 3, 2}) || !slices.Equal(a.Data, rows) {
			t.Errorf("%s, Fortran order %s: %v, %v", c.descr, c.fortran, a, err)
		}
		for name, err := range map[string]error{"Floats": second(s.Floats("y")), "Ints": second(s.Ints("y"))} {
			if err == nil || !strings.Contains(err.Error(), "complex numbers, expected real ones") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, _, err := s.Frames("y"); err == nil {
			t.Error("complex numbers are no frames")
		}
		short := file[:len(file)-1]
		if _, err := newNPY("y", bytes.NewReader(short), int64(len(short))).Numbers("y"); err == nil {
			t.Errorf("%s: a file that is too short is read", c.descr)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestComplexNumbersAreWritten(t *testing.T) {
	a := Array{Name: "y", Shape: []int{3}, Data: []float64{1, 2, 3}}.WithImaginary()
	var file bytes.Buffer
	if err := EncodeNPY(&file, a); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(file.String(), "'<c16', 'fortran_order': False, 'shape': (3,)") {
		t.Errorf("%.100q", file.String())
	}
	b, err := newNPY("y", bytes.NewReader(file.Bytes()), int64(file.Len())).Numbers("y")
	if err != nil || !slices.Equal(b.Data, []float64{1, 0, 2, 0, 3, 0}) || !b.Complex {
		t.Errorf("%v, %v", b, err)
	}
}
