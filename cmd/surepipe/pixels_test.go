package main

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Pixels that are averages of their neighbours share noise, and that of sharpened ones is of opposite sign.
func TestCorrelatedPixelsAreTold(t *testing.T) {
	const side = 64
	r := rand.New(rand.NewPCG(3, 4))
	for want, of := range map[string]func(y []float64, i int) float64{
		"": func(y []float64, i int) float64 { return y[i] },
		"share noise": func(y []float64, i int) float64 {
			if i%2 == 0 {
				return y[i]
			}
			return (y[i-1] + y[(i+1)%len(y)]) / 2
		},
		"of opposite sign": func(y []float64, i int) float64 {
			n := len(y)
			around := y[(i+1)%n] + y[(i+n-1)%n] + y[(i+side)%n] + y[(i+n-side)%n]
			return (1.6*y[i] - 0.15*around) / math.Sqrt(1.6*1.6+4*0.15*0.15)
		},
	} {
		white, values := make([]float64, side*side), make([]float64, side*side)
		for i := range white {
			white[i] = r.NormFloat64()
		}
		for i := range values {
			values[i] = of(white, i)
		}
		for _, sigma2 := range []string{"1", "auto"} {
			_, _, s := sweepLines(t, "--problem", "tv2d", "--data", npyFile(t, values, side, side), "--sigma2", sigma2,
				"--lambda", "0.5:1:2")
			text := fmt.Sprint(s.Warnings)
			if told := strings.Contains(text, "correlated-pixels"); told != (want != "") || !strings.Contains(text, want) {
				t.Errorf("%q, sigma2 %s, warnings %v", want, sigma2, s.Warnings)
			}
		}
	}
}

// A JPEG that was saved as PNG is told, and a PNG of the same pixels that was none is not.
func TestCompressedPixelsAreTold(t *testing.T) {
	const side = 96
	r := rand.New(rand.NewPCG(3, 6))
	grey := image.NewGray(image.Rect(0, 0, side, side))
	for i := range grey.Pix {
		grey.Pix[i] = uint8(100 + 12*r.NormFloat64())
	}
	var packed bytes.Buffer
	if err := jpeg.Encode(&packed, grey, nil); err != nil {
		t.Fatal(err)
	}
	unpacked, err := jpeg.Decode(&packed)
	if err != nil {
		t.Fatal(err)
	}
	for lossy, of := range map[bool]image.Image{false: grey, true: unpacked} {
		var file bytes.Buffer
		if err := png.Encode(&file, of); err != nil {
			t.Fatal(err)
		}
		_, _, s := sweepLines(t, "--problem", "tv2d", "--data", bytesFile(t, "a.png", file.String()), "--sigma2",
			"0.0022", "--lambda", "0.05:0.1:2")
		if told := strings.Contains(fmt.Sprint(s.Warnings), "lossy-image"); told != lossy {
			t.Errorf("lossy: %t, warnings %v", lossy, s.Warnings)
		}
	}
}

// Of an image with missing pixels, too, clipped ones are told.
func TestClippedPixelsOfAPartAreTold(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	spec := filepath.Join(t.TempDir(), "part.yaml")
	for _, clipped := range []bool{false, true} {
		values, mask := make([]float64, 24*24), make([]float64, 24*24)
		for i := range values {
			mask[i] = float64(min(i%3, 1))
			if values[i] = r.NormFloat64(); clipped {
				values[i] = max(values[i], -0.5)
			}
		}
		text := fmt.Sprintf("name: part\ndata:\n  mask: %s\n  y: {file: %s, where: mask}\noperator:\n  selection: {where: "+
			"mask}\nterms:\n  - operator: gradient\n    regularizer: {joint-l2: lambda}\n", npyFile(t, mask, 24, 24),
			npyFile(t, values, 24, 24))
		if err := os.WriteFile(spec, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, s := sweepLines(t, "--spec", spec, "--sigma2", "1", "--lambda", "0.5:1:2")
		if told := strings.Contains(fmt.Sprint(s.Warnings), "clipped"); told != clipped {
			t.Errorf("clipped: %t, warnings %v", clipped, s.Warnings)
		}
	}
}
