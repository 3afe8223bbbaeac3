package loss

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/parallel"
)

// Pointwise is a loss l(z; y) = sum_i w_i f(z_i; y_i) with a convex function f of one observation,
// such as a negative log-likelihood, and weights w_i >= 0. It computes on the host: on a device with
// memory of its own an evaluation moves z and y, 2 d numbers, where the products with A that come
// with it read d p.
type Pointwise struct {
	f       Function
	each    evaluation
	w       []float64 // nil for ones
	offset  []float64 // nil for zeros
	largest float64
	known   Structure
	pool    sync.Pool // of *scratch
	last    alone
}

// Function is a convex function f(z; y) of one observation, with two derivatives by z. Its methods are called from
// several goroutines.
type Function interface {
	// Name is the loss's.
	Name() string
	// Check says what is wrong with y, "" where it is an observation.
	Check(y float64) string
	// Value, Slope and Curvature are f and its first two derivatives by z.
	Value(z, y float64) float64
	Slope(z, y float64) float64
	Curvature(z, y float64) float64
	// Lipschitz is the least upper bound of the curvature, +Inf where there is none.
	Lipschitz() float64
	// Least is the minimum of f over z.
	Least(y float64) float64
	// Gap is f(z; y) + f*(u; y) - u z >= 0, with the convex conjugate f* and off = u - Slope(z, y);
	// +Inf where f* is.
	Gap(u, off, z, y float64) float64
	// Mean is the expectation of y.
	Mean(z float64) float64
	// Likelihood says that f is a negative log-likelihood but for terms of y alone.
	Likelihood() bool
	// Constant are the terms of y alone that w f leaves out of minus the logarithm of the likelihood, 0 where it is
	// none.
	Constant(w, y float64) float64
	// Unit is a change of z that changes the curvature by about its own size.
	Unit() float64
}

// evaluation sets value_i, slope_i and curve_i to f(z_i; y_i) and its first two derivatives. Each of them may be nil,
// where it is not wanted. What an observation gives does not depend on the others.
type evaluation func(value, slope, curve, z, y []float64)

// evaluationOf is that of a function which evaluates several observations in less work than one after the other, or
// one after the other.
func evaluationOf(f Function) evaluation {
	if f, ok := f.(interface {
		each(value, slope, curve, z, y []float64)
	}); ok {
		return f.each
	}
	return func(value, slope, curve, z, y []float64) {
		for i := range value {
			value[i] = f.Value(z[i], y[i])
		}
		for i := range slope {
			slope[i] = f.Slope(z[i], y[i])
		}
		for i := range curve {
			curve[i] = f.Curvature(z[i], y[i])
		}
	}
}

// scratchOf is the first of what is wanted by an evaluation. What comes later in its arguments may be set before it
// is read for the last time.
func scratchOf(wanted ...[]float64) []float64 {
	for _, v := range wanted {
		if v != nil {
			return v
		}
	}
	return nil
}

// New is the loss sum_i w_i f(z_i; y_i). It is an error if a weight is negative or not finite, or if all are 0; nil
// stands for ones.
func New(f Function, w []float64) (*Pointwise, error) {
	largest := 1.0
	if w != nil {
		var err error
		if largest, err = checkWeights(w); err != nil {
			return nil, err
		}
	}
	return of(f, w, nil, largest), nil
}

func of(f Function, w, offset []float64, largest float64) *Pointwise {
	l := &Pointwise{f: f, each: evaluationOf(f), w: w, offset: offset, largest: largest}
	l.known = Structure{Name: f.Name(), Check: l.check, At: l.at, Least: l.least, Gap: l.gap, Mean: l.mean,
		Unit: f.Unit(), Likelihood: f.Likelihood(), Together: l.together, Parts: l.parts, Constant: l.constant}
	l.known.Pick = l.pick
	return l
}

// Shifted is the loss l(z + offset; y) with a number for each observation, as of a term of the linear predictor that
// is known: the logarithm of an exposure, for example. It is an error if one is not finite.
func (l *Pointwise) Shifted(offset []float64) (*Pointwise, error) {
	return of(l.f, l.w, offset, l.largest), checkOffset(offset)
}

func checkOffset(offset []float64) error {
	for i, v := range offset {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("loss: the offset of observation %d is %g, expected a finite number", i, v)
		}
	}
	return nil
}

func (l *Pointwise) shift(i int, z float64) float64 {
	if l.offset == nil {
		return z
	}
	return z + l.offset[i]
}

func (l *Pointwise) Structure() Structure { return l.known }

func (l *Pointwise) weight(i int) float64 {
	if l.w == nil {
		return 1
	}
	return l.w[i]
}

// scratch is memory for vectors on the host, and for a loop over their entries.
type scratch struct {
	z, y, value, slope, curve, sums []float64
	l                               *Pointwise
	part                            func(s *scratch, from, to int) float64
}

// fits panics unless both are single vectors of one length.
func (l *Pointwise) fits(a, b array.Batch) {
	if a.K() != 1 || b.K() != 1 || a.N() != b.N() {
		check("the "+l.f.Name()+" loss", a, b)
	}
}

// take is z and y on the host, in memory that goes back to the pool.
func (l *Pointwise) take(z, y array.Batch) *scratch {
	l.fits(z, y)
	s := l.memory(z.N())
	z.Device().Download(s.z, z)
	y.Device().Download(s.y, y)
	l.shiftAll(s.z)
	return s
}

func (l *Pointwise) memory(n int) *scratch {
	if l.w != nil && len(l.w) != n || l.offset != nil && len(l.offset) != n {
		panic(fmt.Sprintf("loss: %s with %d weights and %d offsets of %d observations", l.f.Name(), len(l.w),
			len(l.offset), n))
	}
	s, ok := l.pool.Get().(*scratch)
	if !ok || len(s.z) != n {
		all := make([]float64, 5*n+parallel.Parts(n, parallel.Share))
		s = &scratch{l: l, z: all[:n], y: all[n : 2*n], value: all[2*n : 3*n], slope: all[3*n : 4*n],
			curve: all[4*n : 5*n], sums: all[5*n:]}
	}
	return s
}

func (l *Pointwise) shiftAll(z []float64) {
	for i, v := range l.offset {
		z[i] += v
	}
}

// sum adds what part returns for ranges of observations, on all idle processors. Its bits do not depend on how many.
func (s *scratch) sum(part func(s *scratch, from, to int) float64) float64 {
	s.part = part
	parallel.Do(len(s.sums), s)
	return floats.Sum(s.sums)
}

// Part is that of some observations.
func (s *scratch) Part(k int) {
	s.sums[k] = s.part(s, k*parallel.Share, min((k+1)*parallel.Share, len(s.z)))
}

// terms adds a term of each observation of positive weight w.
func (s *scratch) terms(from, to int, term func(s *scratch, i int, w float64) float64) (sum float64) {
	for i := from; i < to; i++ {
		if w := s.l.weight(i); w > 0 {
			sum += term(s, i, w)
		}
	}
	return sum
}

// evaluate sets the values, the slopes and the curvatures, with their weights, as far as they are wanted, and returns
// the sum of the values.
func (s *scratch) evaluate(from, to int, valued, sloped, curved bool) (sum float64) {
	var wanted [3][]float64
	for k, v := range [3][]float64{s.value, s.slope, s.curve} {
		if [3]bool{valued, sloped, curved}[k] {
			wanted[k] = v[from:to]
		}
	}
	s.l.each(wanted[0], wanted[1], wanted[2], s.z[from:to], s.y[from:to])
	if s.l.w != nil {
		for _, v := range wanted {
			weigh(v, s.l.w[from:min(to, from+len(v))])
		}
	}
	return floats.Sum(wanted[0])
}

// weigh multiplies by weights. Where one is 0 it is 0, whatever v.
func weigh(v, w []float64) {
	for i, w := range w {
		if v[i] *= w; w == 0 {
			v[i] = 0
		}
	}
}

func (l *Pointwise) Value(z, y array.Batch) float64 {
	s := l.take(z, y)
	defer l.pool.Put(s)
	return s.sum(func(s *scratch, from, to int) float64 { return s.evaluate(from, to, true, false, false) })
}

func (l *Pointwise) Gradient(dst, z, y array.Batch) {
	s := l.take(z, y)
	defer l.pool.Put(s)
	l.fits(dst, z)
	s.sum(func(s *scratch, from, to int) float64 { return s.evaluate(from, to, false, true, false) })
	dst.Device().Upload(dst, s.slope)
}

func (l *Pointwise) Curvature(dst, z, y array.Batch) {
	s := l.take(z, y)
	defer l.pool.Put(s)
	l.fits(dst, z)
	s.sum(func(s *scratch, from, to int) float64 { return s.evaluate(from, to, false, false, true) })
	dst.Device().Upload(dst, s.curve)
}

// together sets slope and curve, and returns the value.
func (l *Pointwise) together(slope, curve, z, y array.Batch) float64 {
	s := l.take(z, y)
	defer l.pool.Put(s)
	l.fits(slope, z)
	l.fits(curve, z)
	sum := s.sum(func(s *scratch, from, to int) float64 { return s.evaluate(from, to, true, true, true) })
	slope.Device().Upload(slope, s.slope)
	curve.Device().Upload(curve, s.curve)
	return sum
}

func (l *Pointwise) parts(dst, z, y []float64) {
	s := l.memory(len(z))
	defer l.pool.Put(s)
	copy(s.z, z)
	copy(s.y, y)
	l.shiftAll(s.z)
	s.sum(func(s *scratch, from, to int) float64 { return s.evaluate(from, to, true, false, false) })
	copy(dst, s.value)
}

func (l *Pointwise) Weights() (array.Batch, bool) { return array.Batch{}, false }

// Lipschitz is the largest weight times the bound of f^(2).
func (l *Pointwise) Lipschitz() float64 { return l.largest * l.f.Lipschitz() }

func (l *Pointwise) check(y []float64) error {
	for i, v := range y {
		if wrong := l.f.Check(v); wrong != "" {
			return fmt.Errorf("y[%d] is %g: %s", i, v, wrong)
		}
	}
	if l.w != nil && len(l.w) != len(y) {
		return fmt.Errorf("%d weights of observations, expected %d, as many as there are in y", len(l.w), len(y))
	}
	if l.offset != nil && len(l.offset) != len(y) {
		return fmt.Errorf("%d offsets of observations, expected %d, as many as there are in y", len(l.offset), len(y))
	}
	return nil
}

func (l *Pointwise) at(i int, z, y float64) float64 {
	if l.weight(i) > 0 {
		return l.weight(i) * l.f.Value(l.shift(i, z), y)
	}
	return 0
}

// alone are the sums of terms of y alone, kept for the last y.
type alone struct {
	sync.Mutex
	y               []float64
	least, constant float64
}

func (a *alone) of(y []float64, compute func() (least, constant float64)) (least, constant float64) {
	a.Lock()
	defer a.Unlock()
	if a.y == nil || !slices.Equal(a.y, y) {
		a.least, a.constant = compute()
		a.y = append(a.y[:0], y...)
	}
	return a.least, a.constant
}

func (l *Pointwise) least(y array.Batch) float64 {
	least, _ := l.ofY(y)
	return least
}

func (l *Pointwise) constant(y array.Batch) float64 {
	_, constant := l.ofY(y)
	return constant
}

func (l *Pointwise) ofY(y array.Batch) (least, constant float64) {
	s := l.take(y, y)
	defer l.pool.Put(s)
	return l.last.of(s.y, func() (least, constant float64) {
		least = s.sum(func(s *scratch, from, to int) float64 {
			return s.terms(from, to, func(s *scratch, i int, w float64) float64 { return w * s.l.f.Least(s.y[i]) })
		})
		constant = s.sum(func(s *scratch, from, to int) float64 {
			return s.terms(from, to, func(s *scratch, i int, w float64) float64 { return s.l.f.Constant(w, s.y[i]) })
		})
		return least, constant
	})
}

func (l *Pointwise) gap(u, z, y array.Batch) float64 {
	s := l.take(z, y)
	defer l.pool.Put(s)
	l.fits(u, z)
	u.Device().Download(s.value, u)
	for i, w := range l.w {
		if !(w > 0) && s.value[i] != 0 {
			return math.Inf(1)
		}
	}
	return s.sum((*scratch).gaps)
}

// gaps adds the gaps of observations, with u in the place of values.
func (s *scratch) gaps(from, to int) float64 {
	l, z, y := s.l, s.z[from:to], s.y[from:to]
	if f, ok := l.f.(interface {
		gaps(gap, u, z, y []float64)
	}); ok {
		u := s.value[from:to]
		for i := range u {
			u[i] /= l.weight(from + i)
		}
		f.gaps(s.curve[from:to], u, z, y)
		return s.terms(from, to, func(s *scratch, i int, w float64) float64 { return w * s.curve[i] })
	}
	l.each(nil, s.slope[from:to], nil, z, y)
	return s.terms(from, to, func(s *scratch, i int, w float64) float64 {
		u := s.value[i] / w
		return w * s.l.f.Gap(u, u-s.slope[i], s.z[i], s.y[i])
	})
}

func (l *Pointwise) mean(dst, z []float64) {
	several, fast := l.f.(interface{ means(p []float64) })
	parallel.Ranges(len(z), parallel.Share, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if dst[i] = l.shift(i, z[i]); !fast {
				dst[i] = l.f.Mean(dst[i])
			}
		}
		if fast {
			several.means(dst[lo:hi])
		}
	})
}

// isNear reports whether p + off is so near to p that relativeEntropy has no need of log p.
func isNear(off, p float64) bool { return math.Abs(off) <= p/16 }

// relativeEntropy is q log(q/p) - off for p > 0, given as log p too, and q = p + off; +Inf where q <
// 0. It has no cancellation where q is near p.
func relativeEntropy(q, p, logP, off float64) float64 {
	switch {
	case off == 0:
		return 0
	case isNear(off, p):
		// (1 + x) log(1 + x) - x, x = off/p.
		x := off / p
		if math.Abs(x) < 1e-3 {
			return p * x * x * (0.5 - x*(1./6-x*(1./12-x/20)))
		}
		return p * ((1+x)*math.Log1p(x) - x)
	case q < 0:
		if q > -8*0x1p-52*math.Abs(off) {
			return -off // q is 0 but for rounding errors
		}
		return math.Inf(1)
	case q == 0:
		return -off
	}
	return q*(math.Log(q)-logP) - off
}
