package vjp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
	"surepipe/vjp/system"
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
	"implicit derivative in %d steps: the equations of its space nearly depend on each other", system.PilotSteps), nil)

// nearlySolved is the optimality at which the space of a problem with r(K b) is read off a solution that
// has not converged: mu_hat is then within 3% of the size of the noise.
const nearlySolved = 1e-3

func by(kind Derivative, reason string, applies func(*solver, *solve.Solution) bool) derivative {
	return derivative{kind, Choice{Part: "derivative", Chosen: string(kind), Reason: reason}, applies}
}

func (s *solver) differentiate(sol *solve.Solution) derivative {
	return derivatives[slices.IndexFunc(derivatives, func(d derivative) bool { return d.applies(s, sol) })]
}

// structure is what the choice of a space and of a system depends on: the problem's and the model's.
type structure struct {
	*setting
	ctx   context.Context // of the call that makes the derivative
	j     prox.Derivative // nil where only the model is known
	model *prox.Model
	dim   int        // p
	n     int        // coordinates of the model's space; dim without a model
	kind  space.Kind // of the model's space

	// given is what the solver says of its own factorization of the system.
	given solve.Factored

	matrix []float64 // Q, where it is not 0 or diagonal and was asked for
	asked  bool
	on     linops.Restricted // A on the model's space, where A's structure offers it or it was needed

	held array.Held // what the system refers to
	fit  system.Fit
}

func (s *setting) structure(ctx context.Context, j prox.Derivative, m *prox.Model) *structure {
	_, dim := s.p.A.Dims()
	c := &structure{setting: s, ctx: ctx, j: j, model: m, dim: dim, n: dim}
	if m != nil {
		_, c.n = m.Space.Dims()
		c.kind = m.Space.Form().Kind
	}
	return c
}

// confined reports whether A can be restricted to the model's space. It makes the operator when it
// is first called: rules check numbers first.
func (s *structure) confined() bool {
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

// factored reports that the solver has factored the system, and that it is well conditioned. Factors made anew would
// need the curvature as a matrix; where that is too large, images come by conjugate gradients.
func (s *structure) factored() bool {
	if s.solved == nil || s.model == nil || s.kind != space.Subset {
		return false
	}
	var ok bool
	s.given, ok = s.solved(s.model.Space.Form().Set)
	return ok && s.given.Condition <= system.WellConditioned
}

// projects reports that D mu_hat is an orthogonal projection that needs no system to be solved.
func (s *structure) projects() bool {
	return s.j == nil && s.model != nil && s.model.Curvature == nil &&
		(s.model.Space.Form().Orthonormal || s.model.Space.Form().Projection) &&
		linops.StructureOf(s.p.A).Columns.Value > 0
}

func (s *structure) bends() bool {
	if s.j != nil || s.model == nil || !s.model.Space.Form().Orthonormal {
		return false
	}
	q, ok := s.model.Curvature.(*sparseCurvature)
	return ok && q.exact && math.Abs(s.eta*linops.StructureOf(s.p.A).Columns.Value-1) <= 0x1p-50
}

// fills reports that A picks most entries of large matrices, by a projection, and that the diagonal of J is known.
func (s *structure) fills() bool {
	return s.dim > maxDense && s.seen != nil && s.j != nil && s.eta == 1 && system.FillsIn(s.seen) &&
		s.model != nil && s.model.Diagonal != nil
}

// columns reports that the space is a set of A's columns, of which A stores the entries, with a
// curvature that is known as a matrix.
func (s *structure) columns() bool {
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
func (s *structure) plain() bool {
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

// offered reports that A offers to be restricted to some spaces, which takes no work to know.
func (s *structure) offered() bool { return linops.StructureOf(s.p.A).On != nil }

// small reports that a product with the curvature takes little work: it is 0, diagonal, or of few coordinates.
func (s *structure) small() bool {
	q := s.model.Curvature
	return q == nil || q.Diagonal() != nil || s.n <= maxColumns
}

// A rule is a row of the table of ways to compute the implicit derivative: the first one that
// applies is taken.
type rule struct {
	space, system string // what is chosen
	reason        string // why
	applies       func(s *structure) bool
	build         func(s *structure) (system.System, error)
}

// rules are the choices that the implicit derivative makes by structure where r stands behind no K; of connected parts
// (parts.go), and on tangent spaces of low rank (setting.go), the choice is made before.
var rules = []rule{
	{
		"R^p", "J's product", "A is a multiple of an orthogonal matrix, so that D mu_hat has the eigenvalues of J",
		func(s *structure) bool { return s.orthogonal && s.j != nil },
		func(s *structure) (system.System, error) { return system.Transform(s.p.A, s.j, s.eta), nil },
	},
	{
		modelSpace, "none", "the space is {0}: the estimate does not depend on y",
		func(s *structure) bool { return s.model != nil && s.n == 0 },
		func(s *structure) (system.System, error) { return system.Zero(s.p.A, system.Exactly(0, 0)), nil },
	},
	{
		modelSpace, "none", "A*A is a multiple of the identity and r has no curvature there: D mu_hat is " +
			"the projection on A's image of the space",
		(*structure).projects,
		(*structure).project,
	},
	{
		modelSpace, "factored by the solver",
		"the solver has factored the same system, and that is well conditioned",
		(*structure).factored,
		(*structure).takeOver,
	},
	{
		"the entries that are not seen", "preconditioned conjugate gradients",
		"A picks most entries, and the derivative of the proximal operator shows its diagonal",
		(*structure).fills,
		func(s *structure) (system.System, error) {
			return system.IterateUnseen(s.p.Device, s.p.A, s.seen, prox.StructureOf(s.p.R).Shape, s.j, s.model.Diagonal,
				s.tol), nil
		},
	},
	{
		modelSpace, "preconditioned conjugate gradients",
		"A can be restricted to the tangent space of low-rank matrices, where its products cost less than in R^p",
		func(s *structure) bool { return s.kind == space.FixedRank && s.n < s.dim && s.confined() },
		(*structure).iterate,
	},
	{
		modelSpace, "preconditioned conjugate gradients",
		"A can be restricted to the blocks' spaces, one of which is of low rank",
		func(s *structure) bool {
			return s.kind == space.Product && s.dim > maxDense && !s.plain() && s.confined()
		},
		(*structure).iterate,
	},
	{
		modelSpace, "factored", fmt.Sprintf("A can be restricted to the space, which has at most %d "+
			"coordinates", maxFactored),
		func(s *structure) bool { return s.n <= maxFactored && s.offered() && s.plain() && s.confined() },
		(*structure).factorModel,
	},
	{
		modelSpace, "factored", fmt.Sprintf("A's columns are at hand, and at most %d of them count",
			maxColumns),
		func(s *structure) bool { return s.n <= maxColumns && s.columns() && s.confined() },
		(*structure).factorModel,
	},
	{
		modelSpace, "factored", fmt.Sprintf("p is at most %d: products of A with a basis are cheap", maxDense),
		func(s *structure) bool { return s.dim <= maxDense && s.plain() },
		(*structure).factorModel,
	},
	{
		modelSpace, "factored", "A*A is a multiple of the identity, and the curvature has a sparse factor",
		(*structure).bends,
		func(s *structure) (system.System, error) {
			return system.Bend(s.restricted(), s.model.Curvature, s.eta), nil
		},
	},
	{
		modelSpace, "preconditioned conjugate gradients",
		"A can be restricted to the space, which has at most half of the coordinates",
		func(s *structure) bool { return 2*s.n <= s.dim && s.offered() && s.plain() && s.confined() },
		(*structure).iterate,
	},
	{
		modelSpace, "preconditioned conjugate gradients",
		"the space is a set of at most half of the coordinates: the vectors of conjugate gradients are shorter there",
		func(s *structure) bool { return 2*s.n <= s.dim && s.kind == space.Subset && s.small() },
		(*structure).iterate,
	},
	{
		modelSpace, "preconditioned conjugate gradients",
		"r stands behind an operator: only on this space is its curvature known",
		func(s *structure) bool { return s.j == nil },
		(*structure).iterate,
	},
	{
		"the range of J", "factored", fmt.Sprintf("p is at most %d: J's eigenvectors are cheap", maxDense),
		func(s *structure) bool { return s.dim <= maxDense },
		(*structure).factorJacobian,
	},
	{
		"R^p", "conjugate gradients in J's product",
		"A cannot be restricted to the space, or the regularizer has no model",
		func(*structure) bool { return true },
		func(s *structure) (system.System, error) {
			return system.IterateInProduct(s.p.Device, s.p.A, s.j, s.eta, s.tol), nil
		},
	},
}

// choose takes the first rule that applies to the derivative j of the proximal operator, nil where that is not known,
// and its model m, and builds the system.
func (s *setting) choose(ctx context.Context, j prox.Derivative, m *prox.Model) (*linearization, error) {
	c := s.structure(ctx, j, m)
	var undo cleanup
	defer undo.run()
	undo.add(func() {
		if c.on != nil {
			c.on.Release()
		}
		c.held.Release()
	})
	r := rules[slices.IndexFunc(rules, func(r rule) bool { return r.applies(c) })]
	made, err := r.build(c)
	if err == nil {
		undo.add(made.Release)
		c.on = nil // the system's
		err = s.p.Device.Err()
	}
	if err != nil {
		if fault := s.p.Device.Err(); fault != nil {
			err = fault // the cause
		}
		return nil, err
	}
	undo = nil
	l := implicit(s.p.A, made, m, s.tol)
	l.held, l.sensitive = c.held, c.fit.Sensitive
	on := r.space
	if m != nil && on == modelSpace {
		on = describe(s.p.A, m)
	}
	l.choices = []Choice{
		{Part: "space", Chosen: on, Reason: r.reason},
		{Part: "system", Chosen: r.system + c.fit.By, Reason: r.reason},
	}
	return l, nil
}

// modelSpace stands for the space of the model in a rule.
const modelSpace = "the model's space"

// kinds are those of spaces in words.
var kinds = map[space.Kind]string{
	space.Whole: "all coordinates", space.Subset: "free coordinates",
	space.Cluster:   "clusters of equal coordinates",
	space.FixedRank: "tangent space of matrices of fixed rank", space.Product: "product of the blocks' spaces",
	space.Hyperplane: "hyperplane of an active constraint", space.Spanned: "span of a basis",
	space.Complement: "tangent space of the active constraints",
	space.Symmetric:  "tangent space of symmetric matrices of fixed rank",
}

func describe(a linops.Operator, m *prox.Model) string {
	_, p := a.Dims()
	kind, ok := kinds[m.Space.Form().Kind]
	if !ok {
		kind = "the regularizer's space"
	}
	return fmt.Sprintf("%s: dimension %d in R^%d", kind, m.Space.Dim(), p)
}

func (s *structure) restricted() linops.Restricted {
	if s.on == nil {
		s.on, _ = linops.On(s.p.Device, s.p.A, s.model.Space)
	}
	return s.on
}

func (s *structure) project() (system.System, error) {
	return system.Project(s.restricted(), s.model.Space, linops.StructureOf(s.p.A).Columns.Value), nil
}

func (s *structure) iterate() (system.System, error) {
	return system.Iterate(s.p.Device, s.restricted(), s.model, s.eta, s.tol), nil
}

func (s *structure) equations(t space.Space) system.Equations {
	return system.Equations{M: s.on, Space: t, Norm: s.norm, Optimality: s.optimality,
		// Where the solver knows that the tangent space is the solution's, the error of b does not matter,
		// and a quadratic regularizer has no tangent spaces to choose between.
		Certain: s.identified || prox.StructureOf(s.p.R).Quadratic.Known}
}

func (s *structure) factorModel() (made system.System, err error) {
	s.restricted()
	e := s.equations(s.model.Space)
	if e.Q = s.matrix; e.Q == nil && s.model.Curvature != nil {
		e.Q = system.Diagonal(s.model.Curvature.Diagonal())
	}
	if e.Combined = s.kind != space.Subset && s.kind != space.Whole; e.Combined && s.dim <= smallBehind {
		if lengths2 := linops.StructureOf(s.p.A).ColumnNorms2; lengths2 != nil {
			e.Lengths2 = system.Uneven(lengths2())
		}
	}
	if s.gram != nil && s.kind == space.Subset {
		e.Gram = s.gram(s.model.Space.Form().Set)
	}
	made, s.fit, err = system.Factor(s.ctx, s.p.Device, e)
	return made, err
}

// takeOver takes the trace and the condition of the system from the solver. The factors are computed
// anew when an image is asked for: the solver's have gone on to the next weight by then.
func (s *structure) takeOver() (system.System, error) {
	given := s.given
	d, _ := s.p.A.Dims()
	known := system.Conditioned(given.Trace, given.Frobenius2, given.Condition, d, s.n)
	known.Images, known.Products, known.Mapped = given.Images, given.Products, given.Mapped
	known.Leverages, known.LeveragesFlops, known.ImageFlops = given.Diagonal, given.DiagonalFlops, given.ImageFlops
	s.fit.Sensitive = system.Sensitive(given.Projection, s.optimality, given.Condition)
	later := *s.setting
	later.gram, later.solved = nil, nil
	if s.keep && given.Images == nil && s.gram != nil {
		kept := s.gram(s.model.Space.Form().Set)
		later.gram = func([]int) []float64 { return kept }
	}
	model := s.model
	return system.Defer(known, d, s.n, s.small(), func(ctx context.Context) (system.System, error) {
		to := later.structure(ctx, nil, model)
		switch {
		case !to.small():
			return to.iterate()
		case !to.plain():
			return nil, errNoMatrix
		}
		made, err := to.factorModel()
		if err != nil {
			to.on.Release()
		}
		return made, err
	}), nil
}

var errNoMatrix = errors.New("vjp: the regularizer does not show its curvature as a matrix")

// factorJacobian factors the system on the range of J = V diag(j) V*, with E the columns of V whose
// eigenvalues do not vanish and Q = diag(1/j - 1)/eta. It is for a J without a model.
func (s *structure) factorJacobian() (made system.System, err error) {
	dev := s.p.Device
	r, err := system.RangeOf(dev, s.j, s.dim, s.eta)
	if err != nil {
		return nil, err
	}
	if r.Dim == 0 {
		return system.Zero(s.p.A, system.Exactly(0, 0)), nil
	}
	t := space.Span(dev.Put(r.Basis, r.Dim, s.dim))
	s.held.Own(t)
	s.on, _ = linops.On(dev, s.p.A, t)
	e := s.equations(t)
	// Where J is diagonal coordinates are judged by the lengths of their own columns.
	e.Q, e.Combined = r.Curvature, !r.Coordinates
	made, s.fit, err = system.Factor(s.ctx, dev, e)
	return made, err
}
