package linops

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// Selection picks d of p coordinates, in the order of its index list i0, i1, ...
//
//	Forward: dst_j = b[i_j]        Adjoint: dst = 0, then dst[i_j] = z_j
//
// The coordinates are distinct, and so A A* = I. The observation operator of matrix completion is a
// Selection of the row-major matrix's entries; on a tangent space of low-rank matrices its products
// read only the selected places.
type Selection struct {
	base
	dev array.Device
	idx []int
	on  array.Index

	mu       sync.Mutex
	patterns map[array.Shape]array.Pattern // of the sorted places, made when first needed
	places   []int                         // the sorted index list
	rows     []int                         // of the sorted places among idx; nil where idx is sorted
	order    array.Index                   // rows on the device, made when first needed
}

// NewSelection puts the index list on a device. It returns an error where an index lies outside of
// [0, p) or occurs twice. The slice is kept, and must not be modified. Nothing of length p is
// allocated; where p is larger than an int32 there are no vectors of that length on a device, and
// Forward and Adjoint panic: such a selection serves by what its Structure knows, On and Sampled.
func NewSelection(dev array.Device, p int, idx []int) (*Selection, error) {
	if p < 0 {
		return nil, fmt.Errorf("linops: selection from %d coordinates, want at least 0", p)
	}
	for i, v := range idx {
		if v < 0 || v >= p {
			return nil, fmt.Errorf("linops: selection index %d is %d, want 0 to %d", i, v, p-1)
		}
	}
	a := &Selection{dev: dev, idx: idx}
	a.base = base{name: "Selection", d: len(idx), p: p, run: a.pick}
	a.sort()
	for e := 1; e < len(a.places); e++ {
		if v := a.places[e]; v == a.places[e-1] {
			j := slices.Index(idx, v)
			i := j + 1 + slices.Index(idx[j+1:], v)
			return nil, fmt.Errorf("linops: selection index %d is %d, as is index %d; each coordinate may occur once",
				i, v, j)
		}
	}
	if p <= math.MaxInt32 {
		a.on = dev.NewIndex(idx)
	}
	s := Structure{Rows: Known(1), ColumnNorms2: a.columnNorms2, ColumnSpread: a.columnSpread, On: a.onSpace,
		Sampling: Sampling{Sampled: a.sampled, Parts: a.wholeParts, Picked: a.picked},
		Storage:  Storage{Listed: listed(len(idx), idx, nil), PickRows: a.pickRows}}
	a.structure = Complete(a, s)
	return a, nil
}

func (a *Selection) pickRows(dev array.Device, rows []int) (Operator, func(), error) {
	return selected(dev, a.p, lists.Pick(a.idx, rows))
}

// onSpace is the selection on a tangent space of matrices with p entries; nil on other spaces.
func (a *Selection) onSpace(dev array.Device, t space.Space) Restricted {
	f := t.Form()
	if f.Kind != space.FixedRank {
		return nil
	}
	pattern, order := a.sampled(dev, f.Shape)
	if pattern == nil {
		return nil
	}
	r := &sampledTangent{tangent: tangent{f}, pattern: pattern, order: order}
	if float64(a.d) >= mostly*float64(a.p) {
		r.whole = a.on
	}
	r.base = base{name: "Selection on a tangent space", d: a.d, p: r.len(), run: r.multiply}
	return r
}

func (a *Selection) picked(shape array.Shape) *Picked {
	if shape.Len() != a.p || shape.Rows < 0 || shape.Cols < 0 {
		return nil
	}
	return &Picked{Places: a.idx}
}

// sampled returns the selected places in matrices of the given shape, sorted, and which row of A
// each is; nil for shapes that do not have p entries, and where there is no memory for them. They
// are made on a view of the device that has no other use, because they are shared by all requests.
func (a *Selection) sampled(dev array.Device, shape array.Shape) (places array.Pattern, order array.Index) {
	if shape.Len() != a.p || shape.Rows < 0 || shape.Cols < 0 {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	made := func(free func(), on array.Device) bool {
		if on.Err() == nil {
			return true
		}
		free()
		fail(dev, on)
		return false
	}
	if a.rows != nil && a.order == nil {
		on := a.dev.Request()
		if order := on.NewIndex(a.rows); made(order.Free, on) {
			a.order = order
		} else {
			return nil, nil
		}
	}
	if a.patterns[shape] == nil {
		on := a.dev.Request()
		places := on.NewPattern(shape.Rows, shape.Cols, a.places)
		if !made(places.Free, on) {
			return nil, nil
		}
		if a.patterns == nil {
			a.patterns = map[array.Shape]array.Pattern{}
		}
		a.patterns[shape] = places
	}
	return a.patterns[shape], a.order
}

// fail gives dev the fault of another view of the same device: dev reads a batch of that view.
func fail(dev, failed array.Device) {
	from, to := failed.Alloc(1, 1), dev.Alloc(1, 1)
	dev.Copy(to, from)
	array.Free(from, to)
}

func (a *Selection) sort() {
	a.places = a.idx
	if slices.IsSorted(a.idx) {
		return
	}
	rows := lists.Upto(len(a.idx))
	slices.SortFunc(rows, func(i, j int) int {
		if c := cmp.Compare(a.idx[i], a.idx[j]); c != 0 {
			return c
		}
		return cmp.Compare(i, j)
	})
	a.places = make([]int, len(rows))
	for e, i := range rows {
		a.places[e] = a.idx[i]
	}
	a.rows = rows
}

// Release frees the device memory. The operator is dead afterwards.
func (a *Selection) Release() {
	if a.on != nil {
		a.on.Free()
		a.on = nil
	}
	for _, p := range a.patterns {
		p.Free()
	}
	a.patterns = nil
	if a.order != nil {
		a.order.Free()
		a.order = nil
	}
}

// Indices lists the selected coordinates. It must not be modified.
func (a *Selection) Indices() []int { return a.idx }

// pick panics where vectors of length p are longer than an index reaches.
func (a *Selection) pick(w product.Direction, dst, x array.Batch) {
	switch {
	case a.on == nil:
		panic(fmt.Sprintf("linops: a product of a selection from %d coordinates, want at most %d: larger ones are "+
			"restricted to spaces", a.p, math.MaxInt32))
	case w == product.Forward:
		dst.Device().Gather(dst, x, a.on)
	default:
		dst.Device().Scatter(dst, x, a.on)
	}
}

func (a *Selection) columnSpread() (least, most float64) {
	if len(a.idx) == 0 {
		return math.Inf(1), 0
	}
	return 1, 1
}

func (a *Selection) columnNorms2() []float64 {
	norms := make([]float64, a.p)
	for _, i := range a.idx {
		norms[i] = 1
	}
	return norms
}
