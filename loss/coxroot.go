package loss

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
)

// mostRooted is the number of observations up to which the second derivative of a Cox loss with starts is factored as a
// matrix.
const mostRooted = 1 << 12

// Root returns R, d x d, with R*R = l^(2)(z; y). Without starts the risk sets are nested, and their variances add up by
// updates (Welford 1962): with the observations from the last time to the first, at one time those without an event
// before the others, and with theta_j = w_j exp z_j,
//
//	sum over terms k of share_k Var_k x = sum over j of c_j (x_j - m_j)^2,
//
// where m_j is the mean of x over the observations before j, and c_j comes from sums over the risk sets in which j is:
// R has O(1) numbers for each observation, and its products take O(d) operations. Events at one time are a block: a
// row compares their mean with that of those before them, and the others compare each with those of the block before
// it. With starts R is a factor of the matrix, for at most 4096 observations.
func (l *Cox) Root(z, y array.Batch) (Root, error) {
	s := l.from(z, y)
	defer l.pool.Put(s)
	l.sums(s, -1)
	if l.until != nil {
		return l.factor(s)
	}
	return l.chain(s), nil
}

type coxRoot struct {
	order []int // the observations in the order of the chain
	// Block b is order[first[b]:first[b+1]], strata begin with those of fresh, and before and own are the sums of theta
	// over those before it in the stratum and over itself.
	first, fresh []int
	before, own  []float64
	// By place in order: theta, its sum over those before in the block, and the factor of the row of R.
	theta, upto, row []float64
}

func (l *Cox) chain(s *coxSums) *coxRoot {
	n := len(l.order)
	r := &coxRoot{order: make([]int, 0, n), theta: make([]float64, n), upto: make([]float64, n),
		row: make([]float64, n), first: make([]int, 0, n+1), before: make([]float64, 0, n), own: make([]float64, 0, n)}
	for k, from := range l.strata[:len(l.strata)-1] {
		sum := 0.0
		r.fresh = append(r.fresh, len(r.before))
		// The squares count by later in the risk sets of earlier times, and by apart and spread in those of the block.
		block := func(later, apart, spread float64, members ...int) {
			first, own := len(r.order), 0.0
			for at, i := range members {
				t := s.theta[i]
				if at > 0 && own+t > 0 {
					r.row[first+at] = math.Sqrt((later + spread) * t * own / (own + t))
				}
				r.theta[first+at], r.upto[first+at] = t, own
				own += t
			}
			if sum > 0 && own > 0 {
				r.row[first] = math.Sqrt(sum * own * (later/(sum+own) + apart))
			}
			r.order, r.first = append(r.order, members...), append(r.first, first)
			r.before, r.own = append(r.before, sum), append(r.own, own)
			sum += own
		}
		for g := from; g < l.strata[k+1]; g++ {
			var tied []int
			for _, i := range l.order[l.first[g]:l.first[g+1]] {
				if s.y[i] > 0 {
					tied = append(tied, i)
				} else {
					block(s.inner[g], 0, 0, i)
				}
			}
			later, apart, spread := 0.0, 0.0, 0.0
			if g+1 < l.strata[k+1] {
				later = s.inner[g+1]
			}
			l.terms(s, g, func(share, less, at float64) {
				spread += share * (1 - less) / at
				apart += share * (1 - less) / (at * at)
			})
			if tied != nil {
				block(later, apart, spread, tied...)
			}
		}
	}
	r.first, r.fresh = append(r.first, n), append(r.fresh, len(r.before))
	return r
}

func (r *coxRoot) Forward(dst, v []float64) {
	r.blocks(func(b int, sum *float64) {
		first, own := r.first[b], 0.0
		for at := first; at < r.first[b+1]; at++ {
			i := r.order[at]
			x := v[i]
			if c := r.row[at]; at > first && c > 0 {
				dst[i] = c*x - c/r.upto[at]*own
			} else {
				dst[i] = 0
			}
			own += r.theta[at] * x
		}
		if c := r.row[first]; c > 0 {
			dst[r.order[first]] = c/r.before[b]**sum - c/r.own[b]*own
		}
		*sum += own
	})
}

// Columns is Forward for some columns at a time.
func (r *coxRoot) Columns(x []float64, n int) {
	parallel.Ranges(n, together, func(lo, hi int) {
		sum, own := make([]float64, hi-lo), make([]float64, hi-lo)
		row := func(at int) []float64 { return x[r.order[at]*n+lo : r.order[at]*n+hi] }
		for k := range len(r.fresh) - 1 {
			clear(sum)
			for b := r.fresh[k]; b < r.fresh[k+1]; b++ {
				top, last := row(r.first[b]), r.first[b+1]-1
				if last == r.first[b] {
					r.alone(top, sum, b)
					continue
				}
				for j, v := range top {
					own[j] = r.theta[r.first[b]] * v
				}
				for at := r.first[b] + 1; at <= last; at++ {
					r.tied(row(at), own, at)
				}
				before, own1 := r.parts(b)
				for j, s := range sum {
					top[j] = before*s - own1*own[j]
					sum[j] = s + own[j]
				}
			}
		}
	})
}

// parts are the factors of the sums before a block and over it in its first row.
func (r *coxRoot) parts(b int) (before, own float64) {
	if c := r.row[r.first[b]]; c > 0 {
		return c / r.before[b], c / r.own[b]
	}
	return 0, 0
}

// alone is the row of a block of one observation, which it adds to the sums before it.
func (r *coxRoot) alone(row, sum []float64, b int) {
	theta := r.theta[r.first[b]]
	before, own := r.parts(b)
	sum = sum[:len(row)]
	for j, v := range row {
		s, t := sum[j], theta*v
		row[j], sum[j] = before*s-own*t, s+t
	}
}

// tied is the row of an observation in a block after its first, which it adds to the sums over those before it.
func (r *coxRoot) tied(row, own []float64, at int) {
	c, theta, each := r.row[at], r.theta[at], 0.0
	if c > 0 {
		each = c / r.upto[at]
	}
	for j, v := range row {
		row[j] = c*v - each*own[j]
		own[j] += theta * v
	}
}

// blocks calls f for all blocks, with a sum that is 0 where a stratum begins.
func (r *coxRoot) blocks(f func(b int, sum *float64)) {
	for k := range len(r.fresh) - 1 {
		sum := 0.0
		for b := r.fresh[k]; b < r.fresh[k+1]; b++ {
			f(b, &sum)
		}
	}
}

// back calls f for all blocks from the last to the first, with what the rows after them pull at theta, 0 where a
// stratum ends.
func (r *coxRoot) back(f func(b int, pull *float64)) {
	for k := range len(r.fresh) - 1 {
		pull := 0.0
		for b := r.fresh[k+1] - 1; b >= r.fresh[k]; b-- {
			f(b, &pull)
		}
	}
}

func (r *coxRoot) Adjoint(dst, v []float64) {
	r.back(func(b int, pull *float64) {
		first, own := r.first[b], *pull
		if c := r.row[first]; c > 0 {
			own -= c * v[r.order[first]] / r.own[b]
			*pull += c * v[r.order[first]] / r.before[b]
		}
		for at := r.first[b+1] - 1; at >= first; at-- {
			i := r.order[at]
			x := v[i]
			dst[i] = own * r.theta[at]
			if c := r.row[at]; at > first && c > 0 {
				dst[i] += c * x
				own -= c * x / r.upto[at]
			}
		}
	})
}

// Inverse sets dst to the x with R x = v whose mean is 0 where nothing determines it.
func (r *coxRoot) Inverse(dst, v []float64) {
	out := make([]float64, len(v))
	r.blocks(func(b int, sum *float64) {
		first, own, shift := r.first[b], 0.0, 0.0
		for at := first; at < r.first[b+1]; at++ {
			i := r.order[at]
			if c := r.row[at]; at > first && c > 0 {
				out[i] = own/r.upto[at] + v[i]/c
			}
			own += r.theta[at] * out[i]
		}
		if c := r.row[first]; c > 0 {
			shift = *sum/r.before[b] - own/r.own[b] - v[r.order[first]]/c
		}
		for at := first; at < r.first[b+1]; at++ {
			out[r.order[at]] += shift
		}
		*sum += own + shift*r.own[b]
	})
	copy(dst, out)
}

// Square returns nil: R has one block.
func (r *coxRoot) Square() func() []float64 { return nil }

func (r *coxRoot) InverseAdjoint(dst, v []float64) {
	out := make([]float64, len(v))
	r.back(func(b int, pull *float64) {
		first, own := r.first[b], *pull
		if c := r.row[first]; c > 0 {
			between := *pull * r.own[b]
			for at := first; at < r.first[b+1]; at++ {
				between -= v[r.order[at]]
			}
			out[r.order[first]] = between / c
			own -= between / r.own[b]
			*pull += between / r.before[b]
		}
		for at := r.first[b+1] - 1; at > first; at-- {
			if c := r.row[at]; c > 0 {
				u := v[r.order[at]] - own*r.theta[at]
				out[r.order[at]] = u / c
				own -= u / r.upto[at]
			}
		}
	})
	copy(dst, out)
}

// denseRoot is R of a factorization P* H P = U* U: the rows of U, rank x d.
type denseRoot struct {
	u      [][]float64
	pivots []int
}

func (l *Cox) factor(s *coxSums) (Root, error) {
	n := len(l.order)
	if n > mostRooted {
		return nil, fmt.Errorf("loss: the derivative of a fit with the Cox loss and starts is for at most %d "+
			"observations, found %d: choose cv, or leave the starts out", mostRooted, n)
	}
	h := mat.NewSymDense(n, nil)
	for j := range n {
		clear(s.x)
		s.x[j] = 1
		l.product(s)
		for i := range j + 1 {
			h.SetSym(i, j, s.x[i])
		}
	}
	var c mat.PivotedCholesky
	var u mat.TriDense
	c.Factorize(h, -1)
	c.UTo(&u)
	r := &denseRoot{pivots: c.ColumnPivots(nil)}
	for i := range c.Rank() {
		r.u = append(r.u, mat.Row(nil, i, &u))
	}
	return r, nil
}

func (r *denseRoot) permuted(v []float64) []float64 {
	return lists.Pick(v, r.pivots)
}

func (r *denseRoot) restored(dst, x []float64) {
	for at, i := range r.pivots {
		dst[i] = x[at]
	}
}

func (r *denseRoot) Forward(dst, v []float64) {
	x := r.permuted(v)
	clear(dst)
	for i, row := range r.u {
		dst[i] = floats.Dot(row[i:], x[i:])
	}
}

func (r *denseRoot) Adjoint(dst, v []float64) {
	x := make([]float64, len(v))
	for i, row := range r.u {
		floats.AddScaled(x[i:], v[i], row[i:])
	}
	r.restored(dst, x)
}

// Inverse sets dst to the x with R x = v that is 0 beyond the rank.
func (r *denseRoot) Inverse(dst, v []float64) {
	n, x := len(r.u), make([]float64, len(v))
	for i := n - 1; i >= 0; i-- {
		x[i] = (v[i] - floats.Dot(r.u[i][i+1:n], x[i+1:n])) / r.u[i][i]
	}
	r.restored(dst, x)
}

// Square returns nil, as that of a coxRoot.
func (r *denseRoot) Square() func() []float64 { return nil }

func (r *denseRoot) InverseAdjoint(dst, v []float64) {
	x := r.permuted(v)
	for i, row := range r.u {
		x[i] /= row[i]
		floats.AddScaled(x[i+1:], -x[i], row[i+1:])
	}
	clear(x[len(r.u):])
	copy(dst, x)
}

// Share returns what observation i adds to l(z; y), in its own terms and in the risk sets of others.
func (l *Cox) Share(i int, z, y []float64) float64 {
	s := l.at(-1, z, y)
	defer l.pool.Put(s)
	all := l.value(s, -1)
	s.theta[i] = 0
	l.risks(s, i)
	return all - l.value(s, i)
}

// SlopeWithout sets dst to the derivative of l without observation i.
func (l *Cox) SlopeWithout(i int, dst, z, y []float64) {
	s := l.at(i, z, y)
	defer l.pool.Put(s)
	for k := range dst {
		dst[k] = l.expected(s, k) - l.weightOf(k, i)*y[k]
	}
}

func (l *Cox) at(i int, z, y []float64) *coxSums {
	s := l.take()
	copy(s.z, z)
	copy(s.y, y)
	l.sums(s, i)
	return s
}

// Parts gives each event its own factor of the partial likelihood.
func (l *Cox) Parts(dst, z, y []float64) {
	s := l.at(-1, z, y)
	defer l.pool.Put(s)
	for i := range dst {
		dst[i] = 0
		w, g := l.weightOf(i, -1), l.group[i]
		if y[i] > 0 && w > 0 {
			dst[i] = -w * s.z[i]
			l.terms(s, g, func(share, _, sum float64) { dst[i] += w * share / s.weight[g] * math.Log(sum) })
		}
	}
}

func events(y []float64) (n int) {
	for _, v := range y {
		if v > 0 {
			n++
		}
	}
	return n
}

func (r *denseRoot) Columns(x []float64, n int) { eachColumn(x, n, r.Forward) }

// together is the number of columns of a matrix that are taken out at a time.
const together = 16

func eachColumn(x []float64, n int, of func(dst, v []float64)) {
	d := len(x) / n
	parallel.Ranges(n, together, func(lo, hi int) {
		columns := make([]float64, (hi-lo)*d)
		for i := range d {
			for j, v := range x[i*n+lo : i*n+hi] {
				columns[j*d+i] = v
			}
		}
		for column := range slices.Chunk(columns, d) {
			of(column, column)
		}
		for i := range d {
			for j := range hi - lo {
				x[i*n+lo+j] = columns[j*d+i]
			}
		}
	})
}
