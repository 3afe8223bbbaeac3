package mif

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const head = Magic + "dim: 3,2,2,2\nvox: 2,2.5,3,nan\nlayout: %s\ndatatype: %s\ntransform: 1,0,0,-5\ntransform: 0, 0, -1, 7\n" +
	"transform: 0,1,0,9.5\ndw_scheme: 0,0,1,0\ndw_scheme: 1,0,0,1000\n%sfile: . 400\nEND\n"

func TestAnyOrderOfAxes(t *testing.T) {
	sides := [4]int{3, 2, 2, 2}
	for layout, axes := range map[string][4]int{"+0,+1,+2,+3": {1, 2, 3, 4}, "+1,-2,+3,+0": {4, 1, -2, 3},
		"-3,-2,-1,-0": {-4, -3, -2, -1}} {
		h, err := Read([]byte(fmt.Sprintf(head, layout, "UInt16BE", "")))
		if err != nil {
			t.Fatal(err)
		}
		stored := make([]byte, 48) // value i of the first axis fastest is 7 i mod 256
		n := 1
		var step [5]int
		for _, axis := range axes {
			k := max(axis, -axis)
			step[k] = n
			n *= sides[k-1]
		}
		for i := range 24 {
			index, at := [4]int{i % 3, i / 3 % 2, i / 6 % 2, i / 12}, 0
			for _, axis := range axes {
				k := max(axis, -axis)
				x := index[k-1]
				if axis < 0 {
					x = sides[k-1] - 1 - x
				}
				at += x * step[k]
			}
			stored[2*at+1] = byte(7 * i)
		}
		for i := range 24 {
			if out := h.Reordered(stored, 2); out[2*i+1] != byte(7*i) {
				t.Fatalf("%s: value %d is %d, expected %d", layout, i, out[2*i+1], byte(7*i))
			}
		}
		if h.Plain() != (layout == "+0,+1,+2,+3") {
			t.Errorf("%s: plain %v", layout, h.Plain())
		}
	}
	h, err := Read([]byte(fmt.Sprintf(head, "+0,+1,+2,+3", "Bit", "scaling: 1,0.5\n")))
	if err != nil || h.Plain() || h.Slope != 0.5 || h.Shift != 1 || h.Offset != 400 {
		t.Fatalf("%+v, %v", h, err)
	}
	if bits := h.Reordered([]byte{0x80, 0x01, 0xff}, 1); !bytes.Equal(bits[:9], []byte{1, 0, 0, 0, 0, 0, 0, 0, 0}) || bits[15] != 1 || bits[23] != 1 {
		t.Errorf("bits %v", bits)
	}
	if want := [12]float64{2, 0, 0, -5, 0, 0, -3, 7, 0, 2.5, 0, 9.5}; h.Affine != want {
		t.Errorf("affine %v", h.Affine)
	}
}

// A header that is written is read again, with the lines of the one that it is made from.
func TestAHeaderIsKept(t *testing.T) {
	h, err := Read([]byte(fmt.Sprintf(head, "-0,+1,+3,+2", "Int16BE", "")))
	if err != nil {
		t.Fatal(err)
	}
	for _, dims := range [][]int{{3, 2, 2, 2}, {3, 2, 2}} {
		text := h.Text(dims, "CFloat64")
		again, err := Read(text)
		if err != nil || int(again.Offset) != len(text) || again.Type != "cfloat64" || again.Order != h.Order ||
			again.Affine != h.Affine || len(again.Dims) != len(dims) || !again.Plain() {
			t.Errorf("%+v, %v", again, err)
		}
		if kept := strings.Contains(string(text), "dw_scheme: 1,0,0,1000\n"); kept != (len(dims) == 4) {
			t.Errorf("gradients kept: %v, of %d axes", kept, len(dims))
		}
	}
}

func TestBadHeaders(t *testing.T) {
	good := fmt.Sprintf(head, "+0,+1,+2,+3", "Float32LE", "scaling: 0,1\n")
	for _, c := range [][3]string{
		{"END", "NED", "does not end"},
		{"dim: 3", "dim: -3", "dim is"},
		{"2,2\n", "2,x\n", "dim is"},
		{"+0,+1", "+1,+1", "layout is"},
		{"+0,+1,", "+0,", "layout"},
		{"scaling: 0,1", "scaling: 0,nan", "scaling"},
		{"transform: 1,0,0,-5", "transform: 1,0,0", "4 numbers"},
		{"file: . 400", "file: other.dat 0", "single file"},
		{"file: . 400", "file: . -4", "single file"},
	} {
		_, err := Read([]byte(strings.Replace(good, c[0], c[1], 1)))
		if err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q for %q: %v, expected %q", c[1], c[0], err, c[2])
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(head, "+1,-2,+3,+0", "Float32LE", "scaling: 0,1\n")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := Read(b); err == nil {
			if _, err := Read(h.Text(h.Dims, "Float32")); err != nil {
				t.Errorf("%q: %v", b, err)
			}
		}
	})
}
