package images

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"golang.org/x/image/tiff/lzw"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
)

// The tags of a TIFF file that are read or written (Adobe, TIFF revision 6.0, 1992; the predictor of
// floating point numbers, Technical Note 3, 2005).
const (
	TagSubfile                      = 254
	TagWidth, TagHeight             = 256, 257
	tagOrientation                  = 274
	TagBits, TagCompression         = 258, 259
	TagPhotometric, TagStripOffsets = 262, 273
	TagSamples, TagRowsPerStrip     = 277, 278
	TagStripBytes, TagPlanar        = 279, 284
	TagPredictor                    = 317
	TagTileWidth, TagTileHeight     = 322, 323
	TagTileOffsets, TagTileBytes    = 324, 325
	TagExtraSamples                 = 338
	TagSampleFormat                 = 339
)

// tiffPacks bounds the number of bytes that the formats of compression pack into one.
const tiffPacks = 4096

// ReadTIFF reads a grayscale or RGB image of unsigned integers of 8, 16 or 32 bits, as [ReadPNG]
// does, or of signed integers or floating point numbers of 32 or 64 bits, which are not scaled. It
// reads strips and tiles, without compression or with PackBits, LZW or Deflate, and all predictors. Several images of
// one kind in a file are a series, of shape (images, rows, columns) or (images, rows, columns, 3);
// reduced copies and masks are left out. An image with a palette, of 1 bit, in CMYK or with
// transparent pixels is rejected, and so are images that differ in size or depth.
func ReadTIFF(r io.Reader) (a ndarray.Array, err error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return ndarray.Array{}, err
	}
	pages, err := tiffPages(data)
	if err != nil {
		return ndarray.Array{}, err
	}
	for i, t := range pages {
		page, err := t.pixels()
		switch {
		case err != nil && len(pages) > 1:
			return ndarray.Array{}, fmt.Errorf("is truncated or corrupt (image %d: %w)", i+1, err)
		case err != nil:
			return ndarray.Array{}, fmt.Errorf("is truncated or corrupt (%w)", err)
		case i == 0:
			a = page
			a.Data = slices.Grow(a.Data, (len(pages)-1)*len(a.Data))
		default:
			a.Data = append(a.Data, page.Data...)
		}
	}
	if len(pages) > 1 {
		a.Shape = slices.Concat([]int{len(pages)}, a.Shape)
	}
	return a, nil
}

// tiffPages are the images of a file, of one kind, without reduced copies and masks.
func tiffPages(data []byte) (pages []*tiffFile, err error) {
	seen := map[int64]bool{}
	values := uint64(0)
	for at := int64(-1); at != 0; {
		t, err := newTIFF(data, at)
		if err != nil {
			return nil, err
		}
		if at = t.next; seen[at] {
			return nil, errors.New("is a corrupt TIFF image (its directories form a loop)")
		}
		seen[at] = at != 0
		if len(pages) > 0 && t.one(TagSubfile, 0)&5 != 0 {
			continue
		}
		if err := t.check(); err != nil {
			return nil, err
		}
		pages = append(pages, t)
		if one := pages[0]; t.rows != one.rows || t.cols != one.cols || t.channels != one.channels ||
			t.bits != one.bits || t.format != one.format {
			return nil, fmt.Errorf("is a TIFF file of several images that differ (%s, and then %s), expected one "+
				"image, or a series of images of one size and depth", one.kind(), t.kind())
		}
		// Images may share the bytes that they are packed in.
		if values += uint64(t.rows) * uint64(t.cols); values > uint64(len(data))*tiffPacks/uint64(t.samples*t.bits/8) {
			return nil, fmt.Errorf("is truncated or corrupt (its %d images have more pixels than %d bytes can hold)",
				len(pages), len(data))
		}
		if err := ndarray.Fits(fmt.Sprintf("a series of %d images", len(pages)), float64(values),
			8*float64(t.channels)); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

func (t *tiffFile) kind() string {
	return fmt.Sprintf("%d x %d pixels of %d x %d bits", t.rows, t.cols, t.channels, t.bits)
}

// tiffFile is the directory of a TIFF file.
type tiffFile struct {
	data  []byte
	order binary.ByteOrder
	tags  map[uint16][]uint64

	rows, cols, samples, channels, bits int
	format                              uint64 // 1 unsigned, 2 signed, 3 floating point
	inverted                            bool
	next                                int64 // where the next image's directory is, 0 for none
}

// newTIFF reads the directory at a place, or the first where that is negative.
func newTIFF(data []byte, at int64) (*tiffFile, error) {
	t := &tiffFile{data: data, tags: map[uint16][]uint64{}}
	switch {
	case bytes.HasPrefix(data, []byte("II*\x00")):
		t.order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte("MM\x00*")):
		t.order = binary.BigEndian
	default:
		return nil, errors.New("is not a TIFF image")
	}
	short := errors.New("is a truncated or corrupt TIFF image (its directory is outside of the file)")
	if len(data) < 8 {
		return nil, short
	}
	if at < 0 {
		at = int64(t.order.Uint32(data[4:]))
	}
	if at+2 > int64(len(data)) {
		return nil, short
	}
	count := int64(t.order.Uint16(data[at:]))
	end := at + 2 + 12*count
	if end+4 > int64(len(data)) {
		return nil, short
	}
	for at += 2; at < end; at += 12 {
		tag := t.order.Uint16(data[at:])
		values, err := t.values(data[at:at+12], tag)
		if err != nil {
			return nil, err
		}
		t.tags[tag] = values
	}
	t.next = int64(t.order.Uint32(data[end:]))
	return t, nil
}

// values reads the integers of a directory's entry; nil for other types.
func (t *tiffFile) values(entry []byte, tag uint16) ([]uint64, error) {
	size := map[uint16]int64{1: 1, 3: 2, 4: 4}[t.order.Uint16(entry[2:])]
	count := int64(t.order.Uint32(entry[4:]))
	if size == 0 || count == 0 {
		return nil, nil
	}
	from := entry[8:]
	if size*count > 4 {
		at := int64(t.order.Uint32(from))
		if at+size*count > int64(len(t.data)) {
			return nil, fmt.Errorf("is a truncated or corrupt TIFF image (the %d values of tag %d are outside "+
				"of the file)", count, tag)
		}
		from = t.data[at:]
	}
	return lists.Make(int(count), func(i int) uint64 { return t.integer(from[int64(i)*size:], int(size)) }), nil
}

func (t *tiffFile) integer(b []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(t.order.Uint16(b))
	case 4:
		return uint64(t.order.Uint32(b))
	}
	return t.order.Uint64(b)
}

func (t *tiffFile) one(tag uint16, absent uint64) uint64 {
	if v := t.tags[tag]; len(v) > 0 {
		return v[0]
	}
	return absent
}

// check rejects images of other kinds, and sizes that the file cannot hold.
func (t *tiffFile) check() error {
	width, height := t.one(TagWidth, 0), t.one(TagHeight, 0)
	if width == 0 || height == 0 {
		return fmt.Errorf("is a TIFF image of %d x %d pixels", height, width)
	}
	t.samples = int(min(t.one(TagSamples, 1), math.MaxUint16))
	t.format = t.one(TagSampleFormat, 1)
	bits := t.one(TagBits, 1)
	for _, b := range t.tags[TagBits] {
		if b != bits {
			return refuse("a TIFF image whose channels differ in depth")
		}
	}
	switch t.one(TagPhotometric, 1) {
	case 0:
		t.channels, t.inverted = 1, true
	case 1:
		t.channels = 1
	case 2:
		t.channels = 3
	case 3:
		return refuse("a TIFF image with a palette")
	case 5:
		return refuse("a CMYK image")
	default:
		return refuse(fmt.Sprintf("a TIFF image of photometric interpretation %d", t.one(TagPhotometric, 1)))
	}
	integers := (t.format == 1 || t.format == 2 && !t.inverted) && (bits == 8 || bits == 16 || bits == 32)
	switch {
	case bits == 1:
		return refuse("a TIFF image of 1 bit")
	case !integers && !(t.format == 3 && (bits == 32 || bits == 64)):
		kind := map[uint64]string{1: "unsigned integers", 2: "signed integers", 3: "floating point numbers"}[t.format]
		if kind == "" {
			kind = "numbers"
		}
		return fmt.Errorf("is a TIFF image of %s of %d bits, expected integers of 8, 16 or 32 bits, or floating "+
			"point numbers of 32 or 64", kind, bits)
	case t.inverted && t.format == 3:
		return refuse("a TIFF image of floating point numbers whose 0 is white")
	case t.samples < t.channels || t.samples > t.channels+1:
		return refuse(fmt.Sprintf("a TIFF image of %d values a pixel", t.samples))
	case t.samples > 1 && t.one(TagPlanar, 1) != 1:
		return refuse("a TIFF image whose channels are stored one after the other")
	}
	switch c := t.one(TagCompression, 1); c {
	case 1, 5, 8, 32773, 32946:
	default:
		return fmt.Errorf("is a TIFF image of compression %d, expected none, PackBits, LZW or Deflate", c)
	}
	t.bits = int(bits)
	each := uint64(t.samples * t.bits / 8)
	if width > math.MaxInt32 || height > math.MaxInt32 || width*height > uint64(len(t.data))*tiffPacks/each {
		return fmt.Errorf("is truncated or corrupt (its header states %d x %d pixels, more than %d bytes can hold)",
			height, width, len(t.data))
	}
	t.rows, t.cols = int(height), int(width)
	return nil
}

// depth is that of the values: signed integers, which are not scaled, are floating point numbers of twice
// the bits, at least 32.
func (t *tiffFile) depth() ndarray.Depth {
	if t.format == 2 {
		return ndarray.Depth{Bits: max(32, 2*t.bits), Float: true}
	}
	return ndarray.Depth{Bits: t.bits, Float: t.format == 3}
}

func (t *tiffFile) pixels() (ndarray.Array, error) {
	a := imageArray(t.rows, t.cols, t.channels, t.depth())
	width, height := uint64(t.cols), min(t.one(TagRowsPerStrip, uint64(t.rows)), uint64(t.rows))
	offsets, sizes := t.tags[TagStripOffsets], t.tags[TagStripBytes]
	if t.tags[TagTileWidth] != nil {
		width, height = t.one(TagTileWidth, 0), t.one(TagTileHeight, 0)
		offsets, sizes = t.tags[TagTileOffsets], t.tags[TagTileBytes]
	}
	each := uint64(t.samples * t.bits / 8)
	if width == 0 || height == 0 || width > math.MaxInt32 || height > math.MaxInt32 ||
		width*height > uint64(len(t.data))*tiffPacks/each {
		return a, fmt.Errorf("it states parts of %d x %d pixels", height, width)
	}
	w, h := int(width), int(height)
	across, down := (t.cols+w-1)/w, (t.rows+h-1)/h
	if uint64(across)*width*uint64(down)*height > uint64(len(t.data))*tiffPacks/each {
		return a, fmt.Errorf("it states %d parts of %d x %d pixels, more than %d bytes can hold", across*down, height,
			width, len(t.data))
	}
	if len(offsets) < across*down || len(sizes) < across*down {
		return a, fmt.Errorf("it states %d parts of %d", min(len(offsets), len(sizes)), across*down)
	}
	opaque := true
	for i := range across * down {
		if offsets[i]+sizes[i] > uint64(len(t.data)) {
			return a, fmt.Errorf("part %d of %d is outside of the file", i+1, across*down)
		}
		top, left := i/across*h, i%across*w
		lines := h
		if t.tags[TagTileWidth] == nil {
			lines = min(h, t.rows-top)
		}
		part, err := t.unpack(t.data[offsets[i]:][:sizes[i]], lines*w*int(each))
		if err != nil {
			return a, fmt.Errorf("part %d of %d: %w", i+1, across*down, err)
		}
		opaque = t.place(a, part, top, left, w, lines) && opaque
	}
	if !opaque {
		return a, errors.New("it has transparent pixels")
	}
	return a, nil
}

func (t *tiffFile) unpack(from []byte, size int) ([]byte, error) {
	part := make([]byte, size)
	var r io.Reader = bytes.NewReader(from)
	switch t.one(TagCompression, 1) {
	case 5:
		r = lzw.NewReader(r, lzw.MSB, 8)
	case 8, 32946:
		z, err := zlib.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	case 32773:
		return part, unpackBits(part, from)
	}
	if _, err := io.ReadFull(r, part); err != nil {
		return nil, errors.New("unexpected end")
	}
	return part, nil
}

// unpackBits decodes PackBits: a byte n and then n+1 bytes, or for n > 128 one byte 257-n times.
func unpackBits(to, from []byte) error {
	for len(to) > 0 {
		if len(from) < 2 {
			return errors.New("unexpected end")
		}
		n, rest := int(from[0]), from[1:]
		switch {
		case n == 128:
			from = rest
			continue
		case n < 128:
			n++
			if len(rest) < n {
				return errors.New("unexpected end")
			}
			to, from = to[copy(to, rest[:n]):], rest[n:]
		default:
			n = min(257-n, len(to))
			for i := range n {
				to[i] = rest[0]
			}
			to, from = to[n:], rest[1:]
		}
	}
	return nil
}

// place undoes the predictor of a part of w pixels a line and stores its pixels; false where one is
// transparent.
func (t *tiffFile) place(a ndarray.Array, part []byte, top, left, w, lines int) bool {
	size := t.bits / 8
	length := w * t.samples
	opaque := true
	values := make([]float64, length)
	for i := range min(lines, t.rows-top) {
		t.line(values, part[i*length*size:][:length*size])
		to := a.Data[(top+i)*t.cols*t.channels:]
		for j := range min(w, t.cols-left) {
			pixel := values[j*t.samples:]
			copy(to[(left+j)*t.channels:][:t.channels], pixel)
			if t.samples > t.channels {
				opaque = opaque && pixel[t.channels] == 1
			}
			if t.inverted {
				to[(left+j)*t.channels] = 1 - pixel[0]
			}
		}
	}
	return opaque
}

func (t *tiffFile) line(to []float64, b []byte) {
	size, order := t.bits/8, t.order
	predictor := t.one(TagPredictor, 1)
	if predictor == 3 {
		// The bytes are differences, all highest bytes first.
		for i := t.samples; i < len(b); i++ {
			b[i] += b[i-t.samples]
		}
		sorted := make([]byte, len(b))
		for i := range to {
			for k := range size {
				sorted[i*size+k] = b[k*len(to)+i]
			}
		}
		b, order = sorted, binary.BigEndian
	}
	at := tiffFile{order: order}
	mask := uint64(1)<<t.bits - 1
	last := make([]uint64, t.samples)
	for i := range to {
		v := at.integer(b[i*size:], size)
		if predictor == 2 {
			v = (v + last[i%t.samples]) & mask
			last[i%t.samples] = v
		}
		switch {
		case t.format == 2:
			// The sign bit is at the top.
			to[i] = float64(int32(uint32(v)<<(32-t.bits)) >> (32 - t.bits))
		case t.format == 1:
			to[i] = float64(v) / float64(mask)
		case size == 4:
			to[i] = float64(math.Float32frombits(uint32(v)))
		default:
			to[i] = math.Float64frombits(v)
		}
	}
}
