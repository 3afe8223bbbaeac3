package differential

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Reference is the correct estimate of a case.
type Reference struct {
	// OK reports that the reference has certified its own solution.
	OK    bool
	MuHat []float64
	// Divergence and Frobenius2 are tr D mu_hat and ||D mu_hat||_F^2. Least and Most bound the
	// divergence at neighbours: they differ where the case is ambiguous.
	Divergence, Frobenius2 float64
	Least, Most            float64
	// Tied is how much the divergence changes at tiny changes of y, where a face is nearer than rounding errors.
	Tied float64
	// RankUnsure reports that the rank of the data depends on rounding errors: then not even mu_hat
	// is determined.
	RankUnsure bool
	// Residual, SURE and its error bar Bar are for the case's sigma2.
	Residual, SURE, Bar float64
}

// Ambiguous reports that a relative change of the problem by about closeness changes the
// divergence.
func (r *Reference) Ambiguous() bool {
	return r.RankUnsure || r.Most-r.Least > 1e-6
}

const (
	// closeness is the relative change of data under which a choice of face or rank must stay the
	// same to count as determined.
	closeness = 1e-10
	// tied is the relative change of data below which a choice is a tie, which must be marked.
	tied = 1e-14
	// nearTie is the relative size of changes of y that show a tie, of which there are drawsNearTie.
	nearTie      = 1e-11
	drawsNearTie = 6
	// certified is the largest error of mu_hat, as a share of sigma sqrt(d) and of the sizes of y
	// and mu_hat, at which a solution is trusted.
	certified = 1e-4
	relative  = 1e-6
	// constant is the share of a column that rounding of its entries may leave when its mean is
	// subtracted.
	constant = 1e-14
	// noRank is the squared sine of an angle at the level of the rounding errors of double-double
	// numbers.
	noRank = 1e-27
)

// newReference solves a case.
func newReference(c *Case) *Reference {
	k := newCanonical(c)
	r := referenceFor(c, k, closeness)
	if k.left < constant {
		// A column that is constant up to the rounding of its entries may also count as constant.
		if other := referenceFor(c, newCanonicalAbove(c, constant), closeness); other.OK {
			r.Least, r.Most = min(r.Least, other.Least), max(r.Most, other.Most)
			r.RankUnsure = true
		}
	}
	return r
}

// referenceFor solves a canonical case, with another closeness.
func referenceFor(c *Case, k *canonical, closeness float64) *Reference {
	s := k.solve()
	r := &Reference{}
	// The noise, and all sizes, in k's units.
	noise := math.Sqrt(c.Sigma2*float64(k.observed)) / k.yScale
	off := math.Sqrt(2 * s.gap)
	if !(off <= certified*noise && off <= relative*max(length(k.y), length(k.a.apply(s.b)))) && s.gap != 0 {
		return r
	}
	r.OK = true
	r.RankUnsure = k.left < 1e-12
	// Centering amplifies rounding errors in the data relative to its result.
	angle := max(10*closeness, 32*0x1p-53/k.left)
	at := k.differentiate(s, k.strict(s))
	if at.left && k.overwhelmed() {
		return &Reference{}
	}
	r.Divergence, r.Frobenius2 = at.trace, at.frobenius2
	r.RankUnsure = r.RankUnsure || at.least < angle*angle

	// The effect of a perturbation of y, or of its noise, and of A's columns by closeness, relative
	// to their sizes, and of one by the solution's own error.
	moved := max(length(k.y), noise)
	for j, b := range s.b {
		moved += math.Abs(b.Hi) * k.norms[j]
	}
	lo, hi := k.neighbours(s, at, max(closeness*moved, 10*off))
	r.Least = min(lo.trace, hi.trace, at.trace)
	r.Most = max(lo.trace, hi.trace, at.trace)
	r.RankUnsure = r.RankUnsure || hi.least < angle*angle
	lo, hi = k.neighbours(s, at, max(tied*moved, 10*off))
	if max(lo.trace, hi.trace, at.trace)-min(lo.trace, hi.trace, at.trace) > divergence {
		r.Tied = k.tied(c)
	}
	r.finish(c, k, s)
	return r
}

// tied is the range of the traces at draws near y.
func (k *canonical) tied(c *Case) float64 {
	rng := rand.New(rand.NewPCG(c.Seed, uint64(c.Index)))
	y := k.y
	defer func() { k.y = y }()
	size := nearTie * length(y)
	if size == 0 { // there are no relative changes
		return 0
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for range drawsNearTie {
		k.y = slices.Clone(y)
		for i, v := range y {
			k.y[i] = v.Add(num(size * rng.NormFloat64()))
		}
		s := k.solve()
		if !(s.gap <= 1e-6*size*size) {
			continue
		}
		at := k.differentiate(s, k.strict(s))
		lo, hi = min(lo, at.trace), max(hi, at.trace)
	}
	return max(hi-lo, 0)
}

// neighbours are the derivatives on the smallest and the largest face that a change of the residual by
// moved leads to.
func (k *canonical) neighbours(s solution, at *derivative, moved float64) (lo, hi *derivative) {
	lower, upper := k.strict(s), k.strict(s)
	dual := k.dualSensitivity(s)
	for i := range k.blocks {
		on := k.members[i]
		lower[i].primal = func(n []dd) float64 { return moved*at.sensitivity(k.onto(on, n)) + k.rounding(s.z, n) }
		upper[i].dual = func(e []dd) float64 {
			sum := 0.0
			for p, j := range on {
				sum += math.Abs(e[p].Hi) * dual(j)
			}
			return moved * sum
		}
	}
	return k.differentiate(s, lower), k.differentiate(s, upper)
}

// onto is the vector c with <c, b> = <n, z> for the n on the coordinates on of z.
func (k *canonical) onto(on []int, n []dd) []dd {
	z := make([]dd, k.coordinates())
	for p, j := range on {
		z[j] = n[p]
	}
	if k.k == nil {
		return z
	}
	return k.k.applyT(z)
}

// coordinates is the length of z.
func (k *canonical) coordinates() int {
	if k.k == nil {
		return k.a.c
	}
	return k.k.r
}

// dualSensitivity is how much the subgradient changes with the residual, coordinate by coordinate.
func (k *canonical) dualSensitivity(s solution) func(j int) float64 {
	if k.k == nil {
		return func(j int) float64 { return k.norms[j] }
	}
	e, _ := k.face(s, k.strict(s))
	size := k.multiplierOf(e)
	return func(int) float64 { return size }
}

// finish states the results in the case's units.
func (r *Reference) finish(c *Case, k *canonical, s solution) {
	d := float64(k.observed)
	if c.Intercept {
		r.Divergence++
		r.Frobenius2++
		r.Least++
		r.Most++
	}
	r.MuHat = make([]float64, k.observed)
	mu := k.images().apply(s.b)
	for i, v := range mu {
		r.MuHat[i] = v.Pow2(k.yScale).Add(k.mean).Hi
	}
	r.Residual = norm2(s.u[:k.observed]).Hi * k.yScale * k.yScale
	r.SURE = c.Sigma2 * (r.Residual/c.Sigma2 - d + 2*r.Divergence)
	r.Bar = c.Sigma2 * math.Sqrt(max(0, 4*(r.Residual/c.Sigma2+r.Frobenius2)-2*d))
}

// rounding is the size below which <n, z> is a rounding error.
func (k *canonical) rounding(z, n []dd) float64 {
	top := 0.0
	for _, v := range z {
		top = max(top, math.Abs(v.Hi))
	}
	sum := 0.0
	for _, v := range n {
		sum += math.Abs(v.Hi)
	}
	return 1e-24 * top * sum
}

// strict are margins for rounding errors only.
func (k *canonical) strict(s solution) []margins {
	return slices.Repeat([]margins{{
		primal: func(n []dd) float64 { return k.rounding(s.z, n) },
		dual:   func([]dd) float64 { return math.Inf(-1) },
	}}, len(k.blocks))
}

// derivative is D mu_hat = A E K^+ E* A*, K = E*(A*A + Q) E, on a subset S of E's vectors on which
// K is invertible and has full rank: the null space of K is in that of A E.
type derivative struct {
	e                 *matrix // p x |S|
	ae                *matrix // d x |S|
	chol              *matrix // of K_SS, scaled
	scale             []float64
	trace, frobenius2 float64
	least             float64 // the least pivot of K in units where the sizes of its parts are 1
	left              bool    // some of E's vectors are left out
}

// differentiate computes the derivative on the face that the margins choose.
func (k *canonical) differentiate(s solution, near []margins) *derivative {
	e, q := k.face(s, near)
	if k.k == nil {
		return k.confine(e, q)
	}
	e, q, least := k.pull(e, q)
	d := k.confine(e, q)
	d.least = min(d.least, least*least)
	return d
}

// face is the tangent space of r at z that the margins choose, and the curvature along it.
func (k *canonical) face(s solution, near []margins) ([][]dd, *matrix) {
	var e [][]dd
	var curvature []*matrix
	for i, b := range k.blocks {
		f := b.face(k.part(i, s.z), k.part(i, s.g), near[i])
		for _, v := range f.e {
			whole := make([]dd, k.coordinates())
			for p, j := range k.members[i] {
				whole[j] = v[p]
			}
			e = append(e, whole)
		}
		if f.q == nil {
			f.q = newMatrix(len(f.e), len(f.e))
		}
		curvature = append(curvature, f.q)
	}
	q := newMatrix(len(e), len(e))
	at := 0
	for _, c := range curvature {
		for i := range c.r {
			copy(q.row(at + i)[at:], c.row(i))
		}
		at += c.r
	}
	return e, q
}

// confine computes the derivative on the span of e with the curvature q.
func (k *canonical) confine(e [][]dd, q *matrix) *derivative {
	n := len(e)
	r := &derivative{least: math.Inf(1)}
	basis := newMatrix(k.a.c, n)
	scale := make([]float64, n)
	for i, v := range e {
		size := 0.0
		for j, x := range v {
			basis.set(j, i, x)
			size += math.Abs(x.Hi) * k.norms[j]
		}
		if total := size*size + q.at(i, i).Hi; total > 0 {
			scale[i] = 1 / exponent(math.Sqrt(total))
		}
	}
	ae := k.a.mul(basis)
	gram := ae.t().mul(ae)
	seen := gram // of the rows that are A's
	if k.observed < k.a.r {
		part := &matrix{k.observed, n, ae.a[:k.observed*n]}
		seen = part.t().mul(part)
	}
	system := newMatrix(n, n)
	for i := range n {
		for j := range n {
			system.set(i, j, gram.at(i, j).Add(q.at(i, j)).Pow2(scale[i]).Pow2(scale[j]))
		}
	}
	var chosen []int
	chosen, r.least = system.pivots(noRank)
	m := len(chosen)
	r.left = m < n
	r.e, r.ae = newMatrix(k.a.c, m), newMatrix(k.a.r, m)
	small := newMatrix(m, m)
	image := newMatrix(m, m)
	r.scale = make([]float64, m)
	for a, i := range chosen {
		r.scale[a] = scale[i]
		for j := range k.a.c {
			r.e.set(j, a, basis.at(j, i))
		}
		for j := range k.a.r {
			r.ae.set(j, a, ae.at(j, i))
		}
		for b, j := range chosen {
			small.set(a, b, system.at(i, j))
			image.set(a, b, seen.at(i, j).Pow2(scale[i]).Pow2(scale[j]))
		}
	}
	var ok bool
	if r.chol, ok = small.cholesky(); !ok {
		r.least = 0
		return r
	}
	product := newMatrix(m, m)
	for j := range m {
		x := make([]dd, m)
		for i := range m {
			x[i] = image.at(i, j)
		}
		for i, v := range solveCholesky(r.chol, x) {
			product.set(i, j, v)
		}
	}
	var trace, squares dd
	for i := range m {
		trace = trace.Add(product.at(i, i))
		for j := range m {
			squares = squares.Add(product.at(i, j).Mul(product.at(j, i)))
		}
	}
	r.trace, r.frobenius2 = trace.Hi, squares.Hi
	return r
}

// sensitivity is || d<n, b>/dy ||.
func (r *derivative) sensitivity(n []dd) float64 {
	if r.chol == nil {
		return math.Inf(1)
	}
	m := r.e.c
	x := make([]dd, m)
	for j, v := range n {
		if v.IsZero() {
			continue
		}
		for a := range m {
			x[a] = x[a].Add(v.Mul(r.e.at(j, a)))
		}
	}
	for a := range m {
		x[a] = x[a].Pow2(r.scale[a])
	}
	x = solveCholesky(r.chol, x)
	for a := range m {
		x[a] = x[a].Pow2(r.scale[a])
	}
	return length(r.ae.apply(x))
}

// newton is b - E K^+ E* f, f the subgradient at b.
func (r *derivative) newton(s solution) []dd {
	m := r.e.c
	x := r.e.applyT(s.off)
	for a := range m {
		x[a] = x[a].Pow2(r.scale[a])
	}
	x = solveCholesky(r.chol, x)
	for a := range m {
		x[a] = x[a].Pow2(r.scale[a])
	}
	step := r.e.apply(x)
	b := slices.Clone(s.b)
	for j := range b {
		b[j] = b[j].Sub(step[j])
	}
	return b
}

// byDifferences is the divergence from central differences of the solution, at y +- h e_i in
// units where y is of size 1.
func byDifferences(c *Case, h float64) float64 {
	k := newCanonical(c)
	y := k.y
	var sum dd
	for j := range k.observed {
		ends := [2]dd{}
		for e, step := range [2]float64{-h, h} {
			k.y = slices.Clone(y)
			k.y[j] = k.y[j].Add(num(step))
			ends[e] = k.a.apply(k.solve().b)[j]
		}
		sum = sum.Add(ends[1].Sub(ends[0]).Div(num(2 * h)))
	}
	if c.Intercept {
		sum = sum.Add(num(1))
	}
	return sum.Hi
}
