package clustered

import (
	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// averaging is the derivative that replaces every block of coordinates by its mean, up to signs:
// with s_j in {-1, 0, 1}, 0 outside the blocks,
//
//	(J z)_j = s_j/|B| sum_{k in B} s_k z_k   for the block B of j.
//
// It is the orthogonal projection on the vectors that are constant up to sign on the blocks; its
// trace is the number of blocks.
type averaging struct {
	n      int
	dev    array.Device
	mean   array.CSR   // blocks x n, s_k/|B|
	of     array.Index // the block of each coordinate, any where s_j = 0
	sign   array.Batch // s, the zero Batch where all are 1
	margin func(v array.Batch) float64
	prox.LazyModel
}

// averagingWork is host memory for building an averaging.
type averagingWork struct {
	indptr, indices, of []int
	values              []float64
}

// newAveraging returns the derivative at the one vector v with the blocks order[0:ends[0]],
// order[ends[0]:ends[1]], ... of coordinates; a nil order is 0, 1, 2, ... The signs are 1 where
// none are given. Blocks of one coordinate each give a diagonal.
func newAveraging(w *averagingWork, v array.Batch, ends, order []int, sign []float64,
	margin func(v array.Batch) float64) prox.Derivative {
	dev, n, m := v.Device(), v.N(), len(ends)
	switch {
	case m == 0:
		return prox.NewMultiple(0, v, margin)
	case m == n:
		return prox.NewMultiple(1, v, margin)
	}
	inside := ends[m-1]
	w.indptr, w.indices, w.of = vector.Grow(w.indptr, m+1), vector.Grow(w.indices, inside), vector.Grow(w.of, n)
	w.values = vector.Grow(w.values, n)
	if m == inside {
		clear(w.values)
		for _, j := range order[:inside] {
			w.values[j] = 1
		}
		d := dev.Alloc(1, n)
		dev.Upload(d, w.values)
		return prox.NewDiagonal(d, margin)
	}
	w.indptr[0] = 0
	clear(w.of)
	at := 0
	for b, end := range ends {
		share := 1 / float64(end-at)
		for ; at < end; at++ {
			j, s := at, 1.0
			if order != nil {
				j = order[at]
			}
			if sign != nil {
				s = sign[j]
			}
			w.indices[at], w.values[at], w.of[j] = j, s*share, b
		}
		w.indptr[b+1] = end
	}
	j := &averaging{n: n, dev: dev, margin: margin}
	j.mean, j.of = dev.NewCSR(m, n, w.indptr, w.indices, w.values[:inside]), dev.NewIndex(w.of)
	if sign != nil {
		j.sign = dev.Alloc(1, n)
		dev.Upload(j.sign, sign)
	}
	return j
}

func (j *averaging) Apply(dst, z array.Batch) {
	vector.CheckApply("averages", j.n, dst, z)
	dev := dst.Device()
	blocks, _ := j.mean.Dims()
	means := dev.Alloc(z.K(), blocks)
	dev.MulCSR(means, j.mean, z)
	dev.Gather(dst, means, j.of)
	means.Free()
	if !j.sign.IsZero() {
		dev.Mul(dst, dst, j.sign)
	}
}

func (j *averaging) Diagonal() array.Batch { return array.Batch{} }
func (j *averaging) Model() *prox.Model    { return j.Get(j.build) }

// build finds the blocks by gathering their numbers.
func (j *averaging) build() *prox.Model {
	blocks, _ := j.mean.Dims()
	numbers := make([]float64, blocks)
	for b := range numbers {
		numbers[b] = float64(b)
	}
	from, to := j.dev.Alloc(1, blocks), j.dev.Alloc(1, j.n)
	defer from.Free()
	defer to.Free()
	j.dev.Upload(from, numbers)
	j.dev.Gather(to, from, j.of)
	var sign []float64
	if !j.sign.IsZero() {
		sign = j.sign.ToHost()
	}
	sets := make([][]int, blocks)
	for i, b := range to.ToHost() {
		if sign == nil || sign[i] != 0 {
			sets[int(b)] = append(sets[int(b)], i)
		}
	}
	return &prox.Model{Space: vector.Clusters(j.dev, j.n, sets, sign), Margin: j.margin}
}

func (j *averaging) Bytes() int64 {
	return j.mean.Bytes() + j.of.Bytes() + j.sign.Bytes() + j.ModelBytes()
}

func (j *averaging) Release() {
	j.FreeModel()
	j.mean.Free()
	j.of.Free()
	j.sign.Free()
}
