package problems

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
)

const (
	// leastInformation is the information u* l^(2) u of a direction u of z, whose largest entry is 1, below which the
	// likelihood is flat along it. A class, level or group with an event has about 1 or more.
	leastInformation = 1e-4
	// mostUnbounded bounds the work of Unbounded: d p^2.
	mostUnbounded = 1e10
	// dependent is the share of the largest eigenvalue of a Gram matrix of columns of length 1 below which they depend
	// on each other.
	dependent = 1e-10
	// shareOfFlat is the share of the largest coefficient of flat directions above which a column is named.
	shareOfFlat = 0.3
	// shareMoved is the share of the largest entry of a flat direction above which it moves an observation.
	shareMoved = 1e-3
)

// Unbounded are the columns of X, counted with those of classes or the intercept at the end, whose coefficients no
// penalty bounds and the likelihood does not either: at the fit z it is flat along a direction of them, as where a
// category has observations of one class only (complete or quasi-complete separation), and observations are how many of
// those this direction moves. What is flat of itself, such as a constant in all classes, does not count.
func (p *Problem) Unbounded(y, z []float64) (columns []int, observations int) {
	free := p.unpenalized()
	d, n := p.Operator.Dims()
	known := loss.StructureOf(p.loss)
	if p.loss == nil || !known.Likelihood || loss.Quadratic(p.loss) || len(free) == 0 || len(z) != d ||
		float64(d)*float64(n)*float64(n) > mostUnbounded {
		return nil, 0
	}
	at, observed, second := p.dev.Put(z, 1, d), p.dev.Put(y, 1, d), p.dev.Alloc(1, d)
	defer array.Free(at, observed, second)
	if p.loss.Curvature(second, at, observed); known.Joint == nil &&
		floats.Min(second.ToHost()) > leastInformation {
		return nil, 0
	}
	x, w := p.curved(free, at, observed)
	each := max(known.Each, 1)
	constant := each
	if known.Joint != nil {
		constant = d
	}
	flat, moved := flatColumns(x, w, constant)
	for part := range slices.Chunk(moved, each) {
		if slices.Contains(part, true) {
			observations++
		}
	}
	return lists.Pick(free, flat), observations
}

// curved are columns of the operator, as rows, and l^(2) times them.
func (p *Problem) curved(columns []int, at, observed array.Batch) (x, w *mat.Dense) {
	images := linops.Images(p.dev, p.Operator)
	weighed := p.dev.Alloc(images.K(), images.N())
	defer array.Free(images, weighed)
	applyCurvature(weighed, images, at, observed, p.loss, loss.StructureOf(p.loss).Coupled)
	return rowsOf(images, columns), rowsOf(weighed, columns)
}

// unpenalized are the coordinates that the regularizer leaves free.
func (p *Problem) unpenalized() []int {
	known := prox.StructureOf(p.Regularizer).Sparse
	if known == nil || p.Behind != nil {
		return nil
	}
	_, n := p.Operator.Dims()
	w, q, positive := known(n)
	return lists.Places(n, func(j int) bool {
		return w.At(j) == 0 && q.At(j) == 0 && (positive == nil || !positive[j])
	})
}

func rowsOf(b array.Batch, rows []int) *mat.Dense {
	some := mat.NewDense(len(rows), b.N(), nil)
	for i, j := range rows {
		b.Device().Download(some.RawRowView(i), b.Rows(j, j+1))
	}
	return some
}

// flatColumns finds the directions u in the span of the rows of x along which the information u* l^(2) u is next to 0,
// with w = l^(2) x: the rows with the largest coefficients in them, and the entries that they move. A constant in so
// many consecutive entries is taken off, where they are several: it changes nothing.
func flatColumns(x, w *mat.Dense, constant int) (columns []int, moved []bool) {
	inUnits(x, w, constant)
	basis, information, err := informationOf(x, w)
	if err != nil {
		return nil, nil
	}
	values, v, err := numerics.Eigen(information)
	if err != nil {
		return nil, nil
	}
	n, d := x.Dims()
	sizes := make([]float64, n)
	moved = make([]bool, d)
	var direction, u mat.VecDense
	for k, value := range values {
		direction.MulVec(basis, v.ColView(k))
		u.MulVec(x.T(), &direction)
		most := mat.Norm(&u, math.Inf(1))
		if value > leastInformation*most*most {
			break
		}
		for j := range sizes {
			sizes[j] = math.Hypot(sizes[j], direction.AtVec(j))
		}
		for i := range moved {
			moved[i] = moved[i] || math.Abs(u.AtVec(i)) > shareMoved*most
		}
	}
	largest := floats.Max(sizes)
	return lists.Places(n, func(j int) bool { return sizes[j] > shareOfFlat*largest }), moved
}

// inUnits gives the rows of x mean 0 in parts of so many entries, where these are several, and length 1, and divides
// those of w alike.
func inUnits(x, w *mat.Dense, constant int) {
	n, _ := x.Dims()
	for j := range n {
		row := x.RawRowView(j)
		if constant > 1 {
			for part := range slices.Chunk(row, constant) {
				floats.AddConst(-floats.Sum(part)/float64(len(part)), part)
			}
		}
		if size := floats.Norm(row, 2); size > 0 {
			floats.Scale(1/size, row)
			floats.Scale(1/size, w.RawRowView(j))
		}
	}
}

// informationOf is x w* in an orthonormal basis of the rows of x, whose columns are coefficients of these.
func informationOf(x, w *mat.Dense) (basis *mat.Dense, information *mat.SymDense, err error) {
	n, _ := x.Dims()
	var gram, all, half, inside mat.Dense
	gram.Mul(x, x.T())
	values, v, err := numerics.Eigen(numerics.Symmetrized(gram.RawMatrix().Data, n))
	if err != nil {
		return nil, nil, err
	}
	first, _ := slices.BinarySearch(values, dependent*values[n-1])
	basis = mat.DenseCopyOf(v.Slice(0, n, first, n))
	basis.Apply(func(_, k int, c float64) float64 { return c / math.Sqrt(values[first+k]) }, basis)
	all.Mul(x, w.T())
	half.Mul(&all, basis)
	inside.Mul(basis.T(), &half)
	return basis, numerics.Symmetrized(inside.RawMatrix().Data, n-first), nil
}
