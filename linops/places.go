package linops

import (
	"fmt"

	"surepipe/array"
)

// Places is a set of entries of m x n matrices, row-major. It is also kept by panels of consecutive
// rows, so that a matrix need not exist as a whole.
type Places struct {
	shape   array.Shape
	pattern array.Pattern
	rows    int   // of a panel
	starts  []int // the entries of the set before each panel
	panels  []array.Index
}

// panelValues is about the number of entries in a panel of a matrix: enough for the processors to
// share, few enough for their caches.
var panelValues = 1 << 16

// NewPlaces puts the set of the given entries, in increasing order, on dev. The caller frees it.
func NewPlaces(dev array.Device, shape array.Shape, set []int) *Places {
	p := &Places{
		shape: shape, pattern: dev.NewPattern(shape.Rows, shape.Cols, set),
		rows: min(shape.Rows, max(1, panelValues/max(shape.Cols, 1))),
	}
	var within []int
	for from, at := 0, 0; from < shape.Len(); from += p.Panel() {
		p.starts = append(p.starts, at)
		for within = within[:0]; at < len(set) && set[at] < from+p.Panel(); at++ {
			within = append(within, set[at]-from)
		}
		p.panels = append(p.panels, dev.NewIndex(within))
	}
	p.starts = append(p.starts, len(set))
	return p
}

// Pattern is the set as the places of a sparse matrix's entries. It belongs to the set.
func (p *Places) Pattern() array.Pattern { return p.pattern }

// Len is the number of entries in the set.
func (p *Places) Len() int { return p.pattern.Len() }

// Panel is the number of entries in a panel; the last has what is left.
func (p *Places) Panel() int { return p.rows * p.shape.Cols }

func (p *Places) Bytes() int64 {
	bytes := 16 * int64(p.Len()) // the pattern by rows and by columns
	for _, x := range p.panels {
		bytes += x.Bytes()
	}
	return bytes
}

func (p *Places) Free() {
	p.pattern.Free()
	for _, x := range p.panels {
		x.Free()
	}
}

func (p *Places) each(f func(from, to int)) {
	for from := 0; from < p.shape.Len(); from += p.Panel() {
		f(from, min(from+p.Panel(), p.shape.Len()))
	}
}

// index lists the entries of the set in the panel that begins at entry from.
func (p *Places) index(from int) array.Index { return p.panels[p.at(from)] }

func (p *Places) at(from int) int {
	if from < 0 || from%p.Panel() != 0 || from >= p.shape.Len() {
		panic(fmt.Sprintf("linops: no panel of %d entries begins at entry %d of a %d x %d matrix", p.Panel(), from,
			p.shape.Rows, p.shape.Cols))
	}
	return from / p.Panel()
}

// Gather sets dst_i to the entries of z_i in the set.
func (p *Places) Gather(dst, z array.Batch) {
	p.each(func(from, to int) {
		k := p.at(from)
		if a, b := p.starts[k], p.starts[k+1]; b > a {
			dst.Device().Gather(dst.Cols(a, b), z.Cols(from, to), p.panels[k])
		}
	})
}

// Clear sets the entries in the set to 0 in the panel z_i that begins at an entry of each vector.
func (p *Places) Clear(z array.Batch, from int) { p.addPanel(z, -1, z, from) }

// Add sets dst_i = dst_i + a z_i for the entries in the set.
func (p *Places) Add(dst array.Batch, a float64, z array.Batch) {
	p.each(func(from, to int) { p.addPanel(dst.Cols(from, to), a, z.Cols(from, to), from) })
}

func (p *Places) addPanel(dst array.Batch, a float64, z array.Batch, from int) {
	idx := p.index(from)
	if idx.Len() == 0 {
		return
	}
	dev := dst.Device()
	some, all := dev.Alloc(z.K(), idx.Len()), dev.Alloc(z.K(), z.N())
	defer array.Free(some, all)
	dev.Gather(some, z, idx)
	dev.Scatter(all, some, idx)
	dev.Lin(dst, 1, dst, a, all)
}
