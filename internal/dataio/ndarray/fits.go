package ndarray

import (
	"fmt"

	"surepipe/internal/stored"
)

// certainlyFits are bytes of which it is not asked whether they fit into memory.
const certainlyFits = 1 << 30

// Fits is the error for n values of so many bytes each that take more than that.
func Fits(what string, n, bytes float64) error {
	if n*bytes <= certainlyFits {
		return nil
	}
	return stored.Fits(what, n*bytes)
}

// FitsImage is the error for an image of rows x cols pixels: its bytes, and as many float64.
func FitsImage(rows, cols, channels, bits int) error {
	return Fits(fmt.Sprintf("an image of %d x %d pixels", rows, cols), float64(rows)*float64(cols),
		float64(channels)*(8+float64(bits)/8))
}
