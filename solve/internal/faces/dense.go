package faces

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/numerics"
)

// inverse is that of K = G + Q on S at a point of [Groups], for rows of one number for each of S.
type inverse interface {
	// solve overwrites x with K^{-1} x, solveEach k rows of it.
	solve(x []float64)
	solveEach(x []float64, k int)
	// half are k rows times W with W W* = K^{-1}; it overwrites x.
	half(x []float64, k int) blas64.General
	// condition estimates the condition number of K with ones on its diagonal; singular says that it has no inverse,
	// null are directions that it takes to 0, a row each, nil where none are known.
	condition() float64
	singular() bool
	null() *mat.Dense
	// traces are those of K^{-1} G and of its square.
	traces() (trace, frobenius2 float64)
}

// dense is the inverse by a factor of K with unit on both sides.
type dense struct {
	p     *Groups
	f     factor
	unit  []float64
	ridge float64 // that it needed
}

// singularRidge, in units of the diagonal, is added to a matrix with a squared pivot of at most Cut,
// and more until it has a factor: steps along directions that change no fit then are long, but not
// made of rounding errors.
const singularRidge = 1e-10

func (d *dense) factorize(p *Groups) {
	n := len(p.active)
	d.p, d.unit = p, slices.Grow(d.unit[:0], n)[:n]
	d.f.truncate(0)
	d.f.grow(n)
	d.f.n = n
	for i, j := range p.active {
		d.unit[i] = p.Diagonal(j)
	}
	p.curve(func(i, c int, q float64) {
		if c == i {
			d.unit[i] += q
		}
	})
	for i, v := range d.unit {
		d.unit[i] = numerics.OverRoot(v)
	}
	upper := blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: d.f.stride, Data: d.f.r}
	d.ridge, _ = numerics.RidgedCholesky(upper, singularRidge, p.Cut, d.assemble)
}

// assemble sets the upper triangle of the factor's matrix to G + Q in its units, with a ridge.
func (d *dense) assemble(ridge float64) {
	p, n, stride := d.p, len(d.p.active), d.f.stride
	for i, j := range p.active {
		row, to, unit := p.Gram(j), d.f.r[i*stride:i*stride+n], d.unit[i]
		for c := i; c < n; c++ {
			to[c] = row[p.active[c]] * unit * d.unit[c]
		}
	}
	p.curve(func(i, c int, q float64) {
		if c > i {
			d.f.r[i*stride+c] += q * d.unit[i] * d.unit[c]
		}
	})
	for i := range n {
		d.f.r[i*stride+i] = 1 + ridge
	}
}

// inUnits multiplies k rows of x by the factor's units.
func (d *dense) inUnits(x []float64, k int) {
	n := len(d.unit)
	for i := range k {
		for c, s := range d.unit {
			x[i*n+c] *= s
		}
	}
}

func (d *dense) singular() bool { return d.ridge > 0 || slices.Contains(d.unit, 0) }

func (d *dense) null() *mat.Dense { return nil }

func (d *dense) solve(x []float64) {
	d.inUnits(x, 1)
	d.f.solve(x)
	d.inUnits(x, 1)
}

func (d *dense) solveEach(x []float64, k int) {
	n := len(d.unit)
	d.inUnits(x, k)
	d.f.solveEach(blas64.General{Rows: k, Cols: n, Stride: n, Data: x})
	d.inUnits(x, k)
}

func (d *dense) half(x []float64, k int) blas64.General {
	n := len(d.unit)
	w := blas64.General{Rows: k, Cols: n, Stride: n, Data: x}
	d.inUnits(x, k)
	d.f.half(w)
	return w
}

func (d *dense) condition() float64 {
	p, sums := d.p, make([]float64, len(d.unit))
	for i, j := range p.active {
		row := p.Gram(j)
		for c, k := range p.active {
			sums[i] += math.Abs(row[k] * d.unit[i] * d.unit[c])
		}
	}
	p.curve(func(i, c int, q float64) { sums[i] += math.Abs(q * d.unit[i] * d.unit[c]) })
	return slices.Max(sums) * d.f.inverseNorm(len(p.active))
}

// traces are |S| - tr P and |S| - 2 tr P + tr P^2 with P = K^{-1} Q.
func (d *dense) traces() (trace, frobenius2 float64) {
	p, n := d.p, len(d.unit)
	places := make([][]int, len(p.members))
	for i, j := range p.active {
		places[p.group[j]] = append(places[p.group[j]], i)
	}
	inverse := d.f.inverse()
	x := make([]float64, n*n) // P*
	for i := range n {
		for c := i; c < n; c++ {
			v := inverse.Data[i*inverse.Stride+c] * d.unit[i] * d.unit[c]
			x[i*n+c], x[c*n+i] = v, v
		}
	}
	across := make([]float64, n)
	for g, list := range places {
		u := p.part(p.B, g)
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
	return numerics.Complement(x, n)
}
