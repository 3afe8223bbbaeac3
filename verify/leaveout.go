package verify

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/hutch"
)

const (
	// exactEntries is the largest number of entries of the diagonal, random ones where there are more,
	// that replace those from probes, and fewEntries that of exact ones that are compared.
	exactEntries, fewEntries = 200, 12
	// largestLeft and randomLeft are the numbers of observations that are left out of refits: those with
	// the largest left-out residuals, and random ones.
	largestLeft, randomLeft = 4, 8
	// leftSteps bounds the solves of a refit, and leftTol is the accuracy at which it ends before that.
	leftSteps = 6
	leftTol   = 1e-3
)

// LeftOut is leave-one-out by one step, the mean of (r_i/(1 - h_i))^2.
type LeftOut struct {
	// Mean is the number, StdErr its error bar, and ProbesErr the part of it that is due to probes, 0
	// where the h_i are exact.
	Mean, StdErr, ProbesErr float64
	// Residuals are y - mu_hat. Those of observations that are not left out are 0.
	Residuals []float64
	// Leverages are the h_i, or their estimates from probes.
	Leverages []float64
}

// unit is how y of the solver's problem moves with observation i of the one that was asked for, and the part of D_ii
// that is not the solver's: where one moves by e_i, the other moves by the image of e_i.
func (c *check) unit(i int) (moves []float64, share float64) {
	e := c.dev.Alloc(1, c.d)
	defer e.Free()
	hutch.UnitVectors(e, i)
	z, own := c.Solver.Problem().Rewriting().Data(e)
	moves = z.ToHost()
	if own {
		z.Free()
	}
	return moves, 1 - moves[i]
}

// leftOut checks leave-one-out by the leverages of some observations, and by a few refits. The worst is
// recorded.
func (c *check) leftOut() error {
	l := c.LeftOut
	if l == nil {
		return nil
	}
	var left []int // the observations that are left out
	for i, r := range l.Residuals {
		if r != 0 {
			left = append(left, i)
		}
	}
	if len(left) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(c.Seed^stream, c.Sample+1))
	off, bar, err := c.refits(rng, left)
	if err != nil {
		return err
	}
	byDiagonal, its, err := c.exactLeverages(rng, left)
	if err != nil {
		return err
	}
	if inBars(byDiagonal, its) > inBars(off, bar) {
		off, bar = byDiagonal, its
	}
	c.v.add(LeaveOneOut, off, bar)
	return nil
}

func (l *LeftOut) squared(i int, h float64) float64 { return square(l.Residuals[i] / (1 - h)) }

// exactLeverages is the printed mean minus that by images of unit vectors: the mean by the leverages that
// were used, and its mean change at random entries, with the error of the probes. Where the leverages are
// not from probes no entry may change: it is the mean of the sizes of the changes, and the bar a share of
// that of the mean.
func (c *check) exactLeverages(rng *rand.Rand, left []int) (off, bar float64, err error) {
	l, n := c.LeftOut, float64(len(left))
	mean := 0.0
	for _, i := range left {
		mean += l.squared(i, l.Leverages[i]) / n
	}
	some := slices.Clone(left)
	rng.Shuffle(len(some), func(a, b int) { some[a], some[b] = some[b], some[a] })
	count := fewEntries
	if l.ProbesErr > 0 {
		count = exactEntries
	}
	some = some[:min(len(some), count)]
	v, image := c.dev.Alloc(len(some), c.d), c.dev.Alloc(len(some), c.d)
	defer array.Free(v, image)
	for k, i := range some {
		hutch.UnitVectors(v.Rows(k, k+1), i)
	}
	inner := func(dst, v array.Batch) error { return c.Images.Apply(c.ctx, dst, v, make([]float64, v.K())) }
	if err := c.Solver.Problem().Rewriting().Images(image, v, inner); err != nil {
		return 0, 0, err
	}
	forms, changes := make([]float64, len(some)), make([]float64, len(some))
	c.dev.Dot(forms, v, image)
	for k, i := range some {
		changes[k] = l.squared(i, forms[k]) - l.squared(i, l.Leverages[i])
	}
	if l.ProbesErr == 0 {
		for k, v := range changes {
			changes[k] = math.Abs(v)
		}
		change, _ := meanAndError(changes)
		return change, surePart * l.StdErr, c.dev.Err()
	}
	change, stdErr := meanAndError(changes)
	stdErr *= math.Sqrt(1 - float64(len(some))/n)
	return l.Mean - mean - change, math.Hypot(fewProbes*l.ProbesErr, stdErr) + 1e-9*l.Mean, c.dev.Err()
}

// refits is what the printed mean would change by if the left-out residuals were those of refits, by the
// largest and by random ones of them, with the printed error bar.
func (c *check) refits(rng *rand.Rand, left []int) (off, bar float64, err error) {
	l, n := c.LeftOut, float64(len(left))
	order := slices.Clone(left)
	rng.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	largest := slices.Clone(order)
	slices.SortStableFunc(largest, func(a, b int) int {
		return cmp.Compare(l.squared(b, l.Leverages[b]), l.squared(a, l.Leverages[a]))
	})
	largest = largest[:min(len(largest), largestLeft)]
	order = slices.DeleteFunc(order, func(i int) bool { return slices.Contains(largest, i) })
	rest := float64(len(order))
	order = order[:min(len(order), randomLeft)]
	for _, i := range largest {
		change, err := c.refit(i)
		if err != nil {
			return 0, 0, err
		}
		off += change / n
	}
	changes := make([]float64, len(order))
	for k, i := range order {
		if changes[k], err = c.refit(i); err != nil {
			return 0, 0, err
		}
	}
	stdErr := 0.0
	if len(order) > 0 {
		change, spread := meanAndError(changes)
		off += change * rest / n
		if stdErr = 0; rest > float64(len(order)) {
			stdErr = spread * rest / n * math.Sqrt(1-float64(len(order))/rest)
		}
	}
	return off, math.Hypot(l.StdErr, stdErr) + 1e-9*l.Mean, nil
}

// refit is the square of the residual of observation i in a fit to all others minus the printed one. A fit
// to all others is one to y with its own prediction in the place of y_i: with y_i moved by -s the
// residual is r_i - s - (mu_hat_i - mu_hat_i(y)), and its zero s is the left-out residual, to which the
// printed one is the first guess. The zero is found by the secant method, between points of opposite
// signs where these are known.
func (c *check) refit(i int) (change float64, err error) {
	l := c.LeftOut
	unit, share := c.unit(i)
	low, atLow := 0.0, l.Residuals[i]
	high, atHigh := math.NaN(), math.NaN() // where the sign is another
	s := atLow / (1 - l.Leverages[i])
	printed := s
	for range leftSteps {
		if c.iterations >= c.budget {
			break
		}
		moved, err := c.movedBy(unit, i, -s)
		if err != nil {
			return 0, err
		}
		residual := l.Residuals[i] - s - moved + share*s
		if math.Abs(residual) <= leftTol*math.Abs(s) {
			break
		}
		next := s - residual*(s-low)/(residual-atLow)
		if residual*atLow < 0 {
			high, atHigh = s, residual
		} else {
			if !math.IsNaN(high) {
				next = s - residual*(s-high)/(residual-atHigh)
			}
			low, atLow = s, residual
		}
		if math.IsNaN(next) || math.Abs(next) > 10*math.Abs(s) {
			break
		}
		s = next
	}
	return s*s - printed*printed, nil
}

func (c *check) movedBy(along []float64, i int, s float64) (float64, error) {
	y := c.dev.Alloc(1, c.d)
	defer y.Free()
	c.dev.Upload(y, along)
	c.dev.Lin(y, 1, c.Y, s, y)
	sol, err := c.solve(&c.first, y, c.first.base)
	if err != nil {
		return 0, err
	}
	defer sol.Release()
	var at, was [1]float64
	c.dev.Download(at[:], sol.MuHat.Cols(i, i+1))
	c.dev.Download(was[:], c.first.mu.Cols(i, i+1))
	return at[0] - was[0], c.dev.Err()
}

func meanAndError(x []float64) (mean, stdErr float64) {
	if mean, stdErr = stat.MeanStdDev(x, nil); len(x) < 2 {
		return mean, 0
	}
	return mean, stat.StdErr(stdErr, float64(len(x)))
}
