package prox

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

// free is all coordinates where lambda is 0.
func (p *l1) free(n int) []int { return where(n, func(int) bool { return p.lambda == 0 }) }

// free is where the weight is 0.
func (p *weightedL1) free(n int) []int { return where(n, func(j int) bool { return p.wHost[j] == 0 }) }

// free is all coordinates where both weights are 0.
func (p *elasticNet) free(n int) []int {
	return where(n, func(int) bool { return p.lambda == 0 && p.lambda2 == 0 })
}

// free is where both weights are 0.
func (p *weightedElasticNet) free(n int) []int {
	return where(n, func(j int) bool { return p.wHost[j] == 0 && p.qHost[j] == 0 })
}

// free is all coordinates where there is no curvature.
func (p *squaredL2) free(n int) []int { return where(n, func(int) bool { return p.lambda == 0 }) }

// free is the groups of weight 0.
func (p *groups) free(n int) []int {
	return where(n, func(j int) bool { return p.wHost[p.owner[j]] == 0 })
}
