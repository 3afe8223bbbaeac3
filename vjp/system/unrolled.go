package system

import (
	"context"
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/solve"
)

// Unrolled is the tape of a solve, differentiated in reverse. While it fits the budget every
// iteration's prox derivative is kept. When it no longer does, the records are dropped and only
// evenly spaced snapshots of the state are kept; the reverse sweep then computes the records again,
// segment by segment, halving a segment whose own records would not fit. Since the iterations are
// deterministic the result is the same to the last bit.
type Unrolled struct {
	direct

	m      solve.Method
	traits solve.Traits
	y      array.Batch
	coefs  []solve.Coefficients
	budget int64

	records     []prox.Derivative // one an iteration, or none at all
	recordBytes int64             // all records together
	largest     int64             // the largest record seen

	checkpointed bool
	stride       int // iterations between snapshots
	snapshots    []snapshot

	levelsOnce sync.Once
	levels     []level

	// A checkpointed sweep holds up to budget bytes of its own, so only one runs at a time.
	sweeping sync.Mutex
}

// snapshot is the state before iteration k.
type snapshot struct {
	k     int
	state []array.Batch
}

func copyState(state []array.Batch) []array.Batch {
	to := make([]array.Batch, len(state))
	for i, s := range state {
		to[i] = s.Device().Alloc(s.K(), s.N())
		s.Device().Copy(to[i], s)
	}
	return to
}

// NewUnrolled starts a tape of at most budget bytes, and at most half of the device's free memory:
// the other half is for the sweeps.
func NewUnrolled(m solve.Method, y array.Batch, budget int64) *Unrolled {
	dev := y.Device()
	if free, bounded := dev.Available(); bounded {
		budget = max(min(budget, free/2), 1)
	}
	t := &Unrolled{m: m, traits: m.Traits(), budget: budget, stride: 1, y: dev.Alloc(1, y.N())}
	dev.Copy(t.y, y)
	return t
}

func (t *Unrolled) stateBytes() int64 {
	values := 0
	for _, n := range t.traits.State {
		values += n
	}
	return max(8*int64(values), 1)
}

// Bytes is the memory of the records and snapshots, and of the levels once a
// sweep has been done.
func (t *Unrolled) Bytes() int64 {
	bytes := t.recordBytes + int64(len(t.snapshots))*t.stateBytes()
	for i := range t.levels {
		bytes += t.levels[i].op.Bytes()
	}
	return bytes
}

// ProbeBytes counts the adjoint state, its seed and scratch, and two vectors of
// length d.
func (t *Unrolled) ProbeBytes() int64 {
	d, p := t.m.Problem().A.Dims()
	return t.stateBytes() + 8*(2*int64(p)+2*int64(d))
}

// Before is called with the state that iteration len(t.coefs) starts from.
func (t *Unrolled) Before(state []array.Batch) {
	k := len(t.coefs)
	if !t.checkpointed || k%t.stride != 0 {
		return
	}
	room := max(int(t.budget/2/t.stateBytes()), 2)
	if len(t.snapshots) == room {
		// Keep every other one: those at multiples of the doubled stride.
		t.stride *= 2
		kept := t.snapshots[:0]
		for _, s := range t.snapshots {
			if s.k%t.stride == 0 {
				kept = append(kept, s)
			} else {
				array.Free(s.state...)
			}
		}
		t.snapshots = kept
		if k%t.stride != 0 {
			return
		}
	}
	t.snapshots = append(t.snapshots, snapshot{k, copyState(state)})
}

// After is called when iteration len(t.coefs) is done.
func (t *Unrolled) After(c solve.Coefficients, j prox.Derivative) {
	t.coefs = append(t.coefs, c)
	j = recorded(j)
	if t.checkpointed {
		j.Release()
		return
	}
	t.records = append(t.records, j)
	t.recordBytes += j.Bytes()
	t.largest = max(t.largest, j.Bytes())
	if t.recordBytes > t.budget {
		t.dropRecords()
		t.checkpointed = true
	}
}

// recorded is j, or a placeholder on the tape for a step without a proximal operator.
func recorded(j prox.Derivative) prox.Derivative {
	if j == nil {
		return none{}
	}
	return j
}

// none is the record of a step without a proximal operator.
type none struct{ prox.Derivative }

func (none) Diagonal() array.Batch { return array.Batch{} }
func (none) Bytes() int64          { return 0 }
func (none) Release()              {}

func (t *Unrolled) dropRecords() {
	for _, j := range t.records {
		j.Release()
	}
	t.records, t.recordBytes = nil, 0
}

func (t *Unrolled) Release() {
	t.dropRecords()
	for _, s := range t.snapshots {
		array.Free(s.state...)
	}
	t.snapshots = nil
	for i := range t.levels {
		t.levels[i].release()
	}
	t.levels = nil
	t.y.Free()
	t.y = array.Batch{}
}

// adjoint is the reverse sweep's state for a batch of probes, on the coordinates that the sweep can
// reach at the time.
type adjoint struct {
	solve.Adjoint
	dev  array.Device
	idx  array.Index // nil for all coordinates
	mask array.Batch // 1 x n, on the coordinates of idx
}

// newAdjoint allocates a sweep of k probes over all coordinates; where levels follow, on none yet.
func newAdjoint(t *Unrolled, k int, levels bool) *adjoint {
	p := t.m.Problem()
	d, dim := p.A.Dims()
	dev := t.y.Device()
	a := &adjoint{dev: dev}
	a.A, a.Last, a.Image = p.A, true, dev.Alloc(k, d)
	a.Apply = a.apply
	a.State, a.Zero = make([]array.Batch, len(t.traits.State)), make([]bool, len(t.traits.State))
	for i := range a.Zero {
		a.Zero[i] = true
	}
	if levels {
		return a
	}
	for i, n := range t.traits.State {
		a.State[i] = dev.Alloc(k, n)
		dev.Fill(a.State[i], 0)
	}
	a.Scratch, a.Seed = dev.Alloc(k, dim), dev.Alloc(k, dim)
	return a
}

// resize gives the sweep's vectors the coordinates of another level. Those that
// it already reached keep their values, new ones are 0.
func (a *adjoint) resize(op linops.Operator, idx array.Index, n, full int) {
	k := a.Image.K()
	move := func(b array.Batch, keep bool) array.Batch {
		to := a.dev.Alloc(k, n)
		if keep {
			wide := to
			if idx != nil {
				wide = a.dev.Alloc(k, full)
				defer wide.Free()
			}
			a.dev.Scatter(wide, b, a.idx)
			if idx != nil {
				a.dev.Gather(to, wide, idx)
			}
		}
		b.Free()
		return to
	}
	fresh := a.idx == nil // nothing to keep yet
	for i := range a.State {
		a.State[i] = move(a.State[i], !fresh && !a.Zero[i])
	}
	a.Scratch = move(a.Scratch, false)
	a.Seed = move(a.Seed, !fresh && a.Last)
	if idx != nil {
		a.mask.Free()
		a.mask = a.dev.Alloc(1, n)
	}
	a.A, a.idx = op, idx
}

func (a *adjoint) apply(j prox.Derivative, dst, z array.Batch) {
	if a.idx == nil {
		j.Apply(dst, z)
		return
	}
	a.dev.Gather(a.mask, j.Diagonal(), a.idx)
	a.dev.Mul(dst, z, a.mask)
}

func (a *adjoint) free() {
	array.Free(a.State...)
	array.Free(a.Seed, a.Scratch, a.Image, a.mask)
}

// Apply sets dst_i = (D mu_hat)* w_i by one reverse sweep over the tape.
func (t *Unrolled) Apply(ctx context.Context, dst, w array.Batch, _ Goal, left []float64) error {
	clear(left)
	dev := t.y.Device()
	_, dim := t.m.Problem().A.Dims()
	dev.Fill(dst, 0)
	levels := t.activeLevels()
	a := newAdjoint(t, w.K(), len(levels) > 0)
	defer a.free()
	if n := len(levels); n > 0 {
		a.resize(levels[n-1].op, levels[n-1].idx, levels[n-1].n, dim)
	}
	a.A.Adjoint(a.Seed, w)
	if err := t.sweep(ctx, dst, a, levels); err != nil {
		return err
	}
	return dev.Err()
}

func (t *Unrolled) activeLevels() []level {
	t.levelsOnce.Do(func() {
		if !t.checkpointed && t.traits.Lookback > 0 {
			p := t.m.Problem()
			p.Device = t.y.Device()
			t.levels = newLevels(p, t.records, t.traits.Lookback, t.budget-t.recordBytes)
		}
	})
	return t.levels
}

func (t *Unrolled) sweep(ctx context.Context, dst array.Batch, a *adjoint, levels []level) error {
	if !t.checkpointed {
		hi := len(t.records)
		for i := len(levels) - 1; i >= 0; i-- {
			lo := levels[i].from
			if err := t.reverseSegment(ctx, dst, a, t.records[lo:hi], lo); err != nil {
				return err
			}
			_, p := t.m.Problem().A.Dims()
			if i > 0 {
				a.resize(levels[i-1].op, levels[i-1].idx, levels[i-1].n, p)
			} else if lo > 0 {
				a.resize(t.m.Problem().A, nil, p, p)
			}
			hi = lo
		}
		return t.reverseSegment(ctx, dst, a, t.records[:hi], 0)
	}
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	w, err := solve.Begin(t.m, t.traits, t.y, array.Batch{})
	if err != nil {
		return err
	}
	defer w.Release()
	first := copyState(w.State)
	defer array.Free(first...)
	room := t.budget - int64(len(t.snapshots))*t.stateBytes()
	hi := len(t.coefs)
	for i := len(t.snapshots) - 1; i >= 0; i-- {
		s := t.snapshots[i]
		if err := t.replay(ctx, dst, a, w, s.k, hi, s.state, room); err != nil {
			return err
		}
		hi = s.k
	}
	if hi > 0 {
		return t.replay(ctx, dst, a, w, 0, hi, first, room)
	}
	return nil
}

// replay computes iterations lo to hi-1 again from the state before lo and reverses them, within
// room bytes if possible.
func (t *Unrolled) replay(ctx context.Context, dst array.Batch, a *adjoint, w *solve.Work, lo, hi int,
	from []array.Batch, room int64) error {
	report := progress.From(ctx)
	run := func(to int, record bool) (records []prox.Derivative, err error) {
		for i, s := range from {
			s.Device().Copy(w.State[i], s)
		}
		for k := lo; k < to; k++ {
			if err := ctx.Err(); err != nil {
				return records, err
			}
			w.C, w.K = t.coefs[k], k
			report(progress.Report{Stage: progress.Reverse, Step: len(t.coefs) - hi, Steps: len(t.coefs),
				Active: dst.K()})
			j, err := t.m.Step(ctx, w, true)
			if err != nil {
				return records, err
			}
			j = recorded(j)
			if !record {
				j.Release()
			} else {
				records = append(records, j)
				t.largest = max(t.largest, j.Bytes())
			}
		}
		return records, nil
	}
	if n := int64(hi - lo); n > 1 && n*t.largest > room {
		mid := (lo + hi) / 2
		if _, err := run(mid, false); err != nil {
			return err
		}
		state := copyState(w.State)
		defer array.Free(state...)
		if err := t.replay(ctx, dst, a, w, mid, hi, state, room-t.stateBytes()); err != nil {
			return err
		}
		return t.replay(ctx, dst, a, w, lo, mid, from, room-t.stateBytes())
	}
	records, err := run(hi, true)
	defer func() {
		for _, j := range records {
			j.Release()
		}
	}()
	if err != nil {
		return err
	}
	return t.reverseSegment(ctx, dst, a, records, lo)
}

func (t *Unrolled) reverseSegment(ctx context.Context, dst array.Batch, a *adjoint, records []prox.Derivative,
	first int) error {
	report := progress.From(ctx)
	for i := len(records) - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		a.K = first + i
		report(progress.Report{Stage: progress.Reverse, Step: len(t.coefs) - 1 - a.K, Steps: len(t.coefs),
			Active: dst.K()})
		a.C = t.coefs[a.K]
		if err := t.m.Reverse(ctx, dst, &a.Adjoint, records[i]); err != nil {
			return err
		}
		a.Last = false
	}
	return nil
}
