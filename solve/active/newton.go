package active

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/solve/restrict"
)

// newton is one solve by active sets.
type newton struct {
	engine.Acceptance
	s       *activeSet
	dev     array.Device
	y       array.Batch
	b, z, g array.Batch // the estimate, A b - y, and A* of that

	*workspace
	lengths []float64 // of all columns; nil where they are not known
	zNorm   float64   // ||z||
	behind  bool      // z is that of another b
	twin    *verified // a solution found in advance; or nil

	e          []float64 // a subgradient, up to signs
	outside    []float64
	violations int     // coordinates outside that violate their optimality conditions
	off        float64 // the largest derivative along the support, in units of columns' lengths
	last       float64 // the same, before the last round
	error      float64 // the distance in A b to the minimum over the face, by the last factor; +Inf before it is needed
	settled    int     // rounds that changed no sign: they only correct rounding errors
	best       float64 // the best optimality
	idle       int     // rounds since then

	report func(progress.Report)
}

const (
	// mostWorking is the size of the working set up to which its Gram matrix is kept.
	mostWorking = 1 << 13
	// floorShare of the tolerance, spread over all coordinates, is what a coordinate need not be
	// better than, and noiseLevel units in the last place of y what it cannot be.
	floorShare = 0.1
	noiseLevel = 2
	// soonPull is the gradient of a coordinate that is added too, in units of its weight, where these are at most one
	// in soonShare of the active ones.
	soonPull, soonShare = 0.95, 4
	// stepsARound bounds the Newton steps between two gradients at the point itself.
	stepsARound = 200
	// dependent is the squared pivot, in units of rounding errors, up to which a column depends on
	// others.
	dependent = 16
)

func newNewton(s *activeSet, y array.Batch) *newton {
	dev := y.Device()
	d, dim := s.Task.Problem.A.Dims()
	n := &newton{
		Acceptance: engine.NewAcceptance(engine.NewScales(y, 0, s.Task.Options)), s: s, dev: dev, y: y, twin: s.twin,
		b: dev.Alloc(1, dim), z: dev.Alloc(1, d), g: dev.Alloc(1, dim),
		e: make([]float64, dim), outside: make([]float64, dim), best: math.Inf(1), last: math.Inf(1),
		error: math.Inf(1),
	}
	n.Convergence.Optimality = math.Inf(1)
	if lengths2 := s.Task.Lengths(); lengths2 != nil {
		n.lengths = make([]float64, dim)
		for j, v := range lengths2 {
			n.lengths[j] = math.Sqrt(v + s.q.At(j))
			if u := s.Task.Units; u != nil {
				n.lengths[j] = math.Sqrt(v*u[j]*u[j] + s.q.At(j))
			}
		}
	}
	return n
}

func (n *newton) Release() {
	array.Free(n.b, n.g, n.z)
	if n.workspace != nil {
		n.workspace.Release()
	}
}

// begin starts at the solution found in advance; or where the path has ended, or else at the support of b.
func (n *newton) begin(ctx context.Context, from engine.From) error {
	n.workspace = resume(from.Path, n.s.Task.Family, n.y)
	resumed, moved := n.workspace != nil, false
	if resumed {
		moved = n.p.Reweight(n.s.of(n.set))
	} else if err := n.open(ctx); err != nil {
		return err
	}
	if arrived, err := n.jump(ctx); arrived || err != nil {
		return err
	}
	if n.workspace == nil {
		resumed = false
		if err := n.open(ctx); err != nil {
			return err
		}
	}
	if !resumed {
		return n.start(ctx, from.B)
	}
	if moved || n.s.Task.Family.Moves {
		return n.gradient()
	}
	n.dev.Upload(n.b, n.hostB)
	n.dev.Upload(n.z, n.hostZ)
	n.dev.Upload(n.g, n.hostG)
	n.zNorm = engine.Norm(n.z)
	return n.dev.Err()
}

func (n *newton) keep(path *engine.Path) {
	if path == nil {
		return
	}
	path.Kept, n.workspace = n.workspace, nil
}

func (n *newton) open(ctx context.Context) error {
	d, dim := n.s.Task.Problem.A.Dims()
	n.workspace = newWorkspace(n.s.Task.Family, &n.s.splitting, d, dim, n.s.outcomes(n.s.Task.Problem.A))
	n.workspace.y = n.y.ToHost()
	return n.workspace.know(ctx, n.s)
}

// start begins at the support of b0, together with the coordinates that no penalty holds at 0.
func (n *newton) start(ctx context.Context, b0 array.Batch) error {
	start := make([]float64, n.b.N())
	if !b0.IsZero() {
		n.dev.Download(start, b0)
	}
	n.dev.Fill(n.b, 0)
	n.dev.Lin(n.z, -1, n.y, 0, array.Batch{})
	n.zNorm = engine.Norm(n.z)
	copy(n.hostG, n.tall.at0(n.workspace.y, n.zNorm, func() []float64 {
		n.s.Task.Problem.A.Adjoint(n.g, n.z)
		return n.g.ToHost()
	}))
	n.dev.Upload(n.g, n.hostG)
	n.dev.Download(n.hostZ, n.z)
	if err := n.dev.Err(); err != nil {
		return err
	}
	var set []int
	for j, v := range start {
		if v != 0 && !held(n.s.w.At(j)) {
			set = append(set, j)
		}
	}
	set = n.s.closure(set)
	n.norm = engine.Relative(engine.Norm(n.g), n.zNorm)
	if err := n.workspace.extend(ctx, n.dev, n.s, set); err != nil {
		return err
	}
	b := lists.Pick(start, set)
	n.p.Start(b)
	switch err := n.dev.Err(); {
	case err != nil:
		return err
	case len(set) > 0:
		return n.gradient()
	case n.s.owner == nil && len(n.hostG) > len(n.hostZ): // else all coordinates may be in, and steps end soon
		return n.walk(ctx)
	}
	return nil
}

// tell reports the Newton steps so far.
func (n *newton) tell() {
	n.report(progress.Report{Stage: progress.Newton, Step: n.at.Steps, Measure: n.Convergence.Optimality, Goal: n.Tol})
}

func (n *newton) gradient() error {
	for i, j := range n.set {
		n.hostB[j] = n.at.B[i]
	}
	n.dev.Upload(n.b, n.hostB)
	if n.behind = true; !n.byGram() {
		n.residual()
		n.s.Task.Problem.A.Adjoint(n.g, n.z)
		n.dev.Download(n.hostG, n.g)
	}
	for i, j := range n.set {
		n.at.Grad[i] = n.hostG[j]
	}
	return n.dev.Err()
}

func (n *newton) residual() {
	if !n.behind {
		return
	}
	if n.known() {
		n.dev.Upload(n.z, n.twin.z)
	} else {
		n.workspace.forward(n.z, n.at.B, linops.Operator.Forward)
		n.dev.Lin(n.z, 1, n.z, -1, n.y)
	}
	n.dev.Download(n.hostZ, n.z)
	n.zNorm, n.behind = engine.Norm(n.z), false
}

// judge applies the rule of acceptance, finds the violations outside the working set, and reports
// whether the solve is done.
func (n *newton) judge() (bool, error) {
	zNorm, bNorm := n.zNorm, engine.Norm(n.b)
	n.norm = max(n.norm, engine.Relative(engine.Norm(n.g), zNorm))
	if active := len(n.p.Active()); n.at.Products == 0 || active > n.normed+n.normed/grownShare {
		n.norm, n.normed = max(n.norm, math.Sqrt(n.p.Norm(fewProducts))), active
	}
	n.Scales.Norm = n.norm
	scale := n.Scales.Scale(zNorm, bNorm)
	n.at.Floor = n.floor(zNorm, bNorm)
	lowest := n.at.Floor <= 2*noiseLevel*engine.Epsilon*n.Scales.Y
	measured, byColumn := n.measure()
	optimality := engine.Relative(measured, scale)
	if n.s.Task.Options.InverseLengths != nil {
		optimality = max(optimality, engine.Relative(byColumn, n.Scales.ByColumn(zNorm)))
	}
	if math.IsNaN(optimality) || math.IsInf(optimality, 0) {
		return false, fmt.Errorf("%s: the iterates are not finite after %d iterations", n.s.Name(),
			n.Convergence.Iterations)
	}
	bound := math.NaN() // it costs as much as a step, and decides nothing before
	if optimality <= n.Good {
		bound = n.bound(zNorm, bNorm, measured)
	}
	if bound > n.Scales.Allowed(zNorm) {
		if exact, ok := n.toFace(); ok {
			bound = min(bound, max(exact, engine.Roundings*engine.Epsilon*(n.Scales.Y+n.norm*bNorm)))
		}
	}
	n.Accept(optimality, optimality, bound, zNorm)
	n.Convergence.Iterations = max(n.at.Steps, 1)
	if n.idle++; optimality < n.best {
		n.best, n.idle = optimality, 0
	}
	n.off = n.p.Stationarity()
	refined := n.off <= n.at.Floor || n.settled > 0 && !(n.off < n.last/2)
	n.last = n.off
	done := n.settled >= limits.MostIdle || n.settled > 1 && n.violations == 0 && refined && lowest
	switch {
	case n.Convergence.Iterations >= n.s.Task.Options.MaxIter, n.idle > limits.MostIdle,
		n.columns(len(n.set)) > mostWorking, n.s.owner != nil && n.columns(len(n.p.Active())) > limits.MostFactored:
		done = true
	case n.Convergence.Converged:
		done = n.violations == 0 && refined && n.near(n.Good*n.Scales.Matters(zNorm))
	}
	if done && optimality > n.Good { // the error of a solve that ends here is of interest too
		n.Accept(optimality, optimality, n.bound(zNorm, bNorm, measured), zNorm)
	}
	return done, n.dev.Err()
}

// floor is what the derivative along a coordinate, in units of its column's length, need not be better than.
func (n *newton) floor(zNorm, bNorm float64) float64 {
	return max(floorShare*n.Tol*n.Scales.Size(zNorm, bNorm)/math.Sqrt(float64(n.b.N())),
		noiseLevel*engine.Epsilon*n.Scales.Y)
}

func (n *newton) bound(zNorm, bNorm, measured float64) float64 {
	if free := prox.StructureOf(n.s.Task.Problem.R).Free; free != nil && len(free(n.b.N())) > 0 {
		n.residual()
	}
	return engine.ErrorBound(context.Background(), n.s.Task.Problem, n.b, n.z, n.g, n.Scales, zNorm, bNorm, measured)
}

// near reports that mu_hat is within a distance of the minimum over the face, or that the last round has not halved
// the distance. Along directions in which columns nearly depend on each other derivatives as small as rounding
// errors may leave much of b, and of its signs, undone.
func (n *newton) near(enough float64) bool {
	before := n.error
	n.error, _ = n.p.Decrement()
	return n.error <= enough || !(n.error < before/2) || n.settled >= limits.MostIdle
}

// toFace is the distance in A b to the minimum over the face of b, where that is known to be the
// solution: its signs are those of b, and inactive coordinates are farther from violating their
// conditions than it could move them. A duality gap, which is no smaller than the rounding errors
// of its terms, bounds the square of the error.
func (n *newton) toFace() (float64, bool) {
	off, same := n.p.Decrement()
	if !same || n.lengths == nil {
		return 0, false
	}
	return off, n.s.stays(n.hostB, n.hostG, n.lengths, 2*off)
}

// measure is the distance of 0 from the objective's subdifferential, and the same with every entry
// divided by the length of its column. It notes the violations outside the working set.
func (n *newton) measure() (all, byColumn float64) {
	n.violations = 0
	n.s.subgradients(n.e, n.hostB, n.hostG)
	for j, e := range n.e {
		all += e * e
		if s := n.s.Task.Options.InverseLengths; s != nil {
			byColumn = math.Hypot(byColumn, e*s[j])
		}
		n.outside[j] = 0
		if n.place[j] >= 0 || e == 0 {
			continue
		}
		length := n.norm
		if n.lengths != nil {
			length = n.lengths[j]
		}
		n.outside[j] = engine.Relative(math.Abs(e), length)
	}
	n.s.spread(n.outside)
	for j, v := range n.outside {
		if v > n.at.Floor && !math.IsInf(v, 0) {
			n.violations++
		} else {
			n.outside[j] = 0
		}
	}
	return math.Sqrt(all), byColumn
}

// advance adds the largest violations to the working set and minimizes over it.
func (n *newton) advance(ctx context.Context) error {
	if n.violations > 0 {
		k := n.at.Outcomes
		some := restrict.Strongest(n.outside, min(max(len(n.p.Active()), restrict.MinFirst*k), mostWorking*k))
		some = restrict.Union(some, n.soon())
		if err := n.workspace.extend(ctx, n.dev, n.s, n.s.closure(some)); err != nil {
			return err
		}
	}
	changed, err := n.p.Minimize(ctx, n.tell, min(stepsARound, max(n.s.Task.Options.MaxIter-n.at.Steps, 1)))
	if err != nil {
		return err
	}
	if n.settled++; changed || n.violations > 0 {
		n.settled = 0
	}
	return n.gradient()
}

// soon are coordinates outside the working set that nearly violate their conditions: what the next steps, or the next
// weight, would add. They cost a row of the Gram matrix, and save a gradient over all coordinates.
func (n *newton) soon() (set []int) {
	if n.s.owner != nil {
		return nil
	}
	for j, g := range n.hostG {
		if n.place[j] >= 0 || held(n.s.w.At(j)) {
			continue
		}
		if n.s.pull(j, g) > soonPull*n.s.w.At(j) {
			set = append(set, j)
		}
	}
	if len(set) > max(len(n.p.Active())/soonShare, restrict.MinFirst) {
		return nil
	}
	return set
}

// fewProducts with the Gram matrix tell its norm well enough to measure by, manyProducts for a
// bound. The norm is computed anew where the active set has grown by one in grownShare.
const (
	fewProducts  = 2
	manyProducts = 10
	grownShare   = 16
)

// norm2 is about an upper bound of ||A||^2 on the working set, and no smaller than that of any column: a
// gradient of rounding errors says nothing about ||A||.
func (n *newton) norm2() float64 {
	if len(n.lengths) > 0 {
		n.norm = max(n.norm, slices.Max(n.lengths))
	}
	if n.at.Products < manyProducts {
		n.norm = max(n.norm, math.Sqrt(n.p.Norm(manyProducts-n.at.Products)))
	}
	norm2 := n.norm * n.norm
	return norm2 + norm2/16
}
