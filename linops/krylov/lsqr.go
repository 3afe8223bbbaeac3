package krylov

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/progress"
)

// LSQROptions configure [LSQR].
type LSQROptions struct {
	// Tol is the tolerance, default 1e-12.
	Tol float64
	// MaxIterations bounds the number of steps, default 10 min(d, p) within 100 and 10000.
	MaxIterations int
	// Lengths, unless nil, are positive numbers e_j, one a column: the method works with A diag(1/e), which
	// is well conditioned where columns differ in length alone.
	Lengths []float64
}

// LSQRResult describes a call of LSQR.
type LSQRResult struct {
	// Iterations is the number of steps that the slowest vector took.
	Iterations int
	// Gradient is, for each vector, ||A* r||/(||A|| ||r||) with r = rhs - A x and the Frobenius norm of what
	// the method has seen of A, by the recurrence; Residual is ||r||/||rhs||.
	Gradient, Residual []float64
	// Converged reports whether every vector reached the tolerance.
	Converged bool
}

// LSQR minimizes ||A x_i - rhs_i||^2 for every vector of the batch, from zero, by Golub
// and Kahan's bidiagonalization of A: what conjugate gradients on the normal equations compute, with
// errors that grow like the condition of A, and not its square. dst is k x p, rhs k x d. The
// solution has the least norm where there are several.
//
// A vector stops where its Gradient or its Residual is at most Tol, and then does not change while the
// others go on. Where Converged is false dst holds the last iterates, and there is no error.
// An error is a cancelled context, a device fault or a value that is not finite; dst is then undefined.
//
// Paige and Saunders, LSQR: an algorithm for sparse linear equations and sparse least squares, 1982.
func LSQR(ctx context.Context, dst, rhs array.Batch, a linops.Operator, opts LSQROptions) (LSQRResult, error) {
	d, p := a.Dims()
	k := rhs.K()
	if dst.K() != k || dst.N() != p || rhs.N() != d || opts.Lengths != nil && len(opts.Lengths) != p {
		panic(fmt.Sprintf("linops: LSQR of %s into %s with a %d x %d operator and %d lengths", rhs, dst, d, p,
			len(opts.Lengths)))
	}
	if opts.Tol == 0 {
		opts.Tol = 1e-12
	}
	if opts.MaxIterations == 0 {
		opts.MaxIterations = min(max(10*min(d, p), 100), 10000)
	}
	m := newLSQR(a, dst, rhs, opts)
	defer m.free()
	report := progress.From(ctx)
	err := m.begin(rhs)
	for err == nil && m.left() > 0 && m.res.Iterations < opts.MaxIterations {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		err = m.step()
		report(progress.Report{Stage: progress.InnerSteps, Step: m.res.Iterations})
	}
	if err == nil {
		err = m.dev.Err()
	}
	if err != nil {
		return m.res, fmt.Errorf("linops: LSQR, step %d: %w", m.res.Iterations, err)
	}
	m.res.Converged = m.left() == 0
	if !m.shorten.IsZero() {
		m.dev.Mul(dst, dst, m.shorten)
	}
	return m.res, m.dev.Err()
}

// lsqr is a run.
type lsqr struct {
	dev              array.Device
	a                linops.Operator
	opts             LSQROptions
	res              LSQRResult
	x, u, v, w       array.Batch
	au, av           array.Batch // products
	shorten          array.Batch // 1/e, or zero
	state            []bidiagonal
	one, first, last []float64
}

// bidiagonal are the numbers of a vector, by the names of the paper.
type bidiagonal struct {
	alpha, beta, rhoBar, phiBar, norm2, rhs float64
	done                                    bool
}

func newLSQR(a linops.Operator, dst, rhs array.Batch, opts LSQROptions) *lsqr {
	dev, k, d, p := rhs.Device(), rhs.K(), rhs.N(), dst.N()
	m := &lsqr{
		dev: dev, a: a, opts: opts, x: dst, state: make([]bidiagonal, k),
		u: dev.Alloc(k, d), au: dev.Alloc(k, d), v: dev.Alloc(k, p), w: dev.Alloc(k, p), av: dev.Alloc(k, p),
		one: make([]float64, k), first: make([]float64, k), last: make([]float64, k),
		res: LSQRResult{Gradient: make([]float64, k), Residual: make([]float64, k)},
	}
	if opts.Lengths != nil {
		host := make([]float64, p)
		for j, v := range opts.Lengths {
			host[j] = 1 / v
		}
		m.shorten = dev.Put(host, 1, p)
	}
	return m
}

func (m *lsqr) free() {
	array.Free(m.u, m.au, m.v, m.w, m.av, m.shorten)
}

func (m *lsqr) left() int {
	n := 0
	for i := range m.state {
		if !m.state[i].done {
			n++
		}
	}
	return n
}

// Forward sets au = A diag(1/e) v.
func (m *lsqr) forward() {
	if m.shorten.IsZero() {
		m.a.Forward(m.au, m.v)
		return
	}
	m.dev.Mul(m.av, m.v, m.shorten)
	m.a.Forward(m.au, m.av)
}

// adjoint sets av = diag(1/e) A* u.
func (m *lsqr) adjoint() {
	m.a.Adjoint(m.av, m.u)
	if !m.shorten.IsZero() {
		m.dev.Mul(m.av, m.av, m.shorten)
	}
}

// normalize scales the vectors to length 1, unless they are 0, and gives the lengths.
func (m *lsqr) normalize(b array.Batch, lengths []float64) error {
	m.dev.Dot(lengths, b, b)
	if err := m.dev.Err(); err != nil {
		return err
	}
	for i, v := range lengths {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("vector %d has a value that is not finite, or one of the operator's products has", i)
		}
		lengths[i], m.one[i] = math.Sqrt(v), 0
		if v > 0 {
			m.one[i] = 1 / lengths[i]
		}
	}
	m.dev.LinEach(b, m.one, b, nil, array.Batch{})
	return nil
}

func (m *lsqr) begin(rhs array.Batch) error {
	m.dev.Copy(m.u, rhs)
	if err := m.normalize(m.u, m.first); err != nil {
		return err
	}
	m.adjoint()
	m.dev.Copy(m.v, m.av)
	if err := m.normalize(m.v, m.last); err != nil {
		return err
	}
	m.dev.Copy(m.w, m.v)
	m.dev.Fill(m.x, 0)
	for i := range m.state {
		beta, alpha := m.first[i], m.last[i]
		m.state[i] = bidiagonal{alpha: alpha, rhoBar: alpha, phiBar: beta, rhs: beta, norm2: alpha * alpha,
			done: !(beta > 0) || !(alpha > 0)}
		if beta > 0 {
			m.res.Residual[i] = 1
		}
	}
	return nil
}

// step takes one step for every vector that is not done.
func (m *lsqr) step() error {
	m.res.Iterations++
	m.forward()
	for i := range m.state {
		m.last[i] = -m.state[i].alpha
		m.one[i] = 1
	}
	m.dev.LinEach(m.u, m.one, m.au, m.last, m.u)
	if err := m.normalize(m.u, m.first); err != nil {
		return err
	}
	m.adjoint()
	for i := range m.state {
		m.state[i].beta = m.first[i]
		m.first[i], m.one[i] = -m.first[i], 1
	}
	m.dev.LinEach(m.v, m.one, m.av, m.first, m.v)
	if err := m.normalize(m.v, m.last); err != nil {
		return err
	}
	for i := range m.state {
		m.first[i], m.last[i] = m.state[i].rotate(m.last[i], m.opts, &m.res, i)
		m.one[i] = 1
	}
	// x += phi/rho w, and then w = v - theta/rho w.
	m.dev.LinEach(m.x, m.one, m.x, m.first, m.w)
	m.dev.LinEach(m.w, m.one, m.v, m.last, m.w)
	return m.dev.Err()
}

// rotate takes the rotations that make the bidiagonal matrix triangular, and returns phi/rho and
// -theta/rho; zeros where the vector is done.
func (s *bidiagonal) rotate(alpha float64, o LSQROptions, res *LSQRResult, i int) (along, back float64) {
	if s.done {
		return 0, 0
	}
	s.norm2 += s.beta*s.beta + alpha*alpha
	rho := math.Hypot(s.rhoBar, s.beta)
	c, sine := s.rhoBar/rho, s.beta/rho
	theta, phi := sine*alpha, c*s.phiBar
	s.alpha, s.rhoBar, s.phiBar = alpha, -c*alpha, sine*s.phiBar
	res.Residual[i] = math.Abs(s.phiBar) / s.rhs
	res.Gradient[i] = alpha * math.Abs(c) / math.Sqrt(s.norm2)
	s.done = res.Gradient[i] <= o.Tol || res.Residual[i] <= o.Tol
	return phi / rho, -theta / rho
}
