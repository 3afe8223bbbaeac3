package active

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/solve/engine"
	"surepipe/solve/internal/faces"
	"surepipe/solve/restrict"
)

// workspace is what active sets know of the coordinates that matter: the working set, its columns,
// its Gram matrix and the factor of the active part, and the point where they have come to. A Path
// carries it from one solve to the next.
type workspace struct {
	family *engine.Family
	y      []float64 // the observations

	hostB, hostZ, hostG []float64 // b, A b - y, and the gradient A*(A b - y)

	norm   float64 // a lower bound of ||A||
	normed int     // active coordinates when it was last computed
	place  []int   // of coordinates in the working set, -1 outside
	set    []int   // the working set, in the order in which it grew
	parts  *restrict.Parts
	pool   *pool // whose the parts are; nil for its own
	tall   *tall // nil where not all columns are known
	p      program
	at     *faces.Point // of p

	separate *faces.Program // p for a sum over coordinates, else nil
}

type program interface {
	// Here is its point, the same at every call.
	Here() *faces.Point
	// Active and IsActive say which places of the working set are not 0, in the order of the factor,
	// and Gram is a row of the Gram matrix.
	Active() []int
	IsActive(i int) bool
	Gram(i int) []float64
	// Extend, Set and Ready add coordinates, Start sets a point, and Reweight another penalty.
	Extend(more faces.Penalty, grad []float64)
	Set(i, j int, v float64)
	Ready()
	Start(b []float64)
	Reweight(to faces.Penalty) (moved bool)
	Minimize(ctx context.Context, stepped func(), most int) (changed bool, err error)
	// Stationarity, Decrement and Norm measure the point and the active part of the Gram matrix.
	Stationarity() float64
	Decrement() (off float64, same bool)
	Norm(products int) float64
	// Condition, Traces, SolveEach and Half use the factor of the active part.
	Condition() float64
	Traces() (trace, frobenius2 float64, projection bool)
	SolveEach(x []float64, k int)
	Half(x []float64, k int) blas64.General
}

func newWorkspace(family *engine.Family, s *splitting, d, dim, outcomes int) *workspace {
	w := &workspace{family: family, hostB: make([]float64, dim), hostZ: make([]float64, d), hostG: make([]float64, dim),
		place: make([]int, dim), parts: new(restrict.Parts)}
	for j := range w.place {
		w.place[j] = -1
	}
	if s.owner != nil {
		w.p = new(faces.Groups)
	} else {
		w.separate = new(faces.Program)
		w.p = w.separate
	}
	w.at = w.p.Here()
	w.at.Outcomes = outcomes
	w.at.Cut = dependent * float64(max(d, 32)) * engine.Epsilon
	return w
}

// columns are those of which so many coordinates are the outcomes.
func (w *workspace) columns(coordinates int) int { return coordinates / w.at.Outcomes }

func (w *workspace) Release() {
	if w.tall != nil {
		w.tall.release()
		return
	}
	if w.pool == nil {
		w.parts.Release()
	}
}

// goOn is what goes on in the place of w, which keeps its point, its factor and its columns. It is nil for groups.
func (w *workspace) goOn() *workspace {
	if w.separate == nil {
		return nil
	}
	c := *w
	c.place, c.set, c.parts = slices.Clone(w.place), slices.Clip(w.set), w.parts.Shared()
	c.separate = w.separate.Clone()
	c.p, c.at = c.separate, c.separate.Here()
	w.hostB, w.hostZ, w.hostG = nil, nil, nil
	return &c
}

// idleShare of the working set, and idleLeast coordinates more, may be inactive: a larger one is
// given up, and the solve starts from b.
const (
	idleShare = 2
	idleLeast = 512
)

// resume returns the workspace that the path holds for solves of this family at y, or at any y of a
// family that moves; nil where it holds none.
func resume(path *engine.Path, family *engine.Family, y array.Batch) *workspace {
	kept := path.Take()
	if kept == nil {
		return nil
	}
	w, ok := kept.(*workspace)
	if ok && w.family == family && len(w.set) <= idleShare*len(w.p.Active())+idleLeast &&
		(family.Moves || slices.Equal(w.y, y.Read())) {
		return w
	}
	kept.Release()
	return nil
}

// extend adds coordinates of a problem to the working set, with their rows of the Gram matrix. It
// holds all of a group or none.
func (w *workspace) extend(ctx context.Context, dev array.Device, a *activeSet, set []int) error {
	report := progress.From(ctx)
	all := len(w.set) + len(set)
	w.at.Reserve(all)
	for len(set) > 0 {
		some := set[:min(restrict.ColumnBlock*w.at.Outcomes, len(set))]
		set = set[len(some):]
		at := len(w.set)
		var grad []float64
		for i, j := range some {
			w.place[j] = at + i
			grad = append(grad, w.hostG[j])
		}
		w.set = append(w.set, some...)
		w.p.Extend(a.of(some), grad)
		report(progress.Report{Stage: progress.Gram, Step: at, Steps: all})
		entry := func(i, j int, v float64) {
			if j <= i {
				w.p.Set(i, j, v)
			}
		}
		var err error
		switch {
		case w.tall != nil:
			w.tall.join(some, w.place, entry)
		case w.pool != nil:
			err = w.pool.join(ctx, dev, a.Task.Problem.A, some, w.set, w.place, w.at.Outcomes, entry)
		default:
			err = w.parts.Join(ctx, dev, a.Task.Problem.A, some, w.place, w.at.Outcomes, entry)
		}
		if err != nil {
			return err
		}
		w.p.Ready()
	}
	return nil
}

// productOf is a product with columns or with their adjoint.
type productOf func(columns linops.Operator, dst, x array.Batch)

func (w *workspace) forward(dst array.Batch, x []float64, product productOf) {
	dev, k, n := dst.Device(), dst.K(), len(w.set)
	dev.Fill(dst, 0)
	image := dev.Alloc(k, dst.N())
	defer image.Free()
	for _, c := range *w.parts {
		b := make([]float64, 0, k*len(c.Set))
		zero := true
		for i := range k {
			for _, j := range c.Set {
				v := 0.0
				if at := w.place[j]; at >= 0 {
					v = x[i*n+at]
				}
				b, zero = append(b, v), zero && v == 0
			}
		}
		if zero {
			continue
		}
		part := dev.Put(b, k, len(c.Set))
		product(c.A, image, part)
		part.Free()
		dev.Lin(dst, 1, dst, 1, image)
	}
}

func (w *workspace) adjoint(x []float64, z array.Batch, product productOf) {
	w.gather(x, z.K(), func(c *restrict.Columns) []float64 { return adjoint(c, z, product) })
}

func adjoint(c *restrict.Columns, z array.Batch, product productOf) []float64 {
	out := z.Device().Alloc(z.K(), len(c.Set))
	defer out.Free()
	product(c.A, out, z)
	return out.ToHost()
}

// gather sets x to k vectors on the working set, of those on the columns of each part.
func (w *workspace) gather(x []float64, k int, of func(*restrict.Columns) []float64) {
	n := len(w.set)
	for _, c := range *w.parts {
		values := of(c)
		for i := range k {
			for col, j := range c.Set {
				if at := w.place[j]; at >= 0 {
					x[i*n+at] = values[i*len(c.Set)+col]
				}
			}
		}
	}
}
