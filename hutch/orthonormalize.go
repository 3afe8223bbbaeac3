package hutch

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
)

const (
	epsilon = 0x1p-52
	// gramCut is the smallest eigenvalue of a Gram matrix, relative to the largest, whose direction
	// is taken in one round. The rounding error of a Gram matrix is near 1e-14, so these
	// eigenvalues have at least two digits and a second pass makes the directions orthonormal.
	gramCut = 1e-10
	// remnant is the squared length that a direction of length 1 must keep when it is projected
	// away from the basis; one that keeps less was mostly rounding error.
	remnant = 1e-2
)

// Orthonormalize computes an orthonormal basis q_0, ..., q_{rank-1} of the span
// of the vectors of y, to rounding: |<q_i, q_j> - delta_ij| is a few times
// 1e-16. Both batches are k x d and do not overlap; y is not changed, and
// vectors rank to k-1 of q are undefined afterwards.
//
// The vectors of y are first scaled to length 1, however large or small they are. A direction then
// belongs to the span when its singular value in y is above 16 sqrt(k) eps, eps = 2.2e-16: below
// that it cannot be distinguished from rounding errors. The rank is 0 when y = 0. Vectors without
// an entry of at least 2.2e-308 count as zero. A NaN or an infinity in y is an error, as is a fault
// of the device.
//
// All work on vectors is done by the device, and only k x k matrices go to the host. A round takes
// the Gram matrix G = YY* = W diag(lambda) W*, the directions lambda_i^{-1/2} w_i* Y of its leading
// eigenvalues, makes them orthogonal to the basis so far and, by their own Gram matrix, to each
// other. Because G squares the singular values, one round resolves five digits of them; the next
// works on the remainder Y - YQ*Q, until nothing is left.
func Orthonormalize(q, y array.Batch) (rank int, err error) {
	k, d := y.K(), y.N()
	if q.K() != k || q.N() != d {
		panic(fmt.Sprintf("hutch: Orthonormalize of %s into %s", y, q))
	}
	dev := y.Device()
	rest, work := dev.Alloc(k, d), dev.Alloc(k, d)
	defer array.Free(rest, work)
	if err := normalize(rest, y); err != nil {
		return 0, err
	}
	noise := 16 * math.Sqrt(float64(k)) * epsilon
	for limit := min(k, d); rank < limit; {
		m, _, err := whiten(work.Rows(0, limit-rank), rest, gramCut, noise*noise)
		if err != nil || m == 0 {
			return rank, err
		}
		for least := 0.0; least < 0.5; {
			fresh, found := work.Rows(0, m), q.Rows(rank, rank+m)
			Deflate(fresh, fresh, q.Rows(0, rank))
			if m, least, err = whiten(found, fresh, 0, remnant); err != nil || m == 0 {
				return rank, err
			}
			dev.Copy(work.Rows(0, m), q.Rows(rank, rank+m))
		}
		if rank+m < limit {
			Deflate(rest, rest, q.Rows(rank, rank+m))
		}
		rank += m
	}
	return rank, dev.Err()
}

// normalize sets dst_i = y_i / ||y_i||, and dst_i = 0 where y_i = 0.
func normalize(dst, y array.Batch) error {
	dev, k := y.Device(), y.K()
	size := make([]float64, k)
	dev.MaxAbs(size, y)
	if err := dev.Err(); err != nil {
		return err
	}
	for i, s := range size {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return fmt.Errorf("hutch: vector %d of the %s to orthonormalize holds a NaN or an infinity", i, y)
		}
	}
	// Divide by the largest entry first: the squares in a norm may overflow.
	scale := func(x array.Batch, smallest float64) {
		for i, s := range size {
			if s < smallest {
				size[i] = 0
			} else {
				size[i] = 1 / s
			}
		}
		dev.LinEach(dst, size, x, nil, array.Batch{})
	}
	scale(y, 0x1p-1022)
	dev.Dot(size, dst, dst)
	for i, s := range size {
		size[i] = math.Sqrt(s)
	}
	scale(dst, 0.5) // each is 0, or at least 1
	return nil
}

// whiten sets dst_i = lambda_i^{-1/2} w_i* X for the leading eigenpairs of the
// Gram matrix XX*: those above both relative times the largest and floor, at
// most as many as dst has vectors. It returns how many these are and the least
// eigenvalue among them.
func whiten(dst, x array.Batch, relative, floor float64) (m int, least float64, err error) {
	dev, k := x.Device(), x.K()
	gram := dev.Alloc(k, k)
	defer gram.Free()
	dev.Gemm(false, true, 1, x, x, 0, gram)
	values := gram.ToHost()
	if err := dev.Err(); err != nil {
		return 0, 0, err
	}
	lambda, w, err := numerics.Eigen(mat.NewSymDense(k, values))
	if err != nil {
		return 0, 0, fmt.Errorf("hutch: Gram matrix: %w", err)
	}
	cut := max(relative*lambda[k-1], floor)
	coefficients := make([]float64, 0, k*k)
	for i := k - 1; i >= 0 && m < dst.K() && lambda[i] > cut; i-- {
		least = lambda[i]
		for j := range k {
			coefficients = append(coefficients, w.At(j, i)/math.Sqrt(least))
		}
		m++
	}
	if m == 0 {
		return 0, 0, nil
	}
	c := dev.Alloc(m, k)
	defer c.Free()
	dev.Upload(c, coefficients)
	dev.Gemm(false, false, 1, c, x, 0, dst.Rows(0, m))
	return m, least, nil
}
