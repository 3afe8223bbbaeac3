package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/internal/stored"
)

type Array struct {
	// Shape has one entry an axis, and is empty for a scalar. The last axis varies fastest.
	Shape []int
	// Data are the values; of complex numbers real and imaginary part, side by side.
	Data    []float64
	Complex bool
}

type kind struct {
	ndarray.Number
	class   int
	parts   [2]int // of complex numbers: where real and imaginary part begin
	complex bool
	part    *kind
}

// The classes of types.
const (
	fixedPoint    = 0
	floatingPoint = 1
	compound      = 6
	enumeration   = 8
)

var classNames = map[int]string{2: "times", 3: "texts", 4: "bit fields", 5: "opaque values", 6: "records",
	7: "references", 9: "sequences of variable length", 10: "arrays"}

func (c *cursor) datatype() (k kind, err error) {
	head := c.uint(1)
	bits := c.uint(3)
	k.class = int(head & 15)
	k.Number = ndarray.Number{Kind: 'u', Size: int(c.uint(4)), Order: binary.LittleEndian}
	if bits&1 != 0 {
		k.Order = binary.BigEndian
	}
	switch k.class {
	case fixedPoint:
		if bits&8 != 0 {
			k.Kind = 'i'
		}
		c.skip(4)
		if k.Size != 1 && k.Size != 2 && k.Size != 4 && k.Size != 8 {
			return k, fmt.Errorf("holds integers of %d bytes, expected 1, 2, 4 or 8", k.Size)
		}
		return k, nil
	case floatingPoint:
		k.Kind = 'f'
		c.skip(12)
		if k.Size != 4 && k.Size != 8 || bits&0x40 != 0 {
			return k, fmt.Errorf("holds floating point numbers of %d bytes, expected 4 or 8", k.Size)
		}
		return k, nil
	case enumeration:
		base, err := c.datatype()
		if err == nil && base.class != fixedPoint {
			err = errors.New("holds an enumeration that is not of integers")
		}
		return base, err
	case compound:
		return k, c.pair(&k, int(head>>4), int(bits&0xffff))
	}
	return k, fmt.Errorf("holds %s, expected numbers", classNames[k.class])
}

func (c *cursor) pair(k *kind, version, members int) error {
	if members != 2 {
		return fmt.Errorf("holds records of %d members, expected numbers", members)
	}
	names := [2]string{}
	for i := range 2 {
		before := len(c.b)
		names[i] = c.text()
		width := 4
		if version < 3 {
			c.skip((8 - (before-len(c.b))%8) % 8)
		} else {
			for width = 1; k.Size>>(8*width) > 0; width++ {
			}
		}
		k.parts[i] = int(c.uint(width))
		if version == 1 {
			c.skip(28)
		}
		part, err := c.datatype()
		if err != nil {
			return err
		}
		if part.class != floatingPoint || k.parts[i]+part.Size > k.Size || i == 1 &&
			(part.Size != k.part.Size || part.Order != k.part.Order) {
			return errors.New("holds records, expected numbers")
		}
		k.part = &part
	}
	if k.complex = names == [2]string{"r", "i"} || names == [2]string{"real", "imag"}; !k.complex {
		return fmt.Errorf("holds records of %q and %q, expected numbers; complex ones are of r and i, or "+
			"real and imag", names[0], names[1])
	}
	return nil
}

// store is how the values of a dataset are kept.
type store struct {
	f       *File
	kind    kind
	shape   []int
	total   int
	filters []filter
	fill    []byte // of one element; nil for 0
	layout  *cursor
}

func (d Dataset) Read() (a Array, err error) {
	defer caught(&err)
	d.f.left = d.f.objects()
	s := &store{f: d.f, total: 1}
	typed, spaced := false, false
	for _, m := range d.f.messages(d.at) {
		switch m.kind {
		case dataspaceMessage:
			s.shape, spaced = m.body.dataspace(), true
		case datatypeMessage:
			if s.kind, err = m.body.datatype(); err != nil {
				return a, err
			}
			typed = true
		case filterMessage:
			s.filters = m.body.filters()
		case fillMessage:
			s.fill = m.body.fill()
		case layoutMessage:
			s.layout = m.body
		}
	}
	if !typed || !spaced || s.layout == nil || s.kind.Size < 1 {
		return a, errors.New("has no type, no shape or no layout")
	}
	room := d.f.size
	if room < math.MaxInt64/mostPacked {
		room *= mostPacked
	}
	for _, n := range s.shape {
		if n == 0 {
			return a, fmt.Errorf("is empty, its shape is %v", s.shape)
		}
		if int64(n) > room/int64(s.kind.Size)/int64(s.total) {
			return a, fmt.Errorf("states the shape %v, more than the file can hold", s.shape)
		}
		s.total *= n
	}
	if err := stored.Fits(fmt.Sprintf("an array of shape %v", s.shape),
		float64(s.total)*float64(s.kind.Size+8)); err != nil {
		return a, err
	}
	raw := s.read()
	a = Array{Shape: s.shape, Complex: s.kind.complex}
	if s.kind.complex {
		a.Data = make([]float64, 2*s.total)
		part := s.kind.part.Float()
		for i := range s.total {
			for u, from := range s.kind.parts {
				a.Data[2*i+u] = part(raw[i*s.kind.Size+from:])
			}
		}
		return a, nil
	}
	a.Data = make([]float64, s.total)
	s.kind.Floats()(a.Data, raw)
	return a, nil
}

func (c *cursor) dataspace() (shape []int) {
	version := c.uint(1)
	rank := int(c.uint(1))
	c.skip(2)
	if version == 1 {
		c.skip(4)
	}
	shape = []int{}
	for range rank {
		n := c.uint(c.f.l)
		if n > math.MaxInt32 {
			fail("is truncated or corrupt (an axis of %d entries)", n)
		}
		shape = append(shape, int(n))
	}
	return shape
}

func (c *cursor) fill() []byte {
	version := c.uint(1)
	defined := true
	switch version {
	case 1, 2:
		c.skip(2)
		defined = c.uint(1) != 0
		if version == 1 {
			defined = true
		}
	case 3:
		defined = c.uint(1)&0x20 != 0
	default:
		return nil
	}
	if !defined || len(c.b) < 4 {
		return nil
	}
	n := c.uint(4)
	if n > uint64(len(c.b)) {
		return nil
	}
	return c.take(int(n))
}

func (s *store) read() []byte {
	c := s.layout
	version := c.uint(1)
	if version < 3 || version > 4 {
		fail("has a layout of version %d, expected 3 or 4", version)
	}
	n := s.total * s.kind.Size
	switch class := c.uint(1); class {
	case 0:
		return s.enough(c.take(int(c.uint(2))), n)
	case 1:
		at, ok := c.address()
		if !ok {
			return s.filled(n)
		}
		return s.f.bytes(at, n)
	case 2:
		if version == 4 {
			return s.chunksOfVersion4(c, n)
		}
		rank := int(c.uint(1))
		at, ok := c.address()
		chunk := s.chunk(c, rank, 4)
		out := s.filled(n)
		if ok {
			s.chunks(out, at, chunk)
		}
		return out
	default:
		fail("has a layout of class %d, expected compact, contiguous or chunked", class)
	}
	return nil
}

func (s *store) enough(b []byte, n int) []byte {
	if len(b) < n {
		fail("holds %d bytes, expected %d for the shape %v", len(b), n, s.shape)
	}
	return b[:n]
}

func (s *store) filled(n int) []byte {
	out := make([]byte, n)
	if len(s.fill) == s.kind.Size {
		for i := 0; i < n; i += s.kind.Size {
			copy(out[i:], s.fill)
		}
	}
	return out
}

// chunk reads the shape of a chunk, whose last entry is the size of an element.
func (s *store) chunk(c *cursor, rank, width int) []int {
	if rank != len(s.shape)+1 {
		fail("has chunks of %d axes, expected %d", rank-1, len(s.shape))
	}
	size := 1
	shape := make([]int, rank-1)
	for i := range rank {
		n := c.uint(width)
		if n == 0 || n > math.MaxInt32 || int64(size) > (1<<40)/int64(n) {
			fail("is truncated or corrupt (a chunk's side of %d)", n)
		}
		size *= int(n)
		if i < rank-1 {
			shape[i] = int(n)
		} else if int(n) != s.kind.Size {
			fail("is truncated or corrupt (chunks of elements of %d bytes, expected %d)", n, s.kind.Size)
		}
	}
	return shape
}

func (s *store) chunksOfVersion4(c *cursor, n int) []byte {
	const singleFiltered = 2
	flags := c.uint(1)
	rank, width := int(c.uint(1)), int(c.uint(1))
	chunk := s.chunk(c, rank, width)
	if index := c.uint(1); index != 1 {
		fail("keeps its chunks as HDF5 1.10 does with libver='latest' (index %d), which is not supported: write "+
			"it with libver='earliest'", index)
	}
	size, mask := lists.Product(chunk)*s.kind.Size, uint64(0)
	if flags&singleFiltered != 0 {
		size, mask = c.length(), c.uint(4)
	}
	at, ok := c.address()
	out := s.filled(n)
	if ok {
		s.put(out, s.unpack(s.f.bytes(at, size), mask, chunk), chunk, make([]int, len(chunk)))
	}
	return out
}

func (s *store) chunks(out []byte, at uint64, chunk []int) {
	origin := make([]int, len(chunk))
	s.f.tree(at, chunkTree, 8+8*(len(chunk)+1), 0, func(key *cursor, child uint64) {
		size, mask := key.uint(4), key.uint(4)
		for i := range origin {
			v := key.uint(8)
			if v > math.MaxInt32 {
				fail("is truncated or corrupt (a chunk at %d)", v)
			}
			origin[i] = int(v)
		}
		if size > uint64(s.f.size) {
			fail("is truncated or corrupt (a chunk of %d bytes)", size)
		}
		s.put(out, s.unpack(s.f.bytes(child, int(size)), mask, chunk), chunk, origin)
	})
}

func (s *store) put(out, b []byte, chunk, origin []int) {
	rank := len(chunk)
	for i := range origin {
		if origin[i] >= s.shape[i] {
			return
		}
	}
	if rank == 0 {
		copy(out, b)
		return
	}
	run := min(chunk[rank-1], s.shape[rank-1]-origin[rank-1]) * s.kind.Size
	at := make([]int, rank)
	for {
		from, to := 0, 0
		inside := true
		for i := range rank {
			from = from*chunk[i] + at[i]
			to = to*s.shape[i] + origin[i] + at[i]
			inside = inside && origin[i]+at[i] < s.shape[i]
		}
		if inside {
			copy(out[to*s.kind.Size:][:run], b[from*s.kind.Size:])
		}
		i := rank - 2
		for ; i >= 0; i-- {
			if at[i]++; at[i] < chunk[i] {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
}
