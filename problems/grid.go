package problems

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"surepipe/array"
	"surepipe/prox"
)

// Grid is a logarithmic grid of N weights from From to To, increasing.
type Grid struct {
	From, To Weight
	N        int
}

// maxGrid bounds the points of a grid: more are a slip of the keyboard.
const maxGrid = 100000

const gridForm = "expected FROM:TO:COUNT such as 0.01max:2max:40"

// ParseGrid reads "0.01max:2max:40": from a weight to a larger one, both as
// [ParseWeight] takes them, in so many equal steps of the logarithm. The error
// begins with the text.
func ParseGrid(s string) (g Grid, err error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return g, fmt.Errorf("%q, %s", s, gridForm)
	}
	if g.From, err = ParseWeight(parts[0]); err != nil {
		return g, fmt.Errorf("%q: it begins at %w", s, err)
	}
	if g.To, err = ParseWeight(parts[1]); err != nil {
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

// Relative reports that an end is a multiple of the weight's maximum.
func (g Grid) Relative() bool { return g.From.relative || g.To.relative }

func (g Grid) check() error {
	if g.N < 2 || g.N > maxGrid {
		return fmt.Errorf("a grid of %d points, expected 2 to %d", g.N, maxGrid)
	}
	// Which of a number and a multiple is the larger is known once the maximum is.
	return checkEnds(g.From.value, g.To.value, g.From.relative == g.To.relative)
}

// checkEnds refuses ends that no logarithmic grid has.
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

// Values are the grid's weights, increasing. Multiples refer to maximum, which is not
// looked at where there are none.
func (g Grid) Values(maximum float64) ([]float64, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	resolve := func(w Weight) float64 {
		if w.relative {
			return w.value * maximum
		}
		return w.value
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
			return nil, fmt.Errorf("%d points from %g to %g are too close to tell apart", g.N, from, to)
		}
	}
	return values, nil
}

// Reweighted is the problem's regularizer with other weights. Those that the problem
// has no use for are not looked at. What the regularizer keeps is the problem's.
func (p *Problem) Reweighted(lambda, lambda2, gamma float64) (prox.Prox, error) {
	// An infinite weight removes its part, where a problem can do without.
	for _, w := range []struct {
		name     string
		has, new float64
	}{{"lambda", p.Lambda, lambda}, {"lambda2", p.Lambda2, lambda2}, {"gamma", p.Gamma, gamma}} {
		zero := w.new == 0 && w.name == "lambda2"
		if !math.IsNaN(w.has) && !(w.new > 0) && !zero {
			return nil, weightErrorf(w.name, "is %g, expected a positive number", w.new)
		}
	}
	if p.reweigh != nil {
		return p.reweigh(lambda, lambda2, gamma)
	}
	matrix := func(shape []int) array.Shape {
		n := len(shape)
		return array.Shape{Rows: shape[n-2], Cols: shape[n-1]}
	}
	switch p.Name {
	case "ridge":
		return prox.NewSquaredL2(lambda), nil
	case "lasso":
		return prox.NewL1(lambda), nil
	case "elastic-net":
		return prox.NewElasticNet(lambda, lambda2), nil
	case "svt", "matrix-completion":
		return prox.NewNuclear(matrix(p.BShape), lambda), nil
	case "robust-pca":
		return prox.NewSeparable(
			prox.Block{Prox: prox.NewNuclear(matrix(p.BShape), lambda), N: p.D},
			prox.Block{Prox: prox.NewL1(gamma), N: p.D},
		), nil
	}
	return nil, fmt.Errorf("%s has no weight to change", p.Name)
}
