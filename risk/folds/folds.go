// Package folds says which observations are left out together: at random in folds, by groups, in runs of
// consecutive ones, or forward in time. Cross-validation, audits and leave-group-out read the same value.
package folds

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"surepipe/internal/lists"
)

// Folds divides d observations. Its zero value stands for ten random folds of single observations.
type Folds struct {
	// K is the number of folds, 0 for [DefaultK]; with fewer units of observations, one for each unit.
	K int `json:"folds,omitempty"`
	// Repeats is how often they are drawn, 0 for once; Seed is that of the draws.
	Repeats int    `json:"repeats,omitempty"`
	Seed    uint64 `json:"seed,omitempty"`
	// Groups are labels of the observations: those with one label are left out together. Nil for none.
	Groups []int `json:"-"`
	// By is the name of what Groups come from, for messages.
	By string `json:"groups,omitempty"`
	// Blocks is the length of runs of consecutive observations that are left out together, 0 for none.
	Blocks int `json:"blocks,omitempty"`
	// Time leaves out runs of consecutive observations, K of them, each of which is predicted from those before it
	// alone. The first run, one more, is never left out.
	Time bool `json:"time,omitempty"`
	// Each is the number of consecutive entries of y that are one observation, 0 for one. Groups and Blocks are of
	// observations, and d everywhere counts entries.
	Each int `json:"-"`
}

// DefaultK is the default number of folds, and CorrectedK that of single observations that A picks from a matrix or a
// sequence: each is a large part of what determines its fit, and what a correction to fits of all observations
// leaves falls as the square of the share that is left out.
const DefaultK, CorrectedK = 10, 20

// Split is one fold: what is left out, and what remains to fit, both in increasing order.
type Split struct{ Out, Keep []int }

// Check rejects what is no division of d observations.
func (f Folds) Check(d int) error {
	switch {
	case f.K < 0 || f.K == 1:
		return fmt.Errorf("folds: %d folds, expected at least 2", f.K)
	case f.Repeats < 0:
		return fmt.Errorf("folds: %d repeats, expected at least 1", f.Repeats)
	case f.Blocks < 0:
		return fmt.Errorf("folds: blocks of %d observations, expected at least 1", f.Blocks)
	case d%f.each() != 0:
		return fmt.Errorf("folds: %d entries, expected %d for each observation", d, f.Each)
	case f.Groups != nil && len(f.Groups) != d/f.each():
		return fmt.Errorf("folds: %d labels of groups for %d observations", len(f.Groups), d/f.each())
	case f.Groups != nil && f.Blocks > 0:
		return fmt.Errorf("folds: both groups and blocks are given, expected one of them")
	case f.Time && (f.Groups != nil || f.Repeats > 1):
		return fmt.Errorf("folds: forward in time, observations are left out in their order: expected neither groups " +
			"nor repeats")
	}
	if _, n := f.Units(d); n < 2 {
		return fmt.Errorf("folds: %d observations in %d group, expected at least 2 groups", d/f.each(), n)
	}
	return nil
}

// Units numbers the units that are left out as a whole, from 0 in the order of their first observation, and returns
// how many there are: groups, blocks, the runs of time, or single observations. Standard errors go over them.
func (f Folds) Units(d int) (of []int, n int) {
	of = lists.Make(d, func(i int) int { return f.label(i, d) })
	if f.Groups == nil { // labels increase
		last := -1
		for i, label := range of {
			if label != last {
				last, n = label, n+1
			}
			of[i] = n - 1
		}
		return of, n
	}
	number := map[int]int{}
	for i, label := range of {
		k, known := number[label]
		if !known {
			k = len(number)
			number[label] = k
		}
		of[i] = k
	}
	return of, len(number)
}

// label is the same for all entries of a unit, of which entry i of d is one.
func (f Folds) label(i, d int) int {
	switch observation := i / f.each(); {
	case f.Groups != nil:
		return f.Groups[observation]
	case f.Blocks > 0:
		return observation / f.Blocks
	case f.Time:
		return observation * (f.count() + 1) * f.each() / d
	default:
		return observation
	}
}

func (f Folds) each() int  { return max(f.Each, 1) }
func (f Folds) count() int { return cmp.Or(f.K, DefaultK) }

// Times is the number of repeats.
func (f Folds) Times() int { return max(f.Repeats, 1) }

// Splits are the folds of a repeat, a function of Seed and the repeat alone. Units are drawn in random order, each into
// the fold that has the fewest observations.
func (f Folds) Splits(d, repeat int) []Split {
	of, n := f.Units(d)
	if f.Time {
		return f.forward(of, n)
	}
	members := Members(of, n)
	k := min(f.count(), n)
	fold, size := make([]int, n), make([]int, k)
	for _, u := range rand.New(rand.NewPCG(f.Seed, uint64(repeat))).Perm(n) {
		fold[u] = slices.Index(size, slices.Min(size))
		size[fold[u]] += len(members[u])
	}
	return lists.Make(k, func(j int) Split { return Without(d, func(i int) bool { return fold[of[i]] == j }) })
}

// Without leaves some of d observations out.
func Without(d int, out func(i int) bool) (s Split) {
	for i := range d {
		if out(i) {
			s.Out = append(s.Out, i)
		} else {
			s.Keep = append(s.Keep, i)
		}
	}
	return s
}

// Samples are n random samples of units without one in common, each of at least a share of d observations; fewer where
// the units are not enough to leave half of the observations in their place.
func (f Folds) Samples(d int, share float64, n int) (splits []Split) {
	of, units := f.Units(d)
	members := Members(of, units)
	order, taken := rand.New(rand.NewPCG(f.Seed, 1<<32)).Perm(units), 0
	for range n {
		out := make([]bool, d)
		count := 0
		for ; len(order) > 0 && float64(count) < share*float64(d); order = order[1:] {
			for _, i := range members[order[0]] {
				out[i] = true
				count++
			}
		}
		if taken += count; count == 0 || 2*taken > d {
			break
		}
		splits = append(splits, Without(d, func(i int) bool { return out[i] }))
	}
	return splits
}

func (f Folds) forward(of []int, n int) (splits []Split) {
	for u := 1; u < n; u++ {
		var s Split
		for i, v := range of {
			switch {
			case v < u:
				s.Keep = append(s.Keep, i)
			case v == u:
				s.Out = append(s.Out, i)
			}
		}
		splits = append(splits, s)
	}
	return splits
}

// Members lists the observations of each unit.
func Members(of []int, n int) [][]int {
	ends, all := make([]int, n+1), make([]int, len(of))
	for _, u := range of {
		ends[u+1]++
	}
	members, first := make([][]int, n), 0
	for u, size := range ends[1:] {
		members[u] = all[first : first : first+size]
		first += size
	}
	for i, u := range of {
		members[u] = append(members[u], i)
	}
	return members
}

// Patches are labels of the entries of an array of this shape, row-major: patches of at most side entries along each
// axis.
func Patches(shape []int, side int) []int {
	labels := make([]int, lists.Product(shape))
	for i := range labels {
		rest, stride := i, 1
		for a := len(shape) - 1; a >= 0; a-- {
			labels[i] += rest % shape[a] / side * stride
			stride *= (shape[a] + side - 1) / side
			rest /= shape[a]
		}
	}
	return labels
}

// Lines are labels by the row, or else the column, of entries at places of a row-major matrix.
func Lines(places []int, cols int, rows bool) []int {
	labels := make([]int, len(places))
	for i, at := range places {
		if labels[i] = at % cols; rows {
			labels[i] = at / cols
		}
	}
	return labels
}
