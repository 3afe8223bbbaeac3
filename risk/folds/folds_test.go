package folds_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"surepipe/risk/folds"
)

func Example() {
	f := folds.Folds{K: 2, Groups: []int{7, 7, 3, 3, 5, 5, 5}}
	for _, s := range f.Splits(7, 0) {
		fmt.Println(s.Out)
	}
	fmt.Println(folds.Folds{K: 2, Time: true}.Splits(6, 0)[1])
	// Output:
	// [4 5 6]
	// [0 1 2 3]
	// {[4 5] [0 1 2 3]}
}

// Every observation is left out once a repeat, units as a whole, in folds of nearly equal size.
func TestFoldsDivideTheObservations(t *testing.T) {
	labels := make([]int, 60)
	for i := range labels {
		labels[i] = i % 12
	}
	for name, f := range map[string]folds.Folds{
		"single": {}, "three": {K: 3, Seed: 4}, "groups": {Groups: labels}, "blocks": {Blocks: 7, K: 4},
		"more folds than units": {Groups: labels, K: 50},
	} {
		if err := f.Check(60); err != nil {
			t.Fatal(name, err)
		}
		of, n := f.Units(60)
		for repeat := range 3 {
			splits := f.Splits(60, repeat)
			if !reflect.DeepEqual(splits, f.Splits(60, repeat)) {
				t.Errorf("%s: two draws of repeat %d differ", name, repeat)
			}
			var all []int
			for _, s := range splits {
				both := slices.Concat(s.Out, s.Keep)
				if slices.Sort(both); len(both) != 60 || len(slices.Compact(both)) != 60 {
					t.Errorf("%s: out and kept are %d observations", name, len(both))
				}
				for _, i := range s.Keep {
					if slices.ContainsFunc(s.Out, func(o int) bool { return of[o] == of[i] }) {
						t.Errorf("%s: a unit is divided", name)
					}
				}
				if want := float64(60) / float64(len(splits)); float64(len(s.Out)) > want+float64(60/n)+1 {
					t.Errorf("%s: a fold of %d, expected about %g", name, len(s.Out), want)
				}
				all = append(all, s.Out...)
			}
			if slices.Sort(all); len(all) != 60 || len(slices.Compact(all)) != 60 {
				t.Errorf("%s: %d observations are left out", name, len(all))
			}
		}
	}
	if a, b := (folds.Folds{}).Splits(60, 0), (folds.Folds{}).Splits(60, 1); reflect.DeepEqual(a, b) {
		t.Error("two repeats are the same")
	}
}

// Forward in time nothing is predicted from what comes after it.
func TestTimeLooksForward(t *testing.T) {
	splits := folds.Folds{K: 5, Time: true}.Splits(61, 0)
	if len(splits) != 5 {
		t.Fatalf("%d folds", len(splits))
	}
	for _, s := range splits {
		if slices.Max(s.Keep) >= slices.Min(s.Out) {
			t.Errorf("%v from %v", s.Out, s.Keep)
		}
	}
}

func TestFoldsThatAreNone(t *testing.T) {
	for _, f := range []folds.Folds{{K: 1}, {K: -1}, {Repeats: -1}, {Blocks: -2}, {Groups: []int{1, 2}},
		{Groups: []int{4, 4, 4, 4}}, {Groups: []int{1, 2, 3, 4}, Blocks: 2}, {Time: true, Repeats: 2}, {Blocks: 9}} {
		if f.Check(4) == nil {
			t.Errorf("%+v passes", f)
		}
	}
}

func TestPatchesAndLines(t *testing.T) {
	if got := folds.Patches([]int{3, 4}, 2); !slices.Equal(got, []int{0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3}) {
		t.Error(got)
	}
	if got := folds.Lines([]int{0, 5, 11}, 4, true); !slices.Equal(got, []int{0, 1, 2}) {
		t.Error(got)
	}
	if got := folds.Lines([]int{0, 5, 11}, 4, false); !slices.Equal(got, []int{0, 1, 3}) {
		t.Error(got)
	}
}
