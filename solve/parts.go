package solve

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/space"
)

// columns are the columns of A at an increasing set of coordinates.
type columns struct {
	*confined
	set []int
}

// columnsOf takes columns of A, by products where A has no way of its own.
func columnsOf(dev array.Device, a linops.Operator, set []int) *columns {
	if c := confine(dev, a, set); c != nil {
		return &columns{c, set}
	}
	_, dim := a.Dims()
	t := space.Coordinates(dev, dim, set)
	op, _ := linops.On(dev, a, t)
	return &columns{&confined{Problem: Problem{A: op, Device: dev}, op: op, set: t}, set}
}

// parts are columns of A that have come a few at a time.
type parts []*columns

func (p *parts) release() {
	for _, c := range *p {
		c.release()
	}
	*p = nil
}

// join adds the columns at an increasing set of coordinates. It hands out their inner products v
// with all columns so far, and with each other: <a_k, a_l> as entry place[k], place[l], for k in
// the set.
func (p *parts) join(ctx context.Context, dev array.Device, a linops.Operator, set, place []int, entry func(i, j int, v float64)) error {
	k := len(set)
	c := columnsOf(dev, a, set)
	*p = append(*p, c)
	products, free := linops.Products(dev, c.A)
	defer free()
	report := progress.From(ctx)
	for i, other := range *p {
		if err := ctx.Err(); err != nil {
			return err
		}
		report(progress.Report{Stage: progress.Gram, Step: i, Steps: len(*p)})
		out := dev.Alloc(k, len(other.set))
		products(out, other.A)
		values := out.ToHost()
		for i, row := range set {
			for j, col := range other.set {
				entry(place[row], place[col], values[i*len(other.set)+j])
			}
		}
		out.Free()
	}
	p.merge(dev, a)
	return nil
}

// widestPart is the number of columns up to which parts are merged.
const widestPart = columnBlock

// merge makes one part of the last two where these are of similar size, again and again: products
// with few wide parts are faster than with many narrow ones, and every column is copied a
// logarithmic number of times. Parts that are wide already gain nothing.
func (p *parts) merge(dev array.Device, a linops.Operator) {
	for k := len(*p); k >= 2 && len((*p)[k-2].set) <= 2*len((*p)[k-1].set) && len((*p)[k-2].set)+len((*p)[k-1].set) <= widestPart; k = len(*p) {
		left, right := (*p)[k-2], (*p)[k-1]
		*p = (*p)[:k-2]
		set := slices.Concat(left.set, right.set)
		slices.Sort(set)
		left.release()
		right.release()
		*p = append(*p, columnsOf(dev, a, set))
	}
}

// diagonalRows is the number of observations whose leverages are computed at a time.
const diagonalRows = 256

// diagonal is that of A_S (A_S* A_S + Q)^{-1} A_S* for the active set S, the squared norms of the rows
// of A_S R^{-1} with the solver's own factor R; nil where the columns are not held as matrices any
// more.
func (w *workspace) diagonal() []float64 {
	if !w.stored() {
		return nil
	}
	n, at := len(w.p.Active()), w.activePlaces()
	d, _ := w.parts[0].A.Dims()
	var out, values []float64
	x := make([]float64, diagonalRows*n)
	for from := 0; from < d; from += diagonalRows {
		k := min(diagonalRows, d-from)
		for _, c := range w.parts {
			m := len(c.set)
			values = slices.Grow(values[:0], k*m)[:k*m]
			rows := linops.StructureOf(c.A).Stored.Rows(from, from+k)
			rows.Device().Download(values, rows)
			for col, j := range c.set {
				if s, ok := at[j]; ok {
					for i := range k {
						x[i*n+s] = values[i*m+col]
					}
				}
			}
		}
		out = append(out, w.p.FormEach(x[:k*n], k)...)
	}
	return out
}

// stored reports whether the columns are held as matrices.
func (w *workspace) stored() bool {
	return len(w.parts) > 0 && !slices.ContainsFunc(w.parts, func(c *columns) bool { return linops.StructureOf(c.A).Stored.IsZero() })
}

// activePlaces maps the active coordinates to their places among them.
func (w *workspace) activePlaces() map[int]int {
	active := w.p.Active()
	at := make(map[int]int, len(active))
	for s, i := range active {
		at[w.set[i]] = s
	}
	return at
}

// correlations are A_S* v_i for the active set S, k x n, and false where the columns are not held any
// more.
func (w *workspace) correlations(v array.Batch) (x []float64, ok bool) {
	active := w.p.Active()
	if len(w.parts) == 0 && len(active) > 0 {
		return nil, false
	}
	dev, k, n, at := v.Device(), v.K(), len(active), w.activePlaces()
	x = make([]float64, k*n)
	for _, c := range w.parts {
		out := dev.Alloc(k, len(c.set))
		c.A.Adjoint(out, v)
		values := out.ToHost()
		out.Free()
		for col, j := range c.set {
			if s, ok := at[j]; ok {
				for i := range k {
					x[i*n+s] = values[i*len(c.set)+col]
				}
			}
		}
	}
	return x, true
}

// products are <v_i, D mu_hat v_j>, k x k, by the same factor; nil where it has gone.
func (w *workspace) products(v array.Batch) []float64 {
	x, ok := w.correlations(v)
	if !ok {
		return nil
	}
	k, n := v.K(), len(w.p.Active())
	square := make([]float64, k*k)
	if n == 0 {
		return square
	}
	solved := slices.Clone(x)
	w.p.SolveEach(solved, k)
	mat.NewDense(k, k, square).Mul(mat.NewDense(k, n, x), mat.NewDense(k, n, solved).T())
	return square
}

// images sets dst_i = A_S (A_S* A_S + Q)^{-1} A_S* v_i for the active set S, from the solver's own
// factor. It reports false, and does nothing, where the columns are not held any more.
func (w *workspace) images(dst, v array.Batch) bool {
	x, ok := w.correlations(v)
	if !ok {
		return false
	}
	dev, k, n, at := v.Device(), v.K(), len(w.p.Active()), w.activePlaces()
	w.p.SolveEach(x, k)
	dev.Fill(dst, 0)
	image := dev.Alloc(k, dst.N())
	defer image.Free()
	for _, c := range w.parts {
		values := make([]float64, k*len(c.set))
		for col, j := range c.set {
			if s, ok := at[j]; ok {
				for i := range k {
					values[i*len(c.set)+col] = x[i*n+s]
				}
			}
		}
		in := dev.Alloc(k, len(c.set))
		dev.Upload(in, values)
		c.A.Forward(image, in)
		in.Free()
		dev.Lin(dst, 1, dst, 1, image)
	}
	return true
}
