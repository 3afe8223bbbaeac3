package vjp

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
	"surepipe/vjp/system"
)

// place is a point v at which r is differentiated for a problem with r(K b): z = prox_{eta r}(v), the
// multiplier u = (v - z)/eta of K b = z, which is a subgradient of r at z, and the model of r there.
type place struct {
	v, z      array.Batch
	eta       float64
	j         prox.Derivative
	taken     bool        // j belongs to the linearization
	model     *prox.Model // nil for none
	equations equations
	small     float64 // the tolerance of an incomplete factor
	error     float64 // of the entries of mu_hat
}

// newPlace takes v over.
func newPlace(r prox.Prox, v array.Batch, eta float64) (*place, error) {
	dev := v.Device()
	at := &place{v: v, z: dev.Alloc(1, v.N()), eta: eta}
	var undo cleanup
	defer undo.run()
	undo.add(at.release)
	var err error
	if at.j, err = r.Linearize(at.z, v, eta); err != nil {
		return nil, err
	}
	if at.model = at.j.Model(); at.model != nil && v.N() <= maxDense {
		if _, ok := curvatureAt(at.model); !ok {
			if err := at.onRange(dev); err != nil {
				return nil, err
			}
		}
	}
	undo = nil
	return at, nil
}

// onRange puts the model on an orthonormal basis of the range of J, in which its curvature is a matrix,
//
//	J = V diag(j) V*,    E = V,    Q = diag(1/j - 1)/eta.
func (at *place) onRange(dev array.Device) error {
	r, err := system.RangeOf(dev, at.j, at.v.N(), at.eta)
	if err != nil {
		return err
	}
	m := &prox.Model{Space: space.Span(dev.Put(r.Basis, r.Dim, at.v.N())), Margin: at.model.Margin}
	at.j, at.model = &onRange{at.j, m}, m
	if r.Curvature != nil {
		m.Curvature, err = denseOf(dev, mat.NewSymDense(r.Dim, r.Curvature), at.eta)
	}
	return err
}

// onRange is a derivative with a model of its own.
type onRange struct {
	prox.Derivative
	model *prox.Model
}

func (j *onRange) Model() *prox.Model { return j.model }

func (j *onRange) Bytes() int64 {
	bytes := j.Derivative.Bytes() + j.model.Space.Bytes()
	if j.model.Curvature != nil {
		bytes += j.model.Curvature.Bytes()
	}
	return bytes
}

func (j *onRange) Release() {
	j.model.Space.Release()
	if j.model.Curvature != nil {
		j.model.Curvature.Release()
	}
	j.Derivative.Release()
}

func (at *place) take() prox.Derivative {
	at.taken = true
	return at.j
}

func (at *place) release() {
	array.Free(at.v, at.z)
	at.v, at.z = array.Batch{}, array.Batch{}
	if at.j != nil && !at.taken {
		at.j.Release()
	}
	at.j, at.model, at.equations = nil, nil, nil
}

// newBehind linearizes at a solution of a problem with r(K b). With z = K b = prox_{eta r}(v) and the
// model of r there, the tangent space T_r and the curvature Q_r on it, the model of r(K .) is
//
//	T = {u : K u in T_r},    Q = K* Q_r K
//
// (Vaiter, Deledalle, Peyre, Fadili 2017, with K a linear map; for the differences of a graph this is
// the formula of Tibshirani and Taylor 2012). It is read off v, which has exact zeros, and not off K b. The
// linearization may refer to r, which must be released after it.
func newBehind(ctx context.Context, at *solve.Point, o Options, r *place) (*linearization, error) {
	p, dev := at.Problem, at.Y.Device()
	s := &setting{p: p, eta: 1, norm: math.Sqrt(at.Norm2), tol: o.Tol, keep: o.Images}
	if at.Norm2 > 0 {
		s.eta = 1 / typical(p.A, at.Norm2)
	}
	var undo cleanup
	defer undo.run()
	var held array.Held
	undo.add(func() { held.Release() })
	t, reason, err := r.pulledBack(dev, p.A, p.K)
	if err != nil {
		return nil, err
	}
	m := &prox.Model{Space: t}
	switch {
	case t == nil:
		m = nil
	case t.Form().Kind == space.General && !t.Form().Projection: // it refers to r's
		held.Own(r.take())
		s.eta, m.Curvature = r.eta, r.model.Curvature
	default:
		held.Own(t)
		if r.model.Curvature == nil {
			break
		}
		m.Curvature, err = r.curvatureOn(dev, p.K, t, s.eta)
		if m.Curvature != nil {
			held.Own(m.Curvature)
		}
		if errors.Is(err, errNoCurvature) {
			held.Release()
			held, m, r.equations = nil, nil, nil
			reason = "the curvature is not known as a matrix on a basis of the space"
		} else if err != nil {
			return nil, err
		}
	}
	var l *linearization
	if m != nil {
		if l, err = s.choose(ctx, nil, m); err == nil {
			l.choices[0].Reason = reason
		}
	} else {
		l, err = s.bySaddle(ctx, r, at.Norm2, reason)
	}
	if err != nil {
		return nil, err
	}
	l.held, undo = append(held, l.held...), nil
	return l, dev.Err()
}

// curvatureOn is the curvature on t. Of one of many coordinates, too many for the inverse that Newton's steps take, the
// place goes before its factor is made, and before that what the solve has left for reuse.
func (r *place) curvatureOn(dev array.Device, k linops.Operator, t space.Space, eta float64) (prox.Curvature, error) {
	large := t.Dim() > maxColumns
	if large {
		array.Trim(dev)
	}
	squares, ok := r.squares(t)
	if !ok {
		return pulledCurvature(dev, k, r, t, eta)
	}
	if large {
		r.release()
		array.Trim(dev)
	}
	c, err := newSparseCurvature(squares, t.Dim(), eta, r.small, false)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// bySaddle solves a saddle point system, on the space of a part of r(K b) where a basis of that is at hand.
func (s *setting) bySaddle(ctx context.Context, r *place, norm2 float64, reason string) (*linearization, error) {
	st, err := r.stage(s.p)
	if err != nil {
		return nil, err
	}
	var held array.Held
	var made system.System
	on, by := "the vectors u with K u in the model's space, by equations", ""
	if st == nil {
		made, by, err = system.Saddle(ctx, s.p.Device, s.p.A, s.p.K, r.j, r.eta, norm2)
		held.Own(r.take())
	} else {
		made, by, err = system.SaddleOn(ctx, s.p.Device, st.on(s.p.Device), s.p.A, st.behind, st.rest.j, r.eta,
			1/s.eta)
		on = fmt.Sprintf("that of a part of r(K b), of dimension %d, and the equations of the others on it",
			st.space.Dim())
		reason = st.reason
		held.Own(st)
	}
	if err != nil {
		held.Release()
		return nil, err
	}
	l := implicit(s.p.A, made, nil, s.tol)
	l.held = held
	l.choices = []Choice{
		{Part: "space", Chosen: on, Reason: reason},
		{Part: "system", Chosen: "minimal residuals on the saddle point system, preconditioned by " + by,
			Reason: "no basis of the space is known"},
	}
	return l, nil
}

// typical is the root of the largest eigenvalue of A*A times the mean one, where that is known from the
// lengths of A's columns: with I in the preconditioner (I + eta Q)^{-1} in the place of eta A*A, one over it
// is a good eta for those in between. Of a scanner most are far smaller than the largest.
func typical(a linops.Operator, norm2 float64) float64 {
	lengths2 := linops.StructureOf(a).ColumnNorms2
	if lengths2 == nil {
		return norm2
	}
	mean, all := 0.0, lengths2()
	for _, v := range all {
		mean += v / float64(len(all))
	}
	if mean = math.Min(mean, norm2); !(mean > 0) {
		return norm2
	}
	return math.Sqrt(mean * norm2)
}

// mostNullSpace is the largest p for which a null space of K's rows is found by dense algebra. Tests
// change it.
var mostNullSpace = 1 << 11

// pulledBack is the space {u : K u in T} for the model's T, and why it was found as it was; nil where
// no basis of it is known.
func (r *place) pulledBack(dev array.Device, a, k linops.Operator) (space.Space, string, error) {
	if r.model == nil {
		return nil, "the regularizer has no model: only products with the derivative of its proximal " +
			"operator are known", nil
	}
	if s, reason := r.withBasis(dev, a, k); s != nil {
		return s, reason, nil
	}
	if _, dim := k.Dims(); dim <= mostNullSpace {
		s, equations, err := nullSpace(dev, k, r.model.Space)
		r.equations = equations
		return s, fmt.Sprintf("p is at most %d: the null space of K's other rows is found by dense algebra",
			mostNullSpace), err
	}
	return nil, fmt.Sprintf("K is no orthogonal matrix and takes no differences of pairs, and p is more than %d: "+
		"a basis of the null space of some of its rows would take too much work", mostNullSpace), nil
}

// withBasis is the space {u : K u in T} where K's structure shows a basis; else nil.
func (r *place) withBasis(dev array.Device, a, k linops.Operator) (_ space.Space, reason string) {
	t := r.model.Space
	q, dim := k.Dims()
	known, form := linops.StructureOf(k), t.Form()
	if form.Kind == space.Whole {
		r.equations = noEquations{dim, q}
		return space.All(dim), "r is smooth at K b"
	}
	if form.Kind == space.Subset && known.Pairs != nil {
		if pairs := known.Pairs(); pairs != nil {
			indptr, indices, joined := components(dim, pairs, form.Set)
			r.equations = &forest{pairs: pairs, p: dim, joined: joined}
			return space.Clusters(dev, dim, indptr, indices, nil),
				"the zeros of K b tie coordinates together: these are the connected components of a graph"
		}
	}
	if known.Rows == linops.Known(1) && known.Columns == linops.Known(1) && form.Orthonormal {
		r.equations = turned{dev, k}
		return space.Preimage(t, k.Forward, k.Adjoint), "K is orthogonal: the space is that of r, turned"
	}
	if s := linops.StructureOf(a); s.Columns.Value > 0 || s.Rows.Value > 0 {
		if s, equations := newSequenceSpace(k, r.model); s != nil {
			r.equations = equations
			return s, "the rows of K read neighbours, and those at which K b is 0 are independent: a banded " +
				"matrix projects on their null space"
		}
	}
	return nil, ""
}

// components returns the connected components of the graph whose edges are the pairs outside of a
// set, in the order of their first coordinates, and the edges that join them. Coordinates that are tied to 0
// are in none.
func components(n int, pairs *linops.Pairs, active []int) (indptr, indices []int, joined []int32) {
	// The last one stands for 0.
	parent := lists.Make(n+1, func(i int) int32 { return int32(i) })
	find := func(i int32) int32 {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	ground := int32(n)
	next := 0
	for i, plus := range pairs.Plus {
		if next < len(active) && active[next] == i {
			next++
			continue
		}
		minus := pairs.Minus[i]
		if plus == minus || pairs.Weight(i) == 0 {
			continue
		}
		if plus < 0 {
			plus = ground
		}
		if minus < 0 {
			minus = ground
		}
		if a, b := find(plus), find(minus); a != b {
			parent[min(a, b)], parent[max(a, b)] = min(a, b), min(a, b)
			joined = append(joined, int32(i))
		}
	}
	zero := find(ground)
	of := make([]int32, n)
	count := make([]int, 0)
	for i := range n {
		root := find(int32(i))
		switch {
		case root == zero:
			of[i] = -1
		case int(root) == i:
			of[i] = int32(len(count))
			count = append(count, 1)
		default:
			of[i] = of[root]
			count[of[i]]++
		}
	}
	indptr = make([]int, len(count)+1)
	for c, m := range count {
		indptr[c+1] = indptr[c] + m
	}
	indices = make([]int, indptr[len(count)])
	at := append([]int(nil), indptr[:len(count)]...)
	for i, c := range of {
		if c >= 0 {
			indices[at[c]] = i
			at[c]++
		}
	}
	return indptr, indices, joined
}
