package subspace

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"

	"surepipe/array"
	"surepipe/internal/lists"
)

// Product sets dst = X w, or X* w when trans is set, for a matrix X that is given by its products:
// w has one row for each column of X and dst one for each row, or the other way round.
type Product func(trans bool, dst, w array.Batch)

// Dense is the Product with the matrix of x's vectors as rows.
func Dense(x array.Batch) Product {
	return func(trans bool, dst, w array.Batch) { x.Device().Gemm(trans, false, 1, x, w, 0, dst) }
}

const (
	// firstBlock is the size of the first block, as a share of the smaller side of the matrix, and
	// maxBlock that of the largest one: beyond it all singular values are cheaper.
	firstBlock = 1. / 32
	// mostFirst is the largest first block: a wider one takes memory and products that the few values above a
	// first threshold do not need.
	mostFirst = 64
	maxBlock  = 1. / 3
	// The block has bufferShare more vectors than there are values above the threshold, and at
	// least MinBuffer more.
	bufferShare = 0.6
)

// MinBuffer is the least number of extra vectors in the block, beyond one for each value above the
// threshold. They speed up convergence.
const MinBuffer = 8

// MinSide is the least smaller side of a matrix at which a few of its singular values are cheaper than all of
// them.
const MinSide = 64

// Range is the largest sigma_1/tau at which singular values come from squares: they and their
// vectors err by about eps sigma_1/tau of ||X||, or eps ||X|| where that is asked for
// ([Iteration.Resolve]).
const Range = 1e4

// Smallest and its inverse bound ||X|| where singular values come from squares.
const Smallest = 0x1p-450

// An Iteration follows the leading singular vectors of a matrix that changes from step to step. Its
// results depend on the matrices that it has seen and on nothing else. It is not for concurrent
// use.
type Iteration struct {
	dev  array.Device
	m, n int
	v    array.Batch // n x k, independent columns
	rng  *rand.Rand
	held bool
	fine bool    // triplets are accurate to eps ||X||
	most float64 // the largest block, as a share of the smaller side
}

// New starts at random vectors, the same ones every time, for matrices of the given shape. The
// first block has 1/32 of the smaller side, but at least [MinBuffer] and at most 64.
func New(dev array.Device, shape array.Shape) *Iteration {
	s := &Iteration{dev: dev, m: shape.Rows, n: shape.Cols, rng: rand.New(rand.NewPCG(0x6c6f77, 0x72616e6b)),
		most: maxBlock}
	s.v = dev.Alloc(s.n, max(MinBuffer, min(mostFirst, int(firstBlock*float64(min(s.m, s.n))))))
	s.random(s.v)
	return s
}

func (s *Iteration) Free() { s.v.Free() }

// Size is the number of vectors in the block.
func (s *Iteration) Size() int { return s.v.N() }

// Allow sets the largest block, as a share of the smaller side, where a step is worth more than a step
// with all singular values.
func (s *Iteration) Allow(share float64) { s.most = share }

// Largest is the size of the largest block, a third of the smaller side unless [Iteration.Allow] says
// otherwise: beyond it all singular values are cheaper.
func (s *Iteration) Largest() int { return max(int(s.most*float64(min(s.m, s.n))), 1) }

// next is the size of the next block, given the number of values above the threshold and that of
// all values of this one.
func (s *Iteration) next(active, all int) int {
	want := active + max(MinBuffer, int(bufferShare*float64(active)))
	if active >= all-1 {
		want = max(want, all+all/2+MinBuffer)
		if s.held {
			want = min(want, s.Size())
		}
	}
	return min(want, s.Largest())
}

// Hold sets whether [Iteration.Advance] must keep the size of a block all of whose values are above
// tau.
func (s *Iteration) Hold(held bool) { s.held = held }

// Resolve makes the triplets accurate to about eps ||X||, by a singular value decomposition in place of
// squares. It takes one Gram matrix and one product of tall matrices more a step.
func (s *Iteration) Resolve() { s.fine = true }

// LeadByGram sets the block to the leading eigenvectors of the Gram matrix g = X*X of a matrix X with at
// least as many rows as columns, g being row-major, and overwritten, on the host: as many as there
// are singular values above tau, and share as many more, at least [MinBuffer]. They are right singular vectors
// of X up to errors of eps (sigma_1/sigma)^2, which the next step removes.
func (s *Iteration) LeadByGram(g []float64, tau, share float64) error {
	values, err := eigenSym(lapack.EVCompute, g, s.n)
	if err != nil {
		return err
	}
	r := 0
	for r < s.n && values[s.n-1-r] > tau*tau {
		r++
	}
	k := min(r+max(MinBuffer, int(share*float64(r))), s.Largest())
	host := make([]float64, s.n*k)
	for i := range s.n {
		for j := range k {
			host[i*k+j] = g[i*s.n+s.n-1-j]
		}
	}
	s.v.Free()
	s.v = s.dev.Alloc(s.n, k)
	s.dev.Upload(s.v, host)
	return nil
}

func (s *Iteration) random(dst array.Batch) {
	host := make([]float64, s.n*dst.N())
	scale := 1 / math.Sqrt(float64(s.n))
	for i := range host {
		host[i] = scale * s.rng.NormFloat64()
	}
	s.dev.Upload(dst, host)
}

// Grow adds random vectors to the block, half as many as it has plus [MinBuffer]. It does nothing
// and returns false where the block already has its largest size.
func (s *Iteration) Grow() bool {
	old := s.v
	k := old.N()
	if k >= s.Largest() {
		return false
	}
	k = min(k+k/2+MinBuffer, s.Largest())
	s.v = s.dev.Alloc(s.n, k)
	s.dev.Copy(s.v.Cols(0, old.N()), old)
	s.random(s.v.Cols(old.N(), k))
	old.Free()
	return true
}

// Lead replaces the first vectors of the block by the columns of v, of which there are at most as
// many: those of a point near the one that the matrix will be computed from.
func (s *Iteration) Lead(v array.Batch) {
	if k := min(v.N(), s.v.N()); k > 0 {
		s.dev.Copy(s.v.Cols(0, k), v.Cols(0, k))
	}
}

// Triplets are leading singular values of a matrix, in decreasing order, and their vectors, with X*
// U = V S to rounding.
type Triplets struct {
	Sigma []float64
	U, V  array.Batch // m x max(r, 1) and n x max(r, 1); zero where r = 0
}

func (t *Triplets) Free() {
	array.Free(t.U, t.V)
}

// First copies the first r triplets.
func (t *Triplets) First(r int) Triplets {
	dev := t.U.Device()
	out := Triplets{Sigma: t.Sigma[:r], U: dev.Alloc(t.U.K(), max(r, 1)), V: dev.Alloc(t.V.K(), max(r, 1))}
	if r == 0 {
		dev.Fill(out.U, 0)
		dev.Fill(out.V, 0)
		return out
	}
	dev.Copy(out.U, t.U.Cols(0, r))
	dev.Copy(out.V, t.V.Cols(0, r))
	return out
}

// Residual is ||X V - U S||_F for the matrix x: X* U = V S holds to rounding.
func (t *Triplets) Residual(x Product) float64 {
	r := len(t.Sigma)
	if r == 0 {
		return 0
	}
	dev := t.U.Device()
	e, us := dev.Alloc(t.U.K(), r), dev.Alloc(t.U.K(), r)
	defer array.Free(e, us)
	x(false, e, t.V)
	ScaleColumns(us, t.U, t.Sigma)
	dev.Lin(e, 1, e, -1, us)
	flat := e.Reshape(1, e.K()*r)
	return math.Sqrt(flat.Dot(flat))
}

// ScaleColumns sets column i of dst to s_i times that of x, or to 0 beyond the end of s.
func ScaleColumns(dst, x array.Batch, s []float64) {
	dev := x.Device()
	f := dev.Alloc(1, x.N())
	defer f.Free()
	host := make([]float64, x.N())
	copy(host, s)
	dev.Upload(f, host)
	dev.Mul(dst, x, f)
}

// Error is the error of small factorizations that fail.
type Error struct{ what string }

func (e Error) Error() string { return "partial SVD: " + e.what }

// tiniest is the smallest singular value, relative to the largest one, whose vector the next block
// has: below it vectors that come from squares are not accurate.
const tiniest = 1e-6

// Advance does one step towards the singular vectors of x, by two products with it. It returns the
// triplets with values above tau, which are the caller's to free. The next block has 1.6 times as
// many vectors as there are such triplets, at least [MinBuffer] more, and more still where all
// values of this block are above tau. An [Error] says that a product was not finite.
func (s *Iteration) Advance(x Product, tau float64) (Triplets, error) {
	t, _, err := s.advance(x, tau, false)
	return t, err
}

// AdvanceAll is Advance, but returns the triplets of all values in the block, of which the first r
// are above tau. The last of them are the least accurate.
func (s *Iteration) AdvanceAll(x Product, tau float64) (all Triplets, r int, err error) {
	return s.advance(x, tau, true)
}

func (s *Iteration) advance(x Product, tau float64, all bool) (_ Triplets, r int, err error) {
	dev, k := s.dev, s.v.N()
	y := dev.Alloc(s.m, k)
	x(false, y, s.v)
	q, b, err := orthonormalize(y)
	if err != nil {
		y.Free()
		return Triplets{}, 0, err
	}
	if q != y {
		y.Free()
	}
	defer q.Free()
	kq := q.N()
	if kq == 0 {
		return s.nothing(s.next(0, 0)), 0, nil
	}
	z := dev.Alloc(s.n, kq)
	defer z.Free()
	x(true, z, q)
	p, values, err := eigenGram(z)
	if err != nil {
		return Triplets{}, 0, err
	}
	sigma := lists.Make(kq, func(i int) float64 { return math.Sqrt(math.Max(values[i], 0)) })
	carried := 0
	for carried < kq && sigma[carried] > tiniest*sigma[0] {
		carried++
	}
	f := ofSquares(z, p, sigma[:carried])
	if s.fine {
		if f, err = resolved(z, p, sigma[:carried]); err != nil {
			return Triplets{}, 0, err
		}
	}
	defer f.free()
	for r < carried && f.sigma[r] > tau {
		r++
	}
	want := s.next(r, carried)
	count := r
	if all {
		count = carried
	}
	out := f.triplets(q, count)

	// The next block.
	keep := min(carried, want)
	shift := 0.0
	if keep > 0 && kq > 1 {
		shift = sigma[carried-1] * sigma[carried-1] / 2
	}
	next := dev.Alloc(s.n, want)
	head := next.Cols(0, keep)
	if keep > 0 {
		multiply(head, z, columns(p, kq, keep, func(i int) float64 { return sigma[i] / (sigma[i]*sigma[i] - shift) }),
			0)
		// At the limit of the iteration V R^{-1} P S is Z P S^{-1}.
		back := make([]float64, k*keep)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1,
			blas64.General{Rows: k, Cols: kq, Stride: kq, Data: b},
			blas64.General{Rows: kq, Cols: keep, Stride: keep, Data: columns(p, kq, keep, func(i int) float64 {
				return -sigma[i] * shift / (sigma[i]*sigma[i] - shift)
			})}, 0, blas64.General{Rows: k, Cols: keep, Stride: keep, Data: back})
		multiply(head, s.v, back, 1)
	}
	if keep < want {
		s.random(next.Cols(keep, want))
	}
	s.v.Free()
	s.v = next
	return out, r, nil
}

func (s *Iteration) nothing(want int) Triplets {
	out := none(s.dev, s.m, s.n)
	s.v.Free()
	s.v = s.dev.Alloc(s.n, want)
	s.random(s.v)
	return out
}

func none(dev array.Device, m, n int) Triplets {
	out := Triplets{U: dev.Alloc(m, 1), V: dev.Alloc(n, 1)}
	dev.Fill(out.U, 0)
	dev.Fill(out.V, 0)
	return out
}
