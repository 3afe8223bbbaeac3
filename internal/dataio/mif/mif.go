// Package mif reads the headers of MRtrix images (.mif) and writes them: text, and values in any order of the axes.
package mif

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"surepipe/internal/dataio/ndarray"
)

// Magic is how a file begins.
const Magic = "mrtrix image\n"

type Header struct {
	Dims []int
	// Type is that of the values in lower case, without the order of bytes: uint8, cfloat32, bit.
	Type         string
	Order        binary.ByteOrder
	Offset       int64
	Slope, Shift float64
	// Affine is the matrix from voxels to space, by rows.
	Affine [12]float64

	lines []string // those that say neither where nor what the values are
	vox   string
	rank  []int // of the axes, from the one that varies fastest
	back  []bool
}

// Read reads a header from the beginning of a file.
func Read(head []byte) (*Header, error) {
	text, _, found := bytes.Cut(head, []byte("\nEND"))
	if !found || !bytes.HasPrefix(text, []byte(Magic)) {
		return nil, errors.New("is no MRtrix image, or its header does not end")
	}
	h := &Header{Slope: 1, Order: binary.LittleEndian, Affine: [12]float64{0: 1, 5: 1, 10: 1}}
	entries, row := map[string]string{}, 0
	for line := range strings.SplitSeq(string(text[len(Magic):]), "\n") {
		key, value, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"dim", "layout", "datatype", "scaling", "file", "vox"}, key) {
			entries[key] = strings.TrimSpace(value)
			continue
		}
		h.lines = append(h.lines, line)
		if key == "transform" && row < 3 {
			v, err := floats(value, 4)
			if err != nil {
				return nil, fmt.Errorf("is corrupt (transform: %w)", err)
			}
			copy(h.Affine[4*row:], v)
			row++
		}
	}
	h.vox = entries["vox"]
	for j, text := range strings.Split(h.vox, ",") {
		if v, err := floats(text, 1); err == nil && j < 3 {
			for i := range 3 {
				h.Affine[4*i+j] *= v[0]
			}
		}
	}
	name := strings.ToLower(entries["datatype"])
	if strings.HasSuffix(name, "be") {
		h.Order = binary.BigEndian
	}
	h.Type = strings.TrimSuffix(strings.TrimSuffix(name, "be"), "le")
	if text := entries["scaling"]; text != "" {
		v, err := floats(text, 2)
		if err != nil {
			return nil, fmt.Errorf("is corrupt (scaling: %w)", err)
		}
		h.Shift, h.Slope = v[0], v[1]
	}
	place, at, _ := strings.Cut(entries["file"], " ")
	var err error
	if h.Offset, err = strconv.ParseInt(strings.TrimSpace(at), 10, 64); place != "." || err != nil || h.Offset < 1 {
		return nil, fmt.Errorf("has its values in %q, expected a single file .mif: mrconvert makes one",
			entries["file"])
	}
	return h, h.axes(entries["dim"], entries["layout"])
}

// floats reads finite numbers, n of them.
func floats(text string, n int) (all []float64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("found %.40q, expected numbers", text)
		}
		all = append(all, v)
	}
	if len(all) != n {
		return nil, fmt.Errorf("found %.40q, expected %d numbers", text, n)
	}
	return all, nil
}

// axes reads the sizes and the order of the axes.
func (h *Header) axes(dim, layout string) error {
	signs := strings.Split(layout, ",")
	seen := make([]bool, len(signs))
	for axis, text := range strings.Split(dim, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > math.MaxInt32 || axis >= len(signs) {
			return fmt.Errorf("is corrupt (dim is %.40q, layout %.40q)", dim, layout)
		}
		sign := strings.TrimSpace(signs[axis])
		rank, err := strconv.Atoi(strings.TrimLeft(sign, "+-"))
		if err != nil || rank < 0 || rank >= len(seen) || seen[rank] {
			return fmt.Errorf("is corrupt (layout is %.40q)", layout)
		}
		seen[rank] = true
		h.Dims, h.rank, h.back = append(h.Dims, n), append(h.rank, rank), append(h.back, strings.HasPrefix(sign, "-"))
	}
	if len(h.Dims) != len(signs) {
		return fmt.Errorf("is corrupt (dim is %.40q, layout %.40q)", dim, layout)
	}
	return nil
}

// Plain reports whether values are bytes or more with the first axis varying fastest, and so on.
func (h *Header) Plain() bool {
	return h.Type != "bit" && slices.IsSorted(h.rank) && !slices.Contains(h.back, true)
}

// Reordered returns the values with the first axis varying fastest, width bytes each, bits as bytes of 0 and 1.
func (h *Header) Reordered(data []byte, width int) []byte {
	axes := len(h.Dims)
	order, step, first, n := make([]int, axes), make([]int, axes), 0, 1
	for axis, rank := range h.rank {
		order[rank] = axis
	}
	for _, axis := range order {
		if step[axis] = n; h.back[axis] {
			first += n * (h.Dims[axis] - 1)
			step[axis] = -n
		}
		n *= h.Dims[axis]
	}
	out, place := make([]byte, n*width), ndarray.Places(h.Dims, step, first)
	for i := range n {
		at := place()
		if h.Type == "bit" { // the first of a byte is its highest
			out[i] = data[at/8] >> (7 - at%8) & 1
		} else {
			copy(out[i*width:][:width], data[at*width:])
		}
	}
	return out
}

// Text is a header with the lines of this one, without a scale and with the first axis varying fastest; of fewer axes
// it has no table of gradients. Values of the type follow it.
func (h *Header) Text(dims []int, of string) []byte {
	if of += "LE"; h.Order == binary.BigEndian {
		of = of[:len(of)-2] + "BE"
	}
	var sides, layout []string
	vox := strings.Split(h.vox, ",")
	for axis, n := range dims {
		sides, layout = append(sides, strconv.Itoa(n)), append(layout, "+"+strconv.Itoa(axis))
		if axis >= len(vox) {
			vox = append(vox, "nan")
		}
	}
	join := func(key string, parts []string) string { return key + ": " + strings.Join(parts, ",") + "\n" }
	text := Magic + join("dim", sides) + join("vox", vox[:len(dims)]) + join("layout", layout) +
		"datatype: " + of + "\n"
	for _, line := range h.lines {
		if len(dims) == len(h.Dims) || !strings.HasPrefix(line, "dw_scheme") && !strings.HasPrefix(line, "pe_scheme") {
			text += line + "\n"
		}
	}
	n := (len(text) + 64) / 64 * 64 // room for the line that says n
	n += 64
	text += fmt.Sprintf("file: . %d\nEND\n", n)
	return append([]byte(text), make([]byte, n-len(text))...)
}
