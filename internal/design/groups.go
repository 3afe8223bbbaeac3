package design

import (
	"fmt"

	"surepipe/internal/dataio"
)

// labels number the values of a column in the rows that are kept.
func labels(t *dataio.Table, name string, kept []int) ([]int, error) {
	c, err := t.Column(name)
	if err != nil {
		return nil, &OptionError{"groups", err}
	}
	number, of := map[any]int{}, make([]int, len(kept))
	for k, i := range kept {
		if c.Missing(i) {
			return nil, &OptionError{"groups", fmt.Errorf("%s: the value is missing, expected the group of each row",
				t.Place(i, name))}
		}
		var value any
		if c.Values != nil {
			value = c.Values[i]
		} else {
			value = c.Levels[c.Codes[i]]
		}
		if _, ok := number[value]; !ok {
			number[value] = len(number)
		}
		of[k] = number[value]
	}
	return of, nil
}
