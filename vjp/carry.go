package vjp

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
	frame any // what the coordinates refer to
	room  int // for so many solutions

	mu        sync.Mutex
	solutions map[int][]float64
	// nodes are those of the last pilots, for forms of an accuracy.
	nodes map[float64]pilotNode
}

// pilotNode is the node that a pilot has found at a weight.
type pilotNode struct{ node, weight float64 }

// carriedBytes is the largest memory of the solutions that a weight hands on; probes that have no room start
// at 0.
const carriedBytes = 512 << 20

// movable is a system of which solutions in the coordinates of a system of the same kind, at a weight nearby,
// can be used.
type movable interface {
	// frame is what the coordinates refer to, and the weight, on the host.
	frame() any
	weight() float64
	// from returns what sets dst_i to solutions z_i in the coordinates of another frame, or nil where that is
	// of another kind or of a weight too far from this one, and says how far a weight may be.
	from(frame any) (move func(dst, z array.Batch), nearest float64)
	// curvature sets dst_i = K x_i where the system is K + eta H with K not 0.
	curvature(dst, x array.Batch)
	// clean takes parts that do not matter out of x.
	clean(x array.Batch)
}

// eliminated is a system with one factor eliminated.
type eliminated struct{ solve.Reduced }

// nearEliminated and nearTangent are the smallest ratio of two weights, one after the other, at which the old
// solutions are used: they cost a product with S, about a step, and on a tangent space half a step for the
// change of coordinates.
//
// On 400 x 200 with 8000 entries, at the ratio 0.9, twelve probes take 9, 9, 6, 7, 5 and 3 steps in place
// of 13, 14, 12, 12, 11 and 11 with one factor eliminated, from weights of a tenth to a fiftieth of the largest;
// on 755 x 463 with power-law degrees, at 0.69, 11 in place of 13. On tangent spaces the old solutions leave
// 0.002, 0.009, 0.03 and 0.06 of a form at the ratios 0.98, 0.95, 0.9 and 0.85, a step divides what is left
// by 2 to 3, and the bound is worth something after two or three steps: 19 weights at 0.95 take 54 steps in place of
// 82, 8 weights at 0.86 38 in place of 45.
const (
	nearEliminated = 0.75
	nearTangent    = 0.85
)

// nearby reports whether the smaller of two weights is at least the given part of the larger.
func nearby(a, b, part float64) bool { return min(a, b) >= part*max(a, b) }

type eliminatedFrame struct {
	*solve.Frame
	at float64 // the weight
}

func (e eliminated) weight() float64 { return e.Weight() }

func (e eliminated) frame() any { return eliminatedFrame{e.Reduced.Frame(), e.Weight()} }

func (e eliminated) from(frame any) (func(dst, z array.Batch), float64) {
	before, ok := frame.(eliminatedFrame)
	if !ok || !nearby(e.Weight(), before.at, nearEliminated) {
		return nil, 0
	}
	t := before.Turn(e.Reduced.Frame())
	if t == nil {
		return nil, 0
	}
	return func(dst, z array.Batch) {
		dev := dst.Device()
		turn := dev.Alloc(1, len(t))
		defer turn.Free()
		dev.Upload(turn, t)
		e.Carry(dst, z, turn)
	}, nearEliminated
}

func (e eliminated) curvature(dst, _ array.Batch) {
	panic("vjp: all of a reduced system is in its square")
}
func (e eliminated) clean(x array.Batch) { e.Clean(x) }

// tangent is a system on a model's space.
type tangent struct{ *prox.Carried }

type tangentFrame struct {
	frame any
	at    float64 // the weight
}

func (t tangent) weight() float64 { return t.Weight }

func (t tangent) frame() any { return tangentFrame{t.Frame(), t.Weight} }

func (t tangent) from(frame any) (func(dst, z array.Batch), float64) {
	before, ok := frame.(tangentFrame)
	if !ok || !nearby(t.Weight, before.at, nearTangent) {
		return nil, 0
	}
	return t.From(before.frame), nearTangent
}

func (t tangent) curvature(dst, x array.Batch) { t.Multiply(dst, x) }
func (t tangent) clean(array.Batch)            {}

// moves is the system where its solutions can be used at the next weight, else nil.
func (l *implicit) moves() movable {
	if l.reduced != nil {
		return eliminated{l.reduced}
	}
	if _, ok := l.pre.(curved); ok && l.model.Carried != nil {
		return tangent{l.model.Carried}
	}
	return nil
}

// Carries reports whether what a path of solves of such problems holds may depend on the probes that the
// derivatives on it were given: see [Linearization].Numbered. The weights do not matter.
func Carries(p Problem) bool {
	return p.K == nil && prox.StructureOf(p.R).Nuclear.Known && linops.StructureOf(p.A).Sampled != nil
}

// takeCarried moves what the weight before has handed on out of the path.
func takeCarried(path *solve.Path) *carried {
	if path == nil {
		return nil
	}
	before, _ := path.Derivative.(*carried)
	path.Derivative = nil
	return before
}

// follow starts at what the weight before has handed on, and leaves in the path what this one will find.
func (l *implicit) follow(before *carried, path *solve.Path) {
	if path == nil {
		return
	}
	if l.system = l.moves(); l.system == nil {
		return
	}
	l.after = &carried{frame: l.system.frame(), solutions: map[int][]float64{}, nodes: map[float64]pilotNode{}}
	l.after.room = max(carriedBytes/(8*l.dim), 1)
	path.Derivative = l.after
	if before == nil {
		return
	}
	move, nearest := l.system.from(before.frame)
	if move == nil {
		return
	}
	l.before, l.move = before, move
	l.choices = append(l.choices, Choice{
		Part:   "probes",
		Chosen: "started at their solutions at the weight before",
		Reason: fmt.Sprintf("the systems are of one kind, and the weight is at least %g of that before", nearest),
	})
}

// nearPilot is the smallest ratio of a weight to that of the last pilot at which a pilot of its own is spared, and
// farNode the part of that pilot's node which is the node there. On completions of 800 x 400, weights at the
// ratio 0.86, the nodes of pilots at neighbouring weights differ by up to a factor of 2 in both directions; each is
// half of a Ritz value. A pilot takes as long as six probes that start at their old solutions, and a node that
// is half as large one or two steps more.
const (
	nearPilot = 0.5
	farNode   = 0.5
)

// oldNode is the node by the last pilot for forms of an accuracy, which it hands on, where that is near.
func (l *implicit) oldNode(form float64) (node float64, known bool) {
	if l.before == nil {
		return 0, false
	}
	l.before.mu.Lock()
	old, known := l.before.nodes[form]
	l.before.mu.Unlock()
	if !known || !nearby(l.system.weight(), old.weight, nearPilot) {
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
func (l *implicit) start(dst array.Batch, which hutch.Numbers) bool {
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
func (c *cg) warm() {
	l := c.l
	if c.known == nil || l.before == nil || !l.start(c.u, *c.known) {
		return
	}
	if !c.ku.IsZero() {
		l.system.curvature(c.ku, c.u)
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
func (c *cg) hand() {
	if !c.hands() {
		return
	}
	c.l.system.clean(c.sum)
	for i := range min(c.known.Count, c.sum.K()) {
		c.l.after.keep(c.known.At(i), c.sum.Rows(i, i+1))
	}
}

// hands reports whether it will.
func (c *cg) hands() bool { return c.known != nil && c.l.after != nil }
