package hutch

import (
	"context"
	"math"
	"slices"

	"surepipe/array"
)

// Phase is the purpose of a query.
type Phase int

// The phases of an estimate, in order. Those that a plan does not have are empty.
const (
	Sketching Phase = iota // random vectors, whose images span the leading directions of M
	Projected              // the basis: tr(Q* M Q)
	Residual               // random vectors, projected off the basis: tr((I - QQ*) M (I - QQ*))
)

func (p Phase) String() string { return [...]string{"sketch", "projected", "residual"}[p] }

// Matrix gives access to M: to its images, or where these take an iterative method to approximations that an
// accuracy allows.
type Matrix struct {
	// Apply is an [Oracle] of the accuracy that is wanted; one whose images are exact need not read it.
	Apply func(ctx context.Context, dst, v array.Batch, want Accuracy, left []float64) error
	// Moments replaces Apply for forms of random signs where it is offered.
	Moments Moments
	// Control replaces the images M g of random signs g by (M - N) g + diag(N) g for an N near M, whose diagonal is
	// known (a control variate): g_i times them has the same mean, M's diagonal, and a smaller variance. It is nil for
	// none, and is called from several goroutines at once.
	Control func(g, image array.Batch)
}

// Exactly is the matrix of an oracle whose images are M v.
func Exactly(images Oracle) Matrix {
	return Matrix{Apply: func(ctx context.Context, dst, v array.Batch, _ Accuracy, left []float64) error {
		return images(ctx, dst, v, left)
	}}
}

func (m Matrix) oracle(needed Need, share float64) Oracle {
	return func(ctx context.Context, dst, v array.Batch, left []float64) error {
		return m.Apply(ctx, dst, v, Accuracy{needed, share}, left)
	}
}

// DefaultShare is the default of [Options].Share.
const DefaultShare = 0.01

// Options are the parts of an estimate that its plan leaves open. The zero value is ready to use.
type Options struct {
	// Seed and Sample choose the probes, see [Rademacher].
	Seed, Sample uint64
	// Share is the accuracy of quadratic forms (see [Matrix]): the trace from a random probe is
	// then too small by at most Share sqrt(d/2). 0 stands for DefaultShare.
	Share float64
	// Diagonal also accumulates what the random probes say of the diagonal of M, for
	// [Run.Leverages]. It costs some 20 numbers of 4 bytes for each of the d entries, and a few operations
	// on each for every probe. Plans that project their probes off a sketch do not accumulate it.
	Diagonal bool
	// Batch is the largest number of vectors that [Trace] gives the oracle at a time; 0 stands for
	// DefaultBatch. The result does not depend on it.
	Batch int
	// Seen, if not nil, is given the residual probes and their images, numbered from first, before
	// they are freed. Calls come from several goroutines at once, in any order.
	Seen func(first int, v, mv array.Batch)
}

// Run is one estimate in progress: the results of its phases, and the device memory that holds
// them.
//
// The vectors of a phase are numbered from 0 to [Run.Count]. [Run.Do] does the work of any range of
// them; ranges may be done in any order and from several goroutines at once, and the result is the
// same to the last bit. The sketch comes first; when all of it is done, [Run.EndSketch] computes
// the basis, and the other two phases may be done in any order or concurrently. When they are done
// too, [Run.Estimate] returns the estimate. [Trace] is the simplest caller, and package stages a
// concurrent one.
type Run struct {
	dev    array.Device
	plan   Plan
	matrix Matrix
	o      Options

	// sketch holds the images of the sketch, one a row. The first rank rows of basis are an
	// orthonormal basis of its span.
	sketch, basis array.Batch
	rank          int
	basisLeft     []float64     // the oracle's bounds for the images of the basis
	tally         *tally        // from EndSketch on
	leverages     *leverageSums // nil where they were not asked for
}

// NewRun begins an estimate with all vectors on dev. The caller frees the run with [Run.Free].
func NewRun(dev array.Device, plan Plan, m Matrix, o Options) *Run {
	if o.Share == 0 {
		o.Share = DefaultShare
	}
	r := &Run{dev: dev, plan: plan, matrix: m, o: o}
	if plan.Sketch > 0 {
		r.sketch = dev.Alloc(plan.Sketch, plan.Dim)
	}
	if o.Diagonal && plan.ShowsDiagonal() {
		r.leverages = &leverageSums{d: plan.Dim}
	}
	return r
}

// Plan is the plan of the run.
func (r *Run) Plan() Plan { return r.plan }

// Count is the number of vectors in a phase. Before the end of the sketch only that of the sketch
// is known, and the others are 0.
func (r *Run) Count(p Phase) int {
	switch {
	case p == Sketching:
		return r.plan.Sketch
	case r.tally == nil:
		return 0
	case p == Projected:
		return r.tally.Projected()
	}
	return r.tally.Residual()
}

// byMoments reports whether the probes of a phase are used by their moments: only where nobody needs
// their images.
func (r *Run) byMoments(p Phase) bool {
	return r.leverages == nil && r.o.Seen == nil && r.plan.ByMoments(p, r.matrix.Moments)
}

// Do queries vectors first to first+n-1 of a phase. An error of the oracle or of ctx is returned
// unchanged; the vectors then do not count as done.
func (r *Run) Do(ctx context.Context, p Phase, first, n int) error {
	switch p {
	case Sketching:
		v := r.dev.Alloc(n, r.plan.Dim)
		defer v.Free()
		Rademacher(v, r.o.Seed, r.o.Sample, first)
		return r.matrix.oracle(Span, r.o.Share).Apply(ctx, r.sketch.Rows(first, first+n), v, nil)
	case Projected:
		return r.project(ctx, first, n)
	}
	if r.byMoments(p) {
		return r.addMoments(ctx, first, n)
	}
	signs := r.dev.Alloc(n, r.plan.Dim)
	defer signs.Free()
	Rademacher(signs, r.o.Seed, r.o.Sample, r.plan.Sketch+first)
	v := signs
	oracle := r.matrix.oracle(r.plan.Needs, r.o.Share)
	if r.rank > 0 {
		v = r.dev.Alloc(n, r.plan.Dim)
		defer v.Free()
		Deflate(v, signs, r.basis.Rows(0, r.rank))
	}
	mv, left := r.dev.Alloc(n, r.plan.Dim), make([]float64, n)
	defer mv.Free()
	if err := oracle.Apply(ctx, mv, v, left); err != nil {
		return err
	}
	if r.o.Seen != nil {
		r.o.Seen(first, v, mv)
	}
	var control func(g, image array.Batch)
	if r.rank == 0 {
		control = r.matrix.Control
	}
	r.tally.AddResidual(first, v, mv, left, control)
	if r.leverages != nil {
		r.leverages.random(first, signs, mv)
	}
	return r.dev.Err()
}

func (r *Run) project(ctx context.Context, first, n int) error {
	var v array.Batch
	if r.plan.Basis == UnitBasis {
		v = r.dev.Alloc(n, r.plan.Dim)
		defer v.Free()
		UnitVectors(v, first)
	} else {
		v = r.basis.Rows(first, first+n)
	}
	mv := r.dev.Alloc(n, r.plan.Dim)
	defer mv.Free()
	left := r.basisLeft[first : first+n]
	if err := r.matrix.oracle(r.plan.Needs, r.basisShare()).Apply(ctx, mv, v, left); err != nil {
		return err
	}
	r.tally.AddProjected(first, v, mv, left)
	return r.dev.Err()
}

// basisShare is the share of vectors of the basis. They are few and of length 1, while a random
// probe has length sqrt(d): the error of all of them together is at most half of that allowed for a
// probe, and that of each at most a thousandth of the largest value of its form.
func (r *Run) basisShare() float64 {
	const most = 1e-3
	d := float64(r.plan.Dim)
	return min(r.o.Share*d/(2*float64(max(r.rank, 1))), most*math.Sqrt(2*d))
}

// EndSketch ends the sketch, all of which must be done: it computes the basis and frees the memory
// that no later phase needs. Plans without a sketch call it first.
func (r *Run) EndSketch() error {
	if r.plan.Basis == SketchBasis {
		r.basis = r.dev.Alloc(r.plan.Sketch, r.plan.Dim)
		var err error
		if r.rank, err = Orthonormalize(r.basis, r.sketch); err != nil {
			return err
		}
	}
	r.sketch.Free()
	r.sketch = array.Batch{}
	r.tally = newTally(r.plan, r.rank, r.o.Seed)
	r.basisLeft = make([]float64, r.tally.Projected())
	return nil
}

// Estimate returns the estimate when all phases are done. It may be called again, also after
// [Run.Grow]. It is an error if a vector is missing or a number is not finite.
func (r *Run) Estimate() (Estimate, error) { return r.tally.Estimate() }

// Diagonal is the diagonal of M where the plan queries all unit vectors, as the exact trace does, and
// all have been; nil elsewhere.
func (r *Run) Diagonal() []float64 {
	if !r.plan.Exact() || r.tally == nil || slices.Contains(r.tally.projected.known, false) {
		return nil
	}
	return slices.Clone(r.tally.projected.quad)
}

// Missing is the number of residual probes to add until [Estimate.Error] is at most target, by
// Stein's two-stage procedure: from the standard deviation s of the first m_0 probes alone there
// must be
//
//	m = (Widened(m_0 - 1) s / target)^2
//
// in all. Given s, which is independent of the mean of the m_0 where they are normal, the mean of
// all m is normal with variance sigma^2/m. Its distance from tr M, divided by s/sqrt(m), has
// Student's distribution with m_0 - 1 degrees of freedom, and the interval has the stated
// probability. A rule that stops when the spread of all probes so far is small enough stops more
// often when that spread is too small, and understates it (C. Stein, A two-sample test for a linear
// hypothesis whose power is independent of the variance, Annals of Mathematical Statistics 16,
// 1945).
//
// Probes cannot reduce the truncation: it counts for at most three quarters of the target's square.
func (r *Run) Missing(target float64) (int, error) { return r.tally.missing(target) }

// Grow adds n residual probes, whose numbers follow those of the existing ones. No other call may
// be in progress. The estimator must be a random one.
func (r *Run) Grow(n int) { r.tally.Grow(n) }

// Free frees the run's device memory. No other call may be in progress, and none may follow.
func (r *Run) Free() {
	array.Free(r.sketch, r.basis)
	r.sketch, r.basis = array.Batch{}, array.Batch{}
}
