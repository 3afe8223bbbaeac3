package images

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"io"

	"surepipe/internal/dataio/ndarray"
)

// ReadJPEG reads a grayscale or colour JPEG image, as [ReadPNG] does. One in CMYK is rejected. Its
// compression removes a part of the noise, and what is left is not white: Depth.Lossy says so. The
// orientation that a camera has recorded in EXIF data is applied: the image is upright.
func ReadJPEG(r io.Reader) (ndarray.Array, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return ndarray.Array{}, err
	}
	config, err := jpeg.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return ndarray.Array{}, corrupt("JPEG", err)
	}
	if pixels := int64(config.Width) * int64(config.Height); pixels > 512*int64(len(data)) {
		return ndarray.Array{}, fmt.Errorf("is truncated or corrupt (its header states %d x %d pixels, more than "+
			"%d bytes can hold)", config.Height, config.Width, len(data))
	}
	if err := ndarray.FitsImage(config.Height, config.Width, 3, 8); err != nil {
		return ndarray.Array{}, err
	}
	decoded, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil {
		return ndarray.Array{}, corrupt("JPEG", err)
	}
	depth := ndarray.Depth{Bits: 8, Lossy: true}
	switch im := decoded.(type) {
	case *image.Gray:
		return upright(fromPixels(im.Pix, im.Stride, config, 1, 1, 1, depth), orientation(data)), nil
	case *image.CMYK:
		return ndarray.Array{}, refuse("a CMYK image")
	}
	a := imageArray(config.Height, config.Width, 3, depth)
	at := decoded.Bounds().Min
	for i := range config.Height {
		for j := range config.Width {
			r, g, b, _ := decoded.At(at.X+j, at.Y+i).RGBA()
			for k, v := range [3]uint32{r, g, b} {
				a.Data[(i*config.Width+j)*3+k] = float64(v>>8) / 255
			}
		}
	}
	return upright(a, orientation(data)), nil
}

// EncodeJPEG writes an image as [EncodePNG] does, with 8 bits, and with the least compression: the
// file's values are still not quite those of the array.
func EncodeJPEG(w io.Writer, a ndarray.Array) (clamped int, err error) {
	im, clamped, err := picture(a, 8)
	if err != nil {
		return 0, err
	}
	return clamped, jpeg.Encode(w, im, &jpeg.Options{Quality: 100})
}
