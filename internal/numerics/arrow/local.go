package arrow

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// Local is D mu_hat without the coupling of rows and columns: the sum of the derivatives of two ridge regressions for
// each row and each column, with the other side's factors as given,
//
//	D_ij,ij' = R_j* A_i R_j' in row i, and L_i* A_j L_i' in column j,   A_i = (lambda I + sum_j w_ij R_j R_j*)^{-1},
//
// in which effects of rows or columns are means taken off the factors. Where both sides are long D is near it, and what
// probes miss of D's diagonal is off the diagonal of D - Local.
type Local struct {
	d, k  int
	sides [2]side
	s     []float64 // roots of the weights, nil for ones
	h     []float64 // the diagonal
}

// side are the regressions of the rows, or of the columns.
type side struct {
	line, other []int32   // of each entry: its line, and that of the factor
	factor      []float64 // that of the other side
	mean        []float64 // what effects take off it in each line; nil for none
	inverse     []float64 // the A of each line
}

// leastLocal is the number of values up to which Local is made for any number of entries, and localPerEntry that for
// each of them beyond.
const leastLocal, localPerEntry = 1 << 22, 4

// NewLocal is nil where its matrices A would take more memory than probes do.
func NewLocal(c Completion) *Local {
	a := &Local{d: len(c.Row), k: c.K, h: make([]float64, len(c.Row))}
	if (c.Rows+c.Cols)*c.K*c.K > max(leastLocal, localPerEntry*a.d) {
		return nil
	}
	if c.Weights != nil {
		a.s = make([]float64, a.d)
		for e, w := range c.Weights {
			a.s[e] = math.Sqrt(w)
		}
	}
	a.sides = [2]side{{line: c.Row, other: c.Col, factor: c.R}, {line: c.Col, other: c.Row, factor: c.L}}
	lines, effects := [2]int{c.Rows, c.Cols}, [2]bool{c.RowEffects, c.ColEffects}
	for i := range a.sides {
		if effects[i] {
			a.sides[i].center(c.Weights, lines[i], a.k)
		}
		if !a.invert(&a.sides[i], lines[i], c.Lambda) {
			return nil
		}
	}
	g, image := make([]float64, a.k), make([]float64, a.k)
	for e := range a.d {
		for i := range a.sides {
			a.row(g, &a.sides[i], e)
			blas64.Symv(1, a.sides[i].of(int(a.sides[i].line[e]), a.k), vector(g), 0, vector(image))
			a.h[e] += floats.Dot(g, image)
		}
	}
	return a
}

// center takes the mean factor off each line.
func (s *side) center(weights []float64, lines, k int) {
	s.mean = make([]float64, lines*k)
	total := make([]float64, lines)
	for e, i := range s.line {
		w := 1.0
		if weights != nil {
			w = weights[e]
		}
		total[i] += w
		floats.AddScaled(s.mean[int(i)*k:][:k], w, s.factor[int(s.other[e])*k:][:k])
	}
	for i, w := range total {
		if w > 0 {
			floats.Scale(1/w, s.mean[i*k:(i+1)*k])
		}
	}
}

func (a *Local) row(g []float64, s *side, e int) {
	copy(g, s.factor[int(s.other[e])*a.k:][:a.k])
	if s.mean != nil {
		floats.Sub(g, s.mean[int(s.line[e])*a.k:][:a.k])
	}
	if a.s != nil {
		floats.Scale(a.s[e], g)
	}
}

func (s *side) of(line, k int) blas64.Symmetric {
	return blas64.Symmetric{N: k, Stride: k, Uplo: blas.Upper, Data: s.inverse[line*k*k:][:k*k]}
}

func (a *Local) invert(s *side, lines int, lambda float64) bool {
	k := a.k
	s.inverse = make([]float64, lines*k*k)
	g := make([]float64, k)
	for e, i := range s.line {
		a.row(g, s, e)
		blas64.Syr(1, vector(g), s.of(int(i), k))
	}
	for i := range lines {
		m := s.of(i, k)
		for r := range k {
			m.Data[r*k+r] += lambda
		}
		t, ok := lapack64.Potrf(m)
		if !ok {
			return false
		}
		lapack64.Potri(t)
	}
	return true
}

// Control replaces D w by (D - Local) w + diag(Local) w.
func (a *Local) Control(w, image []float64) {
	for e, h := range a.h {
		image[e] += h * w[e]
	}
	g, sum := make([]float64, a.k), make([]float64, a.k)
	for i := range a.sides {
		s := &a.sides[i]
		sums := make([]float64, len(s.inverse)/a.k)
		for e, line := range s.line {
			a.row(g, s, e)
			floats.AddScaled(sums[int(line)*a.k:][:a.k], w[e], g)
		}
		for line := range len(sums) / a.k {
			own := sums[line*a.k : (line+1)*a.k]
			blas64.Symv(1, s.of(line, a.k), vector(own), 0, vector(sum))
			copy(own, sum)
		}
		for e, line := range s.line {
			a.row(g, s, e)
			image[e] -= floats.Dot(g, sums[int(line)*a.k:][:a.k])
		}
	}
}
