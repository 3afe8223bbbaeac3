package spec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
)

// Center is where the axis of rotation lies on the row of detectors of a parallel beam, counted from 0, as found
// from a sinogram.
type Center struct {
	Value, StdErr float64
	// By says how.
	By string
}

// sinogram has a row of detectors for each angle in degrees.
type sinogram struct {
	rows   [][]float64
	angles []float64
}

const (
	// fewPairs is the number of pairs of opposite projections from which these are used.
	fewPairs = 8
	// leastOverlap is the share of the detectors that opposite projections must both have seen.
	leastOverlap = 1. / 16
	// mostAir is the share of the mean projection's largest value that its ends may have, and mostLost that of
	// the mean mass by which masses may differ.
	mostAir, mostLost = 0.05, 0.05
	// leastUnexplained is the share of the variance that correlation must leave, and centerTol the last step in
	// detectors.
	leastUnexplained, centerTol = 1e-12, 1e-6
)

// FindCenter finds the axis of rotation of a sinogram of parallel rays, row-major, a row of detectors for each of the
// angles in degrees.
//
// Rays at the angles theta and theta + 180 degrees are the same: p(theta, t) = p(theta + 180, 2c - t). Where there
// are enough such pairs c is the place at which they agree best, also where the axis is near one end of the detectors
// and a projection shows only a part of the object. Else it is the constant of the centers of mass,
// sum_t t p(theta, t) / sum_t p(theta, t) = c + a cos theta + b sin theta, by least squares; for this every
// projection must show all of the object, with nothing around it. The error bar comes from what is left of these
// equations.
func FindCenter(y, angles []float64, detectors int) (Center, error) {
	if detectors < 4 || len(y) != detectors*len(angles) {
		return Center{}, fmt.Errorf("%d values, expected %d angles times at least 4 detectors", len(y), len(angles))
	}
	s := sinogram{lists.Make(len(angles), func(i int) []float64 { return y[i*detectors:][:detectors] }), angles}
	pairs := s.opposite()
	if len(pairs) >= fewPairs {
		return register(pairs)
	}
	c, err := s.masses()
	if err != nil && len(pairs) > 0 {
		return register(pairs)
	}
	return c, err
}

// pair are two projections along the same rays in opposite directions.
type pair struct{ p, q []float64 }

// opposite are the pairs whose angles differ by half a turn, up to a thousandth of a degree.
func (s *sinogram) opposite() (pairs []pair) {
	const near = 1e-3
	turn := func(a float64) float64 { return math.Mod(math.Mod(a, 360)+360, 360) }
	order := lists.Upto(len(s.angles))
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(turn(s.angles[i]), turn(s.angles[j])) })
	sorted := lists.Map(order, func(i int) float64 { return turn(s.angles[i]) })
	for k, i := range order {
		if sorted[k] >= 180 {
			break
		}
		at, _ := slices.BinarySearch(sorted, sorted[k]+180-near)
		if at < len(sorted) && sorted[at] <= sorted[k]+180+near {
			pairs = append(pairs, pair{s.rows[i], s.rows[order[at]]})
		}
	}
	return pairs
}

func (s *sinogram) masses() (Center, error) {
	n, k := len(s.angles), len(s.rows[0])
	mean := make([]float64, k)
	mass, x, z := make([]float64, n), mat.NewDense(n, 3, nil), mat.NewVecDense(n, nil)
	for i, row := range s.rows {
		floats.AddScaled(mean, 1/float64(n), row)
		first := 0.0
		for t, v := range row {
			mass[i], first = mass[i]+v, first+float64(t)*v
		}
		sin, cos := math.Sincos(s.angles[i] * math.Pi / 180)
		x.SetRow(i, []float64{1, cos, sin})
		z.SetVec(i, first/mass[i])
	}
	ends, all := max(1, k/50), stat.Mean(mass, nil)
	air := max(math.Abs(stat.Mean(mean[:ends], nil)), math.Abs(stat.Mean(mean[k-ends:], nil)))
	switch {
	case n < 4:
		return Center{}, fmt.Errorf("%d angles, expected at least 4", n)
	case !(all > 0) || air > mostAir*floats.Max(mean) || stat.StdDev(mass, nil) > mostLost*all:
		return Center{}, errors.New("the projections do not end within the detectors, or their sums differ: " +
			"expected all of the object in each projection and nothing around it, or angles over the whole turn")
	}
	var gram, inverse mat.SymDense
	gram.SymOuterK(1, x.T())
	var factor mat.Cholesky
	if !factor.Factorize(&gram) || factor.Cond() > 1e8 {
		return Center{}, errors.New("the angles lie too near to each other to tell where the axis of rotation is")
	}
	var right, fit mat.VecDense
	right.MulVec(x.T(), z)
	if err := factor.SolveVecTo(&fit, &right); err != nil {
		return Center{}, err
	}
	if err := factor.InverseTo(&inverse); err != nil {
		return Center{}, err
	}
	var rest mat.VecDense
	rest.MulVec(x, &fit)
	rest.SubVec(z, &rest)
	variance := mat.Dot(&rest, &rest) / float64(n-3)
	return Center{fit.AtVec(0), math.Sqrt(variance * inverse.At(0, 0)), "the centers of mass of the projections"}, nil
}

// register finds the place at which pairs agree: the multiple of 1/2 at which the likelihood of normal values
// with one correlation exceeds that of none by most, and then the least squares between detectors.
func register(pairs []pair) (Center, error) {
	k := len(pairs[0].p)
	least := max(4, int(leastOverlap*float64(k)))
	some := pairs
	const enough = 32
	if len(pairs) > enough {
		some = lists.Make(enough, func(i int) pair { return pairs[i*len(pairs)/enough] })
	}
	best, center := 0.0, -1.0
	for twice := least - 1; twice <= 2*(k-1)-least+1; twice++ {
		if gain := agreement(some, twice); gain > best {
			best, center = gain, float64(twice)/2
		}
	}
	if center < 0 {
		return Center{}, errors.New("opposite projections agree nowhere")
	}
	return refine(pairs, center)
}

// agreement is the gain in the log-likelihood of p(t) and q(twice - t), over their overlap.
func agreement(pairs []pair, twice int) float64 {
	k := len(pairs[0].p)
	from, to := max(0, twice-k+1), min(k-1, twice)
	var n, sp, sq, pp, qq, pq float64
	for _, pair := range pairs {
		for t := from; t <= to; t++ {
			p, q := pair.p[t], pair.q[twice-t]
			n, sp, sq, pp, qq, pq = n+1, sp+p, sq+q, pp+p*p, qq+q*q, pq+p*q
		}
	}
	cross, vp, vq := pq-sp*sq/n, pp-sp*sp/n, qq-sq*sq/n
	if !(cross > 0) || !(vp > 0) || !(vq > 0) {
		return 0
	}
	return -n / 2 * math.Log(max(1-cross/vp*(cross/vq), leastUnexplained))
}

// refine takes Gauss-Newton steps for the sum of (p(t) - q(2c - t))^2. Both are smoothed first: interpolation would
// smooth one of them more than the other, by an amount that depends on c.
func refine(pairs []pair, c float64) (Center, error) {
	k := len(pairs[0].p)
	smooth := make([]pair, len(pairs))
	for i, pair := range pairs {
		smooth[i].p, smooth[i].q = smoothed(pair.p), smoothed(pair.q)
	}
	const steps, margin = 20, 4
	stdErr := math.NaN()
	for range steps {
		from, to := max(0, int(math.Ceil(2*c))-k+1)+margin, min(k-1, int(math.Floor(2*c)))-margin
		var slope, square, error2 float64
		for _, pair := range smooth {
			products := make([]float64, 0, k)
			for t := from; t <= to; t++ {
				q, dq := between(pair.q, 2*c-float64(t))
				_, dp := between(pair.p, float64(t))
				g := dq - dp // the derivative of q(2c - t) in c, from both
				rest := pair.p[t] - q
				slope, square = slope+g*rest, square+g*g
				products = append(products, g*rest)
			}
			for i, v := range products {
				for j := max(0, i-2*margin); j < min(len(products), i+2*margin+1); j++ {
					error2 += v * products[j]
				}
			}
		}
		if !(square > 0) {
			return Center{}, errors.New("opposite projections are flat where both see the object")
		}
		step := slope / square
		c, stdErr = c+step, math.Sqrt(max(error2, 0))/square
		if math.Abs(step) < centerTol {
			break
		}
	}
	if math.IsNaN(c) || c < 0 || c > float64(k-1) {
		return Center{}, errors.New("opposite projections agree nowhere")
	}
	return Center{c, stdErr, "opposite projections"}, nil
}

// smoothed is x under a Gaussian with a standard deviation of one detector.
func smoothed(x []float64) []float64 {
	const reach = 4
	out := make([]float64, len(x))
	for t := range x {
		sum := 0.0
		for u := max(0, t-reach); u <= min(len(x)-1, t+reach); u++ {
			w := math.Exp(-float64((u-t)*(u-t)) / 2)
			out[t], sum = out[t]+w*x[u], sum+w
		}
		out[t] /= sum
	}
	return out
}

// between is the cubic through the four values around t, and its derivative there.
func between(x []float64, t float64) (value, slope float64) {
	i := min(max(int(math.Floor(t)), 1), len(x)-3)
	f := t - float64(i)
	a, b, c, d := x[i-1], x[i], x[i+1], x[i+2]
	// Newton's form at -1, 0, 1, 2.
	d1, d2, d3 := b-a, (c-2*b+a)/2, (d-3*c+3*b-a)/6
	value = a + (f+1)*(d1+f*(d2+(f-1)*d3))
	slope = d1 + (2*f+1)*d2 + (3*f*f-1)*d3
	return value, slope
}
