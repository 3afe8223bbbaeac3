package stages

import (
	"context"
	"sync"

	"surepipe/hutch"
	"surepipe/vjp"
)

// Query is the step that applies the Jacobian to the probes of one phase: random vectors of the
// sketch, vectors of the basis, or random vectors projected off the basis. It passes on probes of
// other phases.
func Query(phase hutch.Phase) Step[Probes, Probes] {
	return func(ctx context.Context, p Probes, send func(Probes) error) error {
		if job := p.Job; p.Phase == phase && p.Count > 0 && !job.failed() {
			if err := job.settle(ctx, job.query(ctx, p)); err != nil {
				return err
			}
		}
		return send(p)
	}
}

// sweeper says how the probes of a job are swept.
type sweeper struct {
	// The largest number of probes that travel together.
	batch int
	// Holds one sweep at a time, where sweeps are conjugate gradients of so many coordinates that the device's
	// processors share each of them; nil elsewhere.
	turn chan struct{}
	// wide is held by a sweep of large probes.
	wide sync.Mutex
}

// query does a batch of probes, when it is its turn.
func (j *Job) query(ctx context.Context, p Probes) error {
	if j.turn != nil {
		select {
		case j.turn <- struct{}{}:
			defer func() { <-j.turn }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx = j.settings.reporting(ctx, j.Index)
	return j.sweeps(ctx, p.Count, j.probeBytes(p.Phase),
		func(from, n int) error { return j.run.Do(ctx, p.Phase, p.First+from, n) })
}

// fewest is the size of the smallest sweep: from two probes on, the bits of each are the same in
// any batch.
const fewest = 2

// sweepBytes is the memory of a sweep on a device without a bound where one probe takes a large part
// of it: such probes are swept one sweep at a time, since the device shares each among all
// processors, and those that take more than all of it one probe at a time.
const sweepBytes = 1 << 29

// probeBytes is the memory of a probe of a phase: that of the sweep for it, and the probe and its
// image unless it is used by its moments.
func (j *Job) probeBytes(p hutch.Phase) int64 {
	bytes, whole := sweepMemory(j.solution.Linearization, j.moments, j.settings.Plan, p)
	if whole {
		bytes += 16 * int64(len(j.Y))
	}
	return bytes
}

// sweepMemory is the working memory of a sweep for each probe of a phase, for the moments m, and whether the probe and
// its image are vectors.
func sweepMemory(l vjp.Linearization, m hutch.Moments, plan hutch.Plan, p hutch.Phase) (bytes int64, whole bool) {
	if plan.ByMoments(p, m) {
		return m.Bytes, false
	}
	return l.ProbeBytes(), true
}

// sweeps divides count probes of a job, each of so many bytes, into sweeps for which the device has memory, in
// order, and calls sweep for each while that memory is reserved. A device without a bound takes all at once,
// unless a probe is large (sweepBytes).
func (j *Job) sweeps(ctx context.Context, count int, each int64, sweep func(first, n int) error) error {
	few, most := fewest, count
	if _, bounded := j.view.Available(); !bounded && each > sweepBytes/8 {
		if each > sweepBytes {
			few = 1
		}
		most = max(few, int(sweepBytes/each))
		j.wide.Lock()
		defer j.wide.Unlock()
	}
	for first := 0; first < count; {
		left := min(count-first, most)
		granted, release, err := j.view.Reserve(ctx, each*int64(min(left, few)), each*int64(left))
		if err != nil {
			return err
		}
		n := min(left, max(few, int(granted/each)))
		err = sweep(first, n)
		release()
		if err != nil {
			return err
		}
		first += n
	}
	return nil
}
