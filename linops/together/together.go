// Package together lets several problems, each of which fits some rows of one dense matrix X, d x p, read it together.
//
// The operator of a [Part] is R X, for its rows R, or (I - 11*/n) R X. The parts solve at once, each in a goroutine
// of its own. A product is computed when every part that is left has asked for one: all residuals are one matrix Z,
// and Z X reads X once. The columns that the parts work on are stored once, with their Gram matrix G, of which that of
// a part is the difference
//
//	(R X_S)* (R X_S) = G_SS - Q_S* Q_S,
//
// where Q are the rows that it leaves out, and sqrt(n) times the means of the others where these are subtracted.
// Results depend on the parts alone, not on the order in which they run.
package together

import (
	"fmt"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/linops"
)

// Matrix is X, with what its parts share.
type Matrix struct {
	dev    array.Device
	d, p   int
	stored array.Batch
	row    func(i int) []float64
	norms2 func() []float64

	rounds[request]

	place   []int         // of the columns that are stored, -1 for others
	columns []int         // the inverse
	chunks  []array.Batch // the columns as vectors of length d, chunkColumns each
	count   int
	gram    [][]float64 // row i of G: the columns that were stored with i or before
}

// chunkColumns is the number of stored columns in one piece of memory.
const chunkColumns = 512

// Serves reports that the parts of a matrix can share it: it is dense, and on the host.
func Serves(a linops.Operator) bool {
	d, p := a.Dims()
	known := linops.StructureOf(a)
	return known.Dense != nil && known.ColumnNorms2 != nil && !known.Stored.IsZero() && known.Stored.Contiguous() &&
		known.Entries == linops.Known(float64(d)*float64(p)) && d > 0 && p > 0
}

// New is a matrix that [Serves], without parts. a must outlive it.
func New(a linops.Operator) *Matrix {
	known := linops.StructureOf(a)
	m := &Matrix{dev: known.Stored.Device(), stored: known.Stored, norms2: sync.OnceValue(known.ColumnNorms2)}
	m.d, m.p = a.Dims()
	m.row = known.Dense().RawRowView
	m.done, m.serve = sync.NewCond(&m.mu), m.compute
	m.place = slices.Repeat([]int{-1}, m.p)
	return m
}

// Release frees the columns. All parts must have left.
func (m *Matrix) Release() {
	array.Free(m.chunks...)
	m.chunks = nil
}

// request is what a part asks for: products of vectors, one after the other, with X or X*, the columns at a set, or
// their Gram matrix.
type request struct {
	adjoint, forward []float64
	out              []float64 // the products
	columns          []int
	gram             bool
	broken           array.Batch // of a view that has failed
	panicked         any
}

// ask computes what a part needs, together with the others.
func (m *Matrix) ask(p *Part, r *request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.left {
		m.compute([]*request{r})
	} else {
		m.rounds.ask(p.number, r, func() {}, func() {})
	}
	if r.panicked != nil {
		panic(r.panicked)
	}
}

// leave takes a part out: the others go on without it.
func (m *Matrix) leave(p *Part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	m.drop()
}

func (m *Matrix) compute(all []*request) {
	defer func() {
		if failed := recover(); failed != nil {
			for _, r := range all {
				r.panicked = failed
			}
		}
	}()
	m.products(all, m.d, m.p, func(r *request) []float64 { return r.adjoint }, m.byMatrix(true))
	by := m.byMatrix(false)
	if m.holds(all) {
		by = m.byColumns
	}
	m.products(all, m.p, m.d, func(r *request) []float64 { return r.forward }, by)
	var missing []int
	gram := false
	for _, r := range all {
		gram = gram || r.gram
		for _, j := range r.columns {
			if m.place[j] < 0 {
				missing = append(missing, j)
			}
		}
	}
	slices.Sort(missing)
	m.store(slices.Compact(missing))
	if gram {
		m.square()
	}
}

// products multiplies all vectors of length n, to vectors of length to, at once.
func (m *Matrix) products(all []*request, n, to int, of func(r *request) []float64,
	by func(on array.Device, out array.Batch, x []float64)) {
	var x []float64
	for _, r := range all {
		x = append(x, of(r)...)
	}
	k := len(x) / n
	if k == 0 {
		return
	}
	on := m.dev.Request()
	out := on.Alloc(k, to)
	by(on, out, x)
	values := out.ToHost()
	if on.Err() != nil {
		for _, r := range all {
			r.broken = out
		}
		return
	}
	out.Free()
	for _, r := range all {
		if k := len(of(r)) / n; k > 0 {
			r.out, values = values[:k*to:k*to], values[k*to:]
		}
	}
}

func (m *Matrix) byMatrix(adjoint bool) func(on array.Device, out array.Batch, x []float64) {
	return func(on array.Device, out array.Batch, x []float64) {
		k := out.K()
		from := on.Put(x, 1, len(x))
		on.GemmEach(false, !adjoint, 1, from, array.Shape{Rows: k, Cols: len(x) / k}, m.stored.Reshape(1, m.d*m.p),
			array.Shape{Rows: m.d, Cols: m.p}, 0, out.Reshape(1, k*out.N()))
		from.Free()
	}
}

func (m *Matrix) holds(all []*request) bool {
	for _, r := range all {
		for at, v := range r.forward {
			if v != 0 && m.place[at%m.p] < 0 {
				return false
			}
		}
	}
	return true
}

func (m *Matrix) byColumns(on array.Device, out array.Batch, x []float64) {
	on.Fill(out, 0)
	k := out.K()
	m.span(0, m.count, func(vectors array.Batch, at int) {
		n := vectors.K()
		some := make([]float64, k*n)
		for j, place := range m.place {
			if place < at || place >= at+n {
				continue
			}
			for i := range k {
				some[i*n+place-at] = x[i*m.p+j]
			}
		}
		from := on.Put(some, 1, k*n)
		on.GemmEach(false, false, 1, from, array.Shape{Rows: k, Cols: n}, vectors.Reshape(1, n*m.d),
			array.Shape{Rows: n, Cols: m.d}, 1, out.Reshape(1, k*m.d))
		from.Free()
	})
}

func (m *Matrix) store(set []int) {
	for len(set) > 0 {
		at := m.count % chunkColumns
		if at == 0 {
			m.chunks = append(m.chunks, m.dev.Alloc(min(chunkColumns, m.p-m.count), m.d))
		}
		some := set[:min(chunkColumns-at, len(set))]
		set = set[len(some):]
		values := make([]float64, len(some)*m.d)
		for i := range m.d {
			row := m.row(i)
			for c, j := range some {
				values[c*m.d+i] = row[j]
			}
		}
		m.dev.Upload(m.chunks[len(m.chunks)-1].Rows(at, at+len(some)), values)
		for _, j := range some {
			m.place[j] = m.count
			m.columns = append(m.columns, j)
			m.count++
		}
	}
}

func (m *Matrix) square() {
	for from := len(m.gram); from < m.count; from = len(m.gram) {
		end := min(m.count, (from/chunkColumns+1)*chunkColumns)
		k := end - from
		for range k {
			m.gram = append(m.gram, make([]float64, end))
		}
		m.span(from, end, func(new array.Batch, _ int) {
			m.span(0, end, func(other array.Batch, at int) {
				n := other.K()
				out := m.dev.Alloc(1, k*n)
				m.dev.GemmEach(false, true, 1, new.Reshape(1, k*m.d), array.Shape{Rows: k, Cols: m.d},
					other.Reshape(1, n*m.d), array.Shape{Rows: n, Cols: m.d}, 0, out)
				values := out.ToHost()
				out.Free()
				for i := range k {
					copy(m.gram[from+i][at:], values[i*n:(i+1)*n])
				}
			})
		})
	}
}

// span hands out the stored columns from one place to another, piece by piece.
func (m *Matrix) span(from, end int, f func(vectors array.Batch, at int)) {
	for from < end {
		c := from / chunkColumns
		to := min(end, (c+1)*chunkColumns)
		f(m.chunks[c].Rows(from-c*chunkColumns, to-c*chunkColumns), from)
		from = to
	}
}

func (m *Matrix) entry(i, j int) float64 {
	if j < len(m.gram[i]) {
		return m.gram[i][j]
	}
	return m.gram[j][i]
}

func (m *Matrix) check(name string, dst, x array.Batch, to, n int) {
	if dst.K() != x.K() || dst.N() != to || x.N() != n {
		panic(fmt.Sprintf("linops: %s of some rows of a matrix: %s into %s, expected vectors of length %d into %d",
			name, x, dst, n, to))
	}
}
