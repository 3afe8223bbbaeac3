package faces

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/numerics/kronecker"
)

// several is the inverse of K = G (x) I + Q for the outcomes of some columns, by matrices of the size of these.
type several struct {
	whole  *kronecker.Inverse
	places []int // of (column, outcome) among the coordinates in S
	sorted []float64
}

// several is the inverse on S; nil where S is not that of all outcomes of some columns, or K has no such inverse.
func (p *Groups) several() inverse {
	n, k := len(p.active), p.Outcomes
	if k == 0 || n%k != 0 {
		return nil
	}
	s := &several{places: make([]int, n)}
	columns, groups := make(map[int]int), make(map[int]int)
	var blocks []kronecker.Block
	for i, j := range p.active {
		c, known := columns[p.of[j]/k]
		if !known {
			c = len(columns)
			columns[p.of[j]/k] = c
			b, known := groups[p.group[j]]
			if !known {
				b = len(blocks)
				groups[p.group[j]], blocks = b, append(blocks, kronecker.Block{})
			}
			blocks[b].Columns = append(blocks[b].Columns, c)
		}
		if c*k >= n {
			return nil
		}
		s.places[c*k+p.of[j]%k] = i
	}
	at := func(c, r int) int { return p.active[s.places[c*k+r]] }
	for g, i := range groups {
		b := &blocks[i]
		for _, c := range b.Columns {
			for r := range k {
				if p.group[at(c, r)] != g {
					return nil
				}
				b.U = append(b.U, p.B[at(c, r)])
			}
		}
		size := floats.Norm(b.U, 2)
		if b.C = p.w[g] / size; b.C == 0 {
			b.U = nil
			continue
		}
		floats.Scale(1/size, b.U)
	}
	gram := mat.NewDense(len(columns), len(columns), nil)
	for c := range len(columns) {
		row := p.Gram(at(c, 0))
		for d := range len(columns) {
			gram.Set(c, d, row[at(d, 0)])
		}
	}
	if s.whole = kronecker.New(gram, k, blocks); s.whole == nil {
		return nil
	}
	return s
}

func (s *several) solve(x []float64) { s.solveEach(x, 1) }

func (s *several) solveEach(x []float64, rows int) {
	sorted := s.sort(x, rows)
	s.whole.Solve(sorted, rows)
	n := len(s.places)
	for i := range rows {
		for at, place := range s.places {
			x[i*n+place] = sorted[i*n+at]
		}
	}
}

func (s *several) half(x []float64, rows int) blas64.General {
	return s.whole.Half(s.sort(x, rows), rows).RawMatrix()
}

// sort has the rows in the order of columns and outcomes.
func (s *several) sort(x []float64, rows int) []float64 {
	sorted := s.sorted[:0]
	for i := range rows {
		row := x[i*len(s.places):]
		for _, place := range s.places {
			sorted = append(sorted, row[place])
		}
	}
	s.sorted = sorted
	return sorted
}

func (s *several) condition() float64         { return s.whole.Condition }
func (s *several) singular() bool             { return false }
func (s *several) traces() (float64, float64) { return s.whole.Traces() }
