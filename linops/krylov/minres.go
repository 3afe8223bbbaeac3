package krylov

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/progress"
)

// MINRESResult describes a call of MINRES.
type MINRESResult struct {
	// Iterations is the number of steps that the slowest vector took.
	Iterations int
	// Residual is, for each vector, its residual relative to the right-hand side in the norm of the
	// preconditioner, sqrt(<r, P r>/<rhs, P rhs>), by the recurrence.
	Residual []float64
	// Converged reports whether every vector reached the tolerance.
	Converged bool
}

// MINRES solves M x_i = rhs_i for every vector of the batch by the preconditioned minimal residual
// method from zero. apply sets dst = M x for a self-adjoint M, which may be indefinite, and singular
// where rhs is in its range; each vector alone; dst and x do not overlap. The preconditioner is
// self-adjoint and positive definite. dst and rhs are different batches. MaxIterations is that of [CG].
//
// Each vector stops by its own residual and then does not change, bit for bit, while the others go on.
// Where Converged is false dst holds the last iterates, whose residuals are the least in the Krylov
// space, and there is no error. An error is a cancelled context, a device fault, a value that is not
// finite, or a direction in which the preconditioner is not positive; dst is then undefined.
//
// Paige and Saunders, Solution of sparse indefinite systems of linear equations, 1975; with the
// preconditioner, Elman, Silvester and Wathen, Finite Elements and Fast Iterative Solvers, section 4.1.
func MINRES(ctx context.Context, dst, rhs array.Batch, apply func(dst, x array.Batch), opts CGOptions) (MINRESResult,
	error) {
	k, n := rhs.K(), rhs.N()
	if dst.K() != k || dst.N() != n {
		panic(fmt.Sprintf("linops: MINRES of %s into %s", rhs, dst))
	}
	opts.Tol, opts.MaxIterations = cmp.Or(opts.Tol, 1e-13), cmp.Or(opts.MaxIterations, 1000)
	m := newMINRES(dst, rhs, opts)
	defer m.free()
	if err := m.begin(rhs); err != nil {
		return m.res, m.wrap(err)
	}
	report := progress.From(ctx)
	for m.left > 0 && m.res.Iterations < opts.MaxIterations {
		if ctx.Err() != nil {
			return m.res, m.wrap(context.Cause(ctx))
		}
		m.dev.LinEach(m.z, m.scales(), m.z, nil, array.Batch{})
		apply(m.q, m.z)
		if err := m.advance(); err != nil {
			return m.res, m.wrap(err)
		}
		report(progress.Report{Stage: progress.InnerSteps, Step: m.res.Iterations, Measure: m.worst(), Goal: opts.Tol})
	}
	m.res.Converged = m.left == 0 && m.failed == 0
	return m.res, m.dev.Err()
}

// minres is a run: the Lanczos vectors v and the one before, old; z = P v; q = M z; the directions w and
// the one before, wOld.
type minres struct {
	dev                       array.Device
	opts                      CGOptions
	res                       MINRESResult
	dst                       array.Batch
	v, old, z, q, w, wOld     array.Batch
	state                     []lanczos
	left, failed              int
	one, a, c, delta, squares []float64
}

// lanczos are the numbers of a vector: gamma is sqrt(<v, P v>) and before the one before; c, s and the
// ones before are the last rotations; eta is the residual with its sign, and first that at the start.
type lanczos struct {
	gamma, before, c, cBefore, s, sBefore, eta, first float64
	active                                            bool
}

func newMINRES(dst, rhs array.Batch, opts CGOptions) *minres {
	dev, k, n := rhs.Device(), rhs.K(), rhs.N()
	m := &minres{dev: dev, opts: opts, dst: dst, state: make([]lanczos, k),
		res: MINRESResult{Residual: make([]float64, k)}}
	for _, b := range []*array.Batch{&m.v, &m.old, &m.z, &m.q, &m.w, &m.wOld} {
		*b = dev.Alloc(k, n)
	}
	numbers := make([]float64, 5*k)
	for i, x := range []*[]float64{&m.one, &m.a, &m.c, &m.delta, &m.squares} {
		*x = numbers[i*k : (i+1)*k : (i+1)*k]
	}
	for i := range m.one {
		m.one[i] = 1
	}
	return m
}

func (m *minres) free() {
	array.Free(m.v, m.old, m.z, m.q, m.w, m.wOld)
}

func (m *minres) wrap(err error) error {
	return fmt.Errorf("linops: minimal residuals, step %d: %w", m.res.Iterations, err)
}

func (m *minres) precondition() error {
	if m.opts.Precondition == nil {
		m.dev.Copy(m.z, m.v)
	} else {
		m.opts.Precondition(m.z, m.v)
	}
	m.dev.Dot(m.squares, m.v, m.z)
	if err := m.dev.Err(); err != nil {
		return err
	}
	for i, x := range m.squares {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("on vector %d <r, P r> is %v; the right-hand side, the map M or the preconditioner "+
				"P has a value that is not finite", i, x)
		}
		if x < 0 && m.res.Iterations == 0 {
			return fmt.Errorf("on vector %d <r, P r> is %v; the preconditioner P is not positive definite", i, x)
		}
	}
	return nil
}

func (m *minres) begin(rhs array.Batch) error {
	for _, b := range []array.Batch{m.dst, m.old, m.w, m.wOld} {
		m.dev.Fill(b, 0)
	}
	m.dev.Copy(m.v, rhs)
	if err := m.precondition(); err != nil {
		return err
	}
	for i := range m.state {
		g := math.Sqrt(m.squares[i])
		m.state[i] = lanczos{gamma: g, before: 1, c: 1, cBefore: 1, eta: g, first: g, active: g > 0}
		if g > 0 {
			m.left++
			m.res.Residual[i] = 1
		}
	}
	return nil
}

func (m *minres) scales() []float64 {
	for i := range m.state {
		m.a[i] = 0
		if s := &m.state[i]; s.active {
			m.a[i] = 1 / s.gamma
		}
	}
	return m.a
}

// advance takes a step, given q = M z.
func (m *minres) advance() error {
	m.dev.Dot(m.delta, m.q, m.z)
	// The Lanczos vector after v, which takes the place of the one before.
	for i := range m.state {
		s := &m.state[i]
		m.a[i], m.c[i] = 0, 0
		if s.active {
			m.a[i], m.c[i] = -s.gamma/s.before, -m.delta[i]/s.gamma
		}
	}
	m.dev.LinEach(m.old, m.a, m.old, m.c, m.v)
	m.dev.Lin(m.old, 1, m.old, 1, m.q)
	m.v, m.old = m.old, m.v
	// The direction needs z, which the next preconditioned vector overwrites: w = (z - ...)/alpha is
	// finished when alpha is known.
	m.dev.Copy(m.q, m.z)
	if err := m.precondition(); err != nil {
		return err
	}
	m.res.Iterations++
	step := m.delta      // of x along the direction, in place of delta
	inverse := m.squares // likewise
	for i := range m.state {
		s := &m.state[i]
		delta, next := m.delta[i], math.Sqrt(math.Max(m.squares[i], 0))
		step[i], m.a[i], m.c[i], inverse[i] = 0, 0, 0, 0
		if !s.active {
			continue
		}
		a0 := s.c*delta - s.cBefore*s.s*s.gamma
		a1 := math.Hypot(a0, next)
		a2 := s.s*delta + s.cBefore*s.c*s.gamma
		a3 := s.sBefore * s.gamma
		if !(a1 > 0) {
			s.active = false // the rest of the right-hand side is not in the range of M
			m.left--
			m.failed++
			continue
		}
		c, sine := a0/a1, next/a1
		m.a[i], m.c[i], inverse[i] = -a3/a1, -a2/a1, 1/a1
		step[i] = c * s.eta
		s.eta *= -sine
		s.cBefore, s.c, s.sBefore, s.s = s.c, c, s.s, sine
		s.before, s.gamma = s.gamma, next
		m.res.Residual[i] = math.Abs(s.eta) / s.first
		if m.res.Residual[i] <= m.opts.Tol || next <= 0 {
			s.active = false
			m.left--
			if m.res.Residual[i] > m.opts.Tol {
				m.failed++
			}
		}
	}
	m.dev.LinEach(m.wOld, m.a, m.wOld, m.c, m.w)
	m.dev.LinEach(m.wOld, m.one, m.wOld, inverse, m.q)
	m.w, m.wOld = m.wOld, m.w
	m.dev.LinEach(m.dst, m.one, m.dst, step, m.w)
	return nil
}

func (m *minres) worst() float64 {
	most := 0.0
	for _, r := range m.res.Residual {
		most = math.Max(most, r)
	}
	return most
}
