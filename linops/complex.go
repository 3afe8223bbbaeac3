package linops

import "surepipe/array"

// Complex applies an operator to the real and to the imaginary parts of complex vectors, which are
// pairs of real and imaginary part.
//
//	Forward: dst_{2i} = (A Re b)_i, dst_{2i+1} = (A Im b)_i        Adjoint: the same with A*
//
// It is a product with two permutations and two blocks of A, and its structure is that product's.
type Complex struct {
	Operator
	order []*Selection
}

// NewComplex puts the permutations on a device.
func NewComplex(dev array.Device, a Operator) (*Complex, error) {
	d, p := a.Dims()
	c := &Complex{}
	for _, n := range []int{d, p} {
		apart := make([]int, 2*n)
		for i := range n {
			apart[i], apart[n+i] = 2*i, 2*i+1
		}
		order, err := NewSelection(dev, 2*n, apart)
		if err != nil {
			c.Release()
			return nil, err
		}
		c.order = append(c.order, order)
	}
	c.Operator = Compose(Adjoint(c.order[0]), BlockDiag(a, a), c.order[1])
	return c, nil
}

// Structure is that of the product.
func (c *Complex) Structure() Structure { return StructureOf(c.Operator) }

// Release frees the device memory of the permutations. The operator is dead afterwards.
func (c *Complex) Release() {
	for _, order := range c.order {
		order.Release()
	}
	c.order = nil
}
