package prox

import (
	"fmt"

	"surepipe/array"
)

// Block is a Prox that acts on vectors of length N, for the Prox whose own Dim
// is 0.
type Block struct {
	Prox
	N int
}

// Dim returns N.
func (b Block) Dim() int { return b.N }

// Eval sets dst = prox_{t r}(v).
func (b Block) Eval(dst, v array.Batch, t float64) error {
	checkEval("block", b.N, dst, v, t)
	return b.Prox.Eval(dst, v, t)
}

// Linearize evaluates and returns the derivative.
func (b Block) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	checkLinearize("block", b.N, dst, v, t)
	return b.Prox.Linearize(dst, v, t)
}

// separable is r(b) = sum_i r_i(b_i).
type separable struct {
	blocks []Prox
	at     []int // block i is coordinates [at[i], at[i+1])
}

// NewSeparable returns r(b) = sum_i r_i(b_i), where b_i are consecutive blocks
// of b, each as long as its Prox's Dim; a [Block] gives a length to one that
// takes any. Then
//
//	prox_{t r}(v)_i = prox_{t r_i}(v_i),    J = diag(J_1, J_2, ...).
//
// It has a value if every block has one, is [Quadratic] if every block is with
// one curvature, and its derivative is [Masked] where the blocks' are, else a [Tracer]
// where the blocks' are. It panics
// without blocks, or if a block's Dim is 0 or disagrees with the Prox in it.
func NewSeparable(blocks ...Prox) Prox {
	if len(blocks) == 0 {
		panic("prox: a separable regularizer without blocks")
	}
	p := &separable{append([]Prox(nil), blocks...), make([]int, 1, len(blocks)+1)}
	curvature, quadratic := curvatureOf(blocks[0])
	var values []func(array.Batch) float64
	for i, q := range blocks {
		n := q.Dim()
		if n <= 0 {
			panic(fmt.Sprintf("prox: block %d of a separable regularizer has dimension %d, want > 0: wrap it in a Block", i, n))
		}
		if b, ok := q.(Block); ok && b.Prox.Dim() != 0 && b.Prox.Dim() != n {
			panic(fmt.Sprintf("prox: block %d of a separable regularizer has length %d around a prox of dimension %d", i, n, b.Prox.Dim()))
		}
		p.at = append(p.at, p.at[i]+n)
		c, ok := curvatureOf(q)
		quadratic = quadratic && ok && c == curvature
		if r := valueOf(q); r != nil {
			values = append(values, r)
		}
	}
	if quadratic {
		return squaredL2{curvature, p.Dim()}
	}
	if len(values) < len(blocks) {
		return p
	}
	return valued{p, func(b array.Batch) float64 {
		s := 0.0
		for i, r := range values {
			s += r(b.Cols(p.at[i], p.at[i+1]))
		}
		return s
	}}
}

func (p *separable) Dim() int { return p.at[len(p.blocks)] }

func (p *separable) Eval(dst, v array.Batch, t float64) error {
	checkEval("separable", p.Dim(), dst, v, t)
	for i, q := range p.blocks {
		lo, hi := p.at[i], p.at[i+1]
		if err := q.Eval(dst.Cols(lo, hi), v.Cols(lo, hi), t); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

func (p *separable) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	checkLinearize("separable", p.Dim(), dst, v, t)
	j := &separableDerivative{p.at, make([]Derivative, 0, len(p.blocks))}
	masked, traced := true, true
	for i, q := range p.blocks {
		lo, hi := p.at[i], p.at[i+1]
		d, err := q.Linearize(dst.Cols(lo, hi), v.Cols(lo, hi), t)
		if err != nil {
			j.Release()
			return nil, fmt.Errorf("block %d: %w", i, err)
		}
		j.blocks = append(j.blocks, d)
		_, ok := d.(Masked)
		masked = masked && ok
		_, ok = d.(Tracer)
		traced = traced && ok
	}
	switch {
	case !masked && traced:
		return tracedSeparable{j}, nil
	case !masked:
		return j, nil
	}
	dev := v.Device()
	mask := dev.Alloc(1, p.Dim())
	for i, d := range j.blocks {
		dev.Copy(mask.Cols(p.at[i], p.at[i+1]), d.(Masked).Diagonal())
	}
	j.Release()
	return diagonal{mask}, nil
}

// Join returns J = diag(J_1, J_2, ...), J_i being n_i x n_i. Releasing J releases them. It
// panics unless there is one n_i for each.
func Join(n []int, blocks []Derivative) Derivative {
	if len(n) != len(blocks) {
		panic(fmt.Sprintf("prox: Join of %d derivatives of %d lengths", len(blocks), len(n)))
	}
	j := &separableDerivative{make([]int, 1, len(n)+1), blocks}
	for i, n := range n {
		j.at = append(j.at, j.at[i]+n)
	}
	return j
}

// separableDerivative is J = diag(J_1, J_2, ...).
type separableDerivative struct {
	at     []int
	blocks []Derivative
}

func (j *separableDerivative) Apply(dst, z array.Batch) {
	checkApply("separable", j.at[len(j.blocks)], dst, z)
	for i, d := range j.blocks {
		lo, hi := j.at[i], j.at[i+1]
		d.Apply(dst.Cols(lo, hi), z.Cols(lo, hi))
	}
}

func (j *separableDerivative) ApplyRange(jz, pz, z array.Batch) {
	checkApply("separable", j.at[len(j.blocks)], jz, z)
	for i, d := range j.blocks {
		lo, hi := j.at[i], j.at[i+1]
		ApplyRange(d, jz.Cols(lo, hi), pz.Cols(lo, hi), z.Cols(lo, hi))
	}
}

// tracedSeparable is a J = diag(J_1, J_2, ...) whose blocks know their traces.
type tracedSeparable struct{ *separableDerivative }

// Trace sums those of the blocks.
func (j tracedSeparable) Trace() (trace, frobenius2 float64) {
	for _, d := range j.blocks {
		t, f := d.(Tracer).Trace()
		trace += t
		frobenius2 += f
	}
	return trace, frobenius2
}

// Blocks returns J_1, J_2, ...
func (j *separableDerivative) Blocks() []Derivative { return j.blocks }

func (j *separableDerivative) Bytes() int64 {
	var n int64
	for _, d := range j.blocks {
		n += d.Bytes()
	}
	return n
}

func (j *separableDerivative) Release() {
	for _, d := range j.blocks {
		d.Release()
	}
}
