package vjp

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// coefficients are the numbers that fix one iteration. They may have been
// chosen by looking at y; the derivative holds them constant.
type coefficients struct {
	eta      float64 // step size
	momentum float64 // FISTA: (tau_k - 1)/tau_{k+1}, 0 after a restart
	rescale  float64 // ADMM: factor on u after the iteration, where eta changes
}

// A method is an iterative algorithm written as a recurrence
//
//	s_{k+1} = F_k(s_k, y),   s_0 = 0,
//
// where the state s holds width() vectors of length p and F_k is fixed by its
// coefficients. It knows one iteration forward and the same iteration in
// reverse; solve and unrolled know the rest.
type method interface {
	name() string
	problem() Problem
	// norm2 is an upper bound of ||A||^2.
	norm2() float64
	// width is the number of vectors of length p in the state.
	width() int
	// estimates is how many vectors of the state, the first ones, are estimates of b.
	estimates() int
	// lookback is how many iterations back the adjoint of an iteration's input
	// can reach before a prox derivative multiplies it; -1 if there is no bound.
	lookback() int
	// start returns the first iteration's coefficients.
	start() coefficients
	// step does the iteration with coefficients w.c: it advances the state in
	// place and leaves the new estimate of b in w.b. With linearize it returns the
	// derivative of the iteration's prox. A tape linearizes at every step, also where
	// it drops the derivative: with and without one a prox may differ in last bits.
	step(ctx context.Context, w *work, linearize bool) (prox.Derivative, error)
	// measures reports whether measure bounds a subgradient by a gradient that was computed
	// at the iterate, and not by what the step should have done.
	measures() bool
	// measure returns the optimality of the step just done, not yet divided by its scale
	// ([yardstick]), and chooses the next iteration's coefficients. It may change
	// w.c.rescale and apply it to the state.
	measure(w *work) (optimality float64, next coefficients)
	// argument sets w.s to the argument of the prox of the step just done, which measure
	// may have seen.
	argument(w *work)
	// reverse pulls the adjoint a of (s_{k+1}, b_{k+1}) back through iteration k:
	// it adds (∂F_k/∂y)* a to dst and, unless k is 0, leaves the adjoint of s_k
	// in a.
	reverse(ctx context.Context, dst array.Batch, a *adjoint, c coefficients, j prox.Derivative, k int) error
}

// work is what a forward iteration needs beside the tape.
type work struct {
	c         coefficients
	y         array.Batch
	aty       array.Batch // A* y
	state     array.Batch // width x p
	b         array.Batch // the newest estimate
	t, s      array.Batch // scratch, 1 x p
	z         array.Batch // scratch, 1 x d
	iteration int
	since     int // iterations since the last restart or change of eta
	// follower evaluates the prox where no derivative is asked for, near its argument; nil
	// for the prox itself.
	follower prox.Follower
	near     float64
	// set by step for measure
	r1, r2 float64
}

func newWork(m method, y array.Batch) *work {
	dev := m.problem().Device
	d, p := m.problem().A.Dims()
	w := &work{y: y}
	w.state = dev.Alloc(m.width(), p)
	dev.Fill(w.state, 0)
	w.b, w.t, w.s, w.aty = dev.Alloc(1, p), dev.Alloc(1, p), dev.Alloc(1, p), dev.Alloc(1, p)
	w.z = dev.Alloc(1, d)
	dev.Fill(w.b, 0)
	m.problem().A.Adjoint(w.aty, y)
	return w
}

// begin sets the state to that of the estimate b; the zero Batch leaves it at 0.
func (w *work) begin(b array.Batch, estimates int) {
	if b.IsZero() {
		return
	}
	dev := b.Device()
	for i := range estimates {
		dev.Copy(w.state.Rows(i, i+1), b)
	}
	dev.Copy(w.b, b)
}

func (w *work) free() {
	for _, b := range []array.Batch{w.state, w.b, w.t, w.s, w.aty, w.z} {
		b.Free()
	}
}

// apply evaluates the prox of the step, with its derivative when record is set.
func (w *work) apply(ctx context.Context, r prox.Prox, dst, v array.Batch, record bool) (prox.Derivative, error) {
	switch {
	case record:
		return r.Linearize(dst, v, w.c.eta)
	case w.follower != nil:
		return nil, w.follower.Eval(ctx, dst, v, w.c.eta, w.near)
	}
	return nil, r.Eval(dst, v, w.c.eta)
}

// nearness is the accuracy of a follower as a share of the optimality of the step before.
const nearness = 0.1

// certify returns what the follower's error adds to the optimality: want at most, or +Inf.
func (w *work) certify(ctx context.Context, m method, want float64) (float64, error) {
	m.argument(w)
	slack, ok, err := w.follower.Certify(ctx, w.s, want*w.c.eta)
	if !ok {
		return math.Inf(1), err
	}
	return slack / w.c.eta, err
}

// orthogonal reports whether a is a multiple of an orthogonal matrix, so that one proximal
// gradient step leads from anywhere to the solution.
func orthogonal(a linops.Operator) bool {
	g, ok := a.(linops.RowGram)
	if d, p := a.Dims(); !ok || d != p {
		return false
	}
	c, ok := g.RowGram()
	return ok && c > 0
}

// entry says where a solve starts. The zero value starts at b = 0.
type entry struct {
	b        array.Batch // where to start, unless the tape is running
	confined bool        // the problem is a part of another, whose duality gap is not its own
}

// solve iterates the method and linearizes the solution as asked. A
// solve whose iterations turn out to be needed, since they did not converge, is
// done a second time with the tape running.
func solve(ctx context.Context, m method, y array.Batch, o Options, from entry) (*Solution, error) {
	switch o.Derivative {
	case None:
		return iterate(ctx, m, y, o, from)
	case Unrolled:
		sol, err := iterate(ctx, m, y, o, from)
		if err == nil && sol.Converged {
			if sol.Lag, err = lag(ctx, m, y, o, sol); err != nil {
				sol.Release()
				return nil, err
			}
		}
		return sol, err
	}
	plain := o
	plain.Derivative = None
	sol, err := iterate(ctx, m, y, plain, from)
	if err != nil {
		return nil, err
	}
	if !sol.Converged && o.Derivative == Auto {
		sol.Release()
		o.Derivative = Unrolled
		return iterate(ctx, m, y, o, from)
	}
	l, err := linearize(ctx, m, y, o, sol)
	if err != nil {
		sol.Release()
		return nil, err
	}
	sol.Linearization = l
	if q, ok := m.problem().R.(prox.Quadratic); ok && q.Curvature() == 0 && l.traced {
		if err := leastSquaresError(ctx, m, y, o, sol); err != nil {
			sol.Release()
			return nil, err
		}
	}
	return sol, nil
}

// leastSquaresError is the error of mu_hat where r = 0: the projection D mu_hat of the residual.
func leastSquaresError(ctx context.Context, m method, y array.Batch, o Options, sol *Solution) error {
	dev := y.Device()
	z, miss := dev.Alloc(1, y.N()), dev.Alloc(1, y.N())
	defer z.Free()
	defer miss.Free()
	dev.Lin(z, 1, y, -1, sol.MuHat)
	if err := sol.Linearization.VJP(ctx, miss, z); err != nil {
		return err
	}
	sol.Error = norm(miss)
	sol.Converged = sol.Converged && !(sol.Error > newYardstick(y, m.norm2(), o).allowed(norm(z)))
	return dev.Err()
}

// lagProbes is the number of probes that compare two derivatives; up to lagUnits observations it is
// all unit vectors.
const (
	lagProbes = 4
	lagUnits  = 32
)

// lag is the difference of the traces of the unrolled derivative and of the implicit one, in size, as
// far as a few probes tell: the largest difference of their quadratic forms. Where the range
// of the implicit one's trace is larger it is that.
func lag(ctx context.Context, m method, y array.Batch, o Options, sol *Solution) (float64, error) {
	l, err := newImplicit(m.problem(), sol.B, y, m.norm2(), o, sol.Optimality)
	if err != nil {
		return 0, err
	}
	defer l.Release()
	dev, d := y.Device(), y.N()
	k := lagProbes
	if d <= lagUnits {
		k = max(d, 2)
	}
	probes, one, other := dev.Alloc(k, d), dev.Alloc(k, d), dev.Alloc(k, d)
	defer probes.Free()
	defer one.Free()
	defer other.Free()
	rng := rand.New(rand.NewPCG(0x6c6167, uint64(d)))
	signs := make([]float64, k*d)
	for i := range signs {
		switch {
		case d > lagUnits:
			signs[i] = float64(1 - 2*int(rng.Uint64()&1))
		case i%d == i/d:
			signs[i] = 1
		}
	}
	dev.Upload(probes, signs)
	if err := sol.Linearization.VJP(ctx, one, probes); err != nil {
		return 0, err
	}
	if err := l.VJP(ctx, other, probes); err != nil {
		return 0, err
	}
	dev.Lin(one, 1, one, -1, other)
	forms := make([]float64, k)
	dev.Dot(forms, probes, one)
	sum, most := 0.0, l.high-l.low
	for _, f := range forms {
		if sum += f; d > lagUnits {
			most = max(most, math.Abs(f))
		}
	}
	if d <= lagUnits {
		most = max(most, math.Abs(sum))
	}
	return most, dev.Err()
}

// settledTol is the tolerance of a second solve, where the first leaves the tangent space in doubt.
const settledTol = 1e-12

// linearize is the implicit derivative at a solution. Where decisions behind it are in doubt, or
// it depends on what b lacks, the solution is improved as far as that goes.
func linearize(ctx context.Context, m method, y array.Batch, o Options, sol *Solution) (*implicit, error) {
	l, err := newImplicit(m.problem(), sol.B, y, m.norm2(), o, sol.Optimality)
	if err != nil || !(l.low < l.high || l.sensitive) || !sol.Converged || o.Tol <= settledTol {
		return l, err
	}
	settled := o
	settled.Tol, settled.Derivative, settled.MaxIter = settledTol, None, min(o.MaxIter, 100+4*sol.Iterations)
	better, err := iterate(ctx, m, y, settled, entry{b: sol.B, confined: true})
	if err != nil {
		l.Release()
		return nil, err
	}
	defer better.Release()
	sol.Iterations += better.Iterations
	if better.Optimality >= sol.Optimality {
		return l, nil
	}
	l.Release()
	dev := m.problem().Device
	dev.Copy(sol.B, better.B)
	dev.Copy(sol.MuHat, better.MuHat)
	sol.Optimality = better.Optimality
	return newImplicit(m.problem(), sol.B, y, m.norm2(), o, sol.Optimality)
}

// iterate runs the method until it is optimal or out of iterations, with the
// tape running when o.Derivative is Unrolled.
func iterate(ctx context.Context, m method, y array.Batch, o Options, from entry) (sol *Solution, err error) {
	p := m.problem()
	if err := checkY(p, y); err != nil {
		return nil, err
	}
	w := newWork(m, y)
	defer w.free()
	var t *unrolled
	if o.Derivative != Unrolled {
		w.begin(from.b, m.estimates())
		if w.follower = prox.Follow(p.R); w.follower != nil {
			defer w.follower.Release()
		}
	} else {
		budget := o.Memory
		if dev, ok := p.Device.(array.Budgeted); ok {
			// The other half is for the sweeps.
			budget = max(min(budget, dev.Available()/2), 1)
		}
		t = newUnrolled(m, y, budget)
		defer func() {
			if err != nil {
				t.Release()
			}
		}()
	}
	c := newCheck(m, y, o)
	c.confined = from.confined
	defer c.free()
	w.c = m.start()
	last := c.scale // the measure of the last step
	oneStep := orthogonal(p.A)
	if oneStep || !from.b.IsZero() {
		last = 0 // a first step as close as the last ones loses nothing that b knows
	}
	for c.conv.Iterations < o.MaxIter && !c.conv.Converged {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.near = nearness * w.c.eta * math.Max(last, c.tol*c.scale)
		final := c.conv.Iterations == o.MaxIter-1
		if final {
			w.follower = nil // the optimality reported is exact
		}
		if t != nil {
			t.before(w)
		}
		j, err := m.step(ctx, w, t != nil)
		if err != nil {
			return nil, fmt.Errorf("%s iteration %d: %w", m.name(), w.iteration+1, err)
		}
		measured, next := m.measure(w)
		if t != nil {
			t.after(w.c, j)
		}
		if math.IsNaN(measured) || math.IsInf(measured, 0) {
			return nil, fmt.Errorf("%s: the iterates are not finite after %d iterations", m.name(), w.iteration+1)
		}
		if !oneStep {
			last = measured
		}
		if err := c.after(ctx, w, measured, final); err != nil {
			return nil, err
		}
		if err := p.Device.Err(); err != nil {
			return nil, err
		}
		w.iteration++
		w.c = next
	}
	conv := c.conv
	d, dim := p.A.Dims()
	sol = &Solution{Convergence: conv, B: p.Device.Alloc(1, dim), MuHat: p.Device.Alloc(1, d)}
	p.Device.Copy(sol.B, w.b)
	p.A.Forward(sol.MuHat, sol.B)
	if t != nil {
		sol.Linearization = t
	}
	if err := p.Device.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// unrolled is the tape of a solve, differentiated in reverse. While it fits the
// budget every iteration's prox derivative is kept. When it does not, the
// records are dropped and only snapshots of the state stay, evenly spread; the
// reverse sweep then computes the records again, segment by segment, halving a
// segment whose own records would not fit. Since the iterations are
// deterministic the result is the same to the last bit.
type unrolled struct {
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

func newUnrolled(m method, y array.Batch, budget int64) *unrolled {
	dev := m.problem().Device
	t := &unrolled{m: m, budget: budget, stride: 1, y: dev.Alloc(1, y.N())}
	dev.Copy(t.y, y)
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
	a.dev.Gather(a.mask, j.(prox.Masked).Diagonal(), a.idx)
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
