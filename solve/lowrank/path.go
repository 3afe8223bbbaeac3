package lowrank

import (
	"slices"

	"surepipe/array"
	"surepipe/solve/engine"
)

// lowRankPath is what solves with iterates in factored form hand on along a path of weights: the
// solutions at the last two weights, and the block that follows the leading singular vectors. It is on
// the host, since a solve's memory is its own. The next solve starts with the momentum that leads from
// the two solutions to the next one where b is linear in the weight, as it is where A is the identity
// and the rank stays; the rank, the subspace, and the gradient's norm, which is the weight, are known.
type lowRankPath struct {
	kin   *engine.Family
	y     []float64
	last  hostFactored
	tau   float64 // the threshold of last
	first hostFactored
	from  float64 // that of first, 0 for none
	block []float64
}

func (*lowRankPath) Release() {}

// hostFactored is a factored matrix on the host, row-major.
type hostFactored struct {
	l, v []float64
	r    int
}

func (f *factored) toHost() hostFactored {
	return hostFactored{f.l.ToHost(), f.v.ToHost(), f.l.N()}
}

func (h hostFactored) on(dev array.Device, shape array.Shape) factored {
	f := factored{dev.Alloc(shape.Rows, h.r), dev.Alloc(shape.Cols, h.r)}
	dev.Upload(f.l, h.l)
	dev.Upload(f.v, h.v)
	return f
}

// heldFactors takes what a path holds for solves of this family at y; nil where there is nothing.
func heldFactors(path *engine.Path, kin *engine.Family, y array.Batch) *lowRankPath {
	kept := path.Take()
	if kept == nil {
		return nil
	}
	if f, ok := kept.(*lowRankPath); ok && f.kin == kin && slices.Equal(f.y, y.ToHost()) {
		return f
	}
	kept.Release()
	return nil
}

// keep is what the solve hands on, before being what it was given.
func (w *matrices) keep(before *lowRankPath) *lowRankPath {
	p := &lowRankPath{last: w.now.toHost(), tau: w.tau, block: w.space.Block()}
	if before != nil {
		p.first, p.from = before.last, before.tau
	}
	return p
}

// mostLead is the largest momentum of a first step.
const mostLead = 1

// resume starts at what a solve before has handed on.
func (w *matrices) resume(p *lowRankPath) error {
	dev := w.dev
	w.now.free()
	w.now = p.last.on(dev, w.shape)
	w.space.Restore(p.block)
	w.sample()
	w.level = max(w.tau, levelShare*p.tau)
	if c := (p.tau - w.level) / (p.from - p.tau); p.from > p.tau && c > 0 {
		w.first = min(c, mostLead)
		w.old.free()
		w.step.free()
		w.old = p.first.on(dev, w.shape)
		w.step = difference(w.now, w.old)
		w.step2 = max(w.step.inner(w.step), 0)
		dev.SampleProduct(w.abOld, w.pattern, 1, w.old.l.Reshape(1, w.old.l.K()*w.old.l.N()),
			w.old.v.Reshape(1, w.old.v.K()*w.old.v.N()), 0)
	}
	return dev.Err()
}

// FirstMomentum is the momentum of the first step.
func (w *matrices) FirstMomentum() float64 { return w.first }

// difference is a - b; its V's columns are not orthonormal.
func difference(a, b factored) factored {
	dev := a.l.Device()
	r, all := a.l.N(), a.l.N()+b.l.N()
	d := factored{dev.Alloc(a.l.K(), all), dev.Alloc(a.v.K(), all)}
	dev.Copy(d.l.Cols(0, r), a.l)
	dev.Copy(d.v.Cols(0, r), a.v)
	dev.Lin(d.l.Cols(r, all), -1, b.l, 0, array.Batch{})
	dev.Copy(d.v.Cols(r, all), b.v)
	return d
}
