package loss

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/numerics/elementary"
)

// Times say when observations were at risk: in (start_i, time_i]. Start is nil where all were from the beginning on.
// Strata are labels of groups with hazards of their own, nil for one.
type Times struct{ Time, Start, Strata []float64 }

// Cox is minus the logarithm of the partial likelihood of a proportional hazards model (Cox 1972),
//
//	l(z; y) = sum over events i of w_i (log sum over j in R_i of w_j exp z_j  -  z_i)
//
// with the risk sets R_i = {j: start_j < time_i <= time_j} within strata, y_i = 1 for an event at time_i and 0 for an
// observation that is censored there, and weights w. Events at one time count by Breslow's formula, which is the sum as
// it stands, or by Efron's, in which of d events at a time the k-th one sees those at that time in R_i by a share of
// 1 - k/d, with the mean of their weights (Therneau and Grambsch 2000). Its slope is the expected number of events less
// the observed one, minus the martingale residual. A constant in z changes nothing: there is no intercept.
//
// With n observations an evaluation takes O(n) operations, with starts O(n log n), and so do products with the second
// derivative. It computes on the host, as [Pointwise] does.
type Cox struct {
	o     Observed
	efron bool
	// order lists the observations by strata, and in each from the last time to the first. Those at one time are the
	// group order[first[g]:first[g+1]], and those of a stratum the groups from strata[s] to strata[s+1].
	order, first, strata []int
	// Observation i is at risk at the times of the groups group[i], ..., until[i] - 1, or to the end of its stratum;
	// leaving lists those that leave before it by until. Both are nil without starts.
	group, until, leaving []int
	bad                   error // of the times
	known                 Structure
	pool                  sync.Pool // of *coxSums
	last                  alone
}

// NewCox returns the loss with Breslow's or Efron's formula. Its Check reports times that are missing or no times. It
// is an error if a weight is negative or an offset not finite.
func NewCox(o Observed, efron bool) (*Cox, error) {
	l := &Cox{o: o, efron: efron}
	if o.Weights != nil {
		if _, err := checkWeights(o.Weights); err != nil {
			return nil, err
		}
	}
	if err := checkOffset(o.Offset); err != nil {
		return nil, err
	}
	name := "cox"
	if efron {
		name = "cox-efron"
	}
	if l.bad = l.checkTimes(); l.bad == nil {
		l.arrange()
	}
	l.known = Structure{Name: name, Check: l.check, Least: l.least, Likelihood: true, Unit: 1, Coupled: l, Joint: l,
		Size: events, Together: l.together, Chained: l.until == nil}
	l.known.Pick = func(rows []int) (Structured, error) { return NewCox(l.o.pick(rows), l.efron) }
	return l, nil
}

func (l *Cox) checkTimes() error {
	n := len(l.o.Time)
	if n == 0 {
		return fmt.Errorf("time is missing, which the Cox loss needs: in a table it is the column --time")
	}
	for k, v := range [][]float64{l.o.Start, l.o.Strata, l.o.Weights, l.o.Offset} {
		if v != nil && len(v) != n {
			return fmt.Errorf("%s has %d values, expected %d, as many as there are times",
				[]string{"start", "strata", "weights", "offset"}[k], len(v), n)
		}
	}
	for i, t := range l.o.Time {
		switch {
		case math.IsNaN(t) || math.IsInf(t, 0):
			return fmt.Errorf("time[%d] is %g, expected a finite number", i, t)
		case l.o.Start != nil && !(l.o.Start[i] < t):
			return fmt.Errorf("start[%d] is %g, expected a number below time[%d], which is %g", i, l.o.Start[i], i, t)
		case l.o.Strata != nil && math.IsNaN(l.o.Strata[i]):
			return fmt.Errorf("strata[%d] is missing", i)
		}
	}
	return nil
}

// never takes the place of a group at which an observation that is at risk from the beginning on is no more.
const never = -1

func (l *Cox) arrange() {
	n := len(l.o.Time)
	stratum := func(i int) float64 {
		if l.o.Strata == nil {
			return 0
		}
		return l.o.Strata[i]
	}
	l.order, l.group = make([]int, n), make([]int, n)
	for i := range l.order {
		l.order[i] = i
	}
	slices.SortStableFunc(l.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(stratum(a), stratum(b)), cmp.Compare(l.o.Time[b], l.o.Time[a]))
	})
	for at, i := range l.order {
		fresh := at == 0 || stratum(i) != stratum(l.order[at-1])
		if fresh {
			l.strata = append(l.strata, len(l.first))
		}
		if fresh || l.o.Time[i] != l.o.Time[l.order[at-1]] {
			l.first = append(l.first, at)
		}
		l.group[i] = len(l.first) - 1
	}
	l.strata, l.first = append(l.strata, len(l.first)), append(l.first, n)
	if l.o.Start == nil {
		return
	}
	l.until = make([]int, n)
	for s, from := range l.strata[:len(l.strata)-1] {
		end := l.strata[s+1]
		for _, i := range l.order[l.first[from]:l.first[end]] {
			later, _ := slices.BinarySearchFunc(l.first[from:end], l.o.Start[i], func(at int, start float64) int {
				if l.o.Time[l.order[at]] > start {
					return -1
				}
				return 1
			})
			if l.until[i] = from + later; l.until[i] < end {
				l.leaving = append(l.leaving, i)
			} else {
				l.until[i] = never
			}
		}
	}
	slices.SortStableFunc(l.leaving, func(a, b int) int { return cmp.Compare(l.until[a], l.until[b]) })
}

// coxSums are those of the risk sets at a point: by observations, and by groups.
type coxSums struct {
	z, y, x, theta []float64 // theta_i = w_i exp(z_i - shift), shift the largest z of the stratum
	// The sums of all observations at ofZ and ofY are kept, with the shifted z: value, slope and products at a point
	// ask for them one after the other.
	kept              bool
	ofZ, ofY, shifted []float64
	shift             []float64
	// The sums of theta over the risk set and the events, the events' weights and their number, and in inner and tied
	// sum_k share_k/S_k and sum_k share_k (1 - a_k)/S_k over the terms of a group; and the same with x, in
	// which inner and tied are those of share_k m_k/S_k with the means m_k of x.
	risk, event, weight, inner, tied []float64
	riskX, eventX, innerX, tiedX     []float64
	count                            []float64
	sum, sumX                        tournament
	terms                            []float64 // of the value
}

func (l *Cox) take() *coxSums {
	if s, ok := l.pool.Get().(*coxSums); ok {
		return s
	}
	n, g := len(l.order), len(l.first)
	s := &coxSums{}
	for _, to := range []*[]float64{&s.z, &s.y, &s.x, &s.theta, &s.ofZ, &s.ofY, &s.shifted} {
		*to = make([]float64, n)
	}
	for _, to := range []*[]float64{&s.shift, &s.risk, &s.event, &s.weight, &s.inner, &s.tied, &s.riskX, &s.eventX,
		&s.innerX, &s.tiedX, &s.count} {
		*to = make([]float64, g)
	}
	if l.until != nil {
		m := 2
		for m < n {
			m *= 2
		}
		s.sum, s.sumX = make(tournament, 2*m), make(tournament, 2*m)
	}
	return s
}

func (l *Cox) from(z, y array.Batch) *coxSums {
	check("the Cox loss", z, y)
	if z.N() != len(l.order) {
		panic(fmt.Sprintf("loss: %d times for z of %s", len(l.order), z))
	}
	s := l.take()
	z.Device().Download(s.z, z)
	y.Device().Download(s.y, y)
	return s
}

func (l *Cox) weightOf(i, out int) float64 {
	switch {
	case i == out:
		return 0
	case l.o.Weights == nil:
		return 1
	}
	return l.o.Weights[i]
}

func (l *Cox) sums(s *coxSums, out int) {
	if out < 0 && s.kept && slices.Equal(s.z, s.ofZ) && slices.Equal(s.y, s.ofY) {
		copy(s.z, s.shifted)
		return
	}
	copy(s.ofZ, s.z)
	copy(s.ofY, s.y)
	for k, from := range l.strata[:len(l.strata)-1] {
		end := l.strata[k+1]
		members := l.order[l.first[from]:l.first[end]]
		shift := math.Inf(-1)
		for _, i := range members {
			if l.o.Offset != nil {
				s.z[i] += l.o.Offset[i]
			}
			shift = max(shift, s.z[i])
		}
		for _, i := range members {
			s.z[i] -= shift
		}
		for g := from; g < end; g++ {
			s.shift[g] = shift
		}
	}
	copy(s.shifted, s.z)
	elementary.Exp(s.theta, s.z)
	for i := range s.theta {
		if w := l.weightOf(i, out); w > 0 {
			s.theta[i] *= w
		} else {
			s.theta[i] = 0
		}
	}
	l.risks(s, out)
}

func (l *Cox) risks(s *coxSums, out int) {
	s.kept = out < 0
	l.overRisk(s.risk, s.theta, s.sum)
	for g := range s.risk[:len(l.first)-1] {
		s.event[g], s.weight[g], s.count[g], s.inner[g], s.tied[g] = 0, 0, 0, 0, 0
		for _, i := range l.order[l.first[g]:l.first[g+1]] {
			if w := l.weightOf(i, out); s.y[i] > 0 && w > 0 {
				s.event[g] += s.theta[i]
				s.weight[g] += w
				s.count[g]++
			}
		}
		if !l.efron {
			if s.count[g] > 0 {
				s.inner[g] = s.weight[g] / s.risk[g]
			}
			continue
		}
		l.terms(s, g, func(share, less, sum float64) {
			s.inner[g] += share / sum
			s.tied[g] += share * less / sum
		})
	}
	l.cumulate(s.inner)
}

// terms calls f for each term of the events of a group: its weight, the share 1 - a by which the events of the group
// are missing in the sum, and that sum.
func (l *Cox) terms(s *coxSums, g int, f func(share, less, sum float64)) {
	switch n := s.count[g]; {
	case n == 0:
	case !l.efron:
		f(s.weight[g], 0, s.risk[g])
	default:
		for k := range int(n) {
			less := float64(k) / n
			f(s.weight[g]/n, less, s.risk[g]-less*s.event[g])
		}
	}
}

func (l *Cox) overRisk(dst, v []float64, t tournament) {
	leaving := l.leaving
	for s, from := range l.strata[:len(l.strata)-1] {
		end, sum := l.strata[s+1], 0.0
		for g := from; g < end; g++ {
			for at := l.first[g]; at < l.first[g+1]; at++ {
				if i := l.order[at]; t == nil {
					sum += v[i]
				} else {
					t.set(i, v[i])
				}
			}
			if t != nil {
				for ; len(leaving) > 0 && l.until[leaving[0]] == g; leaving = leaving[1:] {
					t.set(leaving[0], 0)
				}
				sum = t[1]
			}
			dst[g] = sum
		}
		for at := l.first[from]; t != nil && at < l.first[end]; at++ {
			t.set(l.order[at], 0)
		}
	}
}

// cumulate replaces the values of groups by their sums over the groups of a stratum from each on.
func (l *Cox) cumulate(v []float64) {
	for s := range l.strata[:len(l.strata)-1] {
		for g := l.strata[s+1] - 2; g >= l.strata[s]; g-- {
			v[g] += v[g+1]
		}
	}
}

// during is the sum over the groups at whose times observation i is at risk, of values that have been cumulated.
func (l *Cox) during(v []float64, i int) float64 {
	sum := v[l.group[i]]
	if l.until != nil && l.until[i] != never {
		sum -= v[l.until[i]]
	}
	return sum
}

func (l *Cox) expected(s *coxSums, i int) float64 {
	if s.theta[i] == 0 {
		return 0
	}
	a := l.during(s.inner, i)
	if s.y[i] > 0 {
		a -= s.tied[l.group[i]]
	}
	return a * s.theta[i]
}

// value adds terms of both signs whose sum is far less than theirs: a line search compares values that differ by less
// than the rounding errors of plain sums.
func (l *Cox) value(s *coxSums, out int) float64 {
	s.terms = s.terms[:0]
	for g := range l.first[:len(l.first)-1] {
		l.terms(s, g, func(share, _, at float64) { s.terms = append(s.terms, share*math.Log(max(at, 0))) })
	}
	for i, y := range s.y {
		if w := l.weightOf(i, out); y > 0 && w > 0 {
			s.terms = append(s.terms, -w*s.z[i])
		}
	}
	if slices.Contains(s.terms, math.Inf(-1)) { // the logarithm of 0
		return math.Inf(1)
	}
	return floats.SumCompensated(s.terms)
}

// Value returns l(z; y), +Inf where the values of z differ by more than exp can tell.
func (l *Cox) Value(z, y array.Batch) float64 {
	s := l.from(z, y)
	defer l.pool.Put(s)
	l.sums(s, -1)
	return l.value(s, -1)
}

// Gradient sets dst to the expected numbers of events, less the observed ones.
func (l *Cox) Gradient(dst, z, y array.Batch) {
	l.set(dst, z, y, func(s *coxSums, i int) float64 { return l.expected(s, i) - l.weightOf(i, -1)*s.y[i] })
}

// Curvature sets dst to the expected numbers of events, the diagonal of a matrix above the second derivative.
func (l *Cox) Curvature(dst, z, y array.Batch) {
	l.set(dst, z, y, func(s *coxSums, i int) float64 { return l.expected(s, i) })
}

// together sets slope and curve, and returns the value.
func (l *Cox) together(slope, curve, z, y array.Batch) float64 {
	s := l.from(z, y)
	defer l.pool.Put(s)
	check("the Cox loss", slope, curve, z)
	l.sums(s, -1)
	value := l.value(s, -1)
	for i := range s.x {
		s.x[i] = l.expected(s, i)
	}
	curve.Device().Upload(curve, s.x)
	for i, y := range s.y {
		s.x[i] -= l.weightOf(i, -1) * y
	}
	slope.Device().Upload(slope, s.x)
	return value
}

func (l *Cox) set(dst, z, y array.Batch, of func(s *coxSums, i int) float64) {
	s := l.from(z, y)
	defer l.pool.Put(s)
	check("the Cox loss", dst, z)
	l.sums(s, -1)
	for i := range s.x {
		s.x[i] = of(s, i)
	}
	dst.Device().Upload(dst, s.x)
}

// Product sets dst to l^(2)(z; y) v: the sum over the events' terms k of share_k p_k (v - <p_k, v>), with p_k the
// distribution of the event over those at risk.
func (l *Cox) Product(dst, v, z, y array.Batch) {
	s := l.from(z, y)
	defer l.pool.Put(s)
	check("the Cox loss", dst, v, z)
	l.sums(s, -1)
	v.Device().Download(s.x, v)
	l.product(s)
	dst.Device().Upload(dst, s.x)
}

func (l *Cox) product(s *coxSums) {
	for i, v := range s.x {
		s.z[i] = s.theta[i] * v
	}
	l.overRisk(s.riskX, s.z, s.sumX)
	for g := range l.first[:len(l.first)-1] {
		s.eventX[g], s.innerX[g], s.tiedX[g] = 0, 0, 0
		switch {
		case s.count[g] == 0:
			continue
		case !l.efron:
			s.innerX[g] = s.weight[g] * (s.riskX[g] / s.risk[g]) / s.risk[g]
			continue
		}
		for _, i := range l.order[l.first[g]:l.first[g+1]] {
			if s.y[i] > 0 {
				s.eventX[g] += s.z[i]
			}
		}
		l.terms(s, g, func(share, less, sum float64) {
			mean := (s.riskX[g] - less*s.eventX[g]) / sum
			s.innerX[g] += share * mean / sum
			s.tiedX[g] += share * less * mean / sum
		})
	}
	l.cumulate(s.innerX)
	for i, v := range s.x {
		m := l.during(s.innerX, i)
		if s.y[i] > 0 {
			m -= s.tiedX[l.group[i]]
		}
		if s.x[i] = 0; s.theta[i] > 0 {
			s.x[i] = l.expected(s, i)*v - s.theta[i]*m
		}
	}
}

func (l *Cox) Weights() (array.Batch, bool) { return array.Batch{}, false }

// Lipschitz is not bounded by a number that serves: steps are found by backtracking.
func (l *Cox) Lipschitz() float64 { return math.Inf(1) }

// Structure has what is known: no conjugate, and no loss of a single observation.
func (l *Cox) Structure() Structure { return l.known }

func (l *Cox) check(y []float64) error {
	switch {
	case l.bad != nil:
		return l.bad
	case len(y) != len(l.order):
		return fmt.Errorf("time has %d values, expected %d, as many as there are in y", len(l.order), len(y))
	}
	for i, v := range y {
		if v != 0 && v != 1 {
			return fmt.Errorf("y[%d] is %g: the Cox loss expects 1 for an event and 0 for an observation that is "+
				"censored; of a table with other labels --success names that of an event", i, v)
		}
	}
	if !slices.Contains(y, 1) {
		return fmt.Errorf("y is 0 everywhere: the Cox loss expects an event, 1, somewhere")
	}
	return nil
}

// least is the infimum of l over z, which z reaches where it falls so fast with the time that those with an event at a
// time have all of the weight in their risk set.
func (l *Cox) least(y array.Batch) float64 {
	s := l.take()
	defer l.pool.Put(s)
	y.Device().Download(s.y, y)
	least, _ := l.last.of(s.y, func() (sum, constant float64) {
		clear(s.z)
		l.sums(s, -1)
		for g := range l.first[:len(l.first)-1] {
			l.terms(s, g, func(share, less, _ float64) { sum += share * math.Log((1-less)*s.weight[g]) })
		}
		return sum, 0
	})
	return least
}
