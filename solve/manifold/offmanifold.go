package manifold

import "surepipe/solve/engine"

// offManifold bounds the distance in A b from w.B to the minimum over a manifold near it, where
// that is known to be the solution. A duality gap, which is no smaller than the rounding errors of
// its terms, bounds the square of the error.
//
// At x = prox_{sigma r}(v), v = b - sigma A*(A b - y), with the subgradient e, the Newton step is
// D = -E (E*(H + Q)E)^{-1} E* e. It moves v by D - sigma (e + H D). If no other manifold is that
// near, x + D has the manifold of x; up to a term that is quadratic in D, and 0 where the manifold
// is flat, it is the solution, at a distance of ||A D|| from x.
func (r *semismoothRun) offManifold(w *engine.Work, sigma float64) (float64, bool, error) {
	if !(sigma > 0) {
		return 0, false, nil
	}
	n, dev := &r.near, r.dev
	v, x, z := n.try, n.dif, n.d
	dev.Lin(v, 1, w.B, -sigma, r.g)
	j, err := r.m.P.R.Linearize(x, v, sigma)
	if err != nil {
		return 0, false, err
	}
	defer j.Release()
	m := j.Model()
	if !solvable(m) || m.Margin == nil {
		return 0, false, dev.Err()
	}
	r.residual(z, n.da, x, w.Y)
	dev.Lin(r.e, 1, v, -1, x)
	dev.Lin(r.e, 1/sigma, r.e, 1, n.da)
	r.charge(m)
	if !r.system.step(r.u, r.e, m, 0) {
		return 0, false, dev.Err()
	}
	r.m.P.A.Forward(r.fit, r.u)
	r.m.P.A.Adjoint(r.ad, r.fit)
	off := engine.Norm(r.fit)
	dev.Lin(r.ad, 1, r.ad, 1, r.e)
	dev.Lin(r.ad, -sigma, r.ad, 1, r.u)
	if !(m.Margin(v) > safely*engine.Norm(r.ad)) {
		return 0, false, dev.Err()
	}
	dev.Lin(z, 1, z, -1, r.z)
	return safely*off + engine.Norm(z), true, dev.Err()
}

// safely is the factor by which a bound to first order is enlarged.
const safely = 2
