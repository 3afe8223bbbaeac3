package array

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

// Owned is the memory that an owner holds.
func Owned(o Owner) Memory { return owned{o} }

type owned struct{ Owner }

func (o owned) Free() { o.Release() }

// Held is the memory that one owner frees at once. It is embedded in what owns it.
type Held struct{ memory []Memory }

// Hold adds memory, which h then owns.
func (h *Held) Hold(memory ...Memory) { h.memory = append(h.memory, memory...) }

func (h *Held) Bytes() int64 {
	bytes := int64(0)
	for _, m := range h.memory {
		bytes += m.Bytes()
	}
	return bytes
}

func (h *Held) Release() {
	for _, m := range h.memory {
		m.Free()
	}
	h.memory = nil
}
