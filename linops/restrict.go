package linops

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

// Restrict gathers the columns of X at the coordinates of s, so that products
// with them read nothing else.
func (a *Dense) Restrict(s []int) Restricted {
	dev := a.on.Device()
	idx := dev.NewIndex(s)
	defer idx.Free()
	c := &Dense{d: a.d, p: len(s), on: dev.Alloc(a.d, len(s))}
	dev.Gather(c.on, a.on, idx)
	return c
}

// Bytes is the size of X on the device, the inverses of SolveNormal left out.
func (a *Dense) Bytes() int64 { return a.on.Bytes() }
