package imaging

import (
	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// twin is an operator's arithmetic on the host, and on another device, as a rule after its Load.
type twin struct {
	host   hostMap // nil where on serves there too
	shares bool    // host can use more than one processor
	// on does an action on the other device; nil without one. held is the memory there, and shrink what it keeps
	// for a few eta.
	on     func(dst, src array.Batch, do action)
	here   bool // on serves in the host's memory too
	held   array.Held
	shrink product.Cache
}

// imageTwin is for an operator that takes the rows and the columns of images apart.
func imageTwin(rows, cols int, host hostMap) twin {
	return twin{host: host, shares: rows > 1 && cols > 1 && rows*cols >= parallel.Share}
}

// apply does an action to the vectors of a batch, on the device where they are if that has been loaded, else on the
// host.
func (t *twin) apply(dst, src array.Batch, do action) {
	if t.host == nil || t.on != nil && (t.here || elsewhere(dst)) {
		t.on(dst, src, do)
	} else {
		mapOnHost(dst, src, t.host, t.shares, do)
	}
}

func (t *twin) loads(dev array.Device) bool { return t.on == nil && !inHostMemory(dev) }

func (t *twin) put(dev array.Device, values []float64) array.Batch {
	b := dev.Alloc(1, len(values))
	dev.Upload(b, values)
	t.held.Hold(b)
	return b
}

func (t *twin) listed(dev array.Device, list []int) array.Index {
	idx := dev.NewIndex(list)
	t.held.Hold(idx)
	return idx
}

// shrunk calls f with 1/(1 + eta q) on a device; q is made when it is needed.
func (t *twin) shrunk(dev array.Device, eta float64, q func() []float64, f func(factors array.Batch)) {
	e := t.shrink.Acquire(dev, eta, func(dev array.Device) array.Batch {
		return product.UploadShrinkage(dev, q(), eta)
	})
	defer t.shrink.Release(e)
	f(e.Value)
}

func (t *twin) Release() {
	t.shrink.Free()
	t.held.Release()
	t.on, t.here = nil, false
}

// mapped has the methods of a d x p operator of a name, all of which are actions of a twin.
type mapped struct {
	twin
	name      string
	d, p      int
	structure linops.Structure
}

func (m *mapped) Structure() linops.Structure { return m.structure }
func (m *mapped) Dims() (d, p int)            { return m.d, m.p }

func (m *mapped) Forward(dst, b array.Batch) {
	product.CheckForward(m.name, m.d, m.p, dst, b)
	m.apply(dst, b, action{kind: doForward})
}

func (m *mapped) Adjoint(dst, z array.Batch) {
	product.CheckAdjoint(m.name, m.d, m.p, dst, z)
	m.apply(dst, z, action{kind: doAdjoint})
}

func (m *mapped) normal(dst, b array.Batch) {
	product.CheckNormal(m.name, m.p, dst, b)
	m.apply(dst, b, action{kind: doSquare})
}

func (m *mapped) solveNormal(dst, rhs array.Batch, eta float64) bool {
	product.CheckSolve(m.name, m.d, m.p, dst, rhs, eta)
	if eta == 0 {
		product.CopyTo(dst, rhs)
	} else {
		m.apply(dst, rhs, action{doNormal, eta})
	}
	return true
}
