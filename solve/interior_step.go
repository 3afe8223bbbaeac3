package solve

import "math"

// shortOfEdge is the share of the way to the nearest inequality that a step takes at most.
const shortOfEdge = 0.995

// The size of the products, relative to the first, at which the zeros of K b are told from other
// entries, and beyond which nothing is gained.
const (
	smallProduct    = 1e-20
	smallestProduct = 1e-26
	// mostSlow is the number of steps in a row that may leave nine tenths of the products.
	mostSlow = 40
)

// advance takes a step with Mehrotra's predictor and corrector.
func (s *interior) advance(r *interiorRun) {
	s.residuals(r)
	r.products, r.pieces = 0, 0
	s.each(r, func(v *side, i int) {
		r.products += v.x[i] * v.s[i]
		r.pieces++
	})
	if r.first == 0 {
		r.first = r.products
	}
	if r.slow++; r.products < 0.9*r.last || r.last == 0 {
		r.slow, r.last = 0, r.products
	}
	if r.products <= smallestProduct*r.first || r.slow > mostSlow {
		r.stuck = true // as near as numbers come
		return
	}
	clear(r.j)
	s.each(r, func(v *side, i int) { r.j[i] += v.x[i] / v.s[i] })
	if !r.factor.factorize(r.j) {
		r.stuck = true
		return
	}
	s.each(r, func(v *side, i int) { v.rest[i] = -v.x[i] * v.s[i] })
	s.direction(r)
	before := r.products
	near := s.reach(r, 1)
	after := 0.0
	s.each(r, func(v *side, i int) { after += (v.x[i] + near*v.dx[i]) * (v.s[i] + near*v.ds[i]) })
	share := after / before
	target := share * share * share * before / r.pieces
	s.each(r, func(v *side, i int) { v.rest[i] = target - v.x[i]*v.s[i] - v.dx[i]*v.ds[i] })
	s.direction(r)
	s.move(r, math.Min(1, s.reach(r, shortOfEdge)))
}

// direction solves for the Newton step towards products of rest more than they are,
//
//	ds = -+ du + (the inequality's own residual),   dx = (rest - x ds)/s,
//
// with one step of iterative refinement.
func (s *interior) direction(r *interiorRun) {
	s.toRight(r, r.db, r.du)
	copy(r.fix, r.db)
	copy(r.fixu, r.du)
	r.factor.solve(r.db, r.du, r.work)
	// What is left of the right-hand side.
	s.system.normal(r.normal, r.db)
	for j, v := range r.normal {
		r.fix[j] -= v
	}
	for i := range r.fixu {
		v := -r.j[i] * r.du[i]
		for t := s.k.Indptr[i]; t < s.k.Indptr[i+1]; t++ {
			v += s.k.Values[t] * r.db[s.k.Indices[t]]
			r.fix[s.k.Indices[t]] -= s.k.Values[t] * r.du[i]
		}
		r.fixu[i] -= v
	}
	r.factor.solve(r.fix, r.fixu, r.work)
	for j, v := range r.fix {
		r.db[j] += v
	}
	for i, v := range r.fixu {
		r.du[i] += v
	}
	s.each(r, func(v *side, i int) {
		v.ds[i] = s.slack(r, v, i) - v.sign*r.du[i] - v.s[i]
		v.dx[i] = (v.rest[i] - v.x[i]*v.ds[i]) / v.s[i]
	})
}

// slack is w - u or w + u, which s is at a feasible point.
func (s *interior) slack(r *interiorRun, v *side, i int) float64 { return s.w[i] - v.sign*r.u[i] }

// toRight sets the right-hand side: with K db - dm + dn = -rz and the above,
//
//	K db - J du = -rz + sum of sign (rest - x (slack - s))/s.
func (s *interior) toRight(r *interiorRun, b, z []float64) {
	for j, v := range r.rb {
		b[j] = -v
	}
	for i, v := range r.rz {
		z[i] = -v
	}
	s.each(r, func(v *side, i int) {
		z[i] += v.sign * (v.rest[i] - v.x[i]*(s.slack(r, v, i)-v.s[i])) / v.s[i]
	})
}

// reach is the largest step, at most 1, that leaves every inequality 1 - share of its distance.
func (s *interior) reach(r *interiorRun, share float64) float64 {
	step := 1.0
	s.each(r, func(v *side, i int) {
		if v.dx[i] < 0 {
			step = math.Min(step, -share*v.x[i]/v.dx[i])
		}
		if v.ds[i] < 0 {
			step = math.Min(step, -share*v.s[i]/v.ds[i])
		}
	})
	return step
}

// move takes the step, unless it is not finite or leads nowhere.
func (s *interior) move(r *interiorRun, step float64) {
	for _, v := range r.db {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.stuck = true
			return
		}
	}
	if !(step > 1e-12) {
		r.stuck = true
		return
	}
	for j, v := range r.db {
		r.b[j] += step * v
	}
	for i, v := range r.du {
		r.u[i] += step * v
	}
	s.each(r, func(v *side, i int) {
		v.x[i] += step * v.dx[i]
		v.s[i] += step * v.ds[i]
	})
}
