package dataio

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"image"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	xtiff "golang.org/x/image/tiff"

	"surepipe/internal/dataio/images"
)

// ramp is an image of different values in [0, 1].
func ramp(shape ...int) Array {
	n := 1
	for _, k := range shape {
		n *= k
	}
	a := Array{Name: "a", Shape: shape, Data: make([]float64, n)}
	for i := range a.Data {
		a.Data[i] = float64(i*37%n) / float64(max(n-1, 1))
	}
	return a
}

// A written image comes back within half a level of its depth, and as it was once it has been
// rounded; x/image/tiff reads the TIFF files of integers alike.
func TestImagesRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, shape := range [][]int{{5, 7}, {3, 4, 3}, {4, 2, 1}} {
		for _, test := range []struct {
			ext   string
			depth Depth
			write func(a Array) (int, error)
			error float64
		}{
			{".png", Depth{Bits: 8}, func(a Array) (int, error) {
				return WriteImage(path+".png", func(w io.Writer) (int, error) { return images.EncodePNG(w, a, 8) })
			}, 0.5 / 255},
			{".png", Depth{Bits: 16}, func(a Array) (int, error) {
				return WriteImage(path+".png", func(w io.Writer) (int, error) { return images.EncodePNG(w, a, 16) })
			}, 0.5 / 65535},
			{".jpg", Depth{Bits: 8, Lossy: true}, func(a Array) (int, error) {
				return WriteImage(path+".jpg", func(w io.Writer) (int, error) { return images.EncodeJPEG(w, a) })
			}, 1},
			{".tif", Depth{Bits: 8}, func(a Array) (int, error) {
				return WriteImage(path+".tif", func(w io.Writer) (int,
					error) {
					return images.EncodeTIFF(w, a, Depth{Bits: 8})
				})
			}, 0.5 / 255},
			{".tif", Depth{Bits: 16}, func(a Array) (int, error) {
				return WriteImage(path+".tif", func(w io.Writer) (int,
					error) {
					return images.EncodeTIFF(w, a, Depth{Bits: 16})
				})
			}, 0.5 / 65535},
			{".tif", Depth{Bits: 32}, func(a Array) (int, error) {
				return WriteImage(path+".tif", func(w io.Writer) (int,
					error) {
					return images.EncodeTIFF(w, a, Depth{Bits: 32})
				})
			}, 1e-9},
			{".tif", Depth{Bits: 32, Float: true}, func(a Array) (int, error) {
				return WriteImage(path+".tif", func(w io.Writer) (int,
					error) {
					return images.EncodeTIFF(w, a, Depth{Bits: 32, Float: true})
				})
			}, 1e-7},
			{".tif", Depth{Bits: 64, Float: true}, func(a Array) (int, error) {
				return WriteImage(path+".tif", func(w io.Writer) (int,
					error) {
					return images.EncodeTIFF(w, a, Depth{Bits: 64, Float: true})
				})
			}, 0},
			{".npy", Depth{Bits: 16, Scaled: true}, func(a Array) (int, error) {
				return WriteImage(path+".npy", func(w io.Writer) (int, error) { return EncodeNPYOfDepth(w, a, 16) })
			}, 0.5 / 65535},
		} {
			a := ramp(shape...)
			for pass := range 2 {
				if clamped, err := test.write(a); clamped != 0 || err != nil {
					t.Fatalf("%v of shape %v: %d clamped, %v", test, shape, clamped, err)
				}
				s, err := Open(path + test.ext)
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.Floats("a")
				s.Close()
				if err != nil {
					t.Fatal(err)
				}
				if test.ext == ".npy" {
					got.ScaleToUnit()
				}
				if got.Depth != test.depth {
					t.Errorf("%s %v: depth %+v", test.ext, test.depth, got.Depth)
				}
				most := 0.0
				for i, v := range got.Data {
					most = max(most, math.Abs(v-a.Data[i]))
				}
				if bound := test.error * (1 + 1e-9); most > bound || pass > 0 && !test.depth.Lossy && most > 0 {
					t.Errorf("%s %+v of shape %v, pass %d: off by %g", test.ext, test.depth, shape, pass, most)
				}
				if test.ext == ".tif" && !test.depth.Float && test.depth.Bits < 32 && pass == 1 {
					sameAsXImage(t, path+test.ext, got)
				}
				a.Data = got.Data
			}
		}
	}
}

func sameAsXImage(t *testing.T, path string, want Array) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	im, err := xtiff.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	rows, cols, channels, _ := want.Pixels()
	for i := range rows {
		for j := range cols {
			r, g, b, _ := im.At(j, i).RGBA()
			for k, v := range []uint32{r, g, b}[:channels] {
				if got := want.Data[(i*cols+j)*channels+k]; math.Abs(got-float64(v)/65535) > 1e-12 {
					t.Fatalf("%s: pixel %d, %d is %v, x/image has %v", path, i, j, got, float64(v)/65535)
				}
			}
		}
	}
}

// edited is a TIFF file with another value of some tags; of a tag that is not there, another tag's
// place is taken.
func edited(file []byte, changes ...[2]int) []byte {
	file = slices.Clone(file)
	for _, c := range changes {
		for at := 10; ; at += 12 {
			if int(binary.LittleEndian.Uint16(file[at:])) == c[0] {
				binary.LittleEndian.PutUint32(file[at+8:], uint32(c[1]))
				break
			}
		}
	}
	return file
}

func encodedTIFF(t *testing.T, a Array, depth Depth) []byte {
	t.Helper()
	var file bytes.Buffer
	if _, err := images.EncodeTIFF(&file, a, depth); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// What x/image/tiff compresses, with its predictor, is read as it was; so are tiles, PackBits and
// floating point differences, which are made here.
func TestReadTIFFDecompresses(t *testing.T) {
	im := image.NewRGBA(image.Rect(0, 0, 9, 6))
	for i := range im.Pix {
		im.Pix[i] = byte(i * 7)
		if i%4 == 3 {
			im.Pix[i] = 255
		}
	}
	var file bytes.Buffer
	if err := xtiff.Encode(&file, im, &xtiff.Options{Compression: xtiff.Deflate, Predictor: true}); err != nil {
		t.Fatal(err)
	}
	a, err := images.ReadTIFF(&file)
	if err != nil || !slices.Equal(a.Shape, []int{6, 9, 3}) {
		t.Fatal(a.Shape, err)
	}
	for i := range 6 * 9 {
		for k := range 3 {
			if want := float64(im.Pix[4*i+k]) / 255; a.Data[3*i+k] != want {
				t.Fatalf("pixel %d is %v, want %v", i, a.Data[3*i+k], want)
			}
		}
	}

	// Differences of the bytes of 32-bit numbers, deflated.
	values := []float32{0.25, -1.5, 3e5, 1e-20}
	line := make([]byte, 16)
	for i, v := range values {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], math.Float32bits(v))
		for k := range b {
			line[k*4+i] = b[k]
		}
	}
	for i := 15; i > 0; i-- {
		line[i] -= line[i-1]
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	z.Write(line)
	z.Close()
	plain := encodedTIFF(t, ramp(1, 4), Depth{Bits: 32, Float: true})
	start := len(plain) - 16
	deflated := edited(append(slices.Clone(plain[:start]), packed.Bytes()...), [2]int{images.TagCompression, 8},
		[2]int{images.TagStripBytes, packed.Len()})
	place := bytes.Index(deflated[10:], []byte{images.TagPlanar & 255, images.TagPlanar >> 8}) + 10
	binary.LittleEndian.PutUint16(deflated[place:], images.TagPredictor)
	binary.LittleEndian.PutUint32(deflated[place+8:], 3)
	a, err = images.ReadTIFF(bytes.NewReader(deflated))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if a.Data[i] != float64(v) {
			t.Errorf("value %d is %v, want %v", i, a.Data[i], v)
		}
	}

	// PackBits: three bytes as they are, then one byte five times.
	eight := encodedTIFF(t, ramp(2, 4), Depth{Bits: 8})
	bits := edited(append(slices.Clone(eight[:len(eight)-8]), 2, 10, 20, 30, 128, 252, 40),
		[2]int{images.TagCompression, 32773}, [2]int{images.TagStripBytes, 7})
	a, err = images.ReadTIFF(bytes.NewReader(bits))
	if err != nil || a.Data[0] != 10./255 || a.Data[2] != 30./255 || a.Data[3] != 40./255 || a.Data[7] != 40./255 {
		t.Errorf("%v, %v", a.Data, err)
	}
}

// Twelve and more kinds of bad image: one line each, that says what was found.
func TestBadImages(t *testing.T) {
	grey, colour := encodedTIFF(t, ramp(4, 5), Depth{Bits: 8}), encodedTIFF(t, ramp(4, 5, 3), Depth{Bits: 16})
	float := encodedTIFF(t, ramp(4, 5), Depth{Bits: 32, Float: true})
	var photo bytes.Buffer
	if _, err := images.EncodeJPEG(&photo, ramp(16, 16, 3)); err != nil {
		t.Fatal(err)
	}
	huge := slices.Clone(photo.Bytes())
	frame := bytes.Index(huge, []byte{0xff, 0xc0})
	copy(huge[frame+5:], "\xff\xff\xff\xff")
	loop := slices.Clone(grey)
	loop[10+12*11] = 8
	// The second image of a series, at its own directory, with another width.
	series := encodedTIFF(t, ramp(3, 4, 5), Depth{Bits: 16})
	second := binary.LittleEndian.Uint32(series[10+12*11:])
	differ, outside := slices.Clone(series), slices.Clone(series)
	binary.LittleEndian.PutUint32(differ[second+2+8:], 4)
	binary.LittleEndian.PutUint32(outside[10+12*11:], 1<<20)
	var transparent bytes.Buffer
	if err := xtiff.Encode(&transparent, &image.NRGBA{Pix: make([]byte, 16), Stride: 8, Rect: image.Rect(0, 0, 2, 2)},
		nil); err != nil {
		t.Fatal(err)
	}
	var palette bytes.Buffer
	if err := xtiff.Encode(&palette, image.NewPaletted(image.Rect(0, 0, 2, 2),
		color.Palette{color.Black, color.White}), nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"truncated.jpg": {photo.Bytes()[:photo.Len()/2],
			"is not a JPEG image, or truncated or corrupt (unexpected end)"},
		"huge.jpg":      {huge, "its header states 65535 x 65535 pixels, more than"},
		"truncated.tif": {grey[:len(grey)-1], "part 1 of 1 is outside of the file"},
		"head.tif":      {grey[:20], "its directory is outside of the file"},
		"zero.tif":      {edited(grey, [2]int{images.TagWidth, 0}), "is a TIFF image of 4 x 0 pixels"},
		"huge.tif": {edited(grey, [2]int{images.TagWidth, 1 << 30}, [2]int{images.TagHeight, 1 << 30}),
			"its header states 1073741824 x 1073741824 pixels, more than"},
		"cmyk.tif": {edited(colour, [2]int{images.TagPhotometric, 5}),
			"is a CMYK image, expected grayscale or RGB"},
		"palette.tif": {palette.Bytes(), "is a TIFF image with a palette"},
		"bilevel.tif": {edited(grey, [2]int{images.TagBits, 1}), "is a TIFF image of 1 bit"},
		"signed.tif": {edited(grey, [2]int{images.TagSampleFormat, 2}, [2]int{images.TagBits, 64}),
			"of signed integers of 64 bits, expected integers of 8"},
		"half.tif":  {edited(float, [2]int{images.TagBits, 16}), "of floating point numbers of 16 bits, expected"},
		"alpha.tif": {transparent.Bytes(), "it has transparent pixels"},
		"planar.tif": {edited(colour, [2]int{images.TagPlanar, 2}),
			"whose channels are stored one after the other"},
		"jpeg.tif": {edited(grey, [2]int{images.TagCompression, 7}),
			"is a TIFF image of compression 7, expected none, PackBits, LZW or Deflate"},
		"outside.tif": {outside, "its directory is outside of the file"},
		"differ.tif": {differ, "is a TIFF file of several images that differ (4 x 5 pixels of 1 x 16 bits, " +
			"and then 4 x 4 pixels of 1 x 16 bits), expected one image, or a series"},
		"series.tif":     {series[:len(series)-3], "image 3: part 1 of 1 is outside of the file"},
		"loop.tif":       {loop, "its directories form a loop"},
		"ycbcr.tif":      {edited(colour, [2]int{images.TagPhotometric, 6}), "photometric interpretation 6"},
		"animated.gif":   {[]byte("GIF89a"), "is a GIF, BMP, WebP or BigTIFF image, expected a .png, .jpg or .tif"},
		"big.tif":        {[]byte("II+\x00\x08\x00\x00\x00"), "is a GIF, BMP, WebP or BigTIFF image"},
		"lzw.tif":        {edited(grey, [2]int{images.TagCompression, 5}), "part 1 of 1: unexpected end"},
		"deflate.tif":    {edited(grey, [2]int{images.TagCompression, 8}), "part 1 of 1: zlib"},
		"strips.tif":     {edited(grey, [2]int{images.TagRowsPerStrip, 1}), "it states 1 parts of 4"},
		"norows.tif":     {edited(grey, [2]int{images.TagRowsPerStrip, 0}), "it states parts of 0 x 5 pixels"},
		"whitefloat.tif": {edited(float, [2]int{images.TagPhotometric, 0}), "whose 0 is white"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, test.file, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), path+": ") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

func TestEncodersRefuse(t *testing.T) {
	var file bytes.Buffer
	_, err := images.EncodeTIFF(&file, ramp(2, 2), Depth{Bits: 12})
	checkError(t, err, "a TIFF image of 12 bits, expected 8, 16 or 32, or floating point numbers of 32 or 64")
	bad := ramp(2, 2)
	bad.Data[3] = math.NaN()
	_, err = images.EncodeTIFF(&file, bad, Depth{Bits: 8})
	checkError(t, err, `array "a" holds NaN at [1, 1], expected finite numbers`)
	_, err = images.EncodeJPEG(&file, ramp(2, 2, 2))
	checkError(t, err, `array "a" has shape (2, 2, 2), expected (rows, columns) of an image, or (rows, columns, 3) of a colour image`)
	if file.Len() > 0 {
		t.Errorf("%d bytes were written", file.Len())
	}
	over := ramp(2, 2)
	over.Data[0], over.Data[3] = -0.5, 1.5
	if clamped, err := images.EncodeTIFF(&file, over, Depth{Bits: 16}); clamped != 2 || err != nil {
		t.Errorf("%d clamped, %v", clamped, err)
	}
}

// A series of images is read as it was written, in every depth, and reduced copies are left out.
func TestSeriesOfTIFF(t *testing.T) {
	for _, shape := range [][]int{{3, 4, 5}, {2, 3, 7, 3}, {1, 4, 5}, {5, 1, 2}} {
		for _, depth := range []Depth{{Bits: 8}, {Bits: 16}, {Bits: 32}, {Bits: 32, Float: true},
			{Bits: 64, Float: true}} {
			a := ramp(shape...)
			file := encodedTIFF(t, a, depth)
			got, err := images.ReadTIFF(bytes.NewReader(file))
			if err != nil {
				t.Fatalf("%v, %+v: %v", shape, depth, err)
			}
			want := shape
			if shape[0] == 1 {
				want = shape[1:] // one image
			}
			if !slices.Equal(got.Shape, want) || got.Depth != depth {
				t.Errorf("%v, %+v: shape %v, depth %+v", shape, depth, got.Shape, got.Depth)
			}
			for i, v := range got.Data {
				if math.Abs(v-a.Data[i]) > 0.5/255 {
					t.Fatalf("%v, %+v: value %d is %g, want %g", shape, depth, i, v, a.Data[i])
				}
			}
		}
	}
	series := encodedTIFF(t, ramp(3, 4, 5), Depth{Bits: 16})
	second := binary.LittleEndian.Uint32(series[10+12*11:])
	// The planar configuration of the second image gives way to the kind of a reduced copy.
	planar := series[second+2+12*9:]
	binary.LittleEndian.PutUint16(planar, images.TagSubfile)
	planar[8] = 1
	if got, err := images.ReadTIFF(bytes.NewReader(series)); err != nil || !slices.Equal(got.Shape, []int{2, 4, 5}) {
		t.Errorf("with a reduced copy: shape %v, %v", got.Shape, err)
	}
}

// Signed integers are taken as they are.
func TestSignedTIFF(t *testing.T) {
	for _, depth := range []int{8, 16, 32} {
		a := matrixOf(2, 3, 1, 0, 0.5, 1, 0.25, 0)
		file := edited(encodedTIFF(t, a, Depth{Bits: depth}), [2]int{images.TagSampleFormat, 2})
		got, err := images.ReadTIFF(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		most := float64(uint64(1)<<depth - 1)
		for i, v := range a.Data {
			want := math.Round(v * most)
			if want > most/2 {
				want -= most + 1
			}
			if got.Data[i] != want || !got.Depth.Float {
				t.Errorf("%d bits: value %d is %g, want %g", depth, i, got.Data[i], want)
			}
		}
		if got.Levels(); got.Depth.IsImage() {
			t.Error("counts that are an image")
		}
	}
	counts := Array{Data: []float64{0, 1, 300. / 65535}, Shape: []int{1, 3}, Depth: Depth{Bits: 16}}
	if counts.Levels(); !slices.Equal(counts.Data, []float64{0, 65535, 300}) {
		t.Errorf("levels %v", counts.Data)
	}
}

func matrixOf(rows, cols int, values ...float64) Array {
	return Array{Name: "a", Shape: []int{rows, cols}, Data: values}
}
