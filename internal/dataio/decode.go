package dataio

import (
	"bytes"
	"io"
)

// DecodeNPY reads a .npy array from memory, as numpy's save writes it. name is for errors. Bytes after
// the array are an error.
func DecodeNPY(name string, data []byte) (Array, error) {
	r, err := newReader(name, io.NopCloser(bytes.NewReader(data)), int64(len(data)))
	if err != nil {
		return Array{}, err
	}
	return r.Floats()
}
