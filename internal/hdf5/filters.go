package hdf5

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"

	"surepipe/internal/lists"
)

type filter struct {
	id     uint64
	values []uint64
}

const (
	deflate    = 1
	shuffle    = 2
	fletcher32 = 3
)

// mostPacked is the number of bytes that deflate packs into one.
const mostPacked = 1032

func (c *cursor) filters() (all []filter) {
	version := c.uint(1)
	n := int(c.uint(1))
	if version == 1 {
		c.skip(6)
	}
	for range n {
		f := filter{id: c.uint(2)}
		named := 0
		if version == 1 || f.id >= 256 {
			named = int(c.uint(2))
		}
		c.skip(2)
		values := int(c.uint(2))
		c.skip(named)
		for range values {
			f.values = append(f.values, c.uint(4))
		}
		if version == 1 && values%2 == 1 {
			c.skip(4)
		}
		all = append(all, f)
	}
	return all
}

// unpack undoes the filters in reverse order, except for those in the mask.
func (s *store) unpack(b []byte, mask uint64, chunk []int) []byte {
	want := lists.Product(chunk) * s.kind.Size
	for i := len(s.filters) - 1; i >= 0; i-- {
		if i < 32 && mask&(1<<i) != 0 {
			continue
		}
		switch filter := s.filters[i]; filter.id {
		case deflate:
			z, err := zlib.NewReader(bytes.NewReader(b))
			if err != nil {
				fail("is truncated or corrupt (%w)", err)
			}
			var whole bytes.Buffer
			if _, err := io.Copy(&whole, io.LimitReader(z, int64(want)+8)); err != nil {
				fail("is truncated or corrupt (%w)", err)
			}
			b = whole.Bytes()
		case shuffle:
			b = unshuffled(b, s.kind.Size)
		case fletcher32:
			if len(b) < 4 {
				fail("is truncated or corrupt (a chunk without its checksum)")
			}
			sum := binary.LittleEndian.Uint32(b[len(b)-4:])
			b = b[:len(b)-4]
			if sum != fletcher(b) {
				fail("is corrupt (the checksum of a chunk)")
			}
		default:
			fail("is compressed by filter %d, expected deflate (gzip): write it with compression='gzip', or none",
				filter.id)
		}
	}
	return s.enough(b, want)
}

func unshuffled(b []byte, size int) []byte {
	n := len(b) / size
	out := make([]byte, len(b))
	for u := range size {
		for i := range n {
			out[i*size+u] = b[u*n+i]
		}
	}
	copy(out[n*size:], b[n*size:])
	return out
}

// fletcher is the checksum of Fletcher (1982) over words of 16 bits, as the format uses it.
func fletcher(b []byte) uint32 {
	var one, two uint32
	for len(b) > 1 {
		for range min(360, len(b)/2) {
			one += uint32(b[0])<<8 | uint32(b[1])
			two += one
			b = b[2:]
		}
		one, two = one&0xffff+one>>16, two&0xffff+two>>16
	}
	if len(b) == 1 {
		one += uint32(b[0]) << 8
		two += one
		one, two = one&0xffff+one>>16, two&0xffff+two>>16
	}
	one, two = one&0xffff+one>>16, two&0xffff+two>>16
	return two<<16 | one
}
