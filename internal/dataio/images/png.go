package images

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"

	"surepipe/internal/dataio/ndarray"
)

// ConvertHint is a command that makes an image one that can be read.
const ConvertHint = "magick in.png -alpha off -type TrueColor out.png"

// ReadPNG reads an image of 1 to 16 bits: an array of shape (rows, columns), or (rows, columns, 3)
// where it has colour, of the stored values over the largest one, so in [0, 1] for any number of
// bits. No gamma is applied. An image with a palette, or with transparent pixels, is rejected, and
// so is an animated one.
func ReadPNG(r io.Reader) (ndarray.Array, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return ndarray.Array{}, err
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return ndarray.Array{}, corrupt("PNG", err)
	}
	if len(data) < 26 {
		return ndarray.Array{}, corrupt("PNG", io.ErrUnexpectedEOF)
	}
	// A signature of 8 bytes and a chunk's head of 8 come first, then width and height.
	bits, colorType := int(data[24]), data[25]
	channels, ok := map[byte]int{0: 1, 2: 3, 4: 2, 6: 4}[colorType]
	switch {
	case !ok:
		return ndarray.Array{}, refuse("an image with a palette")
	case animated(data):
		return ndarray.Array{}, refuse("an animated image")
	}
	// Deflate packs at most 1032 bytes into one.
	if least := (int64(config.Width)*int64(bits*channels) + 7) / 8; least > int64(len(data))*1032/int64(config.Height) {
		return ndarray.Array{}, fmt.Errorf("is truncated or corrupt (its header states %d x %d pixels, more than "+
			"%d bytes can hold)", config.Height, config.Width, len(data))
	}
	if err := ndarray.FitsImage(config.Height, config.Width, channels, bits); err != nil {
		return ndarray.Array{}, err
	}
	decoded, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return ndarray.Array{}, corrupt("PNG", err)
	}
	depth := ndarray.Depth{Bits: bits}
	switch im := decoded.(type) {
	case *image.Gray:
		return fromPixels(im.Pix, im.Stride, config, 1, 1, 1, depth), nil
	case *image.Gray16:
		return fromPixels(im.Pix, im.Stride, config, 1, 1, 2, depth), nil
	case *image.RGBA:
		return fromPixels(im.Pix, im.Stride, config, 3, 4, 1, depth), nil
	case *image.RGBA64:
		return fromPixels(im.Pix, im.Stride, config, 3, 4, 2, depth), nil
	case *image.NRGBA:
		if im.Opaque() {
			return fromPixels(im.Pix, im.Stride, config, max(channels-1, 1), 4, 1, depth), nil
		}
	case *image.NRGBA64:
		if im.Opaque() {
			return fromPixels(im.Pix, im.Stride, config, max(channels-1, 1), 4, 2, depth), nil
		}
	}
	return ndarray.Array{}, refuse("an image with transparent pixels")
}

func refuse(what string) error {
	return fmt.Errorf("is %s, expected grayscale or RGB; convert it, for instance with %s", what, ConvertHint)
}

// fromPixels takes the first channels of pixels that are stored as a number of values of size bytes
// each, 1 or 2, the higher one first.
func fromPixels(pix []byte, stride int, config image.Config, channels, stored, size int,
	depth ndarray.Depth) ndarray.Array {
	a := imageArray(config.Height, config.Width, channels, depth)
	for i := range config.Height {
		line := pix[i*stride:]
		to := a.Data[i*config.Width*channels:]
		for j := range config.Width {
			for k := range channels {
				if at := j*stored + k; size == 1 {
					to[j*channels+k] = float64(line[at]) / math.MaxUint8
				} else {
					to[j*channels+k] = float64(binary.BigEndian.Uint16(line[2*at:])) / math.MaxUint16
				}
			}
		}
	}
	return a
}

// animated reports whether a PNG file has a chunk acTL before its pixels.
func animated(data []byte) bool {
	for at := int64(8); at+8 <= int64(len(data)); {
		switch string(data[at+4 : at+8]) {
		case "acTL":
			return true
		case "IDAT":
			return false
		}
		at += 12 + int64(binary.BigEndian.Uint32(data[at:]))
	}
	return false
}

func corrupt(format string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end")
	}
	return fmt.Errorf("is not a %s image, or truncated or corrupt (%w)", format, err)
}

// EncodePNG writes a matrix as a grayscale image, or an array (rows, columns, 3) as one in RGB, of 8
// or 16 bits: [0, 1] goes to 0 up to the largest value, rounded to nearest. Values that fall outside
// after rounding are clamped; clamped counts them.
func EncodePNG(w io.Writer, a ndarray.Array, bits int) (clamped int, err error) {
	if bits != 8 && bits != 16 {
		return 0, fmt.Errorf("a PNG image of %d bits, expected 8 or 16", bits)
	}
	im, clamped, err := picture(a, bits)
	if err != nil {
		return 0, err
	}
	return clamped, png.Encode(w, im)
}
