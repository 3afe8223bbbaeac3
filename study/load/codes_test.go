package load

import "testing"

// Numbers of nines far from all others are codes, ordinary values and outliers are not.
func TestCodesOfMissingValues(t *testing.T) {
	for _, c := range []struct {
		first float64
		n     int
	}{{-999, 1}, {9999, 1}, {99, 0}, {999, 1}, {1e6, 0}, {-998, 0}, {-99999, 1}} {
		values := []float64{c.first}
		for i := range 40 {
			values = append(values, 30+float64(i))
		}
		if code, n := codeIn(values); n != c.n || n > 0 && code != c.first {
			t.Errorf("%g: %d of %g", c.first, n, code)
		}
	}
}
