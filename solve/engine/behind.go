package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox"
)

// Term is a regularizer behind an operator, r(K b).
type Term struct {
	// K is the operator, and R the regularizer on its images.
	K linops.Operator
	R prox.Prox
}

// Terms returns the one operator and regularizer of a sum of terms,
//
//	r(K b) = sum_k r_k(K_k b),    K = [K_1; K_2; ...],
//
// for [Problem].K and R. A constraint on b is a term with the identity, and a regularizer that takes
// any length gets the length of its images. It panics where there are no terms, or their operators
// do not act on vectors of one length.
func Terms(terms ...Term) (k linops.Operator, r prox.Prox) {
	ops, blocks := make([]linops.Operator, len(terms)), make([]prox.Prox, len(terms))
	for i, t := range terms {
		ops[i], blocks[i] = t.K, t.R
		if d, _ := t.K.Dims(); t.R.Dim() == 0 {
			blocks[i] = prox.Block{Prox: t.R, N: d}
		}
	}
	if len(terms) == 1 {
		return ops[0], terms[0].R
	}
	return linops.VStack(ops...), prox.NewSeparable(blocks...)
}

// WithK is the problem with an operator K: the identity where it has none.
func (p Problem) WithK() Problem {
	if p.K == nil {
		_, dim := p.A.Dims()
		p.K = linops.Identity(dim)
	}
	return p
}

// behind keeps the argument of the last proximal operator.
func (at *Point) behind(w *Work, traits Traits) {
	v := traits.Argument(w)
	at.Argument, at.Eta = w.Device().Alloc(1, v.N()), w.Stepped
	w.Device().Copy(at.Argument, v)
	u := traits.Dual(w)
	at.rest.dual = w.Device().Alloc(1, u.N())
	w.Device().Copy(at.rest.dual, u)
	if traits.Kept != nil {
		at.rest.kept = traits.Kept(w)
	}
	at.rest.ended = traits.Ended != nil && traits.Ended(w)
}

// Continue does more iterations from the solution of a problem with r(K b), whatever its optimality
// is: the zeros of K b, which the derivative depends on, may be found later than a small duality gap. It reports
// whether there were any to do.
func (s *Solution) Continue(ctx context.Context, iterations int) (bool, error) {
	at := s.At
	if at.rest.ended {
		return false, nil
	}
	o := at.Options
	o.MaxIter, o.Point, o.endless = iterations, true, true
	more, err := Run(ctx, at.Method, at.Y, o, Start{B: at.B, Dual: at.rest.dual, Eta: at.Eta, kept: at.rest.kept})
	if err != nil {
		return false, err
	}
	defer more.Release()
	s.Iterations += more.Iterations
	dev := at.B.Device()
	dev.Copy(at.B, more.B)
	dev.Copy(s.MuHat, more.MuHat)
	dev.Copy(at.Argument, more.At.Argument)
	dev.Copy(at.rest.dual, more.At.rest.dual)
	at.Eta, at.rest.kept, at.rest.ended = more.At.Eta, more.At.rest.kept, more.At.rest.ended
	if more.Optimality < s.Optimality {
		s.Optimality, s.Error = more.Optimality, more.Error
	}
	if at.Back != nil {
		at.Back(s)
	}
	return true, dev.Err()
}

// Move replaces a solution of a problem with r(K b) by b, where prox_{eta r}(v) is K b and u the
// multiplier, unless the check of a solution says that b is the worse one: then it reports false.
func (s *Solution) Move(ctx context.Context, b, v, u array.Batch, eta float64) (moved bool, err error) {
	at := s.At
	traits := at.Method.Traits()
	traits.Dual, traits.Inside = func(*Work) array.Batch { return u }, nil
	traits.Settled, traits.Ended = nil, nil
	c := newWatch(at.Method, traits, at.Y, at.Options, false)
	defer c.Release()
	c.Convergence = s.Convergence
	if err := c.behind(ctx, &Work{Y: at.Y, B: b}, true); err != nil {
		return false, err
	}
	if s.Converged && !c.Convergence.Converged {
		return false, nil
	}
	if s.Convergence = c.Convergence; s.Converged {
		s.Change = 0
	}
	dev := b.Device()
	dev.Copy(at.B, b)
	dev.Copy(at.Argument, v)
	at.Eta = eta
	at.Problem.A.Forward(s.MuHat, b)
	if at.Back != nil {
		at.Back(s)
	}
	return true, dev.Err()
}

// keptDual is what a [Path] carries for problems with r(K b).
type keptDual struct {
	family *Family
	dual   array.Batch
	eta    float64 // the step of the last iteration
}

func (k *keptDual) Release()    { k.dual.Free() }
func (k *keptDual) Apart() bool { return true }

func (s *Plain) alongPath(ctx context.Context, y array.Batch, o Options, start Start, path *Path) (*Solution, error) {
	if before := path.Take(); before != nil {
		defer before.Release()
		if k, ok := before.(*keptDual); ok && k.family == s.s.Family {
			start.Dual, start.Eta = k.dual, k.eta
		}
	}
	o.Multiplier = true
	sol, err := Run(ctx, s.Method, y, o, start)
	if err != nil {
		return nil, err
	}
	path.Kept = &keptDual{s.s.Family, sol.Dual, sol.Eta}
	sol.Dual = array.Batch{}
	return sol, nil
}

// fewestBetween is the least number of iterations between two checks of a problem with r(K b): a
// check costs about as much as some of them.
const (
	fewestBetween = 4
	mostBetween   = 4
)

// behind decides whether the point w.B, with the method's multiplier u, is a solution: by a duality
// gap,
//
//	gap = 1/2 (1 - t)^2 ||z||^2 + r(K b) + r*(t u) - t <K b, u> + t ||e|| s,
//	z = y - A b,    e = A* z - K* u,    s = max(||b||, ||y||/||A||),
//
// with t such that r*(t u) is finite. The last term bounds what is missing to a feasible point of
// the dual, A* w = K* u, over all b' with ||b' - b|| <= s; where the columns of A differ in length it
// is taken column by column, with s_j = max(|b_j|, ||y||/||A_j||). A method that solves for b given K
// b has e = 0 but for rounding. The optimality is 2 gap/S^2, where S is the size of the errors of
// mu_hat that matter ([Scales]), after the rounding errors of the gap are taken off: ||A b - A b*||
// <= sqrt(2 gap). What is within these errors may still be far from the solution's zeros of K b: where
// another method can go on, they are not taken off ([Options].Resolved).
//
// Constraints hold in the limit only: see [Watch.constrained]. Where r has no conjugate, the
// residuals of the optimality conditions take its place, in units of mu_hat: the larger of
//
//	||e||/||A||    and    ||A||/||K|| ||K b - prox_{eta r}(K b + eta u)||,    eta = ||K||^2/||A||^2,
//
// relative to S and squared.
func (c *Watch) behind(ctx context.Context, w *Work, last bool) error {
	if c.Wait > 0 {
		c.Wait--
	}
	if !last && (c.Wait > 0 || c.traits.Settled != nil && !c.traits.Settled(w)) {
		return nil
	}
	p, dev := c.m.Problem(), w.Device()
	d, dim := p.A.Dims()
	q, _ := p.K.Dims()
	if c.z.IsZero() {
		c.z, c.g, c.e, c.kb = dev.Alloc(1, d), dev.Alloc(1, dim), dev.Alloc(1, dim), dev.Alloc(1, q)
		c.lookAtFree(dev, q)
	}
	u := c.multiplier(w)
	p.A.Forward(c.z, w.B)
	dev.Lin(c.z, 1, c.z, -1, w.Y)
	p.K.Forward(c.kb, w.B)
	e := c.e
	p.K.Adjoint(e, u)
	p.A.Adjoint(c.g, c.z)
	dev.Lin(e, 1, e, 1, c.g)
	zNorm, bNorm, eNorm := Norm(c.z), Norm(w.B), Norm(e)
	size := c.Scales.Matters(math.Max(zNorm, leastResidual*c.Scales.Y))
	c.Scale = c.Scales.Norm * size
	gap, err := c.gapAt(ctx, p, u, w.B, e, zNorm, last)
	if err != nil {
		return err
	}
	normK, err := c.boundOfK(ctx, p)
	if err != nil {
		return err
	}
	// of A b, K b and K* u
	rounding := Roundings * Epsilon * bNorm * (c.Scales.Norm*(c.Scales.Y+c.Scales.Norm*bNorm) +
		2*math.Sqrt(normK)*Norm(u))
	optimality, bound := 0.0, c.Scales.ErrorOf(gap, zNorm, bNorm)
	if c.over = c.Options.Resolved && gap <= rounding && 2*gap > c.Tol*size*size; c.over {
		rounding = 0
	}
	if !(gap <= rounding) { // also where y, and so the size, is 0
		optimality = 2 * (gap - rounding) / (size * size)
	}
	if math.IsInf(gap, 1) || math.IsNaN(gap) {
		residual, err := c.conditions(ctx, p, u, eNorm)
		if err != nil {
			return err
		}
		optimality, bound = residual*residual/(size*size), math.NaN()
	}
	if math.IsNaN(optimality) {
		if err := dev.Err(); err != nil {
			return err
		}
		return fmt.Errorf("%s: the iterates are not finite after %d iterations", c.m.Name(), c.Convergence.Iterations)
	}
	c.Accept(optimality, optimality, bound, zNorm)
	if err := c.endBehind(p, w, u); err != nil {
		return err
	}
	c.over = c.over || c.traits.Ended != nil && c.traits.Ended(w)
	if c.Convergence.Converged = c.Convergence.Converged && !c.Options.endless; !c.Convergence.Converged {
		c.Wait, c.over = c.between(), c.over || c.hopeless(size)
	}
	return dev.Err()
}

// multiplier is that of the method, with 0 at the rows of K on which r does not depend, as every feasible one: what a
// method still has there is missing to A* z.
func (c *Watch) multiplier(w *Work) array.Batch {
	u := c.traits.Dual(w)
	if c.bound.IsZero() {
		return u
	}
	w.Device().Mul(c.u, u, c.bound)
	return c.u
}

// lookAtFree finds the rows of K on which r does not depend.
func (c *Watch) lookAtFree(dev array.Device, q int) {
	free := prox.StructureOf(c.m.Problem().R).Free
	if free == nil {
		return
	}
	if rows := free(q); len(rows) > 0 {
		bound := lists.Make(q, func(int) float64 { return 1 })
		for _, i := range rows {
			bound[i] = 0
		}
		c.bound, c.u = dev.Put(bound, 1, q), dev.Alloc(1, q)
	}
}

// firstDoubt is the number of iterations after which a solve may be hopeless.
const firstDoubt = 500

// A solve whose linear systems are not solved to the end is given up after a share of 1/giveUp of its iterations, once
// mu_hat is about within sqrt(asGood) of the size of errors that matter, where its error falls too slowly from each
// look by a factor of doubtRatio to the next.
const (
	giveUp     = 4
	asGood     = 1e-6
	doubtRatio = 1.5
	readable   = 1e-3 // the optimality from which the zeros of K b are read off
)

// hopeless reports that the gap comes to the tolerance after more than twice the iterations that may be done. It is
// taken to fall like 1/k^2 in the number k of iterations, or as the error near has fallen.
func (c *Watch) hopeless(size float64) bool {
	k, most := float64(c.Convergence.Iterations), 2*float64(c.Options.MaxIter)
	if c.Options.Promising && k >= firstDoubt {
		return k*math.Sqrt(c.Convergence.Optimality/c.goalBehind()) > most
	}
	if c.traits.Inside == nil || c.Options.Effort.Error > 0 || k < doubtRatio*c.doubt.at {
		return false
	}
	power := math.Log(c.doubt.near/c.near) / math.Log(k/c.doubt.at)
	c.doubt.at, c.doubt.near = k, c.near
	return giveUp*k >= most/2 && c.near <= math.Sqrt(asGood)*size && c.Convergence.Optimality <= readable &&
		!(k*math.Pow(c.near/(math.Sqrt(c.Tol)*size), 1/power) <= most)
}

// between is the number of iterations until the next check: one in LookAgain of those so far, and more where the
// optimality is far from the tolerance, up to mostBetween times as many at a factor of 1000.
func (c *Watch) between() int {
	far := math.Log10(c.Convergence.Optimality / c.goalBehind())
	return fewestBetween + int(math.Min(math.Max(far, 0)+1, mostBetween)*float64(c.Convergence.Iterations)/LookAgain)
}

func (c *Watch) gapAt(ctx context.Context, p Problem, u, b, e array.Batch, z float64, last bool) (float64, error) {
	r := prox.StructureOf(p.R)
	if r.Support != nil {
		return c.constrained(ctx, p, u, b, z, last)
	}
	return gapBehind(r, c.kb, u, z, c.missing(e, b)), nil
}

// missing is a bound of <e, b' - b> over the b' of which the gap speaks: those no farther from b than 0 is, or than
// ||y|| in units in which the columns of A have length 1 where their lengths differ much.
func (c *Watch) missing(e, b array.Batch) float64 {
	dev := b.Device()
	if !c.looked {
		c.looked = true
		if lengths2 := UnequalLengths2(c.m.Problem()); lengths2 != nil {
			short := InverseLengths(lengths2)
			most := slices.Max(short)
			long := make([]float64, len(short))
			for j, v := range short {
				if v == 0 { // a column of zeros is as short as any
					short[j] = most
				}
				long[j] = 1 / short[j]
			}
			c.short, c.long = dev.Put(short, 1, len(short)), dev.Put(long, 1, len(long))
			c.scaled = dev.Alloc(1, len(short))
		}
	}
	if c.short.IsZero() {
		s := Norm(b)
		if c.Scales.Norm > 0 {
			s = math.Max(s, c.Scales.Y/c.Scales.Norm)
		}
		return Norm(e) * s
	}
	dev.Mul(c.scaled, b, c.long)
	far := math.Max(Norm(c.scaled), c.Scales.Y)
	dev.Mul(c.scaled, e, c.short)
	return Norm(c.scaled) * far
}

// gapBehind is the duality gap of an r that is finite everywhere, however far u has to move towards 0 to be feasible;
// +Inf where there is none.
func gapBehind(r prox.Structure, kb, u array.Batch, z, missing float64) float64 {
	if r.DualScale == nil {
		return math.Inf(1)
	}
	t := r.DualScale(kb, u, math.Inf(1))
	if !(t >= 0) {
		return math.Inf(1)
	}
	return (1-t)*(1-t)*z*z/2 + r.FenchelGap(kb, u, t, math.Inf(1)) + t*missing
}

func (c *Watch) conditions(ctx context.Context, p Problem, u array.Batch, e float64) (float64, error) {
	dev := c.kb.Device()
	norm := c.Scales.Norm
	k, err := c.boundOfK(ctx, p)
	if err != nil {
		return 0, err
	}
	if !(norm > 0) || !(k > 0) {
		return e, nil
	}
	eta := k / (norm * norm)
	v := dev.Alloc(1, u.N())
	defer v.Free()
	dev.Lin(v, 1, c.kb, eta, u)
	if err := p.R.Eval(v, v, eta); err != nil {
		return 0, err
	}
	dev.Lin(v, 1, c.kb, -1, v)
	return math.Max(e/norm, norm/math.Sqrt(k)*Norm(v)), nil
}
