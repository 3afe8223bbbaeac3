package dataio

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sbinet/npyio/npy"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio/ndarray"
)

// Package npyio reads the headers. The values are read here, because its own reader takes whatever
// one Read returns as a whole element, which silently corrupts compressed files, and trusts every
// size in a header.

func newNPY(name string, r io.ReaderAt, size int64) *Set {
	section := func(offset int64) io.ReadCloser {
		return io.NopCloser(io.NewSectionReader(r, offset, size-offset))
	}
	return &Set{format: "npy", names: []string{name}, entries: map[string]entry{name: {
		open:   func() (io.ReadCloser, int64, error) { return section(0), size, nil },
		at:     func(offset int64) (io.ReadCloser, error) { return section(min(offset, size)), nil },
		offset: func() (int64, error) { return 0, nil },
	}}}
}

// Reader is an array whose header has been read and checked, and whose values have
// not been read.
type Reader struct {
	name  string
	shape []int
	len   int
	// held is the array if it is already in memory; the fields below are then unset.
	held    *Array
	closer  io.Closer
	r       io.Reader
	dtype   dtype
	fortran bool
	header  int64 // its length in bytes
	// complex says that the values are complex numbers, of which dtype is the type of either part, and
	// the last axis of shape both parts.
	complex bool
}

func newReader(name string, rc io.ReadCloser, room int64) (*Reader, error) {
	corrupt := func(err error) error { return corruptError(name, err) }
	buffered := bufio.NewReader(rc) // values are read by parts that pass it by
	h, err := readHeader(buffered)
	if err != nil {
		return nil, corrupt(err)
	}
	r := &Reader{name: name, closer: rc, r: buffered, shape: h.shape, fortran: h.fortran, header: h.size, len: 1}
	if real, ok := realPart(h.descr); ok {
		h.descr, r.shape, r.complex = real, append(r.shape[:len(r.shape):len(r.shape)], 2), true
	}
	if r.dtype, err = h.check(name); err != nil {
		return nil, err
	}
	r.len, err = h.values(r.shape, room, r.dtype.Size)
	if err != nil {
		return nil, corrupt(err)
	}
	return r, nil
}

// values is the number of values of the shape, of size bytes each, which must fill the room that the
// array has with its header.
func (h header) values(shape []int, room int64, size int) (int, error) {
	room = max(room-h.size, 0)
	n, most := 1, room/int64(size)
	for _, k := range shape {
		if k < 0 || int64(k) > most/int64(max(n, 1)) {
			return 0, fmt.Errorf("holds %d values, but its header states shape %s", most, ndarray.ShapeString(shape))
		}
		n *= k
	}
	if most < 1 && n > 0 {
		return 0, errors.New("holds no values")
	}
	return n, afterArray(room - int64(n)*int64(size))
}

// afterArray is the error for so many bytes after an array.
func afterArray(bytes int64) error {
	if bytes == 0 {
		return nil
	}
	return fmt.Errorf("%d bytes follow the array, expected its end: one file, or member of an archive, "+
		"holds one array", bytes)
}

func (r *Reader) Close() error {
	if r.held != nil {
		return nil
	}
	return r.closer.Close()
}

// Shape has one entry an axis. It must not be modified.
func (r *Reader) Shape() []int { return r.shape }

func (r *Reader) ShapeError(expected string) error {
	return fmt.Errorf("array %q has shape %s, expected %s", r.name, ndarray.ShapeString(r.shape), expected)
}

// Floats reads the values in C order. NaN and Inf are ordinary values: see [Array.CheckFinite]. An
// array that is already in memory is shared, not copied.
func (r *Reader) Floats() (Array, error) {
	if r.isComplex() {
		return Array{}, r.complexError()
	}
	return r.Numbers()
}

// Matrix reads the values of an array of two axes; expected is its shape, for the error where it has others.
func (r *Reader) Matrix(expected string) (*mat.Dense, error) {
	if len(r.shape) != 2 {
		return nil, r.ShapeError(expected)
	}
	a, err := r.Floats()
	if err != nil {
		return nil, err
	}
	return mat.NewDense(a.Shape[0], a.Shape[1], a.Data), nil
}

// Numbers is [Reader.Floats], and also reads complex numbers: see [Array.Complex].
func (r *Reader) Numbers() (Array, error) {
	if r.held != nil {
		return *r.held, nil
	}
	a, err := r.floats(r.places())
	a.Complex = r.complex
	return a, err
}

// floats reads the values to the places in a new array, nil for their order.
func (r *Reader) floats(place func() int) (Array, error) {
	if err := r.fits(8); err != nil {
		return Array{}, err
	}
	a := Array{Name: r.name, Shape: r.shape, Data: make([]float64, r.len)}
	if r.dtype.Kind == 'u' && r.dtype.Size <= 2 {
		a.Depth = Depth{Bits: 8 * r.dtype.Size}
	}
	if place == nil && r.dtype.Native() {
		for b := ndarray.Bytes(a.Data); len(b) > 0; {
			n, err := io.ReadFull(r.r, b[:min(len(b), part)])
			if err != nil {
				return Array{}, corruptError(r.name, err)
			}
			b = b[n:]
		}
		return a, r.end()
	}
	if err := decoded(r, a.Data, place, r.dtype.Floats()); err != nil {
		return Array{}, err
	}
	return a, nil
}

// decoded reads the values in the file's order, or to the places where these are not nil.
func decoded[T any](r *Reader, values []T, place func() int, decode func(to []T, b []byte)) error {
	turned := make([]T, min(r.len, chunkLen))
	return r.each(func(first int, b []byte) error {
		n := len(b) / r.dtype.Size
		if place == nil {
			decode(values[first:first+n], b)
			return nil
		}
		decode(turned[:n], b)
		for _, v := range turned[:n] {
			values[place()] = v
		}
		return nil
	})
}

// Frames reads an array of three axes, the f frames of a video of h x w pixels, as a matrix of h w
// rows, the pixels, and f columns, without a second copy; shape is (f, h, w). Other arrays are read
// as by [Reader.Floats], and shape is nil.
func (r *Reader) Frames() (a Array, shape []int, err error) {
	if r.isComplex() {
		return Array{}, nil, r.complexError()
	}
	if len(r.shape) != 3 || r.held != nil {
		if a, err = r.Floats(); err == nil {
			a, shape = a.Frames()
		}
		return a, shape, err
	}
	frames, pixels := r.shape[0], r.shape[1]*r.shape[2]
	place := r.places()
	next := 0
	if place == nil {
		place = func() int {
			next++
			return next - 1
		}
	}
	a, err = r.floats(func() int {
		at := place()
		return at%pixels*frames + at/pixels
	})
	a.Shape = []int{pixels, frames}
	return a, r.shape, err
}

// Ints reads integers of any type, and floats that are integers, in C order.
func (r *Reader) Ints() (Array, error) {
	if r.isComplex() {
		return Array{}, r.complexError()
	}
	if err := r.fits(8); err != nil {
		return Array{}, err
	}
	a := Array{Name: r.name, Shape: r.shape}
	if kind := r.dtype.Kind; r.held != nil || kind != 'i' && kind != 'u' && kind != 'b' {
		read, err := r.Numbers()
		if err == nil {
			a.Ints, err = read.Integers()
		}
		return a, err
	}
	if r.dtype.Kind == 'b' {
		return Array{}, fmt.Errorf("array %q: found dtype %s, expected integers", r.name, r.dtype)
	}
	a.Ints = make([]int64, r.len)
	bits, size := r.dtype.Bits(), r.dtype.Size
	err := decoded(r, a.Ints, r.places(), func(to []int64, b []byte) {
		for i := range to {
			if to[i] = int64(bits(b[i*size:])); r.dtype.Kind == 'i' {
				shift := 64 - 8*size
				to[i] = to[i] << shift >> shift
			}
		}
	})
	if err != nil {
		return Array{}, err
	}
	at := slices.IndexFunc(a.Ints, func(v int64) bool { return v < 0 })
	if at >= 0 && r.dtype.Kind == 'u' {
		return Array{}, fmt.Errorf("array %q holds %d at %s, which is too large", r.name, uint64(a.Ints[at]),
			ndarray.PlaceString(at, r.shape))
	}
	return a, nil
}

// chunkLen is the number of values that are decoded at once, and part the number of bytes that are read at once where
// none is.
const (
	chunkLen = 4096
	part     = 1 << 19
)

// each calls f with chunks of the values' bytes and the number of values before them, and reads the
// entry to its end, where the checksum of an archive is compared.
func (r *Reader) each(f func(first int, b []byte) error) error {
	buf := make([]byte, chunkLen*r.dtype.Size)
	for first := 0; first < r.len; first += chunkLen {
		chunk := buf[:min(r.len-first, chunkLen)*r.dtype.Size]
		if _, err := io.ReadFull(r.r, chunk); err != nil {
			return corruptError(r.name, err)
		}
		if err := f(first, chunk); err != nil {
			return err
		}
	}
	return r.end()
}

// end reads what follows the values, which is nothing.
func (r *Reader) end() error {
	if rest, err := io.Copy(io.Discard, r.r); err != nil || rest > 0 {
		return corruptError(r.name, cmp.Or(err, afterArray(rest)))
	}
	return nil
}

// places returns, one a call, the places in C order of the values in the file's order. It is nil
// where the file is in C order.
func (r *Reader) places() func() int {
	if !r.fortran {
		return nil
	}
	rank := len(r.shape)
	order := make([]int, 0, rank)
	if r.complex {
		// The parts of a number are neighbours in the file, whatever the order of the axes.
		order = append(order, rank-1)
	}
	for axis := range rank - len(order) {
		order = append(order, axis)
	}
	strides := make([]int, rank)
	for axis, stride := rank-1, 1; axis >= 0; axis-- {
		strides[axis] = stride
		stride *= r.shape[axis]
	}
	sides, steps := make([]int, 0, rank), make([]int, 0, rank)
	for _, axis := range order {
		sides, steps = append(sides, r.shape[axis]), append(steps, strides[axis])
	}
	return ndarray.Places(sides, steps, 0)
}

func corruptError(name string, err error) error {
	if ended(err) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end")
	}
	return fmt.Errorf("array %q is truncated or corrupt (%w)", name, err)
}

type header struct {
	descr   string
	fortran bool
	shape   []int
	size    int64
}

// maxHeader bounds the header of an array. numpy itself accepts at most 10,000 bytes from an
// untrusted file.
const maxHeader = 10000

func readText(r *bufio.Reader) ([]byte, error) {
	// The library allocates the length that the header states, and slices the dictionary at
	// unchecked indices. So the length is checked first, and the library is given only the text.
	prefix, err := r.Peek(12)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(prefix, npy.Magic[:]) {
		return nil, errors.New("not a .npy array")
	}
	var size int64
	switch major := prefix[6]; major {
	case 1:
		size = 10 + int64(binary.LittleEndian.Uint16(prefix[8:]))
	case 2:
		size = 12 + int64(binary.LittleEndian.Uint32(prefix[8:]))
	default:
		return nil, fmt.Errorf(".npy version %d, expected 1 or 2", major)
	}
	if size > maxHeader {
		return nil, fmt.Errorf("its header states a length of %d bytes", size)
	}
	text := make([]byte, size)
	_, err = io.ReadFull(r, text)
	return text, err
}

func readHeader(r *bufio.Reader) (h header, err error) {
	text, err := readText(r)
	if err != nil {
		return h, err
	}
	defer func() {
		if recover() != nil {
			err = errors.New("its header is not a .npy header")
		}
	}()
	parsed, err := npy.NewReader(bytes.NewReader(text))
	if err != nil {
		return h, errors.New("its header is not a .npy header")
	}
	d := parsed.Header.Descr
	return header{descr: d.Type, fortran: d.Fortran, shape: d.Shape, size: int64(len(text))}, nil
}

func (h header) check(name string) (dtype, error) {
	t, err := parseDtype(h.descr)
	if err != nil {
		return t, fmt.Errorf("array %q: %w", name, err)
	}
	for _, n := range h.shape {
		switch {
		case n < 0:
			return t, corruptError(name, fmt.Errorf("its header states shape %s", ndarray.ShapeString(h.shape)))
		case n == 0:
			return t, fmt.Errorf("array %q is empty, its shape is %s", name, ndarray.ShapeString(h.shape))
		}
	}
	return t, nil
}

// Fits is the error for an array that takes more than the machine's memory, or that of its control
// group, with so many bytes a value.
func (r *Reader) fits(bytes int64) error {
	return ndarray.Fits(fmt.Sprintf("array %q of shape %s", r.name, ndarray.ShapeString(r.shape)), float64(r.len),
		float64(bytes))
}
