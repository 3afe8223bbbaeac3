package stored

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// Checksum is what an archive says of an array.
type Checksum struct {
	// Array names it, and Header are the bytes before its values.
	Array  string
	Header []byte
	// CRC32 is the checksum (IEEE) of the header and the values.
	CRC32 uint32
}

// Expect has the scan compare checksums of the arrays in which the values lie: one, or the indices and
// the values of a compressed matrix.
func (m *Matrix) Expect(sums ...Checksum) {
	if len(sums) != len(m.spans) {
		panic(fmt.Sprintf("stored: %d checksums of %d arrays", len(sums), len(m.spans)))
	}
	m.expected = slices.Clone(sums)
}

// checksums are those of a scan so far.
type checksums struct {
	m    *Matrix
	sums []uint32
}

func (m *Matrix) newChecksums() checksums {
	c := checksums{m, make([]uint32, len(m.expected))}
	for k, e := range m.expected {
		c.sums[k] = crc32.ChecksumIEEE(e.Header)
	}
	return c
}

func (c checksums) add(from, to int) {
	for k := range c.sums {
		c.sums[k] = crc32.Update(c.sums[k], crc32.IEEETable, c.m.part(k, from, to))
	}
}

func (c checksums) check() error {
	for k, e := range c.m.expected {
		if c.sums[k] != e.CRC32 {
			return fmt.Errorf("is corrupt: the checksum of array %q is not that in the archive", e.Array)
		}
	}
	return nil
}

// errChanged is the error for a file that is not as it was when it was opened.
var errChanged = errors.New("has been changed while it is in use")
