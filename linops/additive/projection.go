package additive

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/linops"
)

// Projection is the projection Pi of vectors of length d on the fits Z g of terms without a penalty, by least squares
// with weights W of the observations:
//
//	Pi = Z (Z* W Z)^+ Z* W.
type Projection interface {
	// Rank is that of Pi, the degrees of freedom of the terms.
	Rank() int
	// Remove sets z_i = (I - Pi) z_i for every vector of z.
	Remove(z array.Batch)
	// Diagonal is that of Pi; it must not be modified.
	Diagonal() []float64
	// Root holds R with W^{1/2} Pi W^{-1/2} = R* R, row-major, a row of length d for each of its rank; nil where it has
	// many entries that are 0.
	Root() []float64
	// Determined marks the observations at which Pi_ii is 1; nil where there are none. It must not be modified.
	Determined() []bool
	// Weighted reports whether W is not the identity: Pi is then not symmetric.
	Weighted() bool
	// Named says what the terms are, and what the columns of (I - Pi) A are, for messages.
	Named() (terms, columns string)
	// Pick is what remains of (I - Pi) A, given as a, where only the observations at increasing places are fitted.
	Pick(dev array.Device, a linops.Operator, rows []int) (*Picked, error)
}

// Constant is the projection of vectors of length d on the constants, Z being a column of ones: that of an intercept.
func Constant(d int) Projection { return constant(d) }

type constant int

// vectors are of the host, kept for reuse.
var vectors = sync.Pool{New: func() any { return new([]float64) }}

func (constant) Rank() int { return 1 }

func (c constant) Remove(z array.Batch) {
	dev, kept := z.Device(), vectors.Get().(*[]float64)
	defer vectors.Put(kept)
	*kept = slices.Grow((*kept)[:0], int(c))[:c]
	for i := range z.K() {
		row := z.Rows(i, i+1)
		dev.Download(*kept, row)
		floats.AddConst(-stat.Mean(*kept, nil), *kept)
		dev.Upload(row, *kept)
	}
}

func (c constant) Diagonal() []float64 { return slices.Repeat([]float64{1 / float64(c)}, int(c)) }

func (c constant) Root() []float64 {
	return slices.Repeat([]float64{1 / math.Sqrt(float64(c))}, int(c))
}

func (constant) Determined() []bool             { return nil }
func (constant) Weighted() bool                 { return false }
func (constant) Named() (terms, columns string) { return "intercept", "centered" }

// Named says what the effects are, and the columns without them.
func (e *Effects) Named() (terms, columns string) {
	return "effects of rows and columns", "those without the effects"
}
