//go:build !unix

package cli

import "os"

// closed reports whether a standard stream is closed.
func closed(stream *os.File) bool {
	_, err := stream.Stat()
	return err != nil
}
