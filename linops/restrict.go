package linops

// Restrictor is an Operator that can confine itself to a few of its
// coordinates. A sparse derivative makes the others irrelevant.
type Restrictor interface {
	Operator
	// Restrict returns A_S : R^|S| -> R^d, the columns of A at the coordinates
	// of S, in increasing order: A_S b_S = A b for b zero outside S. It returns nil
	// when the operator turns out to have a part that cannot.
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

// Restrict returns the columns of a at the coordinates of s, in increasing order,
// or nil where a cannot confine itself.
func Restrict(a Operator, s []int) Restricted {
	if r, ok := a.(Restrictor); ok {
		return r.Restrict(s)
	}
	return nil
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

// Restrict copies the columns of X at the coordinates of s.
func (a *CSR) Restrict(s []int) Restricted {
	// The rows of X' are the columns of X.
	t := a.m.transpose()
	pick := compressed{rows: len(s), cols: a.m.rows, indptr: make([]int, 1, len(s)+1)}
	for _, j := range s {
		lo, hi := t.indptr[j], t.indptr[j+1]
		pick.indices = append(pick.indices, t.indices[lo:hi]...)
		pick.values = append(pick.values, t.values[lo:hi]...)
		pick.indptr = append(pick.indptr, len(pick.indices))
	}
	return newCSR(a.dev, pick.transpose(), pick)
}

// Bytes is the size of X and X' on the device.
func (a *CSR) Bytes() int64 {
	return 2*16*int64(len(a.m.values)) + 8*int64(a.m.rows+a.m.cols+2)
}

// combined is a combination of restricted operators that owns them.
type combined struct {
	Operator
	parts []Restricted
}

func (c combined) Bytes() int64 {
	bytes := int64(0)
	for _, r := range c.parts {
		bytes += r.Bytes()
	}
	return bytes
}

func (c combined) Release() {
	for _, r := range c.parts {
		r.Release()
	}
}

// restrictAll confines every operator to its share of the coordinates and joins
// the results; nil where one cannot.
func restrictAll(ops []Operator, share func(i int) []int, join func(...Operator) Operator) Restricted {
	var c combined
	var parts []Operator
	for i, a := range ops {
		r := Restrict(a, share(i))
		if r == nil {
			c.Release()
			return nil
		}
		c.parts = append(c.parts, r)
		parts = append(parts, r)
	}
	c.Operator = join(parts...)
	return c
}

// Restrict confines every block to those of its coordinates that are in s.
func (h *hstack) Restrict(s []int) Restricted {
	first, next := 0, 0
	return restrictAll(h.ops, func(i int) []int {
		_, p := h.ops[i].Dims()
		var own []int
		for next < len(s) && s[next] < first+p {
			own = append(own, s[next]-first)
			next++
		}
		first += p
		return own
	}, HStack)
}

// Restrict confines every block to s.
func (v *vstack) Restrict(s []int) Restricted {
	return restrictAll(v.ops, func(int) []int { return s }, VStack)
}

// Restrict confines A to s.
func (s *scaled) Restrict(set []int) Restricted {
	return restrictAll([]Operator{s.a}, func(int) []int { return set }, func(ops ...Operator) Operator {
		return Scale(s.alpha, ops[0])
	})
}

// Restrict confines the factor that acts first to s.
func (c *compose) Restrict(s []int) Restricted {
	last := len(c.ops) - 1
	return restrictAll(c.ops[last:], func(int) []int { return s }, func(ops ...Operator) Operator {
		return Compose(append(append([]Operator(nil), c.ops[:last]...), ops[0])...)
	})
}
