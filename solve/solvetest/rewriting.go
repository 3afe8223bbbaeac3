package solvetest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/engine"
)

// Asked is the problem that a rewriting is for, with terms without a penalty beside the operator:
//
//	min_{b,g}  l(A b + Z g; y) + r(K b).
//
// The loss is squared, weighted or not, and r is a sum of squares.
type Asked struct {
	solve.Problem
	Terms *mat.Dense // Z, nil for none
}

// rewritingTol bounds errors beside the size of what is compared.
const rewritingTol = 1e-9

// CheckRewriting tests what [engine.Rewriting] promises against dense algebra, and returns everything that is wrong,
// joined into one error, or nil. It tests that
//
//   - Data and Start are linear, leave what they are given, and own what they say; Deliver takes back what Start made;
//   - the solution of the new problem at y' is delivered as that of the problem that was asked for, at any y, and
//     has the same misfit;
//   - Images and Closed are those of its derivative: images, trace, Frobenius norm and diagonal. Where the loss has
//     weights W this is W^{1/2} D mu W^{-1/2}, which is symmetric;
//   - Noise is the mean variance of the noise in y', or 1 where y' is a projection of y;
//   - all memory is given back.
func CheckRewriting(asked Asked, rewrite func() (engine.Rewriting, error)) error {
	c := &rewriting{dev: asked.Device, asked: asked}
	live := c.dev.Stats().Live
	w, err := rewrite()
	if err != nil {
		return err
	}
	c.w = w
	if err := c.all(); err != nil {
		return err
	}
	w.Release()
	if now := c.dev.Stats().Live; now != live {
		return fmt.Errorf("%d batches are not given back", now-live)
	}
	return nil
}

// rewriting is a check in progress.
type rewriting struct {
	dev   array.Device
	asked Asked
	w     engine.Rewriting
	errs  []error
}

func (c *rewriting) failf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// same compares matrices.
func (c *rewriting) same(what string, got, want mat.Matrix) {
	var off mat.Dense
	off.Sub(got, want)
	if e := mat.Norm(&off, 2); !(e <= rewritingTol*(1+mat.Norm(want, 2))) {
		c.failf("%s is off by %.3g, at a size of %.3g", what, e, mat.Norm(want, 2))
	}
}

func (c *rewriting) all() error {
	d, p := c.asked.A.Dims()
	r, own, err := c.w.Regularizer(c.asked.R)
	if err != nil {
		return err
	}
	if own {
		defer prox.Release(r)
	}
	to := c.w.Problem()
	to.R = r
	if rows, _ := to.A.Dims(); rows != d {
		return fmt.Errorf("the new problem has %d observations, expected %d", rows, d)
	}
	c.mapped("Data", d, c.w.Data)
	c.mapped("Start", p, c.w.Start)
	want, err := dense(c.asked)
	if err != nil {
		return err
	}
	got, err := dense(Asked{Problem: to})
	if err != nil {
		return err
	}
	c.back(p)
	if err := c.solution(got, want); err != nil {
		return err
	}
	c.noise(d)
	if err := c.derivative(got.s, want.s); err != nil {
		return err
	}
	if err := c.dev.Sync(); err != nil {
		c.failf("device: %w", err)
	}
	return errors.Join(c.errs...)
}

// mapped tests a map of vectors of length n.
func (c *rewriting) mapped(what string, n int, f func(array.Batch) (array.Batch, bool)) {
	x := gaussian(c.dev, 3, n, 5)
	defer x.Free()
	host := x.ToHost()
	for i := range n {
		host[2*n+i] = host[i] - 2*host[n+i]
	}
	c.dev.Upload(x, host)
	var images [3]*mat.VecDense
	for i := range images {
		of := x.Rows(i, i+1)
		z, own := f(of)
		images[i] = mat.NewVecDense(z.N(), z.ToHost())
		if own {
			c.dev.Fill(z, math.NaN())
			z.Free()
		} else if z != of {
			c.failf("%s returns another batch, and says that it is the one that was given", what)
		}
	}
	if !slices.Equal(x.ToHost(), host) {
		c.failf("%s changes what it is given", what)
	}
	var sum mat.VecDense
	sum.AddScaledVec(images[0], -2, images[1])
	c.same(what+" of a sum", images[2], &sum)
}

// back tests that Deliver undoes Start.
func (c *rewriting) back(p int) {
	b := gaussian(c.dev, 1, p, 6)
	defer b.Free()
	to, own := c.w.Start(b)
	if own {
		defer to.Free()
	}
	want := mat.NewVecDense(p, b.ToHost())
	if err := c.w.Deliver(to, array.Batch{}, array.Batch{}); err != nil {
		c.failf("Deliver of b alone: %w", err)
	}
	c.same("b of b'", mat.NewVecDense(p, to.ToHost()), want)
}

// solution tests the solutions at some y.
func (c *rewriting) solution(got, want *algebra) error {
	d, p := c.asked.A.Dims()
	for seed := range uint64(3) {
		y := gaussian(c.dev, 1, d, 7+seed)
		z, own := c.w.Data(y)
		var b, mu, wantB, wantMu mat.VecDense
		b.MulVec(got.h, mat.NewVecDense(d, z.ToHost()))
		mu.MulVec(got.a, &b)
		wantB.MulVec(want.h, mat.NewVecDense(d, y.ToHost()))
		wantMu.MulVec(want.a, &wantB)
		c.same("the misfit", misfit(got, &mu, z), misfit(want, &wantMu, y))
		onB, onMu := c.dev.Put(b.RawVector().Data, 1, b.Len()), c.dev.Put(mu.RawVector().Data, 1, d)
		err := c.w.Deliver(onB, onMu, y)
		c.same("b", mat.NewVecDense(p, onB.ToHost()), wantB.SliceVec(0, p))
		c.same("mu", mat.NewVecDense(d, onMu.ToHost()), &wantMu)
		onB.Free()
		onMu.Free()
		if own {
			z.Free()
		}
		y.Free()
		if err != nil {
			return fmt.Errorf("Deliver: %w", err)
		}
	}
	return nil
}

// misfit is ||W^{1/2} (mu - y)||.
func misfit(a *algebra, mu *mat.VecDense, y array.Batch) mat.Matrix {
	sum := 0.0
	for i, v := range y.ToHost() {
		sum = math.Hypot(sum, a.root[i]*(mu.AtVec(i)-v))
	}
	return mat.NewVecDense(1, []float64{sum})
}

// noise tests Noise by Data of all unit vectors.
func (c *rewriting) noise(d int) {
	m := c.images(d, func(dst, v array.Batch) error {
		z, own := c.w.Data(v)
		c.dev.Copy(dst, z)
		if own {
			z.Free()
		}
		return nil
	})
	var twice, off mat.Dense
	twice.Mul(m, m)
	off.Sub(&twice, m)
	norm := mat.Norm(m, 2)
	want := norm * norm / float64(d)
	if mat.Norm(&off, 2) <= rewritingTol*norm {
		want = 1
	}
	if got := c.w.Noise(); !(math.Abs(got-want) <= rewritingTol*want) {
		c.failf("Noise is %g, expected %g", got, want)
	}
}

// images are those of all unit vectors, a column each.
func (c *rewriting) images(d int, f func(dst, v array.Batch) error) *mat.Dense {
	v, dst := c.dev.Alloc(d, d), c.dev.Alloc(d, d)
	defer v.Free()
	defer dst.Free()
	units := make([]float64, d*d)
	for i := range d {
		units[i*d+i] = 1
	}
	c.dev.Upload(v, units)
	c.dev.Fill(dst, math.NaN())
	if err := f(dst, v); err != nil {
		c.failf("images: %w", err)
	}
	return mat.DenseCopyOf(mat.NewDense(d, d, dst.ToHost()).T())
}

// derivative tests images and closed forms.
func (c *rewriting) derivative(got, want *mat.Dense) error {
	d, _ := want.Dims()
	images := c.images(d, func(dst, v array.Batch) error {
		return c.w.Images(dst, v, func(dst, v array.Batch) error {
			var out mat.Dense
			out.Mul(mat.NewDense(v.K(), d, v.ToHost()), got.T())
			c.dev.Upload(dst, out.RawMatrix().Data)
			return nil
		})
	})
	c.same("the matrix of Images", images, want)
	closed, wanted := c.w.Closed(closedOf(got)), closedOf(want)
	c.same("the trace and the Frobenius norm", mat.NewVecDense(2, []float64{closed.Trace, closed.Frobenius2}),
		mat.NewVecDense(2, []float64{wanted.Trace, wanted.Frobenius2}))
	if len(closed.Diagonal) != d {
		return fmt.Errorf("a diagonal of %d entries, expected %d", len(closed.Diagonal), d)
	}
	c.same("the diagonal", mat.NewVecDense(d, closed.Diagonal), mat.NewVecDense(d, wanted.Diagonal))
	if root := c.root(got); root != nil {
		r := mat.NewDense(len(root)/d, d, root)
		var product mat.Dense
		product.Mul(r.T(), r)
		c.same("R* R of Root", &product, want)
		if closed.Blocks == nil {
			return errors.New("Closed has a root, and no blocks")
		}
		c.same("the blocks", mat.NewVecDense(len(closed.Blocks), closed.Blocks),
			mat.NewVecDense(len(wanted.Blocks), wanted.Blocks))
	}
	for i, v := range wanted.Diagonal {
		marked := closed.Determined != nil && closed.Determined[i]
		if alone := v > 1-rewritingTol; marked != alone {
			c.failf("Determined of observation %d is %t, and its entry of the diagonal is %g", i, marked, v)
		}
	}
	if none := c.w.Closed(engine.Closed{}); none.Diagonal != nil {
		c.failf("Closed makes a diagonal of none")
	}
	return nil
}

// root is Root of the rewriting for a symmetric D mu', where both are known.
func (c *rewriting) root(inner *mat.Dense) []float64 {
	d, _ := inner.Dims()
	sym := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			if sym.SetSym(i, j, inner.At(i, j)); math.Abs(inner.At(i, j)-inner.At(j, i)) > rewritingTol {
				return nil
			}
		}
	}
	var eigen mat.EigenSym
	var v mat.Dense
	if !eigen.Factorize(sym, true) {
		return nil
	}
	eigen.VectorsTo(&v)
	values := eigen.Values(nil)
	rows := mat.DenseCopyOf(v.T())
	for i, e := range values {
		floats.Scale(math.Sqrt(max(e, 0)), rows.RawRowView(i))
	}
	return c.w.Closed(engine.Closed{Root: rows.RawMatrix().Data}).Root
}

// closedOf are the numbers of a matrix.
func closedOf(s *mat.Dense) engine.Closed {
	d, _ := s.Dims()
	c := engine.Closed{Trace: mat.Trace(s), Diagonal: make([]float64, d)}
	for i := range d {
		c.Diagonal[i] = s.At(i, i)
		for j := range d {
			c.Frobenius2 += s.At(i, j) * s.At(j, i)
		}
	}
	order := 2 // the least divisor of d
	for order < d && d%order > 0 {
		order++
	}
	for i := range d {
		c.Blocks = append(c.Blocks, s.RawRowView(i)[i-i%order:][:order]...)
	}
	return c
}

// algebra is the solution of a problem with a quadratic loss and a sum of squares: (b, g) = H y, mu = [A Z] (b, g), and
// S = W^{1/2} [A Z] H W^{-1/2}.
type algebra struct {
	a, h, s *mat.Dense
	root    []float64 // W^{1/2}
}

// dense solves a problem by dense algebra.
func dense(p Asked) (*algebra, error) {
	out := &algebra{a: mat.DenseCopyOf(linops.ToDense(p.Device, p.A)), h: new(mat.Dense), s: new(mat.Dense)}
	d, n := out.a.Dims()
	k := mat.DenseCopyOf(diagonal(slices.Repeat([]float64{1}, n)))
	if p.K != nil {
		k = linops.ToDense(p.Device, p.K)
	}
	q, err := curvature(p.Device, p.R, k.RawMatrix().Rows)
	if err != nil {
		return nil, err
	}
	if p.Terms != nil {
		out.a = mat.DenseCopyOf(augmented(out.a, p.Terms))
	}
	w := slices.Repeat([]float64{1}, d)
	if given := loss.Weighing(p.Loss); given != nil {
		w = given
	}
	_, all := out.a.Dims()
	var aw, qk, kqk mat.Dense
	aw.Mul(out.a.T(), diagonal(w))
	system := mat.NewDense(all, all, nil)
	system.Mul(&aw, out.a)
	qk.Mul(q, k)
	kqk.Mul(k.T(), &qk)
	top := system.Slice(0, n, 0, n).(*mat.Dense)
	top.Add(top, &kqk)
	if err := out.h.Solve(system, &aw); err != nil {
		return nil, err
	}
	root, inverse := loss.Roots(w)
	out.root = root
	out.s.Mul(out.a, out.h)
	out.s.Mul(diagonal(root), out.s)
	out.s.Mul(out.s, diagonal(inverse))
	return out, nil
}

// augmented is [A Z].
func augmented(a, z *mat.Dense) *mat.Dense {
	var out mat.Dense
	out.Augment(a, z)
	return &out
}

// diagonal is the matrix with this diagonal.
func diagonal(x []float64) mat.Matrix { return mat.NewDiagDense(len(x), x) }

// curvature is Q of r(z) = z* Q z/2 on R^q, by the derivative (I + Q)^{-1} of its proximal operator.
func curvature(dev array.Device, r prox.Prox, q int) (*mat.Dense, error) {
	v, dst, one := dev.Alloc(q, q), dev.Alloc(q, q), dev.Alloc(1, q)
	defer v.Free()
	defer dst.Free()
	defer one.Free()
	units := make([]float64, q*q)
	for i := range q {
		units[i*q+i] = 1
	}
	dev.Upload(v, units)
	dev.Fill(one, 0)
	j, err := r.Linearize(one, one, 1)
	if err != nil {
		return nil, err
	}
	defer j.Release()
	j.Apply(dst, v)
	var out mat.Dense
	if err := out.Inverse(mat.NewDense(q, q, dst.ToHost())); err != nil {
		return nil, fmt.Errorf("the regularizer is not a sum of squares: %w", err)
	}
	for i := range q {
		out.Set(i, i, out.At(i, i)-1)
	}
	return &out, nil
}
