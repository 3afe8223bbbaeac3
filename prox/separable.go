package prox

import (
	"fmt"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// separable is r(b) = sum_i r_i(b_i).
type separable struct {
	blocks []Prox
	at     []int // block i is coordinates [at[i], at[i+1])
	Known
}

// NewSeparable returns r(b) = sum_i r_i(b_i), where b_i are consecutive blocks of b, each as long
// as its Prox's Dim; a [Block] gives a length to a Prox that takes any. Then
//
//	prox_{t r}(v)_i = prox_{t r_i}(v_i),    J = diag(J_1, J_2, ...),
//
// J is diagonal where every block's is, and its model is the product of the blocks' models, unless
// a block has none. It has a value if every block has one, and is quadratic if every block is, with
// the same curvature. It panics without blocks, or if a block's Dim is 0 or disagrees with the Prox
// in it.
func NewSeparable(blocks ...Prox) Prox {
	if len(blocks) == 0 {
		panic("prox: a separable regularizer without blocks")
	}
	p := &separable{blocks: append([]Prox(nil), blocks...), at: make([]int, 1, len(blocks)+1)}
	first, quadratic := StructureOf(blocks[0]).Quadratic, true
	for i, q := range blocks {
		n := q.Dim()
		if n <= 0 {
			panic(fmt.Sprintf("prox: block %d of a separable regularizer has dimension %d, want > 0: wrap "+
				"it in a Block", i, n))
		}
		if b, ok := q.(Block); ok && b.Prox.Dim() != 0 && b.Prox.Dim() != n {
			panic(fmt.Sprintf("prox: block %d of a separable regularizer has length %d around a prox of dimension %d",
				i, n, b.Prox.Dim()))
		}
		p.at = append(p.at, p.at[i]+n)
		c := StructureOf(q).Quadratic
		quadratic = quadratic && c.Known && c == first
	}
	if quadratic {
		return newSquaredL2(first.Value, p.Dim())
	}
	p.Is = blockStructure(p)
	return p
}

func (p *separable) Dim() int { return p.at[len(p.blocks)] }

func (p *separable) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("separable", p.Dim(), dst, v, t)
	for i, q := range p.blocks {
		lo, hi := p.at[i], p.at[i+1]
		if err := q.Eval(dst.Cols(lo, hi), v.Cols(lo, hi), t); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

func (p *separable) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("separable", p.Dim(), dst, v, t)
	j := &separableDerivative{at: p.at, blocks: make([]Derivative, 0, len(p.blocks))}
	j.build = func() *Model { return blockModel(j.at, j.blocks) }
	for i, q := range p.blocks {
		lo, hi := p.at[i], p.at[i+1]
		d, err := q.Linearize(dst.Cols(lo, hi), v.Cols(lo, hi), t)
		if err != nil {
			j.Release()
			return nil, fmt.Errorf("block %d: %w", i, err)
		}
		j.blocks = append(j.blocks, d)
		j.Own(d)
	}
	return j, nil
}

// separableDerivative is J = diag(J_1, J_2, ...).
type separableDerivative struct {
	at     []int
	blocks []Derivative
	joined array.Batch // the diagonal, where there is one and it has been asked for
	jacobian
}

func (j *separableDerivative) Apply(dst, z array.Batch) {
	vector.CheckApply("separable", j.at[len(j.blocks)], dst, z)
	for i, d := range j.blocks {
		lo, hi := j.at[i], j.at[i+1]
		d.Apply(dst.Cols(lo, hi), z.Cols(lo, hi))
	}
}

func (j *separableDerivative) Diagonal() array.Batch {
	parts := make([]array.Batch, len(j.blocks))
	for i, d := range j.blocks {
		if parts[i] = d.Diagonal(); parts[i].IsZero() {
			return array.Batch{}
		}
	}
	return j.keep(&j.joined, func() array.Batch {
		dev := parts[0].Device()
		joined := dev.Alloc(1, j.at[len(j.blocks)])
		for i, d := range parts {
			dev.Copy(joined.Cols(j.at[i], j.at[i+1]), d)
		}
		return joined
	})
}
