//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"gorgonia.org/cu"

	"surepipe/array"
)

// rowCopy is the length in values from which each row of a view is copied separately.
const rowCopy = 1 << 13

// Upload copies the row-major values of src into dst. When it returns the driver has read the
// slice, which the caller may then modify.
func (d *Device) Upload(dst array.Batch, src []float64) {
	d = d.into(dst)
	if len(src) != dst.K()*dst.N() {
		panic(fmt.Sprintf("array: upload of %d values into %s", len(src), dst))
	}
	switch {
	case len(src) == 0:
	case dst.Contiguous():
		d.upload("Upload", dst, at(dst), unsafe.Pointer(&src[0]), dst.Bytes())
	case dst.N() >= rowCopy:
		for i := range dst.K() {
			row := dst.Rows(i, i+1)
			d.upload("Upload", row, at(row), unsafe.Pointer(&src[i*dst.N()]), row.Bytes())
		}
	default:
		packed := d.Alloc(dst.K(), dst.N())
		d.Upload(packed, src)
		d.Copy(dst, packed)
		d.Free(packed)
	}
}

func (d *Device) upload(op string, b array.Batch, to cu.DevicePtr, from unsafe.Pointer, bytes int64) {
	d.do(op, b, func() error { return cu.MemcpyHtoDAsync(to, from, bytes, d.stream) })
}

func (d *Device) Download(dst []float64, src array.Batch) {
	d = d.from(src)
	if len(dst) != src.K()*src.N() {
		panic(fmt.Sprintf("array: download of %s into %d values", src, len(dst)))
	}
	switch {
	case len(dst) == 0:
	case src.Contiguous():
		d.download("Download", src, dst, at(src))
	case src.N() >= rowCopy:
		for i := range src.K() {
			d.Download(dst[i*src.N():][:src.N()], src.Rows(i, i+1))
		}
	default:
		packed := d.Alloc(src.K(), src.N())
		d.Copy(packed, src)
		d.Download(dst, packed)
		d.Free(packed)
	}
}

func (d *Device) download(op string, b array.Batch, out []float64, from cu.DevicePtr) {
	ok := d.do(op, b, func() error {
		if err := cu.MemcpyDtoHAsync(unsafe.Pointer(&out[0]), from, 8*int64(len(out)), d.stream); err != nil {
			return err
		}
		return d.stream.Synchronize()
	})
	if !ok {
		unknown(out)
	}
}

func unknown(v []float64) {
	for i := range v {
		v[i] = math.NaN()
	}
}

// slot is host memory to which a few numbers are downloaded.
type slot struct {
	memory  pinned
	arrived cu.Event
}

const slotValues = 1024

func (d *Device) fetch(op string, b array.Batch, out []float64, from cu.DevicePtr) {
	s := d.slot()
	if s == nil || len(out) > slotValues {
		d.release(s)
		d.download(op, b, out, from)
		return
	}
	ok := d.do(op, b, func() error {
		err := cu.MemcpyDtoHAsync(s.memory.pointer(), from, 8*int64(len(out)), d.stream)
		if err == nil {
			err = s.arrived.Record(d.stream)
		}
		if err != nil {
			// The copy may be in progress: the slot must not be used again before it is done.
			return errors.Join(err, d.stream.Synchronize())
		}
		return s.arrived.Synchronize()
	})
	if ok {
		copy(out, s.memory.values)
	} else {
		unknown(out)
	}
	d.release(s)
}

// slot takes one that is free, or makes one; nil where there is no memory for it.
func (d *Device) slot() *slot {
	d.mu.Lock()
	if n := len(d.slots); n > 0 {
		s := d.slots[n-1]
		d.slots = d.slots[:n-1]
		d.mu.Unlock()
		return s
	}
	d.mu.Unlock()
	d.life.RLock()
	defer d.life.RUnlock()
	if d.Err() != nil {
		return nil
	}
	s := &slot{}
	err := within(d.ctx, func() (err error) {
		if s.memory, err = newPinned(slotValues); err != nil {
			return err
		}
		if s.arrived, err = cu.MakeEvent(cu.DisableTiming); err != nil {
			s.memory.free()
		}
		return err
	})
	if err != nil {
		return nil
	}
	return s
}

func (d *card) release(s *slot) {
	if s == nil {
		return
	}
	d.life.RLock()
	defer d.life.RUnlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.slots = append(d.slots, s)
		return
	}
	within(d.ctx, func() error { return errors.Join(cu.DestroyEvent(&s.arrived), s.memory.free()) })
}
