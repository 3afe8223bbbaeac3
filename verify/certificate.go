package verify

import (
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/prox"
)

const (
	// leastOptimality is an optimality that is accepted whatever the solver claims.
	leastOptimality = 1e-6
	// fitPart is the error bar of mu_hat = A b, as a share of the size of mu_hat.
	fitPart = 1e-9
)

// certificate checks the solution by products with A and A* alone. For any eta
//
//	s = (b - prox_{eta r}(b - eta A*(A b - y))) / eta
//
// is 0 at a solution, and ||s|| is at most the distance of 0 from the subdifferential of the
// objective at b. The solver's Optimality is a bound of that, in units of ||A|| max(||y - A b||,
// sigma sqrt(d)); where the columns differ in length, after they were scaled to equal length,
// which changes it by a factor of at most sqrt(min(d, p)).
func (c *check) certificate() error {
	a := c.Problem.A
	n, err := krylov.Norm2(c.ctx, c.dev, a, krylov.NormOptions{})
	if err != nil {
		return err
	}
	c.norm2 = n.Upper()
	_, p := a.Dims()
	fit, g := c.dev.Alloc(1, c.d), c.dev.Alloc(1, p)
	defer array.Free(fit, g)
	a.Forward(fit, c.B)
	size := math.Sqrt(c.norm2) * c.bNorm // of the terms that cancel in A b
	c.v.add(Fit, distance(fit, c.MuHat), fitPart*c.muNorm+1e-12*c.yNorm+64*eps*size)
	if c.Problem.K != nil {
		return nil // the proximal operator of r(K b) is not known: another solver and the perturbed solves remain
	}
	lipschitz, resid := c.slope(fit)
	scale := math.Sqrt(lipschitz*c.norm2) * math.Max(resid, math.Sqrt(c.Sigma2*float64(c.d)))
	a.Adjoint(g, fit)
	if scale > 0 && c.norm2 > 0 {
		s, err := c.residual(g, 1/(lipschitz*c.norm2))
		if err != nil {
			return err
		}
		// The rounding errors of b - prox(b), and of A* r.
		rounding := 64 * eps * lipschitz * (c.norm2*c.bNorm + math.Sqrt(c.norm2)*(size+c.yNorm))
		c.v.add(Optimality, norm(s)/scale, math.Max(c.Optimality*math.Sqrt(float64(min(c.d, p))),
			leastOptimality)+rounding/scale)
		s.Free()
	}
	return c.columns(g, size, lipschitz)
}

// slope turns A b into the gradient of the loss there, and returns the Lipschitz constant L of
// that and its norm over sqrt(L): 1 and the norm of the residual for the squared loss.
func (c *check) slope(fit array.Batch) (lipschitz, resid float64) {
	if c.Problem.Loss == nil {
		c.dev.Lin(fit, 1, fit, -1, c.Y)
		return 1, c.resid
	}
	c.Problem.Loss.Gradient(fit, fit, c.Y)
	lipschitz = c.Problem.Loss.Lipschitz()
	return lipschitz, norm(fit) / math.Sqrt(lipschitz)
}

func (c *check) residual(g array.Batch, eta float64) (array.Batch, error) {
	s, done := c.dev.Alloc(1, c.B.N()), false
	defer func() {
		if !done { // also where the regularizer panics
			s.Free()
		}
	}()
	c.dev.Lin(s, 1, c.B, -eta, g)
	if err := c.Problem.R.Eval(s, s, eta); err != nil {
		return array.Batch{}, err
	}
	c.dev.Lin(s, 1/eta, c.B, -1/eta, s)
	done = true
	return s, nil
}

// columns checks every coordinate in the units of its column. The norm of s is dominated by the
// largest column and insensitive to the others. Where r is a sum over coordinates, a step of
// 1/||A_j||^2, over the Lipschitz constant of the loss, moves b_j alone to its optimum or towards
// it, and mu_hat by ||A_j|| times as far. Columns of about the same length take their step
// together.
func (c *check) columns(g array.Batch, size, lipschitz float64) error {
	known := linops.StructureOf(c.Problem.A).ColumnNorms2
	if known == nil || lipschitz == 0 || !separable(c.Problem.R) {
		return nil
	}
	norms2 := known()
	alike := map[int][]int{} // columns, by the binary order of their length
	for j, v := range norms2 {
		if v > 0 {
			k := math.Ilogb(v) / 2
			alike[k] = append(alike[k], j)
		}
	}
	if len(alike) == 0 {
		return nil
	}
	t := c.dev.Alloc(1, c.B.N())
	defer t.Free()
	b, worst, rounding := c.B.ToHost(), 0.0, 0.0
	for _, set := range alike {
		longest := 0.0
		for _, j := range set {
			longest = max(longest, norms2[j])
		}
		step := 1 / (lipschitz * longest)
		c.dev.Lin(t, 1, c.B, -step, g)
		if err := c.Problem.R.Eval(t, t, step); err != nil {
			return err
		}
		to := t.ToHost()
		for _, j := range set {
			length := math.Sqrt(norms2[j])
			worst = max(worst, math.Abs(b[j]-to[j])*length)
			rounding = max(rounding, math.Abs(b[j])*length)
		}
	}
	rounding = 64 * eps * (rounding + c.yNorm + size)
	c.v.add(Columns, c.moves(worst), c.sure+c.moves(rounding))
	return nil
}

// separable reports whether r is a sum over coordinates, as tested on a few of them.
func separable(r prox.Prox) bool {
	alone := prox.StructureOf(r)
	if alone.Quadratic.Known {
		return true
	}
	if alone.Closure == nil {
		return false
	}
	n := max(r.Dim(), 1)
	for j := 0; j < n; j += n/32 + 1 {
		if len(alone.Closure([]int{j})) != 1 {
			return false
		}
	}
	return true
}
