package imaging

import (
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
)

// Interleaved applies an operator A, d x n, to each of k vectors whose entries are interleaved, such as
// the channels of an image in colours, or the real and the imaginary parts of complex numbers:
//
//	Forward: dst_{ki+c} = (A b^c)_i with b^c_j = b_{kj+c}, c = 0, ..., k-1        Adjoint: the same with A*
//
// It is a product with two permutations and k blocks of A, and its structure is that product's.
type Interleaved struct {
	linops.Operator
	order []*linops.Selection
}

// NewInterleaved puts the permutations for k vectors on a device.
func NewInterleaved(dev array.Device, a linops.Operator, k int) (*Interleaved, error) {
	if k < 1 {
		return nil, fmt.Errorf("linops: %d interleaved vectors, expected at least 1", k)
	}
	d, p := a.Dims()
	c := &Interleaved{}
	for _, n := range []int{d, p} {
		apart := lists.Make(k*n, func(i int) int { return i%n*k + i/n })
		order, err := linops.NewSelection(dev, k*n, apart)
		if err != nil {
			c.Release()
			return nil, err
		}
		c.order = append(c.order, order)
	}
	blocks := slices.Repeat([]linops.Operator{a}, k)
	c.Operator = linops.Compose(linops.Adjoint(c.order[0]), linops.BlockDiag(blocks...), c.order[1])
	return c, nil
}

func (c *Interleaved) Structure() linops.Structure { return linops.StructureOf(c.Operator) }

// Release frees the device memory of the permutations. The operator is dead afterwards.
func (c *Interleaved) Release() {
	for _, order := range c.order {
		order.Release()
	}
	c.order = nil
}
