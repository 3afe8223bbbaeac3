package stored

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// A file that becomes shorter while it is mapped has no pages beyond its end, and neither has one on a disk
// that fails. To read there is a fault, which ends the process, but in a goroutine that asks for a panic in its
// place. All reads of this package do: of goroutines that it starts too, which pass the fault on to the one
// that waits for them. What others read of a view ([Matrix.Read]) is guarded where it is Go's own code in the
// goroutine that called Guard; a native BLAS is not, for which [Matrix.Pass] looks at the file's length before
// every block.

// fault is the panic for one in another goroutine.
type fault struct{}

// Guard runs f, which reads the matrix, and returns an error where the file has no more of what it reads.
func (m *Matrix) Guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if !m.faulted(r) {
				panic(r)
			}
			err = m.lost()
		}
	}()
	f()
	return nil
}

// faulted reports that a panic is a fault of the mapping.
func (m *Matrix) faulted(r any) bool {
	if _, other := r.(fault); other {
		return true
	}
	at, ok := r.(interface{ Addr() uintptr })
	if !ok || m.file == nil || len(m.bytes) == 0 {
		return false
	}
	begin := uintptr(unsafe.Pointer(&m.bytes[0]))
	return at.Addr() >= begin && at.Addr()-begin < uintptr(len(m.bytes))
}

func (m *Matrix) lost() error {
	if err := m.shorter(); err != nil {
		return err
	}
	return fmt.Errorf("%s cannot be read where it is mapped: its disk has failed, or it was shorter for a while",
		m.Name())
}

// beside runs f in another goroutine. The function that it returns waits for it.
func (m *Matrix) beside(f func()) (wait func()) {
	done := make(chan struct{})
	var lost atomic.Bool
	go func() {
		defer close(done)
		lost.Store(m.Guard(f) != nil)
	}()
	return func() {
		if <-done; lost.Load() {
			panic(fault{})
		}
	}
}
