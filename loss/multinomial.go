package loss

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/parallel"
)

// mostClasses is the number of classes that a response of labels may have.
const mostClasses = 100

const observationsAtOnce = 64

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
		Unit: 1, Coupled: l, Each: l.classes, Parts: l.parts,
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

func (l *Multinomial) each(n int, f func(w float64, from, to int)) {
	if n%l.classes != 0 || l.w != nil && len(l.w) != n/l.classes {
		panic(fmt.Sprintf("loss: %d entries of z for %d classes and %d weights", n, l.classes, len(l.w)))
	}
	for i := range n / l.classes {
		w := 1.0
		if l.w != nil {
			w = l.w[i]
		}
		f(w, i*l.classes, (i+1)*l.classes)
	}
}

func softmax(p, z []float64) {
	most, sum := floats.Max(z), 0.0
	for k, v := range z {
		p[k] = math.Exp(v - most)
		sum += p[k]
	}
	floats.Scale(1/sum, p)
}

// of is the loss of an observation without its weight, sum_k y_k (log sum_m exp z_m - z_k), without cancellation where
// the probability of a class is near 1.
func (l *Multinomial) of(z, y []float64) (sum float64) {
	most, rest := floats.MaxIdx(z), 0.0
	for k, v := range z {
		if k != most {
			rest += math.Exp(v - z[most])
		}
	}
	for k, v := range y {
		if v > 0 {
			sum += v * (z[most] - z[k] + math.Log1p(rest))
		}
	}
	return sum
}

func (l *Multinomial) Value(z, y array.Batch) float64 {
	parts := z.ToHost()
	l.parts(parts, parts, y.ToHost())
	return floats.Sum(parts) / float64(l.classes)
}

func (l *Multinomial) parts(dst, z, y []float64) {
	l.each(len(z), func(w float64, from, to int) {
		v := 0.0
		if w > 0 {
			v = w * l.of(z[from:to], y[from:to])
		}
		for i := from; i < to; i++ {
			dst[i] = v
		}
	})
}

// set sets dst to what of makes of the weight, the probabilities, in their place, and y of every observation, or to 0
// where the weight is.
func (l *Multinomial) set(dst, z, y array.Batch, of func(w float64, p, y []float64)) {
	check("the multinomial loss", dst, z, y)
	p, on := z.ToHost(), y.ToHost()
	l.each(len(p), func(w float64, from, to int) {
		if w == 0 {
			clear(p[from:to])
			return
		}
		softmax(p[from:to], p[from:to])
		of(w, p[from:to], on[from:to])
	})
	dst.Device().Upload(dst, p)
}

// Gradient sets dst to w_i (p_ik - y_ik), without cancellation where both are near 1.
func (l *Multinomial) Gradient(dst, z, y array.Batch) {
	l.set(dst, z, y, func(w float64, p, y []float64) {
		for k, v := range y {
			if v == 1 {
				p[k] = 0
				p[k] = -floats.Sum(p)
			} else {
				p[k] -= v
			}
		}
		floats.Scale(w, p)
	})
}

// Curvature sets dst to a diagonal above the second derivative: w_i p_ik, or where a class has more than half of the
// probability 2 w_i p_ik (1 - p_ik), beside which the rest of the block is diagonally dominant.
func (l *Multinomial) Curvature(dst, z, y array.Batch) {
	l.set(dst, z, y, func(w float64, p, _ []float64) {
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
	})
}

func (l *Multinomial) Product(dst, v, z, y array.Batch) {
	check("the multinomial loss", v, z)
	p, x := z.ToHost(), v.ToHost()
	l.each(len(p), func(w float64, from, to int) {
		p, x := p[from:to], x[from:to]
		softmax(p, p)
		mean := floats.Dot(p, x)
		for k, v := range x {
			x[k] = w * p[k] * (v - mean)
		}
	})
	dst.Device().Upload(dst, x)
}

// Root returns R with the blocks w_i^{1/2} diag(p_i)^{1/2} (I - 1 p_i*).
func (l *Multinomial) Root(z, y array.Batch) (Root, error) {
	r := &multinomialRoot{l.classes, z.ToHost(), make([]float64, z.N())}
	l.each(len(r.p), func(w float64, from, to int) {
		softmax(r.p[from:to], r.p[from:to])
		for i := from; i < to; i++ {
			r.root[i] = math.Sqrt(w * r.p[i])
		}
	})
	return r, nil
}

type multinomialRoot struct {
	classes int
	p, root []float64
}

func (r *multinomialRoot) blocks(dst, v []float64, f func(dst, v, p, root []float64)) {
	for from := 0; from < len(v); from += r.classes {
		to := from + r.classes
		f(dst[from:to], v[from:to], r.p[from:to], r.root[from:to])
	}
}

func (r *multinomialRoot) Forward(dst, v []float64) {
	r.blocks(dst, v, func(dst, v, p, root []float64) {
		mean := floats.Dot(p, v)
		for k, x := range v {
			dst[k] = root[k] * (x - mean)
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
	r.blocks(dst, v, func(dst, v, p, root []float64) {
		floats.MulTo(dst, root, v)
		floats.AddScaled(dst, -floats.Sum(dst), p)
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

func (l *Multinomial) Lipschitz() float64 { return l.largest / 2 }

func (l *Multinomial) mean(dst, z []float64) {
	for from := 0; from < len(z); from += l.classes {
		softmax(dst[from:from+l.classes], z[from:from+l.classes])
	}
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
	on := y.ToHost()
	l.each(len(on), func(w float64, from, to int) {
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
	off, at, on := u.ToHost(), z.ToHost(), y.ToHost()
	p := make([]float64, l.classes)
	l.each(len(off), func(w float64, from, to int) {
		off, at, on := off[from:to], at[from:to], on[from:to]
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
		softmax(p, at)
		logs := floats.LogSumExp(at)
		for k, v := range off {
			move := v/w + on[k] - p[k]
			sum += w * relativeEntropy(on[k]+v/w, p[k], at[k]-logs, move)
		}
	})
	return sum
}
