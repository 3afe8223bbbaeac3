package noise

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"testing"
)

// Images that JPEG compressed at several qualities are told, in grey and colours, and others of as few levels are not:
// noise, also on a picture that was compressed, a picture that is repeated in each block, and one of few levels.
func TestCompressed(t *testing.T) {
	const side = 192
	r := rand.New(rand.NewPCG(61, 1))
	noisy := func(sigma float64) func(i, j int) float64 {
		return func(i, j int) float64 {
			return 120 + 40*math.Sin(float64(i)/20) + 0.2*float64(j) + sigma*r.NormFloat64()
		}
	}
	again := func(of image.Image) image.Image {
		to := image.NewRGBA(of.Bounds())
		for at := range side * side {
			level := func(v uint32) uint8 { return uint8(min(max(math.Round(float64(v>>8)+2.5*r.NormFloat64()), 0), 255)) }
			red, green, blue, _ := of.At(at%side, at/side).RGBA()
			to.SetRGBA(at%side, at/side, color.RGBA{level(red), level(green), level(blue), 255})
		}
		return to
	}
	sprite := normals(r, 64, 30)
	for name, c := range map[string]struct {
		at        func(i, j int) float64
		qualities []int
	}{
		"noise":      {noisy(12), []int{98, 95, 90, 75}},
		"less noise": {noisy(6), []int{98, 95, 90}},
		"repeated":   {func(i, j int) float64 { return 128 + sprite[i%8*8+j%8] }, nil},
		"two levels": {func(i, j int) float64 { return 60 + 100*math.Round(0.5+0.4*math.Sin(float64(i*j)/300)) }, nil},
	} {
		grey, colours := image.NewGray(image.Rect(0, 0, side, side)), image.NewRGBA(image.Rect(0, 0, side, side))
		for i := range side {
			for j := range side {
				level := func() uint8 { return uint8(min(max(math.Round(c.at(i, j)), 0), 255)) }
				grey.SetGray(j, i, color.Gray{level()})
				colours.SetRGBA(j, i, color.RGBA{level(), level(), level(), 255})
			}
		}
		told := func(of image.Image, channels int) bool {
			y := make([]float64, 0, side*side*channels)
			for i := range side * side {
				red, green, blue, _ := of.At(i%side, i/side).RGBA()
				for _, v := range []uint32{red, green, blue}[:channels] {
					y = append(y, float64(v>>8)/255)
				}
			}
			return NewImage(y, side, side, channels).Compressed(1. / 255)
		}
		for channels, of := range map[int]image.Image{1: grey, 3: colours} {
			if told(of, channels) {
				t.Errorf("%s, %d channels: taken for compressed", name, channels)
			}
			for _, quality := range c.qualities {
				var to bytes.Buffer
				if err := jpeg.Encode(&to, of, &jpeg.Options{Quality: quality}); err != nil {
					t.Fatal(err)
				}
				back, err := jpeg.Decode(&to)
				if err != nil {
					t.Fatal(err)
				}
				if !told(back, channels) {
					t.Errorf("%s, %d channels, quality %d: not told", name, channels, quality)
				}
				if told(again(back), channels) {
					t.Errorf("%s, %d channels, quality %d: told with noise of 2.5 levels", name, channels, quality)
				}
			}
		}
	}
}
