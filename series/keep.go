package series

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/internal/lists"
)

// kept is a series without what p columns of a design explain, in N - p coordinates: with a full orthogonal matrix
// [Q P] whose first p columns span the design, the courses y of voxels become P* y. White noise stays white.
type kept struct {
	Source
	p       int
	basis   []float64 // [Q P]*, N x N, row-major: the rows of Q first
	courses []float64 // of the slice that is read
	turned  []float64
}

// keep returns the series without the design, N x p and row-major.
func keep(from Source, design []float64) (*kept, error) {
	n := from.Shape().Volumes
	p := len(design) / n
	if len(design) == 0 || len(design)%n != 0 || p > n-2 {
		return nil, fmt.Errorf("series: a design of %d values for %d volumes, expected columns of %d, at most %d",
			len(design), n, n, n-2)
	}
	q := make([]float64, n*n) // the columns of the design as the first of a square matrix
	for i := range n {
		for j := range p {
			v := design[i*p+j]
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("series: the design holds %g in row %d, column %d", v, i+1, j+1)
			}
			q[i*n+j] = v
		}
	}
	tau, size := make([]float64, n), make([]float64, 1)
	square := general(q, n, n)
	columns := square
	columns.Cols = p
	lapack64.Geqrf(columns, tau[:p], size, -1)
	work := make([]float64, max(int(size[0]), 64*n))
	lapack64.Geqrf(columns, tau[:p], work, len(work))
	for j := range p {
		norm := 0.0
		for i := range n {
			norm = math.Hypot(norm, design[i*p+j])
		}
		if math.Abs(q[j*n+j]) <= 1e-10*norm {
			return nil, fmt.Errorf("series: column %d of the design depends on those before it", j+1)
		}
	}
	lapack64.Orgqr(square, tau[:p], work, len(work))
	k := &kept{Source: from, p: p, basis: make([]float64, n*n)}
	for i := range n {
		for j := range n {
			k.basis[j*n+i] = q[i*n+j]
		}
	}
	return k, nil
}

func (k *kept) Shape() Shape {
	s := k.Source.Shape()
	s.Volumes -= k.p
	return s
}

func (k *kept) Slice(dst []float64, z int) error {
	shape := k.Source.Shape()
	k.courses, k.turned = lists.Resize(k.courses, shape.slice()), lists.Resize(k.turned, shape.slice())
	if err := k.Source.Slice(k.courses, z); err != nil {
		return err
	}
	k.turn(k.turned, k.courses, blas.NoTrans)
	n, course := k.p*shape.Parts(), shape.course()
	for i := range shape.area() {
		copy(dst[i*(course-n):][:course-n], k.turned[i*course+n:][:course-n])
	}
	return nil
}

func (k *kept) turn(dst, courses []float64, trans blas.Transpose) {
	shape := k.Source.Shape()
	n, parts := shape.Volumes, shape.Parts()
	basis := general(k.basis, n, n)
	if parts == 1 { // all at once: the courses are rows
		other := blas.Trans
		if trans == blas.Trans {
			other = blas.NoTrans
		}
		blas64.Gemm(blas.NoTrans, other, 1, general(courses, shape.area(), n), basis, 0, general(dst, shape.area(), n))
		return
	}
	for i := range shape.area() {
		blas64.Gemm(trans, blas.NoTrans, 1, basis, general(courses[i*n*parts:], n, parts), 0,
			general(dst[i*n*parts:], n, parts))
	}
}

// restore puts the part in the design back into a denoised slice: p degrees of freedom and p sigma^2 of risk more at
// each voxel, twice that of complex values.
func (k *kept) restore(s *Slice, sigma []float64) (df, risk float64, err error) {
	shape := k.Source.Shape()
	k.courses, k.turned = lists.Resize(k.courses, shape.slice()), lists.Resize(k.turned, shape.slice())
	if err := k.Source.Slice(k.courses, s.Z); err != nil {
		return 0, 0, err
	}
	k.turn(k.turned, k.courses, blas.NoTrans)
	n, course := k.p*shape.Parts(), shape.course()
	for i := range shape.area() {
		copy(k.turned[i*course+n:][:course-n], s.Clean[i*(course-n):][:course-n])
		if !math.IsNaN(s.DF[i]) {
			r := float64(n) * sigma[i] * sigma[i]
			s.DF[i] += float64(n)
			s.Risk[i] += r
			df += float64(n)
			risk += r
		}
	}
	clean := make([]float64, shape.slice())
	k.turn(clean, k.turned, blas.Trans)
	for i := range shape.area() { // as it is outside of the mask
		if math.IsNaN(s.DF[i]) {
			copy(clean[i*course:][:course], k.courses[i*course:])
		}
	}
	s.Clean = clean
	return df, risk, nil
}
