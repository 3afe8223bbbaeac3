package prox

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/internal/vector"
)

// function is a Prox made of functions on host slices.
type function struct {
	p    int
	prox func(dst, v []float64, t float64) error
	vjp  func(dst, v, z []float64, t float64)
	Known
}

// NewFunc returns a Prox made of functions on slices in the host's memory, on vectors of length p,
// or of any length if p = 0.
//
//   - prox sets dst = prox_{t r}(v).
//   - vjp sets dst = J z, where J is the Jacobian of prox_{t r} at v. It may be nil, and then J z
//     comes from central differences of prox along z, two evaluations each.
//   - value returns r(b). It may be nil.
//
// The functions are called from several goroutines; dst never shares memory with the other slices,
// which they must not modify. A NaN in what prox returns is an error.
//
// # Differences
//
// With u = z/||z|| and h = 6e-6 ||v||, or 6e-6 t where v = 0,
//
//	J z = ||z|| (prox(v + h u) - prox(v - h u)) / (2 h).
//
// Where the proximal operator is piecewise linear and has no kink between the two points this is
// exact up to rounding, about 1e-11 ||z||, and where it is smooth the error is of the same size: h
// is the cube root of the rounding error, which balances the two errors. A kink between the points
// gives a value between those on either side of it. Where prox fails at one of the two points, J z
// is NaN.
func NewFunc(
	p int,
	prox func(dst, v []float64, t float64) error,
	vjp func(dst, v, z []float64, t float64),
	value func(b []float64) float64,
) Prox {
	if p < 0 || prox == nil {
		panic(fmt.Sprintf("prox: NewFunc of dimension %d, prox given: %t", p, prox != nil))
	}
	f := &function{p: p, prox: prox, vjp: vjp}
	if value != nil {
		f.Is.Value = func(b array.Batch) float64 {
			vector.CheckValue("regularizer", p, b)
			return value(b.ToHost())
		}
	}
	return f
}

func (p *function) Dim() int { return p.p }

func (p *function) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("function", p.p, dst, v, t)
	n := v.N()
	in, out := v.ToHost(), make([]float64, v.K()*n)
	if err := v.Device().Err(); err != nil {
		return fmt.Errorf("prox: function: %w", err)
	}
	for i := range v.K() {
		if err := p.prox(out[i*n:(i+1)*n:(i+1)*n], in[i*n:(i+1)*n:(i+1)*n], t); err != nil {
			return fmt.Errorf("prox: function: %w", err)
		}
	}
	for i, x := range out {
		if x != x {
			return fmt.Errorf("prox: function: NaN at entry %d of vector %d", i%n, i/n)
		}
	}
	dst.Device().Upload(dst, out)
	return nil
}

func (p *function) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("function", p.p, dst, v, t)
	dev := v.Device()
	keep := dev.Alloc(1, v.N())
	dev.Copy(keep, v)
	if err := p.Eval(dst, v, t); err != nil {
		keep.Free()
		return nil, err
	}
	n := v.N()
	return NewDerivative("function", n, func(dst, z array.Batch) {
		apply := p.vjp
		if apply == nil {
			apply = p.differences()
		}
		v, in, out := keep.ToHost(), z.ToHost(), make([]float64, z.K()*n)
		for i := range z.K() {
			apply(out[i*n:(i+1)*n:(i+1)*n], v, in[i*n:(i+1)*n:(i+1)*n], t)
		}
		dst.Device().Upload(dst, out)
	}, nil, keep), nil
}

// differenceStep is the step of a central difference relative to the size of the argument, the cube
// root of the relative error of one rounding.
const differenceStep = 6e-6

// differences returns a function that sets dst = J z by central differences.
func (p *function) differences() func(dst, v, z []float64, t float64) {
	var at, below []float64
	return func(dst, v, z []float64, t float64) {
		length, size := vector.Euclid(z), vector.Euclid(v)
		if length == 0 {
			clear(dst)
			return
		}
		if size == 0 {
			size = t
		}
		h := differenceStep * size
		at, below = lists.Resize(at, len(v)), lists.Resize(below, len(v))
		evaluate := func(to []float64, h float64) error {
			for i, x := range v {
				at[i] = x + h*(z[i]/length)
			}
			return p.prox(to, at, t)
		}
		scale := length / (2 * h)
		if evaluate(dst, h) != nil || evaluate(below, -h) != nil {
			scale = math.NaN()
		}
		for i, x := range dst {
			dst[i] = (x - below[i]) * scale
		}
	}
}
