// Package restrict has a problem on a few of its coordinates: the columns of A there, how they grow, and their Gram
// matrix.
package restrict

import (
	"context"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/space"
)

// Confined is the problem restricted to a working set.
type Confined struct {
	engine.Problem
	Op     linops.Restricted // its operator
	Set    space.Space       // the coordinates
	Method engine.Method     // for it; nil before one is made
}

// Confine takes the columns of A in a set; nil where A's structure does not offer that.
func Confine(dev array.Device, a linops.Operator, set []int) *Confined {
	_, dim := a.Dims()
	c, native := &Confined{Problem: engine.Problem{Device: dev}, Set: space.Coordinates(dev, dim, set)}, false
	defer func() {
		if !native { // also where A panics
			c.Release()
		}
	}()
	c.Op, native = linops.On(dev, a, c.Set)
	if !native {
		return nil
	}
	c.A = c.Op
	return c
}

// Release frees the problem and its method.
func (c *Confined) Release() {
	if c.Method != nil {
		c.Method.Release()
	}
	if c.Op != nil {
		c.Op.Release()
	}
	if c.R != nil {
		prox.Release(c.R)
	}
	c.Set.Release()
}

// Gather returns the coordinates of b in the set.
func (c *Confined) Gather(b array.Batch) array.Batch {
	to := c.Device.Alloc(1, c.Set.Dim())
	c.Set.Coordinates(to, b)
	return to
}

// Support lists the coordinates where b, a batch of one vector, is not 0.
func Support(b array.Batch) []int {
	var set []int
	for j, v := range b.Read() {
		if v != 0 {
			set = append(set, j)
		}
	}
	return set
}

// Strongest lists the at most limit coordinates of largest positive value, in increasing order; of
// equal values the first.
func Strongest(values []float64, limit int) []int {
	positive := make([]float64, 0, len(values))
	for _, v := range values {
		if v > 0 {
			positive = append(positive, v)
		}
	}
	least, equal := 0.0, 0 // of those that are kept
	if len(positive) > limit {
		least, equal = lists.Smallest(positive, len(positive)-max(limit, 1)), limit
		for _, v := range positive {
			if v > least {
				equal--
			}
		}
	}
	return lists.Places(len(values), func(j int) bool {
		switch v := values[j]; {
		case v > least:
			return true
		case v == least && equal > 0:
			equal--
			return true
		}
		return false
	})
}

// Union merges two increasing lists.
func Union(a, b []int) []int {
	if len(b) == 0 {
		return a
	}
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Columns are the columns of A at an increasing set of coordinates. The last of their users frees them.
type Columns struct {
	*Confined
	Set   []int
	users array.Users
}

func (c *Columns) Release() {
	if c.users.Leave() {
		c.Confined.Release()
	}
}

// columnsOf takes columns of A, by products where A has no way of its own.
func columnsOf(dev array.Device, a linops.Operator, set []int) *Columns {
	if c := Confine(dev, a, set); c != nil {
		return &Columns{Confined: c, Set: set}
	}
	_, dim := a.Dims()
	t := space.Coordinates(dev, dim, set)
	op, _ := linops.On(dev, a, t)
	return &Columns{Confined: &Confined{Problem: engine.Problem{A: op, Device: dev}, Op: op, Set: t}, Set: set}
}

// first are the columns of the first of several outcomes, where these are at hand, else all.
func (c *Columns) first(outcomes int) (a linops.Operator, set []int) {
	inner, k := linops.KroneckerOf(c.A)
	if inner == nil || k != outcomes {
		return c.A, c.Set
	}
	return inner, lists.Make(len(c.Set)/k, func(i int) int { return c.Set[i*k] })
}

// Parts are columns of A that have come a few at a time.
type Parts []*Columns

// Shared are the same columns for another user.
func (p *Parts) Shared() *Parts {
	for _, c := range *p {
		c.users.Join()
	}
	s := slices.Clone(*p)
	return &s
}

func (p *Parts) Release() {
	for _, c := range *p {
		c.Release()
	}
	*p = nil
}

// Join adds the columns at an increasing set of coordinates, whose places come after all others. It hands out, at the
// same time, their inner products v with all columns so far, and with each other: <a_k, a_l> as entry place[k],
// place[l], for k in the set and place[l] <= place[k]. Where the columns are those of more than one
// outcome ([linops.KroneckerOf]), all of the set, it hands out the products of the first outcomes alone.
func (p *Parts) Join(ctx context.Context, dev array.Device, a linops.Operator, set, place []int, outcomes int,
	entry func(i, j int, v float64)) error {
	c := columnsOf(dev, a, set)
	*p = append(*p, c)
	own, set := c.first(outcomes)
	k := len(set)
	products, free := linops.Products(dev, own)
	defer free()
	report := progress.From(ctx)
	for i, other := range *p {
		if err := ctx.Err(); err != nil {
			return err
		}
		report(progress.Report{Stage: progress.Gram, Step: i, Steps: len(*p)})
		with, columns := other.first(outcomes)
		out := dev.Alloc(k, len(columns))
		products(out, with)
		values := out.ToHost()
		parallel.Ranges(k, parallel.Rows(len(columns)), func(lo, hi int) {
			for i, row := range set[lo:hi] {
				for j, col := range columns {
					if place[col] <= place[row] {
						entry(place[row], place[col], values[(lo+i)*len(columns)+j])
					}
				}
			}
		})
		out.Free()
	}
	p.merge(dev, a)
	return nil
}

// widestPart is the number of columns up to which parts are merged.
const widestPart = ColumnBlock

// ColumnBlock is the number of columns that are taken from A at once.
const ColumnBlock = 256

// merge makes one part of the last two where these are of similar size, again and again: products
// with few wide parts are faster than with many narrow ones, and every column is copied a
// logarithmic number of times. Parts that are wide already gain nothing. Columns that are not copied are one part.
func (p *Parts) merge(dev array.Device, a linops.Operator) {
	free := func(c *Columns) bool { return linops.StructureOf(c.A).Products != nil }
	for k := len(*p); k >= 2 && (free((*p)[k-1]) || len((*p)[k-2].Set) <= 2*len((*p)[k-1].Set) &&
		len((*p)[k-2].Set)+len((*p)[k-1].Set) <= widestPart); k = len(*p) {
		left, right := (*p)[k-2], (*p)[k-1]
		*p = (*p)[:k-2]
		set := slices.Concat(left.Set, right.Set)
		slices.Sort(set)
		left.Release()
		right.Release()
		*p = append(*p, columnsOf(dev, a, set))
	}
}

// MinFirst is the least number of coordinates that a working set begins with, or grows by.
const MinFirst = 64
