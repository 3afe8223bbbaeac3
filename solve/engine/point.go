package engine

import (
	"context"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
)

// Point is a solution in the form in which it was computed, for differentiating it there: the
// problem in other units, with whitened observations, or restricted to a working set. Its estimate
// differs from the user's in b alone, or with weights w of the observations by the factor sqrt(w).
type Point struct {
	// Problem is the problem that was solved, with the squared loss: for a loss that is not
	// quadratic the whitened one that it is at the solution. Its Device is that of Y.
	Problem Problem
	// Y is its right-hand side and B its solution, batches of one vector. B is zero where the solution
	// is Implied.
	Y, B array.Batch
	// Norm2 is an upper bound of ||A||^2 for its operator.
	Norm2 float64
	// Misfit is A b - y and Gradient A* of it, where the solver has them; else zero.
	Misfit, Gradient array.Batch
	// Argument is, for a problem with r(K b), the argument v of the last proximal operator, and Eta
	// its step: prox_{eta r}(v) is the solution's K b, up to the error of the solve, and has exact
	// zeros. Else Argument is zero.
	Argument array.Batch
	Eta      float64

	rest rest // for iterations that go on from here
	// Identified says that columns of A nearly depend on each other, and that the support of B is known to be
	// that of the solution all the same.
	Identified bool
	// Flat says that some observations have a slope but no curvature, as outliers under the Huber
	// loss do. Their misfit is then 0, and A* of Misfit is not Gradient.
	Flat bool
	// Linear is the closed form of an estimator that is linear in y; nil for others.
	Linear Linear
	// Tangent is the tangent space at B from a factored low-rank iteration; nil for others. Code
	// that takes over its parts sets it to nil.
	Tangent *Tangent
	// Gram returns the Gram matrix of the operator's columns at an increasing set of coordinates,
	// row-major in a new slice, nil where the solver does not have it. Gram itself is nil where the
	// solver has none.
	Gram func(set []int) []float64
	// Factored returns what the solver's own factorization says of the system on an increasing set
	// of coordinates; ok is false where it is that of another set. Factored itself is nil where the
	// solver has none. Like Gram it serves until the path of the solve goes on.
	Factored func(set []int) (f Factored, ok bool)

	// What follows is for solvers, which build a point and change its form.

	Curved  Curved            // the second derivative of the loss for which Gram and Factored are
	Method  Method            // to go on with; nil where the solution is as good as rounding errors allow
	Options Options           // of the solve
	Back    func(*Solution)   // sets the solution's B and MuHat from the point's; or nil
	Shared  bool              // B is the solution's
	OwnsY   bool              // Y is the point's
	Op      linops.Restricted // Problem's operator where it is the point's own; or nil
	Free    func()            // frees it and the regularizer

	lift func(b []float64) []float64 // by Embedded, of vectors on the host; nil before
}

// Curved is the second derivative of a loss: the roots of its diagonal, nil for ones, or a factor where it has more.
type Curved struct {
	Roots  []float64
	Factor loss.Root
}

// rest is what a solve of r(K b) leaves beside b.
type rest struct {
	dual  array.Batch // the multiplier of K b, with Argument
	kept  any         // what the method needs to go on; nil for no more
	ended bool        // there is nothing to go on with
}

// Factored describes K = G + Q, with the Gram matrix G of some columns of A and the curvature Q of
// the regularizer there, which a solver has factored.
type Factored struct {
	// Condition estimates the condition number of K with its diagonal scaled to ones.
	Condition float64
	// Trace and Frobenius2 are those of D mu_hat = A_S K^{-1} A_S*: tr D and ||D||_F^2. Projection
	// says that Q is 0, so that both are the number of columns.
	Trace, Frobenius2 float64
	Projection        bool
	// Images sets dst_i = D mu_hat v_i by the solver's factor. It reports false, and does nothing,
	// where that has gone: it serves, like Factored, until the path of the solve goes on, and not
	// without a path.
	Images func(dst, v array.Batch) bool
	// Products are <v_i, D mu_hat v_j> by the same factor, k x k in a new slice; nil where Images reports false. It is
	// nil where Images is.
	Products func(v *array.Fixed) []float64
	// Mapped is the sum of S_i D mu_hat v_i by the same factor, in a new slice; nil where Images reports false, or
	// takes no longer. It is nil where Images is.
	Mapped func(v *array.Mapped) []float64
	// Diagonal is that of D mu_hat in a new slice, by the solver's factor, in about DiagonalFlops operations; nil
	// where that has gone, or does not offer it. It serves as long as Images, which takes about ImageFlops for a
	// vector. Diagonal is nil where the solver has none.
	Diagonal                  func() []float64
	DiagonalFlops, ImageFlops float64
}

// Tangent is the model of the nuclear norm at a solution of low rank, and the operator on its
// space, which is nil at the solution 0. Without a Model another derivative serves better.
type Tangent struct {
	A     linops.Restricted
	Model *prox.Model
	// Reduced is A where the system is that of one factor alone, with another metric than the
	// Model's; nil for others.
	Reduced Reduced
	// Arrow, in the place of A and Reduced, is the derivative from the factored second derivative of a completion;
	// nil for others. Bases are the factors that the space refers to then.
	Arrow Arrow
	Bases [2]array.Batch
	// Moving are coordinates of mu_hat that move with those of y one for one, and which A leaves 0;
	// nil for none.
	Moving *linops.Places
}

// Arrow is D mu_hat of a completion, with the effects of rows and columns that belong to it, by a factorization of
// the second derivative in the factors of b. It is safe for concurrent use.
type Arrow interface {
	// Leverages are the diagonal.
	Leverages(ctx context.Context) ([]float64, error)
	// Squares is the sum of the squares of all entries, in about SquaresFlops operations.
	Squares(ctx context.Context) (float64, error)
	SquaresFlops() float64
	// Images sets dst to D mu_hat v for count vectors, one after the other.
	Images(ctx context.Context, dst, v []float64, count int) error
	// Bytes is the memory that it holds, and ImageBytes is what an image takes.
	Bytes() int64
	ImageBytes() int64
}

// Release frees the space, the operator and the places.
func (t *Tangent) Release() {
	array.Free(t.Bases[0], t.Bases[1])
	if t.Model != nil {
		if t.A != nil {
			t.A.Release()
		}
		t.Model.Space.Release()
		if t.Model.Curvature != nil {
			t.Model.Curvature.Release()
		}
	}
	if t.Moving != nil {
		t.Moving.Free()
	}
}

// NewPoint is the point of a solution that was computed in the user's form.
func NewPoint(m Method, traits Traits, y array.Batch, o Options, s *Solution) *Point {
	p := m.Problem()
	p.Device = y.Device()
	at := &Point{Problem: p, Y: y, B: s.B, Norm2: traits.Norm2, Gram: s.Gram, Method: m, Options: o, Shared: true}
	if traits.Own != nil {
		at.Linear = traits.Own.Linear
	}
	return at
}

// Detach hands the restricted problem over to the caller: it returns the operator and the function
// that frees it and the regularizer, or nil where the point does not own them.
func (at *Point) Detach() (a linops.Restricted, release func()) {
	a, release = at.Op, at.Free
	at.Op, at.Free = nil, nil
	return a, release
}

// Embedded says that the solution's coordinates are n, of which the point's so far are those of an increasing set; the
// others are 0.
func (at *Point) Embedded(set []int, n int) {
	before := at.lift
	lift := func(b []float64) []float64 {
		if before != nil {
			b = before(b)
		}
		wide := make([]float64, n)
		for i, j := range set {
			wide[j] = b[i]
		}
		return wide
	}
	at.lift = lift
	at.Back = func(s *Solution) { s.B.Device().Upload(s.B, lift(at.B.ToHost())) }
}

// Release frees what the point holds. The solution keeps its B.
func (at *Point) Release() {
	if !at.Shared {
		at.B.Free()
	}
	if at.OwnsY {
		at.Y.Free()
	}
	array.Free(at.Argument, at.rest.dual, at.Misfit, at.Gradient)
	if at.Tangent != nil {
		at.Tangent.Release()
	}
	if at.Free != nil {
		at.Free()
	}
	*at = Point{}
}

// Then changes the solution by f, now and after every refinement. The point does not change.
func (s *Solution) Then(f func(*Solution)) {
	if at := s.At; at != nil {
		if at.Shared {
			dev := s.B.Device()
			at.B, at.Shared = s.B, false
			s.B = dev.Alloc(1, at.B.N())
			dev.Copy(s.B, at.B)
			at.Back = func(s *Solution) { dev.Copy(s.B, at.B) }
		}
		before := at.Back
		at.Back = func(s *Solution) {
			before(s)
			f(s)
		}
	}
	f(s)
}

// Refine continues the solve from the point to a smaller tolerance, for at most maxIter iterations,
// and reports whether the solution is better now. The duality gap is not computed again.
func (s *Solution) Refine(ctx context.Context, tol float64, maxIter int) (bool, error) {
	at := s.At
	if at.Method == nil {
		return false, nil // it is as good as rounding errors allow
	}
	o := at.Options
	o.Tol, o.MaxIter, o.Point = tol, min(o.MaxIter, maxIter), false
	better, err := Run(ctx, at.Method, at.Y, o, Start{B: at.B, Part: true})
	if err != nil {
		return false, err
	}
	defer better.Release()
	s.Iterations += better.Iterations
	if better.Optimality >= s.Optimality {
		return false, nil
	}
	dev := at.B.Device()
	dev.Copy(at.B, better.B)
	dev.Copy(s.MuHat, better.MuHat)
	s.Optimality = better.Optimality
	if at.Back != nil {
		at.Back(s)
	}
	return true, nil
}
