package array

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/array/internal/simd"
)

// Pattern is the places of the entries of sparse matrices, on a device. The entries themselves are
// vectors: a batch whose vector i has one value for each place is a batch of sparse matrices Z_i.
type Pattern interface {
	// Dims is the matrices' size.
	Dims() (rows, cols int)
	// Len is the number of entries.
	Len() int
	// Free gives the memory back.
	Free()
}

// CheckPattern panics unless places are row-major places of a rows x cols matrix. It does not check
// that they are distinct. It is for implementations of [Device].
func CheckPattern(rows, cols int, places []int) {
	if rows < 0 || cols < 0 || rows > math.MaxInt32 || cols > math.MaxInt32 || len(places) > math.MaxInt32 {
		panic(fmt.Sprintf("array: a pattern of %d places in a %d x %d matrix", len(places), rows, cols))
	}
	for e, p := range places {
		if p < 0 || cols == 0 || p/cols >= rows {
			panic(fmt.Sprintf("array: place %d of a pattern is %d, expected 0 to %d", e, p, rows*cols-1))
		}
	}
}

// PatternRank is the number r of columns of the factors of a product in a pattern: left is m x r,
// right n x r, row-major. It panics if the lengths fit no r. It is for implementations of [Device].
func PatternRank(op string, p Pattern, z, left, right Batch) int {
	m, n := p.Dims()
	r := 0
	switch {
	case m > 0:
		r = left.n / m
	case n > 0:
		r = right.n / n
	}
	if z.n != p.Len() || left.n != m*r || right.n != n*r {
		panic(fmt.Sprintf("array: %s of %s and %s with values %s in a pattern of %d places in a %d x %d matrix", op, left, right, z, p.Len(), m, n))
	}
	return r
}

// hostPattern lists the entries by rows and by columns.
type hostPattern struct {
	rows, cols int
	byRow      adjacency
	byCol      adjacency
}

// adjacency lists the entries of a sparse matrix line by line, a line being a row or a column: for
// ptr[i] <= u < ptr[i+1], entry[u] is the index of a value in line i and other[u] its column or
// row.
type adjacency struct {
	ptr          []int32
	entry, other []int32
	longest      int
}

// newAdjacency lists the entries. Each line keeps them in the given order; nil stands for their
// own.
func newAdjacency(lines int, line, other, order []int32) adjacency {
	a := adjacency{ptr: make([]int32, lines+1), entry: make([]int32, len(line)), other: make([]int32, len(line))}
	for _, i := range line {
		a.ptr[i+1]++
	}
	for i := range lines {
		a.longest = max(a.longest, int(a.ptr[i+1]))
		a.ptr[i+1] += a.ptr[i]
	}
	next := append([]int32(nil), a.ptr[:lines]...)
	for k := range line {
		e := int32(k)
		if order != nil {
			e = order[k]
		}
		i := line[e]
		u := next[i]
		next[i]++
		a.entry[u], a.other[u] = e, other[e]
	}
	return a
}

func (p *hostPattern) Dims() (rows, cols int) { return p.rows, p.cols }
func (p *hostPattern) Len() int               { return len(p.byRow.entry) }
func (p *hostPattern) Free()                  {}

// NewPattern lists the entries by rows and by columns.
func (h *Host) NewPattern(rows, cols int, places []int) Pattern {
	CheckPattern(rows, cols, places)
	i, j := make([]int32, len(places)), make([]int32, len(places))
	for e, p := range places {
		i[e], j[e] = int32(p/cols), int32(p%cols)
	}
	// Along a line the rows of the other factor are then read in the order of memory.
	var order []int32
	if !slices.IsSorted(places) {
		order = newAdjacency(cols, j, i, nil).entry
	}
	byRow := newAdjacency(rows, i, j, order)
	return &hostPattern{rows, cols, byRow, newAdjacency(cols, j, i, byRow.entry)}
}

// productGrain is the number of multiplications that one goroutine takes at a time.
const productGrain = 1 << 17

// SampleProduct sets the entries of A_i B_i* in the pattern.
func (h *Host) SampleProduct(dst Batch, pattern Pattern, alpha float64, a, b Batch, beta float64) {
	p := h.pattern("SampleProduct", pattern, dst, a, b)
	r := PatternRank("SampleProduct", pattern, dst, a, b)
	k := dst.k
	if (a.k != 1 && a.k != k) || (b.k != 1 && b.k != k) {
		panic(fmt.Sprintf("array: SampleProduct of %s and %s into %s", a, b, dst))
	}
	if k == 0 || p.Len() == 0 {
		return
	}
	if r == 0 {
		h.scale(dst, beta)
		return
	}
	// The lines are those of the factor that differs from vector to vector.
	lines, each, shared := &p.byRow, a, b
	if a.k == 1 && k > 1 {
		lines, each, shared = &p.byCol, b, a
	}
	if k == 1 || shared.k > 1 {
		runVectors(sampleKernel, lines, k, r, dst, each, shared, alpha, beta)
		return
	}
	runLines(sampleTileKernel, lines, k, r, dst, each, shared, alpha, beta)
}

// SpreadProduct sets C_i = alpha Z_i B_i + beta C_i, or Z_i* B_i.
func (h *Host) SpreadProduct(trans bool, alpha float64, pattern Pattern, z, b Batch, beta float64, c Batch) {
	p := h.pattern("SpreadProduct", pattern, z, b, c)
	left, right, lines := c, b, &p.byRow
	if trans {
		left, right, lines = b, c, &p.byCol
	}
	r := PatternRank("SpreadProduct", pattern, z, left, right)
	k := c.k
	if (z.k != 1 && z.k != k) || (b.k != 1 && b.k != k) {
		panic(fmt.Sprintf("array: SpreadProduct of %s and %s into %s", z, b, c))
	}
	if k == 0 || c.n == 0 {
		return
	}
	if k == 1 || b.k > 1 || z.k == 1 {
		runVectors(spreadKernel, lines, k, r, c, z, b, alpha, beta)
		return
	}
	runLines(spreadTileKernel, lines, k, r, c, z, b, alpha, beta)
}

func (h *Host) pattern(op string, pattern Pattern, bs ...Batch) *hostPattern {
	for _, b := range bs {
		h.own(b)
	}
	p, ok := pattern.(*hostPattern)
	if !ok {
		panic(fmt.Sprintf("array: %s on the host with a %T", op, pattern))
	}
	return p
}

// runLines runs a kernel over the lines of a pattern, for all vectors at a time.
func runLines(kernel func(*task, int, int), lines *adjacency, k, r int, dst, x, y Batch, alpha, beta float64) {
	runPieces(kernel, lines, 1, k*r, r, dst, x, y, alpha, beta)
}

// runVectors runs a kernel over the lines of the first vector's matrix, then the second's, and so
// on: what the lines of one matrix share stays in the cache.
func runVectors(kernel func(*task, int, int), lines *adjacency, k, r int, dst, x, y Batch, alpha, beta float64) {
	runPieces(kernel, lines, k, r, r, dst, x, y, alpha, beta)
}

// runPieces runs a kernel over all lines, a number of times. An entry takes work multiplications.
func runPieces(kernel func(*task, int, int), lines *adjacency, times, work, r int, dst, x, y Batch, alpha, beta float64) {
	n := len(lines.ptr) - 1
	perLine := max(1, work*max(len(lines.entry), 1)/max(n, 1))
	t := newTask(kernel, times*n, max(1, productGrain/perLine))
	t.lines, t.width = lines, r
	t.dst, t.x, t.y, t.a, t.b = dst, x, y, alpha, beta
	t.run()
}

// eachVector splits a range of runVectors by vectors.
func (t *task) eachVector(lo, hi int, do func(v, from, to int)) {
	n := len(t.lines.ptr) - 1
	for lo < hi {
		v := lo / n
		end := min(hi, (v+1)*n)
		do(v, lo-v*n, end-v*n)
		lo = end
	}
}

// sampleKernel computes the entries of lines lo to hi-1 one by one.
func sampleKernel(t *task, lo, hi int) {
	r := t.width
	t.eachVector(lo, hi, func(v, from, to int) {
		d, x, y := t.dst.row(v), t.x.row(v), t.y.row(v)
		for i := from; i < to; i++ {
			xi := x[i*r:][:r]
			for u := t.lines.ptr[i]; u < t.lines.ptr[i+1]; u++ {
				s := t.a * simd.Dot(xi, y[int(t.lines.other[u])*r:])
				e := t.lines.entry[u]
				if t.b != 0 {
					s += t.b * d[e]
				}
				d[e] = s
			}
		}
	})
}

// sampleTileKernel computes the entries of lines lo to hi-1 for a tile of vectors at a time: where
// y is shared, a line is a product of matrices.
func sampleTileKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	h := t.dst.dev.(*Host)
	r, rows := t.width, patternTile.rows
	mem := h.Alloc(1, rows*r+t.lines.longest*(r+rows))
	defer h.Free(mem)
	m := mem.row(0)
	x, space, out := m[:rows*r], m[rows*r:][:t.lines.longest*r], m[(rows+t.lines.longest)*r:]
	for i := lo; i < hi; i++ {
		others := t.lines.other[t.lines.ptr[i]:t.lines.ptr[i+1]]
		entries := t.lines.entry[t.lines.ptr[i]:t.lines.ptr[i+1]]
		n := len(others)
		if n == 0 {
			continue
		}
		y := gatherLines(space, t.y.row(0), others, r)
		for v := 0; v < t.dst.k; v += rows {
			w := min(rows, t.dst.k-v)
			for s := range w {
				copy(x[s*r:][:r], t.x.row(v + s)[i*r:])
			}
			clear(x[w*r:])
			impl.Dgemm(blas.NoTrans, blas.Trans, patternTile.height(w), n, r, t.a, x, r, y, r, 0, out, n)
			for s := range w {
				d, o := t.dst.row(v+s), out[s*n:][:n]
				if t.b == 0 {
					for u, e := range entries {
						d[e] = o[u]
					}
					continue
				}
				for u, e := range entries {
					d[e] = o[u] + t.b*d[e]
				}
			}
		}
	}
}

// gatherLines returns the given rows of the r-column matrix src, copied to dst unless they are one after
// the other.
func gatherLines(dst, src []float64, lines []int32, r int) []float64 {
	if consecutive(lines) {
		return src[int(lines[0])*r:][:len(lines)*r]
	}
	for u, j := range lines {
		copy(dst[u*r:][:r], src[int(j)*r:])
	}
	return dst
}

// consecutive reports whether there are lines, one after the other.
func consecutive(lines []int32) bool {
	for u, j := range lines {
		if j != lines[0]+int32(u) {
			return false
		}
	}
	return len(lines) > 0
}

// spreadKernel computes lines lo to hi-1 by adding up rows of B_i.
func spreadKernel(t *task, lo, hi int) {
	r := t.width
	t.eachVector(lo, hi, func(v, from, to int) {
		c, z, y := t.dst.row(v), t.x.row(v), t.y.row(v)
		for i := from; i < to; i++ {
			ci := c[i*r:][:r]
			if t.b == 0 {
				clear(ci)
			} else if t.b != 1 {
				for l := range ci {
					ci[l] *= t.b
				}
			}
			u, end := t.lines.ptr[i], t.lines.ptr[i+1]
			simd.AddRows(ci, t.a, z, t.lines.entry[u:end], y, t.lines.other[u:end], r)
		}
	})
}

// spreadTileKernel computes lines lo to hi-1 for a tile of vectors at a time: where B is shared, a
// line is a product of matrices.
func spreadTileKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	h := t.dst.dev.(*Host)
	r, rows := t.width, patternTile.rows
	mem := h.Alloc(1, rows*r+t.lines.longest*(r+rows))
	defer h.Free(mem)
	m := mem.row(0)
	out, space, z := m[:rows*r], m[rows*r:][:t.lines.longest*r], m[(rows+t.lines.longest)*r:]
	for i := lo; i < hi; i++ {
		others := t.lines.other[t.lines.ptr[i]:t.lines.ptr[i+1]]
		entries := t.lines.entry[t.lines.ptr[i]:t.lines.ptr[i+1]]
		n := len(others)
		y := gatherLines(space, t.y.row(0), others, r)
		for v := 0; v < t.dst.k; v += rows {
			w := min(rows, t.dst.k-v)
			if n == 0 {
				clear(out[:w*r])
			} else {
				for s := range w {
					values, zs := t.x.row(v+s), z[s*n:][:n]
					for u, e := range entries {
						zs[u] = values[e]
					}
				}
				clear(z[w*n : rows*n])
				impl.Dgemm(blas.NoTrans, blas.NoTrans, patternTile.height(w), r, n, t.a, z, n, y, r, 0, out, r)
			}
			for s := range w {
				c, o := t.dst.row(v + s)[i*r:][:r], out[s*r:][:r]
				if t.b == 0 {
					copy(c, o)
					continue
				}
				for l, x := range o {
					c[l] = x + t.b*c[l]
				}
			}
		}
	}
}
