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

// niftiTypes are the types of values by their code.
var niftiTypes = map[uint16]ndarray.Number{
	2: {Kind: 'u', Size: 1}, 4: {Kind: 'i', Size: 2}, 8: {Kind: 'i', Size: 4}, 16: {Kind: 'f', Size: 4},
	64: {Kind: 'f', Size: 8}, 256: {Kind: 'i', Size: 1}, 512: {Kind: 'u', Size: 2}, 768: {Kind: 'u', Size: 4},
	1024: {Kind: 'i', Size: 8}, 1280: {Kind: 'u', Size: 8},
	32: {Kind: 'f', Size: 4}, 1792: {Kind: 'f', Size: 8}, // complex
}

// niftiHeader is what matters of the header of a NIfTI-1 or NIfTI-2 file.
type niftiHeader struct {
	dims         []int
	code         uint16
	offset       int64
	slope, shift float64
	order        binary.ByteOrder
	size         int64
}

// niftiSizes are the sizes of the headers of versions 1 and 2, with which files begin.
var niftiSizes = [2]uint32{348, 540}

// isNIfTI reports whether a file begins as a NIfTI file does, and in which order.
func isNIfTI(magic []byte) (order binary.ByteOrder, version int, ok bool) {
	if len(magic) < 4 {
		return nil, 0, false
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for version, size := range niftiSizes {
			if order.Uint32(magic) == size {
				return order, version + 1, true
			}
		}
	}
	return nil, 0, false
}

// ReadNIfTI reads an image or a series of images (.nii) of real or complex numbers. The axes are in
// the order of the file, the last varying fastest: (time, z, y, x), without axes of one entry; that
// is the reverse of nibabel's order. Values are scaled as the header says.
func ReadNIfTI(r io.Reader) (Array, error) {
	h, err := readNIfTIHeader(r)
	if err != nil {
		return Array{}, err
	}
	t, ok := niftiTypes[h.code]
	if !ok {
		return Array{}, fmt.Errorf("holds values of type %d, expected integers, floating point or complex numbers "+
			"of up to 64 bits", h.code)
	}
	t.Order = h.order
	a := Array{Complex: h.code == 32 || h.code == 1792}
	var n int
	if a.Shape, n, ok = reversedAxes(h.dims); !ok {
		return Array{}, fmt.Errorf("is truncated or corrupt (its header states %v entries)", h.dims)
	}
	if _, err := io.CopyN(io.Discard, r, h.offset-h.size); err != nil {
		return Array{}, errors.New("is truncated or corrupt (it ends within its header)")
	}
	if a.Data, err = readValues(r, t, n*a.Parts()); err != nil {
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

func readNIfTIHeader(r io.Reader) (h niftiHeader, err error) {
	b := make([]byte, niftiSizes[0])
	if _, err := io.ReadFull(r, b); err != nil {
		return h, errors.New("is truncated or corrupt (it ends within its header)")
	}
	order, version, ok := isNIfTI(b)
	if !ok {
		return h, errors.New("is not a NIfTI file")
	}
	h.order = order
	var rank int
	if version == 1 {
		switch string(b[344:347]) {
		case "n+1":
		case "ni1":
			return h, errors.New("is the header of a pair .hdr and .img, expected a single file .nii")
		default:
			return h, errors.New("is not a NIfTI file (it may be of the older ANALYZE 7.5): convert it to .nii")
		}
		h.size = 348
		rank = int(order.Uint16(b[40:]))
		for i := range min(rank, 7) {
			h.dims = append(h.dims, int(int16(order.Uint16(b[42+2*i:]))))
		}
		h.code = order.Uint16(b[70:])
		h.offset = int64(math.Float32frombits(order.Uint32(b[108:])))
		h.slope, h.shift = float64(math.Float32frombits(order.Uint32(b[112:]))),
			float64(math.Float32frombits(order.Uint32(b[116:])))
	} else {
		more := make([]byte, niftiSizes[1]-niftiSizes[0])
		if _, err := io.ReadFull(r, more); err != nil {
			return h, errors.New("is truncated or corrupt (it ends within its header)")
		}
		b = append(b, more...)
		if string(b[4:7]) != "n+2" {
			return h, errors.New("is not a NIfTI file of one part, expected .nii")
		}
		h.size = 540
		rank = int(order.Uint64(b[16:]) & 0xff)
		for i := range min(rank, 7) {
			h.dims = append(h.dims, int(min(order.Uint64(b[24+8*i:]), math.MaxInt32)))
		}
		h.code = order.Uint16(b[12:])
		h.offset = int64(order.Uint64(b[168:]))
		h.slope, h.shift = math.Float64frombits(order.Uint64(b[176:])), math.Float64frombits(order.Uint64(b[184:]))
	}
	if rank < 1 || rank > 7 {
		return h, fmt.Errorf("is truncated or corrupt (its header states %d axes)", rank)
	}
	if h.offset < h.size || h.offset > 1<<30 {
		return h, fmt.Errorf("is truncated or corrupt (its header states values from byte %d on)", h.offset)
	}
	if bad := math.IsNaN(h.slope+h.shift) || math.IsInf(h.slope+h.shift, 0); bad {
		h.slope, h.shift = 1, 0
	}
	return h, nil
}
