package hutch

import (
	"fmt"
	"math"

	"surepipe/array"
)

// Estimate is what is known of a matrix M after its queries.
type Estimate struct {
	// Estimator is the name of the estimator that was used.
	Estimator string
	// Trace is the estimate of tr M.
	Trace float64
	// StdErr is the standard error of Trace, 0 where Trace is exact.
	StdErr float64
	// Frobenius2 is an unbiased estimate of ||M||_F^2.
	Frobenius2 float64
	// Queries is the number of products with M that were needed: fewer than
	// planned when the sketch has vectors that depend on each other.
	Queries int
	// Seed is that of the probes. It has no influence when Exact is true.
	Seed uint64
	// Exact says that there is no randomness in the numbers.
	Exact bool
}

// Tally collects the two numbers <v, M v> and ||M v||^2 of every vector v that M
// was applied to, basis vectors and deflated probes, and makes an [Estimate]
// of them. They may arrive in any order and grouping, also from several
// goroutines at once, without any effect on the result's bits.
type Tally struct {
	plan      Plan
	seed      uint64
	projected samples
	residual  samples
}

// samples holds what is known of each vector of one phase. Different vectors
// are different memory: no lock is needed.
type samples struct {
	phase string
	quad  []float64 // <v, M v>
	norm2 []float64 // ||M v||^2
	known []bool
}

func newSamples(phase string, n int) samples {
	return samples{phase, make([]float64, n), make([]float64, n), make([]bool, n)}
}

// NewTally starts the tally of a plan whose sketch has the given rank, as
// [Orthonormalize] returned it. Plans without a basis ignore rank.
func NewTally(plan Plan, rank int, seed uint64) *Tally {
	switch {
	case plan.Exact:
		rank = plan.Dim
	case !plan.NeedsBasis():
		rank = 0
	case rank < 0 || rank > plan.Sketch:
		panic(fmt.Sprintf("hutch: a basis of %d vectors from a sketch of %d", rank, plan.Sketch))
	}
	return &Tally{plan, seed, newSamples("projected", rank), newSamples("residual", plan.Residual)}
}

// Projected is the number of basis vectors the tally waits for: the sketch's
// rank, or d for the exact trace.
func (t *Tally) Projected() int { return len(t.projected.quad) }

// Residual is the number of deflated probes the tally waits for.
func (t *Tally) Residual() int { return len(t.residual.quad) }

// Grow makes the tally wait for n further residual probes, numbered on from
// those it had, and counts them into the plan. No other call may be under way.
func (t *Tally) Grow(n int) {
	t.plan.Residual += n
	t.residual.quad = append(t.residual.quad, make([]float64, n)...)
	t.residual.norm2 = append(t.residual.norm2, make([]float64, n)...)
	t.residual.known = append(t.residual.known, make([]bool, n)...)
}

// AddProjected takes basis vectors first, first+1, ..., the vectors of q, and
// their images mq_i = M q_i.
func (t *Tally) AddProjected(first int, q, mq array.Batch) { t.projected.add(first, q, mq) }

// AddResidual takes deflated probes first, first+1, ..., the vectors of x, and
// their images mx_i = M x_i. They are counted from 0: number j is made of
// Rademacher probe Sketch+j.
func (t *Tally) AddResidual(first int, x, mx array.Batch) { t.residual.add(first, x, mx) }

func (s *samples) add(first int, v, mv array.Batch) {
	end := first + v.K()
	if first < 0 || end > len(s.quad) {
		panic(fmt.Sprintf("hutch: %s vectors %d to %d of %d", s.phase, first, end-1, len(s.quad)))
	}
	for i := first; i < end; i++ {
		if s.known[i] {
			panic(fmt.Sprintf("hutch: %s vector %d was counted already", s.phase, i))
		}
		s.known[i] = true
	}
	v.Device().Dot(s.quad[first:end], v, mv)
	v.Device().Dot(s.norm2[first:end], mv, mv)
}

// sums adds up in the order of the vectors.
func (s *samples) sums() (quad, norm2 float64, err error) {
	for i, known := range s.known {
		if !known {
			return 0, 0, fmt.Errorf("hutch: %s vector %d of %d is missing", s.phase, i, len(s.quad))
		}
		if sum := s.quad[i] + s.norm2[i]; math.IsNaN(sum) || math.IsInf(sum, 0) {
			return 0, 0, fmt.Errorf("hutch: %s vector %d: <v, M v> = %v and ||M v||^2 = %v, expected finite numbers", s.phase, i, s.quad[i], s.norm2[i])
		}
		quad += s.quad[i]
		norm2 += s.norm2[i]
	}
	return quad, norm2, nil
}

// Estimate sums up, for plans whose estimate [Combine] does not make. It is an
// error if a vector is missing or one of the numbers is not finite.
func (t *Tally) Estimate() (Estimate, error) {
	quad, norm2, err := t.projected.sums()
	if err != nil {
		return Estimate{}, err
	}
	e := Estimate{
		Estimator:  t.plan.Estimator,
		Trace:      quad,
		Frobenius2: norm2,
		Queries:    t.plan.Sketch + t.Projected() + t.plan.Residual,
		Seed:       t.seed,
		Exact:      t.plan.Exact,
	}
	if t.plan.Residual == 0 {
		return e, nil
	}
	quad, norm2, err = t.residual.sums()
	if err != nil {
		return Estimate{}, err
	}
	m := float64(t.plan.Residual)
	mean, squares := quad/m, 0.0
	for _, x := range t.residual.quad {
		squares += (x - mean) * (x - mean)
	}
	e.Trace += mean
	e.Frobenius2 += norm2 / m
	e.StdErr = math.Sqrt(squares / (m - 1) / m)
	return e, nil
}
