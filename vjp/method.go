package vjp

import (
	"context"
	"math"

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
	d, p := a.Dims()
	return d == p && linops.StructureOf(a).Rows.Value > 0
}
