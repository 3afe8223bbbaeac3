//go:build !unix

package main

import "os"

// lock does nothing: the system has no advisory locks.
func lock(*os.File) error { return nil }
