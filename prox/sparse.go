package prox

// repeated is n times v; nil for 0.
func repeated(v float64, n int) []float64 {
	if v == 0 {
		return nil
	}
	out := make([]float64, n)
	for j := range out {
		out[j] = v
	}
	return out
}

// sparse has one weight.
func (p *l1) sparse(n int) (w, q []float64, positive []bool) {
	return repeated(p.lambda, n), nil, nil
}

// sparse has the penalty's weights.
func (p *weightedL1) sparse(int) (w, q []float64, positive []bool) { return p.wHost, nil, nil }

// sparse has one weight of each sort.
func (p *elasticNet) sparse(n int) (w, q []float64, positive []bool) {
	return repeated(p.lambda, n), repeated(p.lambda2, n), nil
}

// sparse has the penalty's weights.
func (p *weightedElasticNet) sparse(int) (w, q []float64, positive []bool) {
	return p.wHost, p.qHost, nil
}

// sparse has no weights and all constraints.
func (*nonNegative) sparse(n int) (w, q []float64, positive []bool) {
	positive = make([]bool, n)
	for j := range positive {
		positive[j] = true
	}
	return nil, nil, positive
}

// sparse has one weight of the squares.
func (p *squaredL2) sparse(n int) (w, q []float64, positive []bool) {
	return nil, repeated(p.lambda, n), nil
}

// scaledSparse has the weights of r times c.
func scaledSparse(c float64, sparse func(n int) (w, q []float64, positive []bool)) func(n int) (w, q []float64,
	positive []bool) {
	if sparse == nil {
		return nil
	}
	return func(n int) (w, q []float64, positive []bool) {
		w, q, positive = sparse(n)
		if w != nil {
			w = product(c, w)
		}
		if q != nil {
			q = product(c, q)
		}
		return w, q, positive
	}
}

// sparse joins the blocks' weights.
func (s *blocks) sparse(n int) (w, q []float64, positive []bool) {
	w, q, positive = make([]float64, n), make([]float64, n), make([]bool, n)
	for i, r := range s.parts {
		lo, hi := s.p.at[i], s.p.at[i+1]
		v, c, sign := r.Sparse(hi - lo)
		copy(w[lo:hi], v)
		copy(q[lo:hi], c)
		copy(positive[lo:hi], sign)
	}
	return w, q, positive
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
