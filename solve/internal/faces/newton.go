package faces

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/numerics"
	"surepipe/internal/numerics/steps"
	"surepipe/solve/internal/limits"
)

const (
	// short is the length of a Newton step, relative to every group, up to which it is taken as it
	// is: the curvature changes by less than half on the way.
	short = 0.25
	// fresh is the relative change of the groups up to which a factor serves as that of the point, and
	// near that up to which it serves for steps: each is then as exact as that share of its length, at
	// the cost of a few products with a vector.
	fresh = 1e-10
	near  = 0.02
	// singularRidge, in units of the diagonal, is added to a matrix with a squared pivot of at most Cut,
	// and more until it has a factor: steps along directions that change no fit then are long, but not
	// made of rounding errors.
	singularRidge = 1e-10
	// A search along a step ends where the slope has fallen to flat of the first.
	flat = 1e-10
)

// Minimize goes to the minimum over the working set, in at most so many Newton steps. It reports
// whether S changed. It calls stepped after every step.
func (p *Groups) Minimize(ctx context.Context, stepped func(), most int) (changed bool, err error) {
	best, since, all := math.Inf(1), 0, false
	if p.other && p.stale() <= near && most > 0 {
		// To first order the solution moves so with the weights.
		most--
		p.Steps++
		p.step()
		stepped()
	}
	for first := true; most > 0; first = false {
		if err := ctx.Err(); err != nil {
			return changed, err
		}
		other := p.sweep(all)
		changed = changed || other
		now := p.violation()
		if now <= p.Floor && !(first && len(p.active) > 0) {
			return changed, nil
		}
		if since++; now < best/2 {
			best, since = now, 0
		}
		if since > limits.MostIdle {
			return changed, nil
		}
		if len(p.active) == 0 {
			all, most = true, most-1
			continue
		}
		most--
		p.Steps++
		p.refresh(near)
		full := p.step()
		all = !full
		stepped()
	}
	return changed, nil
}

func (p *Groups) factorize() {
	n := len(p.active)
	p.columns, p.other = append(p.columns[:0], p.active...), false
	p.at, p.unit = slices.Grow(p.at[:0], n)[:n], slices.Grow(p.unit[:0], n)[:n]
	p.f.truncate(0)
	p.f.grow(n)
	p.f.n = n
	for i, j := range p.active {
		p.at[i], p.unit[i] = p.B[j], p.Gram(j)[j]
	}
	p.curve(func(i, c int, q float64) {
		if c == i {
			p.unit[i] += q
		}
	})
	for i, v := range p.unit {
		p.unit[i] = numerics.OverRoot(v)
	}
	upper := blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: p.f.stride, Data: p.f.r}
	ridge, _ := numerics.RidgedCholesky(upper, singularRidge, p.Cut, p.assemble)
	p.singular = ridge > 0 || slices.Contains(p.unit, 0)
}

// assemble sets the upper triangle of the factor's matrix to G + Q in its units, with a ridge.
func (p *Groups) assemble(ridge float64) {
	n, stride := len(p.active), p.f.stride
	for i, j := range p.active {
		row, to, unit := p.Gram(j), p.f.r[i*stride:i*stride+n], p.unit[i]
		for c := i; c < n; c++ {
			to[c] = row[p.active[c]] * unit * p.unit[c]
		}
	}
	p.curve(func(i, c int, q float64) {
		if c > i {
			p.f.r[i*stride+c] += q * p.unit[i] * p.unit[c]
		}
	})
	for i := range n {
		p.f.r[i*stride+i] = 1 + ridge
	}
}

// curve calls add with the entries of Q on S at the point that are not 0.
func (p *Groups) curve(add func(i, c int, q float64)) {
	places := make([][]int, len(p.members))
	for i, j := range p.active {
		places[p.group[j]] = append(places[p.group[j]], i)
	}
	for g, list := range places {
		if len(list) < 2 || p.w[g] == 0 {
			continue
		}
		x := p.of(p.B, g)
		size := norm(x)
		for a, i := range list {
			for b, c := range list {
				v := -(x[a] / size) * (x[b] / size)
				if a == b {
					v++
				}
				add(i, c, p.w[g]/size*v)
			}
		}
	}
}

// solve overwrites x, one number for each of S, with (G + Q)^{-1} x, Q at the point of the factor.
func (p *Groups) solve(x []float64) {
	for i := range x {
		x[i] *= p.unit[i]
	}
	p.f.solve(x)
	for i := range x {
		x[i] *= p.unit[i]
	}
}

// refresh makes the factor anew where the point has moved away from it by more than so much, relative
// to the norms of the groups.
func (p *Groups) refresh(most float64) {
	if p.other || !(p.stale() <= most) {
		p.factorize()
	}
}

// Decrement is the distance to the minimum over the manifold of S in the norm of G + Q, to first
// order; same reports that it is so short that the curvature is about the same there.
func (p *Groups) Decrement() (off float64, same bool) {
	if len(p.active) == 0 {
		return 0, true
	}
	p.refresh(near)
	e := p.slopes()
	d := slices.Clone(e)
	p.solve(d)
	return 2 * math.Sqrt(max(dot(d, e), 0)), p.ratio(d) < short/2 && !p.singular
}

// step is a Newton step on S; it reports whether it was taken in full.
func (p *Groups) step() (full bool) {
	e := p.slopes()
	d := slices.Clone(e)
	p.solve(d)
	slope := 0.0
	for i := range d {
		d[i] = -d[i]
		slope += d[i] * e[i]
	}
	if math.IsNaN(slope) || math.IsInf(slope, 0) {
		return false
	}
	p.times(d)
	far := false
	p.ratios(d, func(g int, v float64) {
		if v > short {
			p.loose[g], far = true, true
		}
	})
	if !far {
		p.move(1, d)
		return true
	}
	if p.project(d, slope) {
		return true
	}
	t := p.search(d)
	p.move(t, d)
	p.list()
	return t == 1
}

// project takes the step with those groups 0 that it turns around, if F falls enough.
func (p *Groups) project(d []float64, slope float64) bool {
	along := make([]float64, len(p.members))
	for i, j := range p.active {
		along[p.group[j]] += p.B[j] * (p.B[j] + d[i])
	}
	e, any := slices.Clone(d), false
	for i, j := range p.active {
		if g := p.group[j]; p.w[g] > 0 && along[g] <= 0 {
			e[i], any = -p.B[j], true
		}
	}
	if any {
		p.times(e)
	}
	if change := p.change(e); !(change < sufficient*slope) {
		return false
	}
	if p.move(1, e); any {
		p.list()
	}
	return true
}

// change is that of F by a step whose image has been computed.
func (p *Groups) change(e []float64) float64 {
	sum := 0.0
	before, after := make([]float64, len(p.members)), make([]float64, len(p.members))
	for i, j := range p.active {
		g := p.group[j]
		sum += e[i] * (p.Grad[j] + p.image[j]/2)
		before[g], after[g] = math.Hypot(before[g], p.B[j]), math.Hypot(after[g], p.B[j]+e[i])
	}
	for g, w := range p.w {
		if after[g] != before[g] {
			sum += w * (after[g] - before[g])
		}
	}
	return sum
}

// search is the step along d, at most 1, where F is least. Its slope increases with the step.
func (p *Groups) search(d []float64) float64 {
	p.times(d)
	linear, square := 0.0, 0.0
	for i, j := range p.active {
		linear += d[i] * p.Grad[j]
		square += d[i] * p.image[j]
	}
	size, inner := make([]float64, len(p.members)), make([]float64, len(p.members))
	slope := func(t float64) (float64, error) {
		clear(size)
		clear(inner)
		for i, j := range p.active {
			g, v := p.group[j], p.B[j]+t*d[i]
			size[g] += v * v
			inner[g] += v * d[i]
		}
		sum := linear + t*square
		for g, s := range size {
			if s > 0 {
				sum += p.w[g] * (inner[g] / math.Sqrt(s))
			}
		}
		return sum, nil
	}
	first, _ := slope(0)
	t, _ := steps.Flatten(first, flat, slope)
	return t
}

// Condition estimates the condition number of G + Q on S, with ones on its diagonal; +Inf where it is
// singular to rounding.
func (p *Groups) Condition() float64 {
	if len(p.active) == 0 {
		return 1
	}
	if p.refresh(fresh); p.singular {
		return math.Inf(1)
	}
	sums := make([]float64, len(p.active))
	for i, j := range p.active {
		row := p.Gram(j)
		for c, k := range p.active {
			sums[i] += math.Abs(row[k] * p.unit[i] * p.unit[c])
		}
	}
	p.curve(func(i, c int, q float64) { sums[i] += math.Abs(q * p.unit[i] * p.unit[c]) })
	return slices.Max(sums) * p.f.inverseNorm(len(p.active))
}

// Traces are those of D = (G + Q)^{-1} G on S and of D*D: with K = G + Q and P = K^{-1} Q they are |S|
// - tr P and |S| - 2 tr P + tr P^2. projection reports that Q is 0.
func (p *Groups) Traces() (trace, frobenius2 float64, projection bool) {
	n := len(p.active)
	places, projection := make([][]int, len(p.members)), true
	for i, j := range p.active {
		g := p.group[j]
		places[g] = append(places[g], i)
		projection = projection && (p.w[g] == 0 || len(p.members[g]) < 2)
	}
	if projection {
		return float64(n), float64(n), true
	}
	p.refresh(fresh)
	inverse := p.f.inverse()
	x := make([]float64, n*n) // P*
	for i := range n {
		for c := i; c < n; c++ {
			v := inverse.Data[i*inverse.Stride+c] * p.unit[i] * p.unit[c]
			x[i*n+c], x[c*n+i] = v, v
		}
	}
	across := make([]float64, n)
	for g, list := range places {
		u := p.of(p.B, g)
		size := norm(u)
		if len(list) < 2 || p.w[g] == 0 {
			for _, i := range list {
				clear(x[i*n : (i+1)*n])
			}
			continue
		}
		clear(across)
		for a, i := range list {
			lin(across, u[a]/size, x[i*n:(i+1)*n])
		}
		for a, i := range list {
			row := x[i*n : (i+1)*n]
			lin(row, -u[a]/size, across)
			blas64.Scal(p.w[g]/size, vector(row))
		}
	}
	trace, frobenius2 = numerics.Complement(x, n)
	return trace, frobenius2, false
}

// SolveEach overwrites k rows of x, each of one number for each of S, with (G + Q)^{-1} times the row.
func (p *Groups) SolveEach(x []float64, k int) {
	if n := len(p.active); k > 0 && n > 0 {
		p.refresh(fresh)
		p.inUnits(x, k)
		p.f.solveEach(blas64.General{Rows: k, Cols: n, Stride: n, Data: x})
		p.inUnits(x, k)
	}
}

// Half overwrites k rows of x, as those of SolveEach, with the rows times W, W W* = (G + Q)^{-1}.
func (p *Groups) Half(x []float64, k int) blas64.General {
	n := len(p.active)
	w := blas64.General{Rows: k, Cols: n, Stride: max(n, 1), Data: x}
	if n > 0 {
		p.refresh(fresh)
		p.inUnits(x, k)
		p.f.half(w)
	}
	return w
}

// inUnits multiplies k rows of x by the factor's units.
func (p *Groups) inUnits(x []float64, k int) {
	n := len(p.active)
	for i := range k {
		for c, s := range p.unit {
			x[i*n+c] *= s
		}
	}
}
