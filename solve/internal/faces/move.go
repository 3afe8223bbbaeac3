package faces

import "math"

// Move sets the point and the gradient there, which may have come from elsewhere; S becomes the
// support of b. It reports false where a coordinate of that depends on the others.
func (p *Program) Move(b, grad []float64) bool {
	var out, list []int
	for i, j := range p.active {
		if b[j] == 0 {
			out = append(out, i)
		}
	}
	p.leave(out)
	for j, v := range b {
		if v != 0 && !p.in[j] {
			list = append(list, j)
		}
	}
	p.join(list)
	for j, v := range b {
		if v != 0 && !p.in[j] {
			return false
		}
		if p.B[j], p.sign[j] = v, 0; v != 0 && p.kink(j) {
			p.sign[j] = math.Copysign(1, v)
		}
	}
	copy(p.Grad, grad)
	return true
}

// Violation is the largest violation of an optimality condition, in units of the columns' lengths.
func (p *Program) Violation() float64 {
	most := p.Stationarity()
	for j := range p.B {
		if !p.in[j] {
			most = max(most, p.violation(j))
		}
	}
	return most
}
