package vjp

import (
	"context"
	"errors"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
)

// newBehind linearizes at a solution of a problem with r(K b). With z = K b = prox_{eta r}(v) and the
// model of r there, the tangent space T_r and the curvature Q_r on it, the model of r(K .) is
//
//	T = {u : K u in T_r},    Q = K* Q_r K
//
// (Vaiter, Deledalle, Peyre, Fadili 2017, with K a linear map; for the differences of a graph this is
// the formula of Tibshirani and Taylor 2012). It is read off the solver's v, which has exact zeros,
// and not off K b.
func newBehind(ctx context.Context, at *solve.Point, o Options, margin bool) (*implicit, error) {
	p, b, y, norm2 := at.Problem, at.B, at.Y, at.Norm2
	dev := y.Device()
	l := &implicit{p: p, op: p.A, eta: 1, norm: math.Sqrt(norm2), tol: solveTol(o.Tol), tighter: tighter(o.Tol), keep: o.Images}
	_, l.dim = p.A.Dims()
	if norm2 > 0 {
		l.eta = 1 / typical(p.A, norm2)
	}
	done := false
	defer func() {
		if !done { // also where an operator or the regularizer panics
			l.Release()
		}
	}()
	z := dev.Alloc(1, at.Argument.N())
	defer z.Free()
	j, err := p.R.Linearize(z, at.Argument, at.Eta)
	if err != nil {
		return nil, err
	}
	kept := false
	defer func() {
		if !kept {
			j.Release()
		}
	}()
	inner := j.Model()
	t, choice, err := pulledBack(dev, p.A, p.K, inner)
	if err != nil {
		return nil, err
	}
	if t == nil {
		kept = true
		if err = l.onSaddle(ctx, at, j, choice); err != nil {
			return nil, err
		}
		done = true
		return l, nil
	}
	l.model = &prox.Model{Space: t}
	if form := t.Form(); form.Kind == space.General && !form.Projection {
		l.model.Space, l.eta, kept = keptSpace{t, j}, at.Eta, true
		l.model.Curvature = inner.Curvature
		if inner.Curvature != nil {
			l.model.Curvature = borrowedCurvature{inner.Curvature}
		}
	} else if inner.Curvature != nil {
		l.model.Curvature, err = pulledCurvature(dev, p.K, inner, t, l.eta)
		if errors.Is(err, errNoCurvature) {
			t.Release()
			l.model, kept = nil, true
			if err = l.onSaddle(ctx, at, j, "the curvature is not known as a matrix on a basis of the space"); err != nil {
				return nil, err
			}
			done = true
			return l, nil
		}
		if err != nil {
			return nil, err
		}
	}
	err = l.choose(ctx)
	if fault := dev.Err(); fault != nil {
		err = fault // the cause
	}
	if err != nil {
		return nil, err
	}
	l.choices[0].Reason = choice
	if margin && inner.Margin != nil && b.N() <= smallBehind {
		l.known.SpaceMargin = marginBehind(p.K, inner, b, z, at.Argument)
	}
	done = true
	return l, l.measured(at)
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

// measured keeps A b - y.
func (l *implicit) measured(at *solve.Point) error {
	dev := at.Y.Device()
	l.misfit = dev.Alloc(1, at.Y.N())
	l.p.A.Forward(l.misfit, at.B)
	dev.Lin(l.misfit, 1, l.misfit, -1, at.Y)
	return dev.Err()
}

// marginBehind is the distance from v to the nearest point with another model, over that from z to
// K b, which is 0 at a solution.
func marginBehind(k linops.Operator, m *prox.Model, b, z, v array.Batch) float64 {
	dev := z.Device()
	kb := dev.Alloc(1, z.N())
	defer kb.Free()
	k.Forward(kb, b)
	dev.Lin(kb, 1, kb, -1, z)
	off := solve.Norm(kb) + solve.Roundings*0x1p-52*solve.Norm(v)
	if !(off > 0) {
		return 0
	}
	return math.Max(m.Margin(v)/off, math.SmallestNonzeroFloat64)
}

// Where the zeros of K b are in doubt the solve goes on, if b has at most smallBehind entries: at
// most moreRounds times, by fewestMore iterations and a quarter of those so far. Among more entries
// some are always in doubt, and each of them changes the trace little: no margin is given then.
const (
	moreRounds  = 4
	fewestMore  = 50
	smallBehind = 1 << 11
)

// doubtful reports that a few more iterations may change the space of a problem with r(K b).
func (l *implicit) doubtful(at *solve.Point, sol *solve.Solution) bool {
	return at.Problem.K != nil && sol.Converged && at.B.N() <= smallBehind && l.known.SpaceMargin > 0 && l.known.SpaceMargin < 1
}

// projects reports that D mu_hat is an orthogonal projection that needs no system to be solved.
func (s *situation) projects() bool {
	return s.j == nil && s.model != nil && s.model.Curvature == nil && (s.model.Space.Form().Orthonormal || s.model.Space.Form().Projection) &&
		linops.StructureOf(s.p.A).Columns.Value > 0
}

// project is the system (A E)*(A E) = c I.
func (l *implicit) project(*situation) error {
	op, _ := linops.On(l.p.Device, l.p.A, l.model.Space)
	l.confine(op, l.model)
	n := float64(l.model.Space.Dim())
	l.known = exactly(n, n)
	return nil
}

// mostNullSpace is the largest p for which a null space of K's rows is found by dense algebra. Tests
// change it.
var mostNullSpace = 1 << 11

// pulledBack is the space {u : K u in T} for the model's T, and why it was found as it was; nil where no
// basis of it is known.
func pulledBack(dev array.Device, a, k linops.Operator, m *prox.Model) (space.Space, string, error) {
	if m == nil {
		return nil, "the regularizer has no model: only products with the derivative of its proximal operator are known", nil
	}
	t := m.Space
	_, dim := k.Dims()
	known, form := linops.StructureOf(k), t.Form()
	if form.Kind == space.Whole {
		return space.All(dim), "r is smooth at K b", nil
	}
	if form.Kind == space.Subset && known.Pairs != nil {
		if pairs := known.Pairs(); pairs != nil {
			indptr, indices := components(dim, pairs, form.Set)
			return space.Clusters(dev, dim, indptr, indices, nil), "the zeros of K b tie coordinates together: these are the connected components of a graph", nil
		}
	}
	if known.Rows == linops.Known(1) && known.Columns == linops.Known(1) && form.Orthonormal {
		return space.Preimage(t, k.Forward, k.Adjoint), "K is orthogonal: the space is that of r, turned", nil
	}
	if s := linops.StructureOf(a); s.Columns.Value > 0 || s.Rows.Value > 0 {
		if s := newSequenceSpace(k, m); s != nil {
			return s, "the rows of K read neighbours, and those at which K b is 0 are independent: a banded matrix projects on their null space", nil
		}
	}
	if dim <= mostNullSpace {
		s, err := nullSpace(dev, k, t)
		return s, fmt.Sprintf("p is at most %d: the null space of K's other rows is found by dense algebra", mostNullSpace), err
	}
	return nil, fmt.Sprintf("K is no orthogonal matrix and takes no differences of pairs, and p is more than %d: a basis of the null space of some of its rows would take too much work", mostNullSpace), nil
}

// components returns the connected components of the graph whose edges are the pairs outside of a
// set, in the order of their first coordinates. Coordinates that are tied to 0 are in none.
func components(n int, pairs *linops.Pairs, active []int) (indptr, indices []int) {
	// The last one stands for 0.
	parent := make([]int32, n+1)
	for i := range parent {
		parent[i] = int32(i)
	}
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
	return indptr, indices
}
