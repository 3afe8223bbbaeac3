package dataio

import (
	"fmt"

	"surepipe/internal/stored"
)

// certainlyFits are bytes of which it is not asked whether they fit into memory.
const certainlyFits = 1 << 30

// fits is the error for an array that takes more than the machine's memory, or that of its control
// group, with so many bytes a value.
func (r *Reader) fits(bytes int64) error {
	if bytes *= int64(r.len); bytes <= certainlyFits {
		return nil
	}
	if all := stored.Memory(); all > 0 && bytes > all {
		return fmt.Errorf("array %q has shape %s and takes %.3g GB in memory, of which there are %.3g GB", r.name, ShapeString(r.shape), float64(bytes)/1e9, float64(all)/1e9)
	}
	return nil
}
