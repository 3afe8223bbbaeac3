package prox

// Unpenalized is a Prox that leaves some coordinates free: r does not depend on them.
type Unpenalized interface {
	Prox
	// Free lists those coordinates of vectors of length n, in increasing order.
	Free(n int) []int
}

// FreeCoordinates lists the coordinates of vectors of length n on which p does not depend, as far as
// p, or what it wraps, knows.
func FreeCoordinates(p Prox, n int) []int {
	switch p := p.(type) {
	case Unpenalized:
		return p.Free(n)
	case valued:
		return FreeCoordinates(p.Prox, n)
	case owned:
		return FreeCoordinates(p.Prox, n)
	case Block:
		return FreeCoordinates(p.Prox, n)
	case scaled:
		return FreeCoordinates(p.p, n)
	}
	return nil
}

// where lists the coordinates below n that are free.
func where(n int, free func(j int) bool) []int {
	var set []int
	for j := range n {
		if free(j) {
			set = append(set, j)
		}
	}
	return set
}

// Free is all where lambda is 0.
func (p l1) Free(n int) []int { return where(n, func(int) bool { return p.lambda == 0 }) }

// Free is where the weight is 0.
func (p *weightedL1) Free(n int) []int { return where(n, func(j int) bool { return p.wHost[j] == 0 }) }

// Free is all where both weights are 0.
func (p elasticNet) Free(n int) []int {
	return where(n, func(int) bool { return p.lambda == 0 && p.lambda2 == 0 })
}

// Free is where both weights are 0.
func (p *weightedElasticNet) Free(n int) []int {
	return where(n, func(j int) bool { return p.wHost[j] == 0 && p.qHost[j] == 0 })
}

// Free is all where there is no curvature.
func (p squaredL2) Free(n int) []int { return where(n, func(int) bool { return p.lambda == 0 }) }

// Free is the groups of weight 0.
func (p *groups) Free(n int) []int {
	return where(n, func(j int) bool { return p.wHost[p.owner[j]] == 0 })
}

// Free asks each block.
func (p *separable) Free(int) []int {
	var set []int
	for i, q := range p.blocks {
		for _, j := range FreeCoordinates(q, p.at[i+1]-p.at[i]) {
			set = append(set, p.at[i]+j)
		}
	}
	return set
}
