package prox

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/internal/vector"
)

// Numbers are numbers of the coordinates, such as weights: One for all coordinates of vectors of any length, or where
// that is not nil a List.
type Numbers struct {
	One  float64
	List []float64
}

// At is the number of coordinate j.
func (c *Numbers) At(j int) float64 {
	if c.List == nil {
		return c.One
	}
	return c.List[j]
}

// Map is f of the numbers.
func (c *Numbers) Map(f func(float64) float64) Numbers {
	if c.List == nil {
		return Numbers{One: f(c.One)}
	}
	return Numbers{List: lists.Map(c.List, f)}
}

// Any reports that a condition holds for one of the numbers.
func (c *Numbers) Any(holds func(float64) bool) bool {
	if c.List == nil {
		return holds(c.One)
	}
	return slices.ContainsFunc(c.List, holds)
}

// coefficients are numbers of the coordinates with their list on a device. There One is 1, so that One times on is the
// vector.
type coefficients struct {
	Numbers
	on array.Batch
}

func uniform(c float64) coefficients { return coefficients{Numbers: Numbers{One: c}} }

func listed(dev array.Device, list []float64) coefficients {
	c := coefficients{Numbers{1, list}, dev.Alloc(1, len(list))}
	dev.Upload(c.on, list)
	return c
}

// none reports one number that is 0.
func (c *coefficients) none() bool { return c.List == nil && c.One == 0 }

// infinite reports one number that is infinite.
func (c *coefficients) infinite() bool { return c.List == nil && math.IsInf(c.One, 0) }

// times puts f(c_j, s_j) on dev; one number that is 0 or infinite remains one.
func (c *coefficients) times(dev array.Device, s []float64, f func(c, s float64) float64) coefficients {
	if c.none() || c.infinite() {
		return *c
	}
	out := lists.Make(len(s), func(j int) float64 { return f(c.At(j), s[j]) })
	return listed(dev, out)
}

func (c *coefficients) pick(dev array.Device, set []int) coefficients {
	if c.List == nil {
		return *c
	}
	return listed(dev, lists.Pick(c.List, set))
}

// vector is the numbers as a batch of one vector of length n, to be given to done after use.
func (c *coefficients) vector(dev array.Device, n int) array.Batch {
	if c.List != nil {
		return c.on
	}
	b := dev.Alloc(1, n)
	dev.Fill(b, c.One)
	return b
}

func (c *coefficients) done(b array.Batch) {
	if c.List == nil {
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
