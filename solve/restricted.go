package solve

import (
	"context"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/space"
)

// confined is the problem restricted to a working set.
type confined struct {
	Problem
	op     linops.Restricted
	set    space.Space
	method Method
}

// confine takes the columns of A in a set; nil where A's structure does not offer that.
func confine(dev array.Device, a linops.Operator, set []int) *confined {
	_, dim := a.Dims()
	c, native := &confined{Problem: Problem{Device: dev}, set: space.Coordinates(dev, dim, set)}, false
	defer func() {
		if !native { // also where A panics
			c.release()
		}
	}()
	c.op, native = linops.On(dev, a, c.set)
	if !native {
		return nil
	}
	c.A = c.op
	return c
}

func (c *confined) release() {
	if c.method != nil {
		c.method.Release()
	}
	if c.op != nil {
		c.op.Release()
	}
	if c.R != nil {
		prox.Release(c.R)
	}
	c.set.Release()
}

// gather returns the coordinates of b in the set.
func (c *confined) gather(b array.Batch) array.Batch {
	to := c.Device.Alloc(1, c.set.Dim())
	c.set.Coordinates(to, b)
	return to
}

// support lists the coordinates where b, a batch of one vector, is not 0.
func support(b array.Batch) []int {
	var set []int
	for j, v := range b.ToHost() {
		if v != 0 {
			set = append(set, j)
		}
	}
	return set
}

// strongest lists the at most limit coordinates of largest positive value, in increasing order; of
// equal values the first.
func strongest(values []float64, limit int) []int {
	var set []int
	for j, v := range values {
		if v > 0 {
			set = append(set, j)
		}
	}
	if len(set) > limit {
		slices.SortStableFunc(set, func(i, j int) int {
			switch {
			case values[i] > values[j]:
				return -1
			case values[i] < values[j]:
				return 1
			}
			return 0
		})
		set = set[:limit]
		slices.Sort(set)
	}
	return set
}

// union merges two increasing lists.
func union(a, b []int) []int {
	if len(b) == 0 {
		return a
	}
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// columns are the columns of A at an increasing set of coordinates.
type columns struct {
	*confined
	set []int
}

// columnsOf takes columns of A, by products where A has no way of its own.
func columnsOf(dev array.Device, a linops.Operator, set []int) *columns {
	if c := confine(dev, a, set); c != nil {
		return &columns{c, set}
	}
	_, dim := a.Dims()
	t := space.Coordinates(dev, dim, set)
	op, _ := linops.On(dev, a, t)
	return &columns{&confined{Problem: Problem{A: op, Device: dev}, op: op, set: t}, set}
}

// parts are columns of A that have come a few at a time.
type parts []*columns

func (p *parts) release() {
	for _, c := range *p {
		c.release()
	}
	*p = nil
}

// join adds the columns at an increasing set of coordinates. It hands out their inner products v
// with all columns so far, and with each other: <a_k, a_l> as entry place[k], place[l], for k in
// the set.
func (p *parts) join(ctx context.Context, dev array.Device, a linops.Operator, set, place []int, entry func(i, j int, v float64)) error {
	k := len(set)
	c := columnsOf(dev, a, set)
	*p = append(*p, c)
	products, free := linops.Products(dev, c.A)
	defer free()
	report := progress.From(ctx)
	for i, other := range *p {
		if err := ctx.Err(); err != nil {
			return err
		}
		report(progress.Report{Stage: progress.Gram, Step: i, Steps: len(*p)})
		out := dev.Alloc(k, len(other.set))
		products(out, other.A)
		values := out.ToHost()
		for i, row := range set {
			for j, col := range other.set {
				entry(place[row], place[col], values[i*len(other.set)+j])
			}
		}
		out.Free()
	}
	p.merge(dev, a)
	return nil
}

// widestPart is the number of columns up to which parts are merged.
const widestPart = columnBlock

// columnBlock is the number of columns that are taken from A at once.
const columnBlock = 256

// merge makes one part of the last two where these are of similar size, again and again: products
// with few wide parts are faster than with many narrow ones, and every column is copied a
// logarithmic number of times. Parts that are wide already gain nothing.
func (p *parts) merge(dev array.Device, a linops.Operator) {
	for k := len(*p); k >= 2 && len((*p)[k-2].set) <= 2*len((*p)[k-1].set) && len((*p)[k-2].set)+len((*p)[k-1].set) <= widestPart; k = len(*p) {
		left, right := (*p)[k-2], (*p)[k-1]
		*p = (*p)[:k-2]
		set := slices.Concat(left.set, right.set)
		slices.Sort(set)
		left.release()
		right.release()
		*p = append(*p, columnsOf(dev, a, set))
	}
}

// minFirst is the least number of coordinates that a working set begins with, or grows by.
const minFirst = 64
