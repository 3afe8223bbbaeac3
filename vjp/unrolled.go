package vjp

import (
	"context"
	"fmt"
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// unrolled is the tape of a solve, differentiated in reverse. While it fits the
// budget every iteration's prox derivative is kept. When it does not, the
// records are dropped and only snapshots of the state stay, evenly spread; the
// reverse sweep then computes the records again, segment by segment, halving a
// segment whose own records would not fit. Since the iterations are
// deterministic the result is the same to the last bit.
type unrolled struct {
	Plain

	m      method
	y      array.Batch
	coefs  []coefficients
	budget int64

	records     []prox.Derivative // one an iteration, or none at all
	recordBytes int64             // all records together
	largest     int64             // the largest record seen

	checkpointed bool
	stride       int // iterations between snapshots
	snapshots    []snapshot

	levelsOnce sync.Once
	levels     []level

	// A checkpointed sweep holds up to budget bytes of its own: one at a time.
	sweeping sync.Mutex
}

// snapshot is the state before iteration k.
type snapshot struct {
	k     int
	state array.Batch
}

// newUnrolled starts a tape of at most budget bytes, and of half of what a device has left: the other
// half is for the sweeps.
func newUnrolled(m method, y array.Batch, budget int64) *unrolled {
	dev := m.problem().Device
	if free, bounded := dev.Available(); bounded {
		budget = max(min(budget, free/2), 1)
	}
	t := &unrolled{m: m, budget: budget, stride: 1, y: dev.Alloc(1, y.N())}
	dev.Copy(t.y, y)
	t.Apply = t.VJP
	return t
}

func (t *unrolled) Kind() string { return "unrolled" }

func (t *unrolled) stateBytes() int64 {
	_, p := t.m.problem().A.Dims()
	return 8 * int64(p) * int64(t.m.width())
}

// Bytes is the memory of the records and snapshots, and of the levels once a
// sweep has been done.
func (t *unrolled) Bytes() int64 {
	bytes := t.recordBytes + int64(len(t.snapshots))*t.stateBytes()
	for i := range t.levels {
		bytes += t.levels[i].op.Bytes()
	}
	return bytes
}

// ProbeBytes counts the adjoint state, its seed and scratch, and two vectors of
// length d.
func (t *unrolled) ProbeBytes() int64 {
	d, p := t.m.problem().A.Dims()
	return 8 * (int64(t.m.width()+2)*int64(p) + 2*int64(d))
}

// before is called with the state that iteration len(t.coefs) starts from.
func (t *unrolled) before(w *work) {
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
				s.state.Free()
			}
		}
		t.snapshots = kept
		if k%t.stride != 0 {
			return
		}
	}
	s := snapshot{k, t.m.problem().Device.Alloc(w.state.K(), w.state.N())}
	t.m.problem().Device.Copy(s.state, w.state)
	t.snapshots = append(t.snapshots, s)
}

// after is called when iteration len(t.coefs) is done.
func (t *unrolled) after(c coefficients, j prox.Derivative) {
	t.coefs = append(t.coefs, c)
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

func (t *unrolled) dropRecords() {
	for _, j := range t.records {
		j.Release()
	}
	t.records, t.recordBytes = nil, 0
}

// Release frees the tape.
func (t *unrolled) Release() {
	t.dropRecords()
	for _, s := range t.snapshots {
		s.state.Free()
	}
	t.snapshots = nil
	for i := range t.levels {
		t.levels[i].release()
	}
	t.levels = nil
	t.y.Free()
	t.y = array.Batch{}
}

// adjoint is the reverse sweep's state for a batch of k probes, on the n
// coordinates that the sweep can reach at the time.
type adjoint struct {
	dev     array.Device
	op      linops.Operator // A, or its columns at the coordinates of idx
	idx     array.Index     // nil for all coordinates
	s       [2]array.Batch  // the adjoint of the method's state, k x n each
	zero    [2]bool         // s[i] is 0 and its memory may hold anything
	scratch array.Batch     // k x n
	seed    array.Batch     // k x n: A* v, the adjoint of the estimate
	q       array.Batch     // k x d
	mask    array.Batch     // 1 x n
	last    bool            // the next iteration to reverse is the last one done
}

// resize gives the sweep's vectors the coordinates of another level. Those that
// it already reached keep their values, new ones are 0.
func (a *adjoint) resize(op linops.Operator, idx array.Index, n, full int) {
	k := a.q.K()
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
	for i := range a.s {
		if fresh || !a.s[i].IsZero() {
			a.s[i] = move(a.s[i], !fresh && !a.zero[i])
		}
	}
	a.scratch = move(a.scratch, false)
	a.seed = move(a.seed, !fresh && a.last)
	if idx != nil {
		a.mask.Free()
		a.mask = a.dev.Alloc(1, n)
	}
	a.op, a.idx = op, idx
}

// apply sets dst = J z on the sweep's coordinates.
func (a *adjoint) apply(j prox.Derivative, dst, z array.Batch) {
	if a.idx == nil {
		j.Apply(dst, z)
		return
	}
	a.dev.Gather(a.mask, j.Diagonal(), a.idx)
	a.dev.Mul(dst, z, a.mask)
}

func (a *adjoint) free() {
	for _, b := range []array.Batch{a.s[0], a.s[1], a.seed, a.scratch, a.q, a.mask} {
		b.Free()
	}
}

// VJP sets dst_i = (D mu_hat)* v_i by one reverse sweep over the tape.
func (t *unrolled) VJP(ctx context.Context, dst, v array.Batch) error {
	p := t.m.problem()
	dev := p.Device
	d, dim := p.A.Dims()
	if dst.K() != v.K() || dst.N() != d || v.N() != d {
		panic(fmt.Sprintf("vjp: VJP of %s into %s with d = %d", v, dst, d))
	}
	k := v.K()
	dev.Fill(dst, 0)
	if k == 0 {
		return nil
	}
	a := &adjoint{dev: dev, last: true, zero: [2]bool{true, true}, q: dev.Alloc(k, d)}
	defer a.free()
	levels := t.activeLevels()
	if n := len(levels); n > 0 {
		a.resize(levels[n-1].op, levels[n-1].idx, levels[n-1].n, dim)
	} else {
		a.resize(p.A, nil, dim, dim)
	}
	a.op.Adjoint(a.seed, v)
	if err := t.sweep(ctx, dst, a, levels); err != nil {
		return err
	}
	return dev.Err()
}

// activeLevels finds the tape's levels at the first sweep.
func (t *unrolled) activeLevels() []level {
	t.levelsOnce.Do(func() {
		if !t.checkpointed {
			t.levels = newLevels(t.m.problem(), t.records, t.m.lookback(), t.budget-t.recordBytes)
		}
	})
	return t.levels
}

func (t *unrolled) sweep(ctx context.Context, dst array.Batch, a *adjoint, levels []level) error {
	if !t.checkpointed {
		hi := len(t.records)
		for i := len(levels) - 1; i >= 0; i-- {
			lo := levels[i].from
			if err := t.reverseSegment(ctx, dst, a, t.records[lo:hi], lo); err != nil {
				return err
			}
			_, p := t.m.problem().A.Dims()
			if i > 0 {
				a.resize(levels[i-1].op, levels[i-1].idx, levels[i-1].n, p)
			} else if lo > 0 {
				a.resize(t.m.problem().A, nil, p, p)
			}
			hi = lo
		}
		return t.reverseSegment(ctx, dst, a, t.records[:hi], 0)
	}
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	w := newWork(t.m, t.y)
	defer w.free()
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
		zero := t.m.problem().Device.Alloc(w.state.K(), w.state.N())
		defer zero.Free()
		t.m.problem().Device.Fill(zero, 0)
		return t.replay(ctx, dst, a, w, 0, hi, zero, room)
	}
	return nil
}

// replay computes iterations lo to hi-1 again from the state before lo and
// reverses them, within room bytes if that is possible at all.
func (t *unrolled) replay(ctx context.Context, dst array.Batch, a *adjoint, w *work, lo, hi int, from array.Batch, room int64) error {
	dev := t.m.problem().Device
	run := func(to int, record bool) (records []prox.Derivative, err error) {
		dev.Copy(w.state, from)
		for k := lo; k < to; k++ {
			if err := ctx.Err(); err != nil {
				return records, err
			}
			w.c, w.iteration = t.coefs[k], k
			j, err := t.m.step(ctx, w, true)
			if err != nil {
				return records, err
			}
			if !record {
				j.Release()
			} else {
				records = append(records, j)
				t.largest = max(t.largest, j.Bytes())
			}
			t.rescale(w)
		}
		return records, nil
	}
	if n := int64(hi - lo); n > 1 && n*t.largest > room {
		mid := (lo + hi) / 2
		if _, err := run(mid, false); err != nil {
			return err
		}
		state := dev.Alloc(w.state.K(), w.state.N())
		defer state.Free()
		dev.Copy(state, w.state)
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

// rescale applies what measure did to the state after the step.
func (t *unrolled) rescale(w *work) {
	if f := w.c.rescale; f != 0 && f != 1 {
		u := w.state.Rows(1, 2)
		t.m.problem().Device.Lin(u, f, u, 0, array.Batch{})
	}
}

// reverseSegment reverses the iterations from first on whose records are given.
func (t *unrolled) reverseSegment(ctx context.Context, dst array.Batch, a *adjoint, records []prox.Derivative, first int) error {
	for i := len(records) - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		k := first + i
		if err := t.m.reverse(ctx, dst, a, t.coefs[k], records[i], k); err != nil {
			return err
		}
		a.last = false
	}
	return nil
}
