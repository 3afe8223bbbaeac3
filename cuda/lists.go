//go:build cuda

package cuda

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"surepipe/array"
)

// lists is memory on the card that is not a batch: the numbers of a sparse matrix, of blocks, of rays, of a
// transform or of an index.
type lists struct {
	on      *card
	bytes   int64
	buffers []*buffer // nil after Free
}

func (l *lists) Bytes() int64   { return l.bytes }
func (l *lists) memory() *lists { return l }

// at is the address of list i.
func (l *lists) at(i int) cu.DevicePtr { return l.buffers[i].at }

func (l *lists) Free() {
	for _, b := range l.buffers {
		l.on.count(0, -8*int64(b.size))
		l.on.give(b)
	}
	l.buffers = nil
}

// onCard is what an operation gets, which must be on d's card and not freed. Where its memory is missing d fails.
func onCard[T interface{ memory() *lists }](d *Device, op string, x any) T {
	on, ok := x.(T)
	if !ok || on.memory().on != d.card {
		panic(fmt.Sprintf("array: %s on %q with memory of another device, a %T", op, d.name, x))
	}
	if on.memory().buffers == nil {
		panic(fmt.Sprintf("array: %s with a %T used after it was freed", op, x))
	}
	for _, b := range on.memory().buffers {
		d.need(b)
	}
	return on
}

// put copies a list to memory of its own.
func put[T int32 | int64 | float64](d *Device, l *lists, what string, list []T) {
	var one T
	bytes := int(unsafe.Sizeof(one)) * len(list)
	values := (bytes + 7) / 8
	buf := d.take(1, values, array.Capacity(1, values))
	d.count(0, 8*int64(buf.size))
	if len(list) > 0 {
		d.upload(what, array.NewBatch(d, buf, 1, values), buf.at, unsafe.Pointer(&list[0]), int64(bytes))
		if err := d.Err(); err != nil {
			// What the memory holds is not the list: coordinates that no kernel may follow.
			buf.missing = err
		}
	}
	l.on, l.bytes, l.buffers = d.card, l.bytes+int64(bytes), append(l.buffers, buf)
}
