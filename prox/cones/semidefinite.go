package cones

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// semidefinite is the indicator of the symmetric positive semidefinite matrices.
type semidefinite struct {
	m    int
	work sync.Pool // of *spectral
	prox.Known
}

// NewSemidefinite returns the constraint that B, an m x m matrix, is symmetric and positive
// semidefinite: r(B) = 0 there and +Inf elsewhere, on vectors of length m^2, row-major. With the
// eigenvectors V and eigenvalues l of (X + X*)/2 the projection is
//
//	prox_{t r}(X) = V max(l, 0) V*,
//	J Z = V (W ∘ V*(Z + Z*)/2 V) V*,   W_ij = (max(l_i, 0) - max(l_j, 0))/(l_i - l_j),
//
// which is 1 where both eigenvalues are positive, l_i/(l_i - l_j) where only l_i is, and 0 where
// neither is (Malick and Sendov 2006): no difference of nearly equal eigenvalues is divided by. With
// the rank k the model is the manifold of symmetric matrices of rank k: T are the symmetric matrices Z
// whose part on the null space of B vanishes, of dimension k (2m - k + 1)/2, and in V's coordinates Q
// is diagonal, with -l_j/(t l_i) at a pair of a positive l_i and another l_j. An eigenvalue of 0 counts
// as not positive.
//
// Eigenvalues are computed on the host, in time m^3 for each vector; J is applied on the device. Value
// allows the least eigenvalue and the asymmetry an error of 1e-9 times the largest entry. It panics
// unless m is positive.
func NewSemidefinite(m int) prox.Prox {
	if m < 1 {
		panic(fmt.Sprintf("prox: semidefinite %d x %d matrices, want a positive number of rows", m, m))
	}
	p := &semidefinite{m: m}
	p.Is = prox.Structure{Value: p.value, Shape: array.Shape{Rows: m, Cols: m}, Support: p.support}
	return p
}

func (p *semidefinite) Dim() int { return p.m * p.m }

// spectral is the memory of one decomposition of X.
type spectral struct {
	x      []float64 // X, then its projection
	v      []float64 // the eigenvectors, as columns
	values []float64 // in increasing order
	half   []float64 // the columns of v that count, times the roots of their eigenvalues
	work   []float64
	err    error
}

func (p *semidefinite) memory() *spectral {
	w, ok := p.work.Get().(*spectral)
	if !ok {
		n := p.Dim()
		w = &spectral{x: make([]float64, n), v: make([]float64, n), half: make([]float64, n),
			values: make([]float64, p.m), work: make([]float64, 1)}
		lapack64.Syev(lapack.EVCompute, w.symmetric(p.m), w.values, w.work, -1)
		w.work = make([]float64, int(w.work[0]))
	}
	w.err = nil
	return w
}

func (w *spectral) symmetric(m int) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Upper, N: m, Stride: m, Data: w.v}
}

// project sets x to its projection. The eigenvalues and eigenvectors of what it was are left in values
// and v.
func (w *spectral) project(m int) {
	for i := range m {
		for j := i; j < m; j++ {
			w.v[i*m+j] = w.x[i*m+j]/2 + w.x[j*m+i]/2
		}
	}
	if !lapack64.Syev(lapack.EVCompute, w.symmetric(m), w.values, w.work, len(w.work)) {
		w.err = fmt.Errorf("prox: semidefinite: the eigenvalues of a %d x %d matrix did not converge", m, m)
		return
	}
	none := negative(w.values)
	r := m - none
	clear(w.x)
	if r == 0 {
		return
	}
	for i := range m {
		for j := range r {
			w.half[i*r+j] = w.v[i*m+none+j] * math.Sqrt(w.values[none+j])
		}
	}
	factor := blas64.General{Rows: m, Cols: r, Stride: r, Data: w.half[:m*r]}
	blas64.Syrk(blas.NoTrans, 1, factor, 0, blas64.Symmetric{Uplo: blas.Upper, N: m, Stride: m, Data: w.x})
	for i := range m {
		for j := range i {
			w.x[i*m+j] = w.x[j*m+i]
		}
	}
}

func negative(values []float64) int {
	n := 0
	for n < len(values) && values[n] <= 0 {
		n++
	}
	return n
}

func (p *semidefinite) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("semidefinite", p.Dim(), dst, v, t)
	w := p.memory()
	defer p.work.Put(w)
	if err := vector.OnEach("semidefinite", dst, v, w.x, func() { w.project(p.m) }); err != nil {
		return err
	}
	return w.err
}

func (p *semidefinite) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize("semidefinite", p.Dim(), dst, v, t)
	w := p.memory()
	defer p.work.Put(w)
	if err := vector.OnEach("semidefinite", dst, v, w.x, func() { w.project(p.m) }); err != nil {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	m, dev := p.m, v.Device()
	none := negative(w.values)
	if none == m {
		return prox.NewMultiple(0, v, p.margin), nil
	}
	j := &semidefiniteDerivative{m: m, r: m - none, t: t, margin: p.margin, values: make([]float64, m)}
	// In decreasing order.
	turned, weight, swap := make([]float64, m*m), make([]float64, m*m), make([]int, m*m)
	for a := range m {
		j.values[a] = w.values[m-1-a]
		for i := range m {
			turned[i*m+a] = w.v[i*m+m-1-a]
			swap[i*m+a] = a*m + i
		}
	}
	for a := range m {
		for b := range m {
			weight[a*m+b] = j.weight(a, b) / 2
		}
	}
	j.v, j.weights, j.swap = dev.Alloc(1, m*m), dev.Alloc(1, m*m), dev.NewIndex(swap)
	dev.Upload(j.v, turned)
	dev.Upload(j.weights, weight)
	return prox.NewDerivative("semidefinite", m*m, j.apply, j.model, j.v, j.weights, j.swap), nil
}

func (p *semidefinite) value(b array.Batch) float64 {
	vector.CheckValue("semidefinite", p.Dim(), b)
	w := p.memory()
	defer p.work.Put(w)
	b.Device().Download(w.x, b)
	allowed := onTheSet * lists.MaxAbs(w.x)
	for i := range p.m {
		for j := range i {
			if !(math.Abs(w.x[i*p.m+j]-w.x[j*p.m+i]) <= allowed) {
				return math.Inf(1)
			}
		}
	}
	w.project(p.m)
	if w.err != nil || !(w.values[0] >= -allowed) {
		return math.Inf(1)
	}
	return 0
}

// margin is the least |eigenvalue|, of which none moves by more than v.
func (p *semidefinite) margin(v array.Batch) float64 {
	w := p.memory()
	defer p.work.Put(w)
	v.Device().Download(w.x, v)
	w.project(p.m)
	if w.err != nil {
		return 0
	}
	least := math.Inf(1)
	for _, l := range w.values {
		least = math.Min(least, math.Abs(l))
	}
	return least
}

// semidefiniteDerivative is J for matrices of rank r > 0.
type semidefiniteDerivative struct {
	m, r       int
	t          float64
	values     []float64 // in decreasing order
	v, weights array.Batch
	swap       array.Index // of the transpose
	margin     func(v array.Batch) float64
}

func (j *semidefiniteDerivative) weight(a, b int) float64 {
	a, b = min(a, b), max(a, b)
	switch {
	case b < j.r:
		return 1
	case a >= j.r:
		return 0
	}
	return j.values[a] / (j.values[a] - j.values[b])
}

func (j *semidefiniteDerivative) apply(dst, z array.Batch) {
	dev, shape := dst.Device(), array.Shape{Rows: j.m, Cols: j.m}
	t, u := dev.Alloc(z.K(), j.m*j.m), dev.Alloc(z.K(), j.m*j.m)
	defer array.Free(t, u)
	dev.GemmEach(false, false, 1, z, shape, j.v, shape, 0, t)
	dev.GemmEach(true, false, 1, j.v, shape, t, shape, 0, u)
	dev.Gather(t, u, j.swap)
	dev.Lin(u, 1, u, 1, t)
	dev.Mul(u, j.weights, u)
	dev.GemmEach(false, true, 1, u, shape, j.v, shape, 0, t)
	dev.GemmEach(false, false, 1, j.v, shape, t, shape, 0, u)
	dev.Copy(dst, u)
}

func (j *semidefiniteDerivative) model() *prox.Model {
	dev := j.v.Device()
	if dev.Err() != nil {
		return nil
	}
	m := &prox.Model{Space: space.SymmetricTangent(j.m, j.r, j.v), Margin: j.margin}
	if j.r == j.m {
		return m
	}
	q := make([]float64, 0, m.Space.Dim())
	for a := range j.r {
		for b := a; b < j.m; b++ {
			q = append(q, (1/j.weight(a, b)-1)/j.t)
		}
	}
	m.Curvature = prox.NewDiagonalCurvature(dev, q, j.t)
	return m
}

func (p *semidefinite) support(g array.Batch) float64 { return polar(p, g) }
