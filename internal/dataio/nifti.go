package dataio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"surepipe/internal/dataio/ndarray"
)

// niftiTypes are the types of values by their code; of complex ones that of either part.
var niftiTypes = map[uint16]ndarray.Number{
	2: {Kind: 'u', Size: 1}, 4: {Kind: 'i', Size: 2}, 8: {Kind: 'i', Size: 4}, 16: {Kind: 'f', Size: 4},
	64: {Kind: 'f', Size: 8}, 256: {Kind: 'i', Size: 1}, 512: {Kind: 'u', Size: 2}, 768: {Kind: 'u', Size: 4},
	1024: {Kind: 'i', Size: 8}, 1280: {Kind: 'u', Size: 8},
	32: {Kind: 'f', Size: 4}, 1792: {Kind: 'f', Size: 8}, // complex
}

// niftiType is a type of values: numbers, of which complex values have two.
type niftiType struct {
	ndarray.Number
	parts int
}

func niftiTypeOf(code uint16, order binary.ByteOrder) (t niftiType, ok bool) {
	t.Number, ok = niftiTypes[code]
	if t.Order, t.parts = order, 1; code == 32 || code == 1792 {
		t.parts = 2
	}
	return t, ok
}

func (t niftiType) bytes() int { return t.Size * t.parts }

// niftiField is where a header has numbers of a type, one after the other.
type niftiField struct {
	ndarray.Number
	at int
}

func integers(size, at int) niftiField { return niftiField{ndarray.Number{Kind: 'i', Size: size}, at} }
func reals(size, at int) niftiField    { return niftiField{ndarray.Number{Kind: 'f', Size: size}, at} }

func (f niftiField) get(order binary.ByteOrder, header []byte, i int) float64 {
	f.Order = order
	return f.Float()(header[f.at+i*f.Size:])
}

func (f niftiField) put(order binary.ByteOrder, header []byte, values ...float64) {
	f.Order = order
	for i, v := range values {
		f.Put(header[f.at+i*f.Size:], v)
	}
}

// niftiLayout is the header of a version: its size, with which files begin, where its name is, and its fields. Dims
// are the number of axes and their lengths, scale a factor and a summand of values, and span their range.
type niftiLayout struct {
	size, magic                           int
	dims, code, bits, offset, scale, span niftiField
	sizes, qform, sform, quaternion, rows niftiField
}

var niftiLayouts = []niftiLayout{
	{size: 348, magic: 344, dims: integers(2, 40), code: integers(2, 70), bits: integers(2, 72),
		offset: reals(4, 108), scale: reals(4, 112), span: reals(4, 124), sizes: reals(4, 76),
		qform: integers(2, 252), sform: integers(2, 254), quaternion: reals(4, 256), rows: reals(4, 280)},
	{size: 540, magic: 4, dims: integers(8, 16), code: integers(2, 12), bits: integers(2, 14),
		offset: integers(8, 168), scale: reals(8, 176), span: reals(8, 192), sizes: reals(8, 104),
		qform: integers(4, 344), sform: integers(4, 348), quaternion: reals(8, 352), rows: reals(8, 400)},
}

// niftiHeader is what matters of the header of a NIfTI-1 or NIfTI-2 file.
type niftiHeader struct {
	niftiLayout
	lengths      []int // of the axes
	t            niftiType
	begin        int64 // of the values
	slope, shift float64
}

// isNIfTI reports whether a file begins as a NIfTI file does, and in which order.
func isNIfTI(magic []byte) (order binary.ByteOrder, l niftiLayout, ok bool) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, l := range niftiLayouts {
			if len(magic) >= 4 && order.Uint32(magic) == uint32(l.size) {
				return order, l, true
			}
		}
	}
	return nil, l, false
}

// ReadNIfTI reads an image or a series of images (.nii) of real or complex numbers. The axes are in
// the order of the file, the last varying fastest: (time, z, y, x), without axes of one entry; that
// is the reverse of nibabel's order. Values are scaled as the header says.
func ReadNIfTI(r io.Reader) (Array, error) {
	h, err := readNIfTIHeader(r)
	if err != nil {
		return Array{}, err
	}
	shape, n, ok := reversedAxes(h.lengths)
	a := Array{Complex: h.t.parts == 2, Shape: shape}
	if !ok {
		return Array{}, h.wrongAxes()
	}
	if _, err := io.CopyN(io.Discard, r, h.begin-int64(h.size)); err != nil {
		return Array{}, errInHeader
	}
	if a.Data, err = readValues(r, h.t.Number, n*h.t.parts); err != nil {
		return Array{}, err
	}
	if h.slope != 0 && (h.slope != 1 || h.shift != 0) {
		for i, v := range a.Data {
			a.Data[i] = h.slope*v + h.shift
			if a.Complex && i%2 == 1 {
				a.Data[i] = h.slope * v
			}
		}
	}
	return a.WithPairs()
}

// reversedAxes are axes of which the first varies fastest in the order of the file, without those of one entry, and
// the number of entries; ok is false where these are none, or too many.
func reversedAxes(dims []int) (shape []int, n int, ok bool) {
	n = 1
	for _, k := range slices.Backward(dims) {
		if k < 1 || k > math.MaxInt32/n {
			return nil, 0, false
		}
		if n *= k; k > 1 {
			shape = append(shape, k)
		}
	}
	return shape, n, true
}

// readValues reads n values, in memory that grows with what there is.
func readValues(r io.Reader, t ndarray.Number, n int) ([]float64, error) {
	if err := ndarray.Fits(fmt.Sprintf("an array of %d values", n), float64(n), 8); err != nil {
		return nil, err
	}
	decode := t.Floats()
	buf := make([]byte, chunkLen*t.Size)
	var data []float64
	for len(data) < n {
		k := min(chunkLen, n-len(data))
		if _, err := io.ReadFull(r, buf[:k*t.Size]); err != nil {
			return nil, fmt.Errorf("is truncated or corrupt (it ends after %d of %d values)", len(data), n)
		}
		at := len(data)
		data = append(data, make([]float64, k)...)
		decode(data[at:], buf[:k*t.Size])
	}
	return data, nil
}

// errInHeader is the error for a file without values.
var errInHeader = errors.New("is truncated or corrupt (it ends within its header)")

func (h *niftiHeader) wrongAxes() error {
	return fmt.Errorf("is truncated or corrupt (its header states %v entries)", h.lengths)
}

func readNIfTIHeader(r io.Reader) (h niftiHeader, err error) {
	b := make([]byte, niftiLayouts[0].size)
	if _, err := io.ReadFull(r, b); err != nil {
		return h, errInHeader
	}
	order, l, ok := isNIfTI(b)
	if !ok {
		return h, errors.New("is not a NIfTI file")
	}
	more := make([]byte, l.size-len(b))
	if _, err := io.ReadFull(r, more); err != nil {
		return h, errInHeader
	}
	b = append(b, more...)
	switch magic := string(b[l.magic : l.magic+3]); {
	case magic == "n+1" || magic == "n+2":
	case magic == "ni1" || magic == "ni2":
		return h, errors.New("is the header of a pair .hdr and .img, expected a single file .nii")
	default:
		return h, errors.New("is not a NIfTI file (it may be of the older ANALYZE 7.5): convert it to .nii")
	}
	h.niftiLayout = l
	rank := l.dims.get(order, b, 0)
	if !(rank >= 1 && rank <= 7) {
		return h, fmt.Errorf("is truncated or corrupt (its header states %.0f axes)", rank)
	}
	for i := range int(rank) {
		h.lengths = append(h.lengths, int(max(min(l.dims.get(order, b, 1+i), math.MaxInt32), -1)))
	}
	begin := l.offset.get(order, b, 0)
	if !(begin >= float64(l.size) && begin <= 1<<30) {
		return h, fmt.Errorf("is truncated or corrupt (its header states values from byte %.0f on)", begin)
	}
	h.begin, h.slope, h.shift = int64(begin), l.scale.get(order, b, 0), l.scale.get(order, b, 1)
	if bad := math.IsNaN(h.slope+h.shift) || math.IsInf(h.slope+h.shift, 0); bad {
		h.slope, h.shift = 1, 0
	}
	code := uint16(l.code.get(order, b, 0))
	if h.t, ok = niftiTypeOf(code, order); !ok {
		return h, fmt.Errorf("holds values of type %d, expected integers, floating point or complex numbers of up to "+
			"64 bits", code)
	}
	return h, nil
}
