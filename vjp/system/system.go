package system

import (
	"context"
	"math"
	"sync/atomic"

	"surepipe/array"
	"surepipe/hutch"
)

// System is the derivative D mu_hat = M K^+ M* of an estimator at one y, a symmetric d x d matrix with
// eigenvalues in [0, 1]. It is safe for concurrent use until it is released.
type System interface {
	// Apply sets dst_i = D mu_hat w_i, k x d, as accurately as the goal asks. left, unless it is nil, is
	// set to bounds with
	//
	//	0 <= <w_i, D mu_hat w_i - dst_i> <= left_i.
	Apply(ctx context.Context, dst, w array.Batch, goal Goal, left []float64) error
	// Inverse returns what sets dst = E K^+ E* g for one vector of length p, nil where that takes an iteration.
	Inverse() func(dst, g array.Batch)
	// Moments computes what trace estimates need of probes of random signs; it offers nothing where that
	// is not cheaper than Apply.
	Moments() hutch.Moments
	// Closed is what is known of D mu_hat without probes.
	Closed() Closed
	// Steps is the largest number of iterations that a probe has taken, and failed how many probes stopped
	// short of their tolerance.
	Steps() (most, failed int)
	// Settles reports whether Apply reaches its goal for a pilot probe, where that is in doubt.
	Settles(ctx context.Context) (bool, error)
	// Rough is about tr D mu_hat, where pilot probes say so that other probes need in any case, else NaN; and the
	// images of these, the same at every y, where they are known, until the system is released.
	Rough(ctx context.Context) (trace float64, images array.Batch, err error)
	// Bytes is the device memory that the system holds, and ProbeBytes what Apply takes for a probe.
	Bytes() int64
	ProbeBytes() int64
	// Release frees that memory. The system is dead afterwards.
	Release()
}

// Goal says when a probe is done: its residual is at most Residual times the first, in the system's norm, and
// its quadratic form is too small by at most Form ||w||^2/sqrt(2d). +Inf requires nothing. Systems without
// iterations do not read it.
type Goal struct {
	Residual, Form float64
}

// Closed is what is known about a derivative without probes.
type Closed struct {
	// Known reports whether Trace, Frobenius2, Low, High and Margin are known. They are 0
	// otherwise.
	Known             bool
	Trace, Frobenius2 float64
	// Low and High are the least and the largest trace if the decisions behind Trace are made the
	// other way where they are within rounding errors or the solver's tolerance: which coordinates
	// are active, and which directions are in the null space of A. Where no decision is in doubt
	// both are the trace.
	Low, High float64
	// Margin is the factor by which the smallest direction that was counted exceeds rounding
	// errors; +Inf where no rank was decided.
	Margin float64
	// SpaceMargin says how close the choice of the tangent space was: the distance to the nearest
	// point at which the regularizer has another one, divided by the error of the solution. It is 0
	// where it is not known. Below 1 the choice is within the solver's tolerance.
	SpaceMargin float64
	// Neighbours reports whether the derivatives near the solution, within a few times its error,
	// were compared with this one: Low and High include the traces of those with another tangent
	// space.
	Neighbours bool
	// Diagonal computes the d diagonal entries of D mu_hat; nil where they have to be estimated.
	Diagonal func() ([]float64, error)
	// DiagonalFlops is about how many floating-point operations Diagonal takes, 0 where D is 0.
	DiagonalFlops float64
	// Control improves the images of random signs ([surepipe/hutch.Matrix]); nil where nothing is known.
	Control func(signs, image array.Batch)
	// Root computes R, k x d and row-major, with D mu_hat = R* R; nil where D is known by its images alone.
	Root func() ([]float64, error)
	// Blocks computes the diagonal blocks of D mu_hat of the given order, row-major. It is nil, and returns nil, where
	// Root is to be asked.
	Blocks func(order int) ([]float64, error)
	// Images sets dst_i = D mu_hat v_i by the factors that the solver made on its way, which saves
	// making them anew. It serves until the solver goes on along its path, and must not be called
	// at the same time; it reports false, and does nothing, where the factors have gone. It is nil
	// where the solver made none.
	Images func(dst, v array.Batch) bool
	// Products are <v_i, D mu_hat v_j> by the same factors, without images: k x k in a new slice, nil where Images
	// reports false. It is nil where nobody offers it.
	Products func(v *array.Fixed) []float64
	// Mapped is the sum of S_i D mu_hat v_i by the same factors, without images, in a new slice; nil where Images
	// reports false. It is nil where nobody offers it.
	Mapped func(v *array.Mapped) []float64
	// Leverages is the diagonal of D mu_hat by the same factors, in about LeveragesFlops operations,
	// as long as Images serves, which takes about ImageFlops for a vector. It is nil where the solver made none.
	Leverages                  func() []float64
	LeveragesFlops, ImageFlops float64
}

// Exactly is a trace that does not depend on any decision in doubt.
func Exactly(trace, frobenius2 float64) Closed {
	return Closed{Known: true, Trace: trace, Frobenius2: frobenius2, Low: trace, High: trace, Margin: math.Inf(1)}
}

// Base is what most systems have in common.
type Base struct {
	d      int
	closed Closed
	array.Held
}

func (*Base) Inverse() func(dst, g array.Batch)     { return nil }
func (*Base) Moments() hutch.Moments                { return hutch.Moments{} }
func (s *Base) Closed() Closed                      { return s.closed }
func (*Base) Settles(context.Context) (bool, error) { return true, nil }
func (*Base) Rough(context.Context) (float64, array.Batch, error) {
	return math.NaN(), array.Batch{}, nil
}

// direct is the Base of systems without an iteration. They do not read the goal.
type direct struct{ Base }

func (*direct) Steps() (most, failed int) { return 0, 0 }

// counter counts the steps and the failures of probes.
type counter struct{ most, short atomic.Int64 }

func (c *counter) Steps() (most, failed int) { return int(c.most.Load()), int(c.short.Load()) }

func (c *counter) note(steps int) {
	for {
		old := c.most.Load()
		if int64(steps) <= old || c.most.CompareAndSwap(old, int64(steps)) {
			return
		}
	}
}
