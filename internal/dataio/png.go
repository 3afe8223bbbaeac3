package dataio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
)

const convertHint = "magick in.png -alpha off -colorspace Gray out.png"

// ReadPNG reads a grayscale image of 1 to 16 bits: an array of shape (rows, columns), the stored
// value over the largest one, so in [0, 1] for any number of bits. No gamma is applied. An image
// with colour, a palette or transparency is rejected.
func ReadPNG(r io.Reader) (Array, error) {
	// The file is read whole, because its length bounds the size that a valid header can state.
	data, err := io.ReadAll(r)
	if err != nil {
		return Array{}, err
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return Array{}, pngError(err)
	}
	refuse := func(what string) error {
		return fmt.Errorf("is %s, expected grayscale; convert it, for instance with %s", what, convertHint)
	}
	if len(data) < 26 {
		return Array{}, pngError(io.ErrUnexpectedEOF)
	}
	// A signature of 8 bytes and a chunk's head of 8 come first, then width and height.
	bits, colorType := int64(data[24]), data[25]
	switch colorType {
	case 0:
	case 3:
		return Array{}, refuse("an image with a palette")
	case 4:
		return Array{}, refuse("a grayscale image with transparency")
	default:
		return Array{}, refuse("a colour image")
	}
	// Deflate packs at most 1032 bytes into one.
	if least := (int64(config.Width)*bits + 7) / 8; least > int64(len(data))*1032/int64(config.Height) {
		return Array{}, fmt.Errorf("is truncated or corrupt (its header states %d x %d pixels, more than %d bytes can hold)", config.Height, config.Width, len(data))
	}
	decoded, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return Array{}, pngError(err)
	}
	rows, cols := config.Height, config.Width
	a := Array{Shape: []int{rows, cols}, Data: make([]float64, rows*cols)}
	switch im := decoded.(type) {
	case *image.Gray:
		for i := range rows {
			for j, v := range im.Pix[i*im.Stride:][:cols] {
				a.Data[i*cols+j] = float64(v) / math.MaxUint8
			}
		}
	case *image.Gray16:
		for i := range rows {
			line := im.Pix[i*im.Stride:]
			for j := range cols {
				a.Data[i*cols+j] = float64(binary.BigEndian.Uint16(line[2*j:])) / math.MaxUint16
			}
		}
	default:
		return Array{}, refuse("a grayscale image with a transparent colour")
	}
	return a, nil
}

func pngError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end")
	}
	return fmt.Errorf("is not a PNG image, or truncated or corrupt (%w)", err)
}

// EncodePNG writes a matrix as a grayscale image of 8 or 16 bits: [0, 1] goes to 0 up to the
// largest value, rounded to nearest. Values that fall outside after rounding are clamped; clamped
// counts those pixels.
func EncodePNG(w io.Writer, a Array, bits int) (clamped int, err error) {
	if bits != 8 && bits != 16 {
		return 0, fmt.Errorf("a PNG image of %d bits, expected 8 or 16", bits)
	}
	if len(a.Shape) != 2 || len(a.Data) == 0 {
		return 0, fmt.Errorf("array %q has shape %s, expected (rows, columns) of an image", a.Name, ShapeString(a.Shape))
	}
	a.check()
	if err := a.CheckFinite(); err != nil {
		return 0, err
	}
	rows, cols := a.Shape[0], a.Shape[1]
	most := float64(uint(1)<<bits - 1)
	level := func(i, j int) float64 {
		v := math.Round(a.Data[i*cols+j] * most)
		if v < 0 || v > most {
			clamped++
			return min(max(v, 0), most)
		}
		return v
	}
	var out image.Image
	if bits == 8 {
		im := image.NewGray(image.Rect(0, 0, cols, rows))
		for i := range rows {
			for j := range cols {
				im.SetGray(j, i, color.Gray{Y: uint8(level(i, j))})
			}
		}
		out = im
	} else {
		im := image.NewGray16(image.Rect(0, 0, cols, rows))
		for i := range rows {
			for j := range cols {
				im.SetGray16(j, i, color.Gray16{Y: uint16(level(i, j))})
			}
		}
		out = im
	}
	return clamped, png.Encode(w, out)
}
