package system

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/space"
)

// Equations are K = M*M + Q for M = A E, which has n columns, to be factored.
type Equations struct {
	// M is taken over by the system that Factor returns. Space is that of E.
	M     linops.Restricted
	Space space.Space
	// Gram is M*M, nil where it has to be computed, and Q the curvature, nil where that is 0: n x n,
	// row-major.
	Gram, Q []float64
	// Combined says that the columns of M combine columns of A, whose lengths squared are Lengths2, nil where
	// they are not known or about equal: directions in the null space of A are then recognized relative to
	// what is combined, or to ||A||. Else a column is judged by its own length.
	Combined bool
	Lengths2 []float64
	// Norm is ||A||, or a bound of it.
	Norm float64
	// Optimality is that of the solution. Certain says that directions are in the space whatever the error
	// of b is.
	Optimality float64
	Certain    bool
}

// Fit says how equations were factored.
type Fit struct {
	// By is the method, as the end of a sentence.
	By string
	// Sensitive says that the error of b may change Q by enough to matter.
	Sensitive bool
}

// WellConditioned is the largest condition number of a system, scaled to a diagonal of ones, that a Cholesky
// factorization solves to six digits; leastSeen is how small a diagonal entry may be relative to ||A||^2 where
// the columns of M are not scaled. Where they are, curvature below rounded times ||A||^2 in a
// coordinate whose column is 0 comes from rounding errors, and scaled to one it would become a
// direction of its own. sensitivity is the error of b, relative to its size, up to which the curvature at b is
// accurate enough.
const (
	WellConditioned = 1e10
	leastSeen       = 1e-8
	rounded         = 1e-20
	sensitivity     = 1e-5
)

type onSpace struct {
	direct
	m     linops.Operator
	space space.Space
	n     int
}

// Factor factors K, by Cholesky's method where it is well conditioned with its diagonal scaled to one, else by a
// pivoted QR factorization of M on top of a root of Q, in which ranks are decided ([pivoted.Factorize]). The
// trace, the Frobenius norm and the diagonal come from the same factors.
func Factor(ctx context.Context, dev array.Device, e Equations) (System, Fit, error) {
	d, n := e.M.Dims()
	if s := e.kronecker(dev); s != nil {
		trace, frobenius2 := s.Traces()
		on := onSpace{direct{Base{d: d, Held: array.Owning(e.M)}}, e.M, e.Space, n}
		made := &inverted{onSpace: on}
		var held array.Held
		columns, _ := s.M.Dims()
		made.times, held = onDevice(dev, s, n/columns)
		made.Hold(held...)
		made.know(dev, Conditioned(trace, frobenius2, s.Condition, d, n))
		made.closed.Blocks = e.blocksOf(dev, s, n/columns)
		return made, Fit{" by Cholesky's method on the columns", Sensitive(e.Q == nil, e.Optimality, s.Condition)}, nil
	}
	if e.Gram == nil {
		progress.From(ctx)(progress.Report{Stage: progress.Gram, Steps: n})
		e.Gram = linops.GramOf(dev, e.M)
	}
	if err := ctx.Err(); err != nil {
		return nil, Fit{}, err
	}
	progress.From(ctx)(progress.Report{Stage: progress.Factorization, Steps: n})
	on := onSpace{direct{Base{d: d, Held: array.Owning(e.M)}}, e.M, e.Space, n}
	sizes := e.sizes(dev)
	scale, fine := make([]float64, n), true
	for i := range scale {
		g, least := e.Gram[i*n+i], sizes[i]
		k := g + e.q(i, i)
		if scale[i] = 1 / math.Sqrt(k); math.IsInf(scale[i], 0) || math.IsNaN(scale[i]) {
			scale[i] = 0 // a row and column of zeros
		}
		fine = fine && k > leastSeen*least*least && (g > 0 || k > rounded*e.Norm*e.Norm)
	}
	if inverse, condition := e.cholesky(scale); fine && inverse != nil {
		return newInverted(dev, on, e, inverse, condition)
	}
	if made, fit, err := e.withoutDependent(ctx, dev, on, scale); made != nil || err != nil {
		return made, fit, err
	}
	return newOrthogonalized(dev, on, e, sizes)
}

func (e *Equations) q(i, j int) float64 {
	if e.Q == nil {
		return 0
	}
	_, n := e.M.Dims()
	return e.Q[i*n+j]
}

// sizes are the sizes to which the columns of M are compared, 0 for their own: ||A||, or those of the terms of
// which they are sums,
//
//	size_i^2 = sum_j E_ji^2 ||a_j||^2.
func (e *Equations) sizes(dev array.Device) []float64 {
	p, n := e.Space.Dims()
	sizes := make([]float64, n)
	if !e.Combined {
		return sizes
	}
	if e.Lengths2 == nil {
		for i := range sizes {
			sizes[i] = e.Norm
		}
		return sizes
	}
	units, basis := dev.Alloc(n, n), dev.Alloc(n, p)
	defer array.Free(units, basis)
	dev.Fill(units, 0)
	dev.Fill(units.Diagonal(), 1)
	e.Space.Embed(basis, units)
	all := basis.ToHost()
	for i := range sizes {
		for j, v := range e.Lengths2 {
			sizes[i] = math.Hypot(sizes[i], all[i*p+j]*math.Sqrt(v))
		}
	}
	return sizes
}

// cholesky returns K^{-1} and the condition number of K, scaled; nil where that is large.
func (e *Equations) cholesky(scale []float64) (*mat.Dense, float64) {
	n := len(scale)
	sum := mat.NewSymDense(n, nil)
	for i := range n {
		for c := i; c < n; c++ {
			k := e.Gram[i*n+c] + e.q(i, c) + e.Gram[c*n+i] + e.q(c, i)
			sum.SetSym(i, c, k/2*scale[i]*scale[c])
		}
	}
	condition := numerics.Invert(sum)
	if condition > WellConditioned {
		return nil, 0
	}
	out := mat.NewDense(n, n, nil)
	out.Apply(func(i, c int, v float64) float64 { return scale[i] * v * scale[c] }, sum)
	return out, condition
}

// Sensitive reports that the error of b may change the curvature by enough to matter.
func Sensitive(projection bool, optimality, condition float64) bool {
	return !projection && optimality*condition > sensitivity
}

// Conditioned is what is known of a well-conditioned system with n columns of length d.
func Conditioned(trace, frobenius2, condition float64, d, n int) Closed {
	known := Exactly(trace, frobenius2)
	known.Margin = 1 / (math.Sqrt(condition) * pivoted.LeastPivot(d, n))
	return known
}

// inverted is K^{-1}.
type inverted struct {
	onSpace
	inverse array.Batch // n x n; the zero Batch where it is known by products alone
	times   func(dst, t array.Batch)
}

func (s *inverted) matrix(dev array.Device) (inverse array.Batch, free func()) {
	if !s.inverse.IsZero() {
		return s.inverse, func() {}
	}
	units := dev.Alloc(s.n, s.n)
	defer units.Free()
	dev.Fill(units, 0)
	dev.Fill(units.Diagonal(), 1)
	inverse = dev.Alloc(s.n, s.n)
	s.times(inverse, units)
	return inverse, inverse.Free
}

func newInverted(dev array.Device, on onSpace, e Equations, inverse *mat.Dense, condition float64) (*inverted, Fit,
	error) {
	trace, frobenius2 := float64(on.n), float64(on.n)
	if e.Q != nil {
		trace, frobenius2 = tracesOf(inverse, e.Q)
	}
	s := &inverted{on, dev.Alloc(on.n, on.n), nil}
	dev.Upload(s.inverse, inverse.RawMatrix().Data)
	s.times = func(dst, t array.Batch) { dst.Device().Gemm(false, false, 1, t, s.inverse, 0, dst) }
	s.Hold(s.inverse)
	s.know(dev, Conditioned(trace, frobenius2, condition, s.d, s.n))
	return s, Fit{" by Cholesky's method", Sensitive(e.Q == nil, e.Optimality, condition)}, nil
}

func (s *inverted) know(dev array.Device, closed Closed) {
	s.closed = closed
	s.closed.Diagonal = func() ([]float64, error) { return s.diagonal(dev) }
	s.closed.DiagonalFlops = 2 * float64(s.n) * float64(s.n) * float64(s.d)
	s.closed.Root = func() ([]float64, error) { return s.root(dev) }
	if blocks := linops.StructureOf(s.m).Blocks; blocks != nil {
		s.closed.Blocks = func(order int) ([]float64, error) {
			inverse, free := s.matrix(dev)
			defer free()
			return blocks(inverse.ToHost(), order), dev.Err()
		}
	}
}

func (s *inverted) Apply(_ context.Context, dst, w array.Batch, _ Goal, left []float64) error {
	clear(left)
	dev := w.Device()
	t, x := dev.Alloc(w.K(), s.n), dev.Alloc(w.K(), s.n)
	defer array.Free(t, x)
	s.m.Adjoint(t, w)
	s.times(x, t)
	s.m.Forward(dst, x)
	return dev.Err()
}

func (s *inverted) Inverse() func(dst, g array.Batch) {
	return func(dst, g array.Batch) {
		dev := dst.Device()
		t, x := dev.Alloc(1, s.n), dev.Alloc(1, s.n)
		defer array.Free(t, x)
		s.space.Coordinates(t, g)
		s.times(x, t)
		s.space.Embed(dst, x)
	}
}

func (s *inverted) diagonal(dev array.Device) ([]float64, error) {
	left, right := linops.Images(dev, s.m), dev.Alloc(s.n, s.d)
	defer array.Free(left, right)
	inverse, free := s.matrix(dev)
	defer free()
	dev.Gemm(false, false, 1, inverse, left, 0, right)
	return columnProducts(dev, left, right)
}

// root is C M* for K^{-1} = C* C.
func (s *inverted) root(dev array.Device) ([]float64, error) {
	var chol mat.Cholesky
	inverse, free := s.matrix(dev)
	defer free()
	if !chol.Factorize(numerics.Symmetrized(inverse.ToHost(), s.n)) {
		return nil, errors.New("vjp: the inverse of the system is not positive definite up to rounding errors")
	}
	var upper mat.TriDense
	chol.UTo(&upper)
	c, r := dev.Put(mat.DenseCopyOf(&upper).RawMatrix().Data, s.n, s.n), dev.Alloc(s.n, s.d)
	defer array.Free(c, r)
	s.m.Forward(r, c)
	return r.ToHost(), dev.Err()
}

func (s *inverted) ProbeBytes() int64 { return 16 * int64(s.n+s.d) }

// columnProducts are the sums over the rows of two k x d matrices multiplied entry by entry.
func columnProducts(dev array.Device, left, right array.Batch) ([]float64, error) {
	k, d := left.K(), left.N()
	products, ones, sums := dev.Alloc(k, d), dev.Alloc(1, k), dev.Alloc(1, d)
	defer array.Free(products, ones, sums)
	dev.Mul(products, left, right)
	dev.Fill(ones, 1)
	dev.Gemm(false, false, 1, ones, products, 0, sums)
	return sums.ToHost(), dev.Err()
}

// orthogonalized is Q1 with D mu_hat = Q1 Q1*, from [M; W] P = [Q1; Q2] R with W*W = Q.
type orthogonalized struct {
	onSpace
	image array.Batch // Q1*, rank x d
	basic *mat.Dense  // n x rank: K^+ M* = basic Q1*
}

func newOrthogonalized(dev array.Device, on onSpace, e Equations, sizes []float64) (System, Fit, error) {
	fit := Fit{By: " by a pivoted QR factorization, because it is ill-conditioned"}
	w, err := root(e.Q, on.n)
	if err != nil {
		return nil, fit, err
	}
	var m mat.Matrix = Matrix(dev, e.M)
	scale, norm := make([]float64, on.n), 1.0
	unscaled := e.Combined && e.Lengths2 == nil && e.Norm != 0
	for i := range scale {
		// A coordinate in the null space of A is free, and can reduce the curvature in the others.
		g, q := e.Gram[i*on.n+i], e.q(i, i)
		if e.Combined {
			g = sizes[i] * sizes[i]
		}
		switch {
		case unscaled:
			scale[i] = 1
		case g > 0:
			scale[i] = 1 / math.Sqrt(g)
		case q > rounded*e.Norm*e.Norm:
			scale[i] = 1 / math.Sqrt(q)
		}
	}
	if unscaled {
		norm = e.Norm
	} else {
		m = pivoted.ScaleColumns(m, scale)
		if w != nil {
			w = pivoted.ScaleColumns(w, scale)
		}
	}
	r := pivoted.Factorize(m, w, norm, e.doubt())
	// Directions in doubt are not counted: as a rule they come from the error of the solution.
	trace, frobenius2, high := r.Traces(r.Sure)
	if e.Q == nil {
		trace, frobenius2, high = float64(r.Sure), float64(r.Sure), float64(r.Rank)
	}
	known := Exactly(trace, frobenius2)
	known.High, known.Margin = high, r.Margin
	if r.Sure == 0 {
		none := Zero(e.M, known)
		on.Release()
		return none, fit, nil
	}
	least := r.Least() / norm
	fit.Sensitive = e.Q != nil && e.Optimality > sensitivity*least*least
	rows := mat.DenseCopyOf(r.Q.T()).RawMatrix().Data[:r.Sure*on.d]
	s := &orthogonalized{on, dev.Put(rows, r.Sure, on.d), mat.DenseCopyOf(r.Solution().Slice(0, on.n, 0, r.Sure))}
	s.basic.Apply(func(i, _ int, v float64) float64 { return scale[i] * v }, s.basic)
	s.Hold(s.image)
	s.closed = known
	s.closed.Diagonal = func() ([]float64, error) { return columnProducts(dev, s.image, s.image) }
	s.closed.DiagonalFlops = 2 * float64(s.image.K()) * float64(s.d)
	s.closed.Root = func() ([]float64, error) { return s.image.ToHost(), dev.Err() }
	return s, fit, nil
}

// doubt is the size of A along a direction, relative to ||A||, below which the solution is not
// determined there: the error of b along it is the optimality divided by the square of that size.
func (e *Equations) doubt() float64 {
	if e.Certain {
		return 0
	}
	return math.Sqrt(e.Optimality)
}

func (s *orthogonalized) Apply(_ context.Context, dst, w array.Batch, _ Goal, left []float64) error {
	clear(left)
	dev := w.Device()
	t := dev.Alloc(w.K(), s.image.K())
	defer t.Free()
	dev.Gemm(false, true, 1, w, s.image, 0, t)
	dev.Gemm(false, false, 1, t, s.image, 0, dst)
	return dev.Err()
}

// Inverse has K^+ = basic basic*.
func (s *orthogonalized) Inverse() func(dst, g array.Batch) {
	return func(dst, g array.Batch) {
		c := g.Device().Alloc(1, s.n)
		defer c.Free()
		s.space.Coordinates(c, g)
		var t, x mat.VecDense
		t.MulVec(s.basic.T(), mat.NewVecDense(s.n, c.ToHost()))
		x.MulVec(s.basic, &t)
		c.Device().Upload(c, x.RawVector().Data)
		s.space.Embed(dst, c)
	}
}

func (s *orthogonalized) ProbeBytes() int64 { return 8 * int64(s.image.K()+2*s.d) }

// Matrix is the matrix of op, d x n, on the host.
func Matrix(dev array.Device, op linops.Operator) *mat.Dense {
	d, n := op.Dims()
	image := linops.Images(dev, op)
	defer image.Free()
	return mat.DenseCopyOf(mat.NewDense(n, d, image.ToHost()).T())
}

// Uneven returns squared lengths of columns where the longest hides rounding errors of the shortest, else nil.
func Uneven(lengths2 []float64) []float64 {
	const ratio = 1e-8
	most := slices.Max(lengths2)
	if slices.ContainsFunc(lengths2, func(v float64) bool { return v > 0 && v < ratio*most }) {
		return lengths2
	}
	return nil
}
