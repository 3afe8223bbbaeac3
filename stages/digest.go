package stages

import (
	"context"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/parallel"
	"surepipe/loss"
	"surepipe/risk"
)

// Comparing has results leave a [risk.Digest], for comparisons by a criterion.
type Comparing struct {
	// Projection is that of vectors of the observations' length, on the device of the problem.
	Projection *hutch.Projection
	// Frame holds the ranges of all Jacobians where these are in a subspace of small dimension; else nil,
	// and probes take its place.
	Frame *hutch.Frame
	// Criterion is that of the comparisons: for one that needs the diagonal the digest holds the left-out errors too.
	Criterion risk.Criterion
	// Seed is that of the probes.
	Seed uint64

	once   sync.Once
	mapped *array.Mapped
}

// common are the first k probes with the maps of their images, made when they are first asked for; or nil, where
// another number has been asked for.
func (c *Comparing) common(k int) *array.Mapped {
	c.once.Do(func() { c.mapped = c.Projection.Mapped(c.Seed, k) })
	if c.mapped != nil && c.mapped.K() != k {
		return nil
	}
	return c.mapped
}

// Free gives the memory back.
func (c *Comparing) Free() {
	c.Projection.Free()
	if c.Frame != nil {
		c.Frame.Free()
	}
	if c.mapped != nil {
		c.mapped.Free()
	}
}

// traces are what the stages keep for the digest of a job.
type traces struct {
	// probes is the number of common probes, 0 with a frame. images has the projection of each one's image; sum is
	// their sum, or the coordinates by the frame, where these are known without the images, else nil. inFlow says that
	// they are among those of the trace's estimate, and then forms are the quadratic forms of its first probes.
	probes        int
	images, forms []float64
	inFlow        bool
	sum           []float64
	residual      []float64 // nil where there are no images, for other losses than the squared one
	losses        []float64 // of length d, or of units, where they are known
	units         int       // 0 for single observations
	influences    []float64 // of groups of probes on leave-one-out, where it comes from them
}

func (j *Job) open(residual array.Batch) {
	c := j.settings.Compare
	if c == nil {
		return
	}
	t := &traces{probes: hutch.CommonProbes(len(j.Y))}
	plan, forms := j.settings.Plan, 0
	if plan.Basis == hutch.NoBasis && plan.Sketch == 0 {
		// Fits with a closed form have the same number.
		t.probes, t.inFlow = min(t.probes, plan.Residual), !j.known()
		forms = min(hutch.ProjectionProbes, plan.Residual)
	}
	j.traces = t
	if !loss.Quadratic(j.problem.Loss) {
		t.probes, t.inFlow = 0, false
		return
	}
	if c.Frame != nil {
		t.probes = 0
	}
	t.images, t.forms = make([]float64, t.probes*hutch.ProjectionSize), make([]float64, forms)
	t.residual = c.Projection.Vector(residual)
}

// seen is what a run calls with its residual probes, nil where they are not those of the digest.
func (j *Job) seen() func(first int, v, mv array.Batch) {
	if j.traces == nil || !j.traces.inFlow && !j.showsCommon() {
		return nil
	}
	return j.keepImages
}

// keepImages keeps what a digest needs of the probes from first on. Different probes use different
// memory, so no lock is needed.
func (j *Job) keepImages(first int, v, mv array.Batch) {
	t := j.traces
	if n := min(mv.K(), len(t.forms)-first); t.inFlow && n > 0 {
		j.view.Dot(t.forms[first:first+n], v.Rows(0, n), mv.Rows(0, n))
	}
	if n := min(mv.K(), t.probes-first); n > 0 {
		j.settings.Compare.Projection.Images(t.images[first*hutch.ProjectionSize:(first+n)*hutch.ProjectionSize],
			first, mv.Rows(0, n))
	}
}

// showsCommon reports that the common probes are the first ones of those for leave-one-out, which are
// done in the same stage.
func (j *Job) showsCommon() bool {
	t := j.traces
	return t != nil && t.residual != nil && j.early && t.probes <= j.plan.Residual
}

// commonImages applies the Jacobian to the common probes, where they are not among those of the
// trace's estimate.
func (j *Job) commonImages(ctx context.Context) error {
	t := j.traces
	switch {
	case t == nil || t.residual == nil:
		return nil
	case j.settings.Compare.Frame != nil:
		return j.frame(ctx, j.settings.Compare.Frame)
	case t.inFlow || j.showsCommon() || j.mapCommon():
		return nil
	}
	return j.sweeps(ctx, t.probes, j.solution.Linearization.ProbeBytes()+16*int64(len(j.Y)), func(first, n int) error {
		v, mv := j.view.Alloc(n, len(j.Y)), j.view.Alloc(n, len(j.Y))
		defer array.Free(v, mv)
		hutch.Rademacher(v, j.settings.Seed, uint64(j.Index), first)
		if err := j.shown().Apply(ctx, mv, v, nil); err != nil {
			return err
		}
		j.keepImages(first, v, mv)
		return j.view.Err()
	})
}

// mapCommon keeps the sum of the projections without the images, and reports whether it could: in memory without a
// bound, as a map of each column is kept.
func (j *Job) mapCommon() bool {
	mapped := j.solution.Linearization.Closed().Mapped
	if _, bounded := j.view.Available(); bounded || mapped == nil || j.Index != 0 {
		return false
	}
	v := j.settings.Compare.common(j.traces.probes)
	if v == nil {
		return false
	}
	j.traces.sum = mapped(v)
	return j.traces.sum != nil
}

func (j *Job) frame(ctx context.Context, f *hutch.Frame) error {
	v := f.Basis()
	if products := j.solution.Linearization.Closed().Products; products != nil {
		if known := products(v); known != nil {
			j.traces.sum = f.Coordinates(known)
			return j.view.Err()
		}
	}
	mv := j.view.Alloc(v.K(), v.N())
	defer mv.Free()
	err := j.sweeps(ctx, v.K(), j.solution.Linearization.ProbeBytes(), func(first, n int) error {
		return j.shown().Apply(ctx, mv.Rows(first, first+n), v.Rows(first, first+n), nil)
	})
	if err != nil {
		return err
	}
	j.traces.sum = f.Coordinates(f.Products(mv))
	return j.view.Err()
}

// shown are images of the Jacobian by the solver's own factors where these serve.
func (j *Job) shown() hutch.Oracle {
	closed := j.solution.Linearization.Closed()
	return func(ctx context.Context, dst, v array.Batch, left []float64) error {
		if closed.Images != nil && closed.Images(dst, v) {
			return nil
		}
		want := hutch.Accuracy{Need: hutch.Forms, Share: formShare(j.settings)}
		return j.solution.Linearization.Apply(ctx, dst, v, want, left)
	}
}

func (j *Job) influenced(influences []float64) {
	if j.traces != nil && j.settings.Compare.Criterion.Rule().Diagonal {
		j.traces.influences = influences
	}
}

// leftOut keeps the errors of predicting each observation, of which leave-one-out is the mean, by the
// leverages or their estimates.
func (j *Job) leftOut(diagonal []float64, left risk.LeftOut) {
	if j.settings.NoMuHat {
		return
	}
	losses := make([]float64, len(diagonal))
	parallel.Ranges(len(losses), parallel.Share, func(from, to int) {
		for i := from; i < to; i++ {
			losses[i] = left(i, diagonal[i])
		}
	})
	j.keepLeftOut(losses)
}

func (j *Job) keepLeftOut(losses []float64) {
	j.left = losses
	if j.traces != nil && j.settings.Compare.Criterion.Rule().Diagonal {
		j.traces.losses = j.left
	}
}

func (j *Job) digest(r Risk) *risk.Digest {
	t, c := j.traces, j.settings.Compare
	if t == nil {
		return nil
	}
	d := &risk.Digest{D: r.D, Divergence: r.Trace.Trace, StdErr: r.Trace.StdErr, Truncation: r.Trace.Truncation}
	if c := r.Correlated; c != nil {
		d.Trace, d.ByRho = c.Trace, c.ByRho
	}
	pack := func(x []float64) *risk.Packed {
		p := risk.Pack(x)
		return &p
	}
	if !r.Trace.Exact {
		d.Queries = r.Trace.Queries
	}
	if t.inFlow {
		d.Forms = pack(t.forms)
	}
	if t.residual != nil {
		if t.sum == nil {
			t.sum = make([]float64, hutch.ProjectionSize)
			for one := range slices.Chunk(t.images, hutch.ProjectionSize) {
				floats.Add(t.sum, one)
			}
		}
		d.Residual, d.Images, d.Probes = pack(t.residual), pack(t.sum), max(t.probes, 1)
	}
	if t.losses != nil {
		b := j.view.Put(t.losses, 1, len(t.losses))
		defer b.Free()
		on := c.Projection
		if d.Units = t.units; t.units > 0 {
			on = hutch.NewProjection(j.view, t.units)
			defer on.Free()
		}
		d.Losses = pack(on.Vector(b))
	}
	if t.influences != nil {
		d.Influences = pack(t.influences)
	}
	return d
}
