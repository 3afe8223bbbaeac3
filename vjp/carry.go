package vjp

import (
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
// than 0. With the residual r = b - a S x_0, to which x_0 is orthogonal,
//
//	<b, S^{-1} b> = a <x_0, b> + <r, S^{-1} r>,
//
// and the last term is what conjugate gradients sum and [radau] bounds: the bound is as good as from 0.
type carried struct {
	frame  *solve.Frame
	weight float64
	room   int // for so many solutions

	mu        sync.Mutex
	solutions map[int][]float64
}

const (
	// carriedBytes is the largest memory of the solutions that a weight hands on; probes that have no
	// room start at 0.
	carriedBytes = 512 << 20
	// nearWeight is the smallest ratio of a weight to the one before at which the old solutions are used:
	// they cost a product with S, about a step. On 400 x 200 with 8000 entries, at the ratio 0.9, twelve
	// probes take 9, 9, 6, 7, 5 and 3 steps in place of 13, 14, 12, 12, 11 and 11, from weights of a tenth to
	// a fiftieth of the largest; on 755 x 463 with power-law degrees, at 0.69, 11 in place of 13.
	nearWeight = 0.75
)

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
	if path == nil || l.reduced == nil {
		return
	}
	l.after = &carried{frame: l.reduced.Frame(), weight: l.reduced.Weight(), solutions: map[int][]float64{}}
	l.after.room = max(carriedBytes/(8*l.dim), 1)
	path.Derivative = l.after
	if before == nil || l.after.weight < nearWeight*before.weight {
		return
	}
	if turn := before.frame.Turn(l.after.frame); turn != nil {
		l.before, l.turn = before, turn
		l.choices = append(l.choices, startAtCarried)
	}
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
	dev, k, any := dst.Device(), dst.K(), false
	dev.Fill(dst, 0)
	turn := dev.Alloc(1, len(l.turn))
	dev.Upload(turn, l.turn)
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
		any = true
	}
	if any {
		l.reduced.Carry(dst, old, turn)
		old.Free()
	}
	turn.Free()
	return any
}

// warm moves the start to the multiples of the old solutions, after the residual of 0 is known.
func (c *cg) warm() {
	if c.square == nil || c.known == nil || c.l.before == nil || !c.l.start(c.sum, *c.known) {
		return
	}
	dev, l := c.dev, c.l
	dev.Dot(c.jj, c.sum, c.r)
	c.square(c.q, c.sum)
	dev.Dot(c.curvature, c.sum, c.q)
	for i := range c.probes {
		c.alpha[i] = 0
		if d := l.eta * c.curvature[i]; d > 0 {
			c.alpha[i] = c.jj[i] / d
		}
		c.beta[i] = -l.eta * c.alpha[i]
		c.probes[i].form = c.alpha[i] * c.jj[i]
	}
	dev.LinEach(c.sum, c.alpha, c.sum, nil, array.Batch{})
	dev.LinEach(c.r, c.ones, c.r, c.beta, c.q)
}

// hand records the solutions of numbered probes for the next weight.
func (c *cg) hand() {
	if c.square == nil || c.known == nil || c.l.after == nil {
		return
	}
	c.l.reduced.Clean(c.sum)
	for i := range min(c.known.Count, c.sum.K()) {
		c.l.after.keep(c.known.At(i), c.sum.Rows(i, i+1))
	}
}
