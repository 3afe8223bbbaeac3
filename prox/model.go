package prox

import (
	"math"

	"surepipe/array"
	"surepipe/space"
)

// Model is a partly smooth regularizer near a point b (Lewis 2002; Vaiter, Deledalle, Peyre, Fadili
// 2017): along a manifold through b it is smooth. With the manifold's tangent space T = E R^n at b
// and the curvature Q of r along it, the derivative of the proximal operator there is
//
//	J = D prox_{t r}(v) = E (E*E + t Q)^{-1} E*,   b = prox_{t r}(v).
//
// A model is valid as long as its derivative.
type Model struct {
	// Space is T.
	Space     space.Space
	Curvature Curvature
	// Margin reports how close the choice of the manifold was. v is the point at which the
	// derivative was taken, a batch of one vector, and the result is a lower bound of the distance
	// from v to the nearest point with another Space; +Inf where there is no such point. It is
	// computed on demand, and v is an argument so that the derivative need not keep it. A nil
	// Margin means that nothing is known.
	Margin func(v array.Batch) float64
	// Diagonal computes that of J; nil where it is not known.
	Diagonal func() []float64

	squares func() *Squares
}

// Squares are a sparse matrix W and a weight of each of its rows, also a negative one, with Q = W* diag(weights) W.
type Squares struct {
	space.Rows
	Weights []float64
}

// Squares returns those of the curvature in the coordinates of Space, nil where none are known. A curvature of 0 has
// some without rows.
func (m *Model) Squares() *Squares {
	if m.squares != nil {
		return m.squares()
	}
	w := &Squares{Rows: space.Rows{Indptr: []int{0}}}
	if m.Curvature == nil {
		return w
	}
	q := m.Curvature.Diagonal()
	if q == nil {
		return nil
	}
	for i, x := range q {
		if x > 0 {
			w.add(i, 1)
			w.end(x)
		}
	}
	return w
}

// add adds an entry to the last row, and end ends it, with a weight.
func (w *Squares) add(column int, v float64) {
	w.Indices, w.Values = append(w.Indices, column), append(w.Values, v)
}

func (w *Squares) end(weight float64) {
	w.Indptr, w.Weights = append(w.Indptr, len(w.Indices)), append(w.Weights, weight)
}

// Curvature is a positive semidefinite n x n matrix Q in the coordinates of a [Model]'s space, for
// the step t of the model's derivative. It is immutable and safe for concurrent use until it is
// released.
type Curvature interface {
	// Precondition sets dst_i to about (Q + E*E/t)^{-1} z_i/t, by a positive definite operator, and
	// image_i to t Q dst_i, up to components that E maps to 0. The three are different batches.
	// Where the operator is exact it is J in the coordinates, and image_i = z_i - dst_i.
	Precondition(dst, image, z array.Batch)
	// Diagonal returns the diagonal of Q where Q is diagonal, else nil. The caller must not modify
	// it.
	Diagonal() []float64
	// Matrix returns Q, row-major on the host, in a new slice; nil where that would take too much
	// work.
	Matrix() []float64
	// Trace returns the sum of the eigenvalues of J, and of their squares; ok is false where they
	// are not known.
	Trace() (trace, frobenius2 float64, ok bool)
	// Bytes is the device memory that it holds.
	Bytes() int64
	// Release frees that memory.
	Release()
}

// Structure is what is known about a regularizer beyond its proximal operator. The zero value says
// nothing, and is always true. A nil function means that r does not offer it.
type Structure struct {
	// Value returns r(b) for a batch of one vector; +Inf outside r's domain.
	Value func(b array.Batch) float64
	// Quadratic is c where r(b) = c/2 ||b||^2, so that the estimator is linear in y.
	Quadratic Number
	// Nuclear is lambda where r(B) = lambda ||B||_* for matrices of shape Shape.
	Nuclear Number
	Shape   array.Shape
	// L1 is c where r(b) = c ||b||_1.
	L1 Number
	// Balls says that r is the support function of balls of one radius.
	Balls Balls
	// Blocks are r_1, r_2, ..., each with its Dim, where r is the sum of them on consecutive blocks
	// of b.
	Blocks []Prox
	// Free lists the coordinates of vectors of length n on which r does not depend, in increasing
	// order.
	Free func(n int) []int
	// Sparse returns the weights of a regularizer that is a sum over coordinates,
	//
	//	r(b) = sum_j w_j |b_j| + q_j/2 b_j^2,   b_j >= 0 where positive_j,
	//
	// on vectors of length n. Weights may be +Inf: they hold b_j at 0. A nil slice stands for no constraint. The
	// caller must not modify the slices.
	Sparse func(n int) (w, q Numbers, positive []bool)
	// Groups returns, of a regularizer r(b) = sum_g w_g ||b_g||_2 over disjoint groups of all
	// coordinates, the group of each coordinate and the weight of each group, which may be 0 or +Inf.
	// The caller must not modify the slices.
	Groups func() (owner []int, w []float64)
	// Closure returns the smallest set that holds s and over which r splits,
	// r(b) = r_S(b_S) + r_rest(b_rest), in increasing order; nil when r turns out to have a part
	// that does not split. s is in increasing order. Near b = 0 such an r is positively homogeneous
	// up to second order, so that as t goes to 0
	//
	//	prox_{t r}(-t g)/t -> -(the least element of g + ∂r(0)),
	//
	// which gives the amount by which a coordinate held at 0 violates its optimality condition.
	Closure func(s []int) []int
	// On returns c -> r(E c) on a space, for every Subset whose set Closure returned; nil and no
	// error where r cannot be restricted to that space. Whatever it allocates is on dev, which may
	// be a view for one request, as is what Rescale allocates. The result is the caller's to
	// [Release].
	On func(dev array.Device, t space.Space) (Prox, error)
	// Units changes s, positive numbers, where Rescale would not take them: coordinates that r
	// treats together share one. Rescale returns c -> r(s ∘ c), with s entry by entry, for an s
	// that Units has seen; the result is the caller's to [Release]. Both are nil or neither is.
	Units   func(s []float64)
	Rescale func(dev array.Device, s []float64) (Prox, error)
	// DualScale and FenchelGap give a duality gap. With z = y - A b and g = A* z the point t z is
	// feasible in the dual of min_b 1/2 ||A b - y||^2 + r(b) for every t that DualScale allows, and
	// the objective at b exceeds its minimum by at most
	//
	//	gap = 1/2 (1 - t)^2 ||z||^2 + r(b) + r*(t g) - t <b, g>.
	//
	// The squared loss is strongly convex in A b: ||A b - A b_hat||^2 <= 2 gap at every solution
	// b_hat (Ndiaye, Fercoq, Gramfort, Salmon, JMLR 18, 2017).
	//
	// DualScale returns the largest t in [0, 1] at which r*(t g) is known to be finite; b and g are
	// batches of one vector, near is a bound of the distance from g to r's subdifferential at b,
	// +Inf where none is known. FenchelGap returns r(b) + r*(t g) - t <b, g>, or an upper bound of
	// it. Both are nil or neither is.
	DualScale  func(b, g array.Batch, near float64) float64
	FenchelGap func(b, g array.Batch, t, near float64) float64
	// Support returns the support function of r's domain, sup {<b, g> : r(b) < +Inf}, after it has
	// moved g, a batch of one vector, to the nearest point at which that is finite. A vector u with
	// K* u = 0 and a negative support function shows that no K b is in the domain. It is nil where r
	// is finite everywhere, so that g can only be 0, or where nothing is known.
	Support func(g array.Batch) float64
	// Follow returns a Follower, or nil where nothing would be gained.
	Follow func() Follower
	// Local returns how the degrees of freedom of prox_r(v) are spread over the pixels and patches of a
	// series of images; nil where r is not one of patches.
	Local func(v []float64) (LocalMaps, error)
	// Release frees the device memory that the regularizer holds; nil where it holds none. A
	// regularizer that is built from others does not own their memory.
	Release func()
}

// Balls are those of which r is the support function,
//
//	r(z) = Radius sum_{i<n} ||(z_i, z_{n+i}, ..., z_{(Planes-1)n+i})||_2
//
// on vectors of Planes n numbers, so that the dual of a problem with r constrains these vectors to balls
// around 0; with more than one of the Channels as many neighbours i are in one norm. The zero value says nothing.
type Balls struct {
	Radius           float64
	Planes, Channels int
}

func balls(radius float64, planes, channels int) Balls {
	if !(radius > 0) || math.IsInf(radius, 1) {
		return Balls{}
	}
	return Balls{radius, planes, channels}
}

// Number is a number that may not be known.
type Number struct {
	Value float64
	Known bool
}

// Structured is a Prox that knows its structure.
type Structured interface {
	Prox
	// Structure returns it. It is called often, so it should do expensive work only once.
	Structure() Structure
}

// Known is embedded in a regularizer that knows its structure when it is made, and sets Is to it.
type Known struct{ Is Structure }

func (k *Known) Structure() Structure { return k.Is }

// StructureOf returns the structure of p, the zero Structure if p is not Structured.
func StructureOf(p Prox) Structure {
	if s, ok := p.(Structured); ok {
		return s.Structure()
	}
	return Structure{}
}

// Release frees the device memory that p holds, if it holds any.
func Release(p Prox) {
	if free := StructureOf(p).Release; free != nil {
		free()
	}
}

// LocalMaps say how an estimate by patches spends its degrees of freedom.
type LocalMaps struct {
	Series Series
	// DegreesOfFreedom has one entry a pixel, rows x cols: the divergence of each patch in equal parts
	// to its pixels, averaged over the tilings. They add up to the divergence.
	DegreesOfFreedom []float64
	// PatchRows x PatchCols is the number of patches of the first tiling, and PatchDivergence their
	// divergences, where it is the only one; else nil.
	PatchRows, PatchCols int
	PatchDivergence      []float64
}
