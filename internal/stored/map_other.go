//go:build !unix

package stored

import (
	"errors"
	"os"
)

// mapping is a part of a file in the address space.
type mapping struct{}

func mapFile(*os.File, int64, int64) (mapping, error) {
	return mapping{}, errors.New("this system has no mmap")
}

func (mapping) bytes() []byte      { return nil }
func (mapping) close() error       { return nil }
func (mapping) fetch(int64, int64) {}
func (mapping) drop(int64, int64)  {}
