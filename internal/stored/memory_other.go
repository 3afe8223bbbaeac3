//go:build !linux

package stored

import "github.com/pbnjay/memory"

// Memory is the size of the machine's memory in bytes, 0 where it is not known.
func Memory() int64 { return int64(memory.TotalMemory()) }

// Disk is 0: how many bytes can be written to a folder is not known.
func Disk(string) int64 { return 0 }
