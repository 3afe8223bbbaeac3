package faces

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/internal/numerics/kronecker"
)

// several is the inverse of K = G (x) I + Q for the outcomes of some columns, by matrices of the size of these.
type several struct{ whole *kronecker.Inverse }

// several is the inverse on S; nil where there is one outcome, or K has no such inverse. S has all outcomes of columns.
func (p *Groups) several() inverse {
	k := p.outcomes()
	if k == 1 {
		return nil
	}
	columns := lists.Make(len(p.active)/k, func(c int) int { return p.active[c*k] / k })
	gram := mat.NewDense(len(columns), len(columns), nil)
	var blocks []kronecker.Block
	known := make(map[int]int)
	for c, column := range columns {
		copy(gram.RawRowView(c), lists.Pick(p.row(column), columns))
		g := p.group[column*k]
		if _, ok := known[g]; !ok {
			known[g], blocks = len(blocks), append(blocks, kronecker.Block{})
		}
		b := &blocks[known[g]]
		b.Columns = append(b.Columns, c)
		if p.w[g] > 0 {
			b.U = append(b.U, p.B[column*k:(column+1)*k]...)
		}
	}
	for g, i := range known {
		if b := &blocks[i]; b.U != nil {
			size := floats.Norm(b.U, 2)
			floats.Scale(1/size, b.U)
			b.C = p.w[g] / size
		}
	}
	if whole := kronecker.New(gram, k, blocks); whole != nil {
		return several{whole}
	}
	return nil
}

func (s several) solve(x []float64)               { s.whole.Solve(x, 1) }
func (s several) solveEach(x []float64, rows int) { s.whole.Solve(x, rows) }

func (s several) half(x []float64, rows int) blas64.General {
	return s.whole.Half(x, rows).RawMatrix()
}

func (s several) condition() float64         { return s.whole.Condition }
func (s several) null() *mat.Dense           { return s.whole.Null }
func (s several) singular() bool             { return s.whole.Null != nil }
func (s several) traces() (float64, float64) { return s.whole.Traces() }
