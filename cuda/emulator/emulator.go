//go:build cuda

package emulator

import (
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Counters is what the emulated driver has counted since [Reset].
type Counters struct {
	// Calls counts the calls that can be made to fail.
	Calls int64
	// Allocs and Frees count those of device memory, LiveBytes is the memory allocated now,
	// PeakBytes the most at once. Pinned counts the pieces of pinned host memory.
	Allocs, Frees, LiveBytes, PeakBytes, Pinned int64
	// Launches counts kernels, Products cuBLAS calls, Syncs waits for the card.
	Launches, Products, Syncs int64
	// ToCard and FromCard count copies, ToCardBytes and FromCardBytes their bytes.
	ToCard, ToCardBytes, FromCard, FromCardBytes int64
	// Overruns counts allocations with writes outside their bounds.
	Overruns int64
	// Objects counts the contexts, streams, events and modules that exist.
	Objects int64
}

// Mode is what a fault does.
type Mode int64

const (
	// Refuse fails one call.
	Refuse Mode = iota
	// Break fails one call, or the work that it queued, and with it the context: all later
	// calls fail too, as after an illegal address.
	Break
)

var entry struct {
	once                          sync.Once
	counters, reset, fail, memory uintptr
}

// Present reports whether the driver in use is the emulated one.
func Present() bool {
	entry.once.Do(func() {
		lookup := func(name string) uintptr {
			at, err := purego.Dlsym(purego.RTLD_DEFAULT, "surepipe_emulator_"+name)
			if err != nil {
				return 0
			}
			return at
		}
		entry.counters, entry.reset, entry.fail, entry.memory = lookup("counters"), lookup("reset"), lookup("fail"),
			lookup("memory")
	})
	return entry.counters != 0
}

func call(at uintptr, args ...uintptr) {
	if !Present() {
		panic("emulator: the driver in use is not the emulated one")
	}
	purego.SyscallN(at, args...)
}

// reading is where the driver writes: unlike a variable of a goroutine it never moves.
var reading struct {
	sync.Mutex
	Counters
}

// Read returns the counters.
func Read() Counters {
	Present()
	reading.Lock()
	defer reading.Unlock()
	call(entry.counters, uintptr(unsafe.Pointer(&reading.Counters)))
	return reading.Counters
}

// Reset sets the counters to zero, except those of held memory and objects, and cancels a fault.
func Reset() { Present(); call(entry.reset) }

// Fail makes the n-th call from now fail; 0 cancels the fault and repairs the context.
func Fail(n int64, mode Mode) { Present(); call(entry.fail, uintptr(n), uintptr(mode)) }

// SetMemory sets the memory that each card has.
func SetMemory(bytes int64) { Present(); call(entry.memory, uintptr(bytes)) }
