package vjp_test

import (
	"slices"
	"strings"
	"testing"

	"surepipe/array"
)

// emulated says whether the program stands in for the card: each kernel takes it some
// hundred times as long as a loop on the host. Tests of very many do fewer there.
func emulated(t *testing.T, dev array.Device) bool {
	t.Helper()
	cards, err := array.Cards()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(cards, func(c array.Card) bool {
		return c.Name == dev.Name() && strings.Contains(c.Model, "emulated")
	})
}
