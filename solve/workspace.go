package solve

import (
	"context"
	"slices"

	"surepipe/array"
	"surepipe/progress"
	"surepipe/solve/internal/faces"
)

// workspace is what active sets know of the coordinates that matter: the working set, its columns,
// its Gram matrix and the factor of the active part, and the point where they have come to. A Path
// carries it from one solve to the next.
type workspace struct {
	kin *family
	y   []float64 // the observations

	hostB, hostZ, hostG []float64 // b, A b - y, and the gradient A*(A b - y)

	norm   float64 // a lower bound of ||A||
	normed int     // active coordinates when it was last computed
	place  []int   // of coordinates in the working set, -1 outside
	set    []int   // the working set, in the order in which it grew
	parts  parts
	p      faces.Program
}

func newWorkspace(kin *family, d, dim int) *workspace {
	w := &workspace{kin: kin, hostB: make([]float64, dim), hostZ: make([]float64, d), hostG: make([]float64, dim), place: make([]int, dim)}
	for j := range w.place {
		w.place[j] = -1
	}
	w.p.Cut = dependent * float64(max(d, 32)) * epsilon
	return w
}

func (w *workspace) release() { w.parts.release() }

// idleShare of the working set, and idleLeast coordinates more, may be inactive: a larger one is
// given up, and the solve starts from b.
const (
	idleShare = 2
	idleLeast = 512
)

// resume returns the workspace that the path holds for solves of this family at y, or at any y of a
// family that moves; nil where it holds none.
func resume(path *Path, kin *family, y array.Batch) *workspace {
	kept := path.take()
	if kept == nil {
		return nil
	}
	w, ok := kept.(*workspace)
	if ok && w.kin == kin && len(w.set) <= idleShare*len(w.p.Active())+idleLeast && (kin.moves || slices.Equal(w.y, y.ToHost())) {
		return w
	}
	kept.release()
	return nil
}

// penalty is that of some coordinates.
func (s *activeSet) penalty(set []int) (weights, squares []float64, positive []bool) {
	for _, j := range set {
		weights, squares, positive = append(weights, s.w[j]), append(squares, s.q[j]), append(positive, s.positive[j])
	}
	return weights, squares, positive
}

// extend adds coordinates to the working set, with their rows of the Gram matrix.
func (n *newton) extend(ctx context.Context, set []int) error {
	all := len(n.set) + len(set)
	for len(set) > 0 {
		some := set[:min(columnBlock, len(set))]
		set = set[len(some):]
		at := len(n.set)
		var grad []float64
		for i, j := range some {
			n.place[j] = at + i
			grad = append(grad, n.hostG[j])
		}
		w, q, positive := n.s.penalty(some)
		n.set = append(n.set, some...)
		n.p.Extend(w, q, positive, grad)
		n.report(progress.Report{Stage: progress.Gram, Step: at, Steps: all})
		err := n.parts.join(ctx, n.dev, n.s.s.p.A, some, n.place, func(i, j int, v float64) {
			if j <= i {
				n.p.Set(i, j, v)
			}
		})
		if err != nil {
			return err
		}
		n.p.Ready()
	}
	return nil
}
