package active

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/linops"
	"surepipe/solve/engine"
	"surepipe/solve/restrict"
)

// tall is what active sets know in advance where A has many more rows than columns: all columns with their Gram matrix
// G. Gradients on the way are then G b - A*y, without products with A.
type tall struct {
	*allColumns
	pull  []float64 // -A*y
	norm2 float64   // ||y||^2
}

// Tall reports that the Gram matrix of all columns serves active sets.
func Tall(s *engine.Task) bool { return OnFaces(s) && !s.Family.Moves && manyRows(s.Problem.A) }

// NewTall shares the Gram matrix with all solvers of the family, and of other problems with the same A.
func NewTall(ctx context.Context, s engine.Task) (engine.Solver, error) {
	return kept[allColumns](&s).solver(ctx, s)
}

// kept is what solvers of a family, or of several problems with the same A, share.
func kept[T any](s *engine.Task) *T {
	fresh := func() any { return new(T) }
	if shared := linops.StructureOf(s.Problem.A).Shared; shared != nil {
		return shared((*T)(nil), fresh).(*T)
	}
	return s.Family.Kept(fresh).(*T)
}

func (a *allColumns) solver(_ context.Context, s engine.Task) (engine.Solver, error) {
	by := newActiveSet(s)
	by.all = a.hold()
	return by, nil
}

// byGram sets the gradient and the norm of A b - y by the Gram matrix. It reports false, and does nothing, where there
// is none, or its rounding errors are not small beside what the solve resolves.
func (n *newton) byGram() bool {
	t := n.tall
	if t == nil {
		return false
	}
	g := make([]float64, len(t.pull))
	size := t.gradient(g, t.pull, n.set, n.at.B)
	left := t.norm2 + floats.Dot(n.hostB, t.pull) + floats.Dot(n.hostB, g)
	if !(left > 0) {
		return false
	}
	floor := max(n.at.Floor, n.floor(math.Sqrt(left), floats.Norm(n.hostB, 2))) // the former is 0 at first
	if engine.Epsilon*math.Sqrt(float64(n.y.N()))*size > floor {
		return false
	}
	copy(n.hostG, g)
	n.dev.Upload(n.g, g)
	n.zNorm, n.behind = math.Sqrt(left), true
	return true
}

// know takes all columns, where they serve, or those that are shared.
func (w *workspace) know(ctx context.Context, a *activeSet) error {
	if w.pool = a.pool; w.pool != nil {
		w.parts = &w.pool.parts
	}
	if a.all == nil {
		return nil
	}
	part, err := a.all.columns(ctx, a.Task.Problem)
	if part != nil {
		w.parts, w.tall = &restrict.Parts{part}, &tall{allColumns: a.all.hold()}
	}
	return err
}

// at0 is the gradient at b = 0, for y of the given norm: computed, unless it is known.
func (t *tall) at0(y []float64, norm float64, compute func() []float64) []float64 {
	if t == nil {
		return compute()
	}
	t.norm2 = norm * norm
	if t.pull = t.start(y); t.pull == nil {
		t.pull = compute() // without the lock: problems that share A may wait for each other
		t.began(y, t.pull)
	}
	return t.pull
}

// join is [restrict.Parts.Join] where all columns are known.
func (t *tall) join(set, place []int, entry func(i, j int, v float64)) {
	for _, k := range set {
		row := t.row(k)
		for j, at := range place {
			if at >= 0 {
				entry(place[k], at, row[j])
			}
		}
	}
}
