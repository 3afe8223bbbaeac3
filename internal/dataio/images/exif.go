package images

import (
	"bytes"
	"encoding/binary"
	"slices"

	"surepipe/internal/dataio/ndarray"
)

// orientation is how a camera held an image, as the EXIF data of a JPEG file say (EXIF 2.32): 1 upright, 2 mirrored,
// 3 upside down, 4 upside down and mirrored, and 5 to 8 on a side, where rows of the file are columns of the scene. It
// is 1 where the file says nothing of the kind.
func orientation(jpeg []byte) int {
	for at := 2; at+4 <= len(jpeg) && jpeg[at] == 0xff && jpeg[at+1] != 0xda; {
		length := int(binary.BigEndian.Uint16(jpeg[at+2:]))
		end := at + 2 + length
		if length < 2 || end > len(jpeg) {
			return 1
		}
		if body, ok := bytes.CutPrefix(jpeg[at+4:end], []byte("Exif\x00\x00")); ok && jpeg[at+1] == 0xe1 {
			t, err := newTIFF(body, -1)
			if err != nil || t.one(tagOrientation, 1) > 8 {
				return 1
			}
			return max(1, int(t.one(tagOrientation, 1)))
		}
		at = end
	}
	return 1
}

// upright turns an image, (rows, columns) or (rows, columns, 3), to the scene's orientation.
func upright(a ndarray.Array, orientation int) ndarray.Array {
	if orientation == 1 {
		return a
	}
	rows, cols, channels := a.Shape[0], a.Shape[1], 1
	if len(a.Shape) == 3 {
		channels = a.Shape[2]
	}
	out := a
	out.Data, out.Shape = make([]float64, len(a.Data)), slices.Clone(a.Shape)
	m, n := rows, cols
	if orientation >= 5 {
		m, n = cols, rows
		out.Shape[0], out.Shape[1] = m, n
	}
	for i := range m {
		for j := range n {
			// (r, c) is where the file has what belongs at (i, j).
			r, c := i, j
			switch orientation {
			case 2:
				c = cols - 1 - j
			case 3:
				r, c = rows-1-i, cols-1-j
			case 4:
				r = rows - 1 - i
			case 5:
				r, c = j, i
			case 6:
				r, c = rows-1-j, i
			case 7:
				r, c = rows-1-j, cols-1-i
			case 8:
				r, c = j, cols-1-i
			}
			copy(out.Data[(i*n+j)*channels:(i*n+j+1)*channels], a.Data[(r*cols+c)*channels:])
		}
	}
	return out
}
