package hutch

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"surepipe/array"
)

// Estimate is the result of the queries to a matrix M.
type Estimate struct {
	// Estimator is the name of the estimator that was used.
	Estimator string
	// Trace is the estimate of tr M.
	Trace float64
	// StdErr is the standard error of Trace, 0 where Trace is not random. For few samples it is
	// multiplied by [Widened]: the interval of 2 StdErr to both sides contains tr M with the
	// probability, 95.4%, that it has for a normal distribution.
	StdErr float64
	// Truncation bounds the bias of Trace due to a truncated oracle: tr M exceeds the expectation
	// of Trace by at most this much.
	Truncation float64
	// Frobenius2 is an unbiased estimate of ||M||_F^2.
	Frobenius2 float64
	// Queries is the number of products with M that were needed: fewer than
	// planned if vectors of the sketch are linearly dependent.
	Queries int
	// Seed is the seed of the probes. It has no influence when Exact is true.
	Seed  uint64
	Exact bool
}

// Error is the error of Trace, randomness and truncation together,
//
//	sqrt(StdErr^2 + Truncation^2),
//
// at least its root mean square. The interval of 2 Error to both sides contains tr M with at
// least the probability that 2 StdErr has without truncation, whatever the bias b up to
// Truncation is: for a normal variable Z, P(|Z + b| > 2 sqrt(1 + b^2)) is largest at b = 0.
func (e Estimate) Error() float64 { return math.Hypot(e.StdErr, e.Truncation) }

// tally collects the two numbers <v, M v> and ||M v||^2 of every vector v that M was applied to,
// basis vectors and deflated probes, with the oracle's bound of the error of the first, and
// computes an [Estimate] from them. They may arrive in any order and grouping, even from several
// goroutines at once, without any effect on the bits of the result.
type tally struct {
	plan      Plan
	first     int // residual probes that the plan began with
	seed      uint64
	projected samples
	residual  samples
}

// samples holds the numbers of each vector of one phase. Different vectors use different memory, so
// no lock is needed.
type samples struct {
	phase string
	quad  []float64 // <v, M v>
	norm2 []float64 // ||M v||^2
	left  []float64 // bound of the error of quad
	known []bool
}

func newSamples(phase string, n int) samples {
	return samples{phase, make([]float64, n), make([]float64, n), make([]float64, n), make([]bool, n)}
}

// newTally starts the tally of a plan whose sketch has the given rank, as
// [Orthonormalize] returned it. Plans without a basis of the sketch ignore rank.
func newTally(plan Plan, rank int, seed uint64) *tally {
	switch {
	case plan.Basis == UnitBasis:
		rank = plan.Dim
	case plan.Basis == NoBasis:
		rank = 0
	case rank < 0 || rank > plan.Sketch:
		panic(fmt.Sprintf("hutch: a basis of %d vectors from a sketch of %d", rank, plan.Sketch))
	}
	return &tally{plan, plan.Residual, seed, newSamples("projected", rank), newSamples("residual", plan.Residual)}
}

func (t *tally) Projected() int { return len(t.projected.quad) }

func (t *tally) Residual() int { return len(t.residual.quad) }

// Grow makes the tally expect n further residual probes, whose numbers follow those of the existing
// ones, and adds them to the plan. No other call may be in progress.
func (t *tally) Grow(n int) {
	t.plan.Residual += n
	t.residual.quad = append(t.residual.quad, make([]float64, n)...)
	t.residual.norm2 = append(t.residual.norm2, make([]float64, n)...)
	t.residual.left = append(t.residual.left, make([]float64, n)...)
	t.residual.known = append(t.residual.known, make([]bool, n)...)
}

// AddProjected takes basis vectors first, first+1, ..., the vectors of q, and
// their images mq_i = M q_i, with the oracle's bounds, see [Oracle].
func (t *tally) AddProjected(first int, q, mq array.Batch, left []float64) {
	t.projected.add(first, q, mq, left, nil)
}

// AddResidual takes deflated probes first, first+1, ..., the vectors of x, and
// their images mx_i = M x_i. They are counted from 0: number j is made of
// Rademacher probe Sketch+j. The images are replaced by control, unless that is nil, which changes <x, M x>
// alone.
func (t *tally) AddResidual(first int, x, mx array.Batch, left []float64, control func(x, mx array.Batch)) {
	t.residual.add(first, x, mx, left, control)
}

func (s *samples) add(first int, v, mv array.Batch, left []float64, control func(v, mv array.Batch)) {
	numbers := make([]float64, 2*v.K())
	quad, norm2 := numbers[:v.K()], numbers[v.K():]
	v.Device().Dot(norm2, mv, mv)
	if control != nil {
		control(v, mv)
	}
	v.Device().Dot(quad, v, mv)
	s.take(first, quad, norm2, left)
}

func (s *samples) take(first int, quad, norm2, left []float64) {
	end := first + len(quad)
	if first < 0 || end > len(s.quad) {
		panic(fmt.Sprintf("hutch: %s vectors %d to %d of %d", s.phase, first, end-1, len(s.quad)))
	}
	for i := first; i < end; i++ {
		if s.known[i] {
			panic(fmt.Sprintf("hutch: %s vector %d was counted already", s.phase, i))
		}
		s.known[i] = true
	}
	copy(s.quad[first:end], quad)
	copy(s.norm2[first:end], norm2)
	copy(s.left[first:end], left)
}

func (s *samples) sums() (quad, norm2, left float64, err error) {
	for i, known := range s.known {
		if !known {
			return 0, 0, 0, fmt.Errorf("hutch: %s vector %d of %d is missing", s.phase, i, len(s.quad))
		}
		if sum := s.quad[i] + s.norm2[i] + s.left[i]; math.IsNaN(sum) || math.IsInf(sum, 0) {
			return 0, 0, 0, fmt.Errorf("hutch: %s vector %d: <v, M v> = %v, too small by at most %v, and ||M "+
				"v||^2 = %v, expected finite numbers", s.phase, i, s.quad[i], s.left[i], s.norm2[i])
		}
		quad += s.quad[i]
		norm2 += s.norm2[i]
		left += s.left[i]
	}
	return quad, norm2, left, nil
}

// Estimate sums up. It is an error if a vector is missing or one of the numbers is not finite.
//
// The standard error is s/sqrt(m), m the number of residual probes, widened by [Widened]. s is the
// standard deviation of the initial probes: the number of probes added later may depend on it, see
// [Run.Missing].
func (t *tally) Estimate() (Estimate, error) {
	quad, norm2, left, err := t.projected.sums()
	if err != nil {
		return Estimate{}, err
	}
	e := Estimate{
		Estimator:  t.plan.Estimator.Name(),
		Trace:      quad,
		Truncation: left,
		Frobenius2: norm2,
		Queries:    t.plan.Sketch + t.Projected() + t.plan.Residual,
		Seed:       t.seed,
		Exact:      t.plan.Exact(),
	}
	if t.plan.Residual == 0 {
		return e, nil
	}
	quad, norm2, left, err = t.residual.sums()
	if err != nil {
		return Estimate{}, err
	}
	m := float64(t.plan.Residual)
	spread := stat.StdDev(t.residual.quad[:t.first], nil)
	e.Trace += quad / m
	e.Truncation += left / m
	e.Frobenius2 += norm2 / m
	e.StdErr = stat.StdErr(spread, m) * Widened(t.first-1)
	return e, nil
}

func (t *tally) missing(target float64) (int, error) {
	e, err := t.Estimate()
	if err != nil || e.StdErr == 0 || e.Error() <= target {
		return 0, err
	}
	square := target*target - e.Truncation*e.Truncation
	m := float64(t.plan.Residual)
	more := math.Ceil(m*(e.StdErr*e.StdErr/max(square, target*target/4))) - m
	// Where there is no target the number is infinite.
	return int(max(0, min(more, 1<<40))), nil
}
