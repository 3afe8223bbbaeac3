package solve

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/array"
	"surepipe/prox/subspace"
)

// lines lists the entries of a sparse pattern line by line on the host: other[ptr[i]:ptr[i+1]] are
// the columns that are seen in row i, or the rows in column i.
type lines struct {
	ptr   []int
	other []int32
}

// seen lists a pattern by rows and by columns. The pattern is on a device: its places are the entries
// of the matrices i 1* and 1 j*.
func seen(dev array.Device, pattern array.Pattern) [2]lines {
	m, n := pattern.Dims()
	index := func(rows bool) []float64 {
		left, right, z := dev.Alloc(1, m), dev.Alloc(1, n), dev.Alloc(1, pattern.Len())
		defer left.Free()
		defer right.Free()
		defer z.Free()
		count, ones := left, right
		if !rows {
			count, ones = right, left
		}
		host := make([]float64, count.N())
		for i := range host {
			host[i] = float64(i)
		}
		dev.Upload(count, host)
		dev.Fill(ones, 1)
		dev.SampleProduct(z, pattern, 1, left, right, 0)
		return z.ToHost()
	}
	i, j := index(true), index(false)
	if dev.Err() != nil {
		return [2]lines{}
	}
	return [2]lines{listed(dev, m, i, j), listed(dev, n, j, i)}
}

// listed ends early, without a meaning, where the device has failed.
func listed(dev array.Device, n int, line, other []float64) lines {
	l := lines{make([]int, n+1), make([]int32, len(line))}
	for _, i := range line {
		l.ptr[int(i)+1]++
	}
	for i := range n {
		l.ptr[i+1] += l.ptr[i]
	}
	next := append([]int(nil), l.ptr[:n]...)
	for e, i := range line {
		if e%listedAtOnce == 0 && dev.Err() != nil {
			break
		}
		l.other[next[int(i)]] = int32(other[e])
		next[int(i)]++
	}
	return l
}

// listedAtOnce is the number of entries that are listed between looks at the device.
const listedAtOnce = 1 << 20

// blockValues is the number of values in the T_i of all lines, for factors with k columns.
func (l lines) blockValues(k int) int {
	count := 0
	for i := range len(l.ptr) - 1 {
		count += min(l.ptr[i+1]-l.ptr[i], k)
	}
	return count * k
}

// newFactorHessian computes the blocks at U diag(f) V*, u being m x k and v n x k. The misfit
// A(L R*) - y at the places is the caller's.
func (w *matrices) newFactorHessian(ctx context.Context, u array.Batch, f []float64, v, misfit array.Batch, mu float64) (*factorHessian, error) {
	dev, rank, k := w.dev, len(f), aligned(len(f))
	h := &factorHessian{dev: dev, mu: mu, rank: rank, k: k, d: misfit.N(), rows: w.m >= w.n, pattern: w.pattern, misfit: misfit}
	root := make([]float64, rank)
	for i := range root {
		root[i] = math.Sqrt(f[i])
	}
	for i, x := range []array.Batch{u, v} {
		factor := dev.Alloc(1, x.K()*k)
		h.side[i] = factorSide{n: x.K(), factor: factor}
		dev.Fill(factor, 0)
		subspace.ScaleColumns(h.columns(i, factor), x, root)
	}
	var diagonal array.Batch
	for i := range h.side {
		inverse, err := h.side[i].invertBlocks(ctx, dev, w.seen[i], h.side[1-i].factor.ToHost(), rank, k, mu, i == h.in())
		if err != nil {
			h.free()
			return nil, err
		}
		if i == h.in() {
			diagonal = inverse
		}
	}
	defer diagonal.Free()
	mass := w.mass(u, v)
	mass.Rows.Free()
	mass.Columns.Free()
	stays := v
	if h.in() == rowSide {
		stays = u
	}
	h.deflate(stays, f, mass.Core, diagonal)
	return h, dev.Err()
}

// deflate computes the part of the preconditioner along P = V N, from the diagonals of D_R^{-1}, n x k.
func (h *factorHessian) deflate(v array.Batch, f, core []float64, diagonal array.Batch) {
	dev, k, rank := h.dev, h.k, h.rank
	h.unit, h.identity = dev.Alloc(1, v.K()*k), dev.Alloc(1, k*k)
	coefficients := make([][]float64, 4)
	for i := range coefficients {
		coefficients[i] = make([]float64, k*k)
	}
	same, turned, nullSame, nullTurned := coefficients[0], coefficients[1], coefficients[2], coefficients[3]
	dev.Fill(h.unit, 0)
	dev.Copy(h.columns(h.in(), h.unit), v)
	dev.Fill(h.identity, 0)
	dev.Fill(h.identity.Reshape(k, k).Diagonal(), 1)
	squares, along := dev.Alloc(v.K(), rank), dev.Alloc(rank, rank)
	defer squares.Free()
	defer along.Free()
	dev.Mul(squares, v, v)
	dev.Gemm(true, false, 1, squares, diagonal.Cols(0, rank), 0, along)
	have := along.ToHost()
	least := leastMass(core)
	for i := range rank {
		for j := range rank {
			hij, hji := max(core[i*rank+j], least), max(core[j*rank+i], least)
			if !h.rows {
				hij, hji = hji, hij
			}
			both := f[i] + f[j]
			e := hij*h.mu/(hij*f[j]+h.mu) + hji*h.mu/(hji*f[i]+h.mu)
			mean := (have[i*rank+j]*f[j] + have[j*rank+i]*f[i]) / both
			gamma := max(1/(e*both)-mean, 0) / both
			at, cross := i*k+j, math.Sqrt(f[i])*math.Sqrt(f[j])
			same[at], turned[at] = gamma*f[j], gamma*cross
			nullSame[at], nullTurned[at] = -f[i]/both, cross/both
		}
	}
	for i, to := range []*array.Batch{&h.same, &h.turned, &h.nullSame, &h.nullTurned} {
		*to = dev.Alloc(1, k*k)
		dev.Upload(*to, coefficients[i])
	}
}

// leastMass is the smallest mass along u_i v_j* that is counted.
func leastMass(core []float64) float64 {
	sum := 0.0
	for _, x := range core {
		sum += x
	}
	if sum > 0 {
		return 1e-6 * sum / float64(len(core))
	}
	return 1
}

// invertBlocks computes the T_i from the other side's factor. Runs of lines are shared among the
// processors; each line is computed by itself, so that its bits depend on nothing else. The diagonals of
// D^{-1}, n x k, are returned where they are wanted.
func (s *factorSide) invertBlocks(ctx context.Context, dev array.Device, l lines, other []float64, rank, k int, mu float64, wanted bool) (diagonal array.Batch, err error) {
	at := make([]int, s.n+1)
	for i := range s.n {
		at[i+1] = at[i] + min(l.ptr[i+1]-l.ptr[i], rank)
	}
	s.count = at[s.n]
	var inverse []float64
	if wanted {
		inverse = make([]float64, s.n*k)
	}
	if s.count > 0 {
		s.t = dev.Alloc(1, s.count*k)
	}
	runs := runsOf(at, k, runValues)
	var next atomic.Int64
	var all sync.WaitGroup
	var upload sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			var w blockWork
			for c := int(next.Add(1)) - 1; c < len(runs) && ctx.Err() == nil; c = int(next.Add(1)) - 1 {
				from, to := runs[c][0], runs[c][1]
				t := grown(&w.t, (at[to]-at[from])*k)
				for i := from; i < to; i++ {
					own := t[(at[i]-at[from])*k : (at[i+1]-at[from])*k]
					w.root(own, l.other[l.ptr[i]:l.ptr[i+1]], other, rank, k, mu)
					if wanted {
						inverseDiagonal(inverse[i*k:][:k], own, mu)
					}
				}
				if len(t) > 0 {
					upload.Lock()
					dev.Upload(s.t.Cols(at[from]*k, at[to]*k), t)
					upload.Unlock()
				}
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return diagonal, err
	}
	if wanted {
		diagonal = dev.Alloc(s.n, k)
		dev.Upload(diagonal, inverse)
	}
	s.divide(dev, at, k)
	return diagonal, dev.Err()
}

const (
	// runValues is the number of values in the T_i that one processor computes at a time.
	runValues = 1 << 15
	// partValues is the number of values in the T_i of a part: few enough to stay in a processor's cache
	// between two products.
	partValues = 1 << 19
)

// runsOf divides the lines, of which line i has at[i+1] - at[i] rows of k values, into runs of at most so
// many values, from the first element of a run to before the second.
func runsOf(at []int, k, values int) (runs [][2]int) {
	for from, n := 0, len(at)-1; from < n; {
		to := from + 1
		for to < n && (at[to+1]-at[from])*k <= values {
			to++
		}
		runs = append(runs, [2]int{from, to})
		from = to
	}
	return runs
}

// divide makes the parts of the inverse, line i having the rows at[i] to at[i+1]-1 of T.
func (s *factorSide) divide(dev array.Device, at []int, k int) {
	if s.count == 0 {
		return
	}
	for _, run := range runsOf(at, k, partValues) {
		from, to := run[0], run[1]
		p := factorPart{from: from, to: to, first: at[from], count: at[to] - at[from]}
		if p.count > 0 {
			places := make([]int, 0, p.count)
			for i := from; i < to; i++ {
				for e := at[i]; e < at[i+1]; e++ {
					places = append(places, (i-from)*p.count+e-p.first)
				}
			}
			p.places = dev.NewPattern(to-from, p.count, places)
		}
		s.parts = append(s.parts, p)
	}
}

// inverseDiagonal sets dst to the diagonal of (I - T*T)/mu.
func inverseDiagonal(dst, t []float64, mu float64) {
	clear(dst)
	for k := len(dst); len(t) > 0; t = t[k:] {
		for l, x := range t[:k] {
			dst[l] += x * x
		}
	}
	for l, x := range dst {
		dst[l] = (1 - x) / mu
	}
}

// blockWork is the memory for the T_i of some lines and for the block of one. The columns of t beyond
// the rank stay 0.
type blockWork struct{ t, rows, gram []float64 }

func grown(x *[]float64, n int) []float64 {
	if cap(*x) < n {
		*x = make([]float64, n)
	}
	return (*x)[:n]
}

// ridge is added to the diagonal of a Gram matrix that has no Cholesky factor, relative to its
// largest entry.
const ridge = 1e-14

// root sets t to T with T*T = I - mu (mu I + X*X)^{-1}, where X has the given rows of the matrix of k
// columns, rows of stride values: with a root X' of X*X = X'* X' that has as many rows as t,
//
//	T = (mu I + X' X'*)^{-1/2} X'.
//
// The rows of t have the same stride.
func (w *blockWork) root(t []float64, rows []int32, of []float64, k, stride int, mu float64) {
	n := len(rows)
	if n == 0 {
		return
	}
	x := t
	if n > k {
		x = grown(&w.rows, n*stride)
	}
	for u, j := range rows {
		copy(x[u*stride:][:k], of[int(j)*stride:][:k])
	}
	if n > k {
		w.triangle(t, x, n, k, stride)
		n = k
	}
	g := grown(&w.gram, n*n)
	sym := blas64.Symmetric{N: n, Stride: n, Data: g, Uplo: blas.Upper}
	clear(g)
	of1 := blas64.General{Rows: n, Cols: k, Stride: stride, Data: t}
	blas64.Syrk(blas.NoTrans, 1, of1, 0, sym)
	for i := range n {
		g[i*n+i] += mu
	}
	r, ok := lapack64.Potrf(sym)
	if !ok { // not finite
		clear(t)
		return
	}
	blas64.Trsm(blas.Left, blas.Trans, 1, r, of1)
}

// triangle sets t to a k x k root of x* x: its Cholesky factor.
func (w *blockWork) triangle(t, x []float64, n, k, stride int) {
	g := grown(&w.gram, k*k)
	clear(g)
	sym := blas64.Symmetric{N: k, Stride: k, Data: g, Uplo: blas.Upper}
	blas64.Syrk(blas.Trans, 1, blas64.General{Rows: n, Cols: k, Stride: stride, Data: x}, 0, sym)
	most := 0.0
	for i := range k {
		most = max(most, g[i*k+i])
	}
	for add := 0.0; ; add = max(4*add, ridge*most) {
		for i := range k {
			row := t[i*stride:][:k]
			copy(row[i:], g[i*k+i:(i+1)*k])
			clear(row[:i])
			row[i] += add
		}
		if _, ok := lapack64.Potrf(blas64.Symmetric{N: k, Stride: stride, Data: t, Uplo: blas.Upper}); ok || !(add < most) {
			return
		}
	}
}
