package faces

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// outcome is that of a Newton step.
type outcome int

const (
	reached outcome = iota // the minimum over the face
	moved                  // F fell, and S or its signs changed
	stalled                // F would not fall
)

const (
	// firstBatch coordinates join S at once at first, and batchShare of S later on.
	firstBatch = 16
	batchShare = 0.5
	// earlySteps that change signs are followed by coordinates that join S at once, before the minimum over the face
	// is reached.
	earlySteps = 3
	// WellConditioned is the smallest squared pivot, of a matrix with ones on its diagonal, from which a step's own
	// equation gives its image.
	WellConditioned = 1e-6
	// sufficient is the share of a step's slope that F must fall by.
	sufficient = 0.05
)

// Minimize goes to the minimum over the working set, in at most so many Newton steps. It reports
// whether S or its signs changed. It calls stepped after every step.
func (p *Program) Minimize(ctx context.Context, stepped func(), most int) (changed bool, err error) {
	clear(p.barred)
	p.tried = false
	p.batch = max(firstBatch, int(batchShare*float64(len(p.active))))
	early := earlySteps
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return changed, err
		}
		if most--; most < 0 {
			return changed, nil
		}
		how := p.step(first)
		stepped()
		switch how {
		case moved:
			if changed = true; early > 0 {
				early--
				p.tried = true
				p.enlarge()
			}
		case stalled:
			if p.settle() { // a factor with columns held is less accurate
				continue
			}
			if p.tried { // what has joined off the minimum over the face leaves again
				early = 0
			} else {
				p.batch = p.batch / 4
			}
			if !p.purge() {
				return changed, nil
			}
		case reached:
			p.tried = false
			switch grown, again := p.enlarge(); {
			case grown:
				changed = true
			case !again:
				return changed, nil
			}
		}
	}
}

func (p *Program) slope(j int) float64 { return p.Grad[j] + p.W[j]*p.sign[j] + p.Q[j]*p.B[j] }

// Stationarity is the largest derivative of F along S, in units of the columns' lengths.
func (p *Program) Stationarity() float64 {
	most := 0.0
	for _, j := range p.active {
		most = max(most, math.Abs(p.slope(j)*p.scale[j]))
	}
	return most
}

// Decrement is the distance to the minimum over the face in the norm of G + Q, sqrt(e* (G+Q)^{-1} e)
// with the derivatives e of F along S; same reports that no sign changes on the way.
func (p *Program) Decrement() (off float64, same bool) { return p.decrement(nil, 1) }

// Keeps is Decrement where the gradient on the working set is off by e, and no sign may change on the way nor as far
// again beyond.
func (p *Program) Keeps(e []float64) (off float64, same bool) { return p.decrement(e, 2) }

func (p *Program) decrement(wrong []float64, far float64) (off float64, same bool) {
	e, d := make([]float64, len(p.active)), make([]float64, len(p.active))
	for i, j := range p.active {
		e[i] = p.slope(j)
		if wrong != nil {
			e[i] += wrong[j]
		}
		d[i] = -e[i] * p.scale[j]
	}
	p.solve(d)
	sum := 0.0
	same = true
	for i, j := range p.active {
		d[i] *= p.scale[j]
		sum -= d[i] * e[i]
		same = same && !(p.kink(j) && (p.B[j]+far*d[i])*p.sign[j] <= 0)
	}
	return math.Sqrt(max(sum, 0)), same
}

// Least is the smallest squared pivot of the factor, of a matrix with ones on its diagonal.
func (p *Program) Least() float64 {
	least := 1.0
	for i := range p.f.n {
		v := p.f.r[i*p.f.stride+i]
		least = min(least, v*v)
	}
	return least
}

// step is a Newton step on the face. Where signs would change it goes to the projection of the
// minimum on the face, if F falls enough there, or else to where F is least along the step.
func (p *Program) step(force bool) outcome {
	n := len(p.active)
	if n == 0 || !force && p.Stationarity() <= p.Floor {
		return reached
	}
	p.Steps++
	p.dir = slices.Grow(p.dir[:0], n)[:n]
	d := p.dir
	for i, j := range p.active {
		d[i] = -p.slope(j) * p.scale[j]
	}
	p.solve(d)
	slope, crossing := 0.0, false
	for i, j := range p.active {
		d[i] *= p.scale[j]
		slope += d[i] * p.slope(j)
		crossing = crossing || p.crosses(i, j)
	}
	if !crossing {
		before := p.Stationarity()
		p.timesNewton(d)
		p.move(1, d)
		if after := p.Stationarity(); after > p.Floor && !(after < before/2) && p.settle() {
			return moved
		}
		p.batch = min(2*p.batch+1, max(firstBatch, int(batchShare*float64(n))))
		return reached
	}
	if !(slope < 0) {
		return stalled
	}
	if p.project(d, slope) {
		return moved
	}
	return p.search(d, slope)
}

// crosses reports that b_j changes its sign in the step.
func (p *Program) crosses(i, j int) bool {
	return p.kink(j) && (p.B[j]+p.dir[i])*p.sign[j] <= 0
}

// project goes to the projection of b + d on the face, if F falls enough, and takes what is 0 there
// out of S.
func (p *Program) project(d []float64, slope float64) bool {
	e := make([]float64, len(d))
	var out []int
	for i, j := range p.active {
		if e[i] = d[i]; p.crosses(i, j) {
			e[i] = -p.B[j]
			out = append(out, i)
		}
	}
	p.timesNewton(d)
	for _, i := range out {
		lin(p.image, e[i]-d[i], p.Gram(p.active[i]))
	}
	change := 0.0
	for i, j := range p.active {
		change += e[i] * (p.slope(j) + (p.image[j]+p.Q[j]*e[i])/2)
	}
	if !(change < sufficient*slope) {
		return false
	}
	p.move(1, e)
	p.leave(out)
	return true
}

// timesNewton sets the image of the Newton step d. Where columns hardly depend on each other it is (G + Q) d = -slope
// on S, and only the rows of other coordinates are read.
func (p *Program) timesNewton(d []float64) {
	if p.Least() < WellConditioned {
		p.times(d)
		return
	}
	known := make([]float64, len(d))
	for i, j := range p.active {
		known[i] = -p.slope(j) - p.Q[j]*d[i]
	}
	p.timesExact(d, known)
}

// crossing is a sign change along a step.
type crossing struct {
	t     float64
	place int
}

// search goes along d to where F is least. Beyond the sign change of b_j its slope is larger by 2
// w_j |d_j|, and there is nothing where b_j >= 0.
func (p *Program) search(d []float64, slope float64) outcome {
	var all []crossing
	for i, j := range p.active {
		if p.crosses(i, j) {
			all = append(all, crossing{max(-p.B[j]/d[i], 0), i})
		}
	}
	slices.SortFunc(all, func(a, b crossing) int {
		return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.place, b.place))
	})
	now, t := slope, 1.0 // the slope at t is now - t slope
	var passed []int
	var out []int
	for _, c := range all {
		if now-c.t*slope >= 0 {
			break
		}
		j := p.active[c.place]
		after := now + 2*p.W[j]*math.Abs(d[c.place])
		if p.Positive[j] {
			after = math.Inf(1)
		}
		if after-c.t*slope >= 0 {
			now, t = math.NaN(), c.t
			out = append(out, c.place)
			break
		}
		now = after
		passed = append(passed, c.place)
	}
	if !math.IsNaN(now) {
		t = min(now/slope, 1)
	}
	if !(t > 0) {
		return stalled
	}
	p.times(d)
	p.move(t, d)
	for _, i := range passed {
		j := p.active[i]
		if p.sign[j] = math.Copysign(1, p.B[j]); p.B[j] == 0 {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	for _, i := range out {
		j := p.active[i]
		lin(p.Grad, -p.B[j], p.Gram(j)) // a rounding error
	}
	p.leave(out)
	return moved
}

// purge takes out of S what is 0, or of the wrong sign by a rounding error, and bars it where it was alone and has
// joined at the minimum over the face. It reports whether there was any.
func (p *Program) purge() bool {
	var out []int
	for i, j := range p.active {
		if p.kink(j) && p.B[j]*p.sign[j] <= 0 {
			lin(p.Grad, -p.B[j], p.Gram(j))
			out = append(out, i)
		}
	}
	if len(out) == 1 && !p.tried {
		p.barred[p.active[out[0]]] = true
	}
	p.leave(out)
	return len(out) > 0
}

// violation is by how much coordinate j violates its optimality condition at b_j = 0, in units of
// its column's length.
func (p *Program) violation(j int) float64 {
	g := math.Abs(p.Grad[j])
	if p.Positive[j] {
		g = -p.Grad[j]
	}
	return (g - p.W[j]) * p.scale[j]
}

// enlarge adds the largest violations to S, or at the minimum over the face exchanges one that depends on S; again
// reports that it may be called again though it did neither.
func (p *Program) enlarge() (grown, again bool) {
	var list []int
	size := make(map[int]float64)
	for j := range p.B {
		if p.in[j] || p.barred[j] {
			continue
		}
		if v := p.violation(j); v > p.Floor {
			list = append(list, j)
			size[j] = v
		}
	}
	if len(list) == 0 {
		return false, false
	}
	slices.SortFunc(list, func(i, j int) int { return cmp.Or(cmp.Compare(size[j], size[i]), cmp.Compare(i, j)) })
	for len(list) > 0 {
		k := min(max(p.batch, 1), len(list))
		some := list[:k]
		for _, j := range some {
			if p.kink(j) {
				p.sign[j] = -math.Copysign(1, p.Grad[j])
			}
		}
		n := p.join(some)
		for _, j := range some {
			if !p.in[j] {
				p.sign[j] = 0
			}
		}
		if n > 0 {
			return true, true
		}
		if p.tried {
			return false, true
		}
		if p.exchange(some[0]) {
			return true, true
		}
		p.barred[some[0]] = true
		list = list[1:]
	}
	return false, false
}

// exchange moves along the direction z that changes no fit, in which b_j grows, to the first sign
// change in S, whose place j takes.
func (p *Program) exchange(j int) bool {
	sign := -math.Copysign(1, p.Grad[j])
	n := len(p.active)
	z, row := make([]float64, n), p.Gram(j)
	for i, s := range p.active {
		z[i] = -sign * row[s] * p.scale[s] * p.scale[j]
	}
	p.solve(z)
	step := sign * p.scale[j]
	slope := step*p.Grad[j] + p.W[j]*math.Abs(step)
	least, place := math.Inf(1), -1
	for i, s := range p.active {
		z[i] *= p.scale[s]
		slope += z[i] * p.slope(s)
		if t := -p.B[s] / z[i]; p.kink(s) && z[i]*p.sign[s] < 0 && t < least {
			least, place = t, i
		}
	}
	if place < 0 || !(slope < 0) {
		return false
	}
	p.times(z)
	lin(p.image, step, row)
	curve := step * (p.image[j] + p.Q[j]*step)
	for i, s := range p.active {
		curve += z[i] * (p.image[s] + p.Q[s]*z[i])
	}
	change := least * (slope + least*curve/2)
	if !(change < 0) {
		return false
	}
	b, grad, left := slices.Clone(p.B), slices.Clone(p.Grad), p.active[place]
	back := p.sign[left]
	p.move(least, z)
	p.B[j] += least * step
	p.B[left] = 0
	p.leave([]int{place})
	if p.kink(j) {
		p.sign[j] = sign
	}
	if p.join([]int{j}) == 1 {
		return true
	}
	p.sign[j] = 0
	copy(p.B, b)
	copy(p.Grad, grad)
	if p.sign[left] = back; p.join([]int{left}) == 0 {
		p.drop(left)
	}
	return false
}
