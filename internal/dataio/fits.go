package dataio

import (
	"fmt"

	"surepipe/internal/stored"
)

// certainlyFits are bytes of which it is not asked whether they fit into memory.
const certainlyFits = 1 << 30

// fits is the error for n values of so many bytes each that take more than that.
func fits(what string, n, bytes float64) error {
	if n*bytes <= certainlyFits {
		return nil
	}
	return stored.Fits(what, n*bytes)
}

// fitsImage is the error for an image of rows x cols pixels: its bytes, and as many float64.
func fitsImage(rows, cols, channels, bits int) error {
	return fits(fmt.Sprintf("an image of %d x %d pixels", rows, cols), float64(rows)*float64(cols), float64(channels)*(8+float64(bits)/8))
}
