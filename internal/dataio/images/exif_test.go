package images

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"testing"
)

// A scene, photographed with the camera held in each of the eight ways, is upright when it is read:
// its bright corner is at the top left, and its long side horizontal.
func TestOrientationIsApplied(t *testing.T) {
	const rows, cols = 16, 32
	scene := func(i, j int) uint8 { // top left bright, top right grey
		switch {
		case i < 8 && j < 8:
			return 240
		case i < 8 && j >= cols-8:
			return 120
		}
		return 20
	}
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for o := 1; o <= 8; o++ {
			// The file has at (r, c) what the definition of the tag says: where the 0th row and the
			// 0th column of the file are in the scene.
			m, n := rows, cols
			if o >= 5 {
				m, n = cols, rows
			}
			im := image.NewGray(image.Rect(0, 0, n, m))
			for r := range m {
				for c := range n {
					top, left := r, c
					if o >= 5 {
						top, left = c, r
					}
					if o == 3 || o == 4 || o == 7 || o == 8 { // row or column 0 is at the bottom
						top = rows - 1 - top
					}
					if o == 2 || o == 3 || o == 6 || o == 7 { // or at the right
						left = cols - 1 - left
					}
					// 6: row 0 is the right side, column 0 the top; 8: row 0 is the left side, column 0
					// the bottom.
					im.SetGray(c, r, color.Gray{Y: scene(top, left)})
				}
			}
			var plain bytes.Buffer
			if err := jpeg.Encode(&plain, im, &jpeg.Options{Quality: 100}); err != nil {
				t.Fatal(err)
			}
			head := "II*\x00"
			if order == binary.AppendByteOrder(binary.BigEndian) {
				head = "MM\x00*"
			}
			exif := []byte("Exif\x00\x00" + head)
			exif = order.AppendUint32(exif, 8)
			exif = order.AppendUint16(exif, 1)
			exif = order.AppendUint16(exif, 0x0112)
			exif = order.AppendUint16(exif, 3)
			exif = order.AppendUint32(exif, 1)
			exif = order.AppendUint16(exif, uint16(o))
			exif = append(exif, 0, 0, 0, 0, 0, 0)
			file := append([]byte{0xff, 0xd8, 0xff, 0xe1}, binary.BigEndian.AppendUint16(nil, uint16(len(exif)+2))...)
			file = append(append(file, exif...), plain.Bytes()[2:]...)
			a, err := ReadJPEG(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			if a.Shape[0] != rows || a.Shape[1] != cols {
				t.Fatalf("orientation %d: shape %v", o, a.Shape)
			}
			for i := range rows {
				for j := range cols {
					if want := float64(scene(i, j)) / 255; math.Abs(a.Data[i*cols+j]-want) > 0.05 {
						t.Fatalf("orientation %d: %g at (%d, %d), expected %g", o, a.Data[i*cols+j], i, j, want)
					}
				}
			}
		}
	}
}
