package engine

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/prox"
)

// InfeasibleError says that no b meets the constraints of a problem with r(K b), or none of a size
// that the data could ask for.
type InfeasibleError struct {
	// Distance is how far K b is from the constraints where it comes closest.
	Distance float64
	// Size is a lower bound of ||b|| for every b that meets the constraints, and Relative the same in
	// units of the problem: the largest of the norms of b so far, of y/||A|| and of the nearest
	// point of the constraints over ||K||.
	Size, Relative float64
}

// Error says what was found.
func (e *InfeasibleError) Error() string {
	return fmt.Sprintf("solve: the constraints on K b contradict each other: no b of a norm up to %.3g meets them "+
		"all, which is %.1g times the size of y/||A||, of b and of the constraints, and K b stays at a distance "+
		"of %.3g from them; expected bounds, radii and right-hand sides that some b meets", e.Size, e.Relative,
		e.Distance)
}

// A problem is infeasible where every b that meets the constraints is known to be farAway times as large
// as the data would have it; at the last iteration farAtLast.
const (
	farAway   = 1e6
	farAtLast = 1e2
	// fulfilled is the relative distance to a constraint at which there is no doubt that it can be met.
	fulfilled = 1e-8
)

// constrained is the duality gap of a problem whose regularizer has constraints, sets outside of which it
// is +Inf. K b is in them only in the limit. The proximal point z' = prox_{eta r}(K b + eta u) is in them,
// and u' = u + (K b - z')/eta is a subgradient at z'. For each block of r, with K_k b its part,
//
//   - where r_k is finite everywhere z_k = K_k b and u_k is the method's;
//   - where it is a constraint z_k = z'_k, and u_k is the method's, or u'_k if r_k*(u_k) is not known
//     to be finite, as with a cone.
//
// With delta = z - K b, the optimum's multiplier u* and e = A*(A b - y) + K* u the convexity of r and the
// strong convexity of the loss in A b give
//
//	1/2 ||A b - A b*||^2 <= r(z) + r*(u) - <z, u> + <delta, u - u*> + <e, b - b*>
//
// for every solution b*. The gap takes ||delta_k|| ||u_k|| and the term of [Watch.behind] in place of
// the last two terms: it bounds them over all u* and b* no farther from u and b than 0 is. Where r_k*
// is finite at t u_k only, for t < 1, u is multiplied by t as in [gapBehind].
//
// Where the distance of K b to the constraints stays, delta tends to a direction g with K* g = 0 and a
// negative support function of the constraints (Banjac, Goulart, Stellato, Boyd 2019, on the
// alternating direction method), and <K b, g> <= sup {<z, g>} < 0 shows that any b that meets them has
// a norm of at least -sup {<z, g>}/||K* g||.
func (c *Watch) constrained(ctx context.Context, p Problem, u, b array.Batch, z float64, last bool) (float64, error) {
	dev := c.kb.Device()
	k, err := c.boundOfK(ctx, p)
	if err != nil {
		return 0, err
	}
	eta := 1.0
	if norm := c.Scales.Norm; norm > 0 {
		eta = k / (norm * norm)
	}
	v, own, e, t := dev.Alloc(1, u.N()), dev.Alloc(1, u.N()), dev.Alloc(1, c.g.N()), dev.Alloc(1, c.g.N())
	defer func() {
		array.Free(v, own, e, t)
	}()
	dev.Lin(own, 1, c.kb, eta, u)
	if err := p.R.Eval(v, own, eta); err != nil { // v = z'
		return 0, err
	}
	if err := c.feasible(p, v, t, eta, Norm(b), math.Sqrt(k), last); err != nil {
		return 0, err
	}
	dev.Lin(own, 1/eta, own, -1/eta, v) // u'
	gap, scale := 0.0, 1.0
	parts := blocksOf(p.R)
	for i := range parts {
		r := &parts[i]
		if r.fitting(c.kb, v, u) {
			scale = math.Min(scale, r.scale)
			dev.Copy(r.of(own), r.of(u))
		}
	}
	for _, r := range parts {
		gap += r.gap(c.kb, v, own, scale)
	}
	p.K.Adjoint(e, own)
	dev.Lin(e, 1, e, 1, c.g)
	return (1-scale)*(1-scale)*z*z/2 + gap + scale*c.missing(e, b), dev.Err()
}

func (c *Watch) boundOfK(ctx context.Context, p Problem) (float64, error) {
	if c.norm2K == 0 {
		n, err := NormOfK(ctx, p)
		if err != nil {
			return 0, err
		}
		c.norm2K = n
	}
	return c.norm2K, nil
}

// block is a part of a separable regularizer.
type block struct {
	r        prox.Structure
	lo, hi   int
	finite   bool    // r is finite everywhere, and its conjugate known
	replaced bool    // u' takes the place of u
	scale    float64 // t
}

func blocksOf(r prox.Prox) []block {
	s := prox.StructureOf(r)
	if len(s.Blocks) == 0 {
		return []block{{r: s, hi: -1}}
	}
	all, at := make([]block, len(s.Blocks)), 0
	for i, q := range s.Blocks {
		all[i] = block{r: prox.StructureOf(q), lo: at, hi: at + q.Dim()}
		at += q.Dim()
	}
	return all
}

func (r *block) of(x array.Batch) array.Batch {
	if r.hi < 0 {
		return x
	}
	return x.Cols(r.lo, r.hi)
}

func (r *block) fitting(kb, z, u array.Batch) bool {
	r.finite, r.replaced, r.scale = r.r.Support == nil && r.r.DualScale != nil, true, 1
	if r.r.DualScale == nil {
		return false
	}
	at := z
	if r.finite {
		at = kb
	}
	t := r.r.DualScale(r.of(at), r.of(u), math.Inf(1))
	if r.finite && t >= LeastDualScale || t == 1 {
		r.replaced, r.scale = false, t
	}
	return !r.replaced
}

// gap is the block's part, for the multiplier t u.
func (r *block) gap(kb, z, u array.Batch, t float64) float64 {
	kb, z, u = r.of(kb), r.of(z), r.of(u)
	if r.finite && !r.replaced {
		return r.r.FenchelGap(kb, u, t, math.Inf(1))
	}
	dev := kb.Device()
	delta := dev.Alloc(1, kb.N())
	defer delta.Free()
	dev.Lin(delta, 1, z, -1, kb)
	gap := t * Norm(delta) * Norm(u)
	if !r.replaced {
		gap += r.r.FenchelGap(z, u, t, math.Inf(1))
	}
	return gap
}

// feasible is an [InfeasibleError] where the distance of K b to the constraints shows that there is none
// that meets them. near is a point of the constraints, and t memory of the length of b.
func (c *Watch) feasible(p Problem, near, t array.Batch, eta, b, normK float64, last bool) error {
	dev := near.Device()
	z, g := dev.Alloc(1, near.N()), dev.Alloc(1, near.N())
	defer array.Free(z, g)
	dev.Lin(g, 1, c.kb, -1, near)
	if Norm(g) <= fulfilled*Norm(near) {
		return nil
	}
	if err := p.R.Eval(z, c.kb, eta); err != nil {
		return err
	}
	dev.Lin(g, 1, c.kb, -1, z)
	support := prox.StructureOf(p.R).Support(g)
	distance := Norm(g)
	if !(support < 0) || !(distance > 0) {
		return nil
	}
	p.K.Adjoint(t, g)
	size := math.Max(b, Norm(z)/normK)
	if c.Scales.Norm > 0 {
		size = math.Max(size, c.Scales.Y/c.Scales.Norm)
	}
	// What rounding errors leave of K* g, and of the support function, proves nothing.
	support += Roundings * Epsilon * distance * Norm(z)
	away := -support / math.Max(Norm(t), Roundings*Epsilon*normK*distance)
	if !(support < 0) || !(away > farAtLast*size) || !last && !(away > farAway*size) {
		return nil
	}
	return &InfeasibleError{Distance: distance, Size: away, Relative: away / size}
}
