package prox

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// shifted is r(b - c).
type shifted struct {
	p Prox
	c array.Batch
	Known
}

// NewShifted returns b -> r(b - c), where p is r and c has one finite number for each coordinate: a
// ball around c, or the constraint b - c in a cone. With v' = v - c
//
//	prox_{t r(. - c)}(v) = c + prox_{t r}(v'),
//
// and J and the model are those of r at v'. c is kept on dev until [Release], and must not be modified; p is
// still the caller's. A c of another length than p's, and numbers that are not finite, are errors.
func NewShifted(dev array.Device, p Prox, c []float64) (Prox, error) {
	if d := p.Dim(); len(c) == 0 || d != 0 && d != len(c) {
		return nil, fmt.Errorf("prox: a regularizer of %d coordinates shifted by %d numbers, want one for each", d,
			len(c))
	}
	for j, x := range c {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("prox: shift: entry %d is %v, want a finite number", j, x)
		}
	}
	q := &shifted{p: p, c: dev.Put(c, 1, len(c))}
	if err := dev.Err(); err != nil {
		q.Release()
		return nil, fmt.Errorf("prox: shift: %w", err)
	}
	s := StructureOf(p)
	q.Is = Structure{Free: s.Free, Release: q.Release}
	if s.Value != nil {
		q.Is.Value = func(b array.Batch) float64 {
			vector.CheckValue("shifted regularizer", q.Dim(), b)
			x := q.minus(b)
			defer x.Free()
			return s.Value(x)
		}
	}
	if s.DualScale != nil {
		q.Is.DualScale = func(b, g array.Batch, near float64) float64 {
			x := q.minus(b)
			defer x.Free()
			return s.DualScale(x, g, near)
		}
		// (r(. - c))*(g) = r*(g) + <c, g>
		q.Is.FenchelGap = func(b, g array.Batch, t, near float64) float64 {
			x := q.minus(b)
			defer x.Free()
			return s.FenchelGap(x, g, t, near)
		}
	}
	if s.Support != nil {
		q.Is.Support = func(g array.Batch) float64 {
			return s.Support(g) + vector.Inner(g.Read(), q.c.Read())
		}
	}
	return q, nil
}

func (p *shifted) Dim() int { return p.c.N() }
func (p *shifted) Release() { p.c.Free() }

func (p *shifted) minus(b array.Batch) array.Batch {
	dev := b.Device()
	x := dev.Alloc(b.K(), b.N())
	dev.Lin(x, 1, b, -1, p.c)
	return x
}

func (p *shifted) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("shifted regularizer", p.Dim(), dst, v, t)
	dev := dst.Device()
	dev.Lin(dst, 1, v, -1, p.c)
	if err := p.p.Eval(dst, dst, t); err != nil {
		return err
	}
	dev.Lin(dst, 1, dst, 1, p.c)
	return nil
}

func (p *shifted) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("shifted regularizer", p.Dim(), dst, v, t)
	dev := dst.Device()
	x := p.minus(v)
	defer x.Free()
	j, err := p.p.Linearize(dst, x, t)
	if err != nil {
		return nil, err
	}
	dev.Lin(dst, 1, dst, 1, p.c)
	offset := slices.Clone(p.c.Read())
	return remodel(j, func(m *Model) *Model {
		if m == nil || m.Margin == nil {
			return m
		}
		return &Model{Space: m.Space, Curvature: m.Curvature, Margin: func(v array.Batch) float64 {
			dev := v.Device()
			x, c := dev.Alloc(1, v.N()), dev.Alloc(1, v.N())
			defer array.Free(x, c)
			dev.Upload(c, offset)
			dev.Lin(x, 1, v, -1, c)
			return m.Margin(x)
		}, squares: m.Squares}
	}), nil
}
