package lowrank

import (
	"surepipe/array"
	"surepipe/prox/subspace"
)

const (
	// reweighSteps bounds the conjugate gradient steps for the values, and reweighTol is their relative
	// residual.
	reweighSteps = 6
	reweighTol   = 1e-2
	// leastKept is the smallest share of a value that is kept.
	leastKept = 1e-3
)

// reweigh moves the values f of b_k = U diag(f) V* towards the minimum over them of
//
//	1/2 ||A(U diag(f) V*) - y||^2 + lambda sum_l f_l,
//
// where that lowers it. A proximal gradient step gives a direction that is new the value rho - lambda,
// where the entries that are seen ask for that divided by their share along the direction.
func (w *matrices) reweigh(f []float64, lambda float64) error {
	dev, r := w.dev, len(f)
	g := w.newWeights()
	defer g.free()
	mass := w.mass(w.top.U, w.top.V)
	mass.Rows.Free()
	mass.Columns.Free()
	least := leastMass(mass.Core)
	scale, dir, x := make([]float64, r), make([]float64, r), make([]float64, r)
	res, rho := g.along(w.z), 0.0
	for i := range res {
		scale[i] = shared / max(mass.Core[i*r+i], least)
		res[i] = -res[i] - lambda
		dir[i] = scale[i] * res[i]
		rho += res[i] * dir[i]
	}
	first := rho
	for step := 0; step < reweighSteps && rho > reweighTol*reweighTol*first; step++ {
		g.sample(dir)
		along := dot(g.image, g.image)
		if !(along > 0) {
			break
		}
		alpha, next := rho/along, 0.0
		h := g.along(g.image)
		for i := range x {
			x[i] += alpha * dir[i]
			res[i] -= alpha * h[i]
			next += res[i] * scale[i] * res[i]
		}
		beta := next / rho
		rho = next
		for i := range dir {
			dir[i] = scale[i]*res[i] + beta*dir[i]
		}
	}
	for i := range x {
		x[i] = max(f[i]+x[i], leastKept*f[i])
	}
	before := objective(w.z, lambda, f, 0)
	at := factored{dev.Alloc(w.m, r), dev.Alloc(w.n, r)}
	subspace.ScaleColumns(at.l, w.top.U, x)
	dev.Copy(at.v, w.top.V)
	w.replace(&at)
	if objective(w.z, lambda, x, 0) < before {
		copy(f, x)
	} else {
		w.replace(&at)
	}
	at.free()
	return dev.Err()
}

// weights are products with the map from f to the entries of U diag(f) V*.
type weights struct {
	w           *matrices
	v           array.Batch // 1 x n r
	tall        array.Batch // m x r
	image       array.Batch // 1 x d
	ones, total array.Batch // 1 x m and 1 x r
}

func (w *matrices) newWeights() *weights {
	dev, r := w.dev, len(w.top.Sigma)
	g := &weights{w: w, v: dev.Alloc(1, w.n*r), tall: dev.Alloc(w.m, r), image: dev.Alloc(1, w.z.N()),
		ones: dev.Alloc(1, w.m), total: dev.Alloc(1, r)}
	dev.Copy(g.v.Reshape(w.n, r), w.top.V)
	dev.Fill(g.ones, 1)
	return g
}

// sample sets the image to the entries of U diag(f) V*.
func (g *weights) sample(f []float64) {
	subspace.ScaleColumns(g.tall, g.w.top.U, f)
	g.w.dev.SampleProduct(g.image, g.w.pattern, 1, g.tall.Reshape(1, g.w.m*len(f)), g.v, 0)
}

// along returns u_l* Z v_l for the sparse matrix Z of the entries z.
func (g *weights) along(z array.Batch) []float64 {
	dev := g.w.dev
	dev.SpreadProduct(false, 1, g.w.pattern, z, g.v, 0, g.tall.Reshape(1, g.tall.K()*g.tall.N()))
	dev.Mul(g.tall, g.tall, g.w.top.U)
	dev.Gemm(false, false, 1, g.ones, g.tall, 0, g.total)
	return g.total.ToHost()
}

func (g *weights) free() {
	for _, b := range []array.Batch{g.v, g.tall, g.image, g.ones, g.total} {
		b.Free()
	}
}
