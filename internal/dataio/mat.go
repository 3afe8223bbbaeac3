package dataio

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/stored"
)

// The types of elements of a MATLAB file of version 5.
const (
	matMatrix     = 14
	matCompressed = 15
)

var matTypes = map[uint32]ndarray.Number{
	1: {Kind: 'i', Size: 1}, 2: {Kind: 'u', Size: 1}, 3: {Kind: 'i', Size: 2}, 4: {Kind: 'u', Size: 2},
	5: {Kind: 'i', Size: 4}, 6: {Kind: 'u', Size: 4}, 7: {Kind: 'f', Size: 4}, 9: {Kind: 'f', Size: 8},
	12: {Kind: 'i', Size: 8}, 13: {Kind: 'u', Size: 8},
}

// matClasses names the classes of arrays that are not of numbers. Class 5 is a sparse matrix, and 6 to
// 15 are numbers.
var matClasses = map[byte]string{1: "a cell array", 2: "a structure", 3: "an object", 4: "a text", 16: "a function",
	17: "an object"}

const matSparse = 5

// mostSparse is the largest number of entries of a sparse matrix that is read as a dense one.
const mostSparse = 1 << 26

// newMAT is the set of the variables of a MATLAB file of version 5 to 7.2, as save and
// scipy.io.savemat write it. Texts, structures and cell arrays are left out.
func newMAT(r io.ReaderAt, size int64) (*Set, error) {
	head := make([]byte, 128)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, errors.New("is truncated or corrupt (a header of less than 128 bytes)")
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(head[126:128]) {
	case "IM":
	case "MI":
		order = binary.BigEndian
	default:
		return nil, errors.New("is truncated or corrupt (no byte order in the header)")
	}
	s := &Set{format: "mat"}
	for at := int64(128); at+8 <= size; {
		var tag [8]byte
		if _, err := r.ReadAt(tag[:], at); err != nil {
			return nil, stored.Bare(err)
		}
		kind, n := order.Uint32(tag[:4]), int64(order.Uint32(tag[4:]))
		if n > size-at-8 {
			return nil, fmt.Errorf("is truncated or corrupt (an element of %d bytes at byte %d of %d)", n, at, size)
		}
		start := at + 8
		body := func() io.Reader { return io.NewSectionReader(r, start, n) }
		if kind == matMatrix || kind == matCompressed {
			v := matVariable{open: body, size: n, order: order, packed: kind == matCompressed}
			h, err := v.header()
			if err != nil {
				return nil, fmt.Errorf("is truncated or corrupt (the variable at byte %d: %w)", at, err)
			}
			if (h.class >= matSparse && h.class <= 15) && h.name != "" {
				if err := s.add(h.name, v.read); err != nil {
					return nil, err
				}
			}
		}
		next := at + 8 + n
		if kind != matCompressed {
			next = (next + 7) / 8 * 8
		}
		at = next
	}
	return s, nil
}

type matVariable struct {
	open   func() io.Reader
	size   int64
	order  binary.ByteOrder
	packed bool
}

type matHeader struct {
	class   byte
	complex bool
	dims    []int
	name    string
}

// stream opens the contents of the variable, of at most the given number of bytes.
func (v matVariable) stream() (r io.Reader, room int64, err error) {
	if !v.packed {
		return v.open(), v.size, nil
	}
	z, err := zlib.NewReader(v.open())
	if err != nil {
		return nil, 0, err
	}
	var tag [8]byte
	if _, err := io.ReadFull(z, tag[:]); err != nil {
		return nil, 0, err
	}
	n := int64(v.order.Uint32(tag[4:]))
	// Deflate packs at most 1032 bytes into one.
	if kind := v.order.Uint32(tag[:4]); kind != matMatrix || n/1032 > v.size {
		return nil, 0, fmt.Errorf("a compressed element of type %d and %d bytes in %d", kind, n, v.size)
	}
	return io.LimitReader(z, n), n, nil
}

func (v matVariable) element(r io.Reader, room *int64) (kind uint32, b []byte, err error) {
	var tag [8]byte
	if _, err := io.ReadFull(r, tag[:]); err != nil {
		return 0, nil, errors.New("unexpected end")
	}
	*room -= 8
	word := v.order.Uint32(tag[:4])
	if small := word >> 16; small != 0 {
		if small > 4 {
			return 0, nil, fmt.Errorf("a small element of %d bytes", small)
		}
		return word & 0xffff, tag[4 : 4+small], nil
	}
	n := int64(v.order.Uint32(tag[4:]))
	if n > *room {
		return 0, nil, fmt.Errorf("an element of %d bytes where %d are left", n, *room)
	}
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, n); err != nil {
		return 0, nil, errors.New("unexpected end")
	}
	pad := (8 - n%8) % 8
	*room -= n
	if *room >= pad {
		if _, err := io.CopyN(io.Discard, r, pad); err != nil {
			return 0, nil, errors.New("unexpected end")
		}
		*room -= pad
	}
	return word, buf.Bytes(), nil
}

func (v matVariable) head(r io.Reader, room *int64) (h matHeader, err error) {
	_, flags, err := v.element(r, room)
	if err != nil {
		return h, err
	}
	if len(flags) < 8 {
		return h, errors.New("flags of less than 8 bytes")
	}
	word := v.order.Uint32(flags)
	h.class, h.complex = byte(word), word&0x0800 != 0
	if matClasses[h.class] != "" && h.class >= 16 {
		return h, nil // the rest has another form
	}
	_, dims, err := v.element(r, room)
	if err != nil {
		return h, err
	}
	if len(dims)%4 != 0 || len(dims) > 4*32 {
		return h, fmt.Errorf("dimensions of %d bytes", len(dims))
	}
	for ; len(dims) > 0; dims = dims[4:] {
		h.dims = append(h.dims, int(int32(v.order.Uint32(dims))))
	}
	_, name, err := v.element(r, room)
	h.name = string(name)
	return h, err
}

func (v matVariable) header() (matHeader, error) {
	r, room, err := v.stream()
	if err != nil {
		return matHeader{}, err
	}
	return v.head(r, &room)
}

func (v matVariable) numbers(r io.Reader, room *int64) ([]float64, error) {
	kind, b, err := v.element(r, room)
	if err != nil {
		return nil, err
	}
	t, ok := matTypes[kind]
	if !ok || len(b)%t.Size != 0 {
		return nil, fmt.Errorf("%d bytes of type %d, expected numbers", len(b), kind)
	}
	t.Order = v.order
	x := make([]float64, len(b)/t.Size)
	t.Floats()(x, b)
	return x, nil
}

func (v matVariable) read() (a Array, err error) {
	r, room, err := v.stream()
	if err == nil {
		var h matHeader
		if h, err = v.head(r, &room); err == nil {
			a, err = v.values(h, r, &room)
		}
	}
	if err != nil {
		return a, fmt.Errorf("is truncated or corrupt (%w)", err)
	}
	for _, n := range a.Shape {
		if n < 1 {
			return a, fmt.Errorf("is empty, its shape is %s", ndarray.ShapeString(a.Shape))
		}
	}
	size := a.Parts()
	for _, n := range a.Shape {
		if n > math.MaxInt32/size {
			return a, fmt.Errorf("is truncated or corrupt (its header states shape %s)", ndarray.ShapeString(a.Shape))
		}
		size *= n
	}
	if size != len(a.Data) {
		return a, fmt.Errorf("is truncated or corrupt (%d values of shape %s)", len(a.Data)/a.Parts(),
			ndarray.ShapeString(a.Shape))
	}
	return a.FromColumns().WithoutUnitAxes().WithPairs()
}

func (v matVariable) values(h matHeader, r io.Reader, room *int64) (Array, error) {
	a := Array{Shape: h.dims, Complex: h.complex}
	if h.class == matSparse {
		data, err := v.sparse(h, r, room)
		a.Data = data
		return a, err
	}
	re, err := v.numbers(r, room)
	if err != nil || !h.complex {
		a.Data = re
		return a, err
	}
	im, err := v.numbers(r, room)
	if err != nil {
		return a, err
	}
	if len(im) != len(re) {
		return a, fmt.Errorf("%d real and %d imaginary parts", len(re), len(im))
	}
	a.Data = make([]float64, 2*len(re))
	for i := range re {
		a.Data[2*i], a.Data[2*i+1] = re[i], im[i]
	}
	return a, nil
}

// sparse reads a sparse matrix by columns as a dense one.
func (v matVariable) sparse(h matHeader, r io.Reader, room *int64) ([]float64, error) {
	var parts [3][]float64 // rows, starts of the columns, values
	for i := range parts {
		var err error
		if parts[i], err = v.numbers(r, room); err != nil {
			return nil, err
		}
	}
	rows, starts, values := parts[0], parts[1], parts[2]
	if h.complex || len(h.dims) != 2 || h.dims[0] < 1 || h.dims[1] < 1 {
		return nil, fmt.Errorf("a sparse array that is complex or of shape %s, expected a real matrix",
			ndarray.ShapeString(h.dims))
	}
	m, n := h.dims[0], h.dims[1]
	if int64(m)*int64(n) > mostSparse {
		return nil, fmt.Errorf("a sparse matrix of %d x %d, which is too large to be read as a dense one: save it "+
			"as Matrix Market", m, n)
	}
	if len(starts) != n+1 || len(values) > len(rows) {
		return nil, fmt.Errorf("a sparse matrix of %d columns with %d starts, %d rows and %d values", n, len(starts),
			len(rows), len(values))
	}
	data := make([]float64, m*n)
	for j := range n {
		from, to := starts[j], starts[j+1]
		if !(from >= 0 && from <= to && to <= float64(len(values))) {
			return nil, fmt.Errorf("column %d from %g to %g of %d values", j, from, to, len(values))
		}
		for u := int(from); u < int(to); u++ {
			if !(rows[u] >= 0 && rows[u] < float64(m)) {
				return nil, fmt.Errorf("row %g of %d", rows[u], m)
			}
			data[j*m+int(rows[u])] = values[u]
		}
	}
	return data, nil
}
