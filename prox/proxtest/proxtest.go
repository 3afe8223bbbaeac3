// Package proxtest checks that a [prox.Prox] keeps its contract, in the manner of testing/fstest:
// one call in a test of the package that implements it.
//
//	func TestMyProxConforms(t *testing.T) {
//		if err := proxtest.Check(array.NewHost(), myProx, 30); err != nil {
//			t.Fatal(err)
//		}
//	}
//
// What holds for any convex regularizer is checked for all: firm nonexpansiveness, the resolvent
// identity between two steps t, a symmetric derivative with spectrum in [0, 1] that agrees with
// central differences, and the contract for batches, work in place, views with gaps, many
// goroutines, NaN and memory.
//
// What a Prox says about itself must be true. Every field of its [prox.Structure] is checked: with
// a value the result must minimize the objective, free coordinates must not matter, on a space and
// in other units the regularizer must be the same, balls must shorten vectors by their radius, a
// duality gap must be an upper bound, a follower's evaluations must be as accurate as certified. Of
// Local only the sums are checked, which are the trace of the derivative; how it is spread over
// pixels is not. The [prox.Model] of each derivative is checked, too: the space by package
// spacetest; J = E (E*E + t Q)^{-1} E* by the curvature's products, its diagonal and its squares
// and, where it has a matrix, by dense algebra; traces by the eigenvalues of J; the margin by points
// just within it. Dense algebra and Local are for up to 150 coordinates.
//
// # Kinks
//
// A derivative is compared with differences only where the map is differentiable at the scale of
// the difference: a point is skipped when forward and backward differences disagree by more than
// 1e-3, or central differences with steps h and 2h by more than half the tolerance, relative to the
// direction. With h near 1e-5 that is a distance of about 1e-5 from a kink. When all of 20 points
// are skipped Check says so.
package proxtest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"surepipe/array"
	"surepipe/prox"
)

// Option changes what Check does.
type Option func(*options)

type options struct {
	seed      uint64
	steps     []float64
	scale     float64
	points    [][]float64
	tolerance float64
}

// Seed sets the seed of the random points and directions, 1 by default.
func Seed(seed uint64) Option { return func(o *options) { o.seed = seed } }

// Steps sets the values of t, 0.3 and 1.7 by default.
func Steps(t ...float64) Option { return func(o *options) { o.steps = t } }

// Scale sets the size of the entries of the random points, 2 by default: it should be such that the
// regularizer is active at some entries and not at others.
func Scale(s float64) Option { return func(o *options) { o.scale = s } }

// Points adds points to the random ones. They may be at kinks: only the comparison with differences
// skips those.
func Points(v ...[]float64) Option {
	return func(o *options) { o.points = append(o.points, v...) }
}

// Tolerance sets how close central differences must come to the derivative, relative to the
// direction's norm, 1e-6 by default.
func Tolerance(tol float64) Option { return func(o *options) { o.tolerance = tol } }

// Check returns nil if p keeps the contract of [prox.Prox] on vectors of length dim, and otherwise
// an error that joins one for each claim that is false. The same arguments always give the same
// result. It counts the batches of dev, which must not be used elsewhere meanwhile.
func Check(dev array.Device, p prox.Prox, dim int, opts ...Option) error {
	o := options{seed: 1, steps: []float64{0.3, 1.7}, scale: 2, tolerance: 1e-6}
	for _, f := range opts {
		f(&o)
	}
	if dim <= 0 || p.Dim() != 0 && p.Dim() != dim {
		return fmt.Errorf("proxtest: dimension %d for a prox with Dim() = %d", dim, p.Dim())
	}
	c := &checker{dev: dev, p: p, dim: dim, options: o, rng: rand.New(rand.NewPCG(o.seed, 0x70726f78))}
	before := dev.Stats()

	for range 4 {
		c.points = append(c.points, c.random(o.scale))
	}
	c.points = append(c.points, c.random(o.scale/20), make([]float64, dim))

	var errs []error
	for _, claim := range claims {
		if err := c.try(claim.check); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", claim.name, err))
		}
	}
	if after := dev.Stats(); len(errs) == 0 && after.Live != before.Live {
		errs = append(errs, fmt.Errorf("memory: %d batches allocated before, %d after every derivative was released",
			before.Live, after.Live))
	}
	if err := dev.Err(); err != nil {
		errs = append(errs, fmt.Errorf("device: %w", err))
	}
	return errors.Join(errs...)
}

// try turns a panic of p into an error, so that the other claims are checked too.
func (c *checker) try(check func(*checker) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return check(c)
}

var claims = []struct {
	name  string
	check func(*checker) error
}{
	{"firm nonexpansiveness", (*checker).firm},
	{"resolvent identity between steps", (*checker).resolvent},
	{"optimality", (*checker).optimal},
	{"Moreau identity of a positively homogeneous regularizer", (*checker).moreau},
	{"quadratic regularizer", (*checker).quadratic},
	{"batch equals loop", (*checker).batch},
	{"in place", (*checker).inPlace},
	{"views with gaps", (*checker).strided},
	{"NaN", (*checker).nan},
	{"Linearize evaluates", (*checker).linearizeEvaluates},
	{"derivative against central differences", (*checker).differences},
	{"symmetry and spectrum of the derivative", (*checker).spectrum},
	{"derivative is linear", (*checker).linear},
	{"derivative: batch equals loop", (*checker).derivativeBatch},
	{"derivative: in place and views with gaps", (*checker).derivativeViews},
	{"derivative from many goroutines", (*checker).derivativeConcurrent},
	{"diagonal of the derivative", (*checker).diagonal},
	{"model", (*checker).modelled},
	{"margin of the model", (*checker).margins},
	{"memory of the derivative", (*checker).memory},
	{"follower", (*checker).follower},
	{"structure", (*checker).pairs},
	{"nuclear norm", (*checker).nuclear},
	{"parts", (*checker).parts},
	{"balls", (*checker).balls},
	{"local degrees of freedom", (*checker).local},
	{"free coordinates", (*checker).free},
	{"sum over coordinates", (*checker).sparse},
	{"sum of norms of groups", (*checker).groups},
	{"regularizer on a space", (*checker).confined},
	{"other units", (*checker).otherUnits},
	{"conjugate", (*checker).conjugate},
	{"support function of the domain", (*checker).support},
}
