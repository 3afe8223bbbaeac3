package direct

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/solve/engine"
)

// spectral is the closed form by a matrix A. For r(b) = c/2 ||b||^2, with the thin singular value
// decomposition A = U S V*,
//
//	b(y) = V S/(S^2 + c) U* y,   H = U S^2/(S^2 + c) U*.
//
// For c = 0 singular values below max(d, p) eps sigma_1 count as zero: b(y) is then the least squares
// solution of least norm.
//
// Where the lengths of the columns differ by many orders of magnitude, the singular values of A do not
// resolve the short columns. Then, and for any other Q = W*W, A is factorized with its columns scaled
// to about unit length, A = B N, together with the penalty ([pivoted.Factorize]):
//
//	[B; W N^{-1}] P = Q R,   H = Q1 Q1*,   b(y) = N^{-1} P R^+ Q1* y,
//
// and U, S are those of Q1. Columns that depend on others have b = 0 where W does not determine
// their coefficients.
type spectral struct {
	p      engine.Problem
	ut     array.Batch // r x d: U*
	vt     array.Batch // r x p: V*
	toB    array.Batch // 1 x r: S/(S^2 + c)
	toMu   array.Batch // 1 x r: S^2/(S^2 + c)
	onV    array.Batch // 1 x r: the weights of N^+ on V
	norms  []float64   // the lengths of A's columns
	all    []float64   // and those of its columns beside the penalty's
	graded bool        // A was factorized together with the penalty
	w      *mat.Dense  // W, or nil for c
	curve  float64     // c

	sigma    []float64 // those of A above the cutoff
	doubtful float64   // the share of the trace that rests on decisions within rounding errors
	margin   float64   // see HatTraces
	owner    *spectral // the form to which ut and vt belong
}

// newSpectral takes the first of the factorizations that can be computed; w is nil for r = c/2 ||b||^2.
func newSpectral(p engine.Problem, w *mat.Dense, c float64) (*spectral, engine.Choice, error) {
	s := &spectral{p: p, w: w, curve: c, margin: math.Inf(1)}
	s.owner = s
	x := linops.ToDense(p.Device, p.A)
	s.norms = numerics.ColumnLengths(x)
	least, most := math.Inf(1), 0.0
	for _, v := range s.norms {
		if v > 0 {
			least, most = min(least, v), max(most, v)
		}
	}
	s.all = make([]float64, len(s.norms))
	beside := func(int) float64 { return math.Sqrt(c) }
	if w != nil {
		own := numerics.ColumnLengths(w)
		beside = func(j int) float64 { return own[j] }
	}
	for j, v := range s.norms {
		s.all[j] = math.Hypot(v, beside(j))
	}
	var choice engine.Choice
	err := errSpectrum
	for _, f := range factorizations {
		if !f.applies(w != nil, most/least) {
			continue
		}
		if choice, err = f.choice, f.build(s, x); !errors.Is(err, errSpectrum) {
			break
		}
	}
	if err != nil {
		s.Release()
		return nil, choice, err
	}
	return s, choice, nil
}

// errSpectrum says that the singular values of A are not resolved by their squares.
var errSpectrum = errors.New("solve: the singular values of A differ too much for their squares")

// decomposeSquares takes the singular values and V from A*A = V S^2 V*, and U = A V S^{-1}, or where A has fewer rows
// than columns U from A A*, and V. The relative error of the smallest squared value is about eps (sigma_1/sigma_r)^2.
// Of the vectors whose value is 0 or nearly so A's products say that it is 0.
func (s *spectral) decomposeSquares(x *mat.Dense) error {
	dev := s.p.Device
	d, dim := x.Dims()
	n, wide := min(d, dim), d < dim
	if n < leastSquares {
		return errSpectrum
	}
	square, err := s.squares(x, wide)
	if err != nil {
		return err
	}
	values, vectors, err := numerics.Eigen(square)
	if err != nil {
		return errSpectrum
	}
	rank := n
	for rank > 0 && !(values[n-rank]*squaresSpread*squaresSpread >= values[n-1]) {
		rank--
	}
	rows := make([]float64, n*n)
	for i := range n {
		mat.Col(rows[i*n:(i+1)*n], n-1-i, vectors)
	}
	own, other := dev.Alloc(n, n), dev.Alloc(n, d+dim-n)
	dev.Upload(own, rows)
	if s.ut, s.vt = other, own; wide {
		s.ut, s.vt = own, other
		s.p.A.Adjoint(other, own)
	} else {
		s.p.A.Forward(other, own)
	}
	s.sigma = make([]float64, rank)
	inverse, squared := make([]float64, rank), make([]float64, n)
	for i := range rank {
		s.sigma[i] = math.Sqrt(values[n-1-i])
		inverse[i] = 1 / s.sigma[i]
	}
	dev.Dot(squared, other, other)
	cut := float64(max(d, dim)) * engine.Epsilon * math.Sqrt(values[n-1])
	for _, v := range squared[rank:] {
		if rank == 0 || !(v <= cut*cut) {
			array.Free(s.ut, s.vt)
			s.ut, s.vt, s.sigma = array.Batch{}, array.Batch{}, nil
			return errSpectrum
		}
	}
	s.ut, s.vt = s.ut.Rows(0, rank), s.vt.Rows(0, rank)
	kept := other.Rows(0, rank)
	dev.LinEach(kept, inverse, kept, make([]float64, rank), kept)
	s.margin = s.sigma[rank-1] / cut
	s.weigh()
	return dev.Err()
}

// squares is A*A, or A A* for a wide A.
func (s *spectral) squares(x *mat.Dense, wide bool) (*mat.SymDense, error) {
	dev := s.p.Device
	d, dim := x.Dims()
	n := min(d, dim)
	square := dev.Alloc(n, n)
	defer square.Free()
	if wide {
		rows := UploadRows(dev, x, d)
		defer rows.Free()
		dev.Gemm(false, true, 1, rows, rows, 0, square)
	} else if gram := linops.StructureOf(s.p.A).Gram; gram != nil {
		gram(square)
	} else {
		sum := mat.NewSymDense(n, nil)
		sum.SymOuterK(1, x.T())
		return sum, nil
	}
	return mat.NewSymDense(n, square.ToHost()), dev.Err()
}

// decompose takes A's own singular value decomposition.
func (s *spectral) decompose(x *mat.Dense) error {
	d, dim := x.Dims()
	u, sigma, v, err := numerics.SVD(x)
	if err != nil {
		return fmt.Errorf("solve: the operator A: %w", err)
	}
	rank := len(sigma)
	cut := float64(max(d, dim)) * engine.Epsilon * sigma[0]
	for rank > 0 && sigma[rank-1] <= cut {
		rank--
	}
	s.ut = UploadRows(s.p.Device, u.T(), rank)
	s.vt = UploadRows(s.p.Device, v.T(), rank)
	s.sigma = sigma[:rank]
	if rank > 0 {
		s.margin = sigma[rank-1] / cut
	}
	s.weigh()
	for _, sv := range s.sigma {
		if sv <= pivoted.Doubtful*cut {
			s.doubtful += 1 / (1 + s.curve/sv/sv)
		}
	}
	return nil
}

func (s *spectral) factorGraded(x *mat.Dense) error {
	d, dim := x.Dims()
	scale := make([]float64, dim)
	for j, v := range s.norms {
		if scale[j] = numerics.Unit(v); v == 0 {
			scale[j] = numerics.Unit(s.all[j])
		}
	}
	w := s.w
	switch {
	case w != nil:
		w = pivoted.ScaleColumns(w, scale)
	case s.curve > 0:
		root := floats.ScaleTo(make([]float64, dim), math.Sqrt(s.curve), scale)
		w = mat.DenseCopyOf(mat.NewDiagDense(dim, root))
	}
	f := pivoted.Factorize(pivoted.ScaleColumns(x, scale), w, 1, 0)
	s.graded, s.margin = true, f.Margin
	low, _, high := f.Traces(f.Sure)
	s.doubtful = high - low
	if f.Rank == 0 {
		s.ut, s.vt = s.p.Device.Alloc(0, d), s.p.Device.Alloc(0, dim)
		s.upload(nil, nil)
		return nil
	}
	u, cosines, v, err := numerics.SVD(f.Q)
	if err != nil {
		return fmt.Errorf("solve: a basis: %w", err)
	}
	var b mat.Dense
	b.Mul(f.Solution(), v)
	b.Apply(func(j, _ int, t float64) float64 { return t * scale[j] }, &b)
	s.ut = UploadRows(s.p.Device, u.T(), len(cosines))
	s.vt = UploadRows(s.p.Device, b.T(), len(cosines))
	toMu := lists.Map(cosines, func(c float64) float64 { return c * c })
	s.upload(cosines, toMu)
	return nil
}

func (s *spectral) weigh() {
	toB, toMu := make([]float64, len(s.sigma)), make([]float64, len(s.sigma))
	for i, sv := range s.sigma {
		toB[i] = 1 / (sv + s.curve/sv)
		toMu[i] = 1 / (1 + s.curve/sv/sv)
	}
	s.upload(toB, toMu)
}

func (s *spectral) upload(toB, toMu []float64) {
	dev := s.p.Device
	inverse := make([]float64, len(toB))
	for i := range inverse {
		if inverse[i] = 1; !s.graded {
			inverse[i] = toMu[i] / s.sigma[i] / s.sigma[i]
		}
	}
	s.toB, s.toMu, s.onV = dev.Alloc(1, len(toB)), dev.Alloc(1, len(toMu)), dev.Alloc(1, len(inverse))
	dev.Upload(s.toB, toB)
	dev.Upload(s.toMu, toMu)
	dev.Upload(s.onV, inverse)
}

// UploadRows puts the first rank rows of m on the device.
func UploadRows(dev array.Device, m mat.Matrix, rank int) array.Batch {
	_, n := m.Dims()
	b := dev.Alloc(rank, n)
	dense := mat.DenseCopyOf(m)
	dev.Upload(b, dense.RawMatrix().Data[:rank*n])
	return b
}

func (s *spectral) lengths() []float64 { return s.all }

func (s *spectral) Release() {
	array.Free(s.toB, s.toMu, s.onV)
	if s.owner == s {
		array.Free(s.ut, s.vt)
	}
}

// reweight shares the singular vectors, where they do not depend on the penalty.
func (s *spectral) reweight(p engine.Problem, q []float64) (closedForm, error) {
	c, even := common(q)
	if s.graded || p.K != nil || !even {
		return nil, nil
	}
	other := *s
	other.p, other.curve = p, c
	other.all = make([]float64, len(s.norms))
	for j, v := range s.norms {
		other.all[j] = math.Hypot(v, math.Sqrt(c))
	}
	other.weigh()
	return &other, nil
}

// between sets dst_i = T* diag(weights) F z_i + keep dst_i.
func between(dst, to, weights, from, z array.Batch, keep float64) {
	dev := dst.Device()
	c := dev.Alloc(z.K(), from.K())
	defer c.Free()
	dev.Gemm(false, true, 1, z, from, 0, c)
	dev.Mul(c, c, weights)
	dev.Gemm(false, false, 1, c, to, keep, dst)
}

func (s *spectral) Coefficients(dst, z array.Batch) { between(dst, s.vt, s.toB, s.ut, z, 0) }
func (s *spectral) Images(dst, z array.Batch)       { between(dst, s.ut, s.toMu, s.ut, z, 0) }
func (s *spectral) inverse(dst, g array.Batch)      { between(dst, s.vt, s.onV, s.vt, g, 0) }
func (s *spectral) reverse(dst, seed array.Batch)   { between(dst, s.ut, s.toB, s.vt, seed, 1) }

func (s *spectral) Traces() engine.HatTraces {
	t := engine.HatTraces{Below: s.doubtful, Margin: s.margin}
	for _, v := range s.toMu.ToHost() {
		t.Trace += v
		t.Frobenius2 += v * v
	}
	return t
}

// Diagonal returns sum_r w_r U_ri^2 for every observation i.
func (s *spectral) Diagonal() []float64 {
	u, dev := s.ut, s.ut.Device()
	out := make([]float64, u.N())
	if u.K() == 0 {
		return out
	}
	squares, sums := dev.Alloc(u.K(), u.N()), dev.Alloc(1, u.N())
	defer array.Free(squares, sums)
	dev.Mul(squares, u, u)
	dev.Gemm(false, false, 1, s.toMu, squares, 0, sums)
	dev.Download(out, sums)
	return out
}

func (s *spectral) Root() []float64 {
	dev := s.ut.Device()
	out := dev.Alloc(s.ut.K(), s.ut.N())
	defer out.Free()
	dev.Fill(out, 0)
	dev.LinEach(out, lists.Map(s.toMu.ToHost(), math.Sqrt), s.ut, make([]float64, s.ut.K()), out)
	return out.ToHost()
}

func (s *spectral) DiagonalFlops() (float64, bool) {
	if s.w != nil {
		return 0, true
	}
	return 2 * float64(s.ut.K()) * float64(s.ut.N()), true
}

func (s *spectral) ProbeBytes() int64 { return 8 * int64(s.ut.K()+s.ut.N()) }

func (s *spectral) Products(v *array.Fixed) []float64 {
	dev, k := v.Device(), v.K()
	if s.ut.K() == 0 {
		return make([]float64, k*k)
	}
	weighted, square := dev.Alloc(k, s.ut.K()), dev.Alloc(k, k)
	defer array.Free(weighted, square)
	c := dev.Put(s.kept(v), k, s.ut.K())
	defer c.Free()
	dev.Mul(weighted, c, s.toMu)
	dev.Gemm(false, true, 1, c, weighted, 0, square)
	return square.ToHost()
}

func (s *spectral) kept(v *array.Fixed) []float64 {
	return array.Kept(v, s.owner, func() []float64 {
		c := v.Device().Alloc(v.K(), s.ut.K())
		defer c.Free()
		v.Device().Gemm(false, true, 1, v.Batch, s.ut, 0, c)
		return c.ToHost()
	})
}

// Mapped is the sum of S_i H v_i, from S_i U and U* v_i; nil where S_i U are no smaller than U.
func (s *spectral) Mapped(v *array.Mapped) []float64 {
	if v.Add == nil {
		return nil
	}
	k, rank, sum := v.K(), s.ut.K(), make([]float64, v.Size)
	if rank == 0 {
		return sum
	}
	maps := array.Maps(v, s.owner, func() []float64 {
		sums, ut := make([]float64, k*v.Size*rank), s.ut.ToHost()
		for from, to := range parallel.Panels(v.N()) {
			rows := mat.DenseCopyOf(mat.NewDense(rank, v.N(), ut).Slice(0, rank, from, to).T())
			v.Add(sums, from, rank, rows.RawMatrix().Data)
		}
		return sums
	})
	weighted, weights := slices.Clone(s.kept(&v.Fixed)), s.toMu.ToHost()
	for i := range k {
		c := weighted[i*rank:][:rank]
		floats.Mul(c, weights)
		blas64.Gemv(blas.NoTrans, 1, blas64.General{Rows: v.Size, Cols: rank, Stride: rank,
			Data: maps[i*v.Size*rank:][:v.Size*rank]}, blas64.Vector{N: rank, Inc: 1, Data: c}, 1,
			blas64.Vector{N: v.Size, Inc: 1, Data: sum})
	}
	return sum
}

// factorization is a choice for a matrix A: beside says that the penalty is not c/2 ||b||^2, and
// spread is the ratio of the lengths of the columns.
type factorization struct {
	choice  engine.Choice
	applies func(beside bool, spread float64) bool
	build   func(s *spectral, x *mat.Dense) error
}

var factorizations = []factorization{
	{engine.Choice{Part: "method", Chosen: "eigenvalues of A*A or A A*",
		Reason: "the singular values of A that are not 0 differ by at most a factor of 100: their squares have " +
			"twelve correct digits"},
		func(beside bool, spread float64) bool { return !beside && spread <= squaresSpread },
		(*spectral).decomposeSquares},
	{engine.Choice{Part: "method", Chosen: "singular value decomposition",
		Reason: "the columns of A differ in length by at most a factor of 1e4"},
		func(beside bool, spread float64) bool { return !beside && spread <= gradedSpread }, (*spectral).decompose},
	{engine.Choice{Part: "method", Chosen: "pivoted factorization with the penalty",
		Reason: "the columns of A differ in length by more than a factor of 1e4, or not all are penalized alike"},
		func(bool, float64) bool { return true }, (*spectral).factorGraded},
}

// Sizes at which choices change.
const (
	// gradedSpread is the ratio of the columns' lengths up to which A's own singular values are used: those of the
	// shortest columns then have ten correct digits. squaresSpread is the ratio of A's singular values up to which
	// they come from A*A or A A*, which are at least of order leastSquares.
	gradedSpread  = 1e4
	squaresSpread = 100
	leastSquares  = 32
)

// writable reports that A is stored as a matrix, or has one of at most [linops.MostDense] entries.
func writable(a linops.Operator) bool {
	d, p := a.Dims()
	known := linops.StructureOf(a)
	return known.Dense != nil && (known.Entries == linops.Known(float64(d*p)) || d*p <= linops.MostDense)
}
