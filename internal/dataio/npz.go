package dataio

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sbinet/npyio/npy"
)

// NewNPZ is the set of the arrays in a .npz archive, of size bytes at r, as
// numpy.savez and numpy.savez_compressed write them. r must stay open while arrays
// are read; closing the set leaves it open.
func NewNPZ(r io.ReaderAt, size int64) (*Set, error) {
	if size == 0 {
		return nil, errors.New("is empty (0 bytes), expected a numpy .npz file")
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		magic := make([]byte, 6)
		n, _ := r.ReadAt(magic, 0)
		switch magic = magic[:n]; {
		case string(magic) == string(npy.Magic[:]):
			return nil, errors.New("is a single array (.npy), expected a .npz file as numpy.savez writes it")
		case bytes.HasPrefix(magic, []byte("PK")):
			return nil, fmt.Errorf("is truncated or corrupt (%w)", err)
		}
		return nil, errors.New("is not a numpy .npz file")
	}
	s := &Set{format: "npz", entries: make(map[string]entry)}
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			continue
		}
		if s.Has(name) {
			return nil, fmt.Errorf("array %q occurs twice", name)
		}
		s.entries[name] = zipEntry(f, r, size)
		s.names = append(s.names, name)
	}
	return s, nil
}

func zipEntry(f *zip.File, r io.ReaderAt, size int64) entry {
	open := func() (io.ReadCloser, int64, error) {
		// The sizes that a zip archive states may be wrong. Deflate packs at most 1032 bytes into
		// one.
		if f.CompressedSize64 > uint64(size) || f.UncompressedSize64/1032 > f.CompressedSize64 {
			return nil, 0, errors.New("its header states more bytes than the file can hold")
		}
		rc, err := f.Open()
		return rc, int64(f.UncompressedSize64), err
	}
	at := func(offset int64) (io.ReadCloser, error) {
		if f.Method == zip.Store {
			begin, err := f.DataOffset()
			if err != nil {
				return nil, err
			}
			offset = min(offset, int64(f.UncompressedSize64))
			return io.NopCloser(io.NewSectionReader(r, begin+offset, int64(f.UncompressedSize64)-offset)), nil
		}
		rc, _, err := open()
		if err != nil {
			return nil, err
		}
		if _, err := io.CopyN(io.Discard, rc, offset); err != nil {
			rc.Close()
			return nil, err
		}
		return rc, nil
	}
	offset := func() (int64, error) {
		if f.Method != zip.Store {
			return 0, errCompressed
		}
		return f.DataOffset()
	}
	return entry{open: open, at: at, offset: offset, size: int64(f.UncompressedSize64), sum: f.CRC32}
}
