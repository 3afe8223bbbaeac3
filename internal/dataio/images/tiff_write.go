package images

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"surepipe/internal/dataio/ndarray"
)

// EncodeTIFF writes an image as [EncodePNG] does, without compression, with 8, 16 or 32 bits; or of
// floating point numbers of 32 or 64 bits, where nothing is clamped. A series of images, of shape
// (images, rows, columns) or (images, rows, columns, 3), has one image after the other.
func EncodeTIFF(w io.Writer, a ndarray.Array, depth ndarray.Depth) (clamped int, err error) {
	pages, one := 1, a
	if n := len(a.Shape); n == 4 || n == 3 && a.Shape[2] != 1 && a.Shape[2] != 3 {
		pages, one.Shape = a.Shape[0], a.Shape[1:]
	}
	rows, cols, channels, err := one.Pixels()
	if err != nil {
		return 0, err
	}
	a.Check()
	if err := a.CheckFinite(); err != nil {
		return 0, err
	}
	switch {
	case depth.Float && (depth.Bits == 32 || depth.Bits == 64), !depth.Float &&
		(depth.Bits == 8 || depth.Bits == 16 || depth.Bits == 32):
	default:
		return 0, fmt.Errorf("a TIFF image of %d bits, expected 8, 16 or 32, or floating point numbers of 32 or 64",
			depth.Bits)
	}
	size := depth.Bits / 8
	number := ndarray.Number{Kind: 'u', Size: size}
	if depth.Float {
		number.Kind = 'f'
	}
	if bytes := int64(len(a.Data)) * int64(size); bytes+int64(pages)<<10 > math.MaxUint32 {
		return 0, fmt.Errorf("an image of %d bytes is too large for a TIFF file", bytes)
	}
	q := ndarray.NewQuantizer(depth.Bits)
	buf := make([]byte, 0, 64<<10)
	at, each := 0, rows*cols*channels
	for i, v := range a.Data {
		if i%each == 0 {
			header := tiffDirectory(at, i/each < pages-1, rows, cols, channels, each*size, depth)
			if _, err := w.Write(header); err != nil {
				return 0, err
			}
			at += len(header) + (each*size+7)/8*8
		}
		if number.Kind != 'f' {
			v = q.Level(v)
		}
		buf = number.Append(buf, v)
		last := i%each == each-1
		if last && i < len(a.Data)-1 {
			buf = append(buf, make([]byte, (8-each*size%8)%8)...)
		}
		if len(buf)+16 > cap(buf) || last {
			if _, err := w.Write(buf); err != nil {
				return 0, err
			}
			buf = buf[:0]
		}
	}
	return q.Clamped, nil
}

// tiffDirectory is everything before the pixels of an image: one strip, without compression. It begins at
// a byte of the file, a multiple of 8, and at 0 the file's own header comes first. more says that another image
// follows, 8 bytes aligned.
func tiffDirectory(at int, more bool, rows, cols, channels, bytes int, depth ndarray.Depth) []byte {
	head := 0
	if at == 0 {
		head = 8
	}
	photometric, format := 1, 1
	if channels == 3 {
		photometric = 2
	}
	if depth.Float {
		format = 3
	}
	entries := [][2]int{
		{TagWidth, cols}, {TagHeight, rows}, {TagBits, depth.Bits}, {TagCompression, 1}, {TagPhotometric, photometric},
		{TagStripOffsets, 0}, {TagSamples, channels}, {TagRowsPerStrip, rows}, {TagStripBytes, bytes}, {TagPlanar, 1},
		{TagSampleFormat, format},
	}
	le := binary.LittleEndian
	end := at + head + 2 + 12*len(entries) + 4
	extra := []byte{} // the values of a tag with one for each channel
	for range channels {
		extra = le.AppendUint16(extra, uint16(depth.Bits))
	}
	for range channels {
		extra = le.AppendUint16(extra, uint16(format))
	}
	start := (end + len(extra) + 7) / 8 * 8
	b := append([]byte("II*\x00"), 8, 0, 0, 0)[:head]
	b = le.AppendUint16(b, uint16(len(entries)))
	for _, e := range entries {
		tag, value := e[0], e[1]
		kind, count := 4, 1 // a 32-bit integer
		switch {
		case channels == 3 && tag == TagBits:
			kind, count, value = 3, 3, end
		case channels == 3 && tag == TagSampleFormat:
			kind, count, value = 3, 3, end+2*channels
		case tag == TagStripOffsets:
			value = start
		case tag != TagWidth && tag != TagHeight && tag != TagRowsPerStrip && tag != TagStripBytes:
			kind = 3
		}
		b = le.AppendUint16(b, uint16(tag))
		b = le.AppendUint16(b, uint16(kind))
		b = le.AppendUint32(b, uint32(count))
		b = le.AppendUint32(b, uint32(value))
	}
	next := 0
	if more {
		next = start + (bytes+7)/8*8
	}
	b = append(le.AppendUint32(b, uint32(next)), extra...)
	return append(b, make([]byte, start-at-len(b))...)
}
