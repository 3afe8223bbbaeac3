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

// together are solutions on the columns in memory, and their gradients: exact, or outside of the set bounds.
type together struct {
	d, dim               int
	b                    []array.Batch
	residuals, gradients []float64
	exact                []bool
	looked               []bool      // whether it is known what the gradients violate
	must                 [][]bool    // that: see [screening.violations]
	slopes               [][]float64 // gradients on the columns in memory, nil where they are not known
}

func (t *together) residual(i int) []float64 { return t.residuals[i*t.d : (i+1)*t.d] }
func (t *together) gradient(i int) []float64 { return t.gradients[i*t.dim : (i+1)*t.dim] }

// violations are those of gradient i.
func (t *together) violations(w *screening, i int, here separable) []bool {
	if !t.looked[i] {
		t.must[i], t.looked[i] = w.violations(here, t.gradient(i)), true
	}
	return t.must[i]
}

func (t *together) Release() {
	array.Free(t.b...)
}

// findGradients takes a pass for all gradients, unless all columns are in memory; or, where A is in memory, products
// for that of the last solution, of the first where w knows none before it, and of others only where the bound between
// two that are known does not prove the conditions outside of the set: see [screened.between]. A solution alone, as
// near to that before it as those of a search for a minimum are, may need none.
func (s *screened) findGradients(ctx context.Context, w *screening, t *together, z array.Batch, steps []step) error {
	last := len(steps) - 1
	find := []int{last}
	t.exact, t.looked, t.must = make([]bool, len(steps)), make([]bool, len(steps)), make([][]bool, len(steps))
	switch {
	case len(w.set) == t.dim:
		find = nil
		for i := range steps {
			copy(t.gradient(i), w.slope(t.slopes[i], z.Rows(i, i+1)))
			t.exact[i] = true
		}
	case gramBeside(s.Task.Problem):
		var err error
		if find, err = s.byGram(w, t, steps); err != nil {
			return err
		}
	case last == 0 && w.z != nil && w.lengths != nil:
		find = s.unproven(w, t, z, steps)
	case s.passes.Bytes > 0 || s.Task.Lengths() == nil:
		find = lists.Upto(len(steps))
	case w.z == nil && last > 0:
		find = []int{0, last}
	}
	for len(find) > 0 {
		if err := s.multiply(ctx, t, z, find); err != nil {
			return err
		}
		find = s.unproven(w, t, z, steps)
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
	for i, at := range steps {
		size := every.gradient(t.gradient(i), w.at0, w.set, t.b[i].ToHost())
		t.exact[i] = true
		for j, l := range every.norms {
			t.exact[i] = w.in[j] || engine.Epsilon*math.Sqrt(float64(t.d))*size*l <= gramShare*at.w.At(j)
			if !t.exact[i] {
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
	some, g := z, dev.Alloc(len(find), t.dim)
	defer g.Free()
	if len(find) < z.K() {
		some = dev.Alloc(len(find), t.d)
		defer some.Free()
		for k, i := range find {
			dev.Copy(some.Rows(k, k+1), z.Rows(i, i+1))
		}
	}
	err := s.passes.Adjoint(ctx, g, some)
	for k, i := range find {
		dev.Download(t.gradient(i), g.Rows(k, k+1))
		t.exact[i], t.looked[i] = true, false
	}
	return err
}

// unproven bounds the gradients between those that are known, and returns solutions in the middle of those for which
// that proves nothing.
func (s *screened) unproven(w *screening, t *together, z array.Batch, steps []step) (find []int) {
	near, from := &neighbourhood{screening: w}, 0
	if w.z != nil {
		near.refs, from = append(near.refs, &verified{z: w.z, g: w.g}), -1
	}
	for i, known := range t.exact {
		if known {
			near.refs = append(near.refs, &verified{z: t.residual(i), g: t.gradient(i)})
		}
	}
	last := len(steps) - 1
	for i, known := range t.exact {
		if !known && i < last {
			continue
		}
		for j := from + 1; j < i || j == i && !known; j++ {
			s.between(t.gradient(j), near, steps[j].separable, z.Rows(j, j+1), t.slopes[j])
			t.looked[j] = false
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

// neighbourhood are verified solutions, in the order of their weights.
type neighbourhood struct {
	*screening
	refs []*verified
}

// between sets g to the gradient at a residual near to verified ones: exact for the columns in memory, and for the
// others a bound on its size. The gradient of the loss is linear in the residual, or in the loss's slope l'(A b; y): at
// z = z1 + t (z2 - z1) + e, for two verified residuals, it is
//
//	g_j = g1_j + t (g2_j - g1_j) + <a_j, e>,   |<a_j, e>| <= ||a_j|| ||e||.
//
// Along a path z is piecewise linear in the weight (Osborne, Presnell, Turlach 2000), so that e is small.
func (s *screened) between(g []float64, n *neighbourhood, here separable, misfit array.Batch, slope []float64) {
	from, to, share, off := n.interpolate(misfit.ToHost())
	lengths := n.lengths
	if lengths == nil {
		lengths = slices.Repeat([]float64{engine.NewScales(misfit, 0, s.Task.Options).Norm}, len(g))
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
	for k, v := range n.slope(slope, misfit) {
		g[n.set[k]] = v
	}
}

// interpolate is the nearest point to z on a line through two verified residuals beside each other: their gradients,
// the share of the second, and the distance to the point.
func (n *neighbourhood) interpolate(z []float64) (from, to []float64, share, off float64) {
	best := 0
	off = math.Inf(1)
	for k := range max(len(n.refs)-1, 1) {
		a, b := n.refs[k].z, n.refs[min(k+1, len(n.refs)-1)].z
		dot, length2 := 0.0, 0.0
		for i := range z {
			e := b[i] - a[i]
			dot += (z[i] - a[i]) * e
			length2 += e * e
		}
		t, sum := 0.0, 0.0
		if length2 > 0 {
			t = dot / length2
		}
		for i := range z {
			e := z[i] - a[i] - t*(b[i]-a[i])
			sum += e * e
		}
		if e := math.Sqrt(sum); e < off {
			best, share, off = k, t, e
		}
	}
	return n.refs[best].g, n.refs[min(best+1, len(n.refs)-1)].g, share, off
}

// slopeOf is the gradient at a solver's last solution, where it knows that.
func slopeOf(s engine.Solver) []float64 {
	if by, ok := s.(*activeSet); ok {
		return *by.slope
	}
	return nil
}

// slope is the gradient on the columns in memory at a residual, or at a loss's slope: that which the solver knows, else
// a product.
func (w *screening) slope(known []float64, z array.Batch) []float64 {
	if known != nil {
		return known
	}
	g := z.Device().Alloc(1, len(w.set))
	defer g.Free()
	w.columns.Adjoint(g, z)
	return g.ToHost()
}

// mostOutside is the size of the gradient outside of the set.
func (w *screening) mostOutside() float64 {
	most := 0.0
	for j, g := range w.g {
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
	pulls := w.grouped(here, w.g)
	if one := here.w.One; pulls == nil && one > 0 && here.w.List == nil && w.at.List == nil &&
		most+w.growth*math.Abs(w.at.One-one) <= one*nearBoundary {
		return true // the pull is at most |g|
	}
	for j, g := range w.g {
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

// measure sets the norm of a gradient and its margin.
func (w *screening) measure(here separable, v *verified) {
	g := w.b.Device().Put(v.g, 1, len(v.g))
	v.norm, v.margin = engine.Norm(g), math.Inf(1)
	g.Free()
	if here.owner != nil || w.lengths == nil {
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
