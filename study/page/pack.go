package page

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"surepipe/internal/lists"
	"surepipe/study"
)

// coded sets the codes of a picture, of values of which NaN are missing.
func coded(p *study.Picture, x []float64, codes int) *study.Picture {
	sorted := slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	if len(sorted) == 0 {
		return nil
	}
	slices.Sort(sorted)
	k := int(spare * float64(len(sorted)))
	if codes > math.MaxUint8 {
		k = 0
	}
	p.Low, p.High, p.Codes = sorted[k], sorted[len(sorted)-1-k], codes
	p.Pixels = packed([][]uint16{codesOf(p, x)}, codes)
	return p
}

func codesOf(p *study.Picture, x []float64) []uint16 {
	all, step := make([]uint16, len(x)), (p.High-p.Low)/float64(p.Codes-1)
	for i, v := range x {
		switch {
		case math.IsNaN(v):
			all[i] = uint16(p.Codes)
		case step > 0:
			all[i] = uint16(math.Round(max(0, min(float64(p.Codes-1), (v-p.Low)/step))))
		}
	}
	return all
}

func values(p *study.Picture) ([]float64, error) {
	n := 1
	for _, m := range p.Shape {
		if m < 1 || m > mostPixels*3 || n > 1<<24/m {
			return nil, fmt.Errorf("a picture has shape %v", p.Shape)
		}
		n *= m
	}
	if p.Codes < 2 || p.Codes > math.MaxUint16 {
		return nil, fmt.Errorf("a picture has %d codes", p.Codes)
	}
	in, err := zlib.NewReader(bytes.NewReader(p.Pixels))
	if err != nil {
		return nil, err
	}
	wide := p.Codes > math.MaxUint8
	size := n
	if wide {
		size = 2 * n
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, errors.New("a picture has too few pixels")
	}
	x, step := make([]float64, n), (p.High-p.Low)/float64(p.Codes-1)
	for i := range x {
		code := int(text[i])
		if wide {
			code |= int(text[n+i]) << 8
		}
		if x[i] = p.Low + float64(code)*step; code >= p.Codes {
			x[i] = math.NaN()
		}
	}
	return x, nil
}

// packed are frames of codes, each minus the one before it, which has far fewer bits along a path of weights.
func packed(frames [][]uint16, codes int) []byte {
	var out bytes.Buffer
	to, _ := zlib.NewWriterLevel(&out, zlib.BestCompression)
	var before []uint16
	for _, frame := range frames {
		low, high := make([]byte, len(frame)), make([]byte, len(frame))
		for i, v := range frame {
			if before != nil {
				v -= before[i]
			}
			low[i], high[i] = byte(v), byte(v>>8)
		}
		before = frame
		_, _ = to.Write(low)
		if codes > math.MaxUint8 {
			_, _ = to.Write(high)
		}
	}
	_ = to.Close() // a buffer takes all
	return out.Bytes()
}

// Pack are the pictures of many points on one scale: one after the other in Pixels, each minus the one before it. At
// are the points.
type Pack struct {
	study.Picture
	At []int `json:"at"`
}

func pack(pictures []*study.Picture, at []int) (*Pack, error) {
	var all Pack
	var frames [][]float64
	for i, p := range pictures {
		if p == nil {
			continue
		}
		if all.At == nil {
			all.Picture = *p
		}
		if !slices.Equal(p.Shape, all.Shape) || p.Kind != all.Kind || p.Codes != all.Codes {
			continue
		}
		x, err := values(p)
		if err != nil {
			return nil, err
		}
		frames, all.At = append(frames, x), append(all.At, at[i])
		all.Low, all.High = min(all.Low, p.Low), max(all.High, p.High)
	}
	if frames == nil {
		return nil, nil
	}
	all.Pixels = packed(lists.Map(frames, func(x []float64) []uint16 { return codesOf(&all.Picture, x) }), all.Codes)
	return &all, nil
}
