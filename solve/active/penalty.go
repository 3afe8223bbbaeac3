package active

import (
	"math"
	"slices"

	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/internal/faces"
)

// splitting is a regularizer as active sets see it: a sum over coordinates,
//
//	r(b) = sum_j w_j |b_j| + q_j/2 b_j^2,   b_j >= 0 for some j,
//
// or over groups of them, r(b) = sum_g w_g ||b_g||_2, where every coordinate of a group has its
// weight.
type splitting struct {
	w, q     prox.Numbers // w is +Inf where b_j is held at 0
	positive []bool       // nil for none
	owner    []int        // each coordinate's group; nil for a sum over coordinates
	groups   [][]int      // and their coordinates
}

func splittingOf(r prox.Structure, n int) splitting {
	var s splitting
	if r.Groups != nil {
		owner, weights := r.Groups()
		s.w.List, s.owner, s.groups = lists.Pick(weights, owner), owner, make([][]int, len(weights))
		for j, g := range owner {
			s.groups[g] = append(s.groups[g], j)
		}
		return s
	}
	s.w, s.q, s.positive = r.Sparse(n)
	if q := s.q; q.Any(held) {
		s.w.List = lists.Make(n, func(j int) float64 {
			if held(q.At(j)) {
				return q.At(j)
			}
			return s.w.At(j)
		})
		s.q = q.Map(func(v float64) float64 {
			if held(v) {
				return 0
			}
			return v
		})
	}
	return s
}

// outcomes is k of [linops.KroneckerOf] where all outcomes of a column are in one group, else 1.
func (s *splitting) outcomes(a linops.Operator) int {
	_, k := linops.KroneckerOf(a)
	if s.owner == nil {
		return 1
	}
	for j, g := range s.owner {
		if g != s.owner[j-j%k] {
			return 1
		}
	}
	return k
}

// held reports the weight of a coordinate that is held at 0.
func held(w float64) bool { return math.IsInf(w, 1) }

func (s *splitting) halfLine(j int) bool { return s.positive != nil && s.positive[j] }

func (s *splitting) of(set []int) faces.Penalty {
	p := faces.Penalty{W: lists.Map(set, s.w.At), Q: lists.Map(set, s.q.At), Positive: lists.Map(set, s.halfLine)}
	if s.owner != nil {
		p.Group = lists.Pick(s.owner, set)
	}
	return p
}

// pull is by how much the gradient g_j of the loss pulls at b_j = 0, where that is positive.
func (s *splitting) pull(j int, g float64) float64 {
	if g = -g; !s.halfLine(j) {
		g = math.Abs(g)
	}
	return max(g, 0)
}

// closure adds the other coordinates of their groups to an increasing set.
func (s *splitting) closure(set []int) []int {
	if s.owner == nil {
		return set
	}
	meets := make([]bool, len(s.groups))
	for _, j := range set {
		meets[s.owner[j]] = true
	}
	var all []int
	for j, g := range s.owner {
		if meets[g] {
			all = append(all, j)
		}
	}
	return all
}

// whole leaves coordinates out whose groups are not all in an increasing set, unless none remain.
func (s *splitting) whole(set []int) []int {
	if s.owner == nil {
		return set
	}
	count := make([]int, len(s.groups))
	for _, j := range set {
		count[s.owner[j]]++
	}
	whole := slices.DeleteFunc(slices.Clone(set), func(j int) bool {
		return count[s.owner[j]] < len(s.groups[s.owner[j]])
	})
	if len(whole) == 0 {
		return s.closure(set)
	}
	return whole
}

// subgradient is the distance of 0 from the objective's subdifferential by b_j, with a sign where b_j
// is not 0; g is the derivative of the loss. It is for a sum over coordinates.
func (s *splitting) subgradient(j int, b, g float64) float64 {
	switch w := s.w.At(j); {
	case b != 0:
		return g + s.q.At(j)*b + math.Copysign(w, b)
	case s.halfLine(j):
		return max(-g-w, 0)
	default:
		return max(math.Abs(g)-w, 0)
	}
}

// subgradients sets e to an element of the objective's subdifferential of least length, up to signs,
// at b, where the loss has the gradient g.
func (s *splitting) subgradients(e, b, g []float64) {
	if s.owner == nil {
		for j, v := range g {
			e[j] = s.subgradient(j, b[j], v)
		}
		return
	}
	for _, list := range s.groups {
		size, pull := normAt(b, list), normAt(g, list)
		for _, j := range list {
			switch w := s.w.At(j); {
			case size > 0:
				e[j] = g[j] + w*(b[j]/size)
			case pull > w:
				e[j] = g[j] * (1 - w/pull)
			default:
				e[j] = 0
			}
		}
	}
}

// spread replaces the entries of a group, which are not negative, by their norm.
func (s *splitting) spread(x []float64) {
	for _, list := range s.groups {
		size := normAt(x, list)
		for _, j := range list {
			x[j] = size
		}
	}
}

// stays reports that the coordinates that are 0 in b stay 0 where the gradient g changes by at most
// off times the length of a coordinate's column.
func (s *splitting) stays(b, g, lengths []float64, off float64) bool {
	if s.owner == nil {
		for j, g := range g {
			if b[j] != 0 || held(s.w.At(j)) {
				continue
			}
			if !s.halfLine(j) {
				g = -math.Abs(g)
			}
			if !(off*lengths[j]-g <= s.w.At(j)) && lengths[j] > 0 {
				return false
			}
		}
		return true
	}
	for _, list := range s.groups {
		size, pull, length := normAt(b, list), normAt(g, list), normAt(lengths, list)
		if size == 0 && length > 0 && !(pull+off*length <= s.w.At(list[0])) {
			return false
		}
	}
	return true
}

// leastSquared is a number whose square is far above the least one.
const leastSquared = 1e-140

// normAt is the Euclidean norm of the entries at some places.
func normAt(x []float64, places []int) float64 {
	sum := 0.0
	for _, j := range places {
		sum += x[j] * x[j]
	}
	if root := math.Sqrt(sum); root > leastSquared && root < 1/leastSquared {
		return root
	}
	size := 0.0
	for _, j := range places {
		size = math.Hypot(size, x[j])
	}
	return size
}
