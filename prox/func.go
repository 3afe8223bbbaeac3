package prox

import (
	"fmt"

	"surepipe/array"
)

// function is a Prox made of functions on host slices.
type function struct {
	p    int
	prox func(dst, v []float64, t float64) error
	vjp  func(dst, v, z []float64, t float64)
}

// NewFunc returns a Prox made of functions on slices in the host's memory, on
// vectors of length p, or of any length if p = 0.
//
//   - prox sets dst = prox_{t r}(v).
//   - vjp sets dst = J z, where J is the Jacobian of prox_{t r} at v. It may be
//     nil, and then Linearize returns an error.
//   - value returns r(b). It may be nil, and then the result is no [Valuer].
//
// The functions are called from several goroutines; dst never shares memory with
// the other slices, which they must not modify. A NaN in what prox returns is an
// error.
func NewFunc(
	p int,
	prox func(dst, v []float64, t float64) error,
	vjp func(dst, v, z []float64, t float64),
	value func(b []float64) float64,
) Prox {
	if p < 0 || prox == nil {
		panic(fmt.Sprintf("prox: NewFunc of dimension %d, prox given: %t", p, prox != nil))
	}
	f := &function{p, prox, vjp}
	if value == nil {
		return f
	}
	return valued{f, func(b array.Batch) float64 { return value(b.ToHost()) }}
}

func (p *function) Dim() int { return p.p }

func (p *function) Eval(dst, v array.Batch, t float64) error {
	checkEval("function", p.p, dst, v, t)
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
	checkLinearize("function", p.p, dst, v, t)
	if p.vjp == nil {
		return nil, fmt.Errorf("prox: function: no derivative was given to NewFunc")
	}
	dev := v.Device()
	keep := dev.Alloc(1, v.N())
	dev.Copy(keep, v)
	if err := p.Eval(dst, v, t); err != nil {
		keep.Free()
		return nil, err
	}
	return &functionDerivative{p, keep, t}, nil
}

// functionDerivative is a user's J at v.
type functionDerivative struct {
	p *function
	v array.Batch
	t float64
}

func (j *functionDerivative) Apply(dst, z array.Batch) {
	n := j.v.N()
	checkApply("function", n, dst, z)
	v, in, out := j.v.ToHost(), z.ToHost(), make([]float64, z.K()*n)
	for i := range z.K() {
		j.p.vjp(out[i*n:(i+1)*n:(i+1)*n], v, in[i*n:(i+1)*n:(i+1)*n], j.t)
	}
	dst.Device().Upload(dst, out)
}

func (j *functionDerivative) Bytes() int64 { return j.v.Bytes() }
func (j *functionDerivative) Release()     { j.v.Free() }
