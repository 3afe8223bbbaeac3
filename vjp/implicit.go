package vjp

import (
	"math"
	"sync"
	"sync/atomic"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
)

// implicit differentiates the fixed point instead of the iterations. At a
// solution b = prox_{eta r}(v), v = b - eta A*(A b - y), for any eta > 0. With
// J = D prox_{eta r}(v) and H = A*A,
//
//	D mu_hat w = A J x,   N x = eta A* w,   N = I - (I - eta H) J.
//
// N is self-adjoint and positive semidefinite in the semi-inner product
// <u, J v>, and conjugate gradients in that product solve the system with one J,
// one A and one A* a step, whatever the regularizer. (In the Euclidean product
// N is not even symmetric.) D mu_hat is symmetric, so that this product is the
// VJP. x itself is never needed: A J x is summed as the search directions go.
//
// The quadratic form w* D mu_hat w = <eta A* w, J x>/eta grows step by step, by
// alpha_k rho_k/eta (Hestenes and Stiefel 1952), and so converges with the square
// of the residual. What it lacks is bounded by a Gauss-Radau rule, see radau, and a probe
// stops when the bound is small enough.
//
// What J maps to zero is invisible in that product and multiplied by 1 - alpha_k at
// every step: unless it is projected away it grows until rounding brings it
// back into sight.
//
// A J of low rank confines the system to the tangent space of its range, in whose
// coordinates vectors are short and A, where it picks entries, costs what those cost. Where A*A
// is cheaper there than A, x is summed and A J x computed at the end.
//
// Where the solver knows the leading singular vectors of a nuclear norm's argument, J is not
// even computed. Conjugate gradients in J's product are those for
//
//	(H + K) u = A* w,   D mu_hat w = A u,   K = (J^{-1} - I)/eta,
//
// on J's range, preconditioned by eta J = (K + I/eta)^{-1}. [prox.NuclearCurvature] has a
// cheaper K and a cheaper preconditioner that takes about as many steps.
//
// A J of blocks, that of a matrix of low rank plus a sparse one, confines each to its own.
//
// A diagonal J confines the system to its support S: x outside S is multiplied by
// zero. Where A can restrict itself to columns, it does; and where S is small, the
// matrix of the system,
//
//	K = A_S* A_S + (J_SS^{-1} - I)/eta,   D mu_hat w = A_S K^+ A_S* w,
//
// is factored once, its columns scaled to unit length, so that neither the units
// of the columns nor columns that depend on each other matter ([factorPenalized]).
type implicit struct {
	p       Problem
	eta     float64
	j       prox.Derivative
	op      linops.Operator        // A, or columns
	seen    prox.Derivative        // J, or J in the coordinates of its range
	joint   prox.Derivative        // seen, where it was joined from blocks and is to be released; or nil
	columns linops.Restricted      // A's columns in S, or A on J's range, where that pays; else nil
	mask    array.Batch            // J's diagonal on S where op is restricted, else zero
	dim     int                    // |S|, or p
	curved  *prox.NuclearCurvature // K and a preconditioner in place of J, which is nil then; or nil
	inverse array.Batch            // K^+, |S| x |S|, where it was factored, else zero
	image   array.Batch            // rank x d: Q1* where D mu_hat = Q1 Q1* was factored, else zero
	norm    float64                // a bound of ||A||

	orthogonal bool    // A is a multiple of an orthogonal matrix
	optimality float64 // of the solution, see Convergence

	tol     float64  // of VJP, on the residual's J-norm
	tighter float64  // than asked for are Forms
	pilot   struct { // what all probes share, found by the first that needs it
		sync.Mutex
		node float64 // below the eigenvalues that matter; 0 before it is known
	}

	owned func() // releases A and R, where they are the linearization's own; or nil

	traced            bool // the numbers below are known
	trace, frobenius2 float64
	low, high, margin float64 // see Range
	sensitive         bool    // the curvature may have changed by what b lacks

	steps  atomic.Int64
	failed atomic.Int64
}

// etaFactor times 1/||A||^2 is the step of the fixed point that is
// differentiated. It changes conditioning and nothing else; on matrix completion
// 2 to 50 serve equally well, 1 takes a third more steps.
const etaFactor = 4

// newImplicit linearizes the fixed point at the solution b, which was found with the given
// optimality.
func newImplicit(p Problem, b, y array.Batch, norm2 float64, o Options, optimality float64) (*implicit, error) {
	dev := p.Device
	d, dim := p.A.Dims()
	eta := 1.0
	if norm2 > 0 {
		eta = etaFactor / norm2
	}
	orthogonal := false
	if c := linops.StructureOf(p.A).Rows; c.Value > 0 && d == dim {
		// A = sqrt(c) times an orthogonal matrix: with eta = 1/c N is I, and D mu_hat
		// has the eigenvalues of J.
		eta, orthogonal = 1/c.Value, true
	}
	v, z := dev.Alloc(1, dim), dev.Alloc(1, d)
	defer v.Free()
	defer z.Free()
	p.A.Forward(z, b)
	dev.Lin(z, 1, z, -1, y)
	p.A.Adjoint(v, z)
	dev.Lin(v, 1-atTheThreshold, b, -eta*(1-atTheThreshold), v)
	open := &implicit{p: p, eta: eta, orthogonal: orthogonal, norm: math.Sqrt(norm2), tol: solveTol(o.Tol), tighter: tighter(o.Tol), optimality: optimality}
	l, err := open.at(v)
	if err != nil {
		return nil, err
	}
	if err := open.neighbours(l, v, eta*open.norm*(optimality*newYardstick(y, norm2, o).matters(norm(z))+roundings*0x1p-52*norm(y))); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// at linearizes the prox at v and chooses how to solve with it.
func (l *implicit) at(v array.Batch) (_ *implicit, err error) {
	m := &implicit{p: l.p, eta: l.eta, orthogonal: l.orthogonal, norm: l.norm, tol: l.tol, tighter: l.tighter, optimality: l.optimality, margin: math.Inf(1)}
	_, m.dim = m.p.A.Dims()
	m.op = m.p.A
	dst := m.p.Device.Alloc(1, m.dim)
	defer dst.Free()
	if m.j, err = m.p.R.Linearize(dst, v, m.eta); err != nil {
		return nil, err
	}
	m.seen = m.j
	if m.orthogonal {
		if trace, frobenius2, ok := prox.TraceOf(m.j); ok {
			m.trace, m.frobenius2 = trace, frobenius2
			m.low, m.high, m.traced = m.trace, m.trace, true
		}
	} else {
		err = m.restrict()
	}
	if err == nil {
		err = m.p.Device.Err()
	}
	if err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// newCurved linearizes at a solution of low rank: op is A on the tangent space of curved,
// which is the linearization's from now on; nil stands for the solution 0.
func newCurved(p Problem, op linops.Restricted, curved *prox.NuclearCurvature, tol float64) *implicit {
	l := &implicit{p: p, eta: 1, op: p.A, tol: solveTol(tol), tighter: tighter(tol), curved: curved}
	if curved != nil {
		l.op, l.columns, l.dim = op, op, curved.Len()
	}
	return l
}

// maxFactored bounds the size of the systems that are factored: beyond it
// conjugate gradients are cheaper.
const maxFactored = 2000

// restrict confines the system to the support of a diagonal J, and factors it if
// it is small.
func (l *implicit) restrict() error {
	if l.restrictTangent() || l.dim > maxDense && l.restrictBlocks() {
		return nil
	}
	masked, ok := l.j.(prox.Masked)
	var diagonal []float64
	if ok {
		diagonal, ok = l.restrictTo(masked)
	}
	if !ok {
		if done, err := l.factorBlocks(); done || err != nil {
			return err
		}
		if l.dim <= maxDense {
			return l.factorDense()
		}
		return nil
	}
	n := l.dim
	if n == 0 || n > maxFactored {
		return nil
	}
	l.factor(diagonal)
	return nil
}

// restrictTo confines the system to the support of a diagonal J where that pays
// and the operator can, and returns J's diagonal there.
func (l *implicit) restrictTo(j prox.Masked) ([]float64, bool) {
	var set []int
	var diagonal []float64
	for i, v := range j.Diagonal().ToHost() {
		if v != 0 {
			set = append(set, i)
			diagonal = append(diagonal, v)
		}
	}
	if n := len(set); 2*n > l.dim && n > maxFactored {
		return nil, false
	}
	columns := linops.Restrict(l.p.Device, l.p.A, set)
	if columns == nil {
		return nil, false
	}
	dev := l.p.Device
	idx := dev.NewIndex(set)
	defer idx.Free()
	l.mask = dev.Alloc(1, len(set))
	dev.Gather(l.mask, j.Diagonal(), idx)
	l.columns, l.op, l.dim = columns, columns, len(set)
	return diagonal, true
}

// restrictTangent confines the system to the tangent space of a J of low rank where A
// can do so too: D mu_hat w = (A E) J_T x, with the same equation for x as before but
// in the coordinates of that space, (m + n) r where there were m n.
func (l *implicit) restrictTangent() bool {
	low, ok := l.j.(prox.LowRank)
	if !ok {
		return false
	}
	t, ok := low.Tangent()
	if !ok || t.Len() >= l.dim {
		return false
	}
	op := linops.Within(l.p.Device, l.p.A, space.Tangent(t.Shape, t.Rank, t.U, t.V))
	if op == nil {
		return false
	}
	l.columns, l.op, l.dim, l.seen = op, op, t.Len(), t.J
	return true
}

// restrictBlocks confines the system block by block, to the support of a block of J that is
// diagonal and to the tangent space of one of low rank, where A can do so too.
func (l *implicit) restrictBlocks() bool {
	j, ok := l.j.(prox.Blocked)
	if !ok {
		return false
	}
	dev := l.p.Device
	var parts []space.Space
	var dims []int
	var blocks []prox.Derivative
	release := func() {
		for _, b := range blocks {
			b.Release()
		}
		for _, t := range parts {
			t.Release()
		}
		parts = nil
	}
	for _, b := range j.Blocks() {
		switch b := b.(type) {
		case prox.LowRank:
			t, ok := b.Tangent()
			if !ok {
				release()
				return false
			}
			parts = append(parts, space.Tangent(t.Shape, t.Rank, t.U, t.V))
			dims, blocks = append(dims, t.Len()), append(blocks, t.J)
		case prox.Masked:
			set := support(b.Diagonal())
			idx := dev.NewIndex(set)
			diagonal := dev.Alloc(1, len(set))
			dev.Gather(diagonal, b.Diagonal(), idx)
			idx.Free()
			parts = append(parts, space.Coordinates(dev, b.Diagonal().N(), set))
			dims, blocks = append(dims, len(set)), append(blocks, prox.NewDiagonal(diagonal))
		default:
			release()
			return false
		}
	}
	op := linops.Within(dev, l.p.A, space.ProductOf(parts...))
	if op == nil {
		parts = nil
		release()
		return false
	}
	l.joint = prox.Join(dims, blocks)
	_, dim := op.Dims()
	l.columns, l.op, l.dim, l.seen = op, op, dim, l.joint
	return true
}

// Kind is "implicit".
func (l *implicit) Kind() string { return "implicit" }

// Bytes counts the prox derivative and A's columns in its support.
func (l *implicit) Bytes() int64 {
	bytes := l.mask.Bytes() + l.inverse.Bytes() + l.image.Bytes()
	if l.j != nil {
		bytes += l.j.Bytes()
	}
	if l.curved != nil {
		bytes += l.curved.Bytes()
	}
	if l.joint != nil {
		bytes += l.joint.Bytes()
	}
	if l.columns != nil {
		bytes += l.columns.Bytes()
	}
	if own, ok := l.p.A.(linops.Restricted); ok && l.owned != nil {
		bytes += own.Bytes()
	}
	return bytes
}

// ProbeBytes counts five vectors on the support, seven where K or A*A takes its own, and two
// of length d.
func (l *implicit) ProbeBytes() int64 {
	d, _ := l.p.A.Dims()
	vectors := int64(5)
	if linops.StructureOf(l.op).Normal != nil || l.curved != nil {
		vectors = 7
	}
	return 8 * (vectors*int64(l.dim) + 2*int64(d))
}

// own hands the problem's operator and regularizer over to the linearization.
func (l *implicit) own(release func()) {
	l.owned = release
	if l.columns != nil {
		// Neither is needed any more.
		release()
		l.owned = nil
	}
}

// Release frees the prox derivative and the columns.
func (l *implicit) Release() {
	if l.j != nil {
		l.j.Release()
	}
	if l.curved != nil {
		l.curved.Release()
	}
	if l.joint != nil {
		l.joint.Release()
	}
	l.mask.Free()
	l.inverse.Free()
	l.image.Free()
	if l.columns != nil {
		l.columns.Release()
	}
	if l.owned != nil {
		l.owned()
	}
}
