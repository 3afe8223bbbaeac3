package active

import (
	"context"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/solve/engine"
)

// together are solutions on the columns in memory.
type together struct {
	b      []array.Batch
	at     []*verified
	looked []bool   // whether it is known what the gradients violate
	must   [][]bool // that: see [screening.violations]
}

// violations are those of gradient i.
func (t *together) violations(w *screening, i int, here separable) []bool {
	if !t.looked[i] {
		t.must[i], t.looked[i] = w.violations(here, t.at[i].g), true
	}
	return t.must[i]
}

// know takes the gradient of solution i.
func (t *together) know(i int, g []float64) {
	t.at[i].g, t.at[i].exact, t.at[i].near, t.looked[i] = g, true, line{}, false
}

func (t *together) Release() {
	array.Free(t.b...)
}

// findGradients takes a pass for all gradients, unless all columns are in memory; or, where A is in memory, products
// for that of the last solution, and of others only where the bound between two that are known does not prove the
// conditions outside of the set: see [screened.between]. A solution alone, as near to that before it as those of a
// search for a minimum are, may need none.
func (s *screened) findGradients(ctx context.Context, w *screening, t *together, z array.Batch, steps []step) error {
	last := len(steps) - 1
	find := []int{last}
	t.looked, t.must = make([]bool, len(steps)), make([][]bool, len(steps))
	switch {
	case len(w.set) == len(w.in):
		find = nil
		for i, v := range t.at {
			t.know(i, slices.Clone(w.slope(v, z.Device())))
		}
	case gramBeside(s.Task.Problem):
		var err error
		if find, err = s.byGram(w, t, steps); err != nil {
			return err
		}
	case last == 0 && w.lengths != nil:
		find = s.unproven(w, t, z.Device(), steps)
	case s.passes.Bytes > 0 || w.lengths == nil:
		find = lists.Upto(len(steps))
	}
	for len(find) > 0 {
		if err := s.multiply(ctx, t, z, find); err != nil {
			return err
		}
		find = s.unproven(w, t, z.Device(), steps)
	}
	return nil
}

// gramShare is the share of the weights up to which gradients from the Gram matrix may have rounding errors.
const gramShare = 1e-8

// gramBeside reports that the Gram matrix of columns that are not in memory is known, with the squared loss.
func gramBeside(p engine.Problem) bool {
	known := linops.StructureOf(p.A)
	return p.Loss == nil && known.Passes.Bytes > 0 && known.Gram != nil
}

// byGram finds the gradients of solutions by the Gram matrix of all columns. Those where its rounding errors may matter
// are left.
func (s *screened) byGram(w *screening, t *together, steps []step) (left []int, err error) {
	every := &s.shared.every
	if err := every.unheld(s.Task.Problem); err != nil {
		return nil, err
	}
	for i, v := range t.at {
		t.know(i, make([]float64, len(w.in)))
		size := every.gradient(v.g, w.at0, w.set, v.b)
		for j, l := range every.norms {
			v.exact = w.in[j] || engine.Epsilon*math.Sqrt(float64(len(v.z)))*size*l <= gramShare*steps[i].w.At(j)
			if !v.exact {
				left = append(left, i)
				break
			}
		}
	}
	return left, nil
}

// multiply finds the gradients of some solutions.
func (s *screened) multiply(ctx context.Context, t *together, z array.Batch, find []int) error {
	dev := z.Device()
	_, dim := s.Task.Problem.A.Dims()
	some, g := z, dev.Alloc(len(find), dim)
	defer g.Free()
	if len(find) < z.K() {
		some = dev.Alloc(len(find), z.N())
		defer some.Free()
		for k, i := range find {
			dev.Copy(some.Rows(k, k+1), z.Rows(i, i+1))
		}
	}
	err := s.passes.Adjoint(ctx, g, some)
	for k, i := range find {
		t.know(i, g.Rows(k, k+1).ToHost())
	}
	return err
}

// unproven bounds the gradients between those that are known, and returns solutions in the middle of those for which
// that proves nothing.
func (s *screened) unproven(w *screening, t *together, dev array.Device, steps []step) (find []int) {
	refs, from := []*verified{w.last}, -1
	for _, v := range t.at {
		if v.exact {
			refs = append(refs, v)
		}
	}
	for _, v := range refs {
		v.most = w.mostOutside(v.g)
	}
	last := len(steps) - 1
	for i, at := range t.at {
		if !at.exact && i < last {
			continue
		}
		for j := from + 1; j < i || j == i && !at.exact; j++ {
			v := t.at[j]
			v.near = interpolate(refs, v.z)
			if v.margin = w.room(v.near, steps[j].separable); v.margin >= 0 {
				v.g, t.must[j], t.looked[j] = nil, nil, true
				continue
			}
			v.g, t.looked[j] = s.between(w, steps[j].separable, v, dev), false
			if t.violations(w, j, steps[j].separable) != nil {
				find = append(find, (from+i)/2)
				break
			}
		}
		if from = i; t.violations(w, i, steps[i].separable) != nil {
			break // what follows is not asked for
		}
	}
	return find
}

// line has the point nearest to a residual on a line through two others whose gradients are known: the share of the
// second, and the distance.
type line struct {
	from, to   *verified
	share, off float64
}

// room is by how much the residual may move before a condition outside of the set may not hold, by the largest entries
// of the gradients at both ends; it is negative where that proves no condition.
func (w *screening) room(l line, here separable) float64 {
	if w.lengths == nil || here.owner != nil || here.w.List != nil || l.share < 0 || l.share > 1 {
		return -1
	}
	top := max(l.from.most, l.to.most)
	if !(top+l.off*w.longest <= here.w.One*nearBoundary) {
		return -1
	}
	return (here.w.One-top)/w.longest - l.off
}

// between is the gradient at a residual near to verified ones: exact for the columns in memory, and for the others a
// bound on its size. The gradient of the loss is linear in the residual, or in the loss's slope l'(A b; y): at
// z = z1 + t (z2 - z1) + e, for two verified residuals, it is
//
//	g_j = g1_j + t (g2_j - g1_j) + <a_j, e>,   |<a_j, e>| <= ||a_j|| ||e||.
//
// Along a path z is piecewise linear in the weight (Osborne, Presnell, Turlach 2000), so that e is small.
func (s *screened) between(w *screening, here separable, v *verified, dev array.Device) []float64 {
	from, to, share, off := v.near.from.g, v.near.to.g, v.near.share, v.near.off
	g, lengths := make([]float64, len(from)), w.lengths
	if lengths == nil {
		z := dev.Put(v.z, 1, len(v.z))
		lengths = slices.Repeat([]float64{engine.NewScales(z, 0, s.Task.Options).Norm}, len(g))
		z.Free()
	}
	for j, v := range from {
		v += share * (to[j] - v)
		g[j] = v + math.Copysign(off*lengths[j], v)
	}
	for j, half := range here.positive { // the pull is -g
		if v := from[j] + share*(to[j]-from[j]); half && v >= 0 {
			g[j] = v - off*lengths[j]
		}
	}
	for k, v := range w.slope(v, dev) {
		g[w.set[k]] = v
	}
	return g
}

// interpolate is the nearest point to z on a line through two residuals beside each other.
func interpolate(refs []*verified, z []float64) line {
	best := line{off: math.Inf(1)}
	for k := range max(len(refs)-1, 1) {
		l := line{from: refs[k], to: refs[min(k+1, len(refs)-1)]}
		a, b := l.from.z, l.to.z
		dot, length2 := 0.0, 0.0
		for i := range z {
			e := b[i] - a[i]
			dot += (z[i] - a[i]) * e
			length2 += e * e
		}
		if length2 > 0 {
			l.share = dot / length2
		}
		sum := 0.0
		for i := range z {
			e := z[i] - a[i] - l.share*(b[i]-a[i])
			sum += e * e
		}
		if l.off = math.Sqrt(sum); l.off < best.off {
			best = l
		}
	}
	return best
}

// slopeOf is the gradient at a solver's last solution, where it knows that.
func slopeOf(s engine.Solver) []float64 {
	if by, ok := s.(*activeSet); ok {
		return *by.slope
	}
	return nil
}

// slope is the gradient on the columns in memory: that which the solver knows, else a product.
func (w *screening) slope(v *verified, dev array.Device) []float64 {
	if v.slope != nil {
		return v.slope
	}
	g, z := dev.Alloc(1, len(w.set)), dev.Put(v.z, 1, len(v.z))
	defer array.Free(g, z)
	w.columns.Adjoint(g, z)
	return g.ToHost()
}

// mostOutside is the size of a gradient outside of the set.
func (w *screening) mostOutside(g []float64) float64 {
	most := 0.0
	for j, g := range g {
		if !w.in[j] {
			most = max(most, math.Abs(g))
		}
	}
	return most
}

// expected reports whether, at these weights, no column outside of the set should violate its condition. most is at
// least the size of the gradient outside.
func (w *screening) expected(here separable, most float64) bool {
	if w.within != nil {
		return w.within[here.key]
	}
	pulls := w.grouped(here, w.last.g)
	if one := here.w.One; pulls == nil && one > 0 && here.w.List == nil && w.at.List == nil &&
		most+w.growth*math.Abs(w.at.One-one) <= one*nearBoundary {
		return true // the pull is at most |g|
	}
	for j, g := range w.last.g {
		weight := here.w.At(j)
		if pulls == nil && math.Abs(g)+w.growth*math.Abs(w.at.At(j)-weight) <= weight*nearBoundary && weight > 0 {
			continue
		}
		if w.in[j] || held(weight) {
			continue
		}
		pull := here.at(pulls, j, g)
		if grown := pull + w.growth*max(w.at.At(j)-weight, 0); weight == 0 || grown > weight*nearBoundary {
			return false
		}
	}
	return true
}

// grouped are the pulls of groups at a gradient; nil where coordinates stand alone.
func (w *screening) grouped(here separable, g []float64) []float64 {
	if here.owner == nil {
		return nil
	}
	here.pulls(w.pulls, g)
	return w.pulls
}

// at is one of the pulls of groups, or that of a coordinate that stands alone.
func (s *separable) at(pulls []float64, j int, g float64) float64 {
	if pulls != nil {
		return pulls[j]
	}
	return s.pull(j, g)
}

// measure sets the margin of a solution by its gradient.
func (w *screening) measure(here separable, v *verified) {
	if v.margin = math.Inf(1); here.owner != nil || w.lengths == nil {
		v.margin = math.NaN()
		return
	}
	for j, g := range v.g {
		if here.w.At(j)-math.Abs(g) >= v.margin*w.lengths[j] || w.in[j] { // the pull is at most |g|
			continue
		}
		if room := here.w.At(j) - here.pull(j, g); room < v.margin*w.lengths[j] {
			v.margin = room / w.lengths[j]
		}
	}
}

// violations are the coordinates outside of the set whose conditions do not hold, or hardly; nil for
// none.
func (w *screening) violations(here separable, g []float64) []bool {
	var must []bool
	pulls := w.grouped(here, g)
	for j, v := range g {
		weight := here.w.At(j)
		if pulls == nil && math.Abs(v) <= weight*nearBoundary && weight > 0 { // the pull is at most |g|
			continue
		}
		if !w.in[j] && (weight == 0 || here.at(pulls, j, v) > weight*nearBoundary) {
			if must == nil {
				must = make([]bool, len(g))
			}
			must[j] = true
		}
	}
	return must
}
