package rewrite

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
)

// Synthesis is a problem with r(K b) in the coordinates z = K b, where the rows of K are
// independent: with some coordinates c = b_J of b such that M = [K; E_J*] is invertible, b = M^{-1} (z,
// c) and
//
//	min_{z,c}  1/2 ||A M^{-1} (z, c) - y||^2 + r(z)
//
// is a regression with c unpenalized (Tibshirani and Taylor, The solution path of the generalized
// lasso, 2011, section 3), which active sets solve exactly, along a path too. mu_hat and its derivative
// are the same.
//
// K* is factorized with its rows, the coordinates of b, in the
// order of pivots: K* = [L1; L2] U, with a unit lower triangle L1. With b_I the coordinates of L1, and
// b_J = c those of L2,
//
//	b_I = L1^{-*} (U^{-*} z - L2* c),
//	A M^{-1} = [ A_I L1^{-*} U^{-*},  A_J - A_I L1^{-*} L2* ].
//
// Where the columns of A differ in length all this is in units of b in which they have about length 1, A diag(s) and
// K diag(s): the pivots are then coordinates to which A is least sensitive, whose columns A_I are added to those of
// the others with small factors. In the user's units a column that is 10^8 times as long as another would leave
// rounding errors of it.
type Synthesis struct {
	engine.Unchanged
	problem engine.Problem
	k       linops.Operator
	q, dim  int
	order   []int          // I, then J
	units   []float64      // s; nil for the user's
	lu      blas64.General // dim x q
	sparse  *sparseFactor  // its entries; nil where they are many
	a       *linops.Dense  // A M^{-1}
}

// unit is that of coordinate j.
func (b *Synthesis) unit(j int) float64 {
	if b.units == nil {
		return 1
	}
	return b.units[j]
}

func (b *Synthesis) rest() []int { return b.order[b.q:] }

func (b *Synthesis) lower() blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Lower, Diag: blas.Unit, N: b.q, Stride: b.lu.Stride, Data: b.lu.Data}
}

func (b *Synthesis) upper() blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: b.q, Stride: b.lu.Stride, Data: b.lu.Data}
}

func (b *Synthesis) below() blas64.General {
	return blas64.General{Rows: b.dim - b.q, Cols: b.q, Stride: b.lu.Stride, Data: b.lu.Data[b.q*b.lu.Stride:]}
}

// steepestSynthesis is the condition of U up to which problems are solved in the coordinates of K b: A M^{-1} then has
// about nine correct digits.
const (
	steepestSynthesis = 1e7
	// cancelled is the share of the longest column of A M^{-1} below which one may be rounding errors.
	cancelled = 1e-8
)

// Synthesizes reports that the problem may be one of K b and a few coordinates of b, and that r is a sum
// over coordinates.
func Synthesizes(p engine.Problem) bool {
	r := prox.StructureOf(p.R)
	return p.K != nil && r.Sparse != nil && r.Groups == nil && OfMatrices(p)
}

// OfMatrices reports that A is a matrix, and K has no more rows than columns, of which there are few enough
// for it to be written down as one.
func OfMatrices(p engine.Problem) bool {
	a := linops.StructureOf(p.A)
	d, dim := p.A.Dims()
	q, _ := p.K.Dims()
	written := !a.Columns.Known && a.Passes.Bytes == 0 &&
		a.Entries.Known && (float64(d*dim) <= 4*a.Entries.Value || d*dim <= linops.MostDense)
	return written && d > 0 && 0 < q && q <= dim && dim <= limits.MostFactored
}

// AsksForSynthesis reports that active sets are asked for, and serve.
func AsksForSynthesis(s *engine.Task) bool {
	return s.Entry.ActiveSet && !s.Options.Whole && s.Quadratic && Synthesizes(s.Problem)
}

// notIndependent is the choice where the rows of K turn out to depend on each other.
var notIndependent = engine.Choice{Part: "coordinates", Chosen: "b's",
	Reason: fmt.Sprintf("the rows of K depend on each other, or nearly, as A sees b (a condition number beyond %.0e)",
		float64(steepestSynthesis))}

// Coordinates changes the coordinates of a problem with r(K b), of which [OfMatrices] holds; nil where the rows of K
// depend on each other.
func Coordinates(ctx context.Context, p engine.Problem) (engine.Rewriting, error) {
	b, err := FactorRows(ctx, p)
	if b == nil || err != nil {
		return nil, err
	}
	if err := b.change(ctx, p); err != nil {
		return nil, err
	}
	return b, nil
}

// ByCoordinates solves in the coordinates K b. Where that is not possible, the method that is next takes over.
func ByCoordinates(ctx context.Context, s engine.Task) (engine.Solver, error) {
	w, err := Coordinates(ctx, s.Problem)
	if err != nil {
		return nil, err
	}
	if w == nil {
		s.Options.Choices = s.Options.Before("coordinates")
		s.Options = s.Options.With(notIndependent)
		return chooseInstead(ctx, s)
	}
	return by(ctx, s, w, use{
		next:    s.Tables.Loss,
		serves:  func(t *engine.Task) bool { return Synthesizes(t.Problem) },
		instead: chooseInstead,
	})
}

func chooseInstead(ctx context.Context, s engine.Task) (engine.Solver, error) {
	s.Entry = s.Tables.Instead(s.Entry.Name, s.Problem)
	return s.Tables.Rows(ctx, s)
}

func (b *Synthesis) Problem() engine.Problem { return b.problem }

// Regularizer is r(z) with nothing on c. It refers to r.
func (b *Synthesis) Regularizer(r prox.Prox) (prox.Prox, bool, error) {
	if r.Dim() == 0 {
		r = prox.Block{Prox: r, N: b.q}
	}
	if len(b.rest()) == 0 {
		return r, false, nil
	}
	return prox.NewSeparable(r, prox.Block{Prox: prox.Zero(), N: len(b.rest())}), false, nil
}

func (b *Synthesis) change(ctx context.Context, p engine.Problem) error {
	x := linops.ToDense(p.Device, p.A)
	d, _ := x.Dims()
	out := mat.NewDense(d, b.dim, nil)
	b.sparse = sparseFactorOf(b.lu)
	parallel.Ranges(d, parallel.Panel, func(lo, hi int) {
		if ctx.Err() == nil {
			b.turn(out.RawMatrix(), x, lo, hi)
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	b.cancel(out, x)
	b.a = linops.NewDense(p.Device, out)
	b.problem = p
	b.problem.A, b.problem.K = b.a, nil
	return p.Device.Err()
}

// cancel sets columns of out = x M^{-1} to 0 where all that is left of the terms of their sums is
// rounding errors: along such a coordinate b would not be bounded.
func (b *Synthesis) cancel(out, x *mat.Dense) {
	lengths, largest := numerics.ColumnLengths(out), 0.0
	for j, length := range numerics.ColumnLengths(x) {
		largest = max(largest, length*b.unit(j))
	}
	top := slices.Max(lengths)
	for j, length := range lengths {
		if length > cancelled*top || length == 0 {
			continue
		}
		unit, size := make([]float64, b.dim), 0.0
		unit[j] = 1
		for i, v := range b.lift(unit) {
			size = math.Hypot(size, v/b.unit(i))
		}
		if length <= engine.Roundings*engine.Epsilon*largest*size {
			for i := range out.RawMatrix().Rows {
				out.Set(i, j, 0)
			}
		}
	}
}

// turn sets some rows of out to those of x M^{-1}.
func (b *Synthesis) turn(out blas64.General, x *mat.Dense, from, to int) {
	for i := from; i < to; i++ {
		row, dst := x.RawRowView(i), out.Data[i*out.Stride:][:b.dim]
		for at, j := range b.order {
			dst[at] = row[j] * b.unit(j)
		}
		if b.sparse != nil {
			b.sparse.turn(dst)
		}
	}
	if b.sparse != nil {
		return
	}
	part := blas64.General{Rows: to - from, Cols: b.q, Stride: out.Stride, Data: out.Data[from*out.Stride:]}
	blas64.Trsm(blas.Right, blas.Trans, 1, b.lower(), part)
	if m := b.dim - b.q; m > 0 {
		rest := blas64.General{Rows: to - from, Cols: m, Stride: out.Stride, Data: part.Data[b.q:]}
		blas64.Gemm(blas.NoTrans, blas.Trans, -1, part, b.below(), 1, rest)
	}
	blas64.Trsm(blas.Right, blas.Trans, 1, b.upper(), part)
}

// FactorRows factors K; nil where its rows depend on each other.
func FactorRows(ctx context.Context, p engine.Problem) (*Synthesis, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q, dim := p.K.Dims()
	progress.From(ctx)(progress.Report{Stage: progress.Factorization, Steps: q})
	b := &Synthesis{k: p.K, q: q, dim: dim, order: make([]int, dim), units: engine.UnequalColumns(p)}
	b.lu = mat.DenseCopyOf(linops.ToDense(p.Device, p.K).T()).RawMatrix()
	lengths2 := make([]float64, q) // of K's rows
	for j := range dim {
		for i, row := 0, b.lu.Data[j*b.lu.Stride:][:q]; i < q; i++ {
			row[i] *= b.unit(j)
			lengths2[i] += row[i] * row[i]
		}
	}
	swaps := make([]int, q)
	if !lapack64.Getrf(b.lu, swaps) {
		return nil, nil
	}
	for i := range b.order {
		b.order[i] = i
	}
	for i, j := range swaps {
		b.order[i], b.order[j] = b.order[j], b.order[i]
	}
	if !(b.reciprocalCondition(lengths2)*steepestSynthesis >= 1) {
		return nil, nil
	}
	return b, ctx.Err()
}

// reciprocalCondition is one over the condition of U where K's rows, whose squared lengths are given, are scaled to
// length 1: the units of K b do not matter.
func (b *Synthesis) reciprocalCondition(lengths2 []float64) float64 {
	u := b.upper()
	even := blas64.Triangular{Uplo: u.Uplo, Diag: u.Diag, N: b.q, Stride: b.q, Data: make([]float64, b.q*b.q)}
	for i := range b.q {
		for j := i; j < b.q; j++ {
			even.Data[i*b.q+j] = u.Data[i*u.Stride+j] / math.Sqrt(lengths2[j])
		}
	}
	return lapack64.Trcon(lapack.MaxRowSum, even, make([]float64, 3*b.q), make([]int, b.q))
}

// Multiplier is [solve.Multiplier] where K's rows are independent, so that K* u = g has one solution: with the
// residual r of y on the columns of c, and g = A* r, it is u = U^{-1} L1^{-1} g_I.
func (b *Synthesis) Multiplier(p engine.Problem, y array.Batch) (array.Batch, error) {
	dev := p.Device
	d, _ := p.A.Dims()
	r, g, u := dev.Alloc(1, d), dev.Alloc(1, b.dim), dev.Alloc(1, b.q)
	defer array.Free(r, g)
	dev.Copy(r, y)
	if m := len(b.rest()); m > 0 {
		units, x, images := make([]float64, m*b.dim), dev.Alloc(m, b.dim), dev.Alloc(m, d)
		for i := range m {
			units[i*b.dim+b.q+i] = 1
			copy(units[i*b.dim:(i+1)*b.dim], b.lift(units[i*b.dim:(i+1)*b.dim]))
		}
		dev.Upload(x, units)
		p.A.Forward(images, x)
		host := mat.DenseCopyOf(mat.NewDense(m, d, images.ToHost()).T())
		array.Free(x, images)
		if f := pivoted.Factorize(host, nil, mat.Norm(host, 2), 0); f.Rank > 0 {
			var on, projection mat.VecDense
			left := mat.NewVecDense(d, r.ToHost())
			on.MulVec(f.Q.T(), left)
			projection.MulVec(f.Q, &on)
			left.SubVec(left, &projection)
			dev.Upload(r, left.RawVector().Data)
		}
	}
	p.A.Adjoint(g, r)
	all, host := g.ToHost(), make([]float64, b.q)
	for i, j := range b.order[:b.q] {
		host[i] = all[j] * b.unit(j)
	}
	v := blas64.Vector{N: b.q, Inc: 1, Data: host}
	blas64.Trsv(blas.NoTrans, b.lower(), v)
	blas64.Trsv(blas.NoTrans, b.upper(), v)
	dev.Upload(u, host)
	if err := dev.Err(); err != nil {
		u.Free()
		return array.Batch{}, err
	}
	return u, nil
}

func (b *Synthesis) lift(x []float64) []float64 {
	out, t := make([]float64, b.dim), slices.Clone(x[:b.q])
	v := blas64.Vector{N: b.q, Inc: 1, Data: t}
	blas64.Trsv(blas.Trans, b.upper(), v)
	if m := b.dim - b.q; m > 0 {
		blas64.Gemv(blas.Trans, -1, b.below(), blas64.Vector{N: m, Inc: 1, Data: x[b.q:]}, 1, v)
	}
	blas64.Trsv(blas.Trans, b.lower(), v)
	for i, j := range b.order {
		v := x[i]
		if i < b.q {
			v = t[i]
		}
		out[j] = v * b.unit(j)
	}
	return out
}

func (b *Synthesis) Start(x array.Batch) (array.Batch, bool) {
	dev := x.Device()
	to := dev.Alloc(1, b.dim)
	b.k.Forward(to.Cols(0, b.q), x)
	if rest := b.rest(); len(rest) > 0 {
		all, c := x.ToHost(), make([]float64, len(rest))
		for i, j := range rest {
			c[i] = all[j] / b.unit(j)
		}
		dev.Upload(to.Cols(b.q, b.dim), c)
	}
	return to, true
}

func (b *Synthesis) Deliver(x, _, _ array.Batch) error {
	x.Device().Upload(x, b.lift(x.ToHost()))
	return nil
}

func (b *Synthesis) Release() { b.a.Release() }
