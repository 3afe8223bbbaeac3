package noise

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/internal/lists"
)

const (
	// FalseAlarm is the probability of chance below which noise is uneven, and leastUnequal the least standard
	// deviation of the groups' spreads, over their mean, that matters.
	FalseAlarm, leastUnequal = 1e-3, 0.1
	// fewInGroup is the number of values from which a group says how large its spread is.
	fewInGroup = 8
	// fifths is the number of groups by the size of something.
	fifths = 5
)

// Grouping is a way to divide residuals into groups: what they are groups of, the group of each residual, negative for
// none, and what the groups are told apart by.
type Grouping struct {
	By     string
	Of     []int
	At     []float64
	sorted []float64
}

// bins is the number of parts, of equal width, into which values are divided before some of the parts are sorted.
const bins = 256

// Fifths makes it five groups by the size of values, of which equal ones stay together.
func (g *Grouping) Fifths(by string, values []float64) {
	g.By, g.At, g.Of = by, g.At[:0], g.Of[:0]
	if len(values) == 0 {
		return
	}
	starts := g.divideRange(values)
	var greatest [fifths]float64 // of each group
	for first, n, bin := 0, 0, 0; first < len(values); n++ {
		next := max(first+1, (n+1)*len(values)/fifths)
		for starts[bin+1] < next {
			bin++
		}
		slices.Sort(g.sorted[starts[bin]:starts[bin+1]])
		for next < starts[bin+1] && g.sorted[next] == g.sorted[next-1] {
			next++
		}
		greatest[n] = g.sorted[next-1]
		g.At = append(g.At, stat.Mean(g.sorted[first:next], nil))
		first = next
	}
	for _, v := range values {
		k := 0
		for v > greatest[k] {
			k++
		}
		g.Of = append(g.Of, k)
	}
}

// divideRange sets sorted to values in the order of bins between the least and the greatest, and returns where each
// starts, and the last ends.
func (g *Grouping) divideRange(values []float64) (starts [bins + 1]int) {
	least, most := slices.Min(values), slices.Max(values)
	scale := (bins - 1) / (most - least)
	if !(scale > 0) || math.IsInf(scale, 0) {
		scale = 0
	}
	bin := func(v float64) int {
		if scale == 0 {
			return 0
		}
		return int((v - least) * scale)
	}
	var next [bins + 1]int
	for _, v := range values {
		next[bin(v)+1]++
	}
	for k := range bins {
		next[k+1] += next[k]
	}
	starts = next
	g.sorted = slices.Grow(g.sorted[:0], len(values))[:len(values)]
	for _, v := range values {
		k := bin(v)
		g.sorted[next[k]] = v
		next[k]++
	}
	return starts
}

// ByPlaces are n groups by the places of residuals, of which a negative one is in none.
func ByPlaces(by string, places []int, n int) Grouping {
	return Grouping{By: by, Of: places, At: lists.Make(n, func(k int) float64 { return float64(k) })}
}

// divide sets groups to the values of each, in the order of places, in the memory that they have.
func (g *Grouping) divide(groups [][]float64, values []float64, places []int) [][]float64 {
	for len(groups) < len(g.At) {
		groups = append(groups, nil)
	}
	groups = groups[:len(g.At)]
	for k := range groups {
		groups[k] = groups[k][:0]
	}
	for _, i := range places {
		if k := g.Of[i]; k >= 0 {
			groups[k] = append(groups[k], values[i])
		}
	}
	return groups
}

// UnevenBy compares the variances of residuals between the groups of each grouping: Levene's test, of the distances of
// residuals from the median of their group (Brown and Forsythe 1974), which needs no normal ones. Of n groupings it is
// the one whose spreads are equal with the least probability, which Chance is for all of them together. LeastAt and
// GreatestAt are At of the groups.
func UnevenBy(residuals []float64, n int, groupings iter.Seq[Grouping]) (u Uneven) {
	order := lists.Upto(len(residuals)) // of their size, in all groups
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(residuals[a], residuals[b]) })
	return mostUneven(n, residuals, order, groupings, func(group []float64) {
		center := 0.0
		if len(group) > 0 {
			center = median(group)
		}
		for i, v := range group {
			group[i] = math.Abs(v - center)
		}
	}, math.Pi/2)
}

// UnevenSpreads is UnevenBy for n groupings of standard deviations of the noise.
func UnevenSpreads(deviations []float64, n int, groupings iter.Seq[Grouping]) (u Uneven) {
	return mostUneven(n, deviations, lists.Upto(len(deviations)), groupings, func([]float64) {}, 1)
}

// mostUneven compares the spreads of each of n groupings, which spread makes of the values of a group, in the order of
// places. Their mean squared is a variance over unit.
func mostUneven(n int, values []float64, places []int, groupings iter.Seq[Grouping], spread func(group []float64),
	unit float64) (u Uneven) {
	most := 0.0
	var spreads [][]float64
	for g := range groupings {
		spreads = g.divide(spreads, values, places)
		for _, group := range spreads {
			spread(group)
		}
		low, high, differ, chance := unequal(spreads)
		chance *= float64(n)
		if differ == 0 || most > 0 && (chance > u.Chance || chance == u.Chance && differ <= most) {
			continue
		}
		variance := func(k int) float64 {
			s := stat.Mean(spreads[k], nil)
			return s * s * unit
		}
		most, u = differ, Uneven{variance(low), variance(high), g.By, g.At[low], g.At[high], chance}
	}
	return u
}

// unequal compares the means of spreads in groups. With the mean squares B between G groups and W within them, of N
// values, B/W has the distribution F(G - 1, N - G) where the means are equal, and chance is the probability that it is
// exceeded. differ is the standard deviation of the means over their mean, by (B - W)/n with n values in a group, 0
// where they differ by less than a tenth. low and high are the groups of the least and the greatest mean. Groups of
// fewer than 8 values are left out.
func unequal(groups [][]float64) (low, high int, differ, chance float64) {
	var known []int
	n, sum, squares, within := 0.0, 0.0, 0.0, 0.0
	means := make([]float64, len(groups))
	for k, g := range groups {
		if len(g) < fewInGroup {
			continue
		}
		size := float64(len(g))
		means[k] = stat.Mean(g, nil)
		known, n, sum, squares = append(known, k), n+size, sum+floats.Sum(g), squares+size*size
		for _, v := range g {
			within += (v - means[k]) * (v - means[k])
		}
	}
	if len(known) < 2 || !(sum > 0) {
		return 0, 0, 0, 1
	}
	between := 0.0
	low, high = known[0], known[0]
	for _, k := range known {
		off := means[k] - sum/n
		between += float64(len(groups[k])) * off * off
		if means[k] < means[low] {
			low = k
		}
		if means[k] > means[high] {
			high = k
		}
	}
	between /= float64(len(known) - 1)
	within /= n - float64(len(known))
	each := (n - squares/n) / float64(len(known)-1)
	differ = math.Sqrt(max(between-within, 0)/each) / (sum / n)
	if !(differ > leastUnequal) {
		return low, high, 0, 1
	}
	f := distuv.F{D1: float64(len(known) - 1), D2: n - float64(len(known))}
	return low, high, differ, f.Survival(between / within)
}
