//go:build cuda

package cuda

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"gorgonia.org/cu"

	"surepipe/array"
)

// cuBLAS chooses its kernel by all sizes of a product, including the number of rows, and the kernel
// determines the last bits of a row. Vector i of a result must not depend on the number of others.
// So cuBLAS gets tiles of one fixed number of rows, the last one padded, and only for large
// products, where a tile is enough work for a card. Small and batched products go to
// kernels/gemm.cu, whose every entry is a sum in the order of the inner index.
//
// The batched products of cuBLAS depend on the number of matrices, which is the number of vectors:
// they are not used. A large product is one call per vector, all with the same sizes.
const (
	// tileRows is the number of rows. 34 vectors, a third of Hutch++'s queries, are the most
	// frequent batch; up to about 64 rows a card is bound by memory.
	tileRows = 64
	// tiledWork is the size of op(B), in values, from which Gemm goes to cuBLAS.
	tiledWork = 1 << 18
	// eachWork is the number of multiplications of one matrix from which GemmEach does.
	eachWork = 1 << 24
	// workspace is the memory that cuBLAS is given, so that it allocates none itself; on small
	// cards it is a part of the bound.
	workspace = 32 << 20
)

// products is the state of cuBLAS on a card.
type products struct {
	// starting is locked while cuBLAS is started. A start that fails is tried again by the next
	// caller: the first may have run out of memory.
	starting sync.Mutex
	started  atomic.Bool
	mu       sync.Mutex // one call at a time: they share the handle
	handle   blasHandle
	// trying is locked while tiles is determined.
	trying sync.Mutex
	tiles  atomic.Int32
}

// The values of products.tiles: whether equal rows of a tile have equal bits.
const (
	untried = iota
	agree
	differ
)

func (p *products) close() error {
	if p.handle.h == 0 {
		return nil
	}
	return p.handle.destroy()
}

// matrix is a row-major matrix as cuBLAS sees it.
type matrix struct {
	at cu.DevicePtr
	ld int
}

func matrixOf(b array.Batch) matrix { return matrix{at(b), max(b.Stride(), b.N(), 1)} }

// cublas calls cuBLAS, which it starts the first time.
func (d *Device) cublas(op string, c array.Batch, f func(h blasHandle) error) {
	p := &d.products
	if !p.started.Load() && !d.startBLAS(op, c) {
		return
	}
	d.do(op, c, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return f(p.handle)
	})
}

// startBLAS starts cuBLAS, unless it is started, and reports whether it runs.
func (d *Device) startBLAS(op string, c array.Batch) bool {
	p := &d.products
	p.starting.Lock()
	defer p.starting.Unlock()
	if p.started.Load() {
		return true
	}
	bytes := min(workspace, d.limit/64) &^ 255
	space := d.take(1, int(bytes/8), array.Capacity(1, int(bytes/8)))
	ok := d.do("starting cuBLAS for "+op, c, func() error {
		handle, err := newBLAS(d.stream)
		if err == nil {
			err = handle.setWorkspace(space.at, bytes)
		}
		if err != nil && handle.h != 0 {
			return errors.Join(err, handle.destroy())
		}
		p.handle = handle
		return err
	})
	if !ok {
		d.give(space)
		return false
	}
	p.started.Store(true)
	return true
}

// fits reports whether sizes are within cuBLAS's integers.
func fits(sizes ...int) bool {
	for _, n := range sizes {
		if n > math.MaxInt32 {
			return false
		}
	}
	return true
}

// scale sets C = beta C, which is zero for beta = 0 whatever C held.
func (d *Device) scale(c array.Batch, beta float64) {
	if beta == 0 {
		d.Fill(c, 0)
	} else {
		d.Lin(c, beta, c, 0, array.Batch{})
	}
}

func (d *Device) Gemm(transA, transB bool, alpha float64, a, b array.Batch, beta float64, c array.Batch) {
	d = d.into(c, a, b)
	inner := array.CheckGemm(transA, transB, a, b, c)
	m, n := c.K(), c.N()
	switch {
	case m == 0 || n == 0:
	case inner == 0:
		d.scale(c, beta)
	case !fits(n, inner, a.Stride(), b.Stride(), c.Stride()):
		d.ownGemm(transA, transB, m, n, inner, alpha, a, b, beta, c)
	case m == 1 && !transA:
		d.cublas("Gemm", c, func(h blasHandle) error {
			return h.gemv(transB, n, inner, alpha, matrixOf(a), matrixOf(b), beta, matrixOf(c))
		})
	case n*inner < tiledWork || !d.tilesAgree():
		d.ownGemm(transA, transB, m, n, inner, alpha, a, b, beta, c)
	default:
		d.tiledGemm(transA, transB, n, inner, alpha, a, b, beta, c)
	}
}

func (d *Device) ownGemm(transA, transB bool, m, n, inner int, alpha float64, a, b array.Batch, beta float64,
	c array.Batch) {
	d.launchProducts("Gemm", c, transA, transB, m, n, inner, alpha, matrixOf(a), 0, matrixOf(b), 0, beta, matrixOf(c),
		0, 1)
}

func (d *Device) launchProducts(op string, result array.Batch, transA, transB bool, m, n, inner int, alpha float64,
	a matrix, as int, b matrix, bs int, beta float64, c matrix, cs, batch int) {
	const side = 64 // TILE in gemm.cu
	tiles := int64((m+side-1)/side) * int64((n+side-1)/side) * int64(batch)
	d.do(op, result, func() error {
		return d.launchGemm(blocksFor(tiles), int64(flag(transA)), int64(flag(transB)), int64(m), int64(n),
			int64(inner), alpha, a.at, int64(a.ld), int64(as), b.at, int64(b.ld), int64(bs), beta, c.at, int64(c.ld),
			int64(cs), int64(batch))
	})
}

func rowsOf(a array.Batch, trans bool, r, s int) array.Batch {
	if trans {
		return a.Cols(r, s)
	}
	return a.Rows(r, s)
}

// tile is Gemm with tileRows rows, by cuBLAS.
func (d *Device) tile(transA, transB bool, n, inner int, alpha float64, a, b array.Batch, beta float64, c array.Batch) {
	d.cublas("Gemm", c, func(h blasHandle) error {
		return h.gemm(transA, transB, tileRows, n, inner, alpha, matrixOf(a), matrixOf(b), beta, matrixOf(c))
	})
}

func (d *Device) tiledGemm(transA, transB bool, n, inner int, alpha float64, a, b array.Batch, beta float64,
	c array.Batch) {
	m := c.K()
	whole := m - m%tileRows
	for r := 0; r < whole; r += tileRows {
		d.tile(transA, transB, n, inner, alpha, rowsOf(a, transA, r, r+tileRows), b, beta, c.Rows(r, r+tileRows))
	}
	if whole == m {
		return
	}
	// Leading dimensions have the parity of those of the operands, because cuBLAS depends on the
	// alignment of rows.
	last, to := rowsOf(a, transA, whole, m), c.Rows(whole, m)
	k, width := tileRows, inner
	if transA {
		k, width = inner, tileRows
	}
	pa := d.Alloc(k, width+(width+a.Stride())%2)
	pc := d.Alloc(tileRows, n+(n+c.Stride())%2)
	defer d.Free(pa)
	defer d.Free(pc)
	padded, result := pa.Cols(0, width), pc.Cols(0, n)
	d.Fill(pa, 0)
	d.Copy(padded.Rows(0, last.K()).Cols(0, last.N()), last)
	if beta != 0 {
		d.Fill(result, 0)
		d.Copy(result.Rows(0, to.K()), to)
	}
	d.tile(transA, transB, n, inner, alpha, padded, b, beta, result)
	d.Copy(to, result.Rows(0, to.K()))
}

// tilesAgree tests once whether cuBLAS gives equal rows of a tile equal bits, for products of
// several shapes. If it does not, it is given no tiles.
func (d *Device) tilesAgree() bool {
	p := &d.products
	if p.tiles.Load() == untried {
		p.trying.Lock()
		defer p.trying.Unlock()
		if p.tiles.Load() == untried {
			found := d.tryTiles()
			if d.Err() != nil {
				return false // the fault says nothing about cuBLAS, and nothing will be computed
			}
			p.tiles.Store(found)
		}
	}
	return p.tiles.Load() == agree
}

func (d *Device) tryTiles() int32 {
	for _, size := range [][2]int{{770, 513}, {34, 9001}, {5000, 64}} {
		for _, trans := range []bool{false, true} {
			if !d.tileAgrees(trans, size[0], size[1]) {
				return differ
			}
		}
	}
	return agree
}

// tileAgrees multiplies a tile of equal rows by a matrix of rank one and compares the
// rows of the result.
func (d *Device) tileAgrees(trans bool, n, inner int) bool {
	row, col, a, c, first := d.Alloc(1, inner), d.Alloc(1, n), d.Alloc(tileRows, inner), d.Alloc(tileRows, n),
		d.Alloc(1, n)
	defer func() {
		for _, b := range []array.Batch{row, col, a, c, first} {
			d.Free(b)
		}
	}()
	noise := make([]float64, max(inner, n))
	for i := range noise {
		noise[i] = math.Mod(float64(i+1)*math.Phi, 1) - 0.5
	}
	d.Upload(row, noise[:inner])
	d.Upload(col, noise[:n])
	d.Copy(a, row)
	left, right := row, col
	if trans {
		left, right = col, row
	}
	b := d.Alloc(left.N(), right.N())
	defer d.Free(b)
	d.ownGemm(true, false, left.N(), right.N(), 1, 1, left, right, 0, b)
	d.tile(false, trans, n, inner, 1, a, b, 0, c)
	d.Copy(first, c.Rows(0, 1))
	d.Lin(c, 1, c, -1, first)
	differences := make([]float64, tileRows)
	d.MaxAbs(differences, c)
	for _, v := range differences {
		if v != 0 {
			return false
		}
	}
	return true
}

func (d *Device) GemmEach(transA, transB bool, alpha float64, a array.Batch, sa array.Shape, b array.Batch,
	sb array.Shape, beta float64, c array.Batch) {
	d = d.into(c, a, b)
	m, n, inner := array.CheckGemmEach(transA, transB, a, sa, b, sb, c)
	if c.K() == 0 || c.N() == 0 {
		return
	}
	if inner == 0 {
		d.scale(c, beta)
		return
	}
	stride := func(b array.Batch) int { return int(operandOf(b).stride) }
	as, bs, cs := stride(a), stride(b), stride(c)
	ma, mb, mc := matrix{at(a), max(sa.Cols, 1)}, matrix{at(b), max(sb.Cols, 1)}, matrix{at(c), max(n, 1)}
	// cuBLAS depends on the alignment, which must be the same for every matrix.
	if float64(m)*float64(n)*float64(inner) < eachWork || as%2+bs%2+cs%2 != 0 || !fits(m, n, inner) {
		d.launchProducts("GemmEach", c, transA, transB, m, n, inner, alpha, ma, as, mb, bs, beta, mc, cs, c.K())
		return
	}
	d.cublas("GemmEach", c, func(h blasHandle) error {
		var errs error
		for i := range c.K() {
			on := func(m matrix, stride int) matrix { return matrix{m.at + cu.DevicePtr(8*i*stride), m.ld} }
			errs = errors.Join(errs, h.gemm(transA, transB, m, n, inner, alpha, on(ma, as), on(mb, bs), beta,
				on(mc, cs)))
		}
		return errs
	})
}
