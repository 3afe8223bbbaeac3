package clustered

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// sortedL1 is r(b) = sum_i lambda_i |b|_(i).
type sortedL1 struct {
	lambda []float64
	work   sync.Pool // of *sortedL1Work
	prox.Known
}

// NewSortedL1 returns the sorted l1 norm, the penalty of SLOPE (Bogdan, van den Berg, Sabatti, Su,
// Candès 2015) and of OWL (Zeng, Figueiredo 2014),
//
//	r(b) = sum_i lambda_i |b|_(i),   |b|_(1) >= |b|_(2) >= ...,   lambda_1 >= lambda_2 >= ... >= 0,
//
// on vectors of length len(lambda). With |v| in decreasing order prox_{t r}(v) is the nonincreasing
// sequence nearest to |v|_(i) - t lambda_i, its negative part cut off, put back in place with v's
// signs. It is found on the host by sorting (by radix, in linear time, where n is large) and
// pooling adjacent violators, in linear time. With B the block of coordinates that are pooled with
// j and s = sign(v),
//
//	(J z)_j = s_j/|B| sum_{k in B} s_k z_k   where the block's value is positive, else 0,
//
// which is applied on the device. J is an orthogonal projection whose trace is the number of blocks
// that are not 0; it is diagonal where no two of these coordinates are pooled.
//
// Coordinates are pooled where the later mean is strictly the larger one, and remain apart where
// two means are equal. That is a kink, and then an element of the Clarke Jacobian, except between
// single coordinates of one lambda: these move freely, and J is the derivative. A block of value 0
// counts as inactive. The decisions compare means with no tolerance: they are exact where sums of
// v's entries and of t lambda are exact in float64. A constant lambda gives what [prox.NewL1] gives.
//
// lambda is copied. An empty lambda and an entry that is negative, NaN or larger than its
// predecessor are errors; lambda_1 = +Inf gives zero. A NaN or an entry beyond 1e290 in size in the
// argument is an error.
func NewSortedL1(lambda []float64) (prox.Prox, error) {
	if len(lambda) == 0 {
		return nil, fmt.Errorf("prox: sorted l1: no lambda")
	}
	for i, x := range lambda {
		if !(x >= 0) {
			return nil, fmt.Errorf("prox: sorted l1: lambda %d is %v, want >= 0", i, x)
		}
		if i > 0 && x > lambda[i-1] {
			return nil, fmt.Errorf("prox: sorted l1: lambda %d is %v after %v, want a nonincreasing sequence", i, x,
				lambda[i-1])
		}
	}
	p := &sortedL1{lambda: slices.Clone(lambda)}
	p.Is = prox.Structure{Value: p.value, DualScale: p.dualScale, FenchelGap: p.fenchelGap}
	return p, nil
}

func (p *sortedL1) Dim() int { return len(p.lambda) }

type sortedL1Work struct {
	x       []float64 // v, then the result
	sign    []float64 // of v where the result is active, else 0
	keys    []magnitude
	scratch []magnitude
	blocks  []pooled
	ends    []int // of the blocks that are active
	order   []int // the coordinates in the order of their magnitudes
}

// magnitude is |v_j| and j.
type magnitude struct {
	size float64
	j    int
}

// radixFrom is the number of magnitudes from which a radix sort is faster.
const radixFrom = 512

// decreasing sorts keys, which are w's own, by decreasing size; the result may lie in w's scratch
// memory. The bits of numbers >= 0 are in the order of the numbers, so large numbers of them are
// sorted byte by byte, the least significant byte first.
func (w *sortedL1Work) decreasing(keys []magnitude) []magnitude {
	if len(keys) < radixFrom {
		slices.SortFunc(keys, func(a, b magnitude) int { return cmp.Compare(b.size, a.size) })
		return keys
	}
	var at [8][256]int
	for _, k := range keys {
		bits := ^math.Float64bits(k.size)
		for d := range at {
			at[d][byte(bits>>(8*d))]++
		}
	}
	w.scratch = lists.Resize(w.scratch, len(keys))
	from, to := keys, w.scratch
	for d := range at {
		start := 0
		for b, count := range at[d] {
			at[d][b] = start
			start += count
		}
		for _, k := range from {
			place := &at[d][byte(^math.Float64bits(k.size)>>(8*d))]
			to[*place] = k
			*place++
		}
		from, to = to, from
	}
	return from
}

// pooled is a block of adjacent entries.
type pooled struct {
	sum, mean float64
	end       int
}

func (p *sortedL1) getWork() *sortedL1Work {
	w, ok := p.work.Get().(*sortedL1Work)
	if !ok {
		n := len(p.lambda)
		w = &sortedL1Work{
			x: make([]float64, n), sign: make([]float64, n), keys: make([]magnitude, n),
			blocks: make([]pooled, n), ends: make([]int, n), order: make([]int, n),
		}
	}
	return w
}

func (p *sortedL1) solve(w *sortedL1Work, t float64) {
	n := len(w.x)
	// An entry of at most the least weight becomes 0 and is in no block with a positive value.
	least := t * p.lambda[n-1]
	keys := w.keys[:0]
	for j, a := range w.x {
		if size := math.Abs(a); size > least || least == 0 {
			keys = append(keys, magnitude{size, j})
		}
	}
	keys = w.decreasing(keys)

	blocks := w.blocks[:0]
	for i, k := range keys {
		last := pooled{end: i + 1}
		last.sum = k.size - t*p.lambda[i]
		last.mean = last.sum
		for len(blocks) > 0 && blocks[len(blocks)-1].mean < last.mean {
			last.sum += blocks[len(blocks)-1].sum
			blocks = blocks[:len(blocks)-1]
			start := 0
			if len(blocks) > 0 {
				start = blocks[len(blocks)-1].end
			}
			last.mean = last.sum / float64(last.end-start)
		}
		blocks = append(blocks, last)
	}

	w.ends, w.order = w.ends[:0], w.order[:0]
	clear(w.sign)
	at := 0
	for _, b := range blocks {
		// A block with the mean 0 and no weight is a coordinate that is not penalized.
		if !(b.mean > 0 || b.mean == 0 && p.lambda[at] == 0) {
			break
		}
		for ; at < b.end; at++ {
			j := keys[at].j
			w.order = append(w.order, j)
			w.sign[j] = math.Copysign(1, w.x[j])
			w.x[j] = math.Copysign(b.mean, w.x[j])
		}
		w.ends = append(w.ends, at)
	}
	for j, s := range w.sign {
		if s == 0 {
			w.x[j] = 0
		}
	}
}

func (p *sortedL1) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("sorted l1", len(p.lambda), dst, v, t)
	w := p.getWork()
	defer p.work.Put(w)
	return vector.OnEach("sorted l1", dst, v, w.x, func() { p.solve(w, t) })
}

func (p *sortedL1) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize("sorted l1", len(p.lambda), dst, v, t)
	w := p.getWork()
	defer p.work.Put(w)
	if err := vector.OnEach("sorted l1", dst, v, w.x, func() { p.solve(w, t) }); err != nil {
		return nil, err
	}
	return averaging(v, w.ends, w.order, w.sign, func(v array.Batch) float64 {
		return p.margin(v, t)
	}), nil
}

func (p *sortedL1) margin(v array.Batch, t float64) float64 {
	at := v.Read()
	w := p.getWork()
	defer p.work.Put(w)
	copy(w.x, at)
	p.solve(w, t)
	mean, start := make([]float64, len(w.ends)), 0
	for b, end := range w.ends {
		mean[b] = math.Abs(w.x[w.order[start]])
		start = end
	}
	return sortedMargin(at, p.lambda, t, w.order, w.ends, mean)
}

func (p *sortedL1) value(b array.Batch) float64 {
	vector.CheckValue("sorted l1", len(p.lambda), b)
	x := append([]float64(nil), b.Read()...)
	for j, a := range x {
		x[j] = math.Abs(a)
	}
	slices.Sort(x)
	s := 0.0
	for i, lambda := range p.lambda {
		s += vector.Times(lambda, x[len(x)-1-i])
	}
	return s
}

func (p *sortedL1) dualScale(_, g array.Batch, _ float64) float64 {
	size := slices.Clone(g.Read())
	for j, v := range size {
		size[j] = math.Abs(v)
	}
	slices.SortFunc(size, func(a, b float64) int {
		switch {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	t, sum, allowed := 1.0, 0.0, 0.0
	for i, v := range size {
		sum += v
		allowed += p.lambda[i]
		t = min(t, vector.Ratio(allowed, sum))
	}
	return t
}

func (p *sortedL1) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	return vector.Surplus(p.value(b), t*vector.Inner(b.Read(), g.Read()))
}
