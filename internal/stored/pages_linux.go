package stored

import (
	"os"
	"runtime/metrics"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HugePages asks, for the rest of the process's life, that its heap comes in pages of 2 MB, where the system gives them
// to those who ask (Linux's transparent huge pages at madvise). The first touch of a page is a fault, which on virtual
// machines can take longer than the work on the 4 kB of an ordinary page. It does nothing elsewhere.
//
// Go's heap grows upwards from one address; what is new of it is asked for within a few milliseconds.
func HugePages() {
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err == nil && strings.Contains(string(setting), "[madvise]") {
		go askForHugePages()
	}
}

const (
	// arena is by how much of the address space Go's heap grows; its first address is within the first of them.
	arena = 64 << 20
	// The heap is looked at after shortestWait where it has just grown, and after up to longestWait where it is still.
	shortestWait, longestWait = time.Millisecond, 64 * time.Millisecond
)

func askForHugePages() {
	heap := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	first := uintptr(unsafe.Pointer(&heap[0])) / arena * arena
	for asked, wait := uintptr(0), shortestWait; ; time.Sleep(wait) {
		metrics.Read(heap)
		size := uintptr(0)
		for _, part := range heap {
			size += uintptr(part.Value.Uint64())
		}
		if size <= asked {
			wait = min(wait+wait/64, longestWait)
			continue
		}
		// What is in no use between and beyond is skipped, of which the error tells.
		from := first + max(asked, arena)/arena*arena - arena
		_, _, err := unix.Syscall(unix.SYS_MADVISE, from, first+size+arena-from, unix.MADV_HUGEPAGE)
		if err != 0 && err != unix.ENOMEM {
			return
		}
		asked, wait = size, shortestWait
	}
}
