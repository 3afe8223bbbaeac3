package faces

import (
	"math"
	"slices"

	"surepipe/internal/lists"
)

// Groups is a problem on a working set of coordinates whose penalty is that of the group LASSO,
//
//	F(b) = 1/2 b*G b - c*b + sum_g w_g ||b_g||_2.
//
// Given the groups that are not 0 the penalty is smooth, with the curvature
//
//	Q_g = w_g/||b_g|| (I - u_g u_g*),   u_g = b_g/||b_g||,
//
// and Newton's method on them converges quadratically. Steps of one group at a time, each to the
// minimum of an upper bound of F that is a multiple of the identity in b_g (Qin, Scheinberg and
// Goldfarb 2013; Yang and Zou 2015), decide which groups are 0. F falls in all steps but those of
// Newton's method that are short against the norms of the groups, where it converges.
type Groups struct {
	Point

	group   []int   // of each coordinate, its place in members
	members [][]int // coordinates
	w       []float64
	bound   []float64 // of the largest eigenvalue of G_gg; 0 where the columns are 0
	key     map[int]int

	// inverse is that of G + Q at b = at, for some columns. other says that it is that of other weights.
	inverse inverse
	dense   dense
	columns []int
	at      []float64
	other   bool
	loose   []bool // groups that the last step moved far
}

// Extend adds coordinates at b = 0 with a penalty and a gradient. The caller then fills in their rows
// and columns of G by Set, and calls Ready. A group is to be complete when anything else is called.
func (p *Groups) Extend(more Penalty, grad []float64) {
	if p.key == nil {
		p.key = make(map[int]int)
	}
	first := len(p.B)
	p.grow(grad)
	for i, g := range more.Group {
		at, ok := p.key[g]
		if !ok {
			at = len(p.members)
			p.key[g] = at
			p.members, p.w, p.loose = append(p.members, nil), append(p.w, more.W[i]), append(p.loose, false)
		}
		p.group = append(p.group, at)
		p.members[at] = append(p.members[at], first+i)
	}
}

func (p *Groups) Ready() {
	p.rescale(nil)
	p.bound = p.bound[:0]
	for g := range p.members {
		most := 0.0
		k := p.outcomes()
		for _, i := range p.members[g] {
			sum := 0.0
			for _, j := range p.members[g] {
				if i%k == 0 && j%k == 0 {
					sum += math.Abs(p.row(i / k)[j/k])
				}
			}
			most = max(most, sum)
		}
		p.bound = append(p.bound, most)
	}
}

// Start sets B, and S to the groups that are not 0. Grad is the gradient at b = 0.
func (p *Groups) Start(b []float64) {
	for j, v := range b {
		if v != 0 {
			p.B[j] = v
			p.Point.shift(j, v)
		}
	}
	p.list()
}

// Reweight changes the weights. The point and S remain, but for groups whose weight is now infinite;
// it reports whether there were any.
func (p *Groups) Reweight(to Penalty) (moved bool) {
	p.Steps = 0
	for g, list := range p.members {
		p.w[g] = to.W[list[0]]
		if math.IsInf(p.w[g], 1) && norm(p.part(p.B, g)) > 0 {
			p.moveTo(g, make([]float64, len(list)))
			moved = true
		}
	}
	p.other = true
	p.list()
	return moved
}

func (p *Groups) part(x []float64, g int) []float64 {
	return lists.Pick(x, p.members[g])
}

func (p *Groups) list() {
	p.active = p.active[:0]
	on := make([]bool, len(p.members))
	for j, v := range p.B {
		on[p.group[j]] = on[p.group[j]] || v != 0
	}
	for j := range p.B {
		if p.in[j] = on[p.group[j]]; p.in[j] {
			p.active = append(p.active, j)
		}
	}
}

func (p *Groups) moveTo(g int, x []float64) {
	for i, j := range p.members[g] {
		if v := x[i] - p.B[j]; v != 0 {
			p.Point.shift(j, v)
		}
		p.B[j] = x[i]
	}
}

// descend goes to the minimum of the upper bound of F in one group. It returns the length of the step
// relative to the group's norm: 0 where it stays 0, +Inf where it becomes 0.
func (p *Groups) descend(g int) float64 {
	if p.bound[g] == 0 || math.IsInf(p.w[g], 1) {
		return 0
	}
	x := p.ahead(g)
	shrink(x, p.w[g]/p.bound[g])
	step := 0.0
	for i, j := range p.members[g] {
		step = math.Hypot(step, x[i]-p.B[j])
	}
	if p.moveTo(g, x); step == 0 {
		return 0
	}
	return step / norm(x)
}

// ahead is the minimum of the upper bound in one group without the penalty.
func (p *Groups) ahead(g int) []float64 {
	x := p.part(p.B, g)
	for i, j := range p.members[g] {
		x[i] -= p.Grad[j] / p.bound[g]
	}
	return x
}

func shrink(x []float64, t float64) {
	s := 0.0
	if size := norm(x); size > t {
		s = 1 - t/size
	}
	for i := range x {
		x[i] *= s
	}
}

// pull is by how much a group at 0 violates its optimality condition, in units of its columns'
// lengths.
func (p *Groups) pull(g int) float64 {
	most, sum := 0.0, 0.0
	for _, j := range p.members[g] {
		most = max(most, p.scale[j])
		sum = math.Hypot(sum, p.Grad[j])
	}
	return (sum - p.w[g]) * most
}

const (
	// settling passes over the loose groups, at most, bring them to within settled of where the others
	// have them.
	settling = 8
	settled  = 0.1
)

// sweep takes steps of single groups: of those at 0 that violate their conditions, of those that will
// be 0 after the step, and of all if asked to; and more of these and of the loose ones, whose
// curvature Newton steps would have from a point that is far. It reports whether S has changed.
func (p *Groups) sweep(all bool) (changed bool) {
	var list []int
	for g := range p.members {
		x := p.ahead(g)
		switch {
		case all || p.loose[g]:
		case norm(p.part(p.B, g)) == 0 && !(p.pull(g) > p.Floor):
			continue
		case norm(p.part(p.B, g)) > 0 && !(norm(x) <= p.w[g]/p.bound[g]):
			continue
		}
		p.loose[g] = false
		p.descend(g)
		list = append(list, g)
	}
	for range settling {
		most := 0.0
		for _, g := range list {
			if v := p.descend(g); !math.IsInf(v, 1) {
				most = max(most, v)
			}
		}
		if most <= settled {
			break
		}
	}
	for _, g := range list {
		changed = changed || p.in[p.members[g][0]] != (norm(p.part(p.B, g)) > 0)
	}
	if changed {
		p.list()
	}
	return changed
}

func (p *Groups) slopes() []float64 {
	e := make([]float64, len(p.active))
	size := make([]float64, len(p.members))
	for _, j := range p.active {
		size[p.group[j]] = math.Hypot(size[p.group[j]], p.B[j])
	}
	for i, j := range p.active {
		e[i] = p.Grad[j] + p.w[p.group[j]]*(p.B[j]/size[p.group[j]])
	}
	return e
}

// Stationarity is the largest derivative of F along S, in units of the columns' lengths.
func (p *Groups) Stationarity() float64 {
	most := 0.0
	for i, e := range p.slopes() {
		most = max(most, math.Abs(e*p.scale[p.active[i]]))
	}
	return most
}

func (p *Groups) violation() float64 {
	most := p.Stationarity()
	for g, list := range p.members {
		if !p.in[list[0]] && !math.IsInf(p.w[g], 1) {
			most = max(most, p.pull(g))
		}
	}
	return most
}

// ratio is the largest ||x_g||/||b_g|| of the groups in S that have a weight, for x on S. Groups of one
// coordinate, which have no curvature, only count where b - x may have another sign.
func (p *Groups) ratio(x []float64) float64 {
	most := 0.0
	p.ratios(x, func(_ int, v float64) { most = max(most, v) })
	return most
}

func (p *Groups) ratios(x []float64, do func(g int, v float64)) {
	size, step := make([]float64, len(p.members)), make([]float64, len(p.members))
	for i, j := range p.active {
		g := p.group[j]
		size[g], step[g] = math.Hypot(size[g], p.B[j]), math.Hypot(step[g], x[i])
	}
	for g, s := range step {
		if p.w[g] > 0 && (s >= size[g] || len(p.members[g]) > 1) && s > 0 {
			do(g, s/size[g])
		}
	}
}

// stale is the largest relative change of a group since the factor was made; +Inf where it is that of
// other coordinates.
func (p *Groups) stale() float64 {
	if len(p.at) == 0 || !slices.Equal(p.columns, p.active) {
		return math.Inf(1)
	}
	x := make([]float64, len(p.active))
	for i, j := range p.active {
		x[i] = p.B[j] - p.at[i]
	}
	return p.ratio(x)
}
