package problems

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/problems/spec"
)

// Grid is an increasing logarithmic grid of N weights from From to To, or a list of N weights with these ends.
type Grid struct {
	From, To Weight
	N        int
	// List are the weights of a list, nil for a logarithmic grid.
	List []Weight
}

// maxGrid bounds the number of points of a grid. A larger number is a typing error.
const maxGrid = 100000

const gridForm = "expected FROM:TO:COUNT such as 0.01max:2max:40, or a list such as 1,2,5"

// IsGrid reports whether a text is meant as a grid and not as one weight.
func IsGrid(s string) bool { return strings.ContainsAny(s, ":,") }

// ParseGrid reads a grid such as "0.01max:2max:40": a weight, a larger weight, both in the form
// that [ParseWeight] takes, and the number of points, which are equally spaced on the logarithmic
// scale; or a list of increasing weights such as "1,2,5". The error begins with the text.
func ParseGrid(s string) (g Grid, err error) {
	if strings.Contains(s, ",") {
		return parseList(s)
	}
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

func parseList(s string) (g Grid, err error) {
	for _, text := range strings.Split(s, ",") {
		w, err := spec.ParseWeight(text)
		if err == nil && len(g.List) > 0 && w.OfMax != g.From.OfMax {
			err = errors.New("numbers and multiples of max are mixed")
		}
		if err != nil {
			return g, fmt.Errorf("%q: of weight %d of the list, %w", s, len(g.List)+1, err)
		}
		g.List = append(g.List, w)
		g.From, g.To, g.N = g.List[0], w, len(g.List)
	}
	if _, err := g.Values(1); err != nil {
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
	step := (math.Log(to) - math.Log(from)) / float64(g.N-1)
	values := lists.Make(g.N, func(i int) float64 {
		if g.List != nil {
			return resolve(g.List[i])
		}
		return from * math.Exp(step*float64(i))
	})
	values[g.N-1] = to
	for i := 1; i < g.N; i++ {
		switch {
		case values[i] > values[i-1]:
		case g.List != nil:
			return nil, fmt.Errorf("%g is followed by %g, expected increasing weights", values[i-1], values[i])
		default:
			return nil, fmt.Errorf("%d points from %g to %g are too close to be distinct in double precision", g.N,
				from, to)
		}
	}
	return values, nil
}

// The default path of a weight; where the least is at its end, the sweep looks beyond it.
const (
	// The points, and the share of the top at the end, where there are as many observations as coefficients, and where
	// there are fewer: those of glmnet.
	pathPoints = 100
	pathShare  = 1e-4
	shortShare = 1e-2
	// A completion's points take much longer; below the end the fit goes through most entries.
	filledPoints = 20
	filledShare  = 0.05
	// Of a matrix with few entries, d/(m + n) < min(m, n)/fewFilled, already fits of a small rank go through most of
	// them: the same steps end earlier.
	fewFilled   = 4
	fewerPoints = 11
	fewerShare  = 0.2
	// A sum of squares spans the eigenvalues of A* A, from above their sum; with fewer observations than coefficients
	// fits below shortRidge go through y.
	ridgeShare = 1e-7
	shortRidge = 1e-5
	// Points of images and other matrices take long, too. Weights of differences in a signal are of the size of the
	// noise, leastNoise to mostNoise of its standard deviations in an image, whose top, at which it is constant, is
	// hundreds of them, and takes longest.
	imagePoints = 20
	mostNoise   = 3
	leastNoise  = 0.05
	// Squared differences of a sequence of n values, m times, go from smoothTop over the least eigenvalue of D* D that
	// is not 0, about (pi / n)^(2 m), to smoothEnd over the largest, 4^m.
	smoothTop = 10
	smoothEnd = 0.01
	// A map of two weights.
	mapPoints = 8
	mapShare  = 0.02
)

// DefaultGrid is the grid of lambda where none is given: from the weight at which the estimate is 0, for a sum of
// squares from ten times the sum of the eigenvalues of A* A, and for differences in an image, where sigma2 gives a
// variance of the noise, from its standard deviation. The maximum is that of which the grid may have multiples.
func (p *Problem) DefaultGrid(ctx context.Context, sigma2 func() float64) (g Grid, maximum float64, err error) {
	unit := p.unit(sigma2)
	end := Absolute(leastNoise * unit)
	if unit > 0 && !p.sequence() {
		return Grid{From: end, To: Absolute(mostNoise * unit), N: imagePoints}, 0, nil
	}
	if n, m := float64(p.P), p.smoothed(); m > 0 {
		return Grid{From: Absolute(smoothEnd * math.Pow(4, -m)), To: Absolute(smoothTop * math.Pow(n/math.Pi, 2*m)),
			N: pathPoints}, 0, nil
	}
	if maximum, err = p.top(ctx); err != nil {
		return g, 0, err
	}
	share, short, n := pathShare, shortShare, pathPoints
	switch {
	case p.observed != nil && p.parts.Behind == nil:
		share, short, n = filledShare, filledShare, filledPoints
		if rows, cols := p.parts.Shape[0], p.parts.Shape[1]; fewFilled*p.D < (rows+cols)*min(rows, cols) {
			share, short, n = fewerShare, fewerShare, fewerPoints
		}
	case p.squares:
		share, short = ridgeShare, shortRidge
	case !p.sequence() && !p.Columns.rows:
		n = imagePoints
	}
	if p.D < p.P {
		share = short
	}
	from := OfMax(share)
	if unit > 0 && end.Value < share*maximum {
		from = end
	}
	return Grid{From: from, To: OfMax(1), N: n}, maximum, nil
}

// unit is the weight that suits the noise: of a norm of differences of a signal, or of some of its values, the standard
// deviation; 0 where it is not known.
func (p *Problem) unit(sigma2 func() float64) float64 {
	picked := p.parts.Source != nil && p.parts.Source.Places != nil
	if p.squares || len(p.parts.Penalties) == 0 || !picked && !linops.StructureOf(p.Operator).Identity {
		return 0
	}
	if unit := p.parts.Penalties[0].Unit; unit != nil {
		return unit(math.Sqrt(sigma2()))
	} else if p.parts.Behind == nil {
		return 0
	}
	return math.Sqrt(sigma2())
}

func (p *Problem) sequence() bool { return slices.Max(p.parts.Shape) == p.P }

// smoothed is how often differences of a sequence are taken whose squares have the weight lambda; 0 for another
// penalty.
func (p *Problem) smoothed() float64 {
	if !p.squares || p.parts.Behind == nil || !p.sequence() {
		return 0
	}
	rows, n := p.parts.Behind.Dims()
	m := n - rows
	if m < 1 || m > spec.MostDifferences {
		return 0
	}
	return float64(m)
}

// MapGrid is the grid of each of two weights where neither is given, and the maximum of lambda.
func (p *Problem) MapGrid(ctx context.Context) (g Grid, maximum float64, err error) {
	maximum, err = p.top(ctx)
	return Grid{From: OfMax(mapShare), To: OfMax(1), N: mapPoints}, maximum, err
}
