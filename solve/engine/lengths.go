package engine

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/internal/limits"
)

// ColumnLengths2 are the squared lengths of A's columns; nil where A does not report them and there
// are too many to compute.
func ColumnLengths2(p Problem) []float64 {
	d, dim := p.A.Dims()
	if known := linops.StructureOf(p.A).ColumnNorms2; known != nil && dim <= math.MaxInt32 {
		return known()
	}
	if dim > limits.MaxDense || dim == 0 || d == 0 {
		return nil
	}
	return columnSquares(linops.ToDense(p.Device, p.A))
}

func columnSquares(x *mat.Dense) []float64 {
	d, dim := x.Dims()
	squares := make([]float64, dim)
	for i := range d {
		for j, v := range x.RawRowView(i) {
			squares[j] += v * v
		}
	}
	return squares
}

// The lengths of columns are estimated from lengthDraws random vectors, LengthsAtOnce at a time. Those of a
// million columns of one length then differ by a factor of 3 at most.
const lengthDraws, LengthsAtOnce = 32, 8

// EstimatedLengths2 are the squared lengths of A's columns up to some 25%, from products with it: for random
// signs z, E (A* z)_j^2 = ||a_j||^2.
func EstimatedLengths2(p Problem) []float64 {
	d, dim := p.A.Dims()
	dev := p.Device.Request()
	z, v := dev.Alloc(LengthsAtOnce, d), dev.Alloc(LengthsAtOnce, dim)
	defer z.Free()
	defer v.Free()
	sum := dev.Alloc(1, dim)
	each := dev.Put(slices.Repeat([]float64{1. / lengthDraws}, LengthsAtOnce), 1, LengthsAtOnce)
	defer sum.Free()
	defer each.Free()
	rng := rand.New(rand.NewPCG(0x6c656e, uint64(dim)))
	signs := make([]float64, LengthsAtOnce*d)
	dev.Fill(sum, 0)
	for range lengthDraws / LengthsAtOnce {
		for i := range signs {
			signs[i] = float64(1 - 2*int(rng.Uint64()&1))
		}
		dev.Upload(z, signs)
		p.A.Adjoint(v, z)
		dev.Mul(v, v, v)
		dev.Gemm(false, false, 1, each, v, 1, sum)
	}
	return sum.ToHost()
}

// EvenColumns reports that the lengths of A's columns do not differ much, by what A knows of all of
// them, or where A, or each part of A = [A1 A2 ...], has orthogonal columns of one length: there is no
// need to list them.
func EvenColumns(a linops.Operator) bool {
	if span := linops.StructureOf(a).ColumnSpread; span != nil {
		least, most := span()
		return !Spread([]float64{least, most}, nil)
	}
	parts := linops.StructureOf(a).Beside
	if len(parts) == 0 {
		parts = []linops.Operator{a}
	}
	lengths2 := make([]float64, len(parts))
	for i, part := range parts {
		c := linops.StructureOf(part).Columns
		if lengths2[i] = c.Value; !c.Known {
			return false
		}
	}
	return !Spread(lengths2, nil)
}

// UnequalLengths2 are the squared lengths of A's columns where these differ much; else nil.
func UnequalLengths2(p Problem) []float64 {
	if EvenColumns(p.A) {
		return nil
	}
	if lengths2 := ColumnLengths2(p); Spread(lengths2, nil) {
		return lengths2
	}
	return nil
}

// UnequalColumns are units in which A's columns have about length 1, where they differ much; else nil.
func UnequalColumns(p Problem) []float64 {
	if lengths2 := UnequalLengths2(p); lengths2 != nil {
		return unitsOf(lengths2)
	}
	return nil
}

func unitsOf(lengths2 []float64) []float64 {
	return lists.Map(lengths2, func(v float64) float64 { return numerics.Unit(math.Sqrt(v)) })
}

// widestSpread is the ratio of the columns' lengths up to which their units are kept.
const widestSpread = 8

// Spread reports whether the columns of A, in units s, differ much in length.
func Spread(lengths2, s []float64) bool {
	least, most := math.Inf(1), 0.0
	for j, v := range lengths2 {
		if s != nil {
			v *= s[j] * s[j]
		}
		if v > most && v <= math.MaxFloat64 {
			most = v
		}
		if v < least && v > 0 {
			least = v
		}
	}
	return most > widestSpread*widestSpread*least
}

// InverseLengths is 1/||a_j||, 0 for columns of zeros.
func InverseLengths(lengths2 []float64) []float64 {
	out := make([]float64, len(lengths2))
	for j, v := range lengths2 {
		if v > 0 {
			out[j] = 1 / math.Sqrt(v)
		}
	}
	return out
}

// ColumnUnits returns s, nil where the lengths of the columns are similar or r has no other units.
func ColumnUnits(r prox.Prox, lengths2 []float64) []float64 {
	known := prox.StructureOf(r)
	if known.Rescale == nil || !Spread(lengths2, nil) {
		return nil
	}
	s := unitsOf(lengths2)
	known.Units(s)
	for _, v := range s {
		if v != 1 {
			return s
		}
	}
	return nil
}
