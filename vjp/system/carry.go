package system

import (
	"fmt"
	"sync"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
)

// carried are the solutions of the systems of numbered probes at one weight of a path, on the host: the same
// probes are used at the next weight, where conjugate gradients start at them. With x_0 the old solution in
// the new coordinates and S x = b the new system, they start at the multiple a x_0 that is nearest to
// the solution in the norm of S, a = <x_0, b>/<x_0, S x_0>: a Galerkin projection, never farther from it
// than 0. It is a step along x_0. With the residual r = b - a S x_0, to which x_0 is orthogonal,
//
//	<b, S^{-1} b> = a <x_0, b> + <r, S^{-1} r>,
//
// and the last term is what conjugate gradients sum and [radau] bounds: the bound is as good as from 0.
type carried struct {
	frame  any // what the coordinates refer to
	weight float64
	room   int // for so many solutions

	mu        sync.Mutex
	solutions map[int][]float64
	// nodes are those of the last pilots, for forms of an accuracy.
	nodes map[float64]pilotNode
}

// pilotNode is the node that a pilot has found at a weight.
type pilotNode struct{ node, weight float64 }

// carriedBytes is the largest memory of the solutions that a weight hands on; probes that have no room start
// at 0. nearEliminated and nearTangent are the smallest ratio of two weights, one after the other, at which the
// old solutions are used, with one factor eliminated and on a tangent space: they cost a product with S, about a
// step, and on a tangent space half a step for the change of coordinates (docs/benchmarks.md).
const (
	carriedBytes   = 512 << 20
	nearEliminated = 0.75
	nearTangent    = 0.85
)

// movable is a system of which solutions in the coordinates of a system of the same kind, at a weight nearby,
// can be used.
type movable struct {
	prox.Carried
	// nearest is the smallest ratio of the weights, and clean takes parts that do not matter out of x.
	nearest float64
	clean   func(x array.Batch)
}

// tangent is how a system on a model's space moves.
func tangent(c *prox.Carried) *movable { return &movable{*c, nearTangent, func(array.Batch) {}} }

// frame is what the coordinates of a system with one factor eliminated refer to.
type frame struct{ *solve.Frame }

// eliminated is how one with one factor eliminated does. All of the system is in its square.
func eliminated(r solve.Reduced) *movable {
	c := prox.Carried{Weight: r.Weight(), Frame: func() any { return frame{r.Frame()} }}
	c.From = func(old any) func(dst, z array.Batch) {
		before, ok := old.(frame)
		if !ok {
			return nil
		}
		t := before.Turn(r.Frame())
		if t == nil {
			return nil
		}
		return func(dst, z array.Batch) {
			turn := dst.Device().Put(t, 1, len(t))
			defer turn.Free()
			r.Carry(dst, z, turn)
		}
	}
	return &movable{c, nearEliminated, r.Clean}
}

// nearby reports whether the smaller of two weights is at least the given part of the larger.
func nearby(a, b, part float64) bool { return min(a, b) >= part*max(a, b) }

// Carries reports whether what a path of solves of such problems holds may depend on the probes that the
// derivatives on it were given. The weights do not matter.
func Carries(p solve.Problem) bool {
	return p.K == nil && prox.StructureOf(p.R).Nuclear.Known && linops.StructureOf(p.A).Sampled != nil
}

// Follow starts at what the system at the weight before has handed on, and returns what this one will hand on, nil for
// nothing. choice says where it starts, "" from 0.
func (l *Iterated) Follow(before any) (after any, choice solve.Choice) {
	if l.system == nil {
		return nil, choice
	}
	l.after = &carried{frame: l.system.Frame(), weight: l.system.Weight, room: max(carriedBytes/(8*l.n), 1),
		solutions: map[int][]float64{}, nodes: map[float64]pilotNode{}}
	old, ok := before.(*carried)
	if !ok || !nearby(l.system.Weight, old.weight, l.system.nearest) {
		return l.after, choice
	}
	if l.move = l.system.From(old.frame); l.move == nil {
		return l.after, choice
	}
	l.before = old
	return l.after, solve.Choice{
		Part:   "probes",
		Chosen: "started at their solutions at the weight before",
		Reason: fmt.Sprintf("the systems are of one kind, and the weight is at least %g of that before",
			l.system.nearest),
	}
}

// nearPilot is the smallest ratio of a weight to that of the last pilot at which a pilot of its own is spared, and
// farNode the part of that pilot's node which is the node there (docs/benchmarks.md).
const (
	nearPilot = 0.5
	farNode   = 0.5
)

// oldNode is the node by the last pilot for forms of an accuracy, which it hands on, where that is near.
func (l *Iterated) oldNode(form float64) (node float64, known bool) {
	if l.before == nil {
		return 0, false
	}
	l.before.mu.Lock()
	old, known := l.before.nodes[form]
	l.before.mu.Unlock()
	if !known || !nearby(l.system.Weight, old.weight, nearPilot) {
		return 0, false
	}
	l.after.noteNode(form, old)
	return farNode * old.node, true
}

// noteNode hands a node on.
func (c *carried) noteNode(form float64, n pilotNode) {
	c.mu.Lock()
	c.nodes[form] = n
	c.mu.Unlock()
}

// keep records the solution of a probe.
func (c *carried) keep(number int, x array.Batch) {
	if number >= c.room {
		return
	}
	host := x.ToHost()
	c.mu.Lock()
	c.solutions[number] = host
	c.mu.Unlock()
}

// start sets dst_i to the old solution of probe i in the coordinates of the new system, 0 where there is
// none, and reports whether there is one.
func (l *Iterated) start(dst array.Batch, which hutch.Numbers) bool {
	dev, k := dst.Device(), dst.K()
	dev.Fill(dst, 0)
	old := array.Batch{}
	for i := range k {
		l.before.mu.Lock()
		x := l.before.solutions[which.At(i)]
		l.before.mu.Unlock()
		if x == nil {
			continue
		}
		if old.IsZero() {
			old = dev.Alloc(k, len(x))
			dev.Fill(old, 0)
		}
		dev.Upload(old.Rows(i, i+1), x)
	}
	if old.IsZero() {
		return false
	}
	l.move(dst, old)
	old.Free()
	return true
}

// warm steps from 0 to the multiples of the old solutions, after the residual of 0 is known.
func (c *run) warm() {
	l := c.l
	if c.goal.Which == nil || l.before == nil || !l.start(c.u, *c.goal.Which) {
		return
	}
	if !c.ku.IsZero() {
		l.system.Multiply(c.ku, c.u)
	}
	c.dev.Dot(c.jj, c.u, c.r)
	c.bend()
	for i := range c.probes {
		c.alpha[i] = 0
		if d := c.curvature[i]; d > 0 {
			c.alpha[i] = c.jj[i] / d
		}
		c.probes[i].form = c.alpha[i] * c.jj[i]
	}
	c.move()
}

// hand records the solutions of numbered probes for the next weight.
func (c *run) hand() {
	if !c.hands() {
		return
	}
	c.l.system.clean(c.sum)
	for i := range min(c.goal.Which.Count, c.sum.K()) {
		c.l.after.keep(c.goal.Which.At(i), c.sum.Rows(i, i+1))
	}
}

// hands reports whether it will.
func (c *run) hands() bool { return c.goal.Which != nil && c.l.after != nil }
