package dataio

import (
	"compress/gzip"
	"fmt"
	"io"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/stored"
)

// unpack reads what is compressed with gzip: at most as many bytes as there is memory, because a file of
// that size may pack a thousand times as many.
func unpack(r io.Reader) (io.Reader, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("is truncated or corrupt (%w)", err)
	}
	return withinMemory(z, "unpacks to"), nil
}

// withinMemory ends a reader after as many bytes as there is memory: does says what it does to them.
func withinMemory(r io.Reader, does string) io.Reader {
	if all := stored.Memory(); all > 0 {
		r = &bounded{r, all, fmt.Errorf("%s more than %.3g GB, the memory that there is", does, float64(all)/1e9)}
	}
	return r
}

// bounded reads so many bytes, and then ends with an error.
type bounded struct {
	r    io.Reader
	left int64
	err  error
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, b.err
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// mostRow is the largest number of bytes of a row of a table, or of a line before it.
const mostRow = 1 << 25

// newRows reads the text of a table, whose rows end in time.
func newRows(r io.Reader) *bounded {
	return &bounded{r, mostRow, fmt.Errorf("holds a row of more than %d MB, expected lines of text", mostRow>>20)}
}

// next lets another row follow, after so many rows with so many values in all.
func (b *bounded) next(rows, values int) error {
	b.left = mostRow
	const often = 1 << 10
	if rows%often > 0 {
		return nil
	}
	return ndarray.Fits(fmt.Sprintf("a table of more than %d rows", rows), float64(values), 16)
}
