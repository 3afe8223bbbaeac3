package active

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/solve/engine"
)

// heldWeights are the weights of a problem with the squared loss, near those of a loss that is not
// quadratic, and what the solves of such problems hand on to each other: the working set, its Gram
// matrix and its factor, with which [chords] go on. A [engine.Path] carries them from one weight
// of the regularizer to the next, whose first step starts where the last one ended.
type heldWeights struct {
	outer  *engine.Family // of the problem with the loss
	y      []float64      // the observations
	family *engine.Family // of the problems with the squared loss
	root   *sharedRoot
	host   []float64 // sqrt(w)
	path   engine.Path

	inverse array.Batch // 1/sqrt(w); the zero Batch where a weight is 0, or no chord steps are to be taken
	spent   float64     // on chord steps, in operations

	at    *engine.Fit // where the last solve ended, with its gradient; nil while a solve goes on
	value float64     // of the loss there
	size  float64     // the norm of the loss's slope at 0
	lent  bool        // the derivative at the solution has the factor
	here  bool        // the factor below is that at the point where the solve goes on

	// factor takes the place of the weights where that of the second derivative of the loss is in reach; else nil.
	factor loss.Root
}

func (h *heldWeights) operator(a linops.Operator) linops.Operator {
	if h.factor != nil {
		return engine.NewRooted(a, h.factor)
	}
	return engine.NewWeightedRows(a, h.root.Batch, h.host, nil)
}

// target replaces z by sqrt(w) z - l'/sqrt(w), with the slopes l'.
func (h *heldWeights) target(z, slope []float64) {
	if h.factor != nil {
		h.factor.Forward(z, z)
		h.factor.InverseAdjoint(slope, slope)
		floats.Sub(z, slope)
		return
	}
	for i, v := range h.host {
		if z[i] *= v; v != 0 {
			z[i] -= slope[i] / v
		}
	}
}

// forward sets dst to the product of columns with b, without the weights that a has with them.
func (h *heldWeights) forward(a linops.Operator, dst, b array.Batch) {
	if inner := engine.Unrooted(a); inner != nil {
		inner.Forward(dst, b)
		return
	}
	a.Forward(dst, b)
	h.unweighted(dst, dst)
}

// adjoint is the product with the adjoint of such columns.
func (h *heldWeights) adjoint(a linops.Operator, dst, v array.Batch) {
	if inner := engine.Unrooted(a); inner != nil {
		inner.Adjoint(dst, v)
		return
	}
	t := v.Device().Alloc(1, v.N())
	defer t.Free()
	h.unweightedAdjoint(t, v)
	a.Adjoint(dst, t)
}

// unweighted sets dst to z for sqrt(w) z, and unweightedAdjoint sets it to v/sqrt(w).
func (h *heldWeights) unweighted(dst, z array.Batch) {
	if h.factor != nil {
		h.onHost(dst, z, h.factor.Inverse)
		return
	}
	dst.Device().Mul(dst, z, h.inverse)
}

func (h *heldWeights) unweightedAdjoint(dst, v array.Batch) {
	if h.factor != nil {
		h.onHost(dst, v, h.factor.InverseAdjoint)
		return
	}
	dst.Device().Mul(dst, v, h.inverse)
}

func (h *heldWeights) onHost(dst, v array.Batch, of func(dst, v []float64)) {
	host := v.ToHost()
	of(host, host)
	dst.Device().Upload(dst, host)
}

// heldBy takes the weights that a path holds for solves of this family at y; nil where there are
// none.
func heldBy(path *engine.Path, outer *engine.Family, y []float64) *heldWeights {
	kept := path.Take()
	if kept == nil {
		return nil
	}
	if h, ok := kept.(*heldWeights); ok && h.outer == outer && slices.Equal(h.y, y) {
		return h
	}
	kept.Release()
	return nil
}

// scales are those of a solve that goes on with these weights, or begins without: h is nil then.
func (h *heldWeights) scales(s engine.Task, y array.Batch, norm2 float64) engine.Scales {
	if h == nil {
		return engine.LossScales(s.Problem, y, norm2, s.Options)
	}
	s.Options.Sigma2 = 0
	scales := engine.NewScales(y, norm2, s.Options)
	scales.Y = h.size
	return scales
}

// Apart reports that the derivative has a factor of its own.
func (h *heldWeights) Apart() bool { return !h.lent }

// sharedRoot is sqrt(w), to which columns refer. The last of its users frees it.
type sharedRoot struct {
	array.Batch
	users array.Users
}

func (r *sharedRoot) Release() {
	if r.users.Leave() {
		r.Free()
	}
}

// lend leaves the derivative at a solution the workspace as it is. The path goes on with one that has the same columns.
func (h *heldWeights) lend(at *engine.Point) {
	w := h.path.Kept.(*workspace)
	next := w.goOn()
	if h.lent = next == nil; h.lent {
		return
	}
	h.root.users.Join()
	root, before := h.root, at.Free
	h.path.Kept = next
	at.Free = func() {
		w.Release()
		root.Release()
		if before != nil {
			before()
		}
	}
}

// rootAt takes the factor of the second derivative of a loss. Chord steps do not serve then.
func (h *heldWeights) rootAt(l loss.Coupled, z, y array.Batch) (err error) {
	h.factor, err = l.Root(z, y)
	h.inverse.Free()
	h.inverse = array.Batch{}
	return err
}

func newHeldWeights(dev array.Device, outer *engine.Family, y, root []float64) *heldWeights {
	h := &heldWeights{outer: outer, y: y, family: &engine.Family{Moves: true},
		root: &sharedRoot{Batch: dev.Alloc(1, len(root))}, host: slices.Clone(root)}
	dev.Upload(h.root.Batch, h.host)
	inverse := make([]float64, len(root))
	for i, v := range root {
		if inverse[i] = 1 / v; math.IsInf(inverse[i], 0) {
			return h
		}
	}
	h.inverse = dev.Alloc(1, len(root))
	dev.Upload(h.inverse, inverse)
	return h
}

func (h *heldWeights) Release() {
	h.path.Release()
	h.root.Release()
	h.inverse.Free()
	if h.at != nil {
		h.at.Release()
	}
}
