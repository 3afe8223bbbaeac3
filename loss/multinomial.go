package loss

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/numerics/elementary"
	"surepipe/internal/parallel"
)

// mostClasses is the number of classes that a response of labels may have.
const mostClasses = 100

// observationsAtOnce is the number of observations that a processor takes at a time.
const observationsAtOnce = 256

// Multinomial is the negative log-likelihood of a multinomial logistic regression,
//
//	l(z; y) = sum_i w_i (log sum_k exp z_ik - sum_k y_ik z_ik),   P(class k) = p_ik = exp z_ik / sum_m exp z_im,
//
// with K entries of z and y for each observation, one after the other: y_ik is 1 for its class and 0 for the others, or
// the shares of classes, which add up to 1. A constant in the z of an observation changes nothing. The second
// derivative has the blocks w_i (diag(p_i) - p_i p_i*), whose eigenvalues are at most w_i/2. It computes on the host,
// as [Pointwise] does.
type Multinomial struct {
	classes int
	w       []float64 // of the observations, nil for ones
	largest float64
	known   Structure
}

// NewMultinomial returns the loss. It is an error if there are no two classes, if a weight is negative or not finite,
// or if there is an offset, which would be that of all classes.
func NewMultinomial(o Observed) (*Multinomial, error) {
	l := &Multinomial{classes: o.Classes, w: o.Weights, largest: 1}
	if o.Classes < 2 {
		return nil, fmt.Errorf("the multinomial loss has %d classes, expected at least 2: y has shape (d, K), a "+
			"column for each class", o.Classes)
	}
	if o.Offset != nil {
		return nil, fmt.Errorf("an offset is given, but the same number in all classes does not change the " +
			"multinomial loss: expected none")
	}
	if o.Weights != nil {
		var err error
		if l.largest, err = checkWeights(o.Weights); err != nil {
			return nil, err
		}
	}
	l.known = Structure{Name: "multinomial", Check: l.check, Least: l.least, Gap: l.gap, Likelihood: true, Mean: l.mean,
		Unit: 1, Coupled: l, Each: l.classes, Parts: l.parts, Together: l.together,
		Size: func(y []float64) int { return len(y) / l.classes }}
	l.known.Pick = func(rows []int) (Structured, error) { return NewMultinomial(l.pick(rows)) }
	return l, nil
}

func (l *Multinomial) pick(entries []int) Observed {
	var rows []int
	for at := 0; at < len(entries); at += l.classes {
		rows = append(rows, entries[at]/l.classes)
	}
	return Observed{Weights: l.w, Classes: l.classes}.pick(rows)
}

func (l *Multinomial) Structure() Structure { return l.known }

// ranges calls f with places between which there are whole observations, several at a time.
func (l *Multinomial) ranges(n int, f func(from, to int)) {
	if n%l.classes != 0 || l.w != nil && len(l.w) != n/l.classes {
		panic(fmt.Sprintf("loss: %d entries of z for %d classes and %d weights", n, l.classes, len(l.w)))
	}
	parallel.Ranges(n, l.atOnce(), f)
}

func (l *Multinomial) atOnce() int { return observationsAtOnce * l.classes }

// within calls f for the observations between two places, with their weights and the places of their entries.
func (l *Multinomial) within(lo, hi int, f func(w float64, from, to int)) {
	for from := lo; from < hi; from += l.classes {
		w := 1.0
		if l.w != nil {
			w = l.w[from/l.classes]
		}
		f(w, from, from+l.classes)
	}
}

// softmax sets p to the probabilities of n classes at z, for several observations. p may be z.
func softmax(p, z []float64, n int) {
	aboveMost(p, z, n)
	elementary.Exp(p, p)
	for from := 0; from < len(p); from += n {
		row, sum := p[from:from+n], 0.0
		for _, v := range row {
			sum += v
		}
		floats.Scale(1/sum, row)
	}
}

// aboveMost sets dst to z less the largest entry of each observation. dst may be z.
func aboveMost(dst, z []float64, n int) {
	for from := 0; from < len(z); from += n {
		row, most := z[from:from+n], z[from]
		for _, v := range row {
			most = max(most, v)
		}
		for k, v := range row {
			dst[from+k] = v - most
		}
	}
}

// of is the loss of an observation without its weight, sum_k y_k (log sum_m exp z_m - z_k), for z less its largest
// entry and e = exp z, without cancellation where the probability of a class is near 1.
func (l *Multinomial) of(z, e, y []float64) (sum float64) {
	most, rest := floats.MaxIdx(z), 0.0
	for k, v := range e {
		if k != most {
			rest += v
		}
	}
	log := math.Log1p(rest)
	for k, v := range y {
		if v > 0 {
			sum += v * (log - z[k])
		}
	}
	return sum
}

func (l *Multinomial) Value(z, y array.Batch) float64 {
	parts := z.ToHost()
	l.parts(parts, parts, y.Read())
	return floats.Sum(parts) / float64(l.classes)
}

func (l *Multinomial) parts(dst, z, y []float64) {
	l.ranges(len(z), func(lo, hi int) {
		e := make([]float64, hi-lo)
		aboveMost(dst[lo:hi], z[lo:hi], l.classes)
		elementary.Exp(e, dst[lo:hi])
		l.within(lo, hi, func(w float64, from, to int) {
			v := 0.0
			if w > 0 {
				v = w * l.of(dst[from:to], e[from-lo:to-lo], y[from:to])
			}
			for i := from; i < to; i++ {
				dst[i] = v
			}
		})
	})
}

// set sets dst to what of makes of the weight, the probabilities, in their place, and y of every observation, or to 0
// where the weight is.
func (l *Multinomial) set(dst, z, y array.Batch, of func(w float64, p, y []float64)) {
	check("the multinomial loss", dst, z, y)
	p, on := z.ToHost(), y.Read()
	l.ranges(len(p), func(lo, hi int) {
		softmax(p[lo:hi], p[lo:hi], l.classes)
		l.within(lo, hi, func(w float64, from, to int) {
			if w == 0 {
				clear(p[from:to])
				return
			}
			of(w, p[from:to], on[from:to])
		})
	})
	dst.Device().Upload(dst, p)
}

// Gradient sets dst to w_i (p_ik - y_ik).
func (l *Multinomial) Gradient(dst, z, y array.Batch) { l.set(dst, z, y, slopeOf) }

// Curvature sets dst to a diagonal above the second derivative.
func (l *Multinomial) Curvature(dst, z, y array.Batch) { l.set(dst, z, y, diagonalOf) }

// together sets slope and curve, and returns the value, with one exponential for an entry.
func (l *Multinomial) together(slope, curve, z, y array.Batch) float64 {
	check("the multinomial loss", slope, z, y)
	check("the multinomial loss", curve, z)
	p, on, d := z.Read(), y.Read(), z.N()
	slopes, curves, sums := make([]float64, d), make([]float64, d), make([]float64, parallel.Parts(d, l.atOnce()))
	l.ranges(d, func(lo, hi int) {
		e, z := slopes[lo:hi], curves[lo:hi]
		aboveMost(z, p[lo:hi], l.classes)
		elementary.Exp(e, z)
		l.within(lo, hi, func(w float64, from, to int) {
			if w == 0 {
				clear(slopes[from:to])
				clear(curves[from:to])
				return
			}
			e, z, y, sum := slopes[from:to], curves[from:to], on[from:to], 0.0
			sums[lo/l.atOnce()] += w * l.of(z, e, y)
			for _, v := range e {
				sum += v
			}
			floats.Scale(1/sum, e)
			copy(z, e)
			slopeOf(w, e, y)
			diagonalOf(w, z, y)
		})
	})
	slope.Device().Upload(slope, slopes)
	curve.Device().Upload(curve, curves)
	return floats.Sum(sums)
}

// slopeOf replaces p by w (p - y), without cancellation where both are near 1.
func slopeOf(w float64, p, y []float64) {
	for k, v := range y {
		if v == 1 {
			p[k] = 0
			p[k] = -floats.Sum(p)
		} else {
			p[k] -= v
		}
	}
	floats.Scale(w, p)
}

// diagonalOf replaces p by w p, or where a class has more than half of the probability 2 w p (1 - p), beside which the
// rest of the block is diagonally dominant.
func diagonalOf(w float64, p, _ []float64) {
	if at := floats.MaxIdx(p); p[at] > 0.5 {
		first := p[at]
		p[at] = 0
		rest := floats.Sum(p)
		for k, v := range p {
			p[k] = 2 * v * (1 - v)
		}
		p[at] = 2 * first * rest
	}
	floats.Scale(w, p)
}

func (l *Multinomial) Product(dst, v, z, y array.Batch) {
	check("the multinomial loss", v, z)
	p, x := z.ToHost(), v.ToHost()
	l.ranges(len(p), func(lo, hi int) {
		softmax(p[lo:hi], p[lo:hi], l.classes)
		l.within(lo, hi, func(w float64, from, to int) {
			p, x := p[from:to], x[from:to]
			mean := 0.0
			for k, v := range x {
				mean += p[k] * v
			}
			for k, v := range x {
				x[k] = w * p[k] * (v - mean)
			}
		})
	})
	dst.Device().Upload(dst, x)
}

// Root returns R with the blocks w_i^{1/2} diag(p_i)^{1/2} (I - 1 p_i*).
func (l *Multinomial) Root(z, y array.Batch) (Root, error) {
	r := &multinomialRoot{l.classes, z.ToHost(), make([]float64, z.N())}
	l.ranges(len(r.p), func(lo, hi int) {
		softmax(r.p[lo:hi], r.p[lo:hi], l.classes)
		l.within(lo, hi, func(w float64, from, to int) {
			for i := from; i < to; i++ {
				r.root[i] = math.Sqrt(w * r.p[i])
			}
		})
	})
	return r, nil
}

func (r *multinomialRoot) Square() func() []float64 { return r.square }

// square has the blocks w (diag(p) - p p*).
func (r *multinomialRoot) square() []float64 {
	n := r.classes
	square := make([]float64, len(r.p)*n)
	parallel.Ranges(len(r.p)/n, observationsAtOnce, func(lo, hi int) {
		for k := lo * n; k < hi*n; k++ {
			from := k - k%n
			row, wp := square[k*n:(k+1)*n], r.root[k]*r.root[k]
			rest := 0.0
			for j, p := range r.p[from : from+n] {
				if row[j] = -wp * p; from+j != k {
					rest += p
				}
			}
			row[k-from] = wp * rest
		}
	})
	return square
}

// multinomialRoot has p and (w p)^{1/2}.
type multinomialRoot struct {
	classes int
	p, root []float64
}

// blocks calls f with where each block begins.
func (r *multinomialRoot) blocks(f func(from int)) {
	parallel.Ranges(len(r.p)/r.classes, observationsAtOnce, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i * r.classes)
		}
	})
}

func (r *multinomialRoot) Forward(dst, v []float64) {
	r.blocks(func(from int) {
		p, mean := r.p[from:from+r.classes], 0.0
		for k, q := range p {
			mean += q * v[from+k]
		}
		for k := range p {
			dst[from+k] = r.root[from+k] * (v[from+k] - mean)
		}
	})
}

func (r *multinomialRoot) Columns(x []float64, n int) {
	parallel.Ranges(len(r.p)/r.classes, observationsAtOnce, func(lo, hi int) {
		mean := make([]float64, n)
		for i := lo; i < hi; i++ {
			clear(mean)
			for k := i * r.classes; k < (i+1)*r.classes; k++ {
				floats.AddScaled(mean, r.p[k], x[k*n:(k+1)*n])
			}
			for k := i * r.classes; k < (i+1)*r.classes; k++ {
				row := x[k*n : (k+1)*n]
				floats.Sub(row, mean)
				floats.Scale(r.root[k], row)
			}
		}
	})
}

func (r *multinomialRoot) Adjoint(dst, v []float64) {
	r.blocks(func(from int) {
		p, sum := r.p[from:from+r.classes], 0.0
		for k := range p {
			dst[from+k] = r.root[from+k] * v[from+k]
			sum += dst[from+k]
		}
		for k, q := range p {
			dst[from+k] -= sum * q
		}
	})
}

// Inverse sets dst to the x with R x = v and <p_i, x_i> = 0.
func (r *multinomialRoot) Inverse(dst, v []float64) { r.divide(dst, v) }

// InverseAdjoint sets dst to the x with R* x = v and <p_i^{1/2}, x_i> = 0.
func (r *multinomialRoot) InverseAdjoint(dst, v []float64) { r.divide(dst, v) }

func (r *multinomialRoot) divide(dst, v []float64) {
	for i, s := range r.root {
		if s == 0 {
			dst[i] = 0
		} else {
			dst[i] = v[i] / s
		}
	}
}

func (l *Multinomial) Weights() (array.Batch, bool) { return array.Batch{}, false }

// Lipschitz is half of the largest weight.
func (l *Multinomial) Lipschitz() float64 { return l.largest / 2 }

func (l *Multinomial) mean(dst, z []float64) {
	l.ranges(len(z), func(lo, hi int) { softmax(dst[lo:hi], z[lo:hi], l.classes) })
}

// shareError is how far from 1 the shares of an observation may add up to.
const shareError = 1e-9

func (l *Multinomial) check(y []float64) error {
	if n := len(y) / l.classes; len(y)%l.classes != 0 || l.w != nil && len(l.w) != n {
		return fmt.Errorf("y has %d entries for %d classes and %d weights of observations, expected one for each "+
			"class of each observation", len(y), l.classes, len(l.w))
	}
	total := make([]float64, l.classes)
	for from := 0; from < len(y); from += l.classes {
		row, sum := y[from:from+l.classes], 0.0
		for k, v := range row {
			if !(v >= 0 && v <= 1) {
				return fmt.Errorf("y[%d, %d] is %g: the multinomial loss expects 1 for the class of an observation "+
					"and 0 for the others, or shares between them", from/l.classes, k, v)
			}
			sum += v
		}
		if math.Abs(sum-1) > shareError {
			return fmt.Errorf("y[%d] adds up to %g, expected shares of the classes that add up to 1; their number "+
				"of trials is the weight of the observation", from/l.classes, sum)
		}
		floats.Add(total, row)
	}
	for k, v := range total {
		if v == 0 {
			return fmt.Errorf("y is 0 everywhere in class %d, counted from 0: expected observations of every class", k)
		}
	}
	return nil
}

func (l *Multinomial) least(y array.Batch) (sum float64) {
	on := y.Read()
	l.within(0, len(on), func(w float64, from, to int) {
		for _, v := range on[from:to] {
			if v > 0 {
				sum -= w * v * math.Log(v)
			}
		}
	})
	return sum
}

// gap is the relative entropy of y + u/w and p, +Inf where the former are no probabilities.
func (l *Multinomial) gap(u, z, y array.Batch) (sum float64) {
	off, at, on := u.Read(), z.Read(), y.Read()
	all := make([]float64, len(at))
	l.ranges(len(at), func(lo, hi int) { softmax(all[lo:hi], at[lo:hi], l.classes) })
	l.within(0, len(off), func(w float64, from, to int) {
		off, at, on, p := off[from:to], at[from:to], on[from:to], all[from:to]
		if w == 0 {
			if floats.Norm(off, 1) > 0 {
				sum = math.Inf(1)
			}
			return
		}
		if math.Abs(floats.Sum(off)) > shareError*w {
			sum = math.Inf(1)
			return
		}
		logs := math.NaN()
		for k, v := range off {
			move, log := v/w+on[k]-p[k], 0.0
			if !isNear(move, p[k]) {
				if math.IsNaN(logs) {
					logs = floats.LogSumExp(at)
				}
				log = at[k] - logs
			}
			sum += w * relativeEntropy(on[k]+v/w, p[k], log, move)
		}
	})
	return sum
}
