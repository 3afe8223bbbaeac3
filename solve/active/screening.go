package active

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/restrict"
	"surepipe/space"
)

// screening is what a screened solve knows: some columns in memory, the last gradient over all of them,
// and the solutions that have been verified and not yet been asked for. A Path carries it.
type screening struct {
	family *engine.Family
	y      []float64

	// last is where the gradient over all coordinates was computed last, at weights from which growth is measured, and
	// b the point to start from, 1 x p; there says that these are the same.
	last    *verified
	at      prox.Numbers
	b       array.Batch
	there   bool
	at0     []float64 // the first gradient
	columns *sharedColumns
	pool    *pool // of these
	set     []int
	in      []bool         // whether a coordinate is in the set
	must    []bool         // coordinates that the next set must hold; nil for none
	inner   *engine.Family // of solvers on the set
	path    engine.Path    // what they carry
	ready   []*verified
	growth  float64 // c
	served  int     // weights that the set has served
	wanted  int     // the number of columns of the next set, where they are needed; 0 at first
	// bound is that of ||A||^2 on the set where Newton steps on the loss have needed it; pulls is scratch.
	bound *float64
	pulls []float64
	// within are the weights whose solutions the set has, as the Gram matrix of all columns foresees; nil without that.
	within map[uint64]bool
	// lengths are those of all columns, nil where they are not known, longest the largest, and norm a lower bound of
	// ||A||.
	lengths       []float64
	longest, norm float64
}

// verified is a solution whose conditions hold for all columns: b on the set, its residual, or the slope of
// the loss l'(A b; y), and its gradient, exact, or outside of the set a bound, nil where the ends of the line near to
// it prove the conditions.
type verified struct {
	key     uint64
	b, z, g []float64
	slope   []float64 // the gradient on the set; nil where it is not known
	exact   bool
	near    line
	most    float64 // the size of an exact gradient outside of the set
	// margin is by how much the residual may move before a condition outside of the set may not hold; NaN where that
	// is not known.
	margin float64
}

const (
	// firstGrowth is c at first. It grows by growthUp where a column outside violates its condition,
	// and falls by growthDown where none does, down to leastGrowth.
	firstGrowth = 0.25
	growthUp    = 2
	growthDown  = 0.7
	leastGrowth = 0.02
	// mostAhead is the largest number of weights that are verified in one pass, where their residuals and
	// gradients, and as much again while a pass computes them, take half of the bytes of columns; fewAhead
	// are verified in any case.
	mostAhead = 16
	// leastColumns, or fewestColumns of a matrix in memory, one in oneColumnIn of all, and columnsPerActive for every
	// active one: as many columns are put into memory, if they fit. Twice as many as before where these have served
	// fewer than fewAhead weights, up to one in mostColumnIn of all: a pass costs more than products with
	// columns in memory.
	leastColumns     = 1 << 12
	fewestColumns    = 1 << 8
	oneColumnIn      = 64
	columnsPerActive = 8
	fewAhead         = 6
	mostColumnIn     = 8
	// nearBoundary is the pull at which a column counts among those that matter, so that decisions
	// within rounding errors are seen.
	nearBoundary = 1 - 1e-6
)

// resumeScreening is the screening that the path holds for this family and y; nil where it holds none.
func resumeScreening(path *engine.Path, family *engine.Family, y array.Batch) *screening {
	kept := path.Take()
	if kept == nil {
		return nil
	}
	if w, ok := kept.(*screening); ok && w.family == family && slices.Equal(w.y, y.Read()) {
		return w
	}
	kept.Release()
	return nil
}

// open begins at b = 0, whose gradient is -A* y with the squared loss, or at b0 where the columns of its support cost
// no pass. The set will hold that.
func (s *screened) open(ctx context.Context, y array.Batch, here separable, b0 array.Batch) (*screening, error) {
	dev := y.Device()
	_, dim := s.Task.Problem.A.Dims()
	w := &screening{family: s.Task.Family, y: y.ToHost(), in: make([]bool, dim),
		growth: firstGrowth, b: dev.Alloc(1, dim), pulls: make([]float64, dim),
		there: b0.IsZero() || s.passes.Bytes == 0} // see [screened.predict]
	if b0.IsZero() {
		dev.Fill(w.b, 0)
	} else {
		dev.Copy(w.b, b0)
	}
	begun, err := s.shared.beginning(s.Task.Family, w.y, w.b.ToHost(), func(o *beginning) error {
		z, g := dev.Alloc(1, y.N()), dev.Alloc(1, dim)
		defer array.Free(z, g)
		if err := s.predict(ctx, z, w.b); err != nil {
			return err
		}
		engine.Slope(s.Task.Problem, z, y)
		if err := s.passes.Adjoint(ctx, g, z); err != nil {
			return err
		}
		o.z, o.g = z.ToHost(), g.ToHost()
		if lengths2 := s.Task.Lengths(); lengths2 != nil {
			o.lengths = lists.Make(dim, func(j int) float64 { return s.length(lengths2, 0, j) })
		}
		return dev.Err()
	})
	w.last, w.at0 = &verified{z: begun.z, g: begun.g}, begun.g
	if err != nil {
		w.Release()
		return nil, err
	}
	// Weights as they are here, times a number at which b = 0.
	most := 1.0
	here.pulls(w.pulls, w.at0)
	for j, v := range w.pulls {
		if pull := here.relative(j, v); !math.IsInf(pull, 1) {
			most = max(most, pull)
		}
	}
	w.at = here.w.Map(func(w float64) float64 { return most * w })
	if w.lengths = begun.lengths; w.lengths != nil {
		w.longest = floats.Max(w.lengths)
	}
	return w, nil
}

func (w *screening) Release() {
	w.b.Free()
	w.drop()
}

func (w *screening) drop() {
	w.path.Release()
	if w.columns != nil {
		w.columns.giveBack(w.pool)
		w.columns.Release()
		w.columns = nil
	}
	w.ready = nil
}

// verified is the solution with these weights; those before it are given up.
func (w *screening) verified(key uint64) *verified {
	for i, v := range w.ready {
		if v.key == key {
			w.ready = w.ready[i:]
			return v
		}
	}
	return nil
}

// step is a weight of the path that is solved on the columns in memory.
type step struct {
	separable
	r prox.Prox
}

// advance finds solutions of the weights here, and of some that follow, and verifies them in a pass.
func (s *screened) advance(ctx context.Context, w *screening, y array.Batch, here separable, from engine.From) error {
	w.ready = nil
	if w.columns == nil || w.must != nil || !w.expected(here, math.Inf(1)) {
		if err := s.choose(ctx, w, y, here, from); err != nil {
			return err
		}
	} else {
		w.restart()
	}
	steps, more, err := s.ahead(w, here, from)
	if err == nil && more && len(steps) < fewAhead && w.served > 0 {
		release(steps)
		if err = s.choose(ctx, w, y, here, from); err == nil {
			steps, _, err = s.ahead(w, here, from)
		}
	}
	defer func() { release(steps) }()
	if err != nil {
		return err
	}
	found, err := s.solveAll(ctx, w, y, steps)
	if err != nil {
		return err
	}
	defer found.Release()
	failed := false
	for i, t := range steps {
		v := found.at[i]
		v.key = t.key
		if w.there = v.exact; v.exact {
			w.last, w.at = v, t.w
			w.norm = max(w.norm, engine.Relative(floats.Norm(v.g, 2), floats.Norm(v.z, 2)))
		}
		w.must = found.violations(w, i, t.separable)
		failed = w.must != nil
		if failed || i == len(steps)-1 {
			w.columns.set.Embed(w.b, found.b[i]) // the next set starts here
		}
		if failed {
			break
		}
		if v.g != nil {
			w.measure(t.separable, v)
		}
		w.ready = append(w.ready, v)
	}
	w.served += len(w.ready)
	if failed {
		w.growth = min(w.growth*growthUp, 1)
	} else {
		w.growth = max(w.growth*growthDown, leastGrowth)
	}
	return nil
}

// solveAll solves on the columns in memory, from step to step, and takes a pass for the gradients.
func (s *screened) solveAll(ctx context.Context, w *screening, y array.Batch, steps []step) (_ *together, err error) {
	dev := y.Device()
	t := &together{b: make([]array.Batch, len(steps)), at: make([]*verified, len(steps))}
	defer func() {
		if err != nil {
			t.Release()
		}
	}()
	var path engine.Path
	defer path.Release()
	start := dev.Alloc(1, len(w.set))
	defer start.Free()
	w.columns.set.Coordinates(start, w.b)
	if tall, err := s.tall(ctx, w); err != nil {
		return nil, err
	} else if tall {
		return t, s.solveTall(ctx, w, t, y, start, steps, &path)
	}
	z := dev.Alloc(len(steps), y.N())
	defer z.Free()
	var twin *verified
	if w.there && len(restrict.Support(start)) > 0 {
		twin = &verified{b: start.ToHost(), z: w.last.z, slope: lists.Pick(w.last.g, w.set)}
	}
	for i, at := range steps {
		v := &verified{}
		t.b[i], v.slope, err = s.try(ctx, w, y, at.r, z.Rows(i, i+1), engine.From{B: start, Path: &path}, twin)
		if err != nil {
			return nil, err
		}
		dev.Copy(start, t.b[i])
		v.b, v.z = start.ToHost(), z.Rows(i, i+1).ToHost()
		t.at[i], twin = v, nil
	}
	if err := s.findGradients(ctx, w, t, z, steps); err != nil {
		return nil, err
	}
	return t, dev.Err()
}

// ahead are the weights here and those that follow, as far as no column outside should matter; more
// says that others follow. The caller releases them.
func (s *screened) ahead(w *screening, here separable, from engine.From) (steps []step, more bool, err error) {
	steps = []step{{here, s.Task.Problem.R}}
	if from.Path == nil || from.Ahead == nil {
		return steps, false, nil
	}
	_, dim := s.Task.Problem.A.Dims()
	most := w.mostOutside(w.last.g)
	for i := 1; i < s.mostAhead(); i++ {
		r, err := from.Ahead(i)
		if err != nil || r == nil {
			return steps, false, err
		}
		t := step{separableOf(r, dim), r}
		if !w.expected(t.separable, most) {
			prox.Release(r)
			return steps, true, nil
		}
		steps = append(steps, t)
	}
	return steps, true, nil
}

func (s *screened) mostAhead() int {
	d, dim := s.Task.Problem.A.Dims()
	fit := s.Task.Options.Columns / 2 / (16 * int64(d+dim))
	return int(min(max(fit, fewAhead), mostAhead))
}

// release releases the regularizers of all steps but the first, which is the caller's own.
func release(steps []step) {
	for _, t := range steps[min(len(steps), 1):] {
		prox.Release(t.r)
	}
}

// try solves on the columns in memory, sets z = A b - y, and returns b, and the gradient where it is known. twin, if
// not nil, is where it begins.
func (s *screened) try(ctx context.Context, w *screening, y array.Batch, r prox.Prox, z array.Batch,
	from engine.From, twin *verified) (array.Batch, []float64, error) {
	on, solver, err := s.on(ctx, w, r, false)
	if err != nil {
		return array.Batch{}, nil, err
	}
	defer prox.Release(on)
	defer solver.Release()
	if by, ok := solver.(*activeSet); ok {
		by.twin, by.pool = twin, w.pool
	}
	sol, err := solver.Solve(ctx, y, from)
	if err != nil {
		return array.Batch{}, nil, err
	}
	defer sol.Release()
	dev := y.Device()
	dev.Copy(z, sol.MuHat)
	engine.Slope(s.Task.Problem, z, y)
	b := dev.Alloc(1, len(w.set))
	dev.Copy(b, sol.B)
	return b, slopeOf(solver), nil
}

// choose puts the columns into memory that are the nearest to violating their conditions, or those that solutions at
// the weights here and ahead take, where the Gram matrix foresees them.
func (s *screened) choose(ctx context.Context, w *screening, y array.Batch, here separable, from engine.From) error {
	dev := y.Device()
	a := s.passes
	b := w.b.Read()
	seen, err := s.foresee(ctx, w, dev, here, from)
	if err != nil {
		return err
	}
	pulls, active := w.pulls, 0
	here.pulls(pulls, w.last.g)
	for j, v := range b {
		switch {
		case v != 0:
			pulls[j], active = math.Inf(1), active+1
		case w.must != nil && w.must[j]:
			pulls[j] = math.MaxFloat64
		case seen != nil:
			pulls[j] = seen.pull(j)
		default:
			pulls[j] = here.relative(j, pulls[j])
		}
	}
	for _, list := range here.groups { // a group is in memory, or not
		most := 0.0
		for _, j := range list {
			most = max(most, pulls[j])
		}
		for _, j := range list {
			pulls[j] = most
		}
	}
	must, needed := neededColumns(pulls, a.ColumnBytes)
	if must > s.Task.Options.Columns && needed > 1 {
		return fmt.Errorf("solve: at least %d columns of A matter, which take %.3g GB, and there is memory for "+
			"%.3g GB of columns: give more memory, or a larger weight", needed, float64(must)/1e9,
			float64(s.Task.Options.Columns)/1e9)
	}
	if w.columns != nil && w.served < fewAhead {
		w.wanted = min(2*len(w.set), len(b)/mostColumnIn)
	}
	w.drop()
	w.served = 0
	w.set = here.closure(restrict.Strongest(pulls, max(s.least, len(b)/oneColumnIn, columnsPerActive*active,
		w.wanted)))
	w.set, w.bound = here.whole(fitting(pulls, w.set, a.ColumnBytes, s.Task.Options.Columns)), nil
	if seen != nil {
		w.set = s.shared.around(dev, s.Task.Family, w.set, seen.onPath(w.set))
		w.within = seen.within(w.set)
	}
	clear(w.in)
	for _, j := range w.set {
		w.in[j] = true
	}
	if len(w.set) == 0 {
		w.set = here.closure([]int{0}) // b = 0 is the solution: any set will do
		for _, j := range w.set {
			w.in[j] = true
		}
	}
	at := space.Coordinates(dev, len(b), w.set)
	read := func() (*sharedColumns, error) {
		op, err := a.Columns(ctx, dev, at)
		if err != nil {
			at.Release()
			return nil, err
		}
		c := &sharedColumns{Restricted: op, dev: dev, set: at}
		c.all.hold()
		return c, nil
	}
	if w.columns, err = s.shared.columns(dev, s.Task.Family, at, len(w.set) == len(b), read); err != nil {
		return err
	}
	w.pool = w.columns.lend()
	w.restart()
	return dev.Err()
}

// neededColumns are the bytes and the number of the columns without which no set will do: those of
// infinite pull, and, where others violate their conditions, the least of these.
func neededColumns(pulls []float64, size func(j int) int64) (bytes int64, n int) {
	least := int64(-1)
	for j, v := range pulls {
		switch {
		case math.IsInf(v, 1):
			bytes += size(j)
			n++
		case v == math.MaxFloat64 && (least < 0 || size(j) < least):
			least = size(j)
		}
	}
	if least >= 0 {
		bytes += least
		n++
	}
	return bytes, n
}

// fitting are the columns of largest pull of a set, in increasing order, as many as fit into so many
// bytes, at least one.
func fitting(pulls []float64, set []int, size func(j int) int64, bytes int64) []int {
	all := int64(0)
	for _, j := range set {
		all += size(j)
	}
	if all <= bytes {
		return set
	}
	slices.SortStableFunc(set, func(i, j int) int { return cmp.Compare(pulls[j], pulls[i]) })
	for n, j := range set {
		if bytes -= size(j); bytes < 0 {
			set = set[:max(n, 1)]
			break
		}
	}
	slices.Sort(set)
	return set
}

func (w *screening) restart() {
	w.path.Release()
	w.inner, w.must = new(engine.Family), nil
}
