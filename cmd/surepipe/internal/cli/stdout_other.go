//go:build !unix

package cli

import "os"

func closed(stream *os.File) bool {
	_, err := stream.Stat()
	return err != nil
}
