package solve

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/solve/internal/faces"
	"surepipe/space"
)

// newton is one solve by active sets.
type newton struct {
	acceptance
	s       *activeSet
	dev     array.Device
	y       array.Batch
	b, z, g array.Batch // the estimate, A b - y, and A* of that

	hostB, hostG []float64
	lengths      []float64 // of all columns; nil where they are not known
	place        []int     // of coordinates in the working set, -1 outside
	set          []int     // the working set, in the order in which it grew
	parts        []*columns
	p            faces.Program

	norm       float64 // a lower bound of ||A||
	outside    []float64
	violations int     // coordinates outside that violate their optimality conditions
	off        float64 // the largest derivative along the support, in units of columns' lengths
	last       float64 // the same, before the last round
	settled    int     // rounds that changed no sign
	best       float64 // the best optimality
	idle       int     // rounds since then
}

const (
	// columnBlock is the number of columns that are taken from A at once.
	columnBlock = 256
	// floorShare of the tolerance, spread over all coordinates, is what a coordinate need not be
	// better than, and noiseLevel units in the last place of y what it cannot be.
	floorShare = 0.1
	noiseLevel = 2
	// stepsARound bounds the Newton steps between two gradients at the point itself.
	stepsARound = 200
	// Rounds that change no sign only correct rounding errors: mostSettled of them, as long as they
	// make the derivatives smaller by half.
	mostSettled = 8
	// mostIdle is the number of rounds without a better optimality after which it ends.
	mostIdle = 12
	// dependent is the squared pivot, in units of rounding errors, up to which a column depends on
	// others.
	dependent = 16
)

// confineByProducts is A on a set of coordinates.
func confineByProducts(dev array.Device, a linops.Operator, t space.Space) linops.Restricted {
	op, _ := linops.On(dev, a, t)
	return op
}

func newNewton(s *activeSet, y array.Batch) *newton {
	dev := y.Device()
	d, dim := s.s.p.A.Dims()
	n := &newton{
		acceptance: newAcceptance(NewYardstick(y, 0, s.s.o)), s: s, dev: dev, y: y,
		b: dev.Alloc(1, dim), z: dev.Alloc(1, d), g: dev.Alloc(1, dim),
		hostB: make([]float64, dim), hostG: make([]float64, dim), outside: make([]float64, dim),
		place: make([]int, dim), best: math.Inf(1), last: math.Inf(1),
	}
	n.conv.Optimality = math.Inf(1)
	for j := range n.place {
		n.place[j] = -1
	}
	if s.s.lengths2 != nil {
		n.lengths = make([]float64, dim)
		for j, v := range s.s.lengths2 {
			n.lengths[j] = math.Sqrt(v + s.q[j])
			if u := s.s.units; u != nil {
				n.lengths[j] = math.Sqrt(v*u[j]*u[j] + s.q[j])
			}
		}
	}
	n.p.Cut = dependent * float64(max(d, 32)) * epsilon
	return n
}

func (n *newton) release() {
	for _, t := range []array.Batch{n.b, n.g, n.z} {
		t.Free()
	}
	for _, c := range n.parts {
		c.release()
	}
}

// begin starts at the support of b0, together with the coordinates that no penalty holds at 0.
func (n *newton) begin(b0 array.Batch) error {
	start := make([]float64, len(n.hostB))
	if !b0.IsZero() {
		n.dev.Download(start, b0)
	}
	n.dev.Fill(n.b, 0)
	n.dev.Lin(n.z, -1, n.y, 0, array.Batch{})
	n.s.s.p.A.Adjoint(n.g, n.z)
	n.dev.Download(n.hostG, n.g)
	if err := n.dev.Err(); err != nil {
		return err
	}
	var set []int
	for j, v := range start {
		if v != 0 && !math.IsInf(n.s.w[j], 1) {
			set = append(set, j)
		}
	}
	n.norm = relative(Norm(n.g), Norm(n.z))
	n.extend(set)
	b := make([]float64, len(set))
	for i, j := range set {
		b[i] = start[j]
	}
	n.p.Start(b)
	n.settled = 0
	if len(set) == 0 {
		return n.dev.Err()
	}
	return n.gradient()
}

// extend adds coordinates to the working set, with their rows of the Gram matrix.
func (n *newton) extend(set []int) {
	d, _ := n.s.s.p.A.Dims()
	for len(set) > 0 {
		some := set[:min(columnBlock, len(set))]
		set = set[len(some):]
		k, at := len(some), len(n.set)
		var w, q, grad []float64
		var positive []bool
		for i, j := range some {
			n.place[j] = at + i
			w, q, positive = append(w, n.s.w[j]), append(q, n.s.q[j]), append(positive, n.s.positive[j])
			grad = append(grad, n.hostG[j])
		}
		n.set = append(n.set, some...)
		n.p.Extend(w, q, positive, grad)
		c := n.columnsOf(some, at)
		n.parts = append(n.parts, c)
		units, images := n.dev.Alloc(k, k), n.dev.Alloc(k, d)
		n.dev.Fill(units, 0)
		n.dev.Fill(units.Diagonal(), 1)
		c.A.Forward(images, units)
		units.Free()
		for _, other := range n.parts {
			out := n.dev.Alloc(k, len(other.set))
			other.A.Adjoint(out, images)
			for i, v := range out.ToHost() {
				row, col := at+i/len(other.set), other.at+i%len(other.set)
				if col <= row {
					n.p.Set(row, col, v)
				}
			}
			out.Free()
		}
		images.Free()
		n.p.Ready()
	}
}

// gradient computes b, A b - y and the gradient from the working set's coordinates.
func (n *newton) gradient() error {
	d, _ := n.s.s.p.A.Dims()
	t := n.dev.Alloc(1, d)
	defer t.Free()
	n.dev.Lin(n.z, -1, n.y, 0, array.Batch{})
	for _, c := range n.parts {
		b := n.p.B[c.at : c.at+len(c.set)]
		zero := true
		for i, j := range c.set {
			n.hostB[j] = b[i]
			zero = zero && b[i] == 0
		}
		if zero {
			continue
		}
		part := n.dev.Alloc(1, len(b))
		n.dev.Upload(part, b)
		c.A.Forward(t, part)
		n.dev.Lin(n.z, 1, n.z, 1, t)
		part.Free()
	}
	n.dev.Upload(n.b, n.hostB)
	n.s.s.p.A.Adjoint(n.g, n.z)
	n.dev.Download(n.hostG, n.g)
	for i, j := range n.set {
		n.p.Grad[i] = n.hostG[j]
	}
	return n.dev.Err()
}

// judge applies the rule of acceptance, finds the violations outside the working set, and reports
// whether the solve is done.
func (n *newton) judge() (bool, error) {
	zNorm, bNorm := Norm(n.z), Norm(n.b)
	n.norm = max(n.norm, relative(Norm(n.g), zNorm), math.Sqrt(n.p.Norm(fewProducts)))
	n.stick.Norm = n.norm
	scale := n.stick.Scale(zNorm, bNorm)
	_, dim := n.s.s.p.A.Dims()
	n.p.Floor = max(floorShare*n.tol*n.stick.size(zNorm, bNorm)/math.Sqrt(float64(dim)), noiseLevel*epsilon*n.stick.Y)
	lowest := n.p.Floor <= 2*noiseLevel*epsilon*n.stick.Y
	measured, byColumn := n.measure()
	optimality := relative(measured, scale)
	if n.s.s.o.shortness != nil {
		optimality = max(optimality, relative(byColumn, n.stick.byColumn(zNorm)))
	}
	if math.IsNaN(optimality) || math.IsInf(optimality, 0) {
		return false, fmt.Errorf("%s: the iterates are not finite after %d iterations", n.s.Name(), n.conv.Iterations)
	}
	bound := errorBound(context.Background(), n.s.s.p, n.b, n.z, n.g, n.stick, zNorm, bNorm, measured)
	if bound > n.stick.Allowed(zNorm) {
		if exact, ok := n.toFace(); ok {
			bound = min(bound, max(exact, Roundings*epsilon*(n.stick.Y+n.norm*bNorm)))
		}
	}
	n.accept(optimality, optimality, bound, zNorm)
	n.conv.Iterations = max(n.p.Steps, 1)
	if n.idle++; optimality < n.best {
		n.best, n.idle = optimality, 0
	}
	n.off = n.p.Stationarity()
	refined := n.off <= n.p.Floor || n.settled > 0 && !(n.off < n.last/2)
	n.last = n.off
	switch {
	case n.conv.Iterations >= n.s.s.o.MaxIter, n.idle > mostIdle, len(n.set) > mostWorking:
		return true, n.dev.Err()
	case n.conv.Converged:
		return n.violations == 0 && refined, n.dev.Err()
	}
	return n.settled >= mostSettled || n.settled > 1 && n.violations == 0 && refined && lowest, n.dev.Err()
}

// toFace is the distance in A b to the minimum over the face of b, where that is known to be the
// solution: its signs are those of b, and inactive coordinates are farther from violating their
// conditions than it could move them. A duality gap, which is no smaller than the rounding errors
// of its terms, bounds the square of the error.
func (n *newton) toFace() (float64, bool) {
	off, same := n.p.Decrement()
	if !same || n.lengths == nil {
		return 0, false
	}
	for j, g := range n.hostG {
		if n.hostB[j] != 0 || math.IsInf(n.s.w[j], 1) {
			continue
		}
		if !n.s.positive[j] {
			g = -math.Abs(g)
		}
		if !(2*off*n.lengths[j]-g <= n.s.w[j]) && n.lengths[j] > 0 {
			return 0, false
		}
	}
	return off, true
}

// measure is the distance of 0 from the objective's subdifferential, and the same with every entry
// divided by the length of its column. It notes the violations outside the working set.
func (n *newton) measure() (all, byColumn float64) {
	n.violations = 0
	for j, g := range n.hostG {
		e, b := 0.0, n.hostB[j]
		switch w := n.s.w[j]; {
		case b != 0:
			e = g + n.s.q[j]*b + math.Copysign(w, b)
		case n.s.positive[j]:
			e = max(-g-w, 0)
		default:
			e = max(math.Abs(g)-w, 0)
		}
		all += e * e
		if s := n.s.s.o.shortness; s != nil {
			byColumn = math.Hypot(byColumn, e*s[j])
		}
		n.outside[j] = 0
		if n.place[j] >= 0 || e == 0 {
			continue
		}
		length := n.norm
		if n.lengths != nil {
			length = n.lengths[j]
		}
		if v := relative(math.Abs(e), length); v > n.p.Floor && !math.IsInf(v, 0) {
			n.outside[j] = v
			n.violations++
		}
	}
	return math.Sqrt(all), byColumn
}

// advance adds the largest violations to the working set and minimizes over it.
func (n *newton) advance(ctx context.Context) error {
	if n.violations > 0 {
		n.extend(strongest(n.outside, min(max(len(n.p.Active()), minFirst), mostWorking)))
	}
	changed, err := n.p.Minimize(ctx, min(stepsARound, max(n.s.s.o.MaxIter-n.p.Steps, 1)))
	if err != nil {
		return err
	}
	if n.settled++; changed || n.violations > 0 {
		n.settled = 0
	}
	return n.gradient()
}

// fewProducts with the Gram matrix tell its norm well enough to measure by, manyProducts for a bound.
const (
	fewProducts  = 2
	manyProducts = 8
)

// norm2 is about an upper bound of ||A||^2 on the working set.
func (n *newton) norm2() float64 {
	norm2 := max(n.norm*n.norm, n.p.Norm(manyProducts))
	return norm2 + norm2/16
}
