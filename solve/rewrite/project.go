package rewrite

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/linops/additive"
	"surepipe/loss"
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
	weighted := loss.Weighing(p.Loss) != nil
	if terms, _ := pi.Named(); !loss.Quadratic(p.Loss) || weighted != pi.Weighted() {
		return engine.Problem{}, fmt.Errorf("solve: the %s is fitted by a projection of y and A, which needs the "+
			"squared loss, with the weights of the projection: drop the %[1]s or the weights", terms)
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
	defer array.Free(fit, rest)
	root, inverse := loss.Roots(loss.Weighing(r.problem.Loss))
	scale(fit, v, inverse)
	dev.Copy(rest, fit)
	r.pi.Remove(rest)
	dev.Lin(fit, 1, fit, -1, rest)
	scale(fit, fit, root)
	dev.Lin(dst, 1, dst, 1, fit)
	return dev.Err()
}

func scale(dst, v array.Batch, s []float64) {
	dev := v.Device()
	if len(s) == 0 {
		dev.Copy(dst, v)
		return
	}
	on := dev.Put(s, 1, len(s))
	defer on.Free()
	dev.Mul(dst, v, on)
}

func (r *projected) Closed(c engine.Closed) engine.Closed {
	rank := float64(r.pi.Rank())
	c.Trace, c.Frobenius2 = c.Trace+rank, c.Frobenius2+rank
	if c.Diagonal != nil {
		sum := make([]float64, len(c.Diagonal))
		c.Diagonal = floats.AddTo(sum, c.Diagonal, r.pi.Diagonal())
	}
	if c.Root != nil {
		if root := r.pi.Root(); root == nil {
			c.Root = nil
		} else {
			c.Root = slices.Concat(c.Root, root)
		}
	}
	if c.Blocks != nil {
		c.Blocks = addBlocks(c.Blocks, r.pi.Root(), len(r.pi.Diagonal()))
	}
	c.Determined = r.pi.Determined()
	return c
}

// addBlocks adds the diagonal blocks of R* R, R with rows of length d; nil where R is not known.
func addBlocks(blocks, root []float64, d int) []float64 {
	if root == nil {
		return nil
	}
	sum, k := slices.Clone(blocks), len(blocks)/d
	for ; len(root) > 0; root = root[d:] {
		for i, v := range root[:d] {
			floats.AddScaled(sum[i*k:(i+1)*k], v, root[i-i%k:][:k])
		}
	}
	return sum
}
