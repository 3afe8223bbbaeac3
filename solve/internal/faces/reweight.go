package faces

import (
	"math"
	"slices"
)

// Reweight changes the penalty. The point and S remain, and so does the factor, where only weights
// of coordinates change that have one; else S and the factor are made anew from the point. It
// reports whether the point has moved, because the new penalty forbids where it was.
func (p *Program) Reweight(to Penalty) (moved bool) {
	p.Steps = 0
	w, q, positive := to.W, to.Q, to.Positive
	same := slices.Equal(q, p.Q) && slices.Equal(positive, p.Positive)
	for j, v := range w {
		same = same && (v > 0) == (p.W[j] > 0) && !(math.IsInf(v, 1) && p.in[j])
	}
	copy(p.W, w)
	if same {
		return false
	}
	copy(p.Q, q)
	copy(p.Positive, positive)
	b := slices.Clone(p.B)
	for j, v := range b {
		if v != 0 {
			lin(p.Grad, -v, p.Gram(j))
		}
		if math.IsInf(w[j], 1) {
			b[j] = 0
		}
	}
	clear(p.B)
	clear(p.sign)
	clear(p.in)
	for _, j := range p.columns {
		p.place[j] = -1
	}
	p.active, p.columns = p.active[:0], p.columns[:0]
	p.f.truncate(0)
	p.scale = p.scale[:0]
	p.Ready()
	before := slices.Clone(b)
	p.Start(b)
	return !slices.Equal(before, p.B)
}
