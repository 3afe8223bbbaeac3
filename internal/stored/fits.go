package stored

import "fmt"

// Fits is the error for something that takes more than [Memory], which it names; nil where that is not known.
func Fits(what string, bytes float64) error {
	if all := Memory(); all > 0 && bytes > float64(all) {
		return fmt.Errorf("%s takes %.3g GB in memory, of which there are %.3g GB", what, bytes/1e9, float64(all)/1e9)
	}
	return nil
}
