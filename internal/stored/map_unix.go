//go:build unix

package stored

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapping is a part of a file in the address space.
type mapping struct{ b []byte }

func mapFile(f *os.File, begin, size int64) (mapping, error) {
	b, err := unix.Mmap(int(f.Fd()), begin, int(size), unix.PROT_READ, unix.MAP_SHARED)
	return mapping{b}, err
}

func (m mapping) bytes() []byte { return m.b }
func (m mapping) close() error  { return unix.Munmap(m.b) }

// advised is the number of bytes to ask for at once: Linux reads no more ahead than a device's
// read-ahead or its largest request, however much it is asked for.
const advised = 1 << 20

// fetch reads ahead. Advice that the system does not take is no error.
func (m mapping) fetch(from, to int64) {
	page := int64(os.Getpagesize())
	for from = from / page * page; from < to; from += advised {
		_ = unix.Madvise(m.b[from:min(from+advised, to)], unix.MADV_WILLNEED)
	}
}

func (m mapping) drop(from, to int64) {
	page := int64(os.Getpagesize())
	from = from / page * page // a page that two blocks share has been read by now
	if to != int64(len(m.b)) {
		to = to / page * page
	}
	if from < to {
		_ = unix.Madvise(m.b[from:to], unix.MADV_DONTNEED)
	}
}
