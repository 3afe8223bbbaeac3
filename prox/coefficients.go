package prox

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/internal/vector"
)

// coefficients are numbers of the coordinates, such as weights or bounds: one number for all
// coordinates of vectors of any length, or a list.
type coefficients struct {
	one  float64     // the number; 1 where there is a list, so that one times on is the vector
	list []float64   // nil for one number
	on   array.Batch // the list on a device
}

func uniform(c float64) coefficients { return coefficients{one: c} }

func listed(dev array.Device, list []float64) coefficients {
	c := coefficients{one: 1, list: list, on: dev.Alloc(1, len(list))}
	dev.Upload(c.on, list)
	return c
}

func (c *coefficients) at(j int) float64 {
	if c.list == nil {
		return c.one
	}
	return c.list[j]
}

// none reports one number that is 0.
func (c *coefficients) none() bool { return c.list == nil && c.one == 0 }

// infinite reports one number that is infinite.
func (c *coefficients) infinite() bool { return c.list == nil && math.IsInf(c.one, 0) }

// over lists the numbers of n coordinates; nil for one number that is 0. The caller must not modify
// the list.
func (c *coefficients) over(n int) []float64 {
	if c.list != nil || c.none() {
		return c.list
	}
	return slices.Repeat([]float64{c.one}, n)
}

// times puts f(c_j, s_j) on dev; one number that is 0 or infinite remains one.
func (c *coefficients) times(dev array.Device, s []float64, f func(c, s float64) float64) coefficients {
	if c.none() || c.infinite() {
		return *c
	}
	out := make([]float64, len(s))
	for j, v := range s {
		out[j] = f(c.at(j), v)
	}
	return listed(dev, out)
}

func (c *coefficients) pick(dev array.Device, set []int) coefficients {
	if c.list == nil {
		return *c
	}
	return listed(dev, lists.Pick(c.list, set))
}

// vector is the numbers as a batch of one vector of length n, to be given to done after use.
func (c *coefficients) vector(dev array.Device, n int) array.Batch {
	if c.list != nil {
		return c.on
	}
	b := dev.Alloc(1, n)
	dev.Fill(b, c.one)
	return b
}

func (c *coefficients) done(b array.Batch) {
	if c.list == nil {
		b.Free()
	}
}

// product is c s, entry by entry, in a new slice; nil for nil.
func product(c float64, s []float64) []float64 {
	if s == nil {
		return nil
	}
	return lists.Map(s, func(v float64) float64 { return vector.Times(c, v) })
}

// where lists the coordinates below n at which a condition holds.
func where(n int, holds func(j int) bool) []int {
	var set []int
	for j := range n {
		if holds(j) {
			set = append(set, j)
		}
	}
	return set
}
