package splitting

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/solve/engine"
)

// Penalized solves (A*A + rho K*K) x = rhs. It is safe for concurrent use.
type Penalized struct {
	p      engine.Problem
	choice engine.Choice
	penalizedRule
	closed bool // it does not iterate

	a, k   linops.Structure
	tol    float64 // of conjugate gradients
	flat   float64 // ||A 1||^2/||1||^2, with the vector of ones 1; -1 where it is not known yet
	normK2 float64 // a bound of ||K||^2
	// The squared lengths of A's and K's columns, nil where they are not known.
	a2, k2 []float64

	mu           sync.Mutex
	gramA, gramK []float64
	inverses     map[float64]inverted       // by rho
	weights      map[[2]float64]array.Batch // of the preconditioner, by rho and the scale of M

	cosines *cosines // where a transform is known; else nil
}

// Effort says where the solution of a system is looked for.
type Effort int

const (
	Anywhere Effort = iota // from 0
	near                   // from what dst holds, one vector near the solution
	nearer                 // likewise, until the residual is a tenth of what it was
)

// penalizedWay sets dst to the solution.
type penalizedWay func(s *Penalized, ctx context.Context, dst, rhs array.Batch, rho float64, from Effort) error

// penalizedRule is a way, and the preconditioner where it iterates: (A*A + rho K*K)^{-1} or near it; nil for none.
type penalizedRule struct {
	chosen, reason string
	applies        func(s *Penalized) bool
	how            penalizedWay
	preconditioner func(s *Penalized, rho float64) (func(dst, r array.Batch), error)
}

// penalizedRules is the table of ways to solve the system: the first one that applies is taken.
var penalizedRules = []penalizedRule{
	{"K's normal equations in closed form", "A*A is a multiple of the identity",
		func(s *Penalized) bool { return s.a.Columns.Value > 0 && s.k.SolveNormal != nil }, (*Penalized).byK, nil},
	{"A's normal equations in closed form", "K*K is a multiple of the identity",
		func(s *Penalized) bool { return s.k.Columns.Value > 0 && s.a.SolveNormal != nil }, (*Penalized).byA, nil},
	{"an inverse matrix", "p is small, or A a matrix of few columns: one inverse serves until the step changes",
		func(s *Penalized) bool {
			_, dim := s.p.A.Dims()
			return dim <= mostInverted || dim <= ofMatrix*mostInverted && s.a.Dense != nil && s.a.Passes.Bytes == 0
		}, (*Penalized).byInverse, nil},
	{"cosine transforms, with a product with A*A after some of them",
		"a cosine transform diagonalizes K*K, and A*A is about a function of K*K: what is left of A*A follows the " +
			"iterates",
		func(s *Penalized) bool { return s.cosines != nil }, (*Penalized).byGradients, (*Penalized).byCosines},
	{"conjugate gradients, preconditioned by K's closed form",
		"the linear system of a step has none of its own, but K's normal equations have; every step starts at the " +
			"last one's solution",
		func(s *Penalized) bool { return s.k.SolveNormal != nil }, (*Penalized).byGradients, (*Penalized).onConstants},
	{"conjugate gradients", "the linear system of a step has no closed form; every step starts at the last " +
		"one's solution", func(*Penalized) bool { return true }, (*Penalized).byGradients, (*Penalized).byDiagonal},
}

// mostInverted is the largest p for which the matrix of the system is inverted, and ofMatrix times that where A is a
// matrix. Tests change it.
var mostInverted = 1 << 10

const ofMatrix = 4

// The tolerance of conjugate gradients, relative to the right-hand side, is a thousandth of that of
// the solve, within these bounds.
const (
	loosestSystem  = 1e-8
	tightestSystem = 1e-13
)

// worthwhile is the size of rho K*K beside A*A from which K's closed form is a better preconditioner
// than none, for what it costs.
const worthwhile = 4

// NewPenalized is given a bound of ||K||^2.
func NewPenalized(ctx context.Context, p engine.Problem, normK2, tol float64) (*Penalized, error) {
	s := &Penalized{
		p: p, normK2: normK2,
		a: linops.Complete(p.A, linops.StructureOf(p.A)), k: linops.StructureOf(p.K),
		flat:     -1,
		tol:      math.Min(math.Max(1e-3*tol, tightestSystem), loosestSystem),
		inverses: map[float64]inverted{}, weights: map[[2]float64]array.Batch{},
	}
	if s.rule().preconditioner != nil && s.k.Cosines.Known() && s.a.Dense == nil {
		var err error
		if s.cosines, err = newCosines(ctx, s); err != nil {
			return nil, err
		}
	}
	rule := s.rule()
	s.penalizedRule, s.closed = *rule, rule.preconditioner == nil
	s.choice = engine.Choice{Part: "system", Chosen: rule.chosen, Reason: rule.reason}
	if s.closed {
		return s, nil
	}
	if s.a.ColumnNorms2 != nil {
		s.a2 = s.a.ColumnNorms2()
	}
	if s.k.ColumnNorms2 != nil {
		s.k2 = s.k.ColumnNorms2()
	}
	return s, nil
}

func (s *Penalized) rule() *penalizedRule {
	return &penalizedRules[slices.IndexFunc(penalizedRules, func(r penalizedRule) bool { return r.applies(s) })]
}

func (s *Penalized) Release() {
	if s.cosines != nil {
		s.cosines.release()
	}
	for _, m := range s.inverses {
		array.Free(m.matrix, m.inverse)
	}
	for _, b := range s.weights {
		b.Free()
	}
}

// Solve sets dst = (A*A + rho K*K)^{-1} rhs, from what dst holds.
func (s *Penalized) Solve(ctx context.Context, dst, rhs array.Batch, rho float64, from Effort) error {
	if err := s.how(s, ctx, dst, rhs, rho, from); err != nil {
		return err
	}
	return dst.Device().Err()
}

// byK is (A*A + rho K*K)^{-1} = (I + (rho/c) K*K)^{-1}/c.
func (s *Penalized) byK(_ context.Context, dst, rhs array.Batch, rho float64, _ Effort) error {
	return closed(s.k, s.a.Columns.Value, dst, rhs, rho/s.a.Columns.Value)
}

func (s *Penalized) byA(_ context.Context, dst, rhs array.Batch, rho float64, _ Effort) error {
	c := rho * s.k.Columns.Value
	return closed(s.a, c, dst, rhs, 1/c)
}

func closed(known linops.Structure, c float64, dst, rhs array.Batch, eta float64) error {
	if !known.SolveNormal(dst, rhs, eta) {
		return fmt.Errorf("solve: the normal equations at %g have no numerical solution", eta)
	}
	dst.Device().Lin(dst, 1/c, dst, 0, array.Batch{})
	return nil
}

// inverted is the matrix of the system and its inverse, on the problem's device. Where A and K have a null space in
// common, up to rounding errors, it is the inverse of the matrix with more on its diagonal.
type inverted struct {
	matrix, inverse array.Batch
	shifted         bool
}

// byInverse multiplies what is left by the inverse: a product has an error of eps times the condition
// number, relative to its size. Where dst holds no vector near the solution it does so twice, and with
// the inverse of another matrix timesShifted times: right-hand sides are A* and K* of something, and
// not in the null space.
func (s *Penalized) byInverse(_ context.Context, dst, rhs array.Batch, rho float64, from Effort) error {
	m, err := s.inverse(rho)
	if err != nil {
		return err
	}
	dev := dst.Device()
	x, rest := dev.Alloc(rhs.K(), rhs.N()), dev.Alloc(rhs.K(), rhs.N())
	defer array.Free(x, rest)
	if from == Anywhere {
		dev.Gemm(false, false, 1, rhs, m.inverse, 0, x)
	} else {
		dev.Copy(x, dst)
	}
	times := 1
	if m.shifted {
		times = timesShifted
	}
	for range times {
		dev.Copy(rest, rhs)
		dev.Gemm(false, false, -1, x, m.matrix, 1, rest)
		dev.Gemm(false, false, 1, rest, m.inverse, 1, x)
	}
	dev.Copy(dst, x)
	return nil
}

func (s *Penalized) inverse(rho float64) (inverted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.inverses[rho]; ok {
		return m, nil
	}
	dev := s.p.Device.Request() // a lack of memory is that of this solve, not of the card
	_, dim := s.p.A.Dims()
	if s.gramA == nil {
		gramA, gramK := linops.GramOf(dev, s.p.A), linops.GramOf(dev, s.p.K)
		if err := dev.Err(); err != nil {
			return inverted{}, err
		}
		s.gramA, s.gramK = gramA, gramK
	}
	sum := mat.NewSymDense(dim, nil)
	for i := range dim {
		for j := i; j < dim; j++ {
			sum.SetSym(i, j, (s.gramA[i*dim+j]+s.gramA[j*dim+i])/2+rho*(s.gramK[i*dim+j]+s.gramK[j*dim+i])/2)
		}
	}
	m := inverted{matrix: dev.Alloc(dim, dim), inverse: dev.Alloc(dim, dim)}
	done := false
	defer func() {
		if !done {
			array.Free(m.matrix, m.inverse)
		}
	}()
	dev.Upload(m.matrix, mat.DenseCopyOf(sum).RawMatrix().Data)
	// In units in which the diagonal is about 1 the condition does not depend on the units of b.
	units := numerics.EvenDiagonal(sum)
	root, shifted, err := numerics.ShiftedCholesky(sum)
	if err == nil {
		m.shifted = shifted
		if err = root.InverseTo(sum); !math.IsInf(root.Cond(), 1) {
			err = nil
		}
	}
	if err != nil {
		return inverted{}, fmt.Errorf("solve: the linear system of a step: %w", err)
	}
	numerics.ScaleSym(sum, units)
	dev.Upload(m.inverse, mat.DenseCopyOf(sum).RawMatrix().Data)
	if err := dev.Err(); err != nil {
		return inverted{}, err
	}
	s.inverses[rho], done = m, true
	return m, nil
}

// kept is what an iteration leaves for the next one: the right-hand side of its system, and what its
// solution left of it, from which the residual for another right-hand side follows without a product.
type kept struct {
	rhs, left array.Batch
	rho       float64 // of the system; 0 where nothing is kept
	since     int     // solutions since the residual was computed
}

// mostKept is the number of solutions after which the residual is computed anew, as rounding errors add up.
const mostKept = 32

// timesShifted is how often the inverse of a shifted matrix is applied.
const timesShifted = 4

// residual sets rest to that of x, by what was kept where that serves.
func (k *kept) residual(dev array.Device, rest, x, rhs array.Batch, rho float64, apply func(to, x array.Batch)) {
	if k == nil || k.rho != rho || k.since >= mostKept {
		apply(rest, x)
		dev.Lin(rest, 1, rhs, -1, rest)
		if k != nil {
			k.since = 0
		}
		return
	}
	k.since++
	dev.Lin(rest, 1, rhs, -1, k.rhs)
	dev.Lin(rest, 1, rest, 1, k.left)
}

// byGradients solves for the difference from what is known. Where conjugate gradients stop short of
// their tolerance, at the level of rounding errors, the result is as good as it gets: the duality gap
// counts what is left.
func (s *Penalized) byGradients(ctx context.Context, dst, rhs array.Batch, rho float64, from Effort) error {
	return s.gradients(ctx, dst, rhs, rho, from, nil)
}

// after is solve for one vector, where k is what the solution before has left, or nil.
func (s *Penalized) after(ctx context.Context, dst, rhs array.Batch, rho float64, from Effort, k *kept) error {
	if s.closed {
		return s.Solve(ctx, dst, rhs, rho, from)
	}
	if err := s.gradients(ctx, dst, rhs, rho, from, k); err != nil {
		return err
	}
	return dst.Device().Err()
}

func (s *Penalized) gradients(ctx context.Context, dst, rhs array.Batch, rho float64, from Effort, k *kept) error {
	dev := dst.Device()
	_, dim := s.p.A.Dims()
	apply, free := s.products(dev, rhs.K(), rho)
	defer free()
	precondition, err := s.preconditioner(s, rho)
	if err != nil {
		return err
	}
	o := krylov.CGOptions{Tol: s.tol, Precondition: precondition}
	if from == Anywhere {
		_, err := krylov.CG(ctx, dst, rhs, apply, o)
		return err
	}
	rest := dev.Alloc(1, dim)
	defer rest.Free()
	k.residual(dev, rest, dst, rhs, rho, apply)
	if k != nil {
		dev.Copy(k.rhs, rhs)
		dev.Copy(k.left, rest)
		k.rho, o.Left = rho, k.left
	}
	left, all := engine.Norm(rest), engine.Norm(rhs)
	if o.Tol *= all / left; !(o.Tol < 1) {
		return dev.Err()
	}
	if from == nearer {
		o.Tol = math.Max(o.Tol, 0.1)
	}
	if _, err := krylov.CG(ctx, rest, rest, apply, o); err != nil {
		return err
	}
	dev.Lin(dst, 1, dst, 1, rest)
	return nil
}

// size is the mean eigenvalue of A*A, or the given bound where the lengths of A's columns are not known.
func (s *Penalized) size(bound float64) float64 {
	if s.a2 == nil {
		return bound
	}
	sum := 0.0
	for _, v := range s.a2 {
		sum += v
	}
	return sum / float64(max(len(s.a2), 1))
}

// products are those of k vectors with the matrix of the system.
func (s *Penalized) products(dev array.Device, k int, rho float64) (apply func(to, x array.Batch), free func()) {
	d, dim := s.p.A.Dims()
	q, _ := s.p.K.Dims()
	az, kz, t := dev.Alloc(k, d), dev.Alloc(k, q), dev.Alloc(k, dim)
	return func(to, x array.Batch) {
			s.p.A.Forward(az, x)
			s.p.A.Adjoint(to, az)
			s.p.K.Forward(kz, x)
			s.p.K.Adjoint(t, kz)
			dev.Lin(to, 1, to, rho, t)
		}, func() {
			array.Free(az, kz, t)
		}
}

// onConstants is (flat I + rho K*K)^{-1} where rho K*K is not small beside the identity, with flat what A*A is like on
// smooth vectors, where K is small; else the inverse of the diagonal.
func (s *Penalized) onConstants(rho float64) (func(dst, r array.Batch), error) {
	if err := s.onOnes(); err != nil {
		return nil, err
	}
	if s.flat > 0 && rho*s.normK2 > worthwhile*s.flat {
		return func(dst, r array.Batch) { s.k.SolveNormal(dst, r, rho/s.flat) }, nil
	}
	return s.byDiagonal(rho)
}

func (s *Penalized) onOnes() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flat >= 0 {
		return nil
	}
	d, dim := s.p.A.Dims()
	at := s.p.Device.Request() // a lack of memory is that of this solve, not of the card
	x, z := at.Alloc(1, dim), at.Alloc(1, d)
	defer array.Free(x, z)
	at.Fill(x, 1)
	s.p.A.Forward(z, x)
	n := engine.Norm(z)
	if err := at.Err(); err != nil {
		return err
	}
	s.flat = n * n / math.Max(float64(dim), 1)
	return nil
}

func (s *Penalized) byDiagonal(rho float64) (func(dst, r array.Batch), error) {
	if s.a2 == nil || s.k2 == nil {
		return nil, nil
	}
	w, err := s.weighted([2]float64{rho}, func() []float64 {
		host := make([]float64, len(s.a2))
		for j, v := range s.a2 {
			host[j] = 1
			if v += rho * s.k2[j]; v > 0 {
				host[j] = 1 / v
			}
		}
		return host
	})
	return func(dst, r array.Batch) { dst.Device().Mul(dst, r, w) }, err
}

// weighted are the weights of a preconditioner that is used again.
func (s *Penalized) weighted(key [2]float64, values func() []float64) (array.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.weights[key]; ok {
		return w, nil
	}
	at := s.p.Device.Request() // a lack of memory is that of this solve, not of the card
	host := values()
	w := at.Put(host, 1, len(host))
	if err := at.Err(); err != nil {
		w.Free()
		return array.Batch{}, err
	}
	s.weights[key] = w
	return w, nil
}
