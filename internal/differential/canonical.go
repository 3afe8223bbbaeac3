package differential

import "math"

// canonical is the problem in the form in which the reference solves it: in double-double numbers,
// in units where A and y are of size 1 (powers of two, hence exact), every coordinate in the unit
// of its column if its penalty allows that, and the b of a total variation expressed by its steps:
//
//	b = T b',   A' = A T,   r'(b') = r(T b').
type canonical struct {
	a *matrix
	k *matrix // of r(K b), on whose images the blocks act; nil for the identity
	// steepest is the length of the largest subgradients of a norm r(K b).
	steepest float64
	norms    []float64 // of a's columns
	y        []dd
	yScale   float64 // y of the case is yScale times y
	mean     dd      // of the case's y, where there is an intercept
	blocks   []block
	members  [][]int // the coordinates of each block
	// size is the size of the terms from which each column was computed, and left the least length,
	// as a share of it, of a column that is not 0.
	size []float64
	left float64
	// squared is size for the rows of squares.
	squared []float64
	// zero is the share up to which it is 0.
	zero float64

	// observed is the number of a's first rows that are A's; those after them are sqrt(lambda) K of
	// squares, where y is 0.
	observed int
}

// exponent is a power of two near x, 1 for 0.
func exponent(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) {
		return 1
	}
	_, e := math.Frexp(x)
	return math.Ldexp(1, e)
}

// newCanonical is a case in canonical form.
func newCanonical(c *Case) *canonical { return newCanonicalAbove(c, 100*negligible) }

// newCanonicalAbove is newCanonical, where columns count as 0 if their length is at most the given
// share of the size of the terms from which they were computed.
func newCanonicalAbove(c *Case, rounding float64) *canonical {
	k := &canonical{zero: rounding}
	k.a, k.size = c.Op.matrix()
	k.y = numbers(c.Y)
	if c.Intercept {
		for _, v := range k.y {
			k.mean = k.mean.Add(v)
		}
		k.mean = k.mean.Div(num(float64(len(k.y))))
		for i, v := range k.y {
			if k.y[i] = v.Sub(k.mean); math.Abs(k.y[i].Hi) <= negligible*math.Abs(k.mean.Hi) {
				k.y[i] = dd{}
			}
		}
	}
	k.square(c.Squares)
	top := 0.0
	for _, v := range k.a.a {
		top = max(top, math.Abs(v.Hi))
	}
	aScale := exponent(top)
	top = 0
	for _, v := range k.y {
		top = max(top, math.Abs(v.Hi))
	}
	k.yScale = exponent(top)
	for i, v := range k.a.a {
		k.a.a[i] = v.Pow2(1 / aScale)
	}
	for j := range k.size {
		k.size[j] /= aScale
		k.squared[j] /= aScale
	}
	for i, v := range k.y {
		k.y[i] = v.Pow2(1 / k.yScale)
	}
	// With A = a A', y = c y' and b = (c/a) b' the objective is c^2 times that of
	// r'(b') = r((c/a) b')/c^2.
	k.add(c.Reg, 0, units{a: aScale, c: k.yScale, factor: 1})
	if c.K != nil {
		k.stack(*c.K)
		return k
	}
	k.rescale()
	return k
}

// units are the scales of A and y.
type units struct {
	a, c   float64
	factor float64 // of prox.NewScaled
}

// weight is the coefficient of a term that grows with the first power of b.
func (u units) weight(l float64) dd {
	if math.IsInf(l, 0) {
		return num(l)
	}
	return num(l).Mul(num(u.factor)).Pow2(1 / u.a).Pow2(1 / u.c)
}

// square is a coefficient of b^2/2.
func (u units) square(l float64) dd { return num(l).Mul(num(u.factor)).Pow2(1 / u.a).Pow2(1 / u.a) }

// size is a bound of b.
func (u units) size(s float64) dd {
	if math.IsInf(s, 0) {
		return num(s)
	}
	return num(s).Pow2(u.a).Pow2(1 / u.c)
}

func (k *canonical) put(b block, members []int) {
	k.blocks, k.members = append(k.blocks, b), append(k.members, members)
}

func span(at, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = at + i
	}
	return out
}

// add appends the blocks of r, which begins at coordinate at.
func (k *canonical) add(r Reg, at int, u units) {
	if r.Scale != 0 {
		u.factor *= r.Scale
	}
	all := span(at, r.N)
	switch r.Kind {
	case "separable":
		for _, b := range r.Blocks {
			k.add(b, at, u)
			at += b.N
		}
	case "groupl2", "grouplinf":
		k.addGroups(r, at, u)
	case "slope":
		l := make([]dd, r.N)
		for i, w := range r.Weights {
			l[i] = u.weight(w)
		}
		k.put(&sorted{l}, all)
	case "l1ball", "simplex":
		ones := make([]dd, r.N)
		for j := range ones {
			ones[j] = num(1)
		}
		k.put(&ball{ones, u.size(r.Radius), r.Kind == "simplex"}, all)
	case "l2":
		k.put(&euclidean{u.weight(r.Lambda)}, all)
	case "nuclear":
		k.put(&nuclear{r.Shape[0], r.Shape[1], u.weight(r.Lambda)}, all)
	case "tv1d":
		// b_j = b'_0 + ... + b'_j: column j of A T is the sum of A's columns from j.
		for j := at + r.N - 2; j >= at; j-- {
			k.size[j] += k.size[j+1]
			k.squared[j] += k.squared[j+1]
			for i := range k.a.r {
				k.a.set(i, j, k.a.at(i, j).Add(k.a.at(i, j+1)))
			}
		}
		c := freeCoordinates(r.N)
		for j := 1; j < r.N; j++ {
			c.l[j] = u.weight(r.Lambda)
		}
		k.put(c, all)
	default:
		k.put(elementwise(r, u), all)
	}
}

// freeCoordinates are n coordinates without a penalty.
func freeCoordinates(n int) *coordinates {
	c := &coordinates{make([]dd, n), make([]dd, n), make([]dd, n), make([]dd, n)}
	for j := range n {
		c.lo[j], c.hi[j] = num(math.Inf(-1)), num(math.Inf(1))
	}
	return c
}

// elementwise is a regularizer that is a sum over coordinates.
func elementwise(r Reg, u units) block {
	c := freeCoordinates(r.N)
	lo, hi := infinite(r.Lo), infinite(r.Hi)
	for j := range r.N {
		switch r.Kind {
		case "zero":
		case "ridge":
			c.q[j] = u.square(r.Lambda)
		case "l1", "elasticnet":
			c.l[j], c.q[j] = u.weight(r.Lambda), u.square(r.Lambda2)
		case "weightedl1":
			c.l[j] = u.weight(r.Lambda).Mul(num(r.Weights[j]))
		case "nonnegative":
			c.lo[j] = dd{}
		case "box":
			c.lo[j], c.hi[j] = u.size(lo[j]), u.size(hi[j])
		case "linfball":
			c.lo[j], c.hi[j] = u.size(-r.Radius), u.size(r.Radius)
		default:
			panic("differential: regularizer " + r.Kind)
		}
	}
	return c
}

// addGroups adds a block a group; coordinates in none, and groups of weight 0, are free.
func (k *canonical) addGroups(r Reg, at int, u units) {
	grouped := make([]bool, r.N)
	for g, members := range r.Groups {
		w := 1.0
		if r.Weights != nil {
			w = r.Weights[g]
		}
		if w == 0 || r.Lambda == 0 {
			continue
		}
		var on []int
		for _, j := range members {
			grouped[j] = true
			on = append(on, at+j)
		}
		l := u.weight(r.Lambda).Mul(num(w))
		if r.Kind == "groupl2" {
			k.put(&euclidean{l}, on)
		} else {
			k.put(&largest{l}, on)
		}
	}
	var rest []int
	for j, in := range grouped {
		if !in {
			rest = append(rest, at+j)
		}
	}
	if len(rest) > 0 {
		k.put(freeCoordinates(len(rest)), rest)
	}
}

// clear makes columns 0 that are rounding errors in some rows, as sums of differences over all columns are. It returns
// the least length of the others, as a share of their size.
func (k *canonical) clear(from, to int, sizes []float64) (left float64) {
	left = 1
	some := &matrix{to - from, k.a.c, k.a.a[from*k.a.c : to*k.a.c]}
	for j, norm := range some.columnNorms() {
		switch {
		case norm == 0:
		case norm <= k.zero*sizes[j]:
			for i := from; i < to; i++ {
				k.a.set(i, j, dd{})
			}
		default:
			left = min(left, norm/sizes[j])
		}
	}
	return left
}

// rescale gives every column, or every block of them, size 1. Columns that are rounding errors
// become 0.
func (k *canonical) rescale() {
	k.left = k.clear(0, k.observed, k.size)
	k.clear(k.observed, k.a.r, k.squared)
	norms := k.a.columnNorms()
	for i, b := range k.blocks {
		on := k.members[i]
		s := make([]float64, len(on))
		top := 0.0
		for _, j := range on {
			top = max(top, norms[j])
		}
		for p, j := range on {
			if s[p] = 1 / exponent(top); b.anyScale() {
				s[p] = 1 / exponent(norms[j])
			}
			for row := range k.a.r {
				k.a.set(row, j, k.a.at(row, j).Pow2(s[p]))
			}
		}
		k.blocks[i] = b.scaled(s)
	}
	k.norms = k.a.columnNorms()
}

// part is the coordinates of v that block i owns.
func (k *canonical) part(i int, v []dd) []dd {
	out := make([]dd, len(k.members[i]))
	for p, j := range k.members[i] {
		out[p] = v[j]
	}
	return out
}

// prox is the proximal operator of the whole regularizer.
func (k *canonical) prox(v []dd, t dd) []dd {
	out := make([]dd, len(v))
	for i, b := range k.blocks {
		x := b.prox(k.part(i, v), t)
		for p, j := range k.members[i] {
			out[j] = x[p]
		}
	}
	return out
}

// imageOfJacobian is A J, d x p, with J the derivative of prox at v.
func (k *canonical) imageOfJacobian(v []dd, t dd) *matrix {
	out := newMatrix(k.a.r, k.a.c)
	for i, b := range k.blocks {
		j := b.jacobian(k.part(i, v), t)
		on := k.members[i]
		for row := range k.a.r {
			for p, from := range on {
				x := k.a.at(row, from)
				if x.IsZero() {
					continue
				}
				for q, to := range on {
					if y := j.at(p, q); !y.IsZero() {
						out.set(row, to, out.at(row, to).Add(x.Mul(y)))
					}
				}
			}
		}
	}
	return out
}
