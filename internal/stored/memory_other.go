//go:build !linux

package stored

// Memory is the size of the machine's memory in bytes, 0 where it is not known.
func Memory() int64 { return 0 }
