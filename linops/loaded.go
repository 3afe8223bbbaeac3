package linops

import "surepipe/array"

// inHostMemory reports whether a device computes in the host's memory.
func inHostMemory(dev array.Device) bool {
	b := dev.Alloc(1, 1)
	defer b.Free()
	_, ok := b.HostRow(0)
	return ok
}
