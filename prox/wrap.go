package prox

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

func scaledStructure(c float64, s Structure) Structure {
	out := Structure{
		Shape: s.Shape, Free: s.Free, Closure: s.Closure, Units: s.Units, Support: s.Support,
		Quadratic: Number{vector.Times(c, s.Quadratic.Value), s.Quadratic.Known},
		Nuclear:   Number{vector.Times(c, s.Nuclear.Value), s.Nuclear.Known},
		L1:        Number{vector.Times(c, s.L1.Value), s.L1.Known},
	}
	if s.Balls.Planes > 0 {
		out.Balls = balls(c*s.Balls.Radius, s.Balls.Planes, s.Balls.Channels)
	}
	if s.Value != nil {
		out.Value = func(b array.Batch) float64 { return vector.Times(c, s.Value(b)) }
	}
	if s.Sparse != nil {
		times := func(v float64) float64 { return vector.Times(c, v) }
		out.Sparse = func(n int) (w, q Numbers, positive []bool) {
			w, q, positive = s.Sparse(n)
			return w.Map(times), q.Map(times), positive
		}
	}
	if s.Groups != nil {
		out.Groups = func() ([]int, []float64) {
			owner, w := s.Groups()
			return owner, product(c, w)
		}
	}
	if s.On != nil {
		out.On = func(dev array.Device, t space.Space) (Prox, error) {
			return ownScaled(c)(s.On(dev, t))
		}
	}
	if s.Rescale != nil {
		out.Rescale = func(dev array.Device, units []float64) (Prox, error) {
			return ownScaled(c)(s.Rescale(dev, units))
		}
	}
	if s.DualScale != nil {
		out.DualScale, out.FenchelGap = scaledConjugate(c, s)
	}
	if s.Follow != nil {
		out.Follow = func() Follower {
			if f := s.Follow(); f != nil {
				return scaledFollower{c, f}
			}
			return nil
		}
	}
	return out
}

// scaledConjugate is that of c r: (c r)*(g) = c r*(g/c).
func scaledConjugate(c float64, s Structure) (scale func(b, g array.Batch, near float64) float64,
	gap func(b, g array.Batch, t, near float64) float64) {
	over := func(g array.Batch) array.Batch {
		h := g.Device().Alloc(1, g.N())
		g.Device().Lin(h, 1/c, g, 0, array.Batch{})
		return h
	}
	scale = func(b, g array.Batch, near float64) float64 {
		h := over(g)
		defer h.Free()
		return s.DualScale(b, h, near/c)
	}
	gap = func(b, g array.Batch, t, near float64) float64 {
		h := over(g)
		defer h.Free()
		return c * s.FenchelGap(b, h, t, near/c)
	}
	return scale, gap
}

func ownScaled(c float64) func(q Prox, err error) (Prox, error) {
	return func(q Prox, err error) (Prox, error) {
		if q == nil || err != nil {
			return nil, err
		}
		return own(NewScaled(c, q), q), nil
	}
}

// owner is a Prox with a memory of its own: the regularizers from which it is made, or with a nil release none.
type owner struct {
	Prox
	release func()
}

func (p owner) Structure() Structure {
	s := StructureOf(p.Prox)
	s.Release = p.release
	return s
}

// own returns p as the owner of the regularizers in from, if any of them holds memory.
func own(p Prox, from ...Prox) Prox {
	if !slices.ContainsFunc(from, func(q Prox) bool { return StructureOf(q).Release != nil }) {
		return p
	}
	return owner{p, func() { releaseAll(from) }}
}

func releaseAll(from []Prox) {
	for _, q := range from {
		Release(q)
	}
}

func blockStructure(p *separable) Structure {
	parts := make([]Structure, len(p.blocks))
	values, split, conjugates, sparse := true, true, true, true
	free, units, follow, bounded := false, false, false, false
	for i, q := range p.blocks {
		s := StructureOf(q)
		parts[i] = s
		values = values && s.Value != nil
		split = split && s.Closure != nil && s.On != nil
		conjugates = conjugates && s.DualScale != nil
		sparse = sparse && s.Sparse != nil
		free = free || s.Free != nil
		units = units || s.Rescale != nil
		follow = follow || s.Follow != nil
		bounded = bounded || s.Support != nil
	}
	b := &blocks{p, parts}
	out := Structure{Blocks: p.blocks}
	if values {
		out.Value = b.value
	}
	if free {
		out.Free = b.free
	}
	if split {
		out.Closure, out.On = b.closure, b.on
	}
	if sparse {
		out.Sparse = b.sparse
	}
	if units {
		out.Units, out.Rescale = b.units, b.rescale
	}
	if conjugates {
		out.DualScale, out.FenchelGap = b.dualScale, b.fenchelGap
	}
	if follow {
		out.Follow = b.follow
	}
	if bounded {
		out.Support = b.support
	}
	return out
}

// subsetOf is the set of a space of vectors that are 0 outside a set; ok is false for any other
// space.
func subsetOf(t space.Space) (set []int, ok bool) {
	f := t.Form()
	return f.Set, f.Kind == space.Subset
}

// blocks are the structures of the blocks of a separable regularizer.
type blocks struct {
	p     *separable
	parts []Structure
}

func (s *blocks) of(i int, b array.Batch) array.Batch { return b.Cols(s.p.at[i], s.p.at[i+1]) }

func (s *blocks) value(b array.Batch) float64 {
	vector.CheckValue("regularizer", s.p.Dim(), b)
	sum := 0.0
	for i, r := range s.parts {
		sum += r.Value(s.of(i, b))
	}
	return sum
}

func (s *blocks) free(int) []int {
	var set []int
	for i, r := range s.parts {
		if r.Free == nil {
			continue
		}
		for _, j := range r.Free(s.p.at[i+1] - s.p.at[i]) {
			set = append(set, s.p.at[i]+j)
		}
	}
	return set
}

func (s *blocks) split(set []int) [][]int {
	out := make([][]int, len(s.parts))
	for i := range out {
		for len(set) > 0 && set[0] < s.p.at[i+1] {
			out[i] = append(out[i], set[0]-s.p.at[i])
			set = set[1:]
		}
	}
	return out
}

func (s *blocks) closure(set []int) []int {
	var all []int
	for i, part := range s.split(set) {
		if len(part) == 0 {
			continue
		}
		c := s.parts[i].Closure(part)
		if c == nil {
			return nil
		}
		for _, j := range c {
			all = append(all, s.p.at[i]+j)
		}
	}
	return all
}

// subset is a set of coordinates without memory on a device: On asks a space only for its form.
type subset struct {
	space.Space
	p   int
	set []int
}

func (t subset) Dims() (p, n int) { return t.p, len(t.set) }

func (t subset) Form() space.Form {
	return space.Form{Kind: space.Subset, Orthonormal: true, Set: t.set}
}

func (s *blocks) on(dev array.Device, t space.Space) (Prox, error) {
	set, ok := subsetOf(t)
	if !ok || len(set) == 0 {
		return nil, nil
	}
	var made, confined []Prox
	for i, part := range s.split(set) {
		if len(part) == 0 {
			continue
		}
		q, err := s.parts[i].On(dev, subset{p: s.p.at[i+1] - s.p.at[i], set: part})
		if q == nil || err != nil {
			releaseAll(made)
			return nil, err
		}
		made, confined = append(made, q), append(confined, Block{q, len(part)})
	}
	return own(NewSeparable(confined...), made...), nil
}

// units asks each block; a block that cannot be rescaled keeps units of 1.
func (s *blocks) units(units []float64) {
	for i, r := range s.parts {
		part := units[s.p.at[i]:s.p.at[i+1]]
		if r.Units != nil {
			r.Units(part)
			continue
		}
		for j := range part {
			part[j] = 1
		}
	}
}

func (s *blocks) rescale(dev array.Device, units []float64) (Prox, error) {
	rescaled := make([]Prox, len(s.parts))
	var made []Prox
	for i, r := range s.parts {
		rescaled[i] = s.p.blocks[i]
		if r.Rescale == nil {
			continue
		}
		q, err := r.Rescale(dev, units[s.p.at[i]:s.p.at[i+1]])
		if err != nil {
			releaseAll(made)
			return nil, err
		}
		made = append(made, q)
		rescaled[i] = Block{q, s.p.at[i+1] - s.p.at[i]}
	}
	return own(NewSeparable(rescaled...), made...), nil
}

func (s *blocks) dualScale(b, g array.Batch, near float64) float64 {
	t := 1.0
	for i, r := range s.parts {
		t = min(t, r.DualScale(s.of(i, b), s.of(i, g), near))
	}
	return t
}

func (s *blocks) fenchelGap(b, g array.Batch, t, near float64) float64 {
	sum := 0.0
	for i, r := range s.parts {
		sum += r.FenchelGap(s.of(i, b), s.of(i, g), t, near)
	}
	return sum
}

func (s *blocks) sparse(n int) (w, q Numbers, positive []bool) {
	w.List, q.List, positive = make([]float64, n), make([]float64, n), make([]bool, n)
	for i, r := range s.parts {
		lo, hi := s.p.at[i], s.p.at[i+1]
		v, c, sign := r.Sparse(hi - lo)
		for j := range hi - lo {
			w.List[lo+j], q.List[lo+j] = v.At(j), c.At(j)
		}
		copy(positive[lo:hi], sign)
	}
	return w, q, positive
}

// support is that of the blocks: 0 where a block is finite everywhere, and moves g to 0 there.
func (s *blocks) support(g array.Batch) float64 {
	sum := 0.0
	for i, r := range s.parts {
		part := s.of(i, g)
		if r.Support == nil {
			part.Device().Fill(part, 0)
			continue
		}
		sum += r.Support(part)
	}
	return sum
}

func (s *blocks) follow() Follower {
	f := &separableFollower{p: s.p, blocks: make([]Follower, len(s.parts))}
	for i, r := range s.parts {
		if r.Follow == nil {
			continue
		}
		if f.blocks[i] = r.Follow(); f.blocks[i] != nil {
			f.count++
		}
	}
	if f.count == 0 {
		return nil
	}
	return f
}

// Block gives the length N to a Prox whose own Dim is 0. It has the structure of the Prox in it,
// and does not own its memory.
type Block struct {
	Prox
	N int
}

func (b Block) Dim() int { return b.N }

func (b Block) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("block", b.N, dst, v, t)
	return b.Prox.Eval(dst, v, t)
}

func (b Block) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("block", b.N, dst, v, t)
	return b.Prox.Linearize(dst, v, t)
}

// Structure is that of the Prox in the block, without Release.
func (b Block) Structure() Structure {
	s := StructureOf(b.Prox)
	s.Release = nil
	return s
}

// scaled is c r.
type scaled struct {
	c float64
	p Prox
	Known
}

// NewScaled returns the regularizer c r, where p is r and c > 0:
//
//	prox_{t (c r)}(v) = prox_{(t c) r}(v).
//
// Its structure follows from that of p, and it shares p's memory, so it can vary a penalty whose
// data is on a device. It panics unless c is positive and finite.
func NewScaled(c float64, p Prox) Prox {
	if !(c > 0) || math.IsInf(c, 1) {
		panic(fmt.Sprintf("prox: a regularizer scaled by %v, want a positive finite number", c))
	}
	s := StructureOf(p)
	if q := s.Quadratic; q.Known {
		return newSquaredL2(vector.Times(c, q.Value), p.Dim())
	}
	out := &scaled{c: c, p: p}
	out.Is = scaledStructure(c, s)
	return out
}

func (p *scaled) Dim() int { return p.p.Dim() }

func (p *scaled) Eval(dst, v array.Batch, t float64) error {
	return p.p.Eval(dst, v, p.c*t)
}

func (p *scaled) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	j, err := p.p.Linearize(dst, v, p.c*t)
	if err != nil {
		return nil, err
	}
	return multiplied(j, p.c), nil
}

// multiplied turns the derivative j of prox_{(c t) r}, which it takes over, into that of prox_{t (c
// r)}: J is the same, and Q is multiplied by c.
func multiplied(j Derivative, c float64) Derivative {
	return remodel(j, func(m *Model) *Model {
		if m == nil || m.Curvature == nil {
			return m
		}
		return &Model{Space: m.Space, Curvature: multipliedCurvature{m.Curvature, c}, Margin: m.Margin,
			squares: func() *Squares {
				w := m.Squares()
				if w == nil {
					return nil
				}
				return &Squares{w.Rows, product(c, w.Weights)}
			}}
	})
}

// remodeled is a derivative whose model is another's changed, with the same memory.
type remodeled struct {
	Derivative
	model func() *Model
}

func remodel(j Derivative, change func(m *Model) *Model) Derivative {
	return remodeled{j, sync.OnceValue(func() *Model { return change(j.Model()) })}
}

func (j remodeled) Model() *Model { return j.model() }

// Lent is the regularizer for users who release what they have been given, where its owner does that: [Release] of it
// frees nothing.
func Lent(r Prox) Prox { return owner{r, nil} }
