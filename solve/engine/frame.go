package engine

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/linops"
)

// Frame is the factors L = U F^{1/2} and R = V F^{1/2} of a solution of rank k, on the host, row-major: the
// coordinates of a [Reduced] system refer to them.
type Frame struct {
	K       int       // columns of L and R, some of which may be zeros at the end
	L, R    []float64 // row-major
	Rank    int       // columns that are not
	Columns bool      // the coordinates are those of R, else of L
}

// Turn is the matrix T that takes coordinates with one frame to those with another, of a solution nearby, P
// to P T: the polar factor of L_0* L + R_0* R, so that [L_0; R_0] T is as near to [L; R] as a matrix with
// orthonormal columns or rows takes it (Schonemann, Psychometrika 31, 1966). Factors are determined only
// up to such a matrix. It is nil where the frames do not belong to matrices of the same size.
func (from *Frame) Turn(to *Frame) []float64 {
	if from.Columns != to.Columns || len(from.L)*to.K != len(to.L)*from.K || len(from.R)*to.K != len(to.R)*from.K {
		return nil
	}
	k, n := from.K, to.K
	cross := mat.NewDense(k, n, nil)
	add := func(a, b []float64) {
		m := len(a) / k
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, blas64.General{Rows: m, Cols: k, Stride: k, Data: a},
			blas64.General{Rows: m, Cols: n, Stride: n, Data: b}, 1, cross.RawMatrix())
	}
	add(from.L, to.L)
	add(from.R, to.R)
	u, _, v, err := numerics.SVD(cross.Slice(0, from.Rank, 0, to.Rank).(*mat.Dense))
	if err != nil {
		return nil
	}
	t := mat.NewDense(k, n, nil)
	t.Slice(0, from.Rank, 0, to.Rank).(*mat.Dense).Mul(u, v.T())
	return t.RawMatrix().Data
}

// Reduced is the system of the derivative at a solution of low rank in the coordinates of one factor, the other one
// being eliminated: the operator is M, and
//
//	D mu_hat = apart + M S^{-1} M*.
type Reduced interface {
	linops.Restricted
	// Apart adds to dst_i what the eliminated factor contributes by itself to the image of w_i.
	Apart(dst, w array.Batch)
	// Square sets dst_i = S p_i; they are different batches.
	Square(dst, p array.Batch)
	// Precondition sets dst_i to about S^{-1} z_i, by a positive definite operator; they are different
	// batches. With clean set no dst_i has a part along the directions along which S is 0, which no image
	// shows; Clean takes such parts out of p.
	Precondition(dst, z array.Batch, clean bool)
	Clean(p array.Batch)
	// Work is the memory in bytes that its products take for each vector, besides their results.
	Work() int64
	// Frame is what the coordinates refer to, and Weight is lambda.
	Frame() *Frame
	Weight() float64
	// Carry sets dst_i to P_i T for coordinates P_i with another frame, T being its [Frame.Turn].
	Carry(dst, p, turn array.Batch)
}
