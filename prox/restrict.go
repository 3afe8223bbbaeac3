package prox

// Restrictor is a Prox that can confine itself to a few coordinates, which is where
// the solutions of a sparse problem live: r(b) = r_S(b_S) + r_rest(b_rest). Near
// b = 0 r is positively homogeneous up to second order, so that as t goes to 0
//
//	prox_{t r}(-t g)/t -> -(the least element of g + ∂r(0)),
//
// which tells how far a coordinate held at 0 is from wanting to leave it.
type Restrictor interface {
	Prox
	// Closure returns the smallest set that holds s and over which r splits, in
	// increasing order; nil when the regularizer turns out to have a part that
	// cannot confine itself. s is in increasing order.
	Closure(s []int) []int
	// Restrict returns r_S for a set S that Closure returned. If the result is a
	// [Releaser] it is the caller's to release.
	Restrict(s []int) (Prox, error)
}

// Closure returns s: the penalty is separable.
func (p l1) Closure(s []int) []int { return s }

// Restrict returns p, which serves vectors of any length.
func (p l1) Restrict([]int) (Prox, error) { return p, nil }

// Closure returns s: the penalty is separable.
func (p elasticNet) Closure(s []int) []int { return s }

// Restrict returns p, which serves vectors of any length.
func (p elasticNet) Restrict([]int) (Prox, error) { return p, nil }

// Closure returns s: the constraint is separable.
func (p nonNegative) Closure(s []int) []int { return s }

// Restrict returns p, which serves vectors of any length.
func (p nonNegative) Restrict([]int) (Prox, error) { return p, nil }

// Closure returns s: the penalty is separable.
func (p *weightedL1) Closure(s []int) []int { return s }

// Restrict gathers the weights of s.
func (p *weightedL1) Restrict(s []int) (Prox, error) {
	w := make([]float64, len(s))
	for i, j := range s {
		w[i] = p.wHost[j]
	}
	return NewWeightedL1(p.w.Device(), 1, w)
}

// Closure adds to s the groups that it meets.
func (p *groups) Closure(s []int) []int {
	meets := make([]bool, p.n)
	for _, j := range s {
		meets[p.owner[j]] = true
	}
	var all []int
	for j, g := range p.owner {
		if meets[g] {
			all = append(all, j)
		}
	}
	return all
}

// within lists the groups of s, as places in s, and their weights.
func (p *groups) within(s []int) (members [][]int, w []float64) {
	place := make(map[int]int)
	for i, j := range s {
		g := p.owner[j]
		at, ok := place[g]
		if !ok {
			at = len(members)
			place[g] = at
			members = append(members, nil)
			w = append(w, p.wHost[g])
		}
		members[at] = append(members[at], i)
	}
	return members, w
}

// Restrict returns the penalty of the groups in s.
func (p *groupL2) Restrict(s []int) (Prox, error) {
	members, w := p.within(s)
	return NewGroupL2(p.w.Device(), len(s), 1, members, w)
}

// Restrict returns the penalty of the groups in s.
func (p *groupLinf) Restrict(s []int) (Prox, error) {
	members, w := p.within(s)
	return NewGroupLinf(p.w.Device(), len(s), 1, members, w)
}

// AsRestrictor returns p, or what p scales, as a Restrictor, if it is one.
func AsRestrictor(p Prox) (Restrictor, bool) {
	switch p := p.(type) {
	case Restrictor:
		return p, true
	case valued:
		return AsRestrictor(p.Prox)
	case owned:
		return AsRestrictor(p.Prox)
	case scaled:
		if r, ok := AsRestrictor(p.p); ok {
			return scaledRestrictor{p, r}, true
		}
	}
	return nil, false
}

// scaledRestrictor is c r, confined by confining r.
type scaledRestrictor struct {
	scaled
	r Restrictor
}

func (p scaledRestrictor) Closure(s []int) []int { return p.r.Closure(s) }

func (p scaledRestrictor) Restrict(s []int) (Prox, error) {
	q, err := p.r.Restrict(s)
	if err != nil {
		return nil, err
	}
	return own(NewScaled(p.c, q), q), nil
}

// owned is a Prox that owns those that it was made from.
type owned struct {
	Prox
	from []Releaser
}

func (p owned) Release() {
	for _, q := range p.from {
		q.Release()
	}
}

// own returns p, which from now on owns those of from that hold memory.
func own(p Prox, from ...Prox) Prox {
	o := owned{Prox: p}
	for _, q := range from {
		if r, ok := q.(Releaser); ok {
			o.from = append(o.from, r)
		}
	}
	if len(o.from) == 0 {
		return p
	}
	return o
}
