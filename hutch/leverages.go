package hutch

import (
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
)

// Leverages holds what probes say of the diagonal h_i = M_ii of a matrix M with 0 <= M <= I, such as
// the derivative of an estimator, whose h_i are the leverages of its observations. [Leverages.Mean]
// estimates the mean of a function of them.
//
// For a vector g of random signs E g_i (M g)_i = M_ii (Bekas, Kokiopoulou, Saad 2007). Only sums over
// groups of probes are kept, d numbers each, to a precision that makes them independent of the order
// of the probes.
type Leverages struct {
	// Truncation is the mean over the probes of the oracle's bounds: the sum of the h_i is too
	// small by at most so much.
	Truncation float64

	total float64   // the trace of M where it is known otherwise; else NaN
	shift []float64 // see Shifted; nil for 0
	sums  *leverageSums
}

// groups is the number of groups of probes: probe j belongs to group j mod groups.
const groups = 10

// LeastProbes is the number of random probes below which they say too little of the diagonal: with
// fewer the bars of [Leverages.Mean] would not hold.
const LeastProbes = 24

// leverageSums is a Leverages in progress; its methods may be called from several goroutines. Of the
// samples x_ij = g_ji (M g_j)_i of probe j for entry i it has the sums over each group of probes of
// x_ij and of their squares.
type leverageSums struct {
	mu          sync.Mutex
	d           int
	count       [groups]int
	sum, square [groups]shares
}

// quantum is the unit of the sums. Multiples of it are added without rounding errors while the sum
// is below 2^53 units: in any order to the same bits.
const quantum = 0x1p-27

// multiples are multiples of the quantum, in 4 bytes each until one of them takes more.
type multiples struct {
	short []int32
	long  []float64
}

// shares are multiples in shares of parallel.Share, which processors add to at the same time.
type shares []multiples

func (s shares) at(i int) float64 { return s[i/parallel.Share].at(i % parallel.Share) }

func (m *multiples) at(i int) float64 {
	if m.long != nil {
		return m.long[i] * quantum
	}
	return float64(m.short[i]) * quantum
}

// add adds the values of x, or their squares, each rounded to a multiple.
func (m *multiples) add(x []float64, squared bool) {
	if m.short == nil && m.long == nil {
		m.short = make([]int32, len(x))
	}
	for i, v := range x {
		if squared {
			v *= v
		}
		v = math.RoundToEven(v / quantum)
		if m.long == nil {
			sum := float64(m.short[i]) + v
			if math.Abs(sum) <= math.MaxInt32 {
				m.short[i] = int32(sum)
				continue
			}
			m.long = lists.Map(m.short, func(v int32) float64 { return float64(v) })
			m.short = nil
		}
		m.long[i] += v
	}
}

func (l *leverageSums) add(probe int, x []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	group := probe % groups
	sum, square := &l.sum[group], &l.square[group]
	if *sum == nil {
		n := parallel.Parts(len(x), parallel.Share)
		*sum, *square = make(shares, n), make(shares, n)
	}
	parallel.Ranges(len(x), parallel.Share, func(lo, hi int) {
		(*sum)[lo/parallel.Share].add(x[lo:hi], false)
		(*square)[lo/parallel.Share].add(x[lo:hi], true)
	})
	l.count[group]++
}

// random takes probes first, first+1, ...: their signs g, which it replaces by the samples, and their
// images.
func (l *leverageSums) random(first int, g, image array.Batch) {
	g.Device().Mul(g, g, image)
	var copied []float64
	for i := range g.K() {
		x, ok := g.HostRow(i)
		if !ok {
			copied = slices.Grow(copied, g.N())[:g.N()]
			x = copied
			g.Device().Download(x, g.Rows(i, i+1))
		}
		l.add(first+i, x)
	}
}

// ShowsDiagonal reports whether the estimator's random probes show the diagonal: those of a plan that
// projects them off a basis do not.
func (p Plan) ShowsDiagonal() bool { return p.Basis == NoBasis }

// Leverages is what the probes say of the diagonal of M, when all phases are done; nil where
// [Options].Diagonal was not set, the plan does not show it ([Plan.ShowsDiagonal]), or there were fewer
// than [LeastProbes].
func (r *Run) Leverages() *Leverages {
	l := r.leverages
	if l == nil || l.probes() < LeastProbes {
		return nil
	}
	out := &Leverages{sums: l, total: math.NaN()}
	for _, v := range r.tally.residual.left {
		out.Truncation += v / float64(len(r.tally.residual.left))
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
	return &s
}

// Shifted are the leverages h_i + by(i), where by is the diagonal of a projection whose range is
// orthogonal to that of M: with an intercept it is 1/d.
func (l *Leverages) Shifted(by func(i int) float64) *Leverages {
	s := *l
	s.shift = make([]float64, l.sums.d)
	for i := range s.shift {
		s.shift[i] = by(i)
	}
	return &s
}
