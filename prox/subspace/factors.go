package subspace

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/array"
)

// factors are the singular value decomposition of q z*, for q with orthonormal columns: sigma, and the
// vectors q u and basis v.
type factors struct {
	sigma []float64
	basis array.Batch
	owned bool      // basis is not z
	k     int       // columns of q
	u, v  []float64 // k x len(sigma), and basis.N() x len(sigma), row-major
}

// ofSquares are those of the eigenvectors p of z* z, a column each and row-major, and the square roots
// sigma of its leading eigenvalues. They err by eps sigma_1/sigma_i of ||z||.
func ofSquares(z array.Batch, p, sigma []float64) factors {
	k, c := z.N(), len(sigma)
	return factors{
		sigma: sigma, basis: z, k: k,
		u: columns(p, k, c, func(int) float64 { return 1 }),
		v: columns(p, k, c, func(i int) float64 { return 1 / sigma[i] }),
	}
}

// resolved is ofSquares with errors of about eps ||z||. The columns of w = z p are nearly orthogonal, so
// that a Cholesky factor of the Gram matrix of the unit vectors along them, R* R, is accurate however
// different their lengths D are (Demmel and Veselic, SIAM J. Matrix Anal. Appl. 13, 1992), and w = Q R D
// with Q orthonormal to rounding. With the singular value decomposition R D = A S B* that is Q A S B*.
func resolved(z array.Batch, p, sigma []float64) (factors, error) {
	dev, k, c := z.Device(), z.N(), len(sigma)
	if c == 0 {
		return ofSquares(z, p, sigma), nil
	}
	unit := dev.Alloc(z.K(), c)
	multiply(unit, z, columns(p, k, c, func(i int) float64 { return 1 / sigma[i] }), 0)
	r := hostGram(unit)
	tri, ok := lapack64.Potrf(blas64.Symmetric{N: c, Stride: c, Data: r, Uplo: blas.Upper})
	inverse := append([]float64(nil), r...)
	if ok {
		tri.Data = inverse
		ok = lapack64.Trtri(tri)
	}
	if !ok {
		unit.Free()
		return factors{}, Error{fmt.Sprintf("the Gram matrix of %d singular vectors is not positive definite", c)}
	}
	for i := range c {
		for j := range c {
			if j < i {
				r[i*c+j], inverse[i*c+j] = 0, 0
			} else {
				r[i*c+j] *= sigma[j]
			}
		}
	}
	a, s, bt, err := svd(r, c)
	if err != nil {
		unit.Free()
		return factors{}, err
	}
	f := factors{sigma: s, basis: unit, owned: true, k: k, u: make([]float64, k*c), v: make([]float64, c*c)}
	lead := columns(p, k, c, func(int) float64 { return 1 })
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(lead, k, c), general(bt, c, c), 0, general(f.u, k, c))
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(inverse, c, c), general(a, c, c), 0, general(f.v, c, c))
	return f, nil
}

func (f *factors) triplets(q array.Batch, count int) Triplets {
	dev, c := q.Device(), len(f.sigma)
	if count == 0 {
		return none(dev, q.K(), f.basis.K())
	}
	out := Triplets{Sigma: f.sigma[:count], U: dev.Alloc(q.K(), count), V: dev.Alloc(f.basis.K(), count)}
	multiply(out.U, q, leading(f.u, f.k, c, count), 0)
	multiply(out.V, f.basis, leading(f.v, f.basis.N(), c, count), 0)
	return out
}

func (f *factors) free() {
	if f.owned {
		f.basis.Free()
	}
}

// leading are the first count columns of the rows x c matrix x.
func leading(x []float64, rows, c, count int) []float64 {
	if count == c {
		return x
	}
	out := make([]float64, rows*count)
	for i := range rows {
		copy(out[i*count:][:count], x[i*c:])
	}
	return out
}

func general(x []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
}

// svd is the singular value decomposition of the k x k matrix x, which is overwritten: a diag(s) bt.
func svd(x []float64, k int) (a, s, bt []float64, err error) {
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil, nil, Error{"an iterate that is not finite"}
		}
	}
	a, s, bt = make([]float64, k*k), make([]float64, k), make([]float64, k*k)
	in, left, right := general(x, k, k), general(a, k, k), general(bt, k, k)
	var size [1]float64
	lapack64.Gesvd(lapack.SVDAll, lapack.SVDAll, in, left, right, s, size[:], -1)
	work := make([]float64, int(size[0]))
	if !lapack64.Gesvd(lapack.SVDAll, lapack.SVDAll, in, left, right, s, work, len(work)) {
		return nil, nil, nil, Error{fmt.Sprintf("the singular values of a %d x %d matrix did not converge", k, k)}
	}
	return a, s, bt, nil
}
