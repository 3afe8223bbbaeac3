package rewrite

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/linops/additive"
	"surepipe/solve/engine"
)

// projected is a least squares problem with terms Z g without a penalty,
//
//	min_{b,g}  1/2 ||W^{1/2} (A b + Z g - y)||^2 + r(K b),
//
// as that in b alone with (I - Pi) A at (I - Pi) y, where Pi projects on the terms (Frisch and Waugh, 1933; Lovell,
// 1963). Residuals are the same, and
//
//	mu_hat(y) = Pi y + mu_hat'((I - Pi) y),    div mu_hat = rank Pi + div mu_hat',
//
// and so for the Frobenius norm and the diagonal: mu_hat' has nothing of the terms.
type projected struct {
	engine.Unchanged
	problem engine.Problem
	pi      additive.Projection
}

// Project makes a least squares problem one from which unpenalized terms have been projected off. The columns of A
// must be those of (I - Pi) A, and the weights of the loss those of Pi. pi must outlive the problem.
func Project(p engine.Problem, pi additive.Projection) (engine.Problem, error) {
	weighted, quadratic := false, true
	if p.Loss != nil {
		var w array.Batch
		w, quadratic = p.Loss.Weights()
		weighted = !w.IsZero()
	}
	if terms, _ := pi.Named(); !quadratic || weighted != pi.Weighted() {
		return engine.Problem{}, fmt.Errorf("solve: the %s is fitted beside a regularizer by projections of y and "+
			"A, which needs the squared loss, with the weights of the projection: drop the %s or the weights", terms, terms)
	}
	p.Origin = &projected{problem: p, pi: pi}
	return p, nil
}

func (r *projected) Problem() engine.Problem { return r.problem }

func (r *projected) Data(y array.Batch) (array.Batch, bool) {
	z := y.Device().Alloc(y.K(), y.N())
	y.Device().Copy(z, y)
	r.pi.Remove(z)
	return z, true
}

// mostOfTerms is the size, beside those of mu_hat' and y', of what mu_hat' may have of the terms.
const mostOfTerms = 1e-6

func (r *projected) Deliver(_, mu, y array.Batch) error {
	if mu.IsZero() {
		return nil
	}
	dev := mu.Device()
	rest, _ := r.Data(mu)
	defer rest.Free()
	z, _ := r.Data(y)
	defer z.Free()
	dev.Lin(rest, 1, rest, -1, mu)
	if part := engine.Norm(rest); part > mostOfTerms*(engine.Norm(mu)+engine.Norm(z)) {
		terms, columns := r.pi.Named()
		return fmt.Errorf("the estimate has a part of size %g that belongs to the %s, expected none: the columns of A "+
			"are not %s", part, terms, columns)
	}
	dev.Lin(z, 1, y, -1, z)
	dev.Lin(mu, 1, mu, 1, z)
	return nil
}

// Images adds Pi v; with weights W^{1/2} Pi W^{-1/2} v.
func (r *projected) Images(dst, v array.Batch, inner func(dst, v array.Batch) error) error {
	if err := inner(dst, v); err != nil {
		return err
	}
	dev := v.Device()
	fit, rest := dev.Alloc(v.K(), v.N()), dev.Alloc(v.K(), v.N())
	defer fit.Free()
	defer rest.Free()
	root, inverse := r.roots(dev)
	defer root.Free()
	defer inverse.Free()
	dev.Copy(fit, v)
	if !root.IsZero() {
		dev.Mul(fit, fit, inverse)
	}
	dev.Copy(rest, fit)
	r.pi.Remove(rest)
	dev.Lin(fit, 1, fit, -1, rest)
	if !root.IsZero() {
		dev.Mul(fit, fit, root)
	}
	dev.Lin(dst, 1, dst, 1, fit)
	return dev.Err()
}

// roots are W^{1/2} and W^{-1/2} on a device, zero Batches without weights.
func (r *projected) roots(dev array.Device) (root, inverse array.Batch) {
	if !r.pi.Weighted() {
		return root, inverse
	}
	w, _ := r.problem.Loss.Weights()
	host := w.ToHost()
	for i, v := range host {
		host[i] = math.Sqrt(v)
	}
	root, inverse = dev.Alloc(1, len(host)), dev.Alloc(1, len(host))
	dev.Upload(root, host)
	dev.Upload(inverse, reciprocals(host))
	return root, inverse
}

func (r *projected) Closed(c engine.Closed) engine.Closed {
	rank := float64(r.pi.Rank())
	c.Trace, c.Frobenius2 = c.Trace+rank, c.Frobenius2+rank
	if c.Diagonal != nil {
		sum := make([]float64, len(c.Diagonal))
		c.Diagonal = floats.AddTo(sum, c.Diagonal, r.pi.Diagonal())
	}
	c.Determined = r.pi.Determined()
	return c
}
