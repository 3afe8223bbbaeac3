package lowrank

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The least of many numbers, in order; and so few entries may cross the threshold that the divergence
// changes by a hundredth of SURE's error bar.
func TestLeastOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]float64, 500)
	l := newLeast(7)
	for i := range all {
		all[i] = r.Float64()
		l.add(all[i])
	}
	slices.Sort(all)
	if !slices.Equal(l, all[:7]) || l.last() != all[6] {
		t.Errorf("%v, expected %v", l, all[:7])
	}
	for d, want := range map[int]int{100: 0, 10000: 0, 20000: 1, 100000000: 70} {
		if got := crossings(d); got != want {
			t.Errorf("of %d entries %d may cross, expected %d", d, got, want)
		}
	}
}
