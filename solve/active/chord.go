package active

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/internal/numerics/steps"
	"surepipe/solve/engine"
	"surepipe/solve/restrict"
)

// chords are steps of Newton's method on the loss that need no new Gram matrix (the chord method:
// Ortega and Rheinboldt 1970). With the weights w held from a point nearby, the model of the
// objective at b_k
//
//	F(b) = <g, b - b_k> + s/2 (b - b_k)* A* diag(w) A (b - b_k) + r(b),   g = A* l'(A b_k; y),
//
// has the exact gradient and a Gram matrix whose factor is known; s is the ratio of the present
// curvatures' sum to that of the weights. Package faces minimizes it over a working set W. Where the
// minimum has the signs of b_k, the step is the best one in the span of that direction and of the step
// before, for the present curvatures: with weights that do not change these are conjugate gradients
// on the face, preconditioned by the held factor (Knyazev 2001 for the form with the last step). Else
// a line search goes towards the minimum. A step costs a product with the columns in W and one with
// their transpose; coordinates outside W are looked at when the problem on W is solved.
//
// Steps end where they have cost as much as new weights would have: at most twice of what knowing in
// advance would have cost.
type chords struct {
	*newtonOnLoss
	a      *activeSet
	w      *workspace
	held   *heldWeights
	z      array.Batch // scratch of length d
	linear bool        // r has no curvature, and so the model may be scaled

	b, g []float64 // the point and the gradient of the loss there, on W

	d, e   []float64   // the direction, and the last step; nil where that had other signs
	dz, ez array.Batch // their images
}

const (
	// A problem on a working set is solved to chordGoal of the tolerance, and a model to chordShare of
	// the violations at b_k.
	chordGoal  = 0.3
	chordShare = 0.05
	// memoryBound is how much longer an operation takes in products with a vector than in those of
	// matrices, and roundTrips the number of products with all of A that new weights take.
	memoryBound = 8
	roundTrips  = 6
)

// chord goes by chord steps towards the solution on the working set of the held weights, enlarged by
// the coordinates that violate their conditions. It reports false where there are no weights, or they
// have served enough, or the steps do not pay: new weights are due.
func (r *newtonOnLoss) chord(ctx context.Context) (moved bool, err error) {
	c := r.newChords(ctx)
	if c == nil {
		return false, r.dev.Err()
	}
	defer c.free()
	if err := c.extend(ctx); err != nil {
		return false, err
	}
	first := c.off()
	off := first
	for off > chordGoal*r.Tol && r.held.spent < c.worth() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		stepped, err := c.step(ctx)
		if err != nil {
			return false, err
		}
		if !stepped {
			break
		}
		moved = true
		off = c.off()
	}
	if moved {
		err = c.land()
	}
	return moved && (off <= chordGoal*r.Tol || off <= first/2), err
}

// newChords is nil where no weights are held that serve.
func (r *newtonOnLoss) newChords(ctx context.Context) *chords {
	if r.held == nil || r.held.inverse.IsZero() || r.Convergence.Iterations >= r.n.s.Options.MaxIter {
		return nil
	}
	w, ok := r.held.path.Kept.(*workspace)
	if !ok || len(w.set) > idleShare*len(w.p.Active())+idleLeast {
		return nil
	}
	s := r.weighted()
	if !OnFaces(&s) || w.separate == nil {
		return nil
	}
	solver, err := New(ctx, s)
	if err != nil {
		return nil
	}
	a := solver.(*activeSet)
	d := r.y.N()
	c := &chords{newtonOnLoss: r, a: a, w: w, held: r.held, z: r.dev.Alloc(1, d), dz: r.dev.Alloc(1, d),
		ez: r.dev.Alloc(1, d)}
	c.linear = !a.q.Any(func(q float64) bool { return q != 0 })
	return c
}

func (c *chords) free() {
	array.Free(c.z, c.dz, c.ez)
}

// worth is the cost of new weights: the Gram matrix and its factor, and products with A.
func (c *chords) worth() float64 {
	d, p := c.n.s.Problem.A.Dims()
	n := float64(len(c.w.p.Active()))
	return n*n*float64(d) + n*n*n/3 + memoryBound*roundTrips*2*float64(d)*float64(p)
}

// extend adds the support of b and the largest violations to W, and takes the gradient on W from the
// one on all coordinates.
func (c *chords) extend(ctx context.Context) error {
	_, dim := c.n.s.Problem.A.Dims()
	b, g := make([]float64, dim), c.w.hostG
	c.dev.Download(b, c.now.B)
	c.dev.Download(g, c.now.G)
	if err := c.dev.Err(); err != nil {
		return err
	}
	outside := make([]float64, dim)
	var set []int
	for j := range b {
		switch e := math.Abs(c.a.subgradient(j, b[j], g[j])); {
		case c.w.place[j] >= 0 || e == 0 || held(c.a.w.At(j)):
		case b[j] != 0:
			set = append(set, j)
		default:
			outside[j] = e
		}
	}
	set = restrict.Union(set, restrict.Strongest(outside, max(len(c.w.p.Active()), restrict.MinFirst)))
	if len(c.w.set)+len(set) <= mostWorking {
		if err := c.w.extend(ctx, c.dev, c.a, set); err != nil {
			return err
		}
	}
	c.b, c.g = make([]float64, len(c.w.set)), make([]float64, len(c.w.set))
	for i, j := range c.w.set {
		c.b[i], c.g[i] = b[j], g[j]
	}
	c.d, c.e = make([]float64, len(c.b)), nil
	return nil
}

func (c *chords) off() float64 {
	all, byColumn := 0.0, 0.0
	for i, j := range c.w.set {
		e := c.a.subgradient(j, c.b[i], c.g[i])
		all += e * e
		if s := c.a.Task.Options.InverseLengths; s != nil {
			byColumn = math.Hypot(byColumn, e*s[j])
		}
	}
	slope := engine.Norm(c.now.Slope)
	return max(engine.Relative(math.Sqrt(all), c.Scales.Scale(slope, floats.Norm(c.b, 2))),
		engine.Relative(byColumn, c.Scales.ByColumn(slope)))
}

func (c *chords) scale() float64 {
	if !c.linear {
		return 1
	}
	held, now := 0.0, 0.0
	for _, v := range c.held.host {
		held += v * v
	}
	c.dev.Download(c.host[0], c.now.Curve)
	for _, v := range c.host[0] {
		now += v
	}
	if s := now / held; s > 0 && !math.IsInf(s, 0) {
		return s
	}
	return 1
}

func (c *chords) model(ctx context.Context) (same, ok bool, err error) {
	s, p := c.scale(), c.w.separate
	to := c.a.of(c.w.set)
	g := slices.Clone(c.g)
	for i := range g {
		g[i] /= s
		to.W[i] /= s
	}
	p.Reweight(to)
	if !p.Move(c.b, g) {
		return false, false, nil
	}
	p.Floor = chordShare * p.Violation()
	if _, err := p.Minimize(ctx, func() {}, stepsARound); err != nil {
		return false, false, err
	}
	same = true
	for i, v := range p.B {
		c.d[i] = v - c.b[i]
		same = same && (to.W[i] == 0 && !to.Positive[i] || numerics.Sign(v) == numerics.Sign(c.b[i]))
	}
	return same, true, nil
}

// step is a chord step. It reports false where there is no descent.
func (c *chords) step(ctx context.Context) (bool, error) {
	same, ok, err := c.model(ctx)
	if !ok || err != nil {
		return false, err
	}
	c.forward(c.dz, c.d)
	d, _ := c.n.s.Problem.A.Dims()
	c.held.spent += memoryBound * 4 * float64(d) * float64(len(c.w.set))
	c.Convergence.Iterations++
	if same && c.combine() {
		return true, c.arrive()
	}
	t, err := steps.Backtrack(func(t float64) (bool, error) {
		if t < 1 {
			for i := range c.d {
				c.d[i] /= 2
			}
			c.dev.Lin(c.dz, 0.5, c.dz, 0, array.Batch{})
		}
		return c.descend(), c.dev.Err()
	})
	if t == 0 || err != nil {
		return false, err
	}
	return true, c.arrive()
}

// combine changes d to the minimum of the objective's second-order model on the span of d and e. It
// reports false, and changes nothing, where that would change signs or is no descent.
func (c *chords) combine() bool {
	along := func(x []float64, xz array.Batch) (slope float64) {
		for i, j := range c.w.set {
			slope += (c.a.w.At(j)*numerics.Sign(c.b[i]) + c.a.q.At(j)*c.b[i]) * x[i]
		}
		return slope + engine.Inner(c.now.Slope, xz)
	}
	product := func(xz array.Batch) { // z = l^(2) xz
		if l := c.n.known.Coupled; l != nil {
			l.Product(c.z, xz, c.now.Z, c.y)
		} else {
			c.dev.Mul(c.z, c.now.Curve, xz)
		}
	}
	curve := func(x, y []float64, yz array.Batch) (v float64) {
		for i, j := range c.w.set {
			v += c.a.q.At(j) * x[i] * y[i]
		}
		return v + engine.Inner(c.z, yz)
	}
	t, u := 0.0, 0.0
	product(c.dz)
	a, h := along(c.d, c.dz), curve(c.d, c.d, c.dz)
	if c.e == nil {
		t = -a / h
	} else {
		ae, m := along(c.e, c.ez), curve(c.d, c.e, c.ez)
		product(c.ez)
		he := curve(c.e, c.e, c.ez)
		det := h*he - m*m
		if !(det > engine.Epsilon*h*he) {
			t = -a / h
		} else {
			t, u = (m*ae-he*a)/det, (m*a-h*ae)/det
		}
	}
	if !(math.Abs(t) < math.Inf(1)) || math.IsNaN(u) || t <= 0 {
		return false
	}
	before, image := slices.Clone(c.d), c.dev.Alloc(1, c.dz.N())
	defer image.Free()
	c.dev.Copy(image, c.dz)
	ok := true
	for i, j := range c.w.set {
		if c.d[i] *= t; u != 0 {
			c.d[i] += u * c.e[i]
		}
		if c.a.w.At(j) > 0 || c.a.halfLine(j) {
			ok = ok && numerics.Sign(c.b[i]+c.d[i]) == numerics.Sign(c.b[i])
		}
	}
	if c.dev.Lin(c.dz, t, c.dz, 0, array.Batch{}); u != 0 {
		c.dev.Lin(c.dz, 1, c.dz, u, c.ez)
	}
	if ok && c.descend() {
		return true
	}
	copy(c.d, before)
	c.dev.Copy(c.dz, image)
	return false
}

// descend moves by d where the objective falls enough, and reports whether it does. The last step is
// then e, unless signs have changed.
func (c *chords) descend() bool {
	change, same := 0.0, true
	for i, j := range c.w.set {
		from, to := c.b[i], c.b[i]+c.d[i]
		if from == 0 && to == 0 {
			continue
		}
		change += c.a.w.At(j)*(math.Abs(to)-math.Abs(from)) + c.a.q.At(j)/2*(to*to-from*from)
		same = same && numerics.Sign(from) == numerics.Sign(to)
	}
	c.dev.Lin(c.next.Z, 1, c.now.Z, 1, c.dz)
	penalty := c.penalty + change
	objective := c.next.Value(c.n.s.Problem.Loss, c.y) + penalty
	rounding := engine.Roundings * engine.Epsilon * (math.Abs(c.objective-c.penalty) + math.Abs(c.penalty))
	if !(objective <= c.objective+sufficient*min(engine.Inner(c.now.Slope, c.dz)+change, 0)+rounding) {
		return false
	}
	c.now.Exchange(c.next)
	c.objective, c.penalty = objective, penalty
	for i, v := range c.d {
		c.b[i] += v
	}
	if c.e = nil; same {
		c.e = slices.Clone(c.d)
		c.dev.Copy(c.ez, c.dz)
	}
	return true
}

func (c *chords) arrive() error {
	c.now.At(c.n.s.Problem.Loss, c.y)
	c.adjoint(c.g, c.now.Slope)
	return c.dev.Err()
}

// land hands the point over, with z = A b without the rounding errors of the steps.
func (c *chords) land() error {
	_, dim := c.n.s.Problem.A.Dims()
	b := make([]float64, dim)
	for i, j := range c.w.set {
		b[j] = c.b[i]
	}
	c.dev.Upload(c.now.B, b)
	c.forward(c.now.Z, c.b)
	c.penalty = c.n.value(c.now.B)
	c.objective = c.now.Value(c.n.s.Problem.Loss, c.y) + c.penalty
	c.now.At(c.n.s.Problem.Loss, c.y)
	return c.dev.Err()
}

func (c *chords) forward(dst array.Batch, x []float64) {
	c.w.forward(dst, x, c.held.forward)
}

func (c *chords) adjoint(x []float64, v array.Batch) {
	c.w.adjoint(x, v, c.held.adjoint)
}

// Of few columns, of which one in heldShare or more is active, all are held: they are copied in one pass, and chord
// steps add none.
const heldShare, mostHeld = 2, 256

// hold makes the weights those of the loss at the solution, with the Gram matrix and the factor of
// the support: the derivative needs them, and the next weight's chord steps, or its first step, begin with them. It
// does nothing where active sets do not solve the weighted problem.
func (r *newtonOnLoss) hold(ctx context.Context) error {
	slope, curve := r.now.Slope.ToHost(), r.now.Curve.ToHost()
	root, flat := r.n.known.Whiten(slope, curve)
	for i, w := range root {
		if root[i] = math.Sqrt(w); (flat[i] || !(root[i] > 0)) && !r.chained() {
			return r.dev.Err()
		}
	}
	_, dim := r.n.s.Problem.A.Dims()
	b := make([]float64, dim)
	r.dev.Download(b, r.now.B)
	var set []int
	for j, v := range b {
		if v != 0 {
			set = append(set, j)
		}
	}
	if len(set) > mostWorking {
		return r.dev.Err()
	}
	if dim <= mostHeld && heldShare*len(set) >= dim {
		set = lists.Upto(dim)
	}
	held := newHeldWeights(r.dev, r.n.s.Family, r.observed, root)
	r.drop()
	r.held = held
	if r.chained() {
		if err := held.rootAt(r.n.known.Coupled, r.now.Z, r.y); err != nil {
			return err
		}
	}
	s := r.weighted()
	if !Serves(s.Problem.R) {
		return r.dev.Err()
	}
	solver, err := New(ctx, s)
	if err != nil {
		return err
	}
	a := solver.(*activeSet)
	w := newWorkspace(held.family, &a.splitting, r.y.N(), dim, a.outcomes(a.Task.Problem.A))
	set = a.closure(set)
	if err := w.extend(ctx, r.dev, a, set); err != nil {
		w.Release()
		return err
	}
	on := lists.Pick(b, set)
	w.p.Start(on)
	held.path.Kept, held.here = w, held.factor != nil
	return r.dev.Err()
}

// offer lets the derivative at the solution use the held weights' factor.
func (r *newtonOnLoss) offer(at *engine.Point) {
	if r.held == nil || r.n.known.Coupled != nil && !r.held.here {
		return
	}
	if w, ok := r.held.path.Kept.(*workspace); ok {
		at.Gram, at.Factored, at.Curved = w.gram, w.factored, engine.Curved{Roots: r.held.host, Factor: r.held.factor}
	}
}
