//go:build !unix

package study

import "os"

// Lock does nothing: the system has no advisory locks.
func Lock(*os.File) error { return nil }
