package interior

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/combin"

	"surepipe/array"
	"surepipe/internal/banded"
	"surepipe/internal/lists"
	"surepipe/internal/numerics/doubledouble"
	"surepipe/linops"
	"surepipe/solve/engine"
	"surepipe/space"
)

// AlongBand is the multiplier u of K b = 0 at the best fit, K* u = A*(y - A b), where A*A is diagonal and every row of
// K reads neighbours and begins at a column of its own; zero elsewhere.
//
// Rows that share columns, directly or through others, are a part. Backward substitution gives the vectors that a part
// takes to 0, forward substitution u, in double-double numbers: of some thousand fourth differences the smallest
// singular value is below the rounding errors of the largest, and a matrix with K and K* would not have it.
func AlongBand(p engine.Problem, y array.Batch) array.Batch {
	k, c := neighbours(p)
	if c == nil {
		return array.Batch{}
	}
	q, dim := p.K.Dims()
	s := &substitution{k: k, c: c, begins: linops.Begins(k, dim), begun: make([]bool, dim), place: make([]int, dim)}
	if s.begins == nil {
		return array.Batch{}
	}
	var places []int
	for i, begin := range s.begins {
		s.begun[k.Indices[begin]] = true
		for _, j := range k.Indices[k.Indptr[i]:k.Indptr[i+1]] {
			places = append(places, i*dim+j)
		}
	}
	aty := p.Device.Alloc(1, dim)
	defer aty.Free()
	p.A.Adjoint(aty, y)
	host, g := make([]float64, q), aty.ToHost()
	for _, part := range linops.Parts(places, array.Shape{Rows: q, Cols: dim}, true) {
		if !s.solve(host, g, &part) {
			return array.Batch{}
		}
	}
	return p.Device.Put(host, 1, q)
}

// substitution solves with K, of which row i begins at entry begins[i], and a row at the columns that are begun. place
// is that of a column in its part.
type substitution struct {
	k             space.Rows
	c             []float64
	begun         []bool
	begins, place []int
}

// solve sets u on the rows of a part. It is false where the vectors that K takes to 0, or what is left of the columns
// at which no row begins, are lost in rounding errors.
func (s *substitution) solve(u, g []float64, part *linops.Part) bool {
	if len(part.Columns)-len(part.Rows) > banded.MostWidth {
		return false
	}
	rows := slices.SortedFunc(slices.Values(part.Rows), func(i, j int) int {
		return cmp.Compare(s.k.Indices[s.begins[i]], s.k.Indices[s.begins[j]])
	})
	for at, j := range part.Columns {
		s.place[j] = at
	}
	left := lists.Make(len(part.Columns), func(at int) doubledouble.Number {
		return doubledouble.Of(g[part.Columns[at]])
	})
	s.project(left, s.null(rows, part.Columns), part.Columns)
	most := 0.0
	for _, i := range rows {
		begin := s.begins[i]
		at := s.place[s.k.Indices[begin]]
		v := left[at].Div(doubledouble.Of(s.k.Values[begin]))
		u[i] = v.Hi
		for e := s.k.Indptr[i]; e < s.k.Indptr[i+1]; e++ {
			at, product := s.place[s.k.Indices[e]], v.Mul(doubledouble.Of(s.k.Values[e]))
			left[at] = left[at].Sub(product)
			most = max(most, math.Abs(product.Hi))
		}
	}
	// Errors of u grow towards the end, where what is left of the other columns shows them.
	return !slices.ContainsFunc(left, func(v doubledouble.Number) bool {
		return !(math.Abs(v.Hi) <= lostInSubstitution*most)
	})
}

// Rounding errors may leave the share lostInSubstitution of the largest entry of K times one of u. Of a vector of which
// the others leave less than dependent, in squares, A sees nothing of its own.
const (
	lostInSubstitution = 1e-8
	dependent          = 1e-24
)

// null are vectors that span what K takes to 0 on columns. At the columns at which no row begins, number f of them,
// vector k is the binomial f over k, so that for differences it is a polynomial of degree k: these are far from each
// other.
func (s *substitution) null(rows, columns []int) (base [][]doubledouble.Number) {
	free := lists.Pick(columns, lists.Places(len(columns), func(at int) bool { return !s.begun[columns[at]] }))
	for k := range free {
		v := make([]doubledouble.Number, len(columns))
		for f, j := range free {
			if f >= k {
				v[s.place[j]] = doubledouble.Of(float64(combin.Binomial(f, k)))
			}
		}
		for _, i := range slices.Backward(rows) {
			var sum doubledouble.Number
			begin := s.begins[i]
			for e := s.k.Indptr[i]; e < s.k.Indptr[i+1]; e++ {
				if e != begin {
					sum = sum.Add(v[s.place[s.k.Indices[e]]].Mul(doubledouble.Of(s.k.Values[e])))
				}
			}
			v[s.place[s.k.Indices[begin]]] = sum.Neg().Div(doubledouble.Of(s.k.Values[begin]))
		}
		base = append(base, v)
	}
	return base
}

// project takes C N (N* C N)^{-1} N* g from g, with N of the columns of base, which it orthonormalizes.
func (s *substitution) project(g []doubledouble.Number, base [][]doubledouble.Number, columns []int) {
	weigh := func(a, b []doubledouble.Number) (sum doubledouble.Number) {
		for at, j := range columns {
			if c := s.c[j]; c != 0 {
				sum = sum.Add(a[at].Mul(b[at]).Mul(doubledouble.Of(c)))
			}
		}
		return sum
	}
	for i, v := range base {
		before := weigh(v, v)
		for _, w := range base[:i] {
			share := weigh(w, v)
			for at := range v {
				v[at] = v[at].Sub(share.Mul(w[at]))
			}
		}
		norm2 := weigh(v, v)
		if !(norm2.Hi > dependent*before.Hi) { // A does not tell it from the others
			clear(v)
			continue
		}
		scale := doubledouble.Of(1).Div(norm2.Sqrt())
		for at := range v {
			v[at] = v[at].Mul(scale)
		}
		var share doubledouble.Number
		for at := range g {
			share = share.Add(v[at].Mul(g[at]))
		}
		for at, j := range columns {
			g[at] = g[at].Sub(share.Mul(v[at]).Mul(doubledouble.Of(s.c[j])))
		}
	}
}
