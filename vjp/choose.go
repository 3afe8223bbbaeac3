package vjp

import (
	"context"
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
)

// maxFactored bounds the size of the systems that are factored where A can be restricted to the
// space: beyond it conjugate gradients are cheaper. maxDense bounds p where A cannot, and the
// system is still factored, from A's products with the basis.
const (
	maxFactored = 2000
	maxDense    = 256
	// maxColumns bounds the systems on sets of coordinates, which are columns of A: the Gram matrix
	// of a dense A is a product of matrices, and its trace needs no probes.
	maxColumns = 4096
)

// closedForm is the derivative of an estimator that is linear in y.
const closedForm Derivative = "closed form"

// derivative is a row of the table by which a solution is differentiated: the first one that
// applies is taken.
type derivative struct {
	kind    Derivative
	choice  Choice
	applies func(s *solver, sol *solve.Solution) bool
}

var derivatives = []derivative{
	by(Unrolled, "the option asks for it", func(s *solver,
		_ *solve.Solution) bool {
		return s.o.Derivative == Unrolled
	}),
	by(closedForm, "the estimator is linear in y",
		func(_ *solver, sol *solve.Solution) bool { return sol.At.Linear != nil }),
	by(Implicit, "the option asks for it", func(s *solver,
		_ *solve.Solution) bool {
		return s.o.Derivative == Implicit
	}),
	by(Implicit, "the solve has converged", func(_ *solver, sol *solve.Solution) bool { return sol.Converged }),
	by(Implicit, "the loss is not quadratic: iterations are not recorded",
		func(s *solver, _ *solve.Solution) bool { return !loss.Quadratic(s.p.Loss) }),
	by(Implicit, "the solve has not converged, but iterates of this size are not recorded",
		func(_ *solver, sol *solve.Solution) bool { return sol.At.Tangent != nil }),
	by(Implicit, "r stands behind an operator, and the solve stopped near its tolerance: to reverse all its "+
		"iterations costs many solves", func(s *solver, sol *solve.Solution) bool {
		return s.p.K != nil &&
			sol.Optimality <= nearlySolved
	}),
	by(Unrolled, "the solve has not converged", func(*solver, *solve.Solution) bool { return true }),
}

// illConditioned takes the place of an implicit derivative by a saddle point system that a pilot probe does
// not settle.
var illConditioned = by(Unrolled, fmt.Sprintf("minimal residuals do not solve the saddle point system of the "+
	"implicit derivative in %d steps: the equations of its space nearly depend on each other", pilotSteps), nil)

// nearlySolved is the optimality at which the space of a problem with r(K b) is read off a solution that
// has not converged: mu_hat is then within 3% of the size of the noise.
const nearlySolved = 1e-3

func by(kind Derivative, reason string, applies func(*solver, *solve.Solution) bool) derivative {
	return derivative{kind, Choice{Part: "derivative", Chosen: string(kind), Reason: reason}, applies}
}

// differentiate applies the table. Before the solve sol is nil, and the derivative Unrolled.
func (s *solver) differentiate(sol *solve.Solution) derivative {
	return derivatives[slices.IndexFunc(derivatives, func(d derivative) bool { return d.applies(s, sol) })]
}

// situation is what the choice of a space and of a system depends on.
type situation struct {
	ctx        context.Context // of the call that makes the derivative
	p          Problem
	j          prox.Derivative
	model      *prox.Model
	orthogonal bool
	dim        int        // p
	n          int        // coordinates of the model's space; dim without a model
	kind       space.Kind // of the model's space

	// solved is the solver's own factorization of systems on coordinates, or nil; given is what it
	// says of this one.
	solved func(set []int) (solve.Factored, bool)
	given  solve.Factored

	matrix []float64 // Q, where it is not 0 or diagonal and was asked for
	asked  bool
	on     linops.Restricted // A on the model's space, where A's structure offers it
}

// confined reports whether A can be restricted to the model's space. It makes the operator when it
// is first called: rules check numbers first.
func (s *situation) confined() bool {
	if !s.asked && s.model != nil {
		s.asked = true
		if s.kind == space.Whole && !hasColumns(s.p) {
			return false
		}
		if op, native := linops.On(s.p.Device, s.p.A, s.model.Space); native {
			s.on = op
		} else {
			op.Release()
		}
	}
	return s.on != nil
}

// factored reports that the solver has factored the system, and that it is well conditioned. Factors
// made anew would need the curvature as a matrix.
func (s *situation) factored() bool {
	if s.solved == nil || s.model == nil || s.kind != space.Subset {
		return false
	}
	if q := s.model.Curvature; q != nil && q.Diagonal() == nil && s.n > maxColumns {
		return false
	}
	var ok bool
	s.given, ok = s.solved(s.model.Space.Form().Set)
	return ok && s.given.Condition <= wellConditioned
}

// columns reports that the space is a set of A's columns, of which A stores the entries, with a
// curvature that is known as a matrix.
func (s *situation) columns() bool {
	return s.kind == space.Subset && linops.StructureOf(s.p.A).Entries.Known && s.plain()
}

// hasColumns reports whether A can be restricted to sets of coordinates, so that its products read
// a matrix.
func hasColumns(p Problem) bool {
	on := linops.StructureOf(p.A).On
	if on == nil {
		return false
	}
	_, dim := p.A.Dims()
	none := space.Coordinates(p.Device, dim, nil)
	defer none.Release()
	op := on(p.Device, none)
	if op == nil {
		return false
	}
	op.Release()
	return true
}

// plain reports whether the curvature is available as a matrix, or is 0. The matrix is computed
// once.
func (s *situation) plain() bool {
	if s.model == nil || s.kind == space.FixedRank {
		return false
	}
	q := s.model.Curvature
	if q == nil || q.Diagonal() != nil {
		return true
	}
	if s.matrix == nil && s.n <= maxColumns {
		s.matrix = q.Matrix()
	}
	return s.matrix != nil
}

// A rule is a row of the table of ways to compute the implicit derivative: the first one that
// applies is taken.
type rule struct {
	space, system string // what is chosen
	reason        string // why
	applies       func(s *situation) bool
	build         func(l *implicit, s *situation) error
}

// rules are all choices that the implicit derivative makes by structure.
var rules = []rule{
	{
		"R^p", "J's product", "A is a multiple of an orthogonal matrix, so that D mu_hat has the eigenvalues of J",
		func(s *situation) bool { return s.orthogonal && s.j != nil },
		(*implicit).product,
	},
	{
		"the model's space", "none", "the space is {0}: the estimate does not depend on y",
		func(s *situation) bool { return s.model != nil && s.n == 0 },
		func(l *implicit, _ *situation) error {
			l.dim, l.known = 0, exactly(0, 0)
			return nil
		},
	},
	{
		"the model's space", "none", "A*A is a multiple of the identity and r has no curvature there: D mu_hat is " +
			"the projection on A's image of the space",
		(*situation).projects,
		(*implicit).project,
	},
	{
		"the model's space", "factored by the solver",
		"the solver has factored the same system, and that is well conditioned",
		(*situation).factored,
		(*implicit).takeOver,
	},
	{
		"the model's space", "preconditioned conjugate gradients",
		"A can be restricted to the tangent space of low-rank matrices, where its products cost less than in R^p",
		func(s *situation) bool { return s.kind == space.FixedRank && s.n < s.dim && s.confined() },
		(*implicit).iterate,
	},
	{
		"the model's space", "preconditioned conjugate gradients",
		"A can be restricted to the blocks' spaces, one of which is of low rank",
		func(s *situation) bool {
			return s.kind == space.Product && s.dim > maxDense && !s.plain() && s.confined()
		},
		(*implicit).iterate,
	},
	{
		"the model's space", "factored", fmt.Sprintf("A can be restricted to the space, which has at most %d "+
			"coordinates", maxFactored),
		func(s *situation) bool { return s.n <= maxFactored && s.plain() && s.confined() },
		(*implicit).factorModel,
	},
	{
		"the model's space", "factored", fmt.Sprintf("A's columns are at hand, and at most %d of them count",
			maxColumns),
		func(s *situation) bool { return s.n <= maxColumns && s.columns() && s.confined() },
		(*implicit).factorModel,
	},
	{
		"the model's space", "factored", fmt.Sprintf("p is at most %d: products of A with a basis are cheap", maxDense),
		func(s *situation) bool { return s.dim <= maxDense && s.plain() },
		(*implicit).factorModel,
	},
	{
		"the model's space", "preconditioned conjugate gradients",
		"A can be restricted to the space, which has at most half of the coordinates",
		func(s *situation) bool { return 2*s.n <= s.dim && s.plain() && s.confined() },
		(*implicit).iterate,
	},
	{
		"the model's space", "preconditioned conjugate gradients",
		"the space is a set of at most half of the coordinates: the vectors of conjugate gradients are shorter there",
		func(s *situation) bool { return 2*s.n <= s.dim && s.kind == space.Subset && s.plain() },
		(*implicit).embed,
	},
	{
		"the model's space", "preconditioned conjugate gradients",
		"r stands behind an operator: only on this space is its curvature known",
		func(s *situation) bool { return s.j == nil },
		(*implicit).embed,
	},
	{
		"the range of J", "factored", fmt.Sprintf("p is at most %d: J's eigenvectors are cheap", maxDense),
		func(s *situation) bool { return s.dim <= maxDense },
		(*implicit).factorJacobian,
	},
	{
		"R^p", "conjugate gradients in J's product",
		"A cannot be restricted to the space, or the regularizer has no model",
		func(*situation) bool { return true },
		(*implicit).product,
	},
}

// choose takes the first rule that applies, and computes what it needs.
func (l *implicit) choose(ctx context.Context) error {
	s := &situation{ctx: ctx, p: l.p, j: l.j, model: l.model, orthogonal: l.orthogonal, dim: l.dim, n: l.dim,
		solved: l.solved}
	if l.model != nil {
		_, s.n = l.model.Space.Dims()
		s.kind = l.model.Space.Form().Kind
	}
	defer func() { // also where A or the regularizer panics
		if s.on != nil && l.on != s.on {
			s.on.Release()
		}
	}()
	for _, r := range rules {
		if !r.applies(s) {
			continue
		}
		if err := r.build(l, s); err != nil {
			return err
		}
		l.choices = []Choice{
			{Part: "space", Chosen: l.describe(r.space), Reason: r.reason},
			{Part: "system", Chosen: r.system + l.how, Reason: r.reason},
		}
		return nil
	}
	return nil
}

// describe names a space.
func (l *implicit) describe(name string) string {
	_, p := l.p.A.Dims()
	if l.model == nil || name != "the model's space" {
		return name
	}
	n := l.model.Space.Dim()
	kinds := map[space.Kind]string{
		space.Whole: "all coordinates", space.Subset: "free coordinates",
		space.Cluster:   "clusters of equal coordinates",
		space.FixedRank: "tangent space of matrices of fixed rank", space.Product: "product of the blocks' spaces",
		space.Hyperplane: "hyperplane of an active constraint", space.Spanned: "span of a basis",
		space.Complement: "tangent space of the active constraints",
		space.Symmetric:  "tangent space of symmetric matrices of fixed rank",
	}
	kind, ok := kinds[l.model.Space.Form().Kind]
	if !ok {
		kind = "the regularizer's space"
	}
	return fmt.Sprintf("%s: dimension %d in R^%d", kind, n, p)
}

// product leaves the system in R^p: conjugate gradients take products with J.
func (l *implicit) product(*situation) error {
	l.pre = inR{j: l.j, model: l.model}
	if !l.orthogonal || l.model == nil {
		return nil
	}
	if l.model.Curvature == nil {
		n := float64(l.model.Space.Dim())
		l.known = exactly(n, n)
	} else if trace, frobenius2, ok := l.model.Curvature.Trace(); ok {
		l.known = exactly(trace, frobenius2)
	}
	return nil
}

// iterate restricts the system to the model's space.
func (l *implicit) iterate(s *situation) error {
	l.confine(s.on, l.model)
	return nil
}

// embed restricts the system to the model's space, E followed by A.
func (l *implicit) embed(*situation) error {
	op, _ := linops.On(l.p.Device, l.p.A, l.model.Space)
	l.confine(op, l.model)
	return nil
}

// confine sets the restricted operator, and the preconditioner of the model's curvature.
func (l *implicit) confine(on linops.Restricted, m *prox.Model) {
	l.on, l.op = on, on
	_, l.dim = on.Dims()
	l.pre = flat{}
	if m.Curvature != nil {
		l.pre = curved{m.Curvature}
	}
}

// A preconditioner is J in the coordinates of the system's space, and K = J^{-1} - I.
type preconditioner interface {
	// apply sets jr = J r, or an approximation of it by a positive definite operator, and kr = K
	// jr; kr is zero where flat. If project is set, r is first projected on the range of J, as far
	// as that is known.
	apply(jr, kr, r array.Batch, project bool)
	// flat reports whether K is 0: J is the identity, or preconditions a system that is all in its
	// square.
	flat() bool
}

// flat is J = I: the regularizer has no curvature on the space.
type flat struct{}

func (flat) flat() bool                         { return true }
func (flat) apply(jr, _, r array.Batch, _ bool) { r.Device().Copy(jr, r) }

// curved is the J of a curvature. Components that E maps to 0 never enter its images.
type curved struct{ q prox.Curvature }

func (curved) flat() bool                            { return false }
func (c curved) apply(jr, kr, r array.Batch, _ bool) { c.q.Precondition(jr, kr, r) }

// inR is J itself, on R^p, where K = J^{-1} - I is taken on J's range.
type inR struct {
	j     prox.Derivative
	model *prox.Model // nil where the range is not known
}

func (inR) flat() bool { return false }

func (p inR) apply(jr, kr, r array.Batch, project bool) {
	dev := r.Device()
	if project && p.model != nil && p.model.Curvature != nil {
		p.model.Space.Project(r, r)
	}
	p.j.Apply(jr, r)
	if project && p.model != nil && p.model.Curvature == nil {
		// J itself is the projection, to the last bit.
		dev.Copy(r, jr)
	}
	dev.Lin(kr, 1, r, -1, jr)
}
