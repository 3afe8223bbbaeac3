//go:build !linux

package stored

// HugePages does nothing: which pages the heap comes in is left to the system.
func HugePages() {}
