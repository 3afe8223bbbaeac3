package krylov

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
)

// NystromOptions say how good an approximation is sought. The zero value asks for all that MaxRank
// allows.
type NystromOptions struct {
	// Shift is the mu of the system (M + mu I) x = rhs that the approximation is to precondition:
	// the rank is doubled until the smallest eigenvalue that it finds is at most enoughNystrom
	// times Shift.
	Shift float64
	// MaxRank bounds the rank; 0 means an eighth of n, but at least 1 and at most 512.
	MaxRank int
	// Seed chooses the random test matrix.
	Seed uint64
}

const (
	// firstNystrom is the rank at the start, and enoughNystrom the smallest eigenvalue that is found,
	// in units of the shift, at which the rank suffices: eigenvalues below are those of a matrix of
	// moderate condition (Frangella, Tropp and Udell 2023, section 5.4).
	firstNystrom  = 16
	enoughNystrom = 10
	// resolvedNystrom is the smallest eigenvalue that counts, relative to the largest: the vectors of
	// smaller ones are rounding errors.
	resolvedNystrom = 1e-11
)

// Nystrom is a low-rank approximation of a self-adjoint positive semidefinite map M on R^n,
//
//	U diag(lambda) U* = (M Omega) (Omega* M Omega)^+ (M Omega)*
//
// with a random n x r matrix Omega, orthonormal columns of U and decreasing eigenvalues lambda. It is
// at most M, and where the eigenvalues of M fall fast it is near. It depends on the seed alone, and
// serves every shift mu.
//
// Frangella, Tropp and Udell, Randomized Nystrom preconditioning, SIAM J. Matrix Anal. Appl. 44
// (2023).
type Nystrom struct {
	n       int
	vectors array.Batch // r x n: the rows are U's columns
	values  []float64
	enough  bool
}

// NewNystrom approximates M. apply sets dst = M x, each vector alone; dst and x do not overlap. The
// caller releases the result. An error is a cancelled context, a device fault, a value that is not
// finite, or a map that is not positive semidefinite.
func NewNystrom(ctx context.Context, dev array.Device, n int, apply func(dst, x array.Batch),
	opts NystromOptions) (*Nystrom, error) {
	most := opts.MaxRank
	if most == 0 {
		most = min(max(n/8, 1), 512)
	}
	most = min(most, n)
	// a random stream that nothing else uses
	s := &nystromSketch{dev: dev, n: n, rng: rand.New(rand.NewPCG(opts.Seed, 0x6e797374726f6d))}
	defer s.free()
	for rank := min(firstNystrom, most); ; rank = min(2*rank, most) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("linops: Nystrom approximation of rank %d: %w", rank, context.Cause(ctx))
		}
		if err := s.grow(ctx, rank, apply); err != nil {
			return nil, fmt.Errorf("linops: Nystrom approximation of rank %d: %w", rank, err)
		}
		y, err := s.decompose()
		if err != nil {
			return nil, fmt.Errorf("linops: Nystrom approximation of rank %d: %w", rank, err)
		}
		r := len(y.values)
		y.enough = r < rank || y.values[r-1] <= enoughNystrom*opts.Shift || rank == n
		if y.enough || rank >= most {
			return y, nil
		}
		y.Release()
	}
}

// nystromSketch is M Omega, in rows.
type nystromSketch struct {
	dev          array.Device
	n            int
	rng          *rand.Rand
	omega, image array.Batch
}

func (s *nystromSketch) free() {
	array.Free(s.omega, s.image)
}

// grow adds rows up to a rank. Those before stay as they are.
func (s *nystromSketch) grow(ctx context.Context, rank int, apply func(dst, x array.Batch)) error {
	have := s.omega.K()
	omega, image := s.dev.Alloc(rank, s.n), s.dev.Alloc(rank, s.n)
	before := *s
	s.omega, s.image = omega, image
	if have > 0 {
		s.dev.Copy(omega.Rows(0, have), before.omega)
		s.dev.Copy(image.Rows(0, have), before.image)
		array.Free(before.omega, before.image)
	}
	host := make([]float64, (rank-have)*s.n)
	scale := 1 / math.Sqrt(float64(s.n))
	for i := range host {
		host[i] = scale * s.rng.NormFloat64()
	}
	s.dev.Upload(omega.Rows(have, rank), host)
	for at := have; at < rank; at += firstNystrom {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		to := min(at+firstNystrom, rank)
		apply(image.Rows(at, to), omega.Rows(at, to))
	}
	return nil
}

// decompose is the approximation from the sketch: with Y = M Omega + nu Omega, C the Cholesky factor of
// Omega* Y and B = Y C^{-1}, the eigenvalues are those of B*B less nu. The small matrices are the
// host's.
func (s *nystromSketch) decompose() (*Nystrom, error) {
	dev, r := s.dev, s.omega.K()
	core, gram := dev.Alloc(r, r), dev.Alloc(r, r)
	b := dev.Alloc(r, s.n)
	defer array.Free(core, gram, b)
	dev.Gemm(false, true, 1, s.image, s.image, 0, gram)
	squares := gram.ToHost()
	if err := dev.Err(); err != nil {
		return nil, err
	}
	size := 0.0
	for i := range r {
		size += squares[i*r+i]
	}
	if math.IsNaN(size) || math.IsInf(size, 0) {
		return nil, fmt.Errorf("the map M has a value that is not finite")
	}
	if size == 0 {
		return &Nystrom{n: s.n}, nil
	}
	nu := math.Sqrt(float64(s.n)) * 0x1p-52 * math.Sqrt(size)
	dev.Lin(b, 1, s.image, nu, s.omega)
	dev.Gemm(false, true, 1, s.omega, b, 0, core)
	// B* = C^{-*} Y*: rows of B are combinations of those of Y.
	rows, ok := byInverseRoot(core, b)
	if !ok {
		return nil, fmt.Errorf("the map M is not positive semidefinite")
	}
	defer rows.Free()
	dev.Gemm(false, true, 1, rows, rows, 0, gram)
	squared, v, err := numerics.Eigen(numerics.Symmetrized(gram.ToHost(), r))
	if err != nil {
		return nil, err
	}
	y := &Nystrom{n: s.n}
	for i := r - 1; i >= 0 && squared[i]-nu > resolvedNystrom*squared[r-1]; i-- {
		y.values = append(y.values, squared[i]-nu)
	}
	keep := len(y.values)
	if keep == 0 {
		return y, nil
	}
	turn := make([]float64, keep*r) // rows of U* are S^{-1} V* times those of B*
	for i := range keep {
		mat.Col(turn[i*r:(i+1)*r], r-1-i, v)
		for j := range r {
			turn[i*r+j] /= math.Sqrt(squared[r-1-i])
		}
	}
	left := dev.Alloc(keep, r)
	defer left.Free()
	dev.Upload(left, turn)
	y.vectors = dev.Alloc(keep, s.n)
	dev.Gemm(false, false, 1, left, rows, 0, y.vectors)
	if err := y.orthonormalize(dev); err != nil {
		y.Release()
		return nil, err
	}
	return y, nil
}

// orthonormalize makes the vectors orthonormal to rounding, the leading ones first: those of small
// eigenvalues come out of a Gram matrix with errors.
func (y *Nystrom) orthonormalize(dev array.Device) error {
	r := y.vectors.K()
	gram := dev.Alloc(r, r)
	defer gram.Free()
	dev.Gemm(false, true, 1, y.vectors, y.vectors, 0, gram)
	turned, ok := byInverseRoot(gram, y.vectors)
	if !ok {
		return fmt.Errorf("the sketch of M is singular")
	}
	y.vectors.Free()
	y.vectors = turned
	return dev.Err()
}

// byInverseRoot is L^{-1} X for a positive definite matrix L L*, which it overwrites by L^{-1}; false where it is not
// positive definite to rounding.
func byInverseRoot(square, x array.Batch) (array.Batch, bool) {
	dev, r := x.Device(), x.K()
	inverse, ok := numerics.InverseRoot(numerics.Symmetrized(square.ToHost(), r))
	if !ok {
		return array.Batch{}, false
	}
	dev.Upload(square, inverse)
	out := dev.Alloc(r, x.N())
	dev.Gemm(false, false, 1, square, x, 0, out)
	return out, true
}

// Rank is the number of eigenvalues, and Values are they, in decreasing order; the slice is y's own.
func (y *Nystrom) Rank() int { return len(y.values) }

// Values are the eigenvalues in decreasing order; the slice is y's own.
func (y *Nystrom) Values() []float64 { return y.values }

// Vectors are the orthonormal eigenvectors, Rank x n; they are y's own, and the zero Batch at rank 0.
func (y *Nystrom) Vectors() array.Batch { return y.vectors }

// Enough reports that the rank suffices for the shift of the options: what M has beside the
// approximation is not large beside it. Where it does not, a larger rank may pay, or M's eigenvalues
// fall too slowly for any.
func (y *Nystrom) Enough() bool { return y.enough }

// Least is the smallest eigenvalue of the approximation, about the largest of what it leaves out; 0
// where it leaves nothing out but rounding errors.
func (y *Nystrom) Least() float64 {
	if len(y.values) == 0 {
		return 0
	}
	return y.values[len(y.values)-1]
}

// Precondition returns the preconditioner of M + mu I,
//
//	P = (lambda_r + mu) U (diag(lambda) + mu I)^{-1} U* + I - U U*,    mu > 0,
//
// as a function that sets dst = P x for [CGOptions], and one that frees what it holds. dst and x do
// not overlap.
func (y *Nystrom) Precondition(mu float64) (apply func(dst, x array.Batch), free func()) {
	if len(y.values) == 0 {
		return func(dst, x array.Batch) { dst.Device().Copy(dst, x) }, func() {}
	}
	dev, r := y.vectors.Device(), len(y.values)
	weights, host := dev.Alloc(1, r), make([]float64, r)
	for i, v := range y.values {
		host[i] = (y.Least()+mu)/(v+mu) - 1
	}
	dev.Upload(weights, host)
	return func(dst, x array.Batch) {
		dev, t := dst.Device(), dst.Device().Alloc(x.K(), r)
		dev.Gemm(false, true, 1, x, y.vectors, 0, t)
		dev.Mul(t, t, weights)
		dev.Copy(dst, x)
		dev.Gemm(false, false, 1, t, y.vectors, 1, dst)
		t.Free()
	}, weights.Free
}

// Beside returns the inverse of S + U diag(lambda) U* for a positive definite S whose inverse is at
// hand, by the formula of Woodbury,
//
//	P = S^{-1} - W* (diag(lambda)^{-1} + U* S^{-1} U)^{-1} W,    W = U* S^{-1},
//
// as [Nystrom.Precondition] does: the preconditioner of M + R where S is near R and what the
// approximation leaves out. inverse sets dst = S^{-1} x, each vector alone.
func (y *Nystrom) Beside(inverse func(dst, x array.Batch)) (apply func(dst, x array.Batch), free func(), err error) {
	if len(y.values) == 0 {
		return inverse, func() {}, nil
	}
	dev, r := y.vectors.Device(), len(y.values)
	w, middle := dev.Alloc(r, y.n), dev.Alloc(r, r)
	free = func() {
		array.Free(w, middle)
	}
	inverse(w, y.vectors)
	dev.Gemm(false, true, 1, y.vectors, w, 0, middle)
	sum := numerics.Symmetrized(middle.ToHost(), r)
	// Scaled by the roots of lambda: I + sqrt(lambda) U* S^{-1} U sqrt(lambda).
	root := make([]float64, r)
	for i, v := range y.values {
		root[i] = math.Sqrt(v)
	}
	for i := range r {
		for j := i; j < r; j++ {
			sum.SetSym(i, j, root[i]*root[j]*sum.At(i, j))
		}
		sum.SetSym(i, i, sum.At(i, i)+1)
	}
	if math.IsInf(numerics.Invert(sum), 1) {
		free()
		if err := dev.Err(); err != nil {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("linops: the map beside a Nystrom approximation is not positive definite")
	}
	host := make([]float64, r*r)
	for i := range r {
		for j := range r {
			host[i*r+j] = root[i] * root[j] * sum.At(i, j)
		}
	}
	dev.Upload(middle, host)
	return func(dst, x array.Batch) {
		dev := dst.Device()
		t, turned := dev.Alloc(x.K(), r), dev.Alloc(x.K(), r)
		dev.Gemm(false, true, 1, x, w, 0, t)
		dev.Gemm(false, false, 1, t, middle, 0, turned)
		inverse(dst, x)
		dev.Gemm(false, false, -1, turned, w, 1, dst)
		array.Free(t, turned)
	}, free, dev.Err()
}

func (y *Nystrom) Bytes() int64 { return y.vectors.Bytes() }
func (y *Nystrom) Release()     { y.vectors.Free() }
