package hutch

import (
	"math"
	"sync"

	"surepipe/array"
)

// Leverages holds what probes say of the diagonal h_i = M_ii of a matrix M with 0 <= M <= I, such as
// the derivative of an estimator, whose h_i are the leverages of its observations. [Leverages.Mean]
// estimates the mean of a function of them.
//
// For a vector g of random signs and P = I - QQ*, off the basis of the sketch (P = I without one),
//
//	E g_i (M P g)_i = (M P)_ii,   h_i = (M P)_ii + sum_k q_ki (M q_k)_i,
//
// and the sum over the basis is exact (Bekas, Kokiopoulou, Saad 2007; with a basis Baston and
// Nakatsukasa 2022). The complement S = I - M has the same form, and so 1 - h_i has an estimate of
// its own: without a basis the same one, and with a basis the better one where h_i is near 1. Both
// are kept, and the one whose samples spread less is used.
//
// Only sums over groups of probes are kept, d numbers each, to a precision that makes them
// independent of the order of the probes.
type Leverages struct {
	// Truncation is the mean over the probes of the oracle's bounds: the sum of the h_i is too
	// small by at most so much.
	Truncation float64

	// total is the expectation of the sum of a probe's samples of M, where the trace of M is known
	// otherwise; else NaN.
	total              float64
	direct, complement sampleSums // of M and of I - M; the latter only with a basis
	sums               *leverageSums
}

// groups is the number of groups of probes: probe j belongs to group j mod groups.
const groups = 10

// leastProbes is the number of probes below which their spread is not known.
const leastProbes = 4

// sampleSums are the sums of one kind of samples x_ij, of probe j for entry i: over each group of
// probes those of x_ij and of their squares, with the part of the basis, sum_k q_ki (M q_k)_i, and
// sum_k (M q_k)_i^2; nil without a basis.
type sampleSums struct {
	sum, square [groups][]float64
	known, seen []float64
}

// leverageSums is a Leverages in progress; its methods may be called from several goroutines.
type leverageSums struct {
	mu                 sync.Mutex
	d                  int
	count              [groups]int
	direct, complement sampleSums
}

// quantum is the unit of the sums. Multiples of it are added without rounding errors while the sum
// is below 2^53 units: in any order to the same bits.
const quantum = 0x1p-32

// exactly is x to the nearest multiple of quantum, where |x| < 2^18.
func exactly(x float64) float64 {
	const shift = 3 * quantum * 0x1p51
	return float64(x+shift) - shift
}

func newLeverageSums(d int) *leverageSums { return &leverageSums{d: d} }

// rows calls f for each vector of a batch, on the host.
func rows(b array.Batch, f func(i int, x []float64)) {
	x := make([]float64, b.N())
	for i := range b.K() {
		b.Device().Download(x, b.Rows(i, i+1))
		f(i, x)
	}
}

// add accumulates x and its squares.
func (s *sampleSums) add(group int, x []float64) {
	if s.sum[group] == nil {
		s.sum[group], s.square[group] = make([]float64, len(x)), make([]float64, len(x))
	}
	sum, square := s.sum[group][:len(x)], s.square[group][:len(x)]
	for i, v := range x {
		sum[i] += exactly(v)
		square[i] += exactly(v * v)
	}
}

// random takes probes first, first+1, ...: their signs g, the deflated probes x = P g and their
// images. x is the zero Batch without a basis. It overwrites g.
func (l *leverageSums) random(first int, g, x, image array.Batch) {
	dev := g.Device()
	if !x.IsZero() {
		y := dev.Alloc(g.K(), g.N())
		defer y.Free()
		dev.Lin(y, 1, x, -1, image)
		dev.Mul(y, y, g)
		l.each(first, y, &l.complement)
	}
	dev.Mul(g, g, image)
	l.each(first, g, &l.direct)
	l.mu.Lock()
	for j := range g.K() {
		l.count[(first+j)%groups]++
	}
	l.mu.Unlock()
}

func (l *leverageSums) each(first int, x array.Batch, to *sampleSums) {
	rows(x, func(j int, x []float64) {
		l.mu.Lock()
		to.add((first+j)%groups, x)
		l.mu.Unlock()
	})
}

// basis takes vectors of the basis and their images.
func (l *leverageSums) basis(q, image array.Batch) {
	dev := q.Device()
	rest, product := dev.Alloc(q.K(), q.N()), dev.Alloc(q.K(), q.N())
	defer rest.Free()
	defer product.Free()
	dev.Lin(rest, 1, q, -1, image)
	for _, part := range []struct {
		image array.Batch
		to    *sampleSums
	}{{image, &l.direct}, {rest, &l.complement}} {
		for _, factor := range []struct {
			by   array.Batch
			into *[]float64
		}{{q, &part.to.known}, {part.image, &part.to.seen}} {
			dev.Mul(product, part.image, factor.by)
			rows(product, func(_ int, x []float64) {
				l.mu.Lock()
				defer l.mu.Unlock()
				if *factor.into == nil {
					*factor.into = make([]float64, l.d)
				}
				for i, v := range x {
					(*factor.into)[i] += exactly(v)
				}
			})
		}
	}
}

// Leverages is what the probes say of the diagonal of M, when all phases are done; nil where
// [Options].Diagonal was not set, the plan is exact, or there were too few random probes.
func (r *Run) Leverages() *Leverages {
	l := r.leverages
	if l == nil || l.probes() < leastProbes {
		return nil
	}
	out := &Leverages{direct: l.direct, complement: l.complement, sums: l, total: math.NaN()}
	left := r.sketchLeft
	if !r.plan.Keeps {
		left = r.tally.residual.left
	}
	for _, v := range left {
		out.Truncation += v / float64(len(left))
	}
	return out
}

func (l *leverageSums) probes() (m int) {
	for _, n := range l.count {
		m += n
	}
	return m
}

// WithTrace are the leverages where the trace of M is known from elsewhere: the mean of a function of
// them is then corrected by what the probes' own estimate of the trace is off (a control variate).
func (l *Leverages) WithTrace(trace float64) *Leverages {
	s := *l
	s.total = trace
	for _, v := range l.direct.known {
		s.total -= v
	}
	return &s
}

// Shifted are the leverages h_i + by(i), where by is the diagonal of a projection whose range is
// orthogonal to that of M: with an intercept it is 1/d.
func (l *Leverages) Shifted(by func(i int) float64) *Leverages {
	shift := func(s sampleSums, sign float64) sampleSums {
		d := l.sums.d
		known, seen := make([]float64, d), make([]float64, d)
		copy(known, s.known)
		copy(seen, s.seen)
		for i := range known {
			// The samples are those of M without the projection, whose part of the row's norm is by.
			known[i] += sign * by(i)
			seen[i] += sign * by(i)
		}
		s.known, s.seen = known, seen
		return s
	}
	s := *l
	s.direct = shift(l.direct, 1)
	if l.complement.known != nil {
		s.complement = shift(l.complement, -1)
	}
	return &s
}
