package lowrank

import (
	"context"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
	"surepipe/prox/subspace"
)

// lines lists the entries of a sparse pattern line by line on the host: other[ptr[i]:ptr[i+1]] are
// the columns that are seen in row i, or the rows in column i, and place says which entries these are.
type lines struct {
	ptr          []int
	other, place []int32
}

// seen lists a pattern by rows and by columns. The pattern is on a device: its places are the entries
// of the matrices i 1* and 1 j*.
func seen(dev array.Device, pattern array.Pattern) [2]lines {
	m, n := pattern.Dims()
	index := func(rows bool) []float64 {
		left, right, z := dev.Alloc(1, m), dev.Alloc(1, n), dev.Alloc(1, pattern.Len())
		defer array.Free(left, right, z)
		count, ones := left, right
		if !rows {
			count, ones = right, left
		}
		host := lists.Make(count.N(), func(i int) float64 { return float64(i) })
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
	l := lines{make([]int, n+1), make([]int32, len(line)), make([]int32, len(line))}
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
		l.other[next[int(i)]], l.place[next[int(i)]] = int32(other[e]), int32(e)
		next[int(i)]++
	}
	return l
}

// listedAtOnce is the number of entries that are listed between looks at the device.
const listedAtOnce = 1 << 20

// blockValues is the number of values in the blocks of all lines, for factors with k columns.
func (l lines) blockValues(k int) int {
	count := 0
	for i := range len(l.ptr) - 1 {
		n := min(l.ptr[i+1]-l.ptr[i], k)
		count += n * n
	}
	return count
}

// newFactorHessian computes the blocks at U diag(f) V*, u being m x k and v n x k. The misfit
// A(L R*) - y at the places is the caller's.
func (w *sampled) newFactorHessian(ctx context.Context, u array.Batch, f []float64, v, misfit array.Batch,
	mu float64) (*factorHessian, error) {
	dev, rank, k := w.dev, len(f), w.width(len(f))
	h := &factorHessian{dev: dev, mu: mu, rank: rank, k: k, d: misfit.N(), rows: w.m >= w.n,
		pattern: w.pattern, misfit: misfit}
	root := lists.Make(rank, func(i int) float64 { return math.Sqrt(f[i]) })
	for i, x := range []array.Batch{u, v} {
		factor := dev.Alloc(1, x.K()*k)
		h.side[i] = factorSide{n: x.K(), factor: factor}
		dev.Fill(factor, 0)
		subspace.ScaleColumns(h.columns(i, factor), x, root)
		if w.effects[1-i] {
			dev.Fill(h.effectsOf(factor), 1)
		}
	}
	var diagonal array.Batch
	for i := range h.side {
		inverse, err := h.invertBlocks(ctx, i, w.seen[i], w.effects[i], i == h.in())
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
	array.Free(mass.Rows, mass.Columns)
	stays := v
	if h.in() == rowSide {
		stays = u
	}
	h.deflate(stays, f, mass.Core, diagonal)
	if w.effects[rowSide] && w.effects[columnSide] {
		h.level(w.seen[h.in()])
	}
	return h, dev.Err()
}

// width is the number of coordinates of a line at rank k.
func (w *sampled) width(k int) int {
	if w.effects[rowSide] || w.effects[columnSide] {
		return k + 1
	}
	return k
}

// level completes the preconditioner: it takes the mean out of the effects of the lines that have entries.
func (h *factorHessian) level(l lines) {
	host, count := make([]float64, len(l.ptr)-1), 0.0
	for i := range host {
		if l.ptr[i+1] > l.ptr[i] {
			host[i] = 1
			count++
		}
	}
	for i := range host {
		host[i] /= math.Sqrt(max(count, 1))
	}
	ones := h.dev.Put(host, len(host), 1)
	defer ones.Free()
	h.dev.Copy(h.unit.Reshape(len(host), h.k).Cols(h.rank, h.k), ones)
	at := h.rank*h.k + h.rank
	h.dev.Fill(h.nullSame.Cols(at, at+1), -1)
}

// deflate computes the part of the preconditioner along P = V N, from the diagonals of D_R^{-1}, n x k.
func (h *factorHessian) deflate(v array.Batch, f, core []float64, diagonal array.Batch) {
	dev, k, rank := h.dev, h.k, h.rank
	h.unit = dev.Alloc(1, v.K()*k)
	order := make([]int, 0, k*k)
	for j := range k {
		for i := range k {
			order = append(order, i*k+j)
		}
	}
	h.transpose = dev.NewIndex(order)
	coefficients := lists.Make(4, func(int) []float64 { return make([]float64, k*k) })
	same, turned, nullSame, nullTurned := coefficients[0], coefficients[1], coefficients[2], coefficients[3]
	dev.Fill(h.unit, 0)
	dev.Copy(h.columns(h.in(), h.unit), v)
	squares, along := dev.Alloc(v.K(), rank), dev.Alloc(rank, rank)
	defer array.Free(squares, along)
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

// split lists the lines in which at most k entries are seen, and then those in which more are: first is how
// many the former are. Lines without entries are not listed.
func (l lines) split(k int) (order []int, first int) {
	var long []int
	for i := range len(l.ptr) - 1 {
		switch n := l.ptr[i+1] - l.ptr[i]; {
		case n > k:
			long = append(long, i)
		case n > 0:
			order = append(order, i)
		}
	}
	return append(order, long...), len(order)
}

// invertBlocks computes the inverses of a side's blocks from the other side's factor. Runs of lines are shared
// among the processors; each line is computed by itself, so that its bits depend on nothing else. The
// diagonals of D^{-1}, n x k, are returned where they are wanted.
func (h *factorHessian) invertBlocks(ctx context.Context, side int, l lines, effects, wanted bool) (
	diagonal array.Batch, err error) {
	dev, s, rank, k := h.dev, &h.side[side], h.rank, h.k
	order, short := l.split(rank)
	at := make([]int, len(order)+1) // of the values
	for b, i := range order {
		n := min(l.ptr[i+1]-l.ptr[i], rank)
		at[b+1] = at[b] + n*n
	}
	var inverse []float64
	if wanted {
		inverse = make([]float64, s.n*k)
		for i := range inverse {
			inverse[i] = 1 / h.mu
		}
	}
	s.values = dev.Alloc(1, at[len(order)])
	other := h.rowsOf(1 - side)
	var means []float64
	if effects {
		means = make([]float64, s.n*k)
	}
	runs := runsOf(at, runValues)
	var upload sync.Mutex
	err = parallel.Each(len(runs), func() *blockWork { return new(blockWork) }, func(c int, w *blockWork) error {
		from, to := runs[c][0], runs[c][1]
		values := grown(&w.values, at[to]-at[from])
		for b := from; b < to && ctx.Err() == nil; b++ {
			i := order[b]
			var diagonal []float64
			if wanted {
				diagonal = inverse[i*k:][:rank]
			}
			var mean []float64
			if effects {
				mean = means[i*k:][:rank]
			}
			w.invert(values[at[b]-at[from]:at[b+1]-at[from]], diagonal, mean, l.other[l.ptr[i]:l.ptr[i+1]], other)
		}
		upload.Lock()
		defer upload.Unlock()
		dev.Upload(s.values.Cols(at[from], at[to]), values)
		return ctx.Err()
	})
	if err != nil {
		return diagonal, err
	}
	if wanted {
		diagonal = dev.Alloc(s.n, k)
		dev.Upload(diagonal, inverse)
	}
	if effects {
		h.center(s, l, means)
	}
	h.group(side, l, order, short, at)
	return diagonal, dev.Err()
}

// center uploads the means of the lines that have effects, and what goes with them.
func (h *factorHessian) center(s *factorSide, l lines, means []float64) {
	fit, effect := make([]float64, len(means)), make([]int, len(means))
	for at := range effect {
		effect[at] = at/h.k*h.k + h.rank
	}
	floats.ScaleTo(fit, -1, means)
	for i := range s.n {
		if n := l.ptr[i+1] - l.ptr[i]; n > 0 {
			means[i*h.k+h.rank], fit[i*h.k+h.rank] = 1, 1/float64(n)
		}
	}
	s.mean, s.fit, s.effect = h.dev.Put(means, 1, len(means)), h.dev.Put(fit, 1, len(fit)), h.dev.NewIndex(effect)
}

// runValues is the number of values of blocks that one processor computes at a time.
const runValues = 1 << 15

// runsOf divides the blocks, of which block b has the values from at[b] to at[b+1]-1, into runs of at most so many
// values, or of one block: from the first element of a run to before the second.
func runsOf(at []int, values int) (runs [][2]int) {
	for from, n := 0, len(at)-1; from < n; {
		to := from + 1
		for to < n && at[to+1]-at[from] <= values {
			to++
		}
		runs = append(runs, [2]int{from, to})
		from = to
	}
	return runs
}

// group lists a side's lines in their groups, in the given order, of which short lines are the first. Line
// order[b] has the block from at[b] on.
func (h *factorHessian) group(side int, l lines, order []int, short int, at []int) {
	s, others := &h.side[side], h.side[1-side].n
	sorted, entries := side == rowSide, make([]int, 0, h.d)
	for _, i := range order {
		for u := l.ptr[i]; u < l.ptr[i+1]; u++ {
			sorted = sorted && int(l.place[u]) == len(entries)
			entries = append(entries, int(l.place[u]))
		}
	}
	if !sorted {
		s.order = h.dev.NewIndex(entries)
	}
	for g, lines := range [][]int{order[:short], order[short:]} {
		if len(lines) == 0 {
			continue
		}
		var places, first, size []int
		for _, i := range lines {
			if g == 0 {
				first, size = append(first, len(places)), append(size, l.ptr[i+1]-l.ptr[i])
			} else {
				first, size = append(first, i*h.k), append(size, h.rank)
			}
			for _, j := range l.other[l.ptr[i]:l.ptr[i+1]] {
				places = append(places, i*others+int(j))
			}
		}
		to, from := &s.short, 0
		if g == 1 {
			to, from = &s.long, short
		}
		to.blocks, to.values = h.dev.NewBlocks(first, size), s.values.Cols(at[from], at[from+len(lines)])
		if to.shared = sorted && len(lines) == len(order); to.shared {
			to.pattern = h.pattern
		} else {
			to.pattern = h.dev.NewPattern(s.n, others, places)
		}
	}
}

// blockWork is the memory for the blocks of some lines, and for the rows of one and the inverse of its block.
type blockWork struct{ values, rows, product []float64 }

func grown(x *[]float64, n int) []float64 {
	if cap(*x) < n {
		*x = make([]float64, n)
	}
	return (*x)[:n]
}

// factorOnHost is a factor on the host: rows of k of stride values.
type factorOnHost struct {
	data      []float64
	k, stride int
	mu        float64
}

func (h *factorHessian) rowsOf(side int) factorOnHost {
	return factorOnHost{data: h.side[side].factor.ToHost(), k: h.rank, stride: h.k, mu: h.mu}
}

// invert sets block to N = (I + X X*/mu)^{-1}, where X is the given rows of the factor, in number at most k; or
// where they are more to (mu I + X* X)^{-1}. diagonal is set to the diagonal of the latter, unless it is nil. Where
// mean is not nil it is set to the mean of the rows, which are taken less that; N is then without its part along ones.
func (w *blockWork) invert(block, diagonal, mean []float64, rows []int32, of factorOnHost) {
	n, k := len(rows), of.k
	short := n <= k
	x := blas64.General{Rows: n, Cols: k, Stride: k, Data: grown(&w.rows, n*k)}
	for u, j := range rows {
		copy(x.Data[u*k:][:k], of.data[int(j)*of.stride:][:k])
	}
	if mean != nil {
		for u := range n {
			floats.AddScaled(mean, 1/float64(n), x.Data[u*k:][:k])
		}
		for u := range n {
			floats.Sub(x.Data[u*k:][:k], mean)
		}
	}
	size, trans, scale, add := n, blas.NoTrans, 1/of.mu, 1.0
	if !short {
		size, trans, scale, add = k, blas.Trans, 1, of.mu
	}
	m := blas64.Symmetric{N: size, Stride: size, Data: block, Uplo: blas.Upper}
	clear(block)
	blas64.Syrk(trans, scale, x, 0, m)
	for i := range size {
		block[i*size+i] += add
	}
	if !numerics.InvertUpper(m, 0) { // not finite
		clear(block)
		return
	}
	if mean != nil && short {
		floats.AddConst(-1/float64(n), block)
	}
	switch {
	case diagonal != nil && short:
		nx := blas64.General{Rows: n, Cols: k, Stride: k, Data: grown(&w.product, n*k)}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, blas64.General{Rows: n, Cols: n, Stride: n, Data: block}, x, 0, nx)
		inverseDiagonal(diagonal, x.Data, nx.Data, of.mu)
	case diagonal != nil:
		for i := range size {
			diagonal[i] = block[i*size+i]
		}
	}
}

// inverseDiagonal sets dst to the diagonal of (I - X* N X/mu)/mu, from X and N X.
func inverseDiagonal(dst, x, nx []float64, mu float64) {
	clear(dst)
	for k := len(dst); len(x) > 0; x, nx = x[k:], nx[k:] {
		for l, v := range x[:k] {
			dst[l] += v * nx[l]
		}
	}
	for l, v := range dst {
		dst[l] = (1 - v/mu) / mu
	}
}
