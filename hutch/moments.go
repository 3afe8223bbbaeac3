package hutch

import (
	"context"

	"surepipe/array"
	"surepipe/internal/parallel"
)

// Signs are probes of random signs, +1 and -1, that need not exist as vectors: any part of them can
// be drawn.
type Signs struct {
	// K is the number of probes, and Dim their length.
	K, Dim int
	// Draw sets dst, K x n, to the entries from to from+n-1 of every probe.
	Draw func(dst array.Batch, from int)
}

// Moments are the numbers that an estimate needs of probes x_i of random signs,
//
//	quad_i = <x_i, M x_i>   and   norm2_i = ||M x_i||^2,
//
// without the vectors: where M = B K B* with few columns in B, they follow from the short vectors
// B* x_i, which are sums over parts of x_i. The zero value offers nothing.
type Moments struct {
	// Compute sets the K numbers of each slice, as accurately as [Matrix].Forms with the same share;
	// nil where M does not offer it. What it sets for a probe must not depend on the others, unless
	// there is only one.
	Compute func(ctx context.Context, dev array.Device, x Signs, share float64, quad, norm2, left []float64) error
	// Bytes is the working memory of a probe.
	Bytes int64
}

// RademacherPart sets vector j of dst to the entries from to from+n-1 of the probe that
// [Rademacher] calls number first+j, n being the length of dst's vectors.
func RademacherPart(dst array.Batch, seed, sample uint64, first, from int) {
	stream := splitMix(splitMix(0, seed), sample)
	dev, n := dst.Device(), dst.N()
	chunks := parallel.Parts(n, signChunk)
	fill := func(x []float64, j, p int) { signsFrom(x, splitMix(stream, uint64(first+j)), from+p) }
	if dst.K() == 0 {
		return
	}
	if _, ok := dst.HostRow(0); ok {
		parallel.For(dst.K()*chunks, func(i int) {
			row, _ := dst.HostRow(i / chunks)
			p := i % chunks * signChunk
			fill(row[p:min(p+signChunk, n)], i/chunks, p)
		})
		return
	}
	chunk := signChunks.Get().(*[signChunk]float64)
	defer signChunks.Put(chunk)
	for j := range dst.K() {
		for p := 0; p < n; p += signChunk {
			values := chunk[:min(signChunk, n-p)]
			fill(values, j, p)
			dev.Upload(dst.Rows(j, j+1).Cols(p, p+len(values)), values)
		}
	}
}

func signsFrom(x []float64, probe uint64, from int) {
	if skip := from % 64; skip > 0 {
		var word [64]float64
		signs(word[:], probe, uint64(from/64))
		n := copy(x, word[skip:])
		x, from = x[n:], from+n
	}
	if len(x) > 0 {
		signs(x, probe, uint64(from/64))
	}
}

// ByMoments reports whether the probes of a phase are used by their moments, without the vectors:
// where these are offered, the estimate needs no images, and there is no basis to project the
// probes off.
func (p Plan) ByMoments(phase Phase, m Moments) bool {
	return phase == Residual && m.Compute != nil && p.Basis == NoBasis && p.Sketch == 0 && p.Needs == Forms
}

// addMoments queries residual probes first to first+n-1 by their moments. A single one is computed
// as a pair of equal ones, as [Oracle.Apply] does.
func (r *Run) addMoments(ctx context.Context, first, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x := Signs{K: max(n, 2), Dim: r.plan.Dim, Draw: func(dst array.Batch, from int) {
		for j := 0; j < dst.K(); j += n {
			RademacherPart(dst.Rows(j, j+n), r.o.Seed, r.o.Sample, first, from)
		}
	}}
	numbers := make([]float64, 3*x.K)
	quad, norm2, left := numbers[:x.K], numbers[x.K:2*x.K], numbers[2*x.K:]
	if err := r.matrix.Moments.Compute(ctx, r.dev, x, r.o.Share, quad, norm2, left); err != nil {
		return err
	}
	r.tally.residual.take(first, quad[:n], norm2[:n], left[:n])
	return r.dev.Err()
}
