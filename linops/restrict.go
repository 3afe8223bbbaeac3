package linops

import "surepipe/array"

// Restrictor is an Operator that can confine itself to a few of its
// coordinates. A sparse derivative makes the others irrelevant.
type Restrictor interface {
	Operator
	// Restrict returns A_S : R^|S| -> R^d, the columns of A at the coordinates
	// of S in the order given: A_S b_S = A b for b zero outside S.
	Restrict(s []int) Restricted
}

// Restricted is an operator that Restrict made.
type Restricted interface {
	Operator
	// Bytes is the device memory that it holds.
	Bytes() int64
	// Release frees that memory. The operator is dead afterwards.
	Release()
}

// columns are some columns of a dense matrix, gathered so that products with
// them read nothing else.
type columns struct {
	d, p int
	on   array.Batch
}

// Restrict gathers the columns of X at the coordinates of s.
func (a *Dense) Restrict(s []int) Restricted {
	dev := a.on.Device()
	idx := dev.NewIndex(s)
	defer idx.Free()
	c := &columns{d: a.d, p: len(s), on: dev.Alloc(a.d, len(s))}
	dev.Gather(c.on, a.on, idx)
	return c
}

func (c *columns) Dims() (d, p int) { return c.d, c.p }

func (c *columns) Forward(dst, b array.Batch) {
	checkForward("columns of Dense", c.d, c.p, dst, b)
	if c.p == 0 {
		dst.Device().Fill(dst, 0)
		return
	}
	dst.Device().Gemm(false, true, 1, b, c.on, 0, dst)
}

func (c *columns) Adjoint(dst, z array.Batch) {
	checkAdjoint("columns of Dense", c.d, c.p, dst, z)
	if c.p > 0 {
		dst.Device().Gemm(false, false, 1, z, c.on, 0, dst)
	}
}

func (c *columns) Bytes() int64 { return c.on.Bytes() }
func (c *columns) Release()     { c.on.Free() }
