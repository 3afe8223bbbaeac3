//go:build unix

package study

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock makes the process the only writer of a file, until it is closed. It is advisory: programs
// other than surepipe do not ask.
func Lock(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errors.New("another process writes to this file")
	}
	// File systems without locks, such as some network ones, take the file as it is.
	return nil
}
