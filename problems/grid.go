package problems

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"surepipe/problems/spec"
)

// Grid is an increasing logarithmic grid of N weights from From to To.
type Grid struct {
	From, To Weight
	N        int
}

// maxGrid bounds the number of points of a grid. A larger number is a typing error.
const maxGrid = 100000

const gridForm = "expected FROM:TO:COUNT such as 0.01max:2max:40"

// ParseGrid reads a grid such as "0.01max:2max:40": a weight, a larger weight, both in the form
// that [ParseWeight] takes, and the number of points, which are equally spaced on the logarithmic
// scale. The error begins with the text.
func ParseGrid(s string) (g Grid, err error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return g, fmt.Errorf("%q, %s", s, gridForm)
	}
	if g.From, err = spec.ParseWeight(parts[0]); err != nil {
		return g, fmt.Errorf("%q: it begins at %w", s, err)
	}
	if g.To, err = spec.ParseWeight(parts[1]); err != nil {
		return g, fmt.Errorf("%q: it ends at %w", s, err)
	}
	if g.N, err = strconv.Atoi(strings.TrimSpace(parts[2])); err != nil {
		return g, fmt.Errorf("%q: the number of points is %q, %s", s, parts[2], gridForm)
	}
	if err := g.check(); err != nil {
		return g, fmt.Errorf("%q: %w", s, err)
	}
	return g, nil
}

// Relative reports whether an end is a multiple of the weight's maximum.
func (g Grid) Relative() bool { return g.From.OfMax || g.To.OfMax }

func (g Grid) check() error {
	if g.N < 2 || g.N > maxGrid {
		return fmt.Errorf("a grid of %d points, expected 2 to %d", g.N, maxGrid)
	}
	// A number and a multiple can be compared only once the maximum is known.
	return checkEnds(g.From.Value, g.To.Value, g.From.OfMax == g.To.OfMax)
}

// checkEnds rejects ends that are impossible for a logarithmic grid.
func checkEnds(from, to float64, ordered bool) error {
	for _, end := range []float64{from, to} {
		if !(end > 0) || math.IsInf(end, 0) {
			return fmt.Errorf("an end is %g, expected a positive finite number: the grid is logarithmic", end)
		}
	}
	if ordered && from >= to {
		return fmt.Errorf("it goes from %g to %g, expected an end larger than the beginning", from, to)
	}
	return nil
}

// Values returns the grid's weights in increasing order. Multiples refer to maximum, which is
// ignored if there are none.
func (g Grid) Values(maximum float64) ([]float64, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	resolve := func(w Weight) float64 {
		if w.OfMax {
			return w.Value * maximum
		}
		return w.Value
	}
	from, to := resolve(g.From), resolve(g.To)
	if err := checkEnds(from, to, true); err != nil {
		return nil, err
	}
	values := make([]float64, g.N)
	step := (math.Log(to) - math.Log(from)) / float64(g.N-1)
	for i := range values {
		values[i] = from * math.Exp(step*float64(i))
	}
	values[g.N-1] = to
	for i := 1; i < g.N; i++ {
		if values[i] <= values[i-1] {
			return nil, fmt.Errorf("%d points from %g to %g are too close to be distinct in double precision", g.N,
				from, to)
		}
	}
	return values, nil
}

// The default path of a weight has pathPoints points, down to pathShare of the top where there are as many observations
// as coefficients, else to shortShare: those of glmnet. That of a completion has filledPoints, each of which takes
// much longer, down to filledShare: below, the fit goes through most entries. That of a sum of squares spans the
// eigenvalues of A* A: it begins above their sum, and ends at ridgeShare of the top, or at shortRidge of it where there
// are fewer observations than coefficients, whose fits below go through y. Where the least is at the end, the sweep
// looks beyond it.
const (
	pathPoints   = 100
	pathShare    = 1e-4
	shortShare   = 1e-2
	filledPoints = 20
	filledShare  = 0.05
	ridgeShare   = 1e-7
	shortRidge   = 1e-5
)

// DefaultGrid is the grid of lambda where none is given: from the weight at which the estimate is 0, or for a sum of
// squares from ten times the sum of the eigenvalues of A* A.
func (p *Problem) DefaultGrid() (g Grid, maximum float64, err error) {
	if maximum, err = p.top(); err != nil {
		return g, 0, err
	}
	share, short, n := pathShare, shortShare, pathPoints
	switch {
	case p.observed != nil:
		share, short, n = filledShare, filledShare, filledPoints
	case p.squares:
		share, short = ridgeShare, shortRidge
	}
	if p.D < p.P {
		share = short
	}
	of := func(v float64) Weight { return Weight{Value: v, OfMax: true, Given: true} }
	return Grid{From: of(share), To: of(1), N: n}, maximum, nil
}
