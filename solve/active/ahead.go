package active

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// several solves with several regularizers, along a path that begins at start, and returns their b, A b - y, and the
// gradients, nil where they are not known: one product reads the columns for all.
func (a *allColumns) several(ctx context.Context, s engine.Task, y array.Batch, rs []prox.Prox, start array.Batch,
	path *engine.Path) (b, z array.Batch, slopes [][]float64, err error) {
	part, err := a.columns(ctx, s.Problem)
	if err != nil {
		return b, z, nil, err
	}
	dev := y.Device()
	d, p := s.Problem.A.Dims()
	b, z = dev.Alloc(len(rs), p), dev.Alloc(len(rs), d)
	s.Options.Point = false
	for i, r := range rs {
		s.Problem.R = r
		slope, err := a.blind(ctx, s, y, b.Rows(i, i+1), engine.From{B: start, Path: path})
		if err != nil {
			array.Free(b, z)
			return array.Batch{}, array.Batch{}, nil, err
		}
		start, slopes = b.Rows(i, i+1), append(slopes, slope)
	}
	part.A.Forward(z, b)
	for i := range rs {
		dev.Lin(z.Rows(i, i+1), 1, z.Rows(i, i+1), -1, y)
	}
	return b, z, slopes, dev.Err()
}

// blind sets b to the solution, without A b, and returns the gradient there, nil where that is not known.
func (a *allColumns) blind(ctx context.Context, s engine.Task, y, b array.Batch, from engine.From) ([]float64, error) {
	by := newActiveSet(s)
	by.all, by.blind, by.slope = a.hold(), true, new([]float64)
	defer by.Release()
	sol, err := by.Solve(ctx, y, from)
	if err != nil {
		return nil, err
	}
	defer sol.Release()
	y.Device().Copy(b, sol.B)
	return *by.slope, nil
}

// jump goes to the solution found in advance where its gradient is known, without a product with A. It reports whether
// it does. The workspace is given up where it cannot have the point.
func (n *newton) jump(ctx context.Context) (bool, error) {
	t := n.twin
	if t == nil || t.slope == nil || n.separate == nil {
		return false, nil
	}
	copy(n.hostG, t.slope)
	var missing []int
	for j, v := range t.b {
		if v != 0 && n.place[j] < 0 {
			missing = append(missing, j)
		}
	}
	if err := n.workspace.extend(ctx, n.dev, n.s, missing); err != nil {
		return false, err
	}
	if !n.separate.Move(lists.Pick(t.b, n.set), lists.Pick(t.slope, n.set)) {
		n.workspace.Release()
		n.workspace = nil
		return false, nil
	}
	copy(n.hostB, t.b)
	copy(n.hostZ, t.z)
	n.dev.Upload(n.b, t.b)
	n.dev.Upload(n.z, t.z)
	n.dev.Upload(n.g, t.slope)
	n.zNorm = engine.Norm(n.z)
	n.norm = max(n.norm, engine.Relative(engine.Norm(n.g), n.zNorm))
	return true, n.dev.Err()
}

// known reports that A b - y is that of a solution found in advance, up to rounding errors.
func (n *newton) known() bool {
	if n.twin == nil || n.tall == nil {
		return false
	}
	moved, size := 0.0, 0.0
	for j, l := range n.tall.norms {
		moved, size = moved+l*math.Abs(n.hostB[j]-n.twin.b[j]), size+l*math.Abs(n.hostB[j])
	}
	return moved <= engine.Epsilon*math.Sqrt(float64(n.y.N()))*size
}

// tall reports that the Gram matrix of the columns in memory serves: they may be sparse, or have their means taken off.
func (s *screened) tall(ctx context.Context, w *screening) (bool, error) {
	if s.Task.Problem.Loss != nil || !manyRows(w.columns) {
		return false, nil
	}
	part, err := w.columns.all.columns(ctx, engine.Problem{A: w.columns, Device: w.columns.dev})
	return part != nil, err
}

func (s *screened) solveTall(ctx context.Context, w *screening, t *together, y, start array.Batch, steps []step,
	path *engine.Path) error {
	var inner engine.Task
	var rs []prox.Prox
	defer func() {
		for _, r := range rs {
			prox.Release(r)
		}
	}()
	for _, at := range steps {
		task, err := s.inner(w, at.r, false)
		if err != nil {
			return err
		}
		inner, rs = task, append(rs, task.Problem.R)
	}
	b, z, slopes, err := w.columns.all.several(ctx, inner, y, rs, start, path)
	if err != nil {
		return err
	}
	defer array.Free(b, z)
	for i := range steps {
		t.b[i] = y.Device().Alloc(1, len(w.set))
		y.Device().Copy(t.b[i], b.Rows(i, i+1))
		t.at[i] = &verified{b: t.b[i].ToHost(), z: z.Rows(i, i+1).ToHost(), slope: slopes[i]}
	}
	return s.findGradients(ctx, w, t, z, steps)
}
