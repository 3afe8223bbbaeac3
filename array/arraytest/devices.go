package arraytest

import (
	"slices"
	"strings"
	"testing"

	"surepipe/array"
)

// Devices opens every device there is, the host first, and closes them when the test
// ends. In a plain build that is the host alone; with build tag cuda the cards join,
// emulated or real, whichever driver the program finds. A test that touches a device is a table
// over them:
//
//	for _, dev := range arraytest.Devices(t) {
//		t.Run(dev.Name(), func(t *testing.T) {
//			arraytest.NoLeak(t, dev)
//			...
//		})
//	}
func Devices(t testing.TB) []array.Device {
	t.Helper()
	all := []array.Device{array.NewHost()}
	cards, err := array.Cards()
	if err != nil {
		t.Fatalf("looking for devices: %v", err)
	}
	for _, card := range cards {
		dev, err := array.Open(card.Name, 0)
		if err != nil {
			t.Fatalf("opening %s: %v", card.Name, err)
		}
		t.Cleanup(func() {
			if err := dev.Err(); err != nil {
				t.Errorf("%s has failed: %v", card.Name, err)
			}
			if err := dev.Close(); err != nil {
				t.Errorf("closing %s: %v", card.Name, err)
			}
		})
		all = append(all, dev)
	}
	return all
}

// EachClaim tests everything that [array.Device] promises as a subtest a claim.
func EachClaim(t *testing.T, dev array.Device) {
	for _, c := range Claims() {
		t.Run(strings.ReplaceAll(c.Name, " ", "_"), func(t *testing.T) {
			if err := c.Check(dev); err != nil {
				t.Error(err)
			}
		})
	}
}

// OnEach runs f as a subtest of every device there is.
func OnEach(t *testing.T, f func(t *testing.T, dev array.Device)) {
	t.Helper()
	for _, dev := range Devices(t) {
		t.Run(dev.Name(), func(t *testing.T) { f(t, dev) })
	}
}

// Emulated reports whether a program stands in for the card (see package cuda): each of its kernels
// takes some hundred times as long as a loop on the host. Tests that launch very many kernels
// launch fewer there.
func Emulated(t testing.TB, dev array.Device) bool {
	t.Helper()
	cards, err := array.Cards()
	if err != nil {
		t.Fatalf("looking for devices: %v", err)
	}
	return slices.ContainsFunc(cards, func(c array.Card) bool {
		return c.Name == dev.Name() && strings.Contains(c.Model, "emulated")
	})
}
