package array

import "slices"

// Memory is something on a device that is freed once: a [Batch], an [Index], a [CSR].
type Memory interface {
	// Bytes is the device memory it holds.
	Bytes() int64
	// Free gives the memory back.
	Free()
}

// Owner is a thing that owns memory on a device, as most of this module's do.
type Owner interface {
	Bytes() int64
	Release()
}

// owned is the memory that an owner holds.
type owned struct{ Owner }

func (o owned) Free() { o.Release() }

// Held is the memory that one owner frees at once, the last first. It is embedded in what owns it.
type Held []Memory

// Owning holds what owners hold, which are then those of the Held.
func Owning(owners ...Owner) (h Held) {
	h.Own(owners...)
	return h
}

// Hold adds memory, which h then owns, and Own what owners hold.
func (h *Held) Hold(memory ...Memory) { *h = append(*h, memory...) }

func (h *Held) Own(owners ...Owner) {
	for _, o := range owners {
		*h = append(*h, owned{o})
	}
}

func (h Held) Bytes() (sum int64) {
	for _, m := range h {
		sum += m.Bytes()
	}
	return sum
}

func (h *Held) Release() {
	for _, m := range slices.Backward(*h) {
		m.Free()
	}
	*h = nil
}
