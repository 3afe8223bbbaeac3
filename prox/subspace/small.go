package subspace

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/array"
	"surepipe/internal/lists"
)

// columns returns the first c columns of the row-major k x k matrix p, column i multiplied by f(i).
func columns(p []float64, k, c int, f func(i int) float64) []float64 {
	factor := lists.Make(c, f)
	out := make([]float64, k*c)
	for i := range k {
		for j, x := range factor {
			out[i*c+j] = p[i*k+j] * x
		}
	}
	return out
}

func multiply(dst, a array.Batch, b []float64, beta float64) {
	dev := a.Device()
	on := dev.Alloc(a.N(), dst.N())
	dev.Upload(on, b)
	dev.Gemm(false, false, 1, a, on, beta, dst)
	on.Free()
}

func hostGram(z array.Batch) []float64 {
	dev, k := z.Device(), z.N()
	g := dev.Alloc(k, k)
	defer g.Free()
	dev.Gemm(true, false, 1, z, z, 0, g)
	return g.ToHost()
}

// eigenGram returns the eigenvectors of z* z, a column each and row-major, and its eigenvalues in
// decreasing order.
func eigenGram(z array.Batch) (p, values []float64, err error) {
	k := z.N()
	g := hostGram(z)
	values, err = eigenSym(lapack.EVCompute, g, k)
	if err != nil {
		return nil, nil, err
	}
	for i := range k {
		row := g[i*k:][:k]
		for a, b := 0, k-1; a < b; a, b = a+1, b-1 {
			row[a], row[b] = row[b], row[a]
		}
	}
	for a, b := 0, k-1; a < b; a, b = a+1, b-1 {
		values[a], values[b] = values[b], values[a]
	}
	return g, values, nil
}

// eigenSym returns the eigenvalues of the symmetric k x k matrix g in increasing order. It replaces
// g by the eigenvectors, a column each, where job asks for them.
func eigenSym(job lapack.EVJob, g []float64, k int) ([]float64, error) {
	for _, x := range g {
		if x-x != 0 {
			return nil, Error{fmt.Sprintf("a %d x %d Gram matrix that is not finite", k, k)}
		}
	}
	sym := blas64.Symmetric{N: k, Stride: k, Data: g, Uplo: blas.Upper}
	values := make([]float64, k)
	var size [1]float64
	lapack64.Syev(job, sym, values, size[:], -1)
	work := make([]float64, int(size[0]))
	if !lapack64.Syev(job, sym, values, work, len(work)) {
		return nil, Error{fmt.Sprintf("the eigenvalues of a %d x %d matrix did not converge", k, k)}
	}
	return values, nil
}

// leastPivot is the smallest pivot of a Gram matrix of unit vectors at which its Cholesky factor
// makes them orthonormal to rounding.
const leastPivot = 0.1

// orthonormalize returns q = y b with orthonormal columns that span those of y, and b, row-major,
// by Cholesky factors of Gram matrices of the scaled columns, twice where once is not accurate.
// Columns that depend on others are dropped. q may be y itself.
func orthonormalize(y array.Batch) (q array.Batch, b []float64, err error) {
	dev, k := y.Device(), y.N()
	q = y
	b = make([]float64, k*k)
	for i := range k {
		b[i*k+i] = 1
	}
	kb := k
	for range 4 {
		t, kt, done, err := whitening(hostGram(q), kb)
		if err != nil {
			if q != y {
				q.Free()
			}
			return array.Batch{}, nil, err
		}
		next := dev.Alloc(y.K(), kt)
		if kt > 0 {
			multiply(next, q, t, 0)
		}
		product := make([]float64, k*kt)
		if kt > 0 {
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1,
				blas64.General{Rows: k, Cols: kb, Stride: kb, Data: b},
				blas64.General{Rows: kb, Cols: kt, Stride: kt, Data: t}, 0,
				blas64.General{Rows: k, Cols: kt, Stride: kt, Data: product})
		}
		if q != y {
			q.Free()
		}
		q, b, kb = next, product, kt
		if done || kt == 0 {
			break
		}
	}
	return q, b, nil
}

// whitening returns t, k x c, with t* g t = I, and whether that is accurate to rounding. c is less
// than k where g is singular.
func whitening(g []float64, k int) (t []float64, c int, done bool, err error) {
	scale := make([]float64, k)
	singular := false
	for i := range k {
		d := g[i*k+i]
		if d-d != 0 {
			return nil, 0, false, Error{"an iterate that is not finite"}
		}
		if scale[i] = 1 / math.Sqrt(d); d <= 0 || math.IsInf(scale[i], 0) {
			scale[i], singular = 0, true
		}
	}
	for i := range k {
		for j := range k {
			g[i*k+j] *= scale[i] * scale[j]
		}
	}
	if !singular {
		r := append([]float64(nil), g...)
		tri, ok := lapack64.Potrf(blas64.Symmetric{N: k, Stride: k, Data: r, Uplo: blas.Upper})
		least := math.Inf(1)
		for i := range k {
			least = math.Min(least, r[i*k+i])
		}
		if ok && least > 1e-5 && lapack64.Trtri(tri) {
			for i := range k {
				for j := range k {
					if j < i {
						r[i*k+j] = 0
					} else {
						r[i*k+j] *= scale[i]
					}
				}
			}
			return r, k, least > leastPivot, nil
		}
	}
	values, err := eigenSym(lapack.EVCompute, g, k)
	if err != nil {
		return nil, 0, false, err
	}
	first := 0
	for first < k && !(values[first] > 1e-12*values[k-1]) {
		first++
	}
	c = k - first
	t = make([]float64, k*c)
	for i := range k {
		for j := range c {
			t[i*c+j] = scale[i] * g[i*k+first+j] / math.Sqrt(values[first+j])
		}
	}
	return t, c, false, nil
}
