package system

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/space"
)

const (
	// leastPivot is the square of the part of a column, of length one, beyond those before it, up to which it may be a
	// combination of these.
	leastPivot = 1e-9
	// leastDependent are the operations of a QR factorization, d n^2, from which the search for such pays.
	leastDependent = 1 << 19
)

// withoutDependent is Factor without columns that are combinations of the others up to rounding errors, such as the
// last class of a variable of which all classes count; nil where there are none, or others are in doubt. Without
// curvature they change nothing: D mu_hat is the projection on the span of M's columns. A Cholesky factorization with
// pivots of the Gram matrix names them, and their distances from the span, computed from the columns themselves, prove
// it.
func (e *Equations) withoutDependent(ctx context.Context, dev array.Device, on onSpace, scale []float64) (System, Fit,
	error) {
	n, form := len(scale), on.space.Form()
	subset := form.Kind == space.Subset
	if e.Q != nil || e.Combined || on.d*n*n < leastDependent || !subset && form.Kind != space.Whole ||
		slices.Contains(scale, 0) {
		return nil, Fit{}, nil
	}
	gram := make([]float64, n*n)
	for i := range n {
		for j := i; j < n; j++ {
			gram[i*n+j] = e.Gram[i*n+j] * scale[i] * scale[j]
		}
	}
	pivot := make([]int, n)
	_, rank, _ := lapack64.Pstrf(blas64.Symmetric{Uplo: blas.Upper, N: n, Data: gram, Stride: n}, pivot, leastPivot,
		make([]float64, 2*n))
	if rank == n || rank == 0 || ctx.Err() != nil {
		return nil, Fit{}, ctx.Err()
	}
	kept, left := slices.Sorted(slices.Values(pivot[:rank])), slices.Sorted(slices.Values(pivot[rank:]))
	some := Equations{M: e.M, Norm: e.Norm, Optimality: e.Optimality, Certain: e.Certain,
		Gram: make([]float64, 0, rank*rank)}
	units, set := make([]float64, rank), make([]int, rank)
	for k, i := range kept {
		if units[k], set[k] = scale[i], i; subset {
			set[k] = form.Set[i]
		}
		for _, j := range kept {
			some.Gram = append(some.Gram, e.Gram[i*n+j])
		}
	}
	inverse, condition := some.cholesky(units)
	if inverse == nil || 1/math.Sqrt(condition) <= e.doubt() {
		return nil, Fit{}, nil
	}
	p, _ := on.space.Dims()
	inner, whole := space.Coordinates(dev, n, kept), space.Coordinates(dev, p, set)
	m, _ := linops.On(dev, e.M, inner)
	some.M, some.Space = m, whole
	held := array.Owning(m, inner, whole, e.M)
	within := onSpace{direct{Base{d: on.d, Held: held}}, m, whole, rank}
	out := space.Coordinates(dev, n, left)
	defer out.Release()
	rest, _ := linops.On(dev, e.M, out)
	defer rest.Release()
	made, fit, err := newInverted(dev, within, some, inverse, condition)
	if err != nil {
		return nil, fit, err
	}
	doubtful, sure := beyond(dev, made, rest, lists.Pick(scale, left), e.doubt())
	if !sure {
		array.Free(made.inverse)
		m.Release()
		inner.Release()
		whole.Release()
		return nil, Fit{}, dev.Err()
	}
	made.closed.High += float64(doubtful)
	fit.By = " by Cholesky's method, without columns that are combinations of others"
	return made, fit, nil
}

// beyond is the number of directions that columns, in units in which they have length one, have beside those of the
// system, where they are all in doubt, as [pivoted.Factorize] decides; sure is false where they are not.
func beyond(dev array.Device, of *inverted, columns linops.Operator, units []float64, doubt float64) (n int,
	sure bool) {
	x := linops.Images(dev, columns)
	k := x.K()
	t, c, back := dev.Alloc(k, of.n), dev.Alloc(k, of.n), dev.Alloc(k, of.d)
	defer array.Free(x, t, c, back)
	norms := make([]float64, k)
	for range 2 { // the second time removes the rounding errors of the first
		of.m.Adjoint(t, x)
		dev.Gemm(false, false, 1, t, of.inverse, 0, c)
		of.m.Forward(back, c)
		dev.Lin(x, 1, x, -1, back)
		dev.Dot(norms, x, x)
		most := 0.0
		for i, v := range norms {
			most = max(most, math.Sqrt(v)*units[i])
		}
		if most <= pivoted.LeastPivot(of.d, of.n+k) {
			return 0, dev.Err() == nil
		}
	}
	left := mat.NewDense(k, of.d, x.ToHost())
	for i, unit := range units {
		floats.Scale(unit, left.RawRowView(i))
	}
	f := pivoted.Factorize(left.T(), nil, 1, doubt)
	return f.Rank, f.Sure == 0 && dev.Err() == nil
}
