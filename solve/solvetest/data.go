package solvetest

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
)

// Gaussian is n standard normal numbers.
func Gaussian(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// LowRankMatrix is a matrix of rank 3, its values about size, plus noise.
func LowRankMatrix(rng *rand.Rand, shape array.Shape, size, noise float64) []float64 {
	const rank = 3
	left, right := mat.NewDense(shape.Rows, rank, Gaussian(rng, shape.Rows*rank)),
		mat.NewDense(rank, shape.Cols, Gaussian(rng, rank*shape.Cols))
	var x mat.Dense
	x.Mul(left, right)
	y := x.RawMatrix().Data
	scale := size / floats.Norm(y, 2)
	for i := range y {
		y[i] = scale*y[i] + noise*rng.NormFloat64()
	}
	return y
}

// Completion is a noisy sample of a matrix of rank 4.
func Completion(t testing.TB, dev array.Device, shape array.Shape, d int) (*linops.Selection, []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(shape.Rows), uint64(d)))
	const rank = 4
	left, right := mat.NewDense(shape.Rows, rank, Gaussian(rng, shape.Rows*rank)),
		mat.NewDense(rank, shape.Cols, Gaussian(rng, rank*shape.Cols))
	var truth mat.Dense
	truth.Mul(left, right)
	idx := rng.Perm(shape.Len())[:d]
	a, err := linops.NewSelection(dev, shape.Len(), idx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Release)
	y := make([]float64, d)
	for i, j := range idx {
		y[i] = truth.RawMatrix().Data[j] + 0.3*rng.NormFloat64()
	}
	return a, y
}

// CompletionCase is a matrix completion, and the solver that it is for.
type CompletionCase struct {
	Name   string
	Solver string
	Shape  array.Shape
	// D is the number of observed entries.
	D      int
	Lambda float64 // or, negative, minus the multiple of the largest useful one
	Offset float64 // of all entries
}

// Weight is lambda.
func (c CompletionCase) Weight(t testing.TB, dev array.Device, a linops.Operator, y []float64) float64 {
	t.Helper()
	if c.Lambda > 0 {
		return c.Lambda
	}
	z, v := dev.Alloc(1, c.D), dev.Alloc(1, c.Shape.Len())
	defer z.Free()
	defer v.Free()
	dev.Upload(z, y)
	a.Adjoint(v, z)
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(c.Shape.Rows, c.Shape.Cols, v.ToHost()), mat.SVDNone) {
		t.Fatal("no singular values")
	}
	return -c.Lambda * svd.Values(nil)[0]
}

// On is the case itself, or one of half the size where the card is emulated; a whole matrix
// takes few steps at any size.
func (c CompletionCase) On(t testing.TB, dev array.Device) CompletionCase {
	t.Helper()
	if arraytest.Emulated(t, dev) && c.D < c.Shape.Len() {
		c.Shape = array.Shape{Rows: c.Shape.Rows / 2, Cols: c.Shape.Cols / 2}
		c.D = max(c.D/4, min(c.D, 5))
		if c.Lambda > 0 {
			c.Lambda /= 2
		}
	}
	return c
}

// CompletionCases are of all shapes, ranks and sizes of lambda.
var CompletionCases = []CompletionCase{
	{"tall", "fista", array.Shape{Rows: 170, Cols: 130}, 6000, 6, 0},
	{"wide", "fista", array.Shape{Rows: 128, Cols: 190}, 6000, 6, 0},
	{"ista", "ista", array.Shape{Rows: 150, Cols: 130}, 9000, 12, 0},
	{"rank grows and shrinks", "fista", array.Shape{Rows: 150, Cols: 150}, 8000, 4, 0},
	{"high rank", "fista", array.Shape{Rows: 90, Cols: 80}, 3000, 1, 0},
	{"near the largest lambda", "fista", array.Shape{Rows: 150, Cols: 130}, 5000, -0.999, 0},
	{"beyond it", "fista", array.Shape{Rows: 150, Cols: 130}, 5000, -1.01, 0},
	{"all entries", "fista", array.Shape{Rows: 150, Cols: 130}, 150 * 130, 9, 0},
	{"five entries", "fista", array.Shape{Rows: 150, Cols: 130}, 5, 0.1, 0},
	{"one large value", "fista", array.Shape{Rows: 80, Cols: 70}, 3000, 8, 300},
	{"a larger one", "fista", array.Shape{Rows: 40, Cols: 35}, 750, 4, 300},
}
