package verify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"surepipe/hutch"
)

// randomEntries is the number of random entries of the diagonal that are compared with differences,
// besides the largest and the smallest, where d is above MaxUnits.
const randomEntries = 2

// diagonal compares the diagonal of D mu_hat, where it is known, with the printed divergence, which
// is its sum, and entries of it with differences of mu_hat_i as y_i moves. The worst is recorded.
func (c *check) diagonal() error {
	if c.Closed.Diagonal == nil {
		return nil
	}
	values, err := c.Closed.Diagonal()
	if err != nil {
		return err
	}
	if len(values) != c.d {
		return fmt.Errorf("verify: a diagonal of %d entries for %d observations", len(values), c.d)
	}
	all, err := c.entries(values)
	if err != nil {
		return err
	}
	off, bar := c.sumOfDiagonal(values)
	for _, f := range all {
		if f.conclusive() && inBars(f.off(), f.err()) > inBars(off, bar) {
			off, bar = f.off(), f.err()
		}
	}
	c.v.add(Diagonal, off, bar)
	return nil
}

// sumOfDiagonal is the printed divergence minus the sum of the diagonal, and its error bar. The
// variance of a Hutchinson estimate from random signs is known: that of one probe is 2 (||D||_F^2 -
// sum_i D_ii^2).
func (c *check) sumOfDiagonal(values []float64) (off, bar float64) {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	stdErr := fewProbes * c.Trace.Error()
	if c.Trace.Estimator == hutch.Hutchinson && c.Trace.Queries > 0 {
		variance := 2 * max(0, c.Closed.Frobenius2-squares) / float64(c.Trace.Queries)
		stdErr = max(stdErr, math.Sqrt(variance))
	}
	return c.Trace.Trace - sum, math.Hypot(1e-6*float64(c.d)+formPart*math.Abs(sum), stdErr)
}

// entries compares entries of the diagonal with differences. Where the differences along all unit
// vectors are already known, all entries are compared.
func (c *check) entries(values []float64) ([]form, error) {
	if c.units != nil {
		all := slices.Clone(c.units)
		for i := range all {
			all[i].printed = values[i]
		}
		return all, nil
	}
	places := c.places(values)
	z := c.dev.Alloc(len(places), c.d)
	defer z.Free()
	all := make([]form, len(places))
	for k, i := range places {
		hutch.UnitVectors(z.Rows(k, k+1), i)
		f, err := c.along(&c.first, z.Rows(k, k+1), values[i])
		if err != nil {
			return nil, err
		}
		all[k] = f
	}
	return all, c.secondOpinions(z, all)
}

// places are the indices of the largest entry, of the smallest and of a few random ones, without
// repetition.
func (c *check) places(values []float64) []int {
	largest, smallest := 0, 0
	for i, v := range values {
		if v > values[largest] {
			largest = i
		}
		if v < values[smallest] {
			smallest = i
		}
	}
	places := []int{largest, smallest}
	rng := rand.New(rand.NewPCG(c.Seed^stream, c.Sample))
	for range randomEntries {
		places = append(places, rng.IntN(len(values)))
	}
	slices.Sort(places)
	return slices.Compact(places)
}
