//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// closed reports whether a standard stream was closed when the program began. Go's runtime then opens
// the null device in its place, for reading and writing: so does a caller that wants to hear nothing,
// but a shell's redirection opens it for writing alone.
func closed(stream *os.File) bool {
	flags, err := unix.FcntlInt(stream.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return true
	}
	info, err := stream.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return flags&unix.O_ACCMODE == unix.O_RDWR && err == nil && nullErr == nil && os.SameFile(info, null)
}
